#include "schedules/copy_bytes.h"

#include <algorithm>

#include "schedules/access.h"
#include "schedules/legality.h"
#include "schedules/targets/family.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

constexpr int64_t kAlignment = 64;         // of buffers

int64_t copy_bytes(const Nest& nest, int stage, const Stage& copy,
                   const std::vector<int64_t>& extents) {
  const Tensor& tensor = nest.program->tensors[copy.copy_of];
  const std::vector<int64_t> box = read_box(nest, stage, copy.copy_of, extents);
  int64_t bytes = copy.wide ? size_of(Type::kF32) : size_of(tensor.type);
  for (const int64_t n : box) bytes *= n;
  if (copy.pad > 0 && !box.empty()) {
    const int64_t row = copy.block > 0 ? copy.block : box.back();
    bytes += (bytes + row - 1) / row * copy.pad;
  }
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Points of the axes that all of a group's items together have at the copy's loop.
std::vector<int64_t> group_extents(const Stage& s, const Stage& copy) {
  std::vector<int64_t> extents = inner_extents(s, find_loop(s, copy.loop) + 1);
  for (int l = 0; l < static_cast<int>(s.loops.size()); ++l) {
    if (s.loops[l].kind != LoopKind::kItem) continue;
    const std::vector<int64_t> all = inner_extents(s, l);
    for (const LoopPart& part : s.loops[l].parts) {
      extents[part.axis] = std::max(extents[part.axis], all[part.axis]);
    }
  }
  return extents;
}

}  // namespace

int64_t item_copy_bytes(const Nest& nest, int stage, const Stage& copy) {
  const Stage& s = nest.stages[stage];
  return copy_bytes(nest, stage, copy, inner_extents(s, find_loop(s, copy.loop) + 1));
}

int64_t group_copy_bytes(const Nest& nest, int stage, const Stage& copy) {
  return copy_bytes(nest, stage, copy, group_extents(nest.stages[stage], copy));
}

std::vector<int64_t> group_copy_box(const Nest& nest, int stage, const Stage& copy) {
  return read_box(nest, stage, copy.copy_of, group_extents(nest.stages[stage], copy));
}

int64_t copies_bytes(const Nest& nest, int host, bool shared) {
  int64_t bytes = 0;
  for (const Stage& copy : nest.stages) {
    const bool here = copy.place == Place::kAt && copy.copy_of >= 0 && copy.host == host;
    if (!here || (copy.memory >= 0) != shared) continue;
    bytes += shared ? group_copy_bytes(nest, host, copy) * copy.slots
                    : item_copy_bytes(nest, host, copy);
  }
  return bytes;
}

bool copy_fits(const Nest& nest, int stage, int tensor, int depth, bool wide) {
  const RegisterFile file = register_file(*nest.target);
  if (file.copies == 0) return true;
  const Stage& s = nest.stages[stage];
  Stage copy;
  copy.copy_of = tensor;
  copy.wide = wide;
  copy.loop = s.loops[depth - 1].name;
  const bool company = has_items(s);
  const int64_t own = item_copy_bytes(nest, stage, copy) + copies_bytes(nest, stage, false);
  if (own <= (company ? file.own_copies : file.copies)) return true;
  return company && s.place == Place::kRoot && check_group_reads(s, depth - 1).ok() &&
         group_copy_bytes(nest, stage, copy) + copies_bytes(nest, stage, true) <= file.copies;
}

}  // namespace lw
