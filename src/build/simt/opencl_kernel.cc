#include "src/build/simt/opencl_kernel.h"

#include <algorithm>

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/opencl_function.h"
#include "src/build/simt/launches.h"
#include "src/build/simt/limits.h"
#include "src/build/simt/opencl_text.h"
#include "src/build/simt/ranges.h"
#include "src/kernel/groups.h"

namespace lw {
namespace {

bool uses(const Kernel& kernel, Op op) {
  return has_op(kernel.prepack, op) || has_op(kernel.body, op);
}

// Of what a device without integer dot products has, all that is needed is in 1.2.
const char* language_of(const Kernel& kernel) { return uses(kernel, Op::kDot) ? "3.0" : "1.2"; }

const char* index_type_of(const Kernel& kernel) {
  constexpr int64_t kFewBytes = int64_t{1} << 31;  // that an int can address
  bool large = !words_hold(kernel);
  for (const Buffer& b : kernel.buffers) {
    large = large || b.elements * size_of(b.type) >= kFewBytes;
  }
  for (const int64_t bytes : {kernel.workspace_bytes, kernel.packed_bytes}) {
    large = large || bytes >= kFewBytes;
  }
  return large ? "long" : "int";
}

// The text of a program, function by function.
class ProgramText {
 public:
  ProgramText(const Kernel& kernel, const Target& target)
      : names_{kernel, target, {}, {}, index_type_of(kernel)}, prelude_(is_processor(simt(target))) {
    std::set<std::string> taken;
    for (const Buffer& buffer : kernel.buffers) {
      names_.buffers.push_back(cl_name(buffer.name, &taken));
    }
    for (int v = 0; v < kernel.variables; ++v) names_.variables.push_back(concat("v", v));
    name_ = cl_name(kernel.name, &taken);
  }

  absl::Status add(const std::vector<Stmt>& list, bool prepack,
                   std::vector<SimtProgram::Launch>* launches) {
    const auto print = [&](const LaunchedList& launched,
                           SimtProgram::Launch* launch) -> absl::Status {
      const std::string name = concat(name_, prepack ? "_prepack_" : "_", ++count_);
      ASSIGN_OR_RETURN(const std::string text,
                       opencl_function(names_, name, launched.before, launched.statements, prepack,
                                       &prelude_, launch));
      functions_ += "\n" + text;
      return absl::OkStatus();
    };
    return each_launch(list, "", print, launches);
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

}  // namespace

absl::StatusOr<SimtProgram> opencl_program(const Kernel& kernel, const Target& target) {
  RETURN_IF_ERROR(check_simt_limits(kernel, simt(target)));
  SimtProgram result = program_of(kernel);
  result.options = concat("-cl-std=CL", language_of(kernel));
  ProgramText text(kernel, target);
  RETURN_IF_ERROR(text.add(kernel.prepack, true, &result.prepack));
  RETURN_IF_ERROR(text.add(kernel.body, false, &result.launches));
  result.source = text.source();
  return result;
}

}  // namespace lw
