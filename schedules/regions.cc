// The box of a stage's points that one iteration of its host reads: what the domains of attached
// stages are drawn from. An upper bound, from intervals of the index expressions.
#include <algorithm>

#include "schedules/domains.h"
#include "schedules/legality.h"

namespace lw {
namespace {

std::vector<int64_t> whole(const Stage& stage) {
  std::vector<int64_t> extents;
  for (const NestAxis& axis : stage.axes) extents.push_back(axis.extent);
  return extents;
}

std::vector<int64_t> extents_at(const Nest& nest, int stage, int host, int depth);

// Grows `box` to what `body`, at a box of its axes of these extents, reads of `tensor`.
void include_reads(const Expr& body, int tensor, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& extents, std::vector<int64_t>& box) {
  std::vector<Interval> ranges;
  for (int64_t extent : extents) ranges.push_back({0, extent - 1});
  std::vector<Interval> together(box.size(), {INT64_MAX, INT64_MIN});
  visit(body, [&](const ExprNode& e) {
    if (e.op != ExprOp::kRead || e.index != tensor) return;
    for (size_t d = 0; d < box.size(); ++d) {
      const Interval range = bounds(e.args[d], ranges);
      together[d] = {std::min(together[d].lo, range.lo), std::max(together[d].hi, range.hi)};
    }
  });
  for (size_t d = 0; d < box.size(); ++d) {
    const __int128 size = static_cast<__int128>(together[d].hi) - together[d].lo + 1;
    box[d] = std::max(box[d], size > shape[d] ? shape[d] : static_cast<int64_t>(size));
  }
}

// What the readers inside the first `depth` loops of `host` need of `tensor`.
std::vector<int64_t> needed(const Nest& nest, int tensor, int host, int depth) {
  std::vector<int64_t> box(nest.program->tensors[tensor].shape.size(), 1);
  for (int r = 0; r < static_cast<int>(nest.stages.size()); ++r) {
    const Stage& reader = nest.stages[r];
    if (reader.place == Place::kInlined || reader.copy_of >= 0) continue;
    if (depth_within(nest, r, host) < depth) continue;
    const int home = reader.place == Place::kEpilogue ? reader.host : r;
    // What a stage and its epilogues hand each other asks for nothing more.
    const std::vector<int>& fused = nest.stages[home].epilogue;
    const bool own = nest.stages[home].tensor == tensor ||
                     std::any_of(fused.begin(), fused.end(),
                                 [&](int f) { return nest.stages[f].tensor == tensor; });
    if (own || !nest.stages[home].axis_value.empty()) continue;
    const std::vector<int> reads = body_reads(nest, r);
    if (std::find(reads.begin(), reads.end(), tensor) == reads.end()) continue;
    include_reads(effective_body(nest, r), tensor, nest.program->tensors[tensor].shape,
                  extents_at(nest, home, host, depth), box);
  }
  return box;
}

// Of the stage's axes while the first `depth` loops of `host`, around it, stand still.
std::vector<int64_t> extents_at(const Nest& nest, int stage, int host, int depth) {
  const Stage& s = nest.stages[stage];
  if (stage == host) return inner_extents(s, depth);
  std::vector<int64_t> extents = whole(s);
  if (!s.axis_value.empty() || s.copy_of >= 0) return extents;
  std::vector<int> results = {s.tensor};
  for (int e : s.epilogue) results.push_back(nest.stages[e].tensor);
  std::vector<int64_t> box(nest.program->tensors[s.tensor].shape.size(), 1);
  for (int tensor : results) {
    const std::vector<int64_t> part = needed(nest, tensor, host, depth);
    for (size_t d = 0; d < part.size() && d < box.size(); ++d) box[d] = std::max(box[d], part[d]);
  }
  for (size_t d = 0; d < box.size(); ++d) extents[d] = std::min(extents[d], box[d]);
  return extents;
}

}  // namespace

int64_t region_range(const Nest& nest, int stage, int position) {
  const Stage& s = nest.stages[stage];
  const int64_t range = range_of(s, position);
  if (s.place != Place::kAt) return range;
  return std::min(range, region_extents(nest, stage)[s.loops[position].parts[0].axis]);
}

std::vector<int64_t> region_extents(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.place != Place::kAt) return whole(s);
  return extents_at(nest, stage, s.host, find_loop(nest.stages[s.host], s.loop) + 1);
}

}  // namespace lw
