// What a group's items compute for each other lies in local memory; so does what one item keeps for
// itself, where it is too much for registers and the item is alone in its group.
#include "src/lower/simt/lower_simt.h"

#include <algorithm>

#include "schedules/legality.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/kernel/groups.h"
#include "src/kernel/ops.h"
#include "src/lower/hoist.h"
#include "src/lower/simt/barriers.h"
#include "src/lower/tiles/pipeline.h"

namespace lw::lowering {
namespace {

int64_t bytes_of(const Buffer& buffer) {
  return aligned_bytes(buffer.elements * size_of(buffer.type));
}

void mark_buffers(const std::vector<Stmt>& list, std::vector<bool>& used) {
  for (const Stmt& s : list) {
    visit_buffers(s, [&](int buffer, bool) { used[buffer] = true; });
    mark_buffers(s.body, used);
    mark_buffers(s.otherwise, used);
  }
}

std::vector<bool> used_in(const Kernel& kernel, const Stmt& launch) {
  std::vector<bool> used(kernel.buffers.size(), false);
  mark_buffers(launch.body, used);
  return used;
}

// Of what an item keeps for itself, what is too much for registers.
void move_to_local(Kernel& kernel, const std::vector<bool>& used, const SimtTarget& target) {
  int64_t held = 0;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    Buffer& buffer = kernel.buffers[b];
    if (buffer.scope != Scope::kPrivate || !used[b]) continue;
    held += bytes_of(buffer);
    if (held <= target.register_bytes) continue;
    buffer.scope = Scope::kManaged;
    buffer.memory = kLocalMemory;
  }
}

// Of several items each has its own.
absl::Status check_private(const Kernel& kernel, const std::vector<bool>& used,
                           const SimtTarget& target) {
  int64_t bytes = 0;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const Buffer& buffer = kernel.buffers[b];
    if (buffer.scope == Scope::kPrivate && used[b]) bytes += bytes_of(buffer);
  }
  if (bytes <= kPrivateRegisters * target.register_bytes) return absl::OkStatus();
  return infeasible(concat("each item of a group needs ", bytes, " bytes of private memory"));
}

// Of a group of several sub-groups each has its own rows, of all that stands at the group's loop; and
// of these the items of each have their parts, or all of them would store the same.
absl::Status check_dealt(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage &stage = nest.stages[s], &root = nest.stages[root_of(nest, s)];
    const auto dealt = std::count_if(stage.loops.begin(), stage.loops.end(), [](const Loop& loop) {
      return loop.kind == LoopKind::kItem;
    });
    if (stage.place == Place::kRoot && has_several_sub_groups(stage) && stage.matrix < 0 &&
        dealt < 2) {
      return infeasible(concat("the items of a sub-group all compute the same of ", stage.name));
    }
    if (!has_several_sub_groups(root) || stage.place != Place::kAt || stage.copy_of >= 0) continue;
    if (!has_items(stage)) return infeasible(concat(stage.name, " is dealt to no sub-groups"));
  }
  return absl::OkStatus();
}

// Registers are exchanged by sub-groups as the target has them.
bool exchanges_elsewhere(const std::vector<Stmt>& list, int sub_group) {
  return std::any_of(list.begin(), list.end(), [&](const Stmt& s) {
    const bool across = s.kind == Stmt::Kind::kOp && s.op == Op::kAcross;
    return (across && s.integer != 1 && s.integer != sub_group) ||
           exchanges_elsewhere(s.body, sub_group) || exchanges_elsewhere(s.otherwise, sub_group);
  });
}

// Each launch has all of local memory: what different ones use may lie at the same place.
// `used`: the buffers of each.
void place_local(Kernel& kernel, const std::vector<std::vector<bool>>& used) {
  std::vector<int64_t> ends(used.size(), 0);
  int64_t most = 0;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    Buffer& buffer = kernel.buffers[b];
    if (buffer.scope != Scope::kManaged) continue;
    buffer.offset = 0;
    for (size_t n = 0; n < ends.size(); ++n) {
      if (used[n][b]) buffer.offset = std::max(buffer.offset, ends[n]);
    }
    if (buffer.swizzled) buffer.offset = (buffer.offset + kSwizzle - 1) / kSwizzle * kSwizzle;
    for (size_t n = 0; n < ends.size(); ++n) {
      if (used[n][b]) ends[n] = buffer.offset + bytes_of(buffer);
    }
    most = std::max(most, buffer.offset + bytes_of(buffer));
  }
  if (most > 0) kernel.managed_bytes[kLocalMemory] = most;
}

}  // namespace

absl::StatusOr<Kernel> lower_simt(const Nest& nest, const LowerOptions& options) {
  const SimtTarget& target = simt(*nest.target);
  RETURN_IF_ERROR(check_dealt(nest));
  LowerOptions own = options;
  own.async_copies = target.async_copies;
  ASSIGN_OR_RETURN(Kernel kernel, lower_tiles(nest, own));
  hoist(kernel);
  std::vector<std::vector<bool>> used;     // by each launch
  for (const Stmt& launch : kernel.body) {
    used.push_back(used_in(kernel, launch));
    if (launch.items > 1) RETURN_IF_ERROR(check_private(kernel, used.back(), target));
    else move_to_local(kernel, used.back(), target);
  }
  RETURN_IF_ERROR(lay_out_workspace(kernel, options));
  place_local(kernel, used);
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
