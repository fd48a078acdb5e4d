// A pure map at the root, and what is computed at its rows.
//
// Elementwise over contiguous tensors: all axes become one (or, in a sketch of their own, do not).
// Otherwise lanes along the last axis; where an
// operand is contiguous along another axis (transpose), that axis forms the rows of a square register
// tile which is transposed in registers, and the tiles are blocked for the cache.
#include <algorithm>

#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

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
  std::vector<std::string> axes;
  std::vector<int> numbers;                // the stage's, of each
  const Stage& s = d.nest.stages[stage];
  const bool one_loop = s.loops.size() == 1;
  const int settled = loops_around_attached(d.nest, stage);
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    const bool last = a + 1 == static_cast<int>(s.axes.size()) && axes.empty();
    if ((s.axes[a].extent < 2 || (!fused && a < settled)) && !last) continue;
    axes.push_back(fused ? s.loops[0].name : loop_of(s, a));
    numbers.push_back(a);
  }

  // An operand that is contiguous along another axis than the last: rows along that axis.
  std::string rows;
  const int last = numbers.back();
  for (const Address& address : addresses(d.nest, stage)) {
    for (size_t n = 0; n + 1 < axes.size(); ++n) {
      const bool across = address.stride[numbers[n]] == 1 && std::abs(address.stride[last]) > 1;
      if (address.affine && across) rows = axes[n];
    }
  }
  std::vector<std::string> names{name};
  if (!rows.empty()) names.push_back(rows);
  names.push_back(axes.back());
  open(d, "register_tile", names);
  if (d.failed) return;
  if (!rows.empty()) {
    const std::string r = rows + ".0", c = axes.back() + ".0";
    open(d, "split", {name, r}, {1, 0});
    open(d, "split", {name, c}, {1, 0});
    fixed(d, "reorder", {name, r + ".0", c + ".0", r + ".1", c + ".1"}, {0});
    open(d, "reorder", {name, r + ".0", c + ".0"}, {0});
    open(d, "reorder", {name, r + ".1", c + ".1"}, {0});
  } else if (one_loop && d.nest.threads > 1) {
    // One long loop: chunks for the threads.
    open(d, "split", {name, axes[0] + ".0"}, {1, 0});
  }
  add_hints(d, name, hosts);
}

}  // namespace

const Rule& tile_map() {
  static constexpr Rule rule = {"tile_map", Phase::kTile, nullptr, takes, tile};
  return rule;
}

}  // namespace lw::rules
