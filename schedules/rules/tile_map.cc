// A pure map at the root, and what is computed at its rows.
//
// Elementwise over contiguous tensors: all axes become one (or, in a sketch of their own, do not).
// Otherwise lanes along the last axis, and several rows of another one in the register tile:
//   where an operand is contiguous along another axis (transpose), that one; the tile is transposed
//     in registers, and the tiles are blocked for the cache;
//   where rows next to each other read the same (a stencil's, what is broadcast), the axis of which
//     most is loaded once for all of them;
//   where the last axis is too short to hide the latency of what is computed, the one before.
#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

constexpr int64_t kRowVectors = 4;         // of a row that needs no other beside it

bool hosts_others(const Nest& nest, int stage) {
  return std::any_of(nest.stages.begin(), nest.stages.end(),
                     [&](const Stage& s) { return s.place == Place::kAt && s.host == stage; });
}

// Where it runs and what it does to the caches. `hosts`: others run inside of it.
void add_hints(Draft& d, const std::string& name, bool hosts) {
  const int stage = find_stage(d.nest, name);
  const std::vector<Tensor>& tensors = d.nest.program->tensors;
  if (d.nest.stages[stage].place == Place::kAt) {
    // While a row is computed, the next one can be on its way.
    for (int t : body_reads(d.nest, stage)) {
      if (tensors[t].role != Role::kInput || tensors[t].shape.size() < 2) continue;
      optional(d, "prefetch", {name, tensors[t].name}, {0});
    }
    return;
  }
  if (d.nest.threads > 1) optional(d, "parallel", {name}, {0, 0});
  for (int t : body_reads(d.nest, stage)) {
    if (hosts || tensors[t].role != Role::kInput || elements(tensors[t]) <= 4096) continue;
    optional(d, "prefetch", {name, tensors[t].name}, {0});
  }
  const bool is_result = tensors[d.nest.stages[stage].tensor].role == Role::kOutput;
  if (is_result) optional(d, "non_temporal", {name}, {0});
}

// What is clamped to the extent, where an edge is repeated.
const Expr& before_clamps(const Expr& index) {
  const bool clamp = index->op == ExprOp::kMin || index->op == ExprOp::kMax;
  if (!clamp) return index;
  for (int arg : {0, 1})
    if (index->args[arg]->op == ExprOp::kConst) return before_clamps(index->args[1 - arg]);
  return index;
}

bool occurs(int axis, const Expr& index) {
  bool found = false;
  visit(index, [&](const ExprNode& e) {
    found = found || (e.op == ExprOp::kAxis && e.index == axis);
  });
  return found;
}

// Reads of the stage that rows next to each other along `axis` have in common: those that it does
// not move, and those of one tensor which differ by points along it alone.
int shared_reads(const std::vector<const ExprNode*>& reads, int axis) {
  using Place = std::vector<int64_t>;      // the read but for where along the axis it is
  int shared = 0;
  absl::flat_hash_set<Place> places;
  for (const ExprNode* read : reads) {
    Place place = {read->index};
    bool moves = false, affine = true;
    for (const Expr& index : read->args) {
      const IndexForm form = index_form(before_clamps(index));
      affine = affine && form.affine;
      const bool along = form.affine ? step_of(form, axis) != 0 : occurs(axis, index);
      moves = moves || along;
      for (const IndexForm::Term& term : form.terms)
        place.insert(place.end(), {term.axis, term.factor});
      place.insert(place.end(), {-1, along ? 0 : form.constant});
    }
    if (!moves || (affine && !places.insert(std::move(place)).second)) ++shared;
  }
  return shared;
}

// Of the stage's axes but the last, that along which some operand lies; -1: none.
int transposed_axis(const Nest& nest, int stage, const std::vector<int>& axes) {
  const std::vector<Address> read = addresses(nest, stage);
  for (size_t n = 0; n + 1 < axes.size(); ++n) {
    const auto lies_along = [&](const Address& address) {
      return address.affine && address.stride[axes[n]] == 1 &&
             std::abs(address.stride[axes.back()]) > 1;
    };
    if (std::any_of(read.begin(), read.end(), lies_along)) return axes[n];
  }
  return -1;
}

// That whose rows next to each other share most of what they read, or hide each other's latency;
// -1: none.
int shared_axis(const Nest& nest, int stage, const std::vector<int>& axes) {
  const Expr body = body_over_loops(nest, stage);
  const std::vector<const ExprNode*> reads = reads_in(body);
  const int64_t columns = nest.stages[stage].axes[axes.back()].extent;
  const bool is_short = columns < kRowVectors * stage_lanes(nest, stage);
  int most = 0, rows = -1;
  for (int n = static_cast<int>(axes.size()) - 2; n >= 0; --n) {
    const int shared = shared_reads(reads, axes[n]) + (is_short && rows < 0 ? 1 : 0);
    if (shared <= most) continue;
    most = shared;
    rows = axes[n];
  }
  return rows;
}

bool takes(const Draft& d, int stage) { return is_map(d.nest, stage); }

void tile(Draft& d, int stage) {
  const std::string name = d.nest.stages[stage].name;
  const bool hosts = hosts_others(d.nest, stage);
  const bool attached = d.nest.stages[stage].place == Place::kAt;
  if (d.nest.stages[stage].axes.empty()) return;

  const bool fused = d.flat && !hosts && !attached && elementwise(d.nest, stage) &&
                     attempt(d, [&](Draft& next) { fuse_all(next, name); });
  stage = find_stage(d.nest, name);
  // Those of a single point are loops of one iteration, and others stand inside some.
  std::vector<int> axes;
  const Stage& s = d.nest.stages[stage];
  const bool one_loop = s.loops.size() == 1;
  const int settled = loops_around_attached(d.nest, stage);
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    const bool last = a + 1 == static_cast<int>(s.axes.size()) && axes.empty();
    const bool free = fused || find_loop(s, loop_of(s, a)) >= settled;
    if ((s.axes[a].extent < 2 || !free) && !last) continue;
    axes.push_back(a);
  }
  const auto name_of = [&](int axis) { return fused ? s.loops[0].name : loop_of(s, axis); };
  const int across = transposed_axis(d.nest, stage, axes);
  const int rows = across >= 0 ? across : shared_axis(d.nest, stage, axes);
  const std::string columns = name_of(axes.back());
  std::vector<std::string> names{name};
  if (rows >= 0) names.push_back(name_of(rows));
  names.push_back(columns);
  open(d, "register_tile", names);
  if (d.failed) return;
  if (across >= 0) {
    const std::string r = names[1] + ".0", c = columns + ".0";
    open(d, "split", {name, r}, {1, 0});
    open(d, "split", {name, c}, {1, 0});
    fixed(d, "reorder", {name, r + ".0", c + ".0", r + ".1", c + ".1"}, {0});
    open(d, "reorder", {name, r + ".0", c + ".0"}, {0});
    open(d, "reorder", {name, r + ".1", c + ".1"}, {0});
  } else if (rows >= 0) {
    // Down a strip of columns, what all rows share stays in registers.
    open(d, "reorder", {name, names[1] + ".0", columns + ".0"}, {0});
  } else if (one_loop && d.nest.threads > 1) {
    // One long loop: chunks for the threads.
    open(d, "split", {name, columns + ".0"}, {1, 0});
  }
  add_hints(d, name, hosts);
}

}  // namespace

const Rule& tile_map() {
  static constexpr Rule rule = {"tile_map", Phase::kTile, nullptr, takes, tile};
  return rule;
}

}  // namespace lw::rules
