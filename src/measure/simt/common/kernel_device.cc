#include "src/measure/simt/common/kernel_device.h"

#include <sys/mman.h>

namespace lw {

absl::Status check_program_arguments(const Workbench& bench, const SimtProgram& program) {
  if (program.arguments.size() != bench.arguments.size()) {
    return absl::InvalidArgumentError(concat("program of launches: ", program.arguments.size(),
                                             " arguments, of a program that has ",
                                             bench.arguments.size()));
  }
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const SimtProgram::Argument& given = program.arguments[i];
    const Argument& a = bench.arguments[i];
    if (given.bytes != a.bytes) {
      return absl::InvalidArgumentError(concat("program of launches: ", given.bytes, " bytes for ",
                                               a.name, ", which has ", a.bytes));
    }
    if (given.written != a.output) {
      return absl::InvalidArgumentError(concat("program of launches: it says that ", a.name,
                                               given.written ? " is" : " is not", " written"));
    }
  }
  const int64_t limit = bench.options.memory_limit_bytes;
  for (const int64_t bytes : {program.workspace_bytes, program.packed_bytes}) {
    if (bytes <= limit) continue;
    return absl::ResourceExhaustedError(
        concat("the kernel needs ", bytes, " bytes of workspace, the limit is ", limit));
  }
  return absl::OkStatus();
}

absl::Status protect_tensors(Workbench& bench) {
  for (Argument& a : bench.arguments) {
    if (a.output) continue;
    for (SharedMemory& memory : a.memory) {
      if (mprotect(memory.data(), static_cast<size_t>(memory.bytes()), PROT_READ) != 0) {
        return absl::UnavailableError("mprotect of the inputs");
      }
    }
  }
  for (SharedMemory& values : bench.values) values.unmap();
  return absl::OkStatus();
}

}  // namespace lw
