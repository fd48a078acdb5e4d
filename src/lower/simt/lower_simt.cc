// What a group's items compute for each other lies in local memory; so does what one item keeps for
// itself, where it is too much for registers and the item is alone in its group.
#include "src/lower/simt/lower_simt.h"

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/lower/tiles/pipeline.h"

namespace lw::lowering {
namespace {

int64_t bytes_of(const Buffer& buffer) { return aligned_bytes(buffer.elements * size_of(buffer.type)); }

void move_to_local(Kernel& kernel, const SimtTarget& target) {
  int64_t held = 0;
  for (Buffer& buffer : kernel.buffers) {
    if (buffer.scope != Scope::kPrivate) continue;
    held += bytes_of(buffer);
    if (held <= target.register_bytes) continue;
    buffer.scope = Scope::kManaged;
    buffer.memory = kLocalMemory;
  }
}

}  // namespace

absl::StatusOr<Kernel> lower_simt(const Nest& nest, const LowerOptions& options) {
  const SimtTarget& target = simt(*nest.target);
  ASSIGN_OR_RETURN(Kernel kernel, lower_tiles(nest, options));
  move_to_local(kernel, target);
  RETURN_IF_ERROR(lay_out_workspace(kernel, options));
  const int64_t local = kernel.managed_bytes.empty() ? 0 : kernel.managed_bytes[kLocalMemory];
  if (local > target.local_bytes) {
    return infeasible(concat("a group needs ", local, " bytes of local memory, of ",
                             target.local_bytes));
  }
  return kernel;
}

}  // namespace lw::lowering
