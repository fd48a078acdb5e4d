#include "schedules/window.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "schedules/targets/family.h"

namespace lw {
namespace {

bool one_slides(const Stage& stage, const ReadSteps& read, absl::Span<const int64_t> points,
                int vector_axis) {
  return std::any_of(read.begin(), read.end(), [&](const std::vector<int64_t>& steps) {
    bool reduction = false, spatial = false;
    for (size_t a = 0; a < steps.size(); ++a) {
      if (steps[a] == 0 || points[a] < 2 || static_cast<int>(a) == vector_axis) continue;
      (stage.axes[a].reduction ? reduction : spatial) = true;
    }
    return reduction && spatial;
  });
}

// Of a read whose elements lie along the lanes: the points that reductions give it along them at
// places where a vector overlaps those of its neighbours; 1 where none does.
int64_t taps_along_lanes(const Stage& stage, const ReadSteps& read,
                         absl::Span<const int64_t> points, int vector_axis, int lanes) {
  if (vector_axis < 0 || read.empty() || std::abs(read.back()[vector_axis]) != 1) return 1;
  int64_t span = 1, taps = 1;
  for (size_t a = 0; a < read.back().size(); ++a) {
    const int64_t step = std::abs(read.back()[a]);
    if (static_cast<int>(a) == vector_axis || !stage.axes[a].reduction) continue;
    if (step == 0 || step >= lanes) continue;
    span += step * (points[a] - 1);
    taps *= points[a];
  }
  return std::min(span, taps);
}

}  // namespace

bool slides(const Stage& stage, absl::Span<const ReadSteps> reads, absl::Span<const int64_t> points,
            int vector_axis) {
  return std::any_of(reads.begin(), reads.end(), [&](const ReadSteps& read) {
    return one_slides(stage, read, points, vector_axis);
  });
}

int64_t places_of(const ReadSteps& read, absl::Span<const int64_t> points, int vector_axis) {
  int64_t all = 1;
  for (const std::vector<int64_t>& steps : read) {
    int64_t span = 1, product = 1, vectors = 1;
    for (size_t a = 0; a < steps.size(); ++a) {
      if (steps[a] == 0) continue;
      if (static_cast<int>(a) == vector_axis) {
        vectors = points[a];
        continue;
      }
      span += std::abs(steps[a]) * (points[a] - 1);
      product *= points[a];
    }
    all *= vectors * std::min(span, product);
  }
  return all;
}

int64_t modulus_of(const ExprNode& condition) {
  if (condition.op != ExprOp::kEq || condition.args[0]->op != ExprOp::kMod) return 1;
  const Expr& divisor = condition.args[0]->args[1];
  return divisor->op == ExprOp::kConst ? std::max<int64_t>(divisor->integer, 1) : 1;
}

int64_t period(const Nest& nest, int stage, int axis) {
  int64_t points = 1;
  visit(body_over_loops(nest, stage), [&](const ExprNode& node) {
    const int64_t n = modulus_of(node);
    if (n < 2) return;
    std::vector<int64_t> steps(nest.stages[stage].axes.size(), 0);
    add_steps(node.args[0]->args[0], 1, absl::MakeSpan(steps));
    points = std::lcm(points, n / std::gcd(n, steps[axis]));
  });
  return points;
}

bool overlaps(const Nest& nest, int stage, absl::Span<const int64_t> points, int vector_axis) {
  const Stage& s = nest.stages[stage];
  if (s.axes[vector_axis].reduction) return false;
  const int lanes = stage_lanes(nest, stage);
  const std::vector<ReadSteps> reads = read_steps(nest, stage);
  return std::any_of(reads.begin(), reads.end(), [&](const ReadSteps& read) {
    return taps_along_lanes(s, read, points, vector_axis, lanes) > 1;
  });
}

bool overlaps(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.copy_of >= 0 || s.loops.empty() || s.loops.back().kind != LoopKind::kVector) return false;
  return overlaps(nest, stage, inner_extents(s, tile_begin(s)), s.loops.back().parts[0].axis);
}

std::optional<Window> window_of(const Nest& nest, int stage, absl::Span<const ReadSteps> reads,
                                absl::Span<const int64_t> points, int vector_axis) {
  const Stage& s = nest.stages[stage];
  Window window;
  const RegisterFile file = register_file(*nest.target);
  window.registers = file.fma ? 1 : 2;
  for (size_t r = 0; r < reads.size(); ++r) {
    const int64_t places = places_of(reads[r], points, vector_axis);
    window.loads += static_cast<double>(places);
    if (one_slides(s, reads[r], points, vector_axis)) window.read = static_cast<int>(r);
    else window.registers += places;
  }
  if (window.read < 0) return std::nullopt;
  int64_t accumulators = 1;
  for (size_t a = 0; a < points.size(); ++a)
    if (!s.axes[a].reduction) accumulators *= points[a];
  window.registers += accumulators;
  if (window.registers > file.vectors) return std::nullopt;
  return window;
}

}  // namespace lw
