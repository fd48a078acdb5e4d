#include "src/build/simt/limits.h"

#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {

absl::Status check_simt_limits(const Kernel& kernel, const SimtTarget& target) {
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
  const int64_t local = kernel.managed_bytes.empty() ? 0 : kernel.managed_bytes[kLocalMemory];
  if (local <= target.local_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(concat("a group needs ", local,
                                           " bytes of local memory, the device has ",
                                           target.local_bytes));
}

}  // namespace lw
