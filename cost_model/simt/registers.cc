// What a tile accumulates; all that it loads, which comes first as far as there is room; addresses and
// counters. Points of maps lie where what they are made of lay. Counts are ptxas 13.0's, of drawn
// schedules (bench/gpu/gate.cc).
#include "cost_model/simt/registers.h"

#include <algorithm>
#include <cmath>

#include "cost_model/simt/matrices.h"

namespace lw::cost::simt {
namespace {

constexpr double kRegisterBytes = 4;
constexpr double kOtherWords = 24;         // addresses, counters, what a value is made of
constexpr double kCopiedWords = 16;
constexpr double kAllotted = 8;            // at once

double words_of(const Nest& nest, int tensor) {
  return std::max(1.0, size_of(nest.program->tensors[tensor].type) / kRegisterBytes);
}

}  // namespace

double item_registers(const Nest& nest, const StageCost& cost) {
  const Stage& stage = nest.stages[cost.stage];
  const double* tile = cost.box_at(cost.tile);
  if (stage.matrix >= 0) return matrix_tile(nest, stage, tile).words;
  if (stage.copy_of >= 0) {                // a few vectors at once, packed
    const double words = size_of(nest.program->tensors[stage.copy_of].type) / kRegisterBytes;
    return kOtherWords + std::min(kCopiedWords, cost.rows * cost.columns * cost.lanes * words);
  }
  const double points = cost.rows * cost.columns * cost.lanes * words_of(nest, stage.tensor);
  double loaded = 0;
  for (const Access& access : cost.body.accesses) {
    if (access.epilogue) continue;
    double elements = 1;
    for (int a = 0; a < cost.axes(); ++a) {
      if ((access.axes >> (a & 63) & 1) != 0) elements *= tile[a];
    }
    loaded += elements * words_of(nest, access.tensor);
  }
  return kOtherWords + (cost.body.reduces ? points + loaded : std::max(points, loaded));
}

double most_registers(const SimtTarget& target, double items) {
  const double all = static_cast<double>(register_items(target, static_cast<int64_t>(items)));
  const double of_unit = static_cast<double>(target.unit_register_bytes) / kRegisterBytes / all;
  return std::min(static_cast<double>(target.register_bytes) / kRegisterBytes,
                  std::max(kAllotted, kAllotted * std::floor(of_unit / kAllotted)));
}

}  // namespace lw::cost::simt
