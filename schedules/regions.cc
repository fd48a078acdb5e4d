// The box of a stage's points that one iteration of its host reads: what the domains of attached
// stages are drawn from. An upper bound, from intervals of the index expressions.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "schedules/access.h"
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

std::vector<int64_t> whole(const Stage& stage) {
  std::vector<int64_t> extents;
  for (const NestAxis& axis : stage.axes) extents.push_back(axis.extent);
  return extents;
}

// Grows `box` to what the reads, at a box of their axes of these extents, touch of `tensor`.
void include_reads(const std::vector<const ExprNode*>& reads, int tensor,
                   const std::vector<int64_t>& shape, const std::vector<int64_t>& extents,
                   std::vector<int64_t>& box) {
  std::vector<Interval> ranges;
  for (int64_t extent : extents) ranges.push_back({0, extent - 1});
  const std::vector<int64_t> touched = box_of(reads, tensor, shape, ranges);
  for (size_t d = 0; d < touched.size(); ++d) box[d] = std::max(box[d], touched[d]);
}

// While the first `depth` loops of `host` stand still. Each stage is asked for by all of its
// readers and answers once.
class Regions {
 public:
  Regions(const Nest& nest, int host, int depth) : nest_(nest), host_(host), depth_(depth) {
    readers_.resize(nest.program->tensors.size());
    for (int r = 0; r < static_cast<int>(nest.stages.size()); ++r) {
      const Stage& reader = nest.stages[r];
      if (reader.place == Place::kInlined || reader.copy_of >= 0) continue;
      for (int tensor : reader.body->reads) readers_[tensor].push_back(r);
    }
  }

  // Of the stage's axes.
  std::vector<int64_t> extents_at(int stage) {
    if (auto known = extents_.find(stage); known != extents_.end()) return known->second;
    std::vector<int64_t> extents = compute(stage);
    return extents_[stage] = std::move(extents);
  }

 private:
  std::vector<int64_t> compute(int stage) {
    const Stage& s = nest_.stages[stage];
    if (stage == host_) return inner_extents(s, depth_);
    std::vector<int64_t> extents = whole(s);
    if (s.copy_of >= 0) return extents;
    if (s.along >= 0) {
      const Stage& host = nest_.stages[s.host];
      extents[s.along] = inner_extents(host, find_loop(host, s.loop) + 1)[dealt_axis(nest_, s)];
      return extents;
    }
    std::vector<int> results = {s.tensor};
    for (int e : s.epilogue) results.push_back(nest_.stages[e].tensor);
    std::vector<int64_t> box(nest_.program->tensors[s.tensor].shape.size(), 1);
    for (int tensor : results) {
      const std::vector<int64_t> part = needed(tensor);
      for (size_t d = 0; d < part.size() && d < box.size(); ++d) box[d] = std::max(box[d], part[d]);
    }
    for (size_t d = 0; d < box.size(); ++d) {
      if (runs_along(s, d)) extents[d] = std::min(extents[d], box[d]);
    }
    return extents;
  }

  // What the readers inside the loops need of `tensor`.
  std::vector<int64_t> needed(int tensor) {
    const Nest& nest = nest_;
    std::vector<int64_t> box(nest.program->tensors[tensor].shape.size(), 1);
    for (int r : readers_[tensor]) {
      const Stage& reader = nest.stages[r];
      if (depth_within(nest, r, host_) < depth_) continue;
      const int home = reader.place == Place::kEpilogue ? reader.host : r;
      // What a stage and its epilogues hand each other asks for nothing more.
      const std::vector<int>& fused = nest.stages[home].epilogue;
      const bool own = nest.stages[home].tensor == tensor ||
                       std::any_of(fused.begin(), fused.end(),
                                   [&](int f) { return nest.stages[f].tensor == tensor; });
      if (own) continue;
      const std::vector<Expr>& values = nest.stages[home].axis_value;
      const auto include = [&](const std::vector<const ExprNode*>& reads) {
        include_reads(reads, tensor, nest.program->tensors[tensor].shape, extents_at(home), box);
      };
      if (values.empty()) {
        include(reader.body->read_nodes);
      } else {
        const Expr fused = substitute(reader.body->value, values);
        include(reads_in(fused));
      }
    }
    return box;
  }

  const Nest& nest_;
  const int host_, depth_;
  std::vector<std::vector<int>> readers_;  // of each tensor; those that a copy serves too
  absl::flat_hash_map<int, std::vector<int64_t>> extents_;
};

}  // namespace

int64_t region_range(const Nest& nest, int stage, int position, const std::vector<int64_t>& region) {
  const Stage& s = nest.stages[stage];
  return std::min(range_of(s, position), region[s.loops[position].parts[0].axis]);
}

std::vector<int64_t> region_extents(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.place != Place::kAt) return whole(s);
  return Regions(nest, s.host, find_loop(nest.stages[s.host], s.loop) + 1).extents_at(stage);
}

}  // namespace lw
