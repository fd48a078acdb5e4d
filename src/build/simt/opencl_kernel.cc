#include "src/build/simt/opencl_kernel.h"

#include <algorithm>

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/opencl_function.h"
#include "src/build/simt/opencl_text.h"
#include "src/kernel/groups.h"

namespace lw {
namespace {

bool uses(const Kernel& kernel, Op op) {
  return has_op(kernel.prepack, op) || has_op(kernel.body, op);
}

// Of what a device without integer dot products has, all that is needed is in 1.2.
const char* language_of(const Kernel& kernel) { return uses(kernel, Op::kDot) ? "3.0" : "1.2"; }

class Launches {
 public:
  Launches(const Kernel& kernel, const Target& target)
      : names_{kernel, target, {}, {}}, prelude_(is_processor(simt(target))) {
    std::set<std::string> taken;
    for (const Buffer& buffer : kernel.buffers) {
      names_.buffers.push_back(cl_name(buffer.name, &taken));
    }
    for (int v = 0; v < kernel.variables; ++v) names_.variables.push_back(concat("v", v));
    name_ = cl_name(kernel.name, &taken);
  }

  absl::Status add(const std::vector<Stmt>& list, bool prepack,
                        std::vector<SimtProgram::Launch>* launches) {
    std::vector<Stmt> integers, together;
    const auto flush = [&]() -> absl::Status {
      if (together.empty()) return absl::OkStatus();
      SimtProgram::Launch& launch = launches->emplace_back();
      const std::string name = concat(name_, prepack ? "_prepack_" : "_", ++count_);
      ASSIGN_OR_RETURN(const std::string text,
                       opencl_function(names_, name, integers, together, prepack, &prelude_,
                                       &launch));
      functions_ += "\n" + text;
      together.clear();
      return absl::OkStatus();
    };
    for (const Stmt& s : list) {
      if (s.kind == Stmt::Kind::kFor && s.parallel) {
        RETURN_IF_ERROR(flush());
        together = {s};
        RETURN_IF_ERROR(flush());
      } else if (s.kind == Stmt::Kind::kInt && s.int_op != Stmt::IntOp::kRegister) {
        RETURN_IF_ERROR(flush());
        integers.push_back(s);
      } else {
        together.push_back(s);
      }
    }
    return flush();
  }

  std::string source() const {
    const bool doubles = std::any_of(
        names_.kernel.registers.begin(), names_.kernel.registers.end(),
        [](const Register& r) { return r.type == Type::kF64; });
    std::string text = concat("// ", name_, ": made by Loopwright; OpenCL C ",
                              language_of(names_.kernel), ".\n");
    if (doubles) text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
    if (uses(names_.kernel, Op::kAcross)) {
      text += "#pragma OPENCL EXTENSION cl_intel_subgroups : enable\n";
    }
    return text + (prelude_.text().empty() ? "" : "\n" + prelude_.text()) + functions_;
  }

 private:
  OpenClNames names_;
  std::string name_, functions_;
  Prelude prelude_;
  int count_ = 0;
};

absl::Status check_limits(const Kernel& kernel, const SimtTarget& target) {
  const auto most = [&](std::string_view what, int64_t bytes) -> absl::Status {
    if (bytes <= target.buffer_bytes) return absl::OkStatus();
    return absl::InvalidArgumentError(concat(what, " has ", bytes, " bytes, a buffer of the ",
                                             "device ", target.buffer_bytes, " at most"));
  };
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.scope != Scope::kArgument) continue;
    RETURN_IF_ERROR(most(buffer.name, buffer.elements * size_of(buffer.type)));
  }
  RETURN_IF_ERROR(most("the workspace", kernel.workspace_bytes));
  RETURN_IF_ERROR(most("what is packed", kernel.packed_bytes));
  for (const Register& r : kernel.registers) {
    const bool vector = r.lanes >= 1 && r.lanes <= 16 && (r.lanes & (r.lanes - 1)) == 0;
    if (!vector) return absl::InvalidArgumentError(concat("no vector has ", r.lanes, " lanes"));
    if (r.type == Type::kF64 && !target.fp64) {
      return absl::InvalidArgumentError("the device computes in no f64");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SimtProgram> opencl_program(const Kernel& kernel, const Target& target) {
  const SimtTarget& t = simt(target);
  RETURN_IF_ERROR(check_limits(kernel, t));
  SimtProgram result;
  result.options = concat("-cl-std=CL", language_of(kernel));
  result.arguments.resize(kernel.arguments);
  for (const Buffer& b : kernel.buffers) {
    if (b.scope != Scope::kArgument) continue;
    result.arguments[b.slot] = {b.elements * size_of(b.type), b.written};
  }
  result.workspace_bytes = kernel.workspace_bytes;
  result.packed_bytes = kernel.packed_bytes;
  if (!kernel.managed_bytes.empty()) result.local_bytes = kernel.managed_bytes[0];
  if (result.local_bytes > t.local_bytes) {
    return absl::InvalidArgumentError(concat("a group needs ", result.local_bytes,
                                             " bytes of local memory, the device has ",
                                             t.local_bytes));
  }
  Launches launches(kernel, target);
  RETURN_IF_ERROR(launches.add(kernel.prepack, true, &result.prepack));
  RETURN_IF_ERROR(launches.add(kernel.body, false, &result.launches));
  result.source = launches.source();
  return result;
}

}  // namespace lw
