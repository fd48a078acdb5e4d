// Registers that an item has for a tile, and a group of a unit's: what steps refuse where they do not
// suffice. Internal to schedules/steps/simt. Pure.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/nest.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/message.h"

namespace lw {

// Points of the stage's tile that it keeps.
inline int64_t tile_points(const Stage& stage) {
  int64_t points = 1;
  for (int l = tile_begin(stage); l < static_cast<int>(stage.loops.size()); ++l) {
    if (!is_reduction(stage, stage.loops[l])) points *= trips(stage, l);
  }
  return points;
}

// Of a loop that items share, over all of the region that the stage computes.
inline int64_t shared_iterations(const Nest& nest, int stage, const Loop& loop) {
  const std::vector<int64_t> region = region_extents(nest, stage);
  int64_t iterations = 1;
  for (const LoopPart& part : loop.parts) {
    iterations *= (region[part.axis] + part.tile - 1) / part.tile;
  }
  return iterations;
}

// Whether a unit has registers for a group of so many items, of so many bytes each.
inline absl::Status check_group_registers(const SimtTarget& target, int64_t items,
                                          int64_t item_bytes) {
  const int64_t bytes = register_items(target, items) * item_bytes;
  if (target.unit_register_bytes == 0 || bytes <= target.unit_register_bytes) {
    return absl::OkStatus();
  }
  return infeasible(concat("a group needs ", bytes, " bytes of registers, of ",
                           target.unit_register_bytes));
}

// Of a unit's registers each of a group's items has its results, what one step of a reduction reads
// for them, and addresses and counters. Tiles of matrices are looked at by the steps that make them.
inline absl::Status check_item_registers(const Nest& nest, int stage, int64_t items) {
  constexpr int64_t kOthers = 96;          // bytes
  const SimtTarget& target = simt(*nest.target);
  const Stage& s = nest.stages[stage];
  if (target.unit_register_bytes == 0 || s.matrix >= 0) return absl::OkStatus();
  int64_t read = 0;
  for (int l = tile_begin(s); l < static_cast<int>(s.loops.size()); ++l) {
    if (!is_reduction(s, s.loops[l])) read += trips(s, l);
  }
  const int64_t size = std::max(4, size_of(nest.program->tensors[s.tensor].type));
  return check_group_registers(target, items, (tile_points(s) + read) * size + kOthers);
}

}  // namespace lw
