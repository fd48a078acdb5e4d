// What a group's items compute for each other lies in local memory; so does what one item keeps for
// itself, where it is too much for registers and the item is alone in its group.
#include "src/lower/simt/lower_simt.h"

#include <algorithm>

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/kernel/groups.h"
#include "src/lower/simt/barriers.h"
#include "src/lower/tiles/pipeline.h"

namespace lw::lowering {
namespace {

int64_t bytes_of(const Buffer& buffer) {
  return aligned_bytes(buffer.elements * size_of(buffer.type));
}

void mark_buffers(const std::vector<Stmt>& list, std::vector<bool>& used) {
  for (const Stmt& s : list) {
    if (s.buffer >= 0) used[s.buffer] = true;
    mark_buffers(s.body, used);
    mark_buffers(s.otherwise, used);
  }
}

// Buffers that items with company use: of those each has its own.
std::vector<bool> used_in_company(const Kernel& kernel) {
  std::vector<bool> used(kernel.buffers.size(), false);
  for (const Stmt& s : kernel.body) {
    if (s.items > 1) mark_buffers(s.body, used);
  }
  return used;
}

void move_to_local(Kernel& kernel, const std::vector<bool>& in_company, const SimtTarget& target) {
  int64_t held = 0;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    Buffer& buffer = kernel.buffers[b];
    if (buffer.scope != Scope::kPrivate || in_company[b]) continue;
    held += bytes_of(buffer);
    if (held <= target.register_bytes) continue;
    buffer.scope = Scope::kManaged;
    buffer.memory = kLocalMemory;
  }
}

absl::Status check_private(const Kernel& kernel, const std::vector<bool>& in_company,
                           const SimtTarget& target) {
  int64_t bytes = 0;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const Buffer& buffer = kernel.buffers[b];
    if (buffer.scope == Scope::kPrivate && in_company[b]) bytes += bytes_of(buffer);
  }
  if (bytes <= kPrivateRegisters * target.register_bytes) return absl::OkStatus();
  return infeasible(concat("each item of a group needs ", bytes, " bytes of private memory"));
}

// Registers are exchanged by sub-groups as the target has them.
bool exchanges_elsewhere(const std::vector<Stmt>& list, int sub_group) {
  return std::any_of(list.begin(), list.end(), [&](const Stmt& s) {
    const bool across = s.kind == Stmt::Kind::kOp && s.op == Op::kAcross;
    return (across && s.integer != 1 && s.integer != sub_group) ||
           exchanges_elsewhere(s.body, sub_group) || exchanges_elsewhere(s.otherwise, sub_group);
  });
}

}  // namespace

absl::StatusOr<Kernel> lower_simt(const Nest& nest, const LowerOptions& options) {
  const SimtTarget& target = simt(*nest.target);
  ASSIGN_OR_RETURN(Kernel kernel, lower_tiles(nest, options));
  const std::vector<bool> in_company = used_in_company(kernel);
  move_to_local(kernel, in_company, target);
  RETURN_IF_ERROR(check_private(kernel, in_company, target));
  RETURN_IF_ERROR(lay_out_workspace(kernel, options));
  const int64_t local = kernel.managed_bytes.empty() ? 0 : kernel.managed_bytes[kLocalMemory];
  if (local > target.local_bytes) {
    return infeasible(concat("a group needs ", local, " bytes of local memory, of ",
                             target.local_bytes));
  }
  if (exchanges_elsewhere(kernel.body, target.sub_group)) {
    return infeasible("a group that exchanges registers is no sub-group");
  }
  RETURN_IF_ERROR(place_barriers(kernel));
  if (const std::string defect = group_defect(kernel); !defect.empty()) return infeasible(defect);
  return kernel;
}

}  // namespace lw::lowering
