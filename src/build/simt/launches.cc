#include "src/build/simt/launches.h"

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/kernel/ops.h"

namespace lw {

absl::Status each_launch(
    const std::vector<Stmt>& list, const std::string& word,
    const std::function<absl::Status(const LaunchedList&, SimtProgram::Launch*)>& print,
    std::vector<SimtProgram::Launch>* launches) {
  LaunchedList next;
  const auto flush = [&]() -> absl::Status {
    if (next.statements.empty()) return absl::OkStatus();
    SimtProgram::Launch& launch = launches->emplace_back();
    next.ending = concat(word, launches->size());
    RETURN_IF_ERROR(print(next, &launch));
    next.statements.clear();
    return absl::OkStatus();
  };
  for (const Stmt& s : list) {
    if (is_parallel(s)) {
      RETURN_IF_ERROR(flush());
      next.statements = {s};
      RETURN_IF_ERROR(flush());
    } else if (s.kind == Stmt::Kind::kInt && s.int_op != Stmt::IntOp::kRegister) {
      RETURN_IF_ERROR(flush());
      next.before.push_back(s);
    } else {
      next.statements.push_back(s);
    }
  }
  return flush();
}

SimtProgram program_of(const Kernel& kernel) {
  SimtProgram program;
  program.arguments.resize(kernel.arguments);
  for (const Buffer& b : kernel.buffers) {
    if (b.scope != Scope::kArgument) continue;
    program.arguments[b.slot] = {b.elements * size_of(b.type), b.written};
  }
  program.workspace_bytes = kernel.workspace_bytes;
  program.packed_bytes = kernel.packed_bytes;
  if (!kernel.managed_bytes.empty()) program.local_bytes = kernel.managed_bytes[kLocalMemory];
  return program;
}

}  // namespace lw
