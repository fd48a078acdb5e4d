#include "src/lower/values/point.h"

#include <algorithm>
#include <cstdlib>

namespace lw::lowering {

Truth both(Registers& registers, const Truth& a, const Truth& b) {
  if (a.known == false || b.known == false) return {false, {}};
  if (a.known == true) return b;
  if (b.known == true) return a;
  return {std::nullopt, registers.binary(ExprOp::kAnd, Type::kBool, a.value, b.value)};
}

Truth at_least_zero(Registers& registers, const Index& i, int lanes) {
  if (i.range.lo >= 0) return {true, {}};
  if (i.range.hi < 0) return {false, {}};
  // Of all lanes, also those past the chunk's end.
  const Affine least = i.lane < 0 ? i.base + affine(i.lane * (lanes - 1)) : i.base;
  if (i.terms.empty() && known_at_least_zero(registers.emitter(), least)) return {true, {}};
  if (i.uniform()) lanes = 1;
  if (i.terms.empty()) {
    return {std::nullopt, registers.lane_mask(i.base, lanes > 1 ? i.lane : 0, lanes)};
  }
  const Value value = registers.of_index(i, Type::kI64, lanes);
  const Value zero = registers.whole(0, lanes);
  return {std::nullopt, registers.binary(ExprOp::kGe, Type::kBool, value, zero)};
}

Truth lanes_exist(Registers& registers, const Point& point) {
  if (point.chunk.active == point.chunk.lanes) return {true, {}};
  Index left;
  left.base = affine(point.chunk.active - 1);
  left.lane = -1;
  left.range = {point.chunk.active - point.chunk.lanes, point.chunk.active - 1};
  return at_least_zero(registers, left, point.chunk.lanes);
}

Truth exists(Registers& registers, const Point& point) {
  Truth truth = lanes_exist(registers, point);
  for (const Index& valid : point.valid) {
    truth = both(registers, truth, at_least_zero(registers, valid, point.chunk.lanes));
  }
  return truth;
}

int point_mask(Registers& registers, const Point& point) {
  const Truth truth = exists(registers, point);
  if (truth.known == false) return registers.immediate(Type::kBool, 0, 0, point.chunk.lanes).reg;
  if (truth.known) return -1;
  return registers.broadcast(truth.value, point.chunk.lanes).reg;
}

std::optional<int> group_mask(Registers& registers, const Point& point, int64_t group,
                              const std::vector<Index>& needs) {
  const int lanes = point.chunk.lanes * static_cast<int>(group);
  int mask = -1;
  const auto require = [&](const Affine& base, int64_t stride) {
    const Value all = registers.lane_mask(base, stride, lanes);
    mask = mask < 0 ? all.reg
                    : registers.binary(ExprOp::kAnd, Type::kBool, {mask, lanes}, all).reg;
  };
  if (point.chunk.active < point.chunk.lanes) {
    require(affine(point.chunk.active * group - 1), -1);
  }
  std::vector<Index> all = point.valid;
  all.insert(all.end(), needs.begin(), needs.end());
  for (size_t i = 0; i < all.size(); ++i) {
    const Index& need = all[i];
    const bool known = std::any_of(all.begin(), all.begin() + i, [&](const Index& other) {
      return other.base == need.base && other.lane == need.lane;
    });
    if (need.range.lo >= 0 || known) continue;
    if (!need.terms.empty() || std::abs(need.lane) > 1) return std::nullopt;
    // base - l / group >= 0 is base * group + group - 1 - l >= 0, base + l / group >= 0 is
    // base * group + l >= 0.
    if (need.lane == 0) require(need.base, 0);
    else if (need.lane == 1) require(need.base * group, 1);
    else require(need.base * group + affine(group - 1), -1);
  }
  return mask;
}

}  // namespace lw::lowering
