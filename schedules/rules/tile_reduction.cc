// A reduction at the root: register tile first, then everything around it.
//
//   dot(C, k; 4)                           where the target adds products in groups
//   register_tile(C, k, i, j; open)        rows x vectors x unrolled reduction, in registers; of
//                                          windows that slide: both reductions, both rows
//   slide(C; open)                         where taps move a read along the lanes
//   split(C, i.0), split(C, j.0), split(C, k.0)      cache blocks
//   phase(C, y), phase(C, x)               of a transposed convolution: which taps meet a pixel
//   split(C, y)                            of a convolution: rows of the image that pass by a block
//                                          of weights
//   reorder(outer; open), reorder(inner; open)
//   stage(C, operand; open)                read in place, or packed at any depth in any block layout
//   parallel(C; open)                      any run of outer spatial loops
//   prefetch(C, operand; open)
//
// Where the lanes run along the reduction, there is nothing to block, both spatial axes that save
// loads are unrolled, and what is not contiguous along the lanes may be copied so that it is.
//
// Which axes form the tile is read off the accesses. The lanes run along the result's last axis, or,
// where every operand is contiguous along a reduction axis and none along the result's (row sums, dot
// products), along that reduction axis. Rows are the spatial axis that some operand does not depend on:
// its elements, once loaded, serve all rows. Everything else stays a loop outside.
#include <algorithm>

#include "schedules/space/rule.h"
#include "schedules/targets/target.h"
#include "schedules/window.h"

namespace lw::rules {
namespace {

constexpr int64_t kFewRows = 8;            // that hardly hide the latency of a multiply-add
constexpr int64_t kWindow = 8;             // reductions so short are unrolled whole
constexpr int64_t kFewSteps = 64;          // of a reduction whose result's stores may count

struct TileAxes {
  int vector = -1, rows = -1;              // stage axes; -1: none
  int more_rows = -1;                      // where the rows alone are too few, and of windows
  int unrolled = -1;                       // the reduction; of a vector reduction a second spatial axis
  std::vector<int> windows;                // more reductions, of a window that slides over the rows
};

int64_t extent(const Stage& stage, int axis) { return stage.axes[axis].extent; }

// The reduction axis along which most operands are contiguous, innermost first.
int inner_reduction(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const std::vector<Address> list = addresses(nest, stage);
  int best = -1;
  int best_score = -1;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (!s.axes[a].reduction || s.axes[a].extent < 2) continue;
    int score = 0;
    for (const Address& address : list) score += std::abs(address.stride[a]) == 1;
    if (score >= best_score) {
      best_score = score;
      best = a;
    }
  }
  return best;
}

bool contains(const std::vector<int>& numbers, int number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

// Depthwise convolutions, filters of images: what is loaded are vectors, and each is in the windows
// of several results. They are loaded once where the tile has these results and all of the window.
void add_windows(const Nest& nest, int stage, const std::vector<int>& phases, TileAxes& tile) {
  const Stage& s = nest.stages[stage];
  if (s.factored_axis >= 0 || !s.axis_value.empty() || tile.unrolled < 0) return;
  if (extent(s, tile.unrolled) > kWindow) return;
  std::vector<ReadSteps> vectors = read_steps(nest, stage);
  std::erase_if(vectors, [&](const ReadSteps& read) { return !moves(read, tile.vector); });
  const auto slides_over = [&](int reduction) {
    for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
      if (s.axes[a].reduction || a == tile.vector || contains(phases, a)) continue;
      std::vector<int64_t> points(s.axes.size(), 1);
      points[reduction] = points[a] = 2;
      if (extent(s, a) > 1 && slides(s, vectors, points, tile.vector)) return a;
    }
    return -1;
  };
  if (const int rows = slides_over(tile.unrolled); rows >= 0) tile.rows = rows;
  for (int r = 0; r < static_cast<int>(s.axes.size()); ++r) {
    if (!s.axes[r].reduction || r == tile.unrolled) continue;
    if (extent(s, r) < 2 || extent(s, r) > kWindow) continue;
    const int rows = slides_over(r);
    if (rows < 0) continue;
    tile.windows.push_back(r);
    if (rows != tile.rows) tile.more_rows = rows;
  }
}

// Whether taps of a window may move a read along the lanes.
bool may_overlap(const Nest& nest, int stage, const TileAxes& tile) {
  const Stage& s = nest.stages[stage];
  std::vector<int64_t> points(s.axes.size(), 1);
  for (int a : tile.windows) points[a] = extent(s, a);
  if (tile.unrolled >= 0) points[tile.unrolled] = extent(s, tile.unrolled);
  return overlaps(nest, stage, points, tile.vector);
}

// Whether a pass over the result may cost more than computing it: few steps a point, and it is
// larger than the caches that a core has for itself.
bool streams(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const std::vector<CacheLevel>& caches = nest.target->caches;
  if (s.place != Place::kRoot || caches.size() < 2) return false;
  int64_t steps = 1;
  for (const NestAxis& axis : s.axes)
    if (axis.reduction) steps *= axis.extent;
  return steps <= kFewSteps && bytes(nest.program->tensors[s.tensor]) > caches[1].bytes;
}

// `phases`: axes that stay outside.
TileAxes tile_axes(const Nest& nest, int stage, bool vector_reduction,
                   const std::vector<int>& phases) {
  const Stage& s = nest.stages[stage];
  const std::vector<Address> list = addresses(nest, stage);
  TileAxes tile;
  const int reduction = inner_reduction(nest, stage);
  if (vector_reduction) {
    tile.vector = reduction;
  } else {
    for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
      const bool partial = s.factored_axis >= 0 && a == 0;
      if (!s.axes[a].reduction && s.axes[a].extent > 1 && !partial) tile.vector = a;
    }
    tile.unrolled = reduction;
  }
  // Rows: an axis that saves loads, above all of vectors, preferring the innermost such.
  int64_t best = 0;
  std::vector<int64_t> scores(s.axes.size(), 0);
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    const bool partial = s.factored_axis >= 0 && a == 0;
    if (a == tile.vector || s.axes[a].reduction || partial || extent(s, a) < 2) continue;
    if (contains(phases, a)) continue;
    int64_t saved = 0;
    for (const Address& address : list) {
      if (!uses(address, a)) saved += !vector_reduction && uses(address, tile.vector) ? 2 : 1;
    }
    // Without reuse rows still hide latency (vector reductions of many rows).
    const int64_t score = saved * 1000 + (vector_reduction ? 2 : 0) + std::min<int64_t>(extent(s, a), 16) / 16;
    scores[a] = score;
    const bool better = score > 0 && score >= best;
    const int other = better ? tile.rows : a;
    if (vector_reduction && std::min(score, best) >= 1000) tile.unrolled = other;
    if (better) {
      best = score;
      tile.rows = a;
    }
  }
  if (vector_reduction || tile.rows < 0) return tile;
  add_windows(nest, stage, phases, tile);
  if (tile.more_rows >= 0 || extent(s, tile.rows) >= kFewRows) return tile;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    const bool free = a != tile.vector && a != tile.rows && !s.axes[a].reduction;
    if (free && extent(s, a) > 1 && scores[a] >= 2000) tile.more_rows = a;
  }
  return tile;
}

// Inputs worth packing: those a tile reads that other tiles read again.
std::vector<int> packable(const Nest& nest, int stage) {
  std::vector<int> list;
  for (const Address& address : addresses(nest, stage)) {
    if (!address.affine || contains(list, address.tensor)) continue;
    if (nest.program->tensors[address.tensor].shape.size() < 2) continue;
    if (reused(nest.stages[stage], address)) list.push_back(address.tensor);
  }
  return list;
}

// Those of them that a vector along `axis` cannot read as it lies in memory.
std::vector<int> scattered(const Nest& nest, int stage, int axis) {
  std::vector<int> list = packable(nest, stage);
  for (const Address& address : addresses(nest, stage)) {
    if (std::abs(address.stride[axis]) <= 1) std::erase(list, address.tensor);
  }
  return list;
}

std::string copy_name(const Nest& nest, int tensor) { return nest.program->tensors[tensor].name + ".copy"; }

// Spatial axes outside the tile for all of which some operand stays the same, as the weights do for
// the rows of an image and the images of a batch: where they run decides how often it is loaded.
std::vector<int> passing(const Nest& nest, int stage, const TileAxes& tile,
                         const std::vector<int>& phases) {
  const Stage& s = nest.stages[stage];
  const std::vector<Address> list = addresses(nest, stage);
  std::vector<int> axes;
  if (s.place == Place::kAt) return axes;  // its host's loops pass
  const int settled = loops_around_attached(nest, stage);
  for (int a = s.factored_axis >= 0 ? 1 : 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (find_loop(s, loop_of(s, a)) < settled) continue;
    if (a == tile.vector || a == tile.rows || a == tile.more_rows) continue;
    if (s.axes[a].reduction || extent(s, a) < 2 || contains(phases, a)) continue;
    const bool kept = std::any_of(list.begin(), list.end(), [&](const Address& x) {
      return !uses(x, a) && nest.program->tensors[x.tensor].shape.size() > 1;
    });
    if (kept) axes.push_back(a);
  }
  return axes;
}

// Lanes of one vector read from one group: where some read is at a quotient of the axis, as that of
// the input channels is of a grouped convolution, the groups become a loop of their own.
std::vector<std::string> separate_groups(Draft& d, int stage, int axis) {
  if (axis < 0 || !d.nest.stages[stage].axis_value.empty()) return {};
  const Stage& s = d.nest.stages[stage];
  int64_t group = 0;
  visit(effective_body(d.nest, stage), [&](const ExprNode& node) {
    if (node.op != ExprOp::kDiv || node.args[0]->op != ExprOp::kAxis) return;
    if (node.args[0]->index != axis || node.args[1]->op != ExprOp::kConst) return;
    const int64_t n = node.args[1]->integer;
    if (n > 1 && n < extent(s, axis) && (group == 0 || n < group)) group = n;
  });
  if (group == 0) return {};
  const std::string name = s.name, loop = loop_of(s, axis);
  fixed(d, "split", {name, loop}, {group, 0});
  return {loop + ".0"};
}

// A condition `index % n == 0` holds at every n-th point of the axes in it, for other taps of the
// window at other points: cut into n phases, an axis has points that agree. Returns the axes of the
// remainders.
std::vector<int> separate_phases(Draft& d, int stage) {
  const std::string name = d.nest.stages[stage].name;
  const int last = static_cast<int>(d.nest.program->tensors[d.nest.stages[stage].tensor].axes.size()) - 1;
  std::vector<std::pair<std::string, int64_t>> cuts;
  visit(effective_body(d.nest, stage), [&](const ExprNode& node) {
    const int64_t n = modulus_of(node);
    if (n < 2) return;
    visit(node.args[0]->args[0], [&](const ExprNode& axis) {
      if (axis.op != ExprOp::kAxis || axis.index >= last) return;  // lanes stay together
      const std::string loop = loop_of(d.nest.stages[stage], axis.index);
      const std::pair<std::string, int64_t> cut{loop, n};
      if (!loop.empty() && std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
    });
  });
  std::vector<int> phases;
  for (const auto& [loop, n] : cuts) {
    Draft attempt = d;
    fixed(attempt, "phase", {name, loop}, {n});
    if (!attempt.failed) d = std::move(attempt);  // an extent that n does not divide stays whole
  }
  const Stage& s = d.nest.stages[find_stage(d.nest, name)];
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    for (const auto& [loop, n] : cuts) {
      if (s.axes[a].name == loop + ".p") phases.push_back(a);
    }
  }
  return phases;
}

// Contiguous whole axes of the reduction (or of everything) become one: fewer, longer loops.
void fuse_reductions(Draft& d, const std::string& name) {
  while (!d.failed) {
    const int stage = find_stage(d.nest, name);
    const Stage& s = d.nest.stages[stage];
    if (s.factored_axis >= 0) return;
    const std::vector<Address> list = addresses(d.nest, stage);
    int first = -1;
    for (int a = 0; a + 1 < static_cast<int>(s.axes.size()); ++a) {
      if (!s.axes[a].reduction || !s.axes[a + 1].reduction) continue;
      const bool flat = std::all_of(list.begin(), list.end(), [&](const Address& x) {
        // A condition on one of the two would differ from lane to lane.
        return x.affine && !x.guarded && x.stride[a] == x.stride[a + 1] * s.axes[a + 1].extent;
      });
      if (flat) first = a;
    }
    if (first < 0) return;
    const std::string outer = s.axes[first].name, inner = s.axes[first + 1].name;
    fixed(d, "fuse", {name, outer, inner});
  }
}

bool follows_result(const Stage& stage, const Address& address) {
  for (size_t a = 0; a < stage.axes.size(); ++a) {
    const NestAxis& axis = stage.axes[a];
    if (!axis.reduction && axis.extent > 1 && std::abs(address.stride[a]) == 1) return true;
  }
  return false;
}

// Whether an operand that is read once lies in memory along an axis of the result.
bool lies_along_result(const Nest& nest, int s) {
  const Stage& stage = nest.stages[s];
  const std::vector<Address> list = addresses(nest, s);
  return std::any_of(list.begin(), list.end(), [&](const Address& address) {
    return address.affine && !reused(stage, address) && follows_result(stage, address);
  });
}

// Whether lanes along the result would gather: an operand that is read once lies in memory along a
// reduction axis, and along no axis of the result.
bool lies_along_reduction(const Nest& nest, int s) {
  const Stage& stage = nest.stages[s];
  const Tensor& tensor = nest.program->tensors[stage.tensor];
  if (is_map(nest, s) || stage.factored_axis >= 0) return false;
  const size_t spatial = tensor.axes.size();
  for (const Address& address : addresses(nest, s)) {
    if (!address.affine || reused(stage, address)) continue;
    bool along = false;
    for (size_t r = 0; r < tensor.reduce_axes.size(); ++r) {
      along = along || (std::abs(address.stride[spatial + r]) == 1 &&
                        tensor.reduce_axes[r].extent >= 2 * stage_lanes(nest, s));
    }
    if (along && !follows_result(stage, address)) return true;
  }
  return false;
}

// Whether the lanes of a reduction run along it.
bool runs_along_reduction(const Nest& nest, int s, bool vector_reduction) {
  // What can be vectorized only one way ignores the choice.
  const Stage& stage = nest.stages[s];
  bool spatial = false;
  for (size_t a = stage.factored_axis >= 0 ? 1 : 0; a < stage.axes.size(); ++a) {
    spatial = spatial || (!stage.axes[a].reduction && stage.axes[a].extent > 1);
  }
  if (!spatial) return true;
  bool contiguous = false;
  for (const Address& address : addresses(nest, s)) {
    for (size_t a = 0; a < stage.axes.size() && stage.axis_value.empty(); ++a) {
      contiguous = contiguous || (stage.axes[a].reduction && std::abs(address.stride[a]) == 1);
    }
  }
  // A product of matrices at a block of rows is tiled as it is elsewhere.
  const int axes = static_cast<int>(nest.program->tensors[stage.tensor].axes.size());
  const bool product = has_reuse(nest, s) && !is_moment(nest, s, axes);
  const bool at_rows = stage.place == Place::kAt && !product && !lies_along_result(nest, s);
  return contiguous && (vector_reduction || at_rows || lies_along_reduction(nest, s));
}

// Cache blocks of the tile's axes. `before`: the stage as it was before the tile; `outer`: its
// loops that stay outside of all blocks.
void add_blocks(Draft& d, const Stage& before, const TileAxes& tile,
                const std::vector<int>& phases, std::vector<std::string> outer) {
  const std::string& name = before.name;
  std::vector<std::string> inner;
  std::string reduction;
  const std::vector<int> pass = passing(d.nest, find_stage(d.nest, name), tile, phases);
  for (int axis : pass) {
    const std::string loop = loop_of(before, axis);
    if (axis == pass.back()) {
      open(d, "split", {name, loop}, {1, 0});
      outer.push_back(loop + ".0");
      inner.push_back(loop + ".1");
    } else {
      outer.push_back(loop);
    }
  }
  for (int axis : {tile.more_rows, tile.rows, tile.vector, tile.unrolled}) {
    if (axis < 0) continue;
    const std::string loop = loop_of(before, axis) + ".0";
    open(d, "split", {name, loop}, {1, 0});
    outer.push_back(loop + ".0");
    if (axis == tile.unrolled) {
      reduction = loop + ".1";
    } else {
      inner.push_back(loop + ".1");
    }
  }
  // Blocks outside, then the other reduction loops, then tiles within the block, reduction
  // innermost.
  std::vector<std::string> all{name};
  for (const std::string& loop : outer) all.push_back(loop);
  for (const std::string& loop : inner) all.push_back(loop);
  const Stage& s = d.nest.stages[find_stage(d.nest, name)];
  for (const Loop& loop : s.loops) {
    const bool whole_reduction = is_reduction(s, loop) && loop.kind == LoopKind::kSerial &&
                                 loop.name.find('.') == std::string::npos;
    if (whole_reduction) all.push_back(loop.name);
  }
  for (int axis : tile.windows) all.push_back(loop_of(before, axis) + ".0");
  if (!reduction.empty()) all.push_back(reduction);
  if (all.size() > 2) fixed(d, "reorder", all, {0});
  for (const std::vector<std::string>* loops : {&outer, &inner}) {
    if (loops->size() < 2) continue;
    std::vector<std::string> list{name};
    list.insert(list.end(), loops->begin(), loops->end());
    open(d, "reorder", list, {0});
  }
}

bool takes(const Draft& d, int stage) { return !is_map(d.nest, stage); }

void tile(Draft& d, int stage) {
  const bool vector_reduction = runs_along_reduction(d.nest, stage, d.vector_reduction);
  const std::string name = d.nest.stages[stage].name;
  if (vector_reduction) attempt(d, [&](Draft& next) { fuse_reductions(next, name); });
  stage = find_stage(d.nest, name);
  const bool flattened = has_fused_axes(d.nest.stages[stage]);
  std::vector<int> phases;
  if (!vector_reduction && d.nest.stages[stage].place == Place::kRoot) phases = separate_phases(d, stage);
  TileAxes tile;
  if (flattened) {
    tile.vector = inner_reduction(d.nest, stage);
  } else {
    tile = tile_axes(d.nest, stage, vector_reduction, phases);
  }
  if (tile.vector < 0 && tile.unrolled < 0) return;  // a single point: nothing to tile
  std::vector<std::string> outer;
  for (int axis : phases) outer.push_back(loop_of(d.nest.stages[stage], axis));
  if (!vector_reduction) {
    for (const std::string& loop : separate_groups(d, stage, tile.vector)) outer.push_back(loop);
  }
  std::vector<std::string> names{name};
  const Stage before = d.nest.stages[stage];
  std::vector<int> order = tile.windows;
  order.insert(order.end(), {tile.unrolled, tile.more_rows, tile.rows, tile.vector});
  for (int axis : order) {
    if (axis >= 0) names.push_back(loop_of(before, axis));
  }
  if (tile.vector < 0) return;
  if (d.dot_products && !vector_reduction && dot_group(d.nest, stage, tile.unrolled) > 1) {
    fixed(d, "dot", {name, loop_of(before, tile.unrolled)},
          {dot_group(d.nest, stage, tile.unrolled)});
  }
  open(d, "register_tile", names);
  if (d.failed) return;
  if (may_overlap(d.nest, find_stage(d.nest, name), tile)) optional(d, "slide", {name}, {0});

  // Vector reductions stream, they need no blocks.
  if (!vector_reduction) add_blocks(d, before, tile, phases, outer);
  std::vector<int> copied;
  if (!vector_reduction) copied = packable(d.nest, find_stage(d.nest, name));
  else if (!flattened) copied = scattered(d.nest, find_stage(d.nest, name), tile.vector);
  for (int tensor : copied) optional(d, "stage", {name, d.nest.program->tensors[tensor].name}, {-1, -1, 0});
  if (streams(d.nest, find_stage(d.nest, name))) optional(d, "non_temporal", {name}, {0});
  if (d.nest.threads > 1 && d.nest.stages[find_stage(d.nest, name)].place == Place::kRoot) {
    optional(d, "parallel", {name}, {0, 0});
    for (int tensor : copied) {
      const std::string copy = copy_name(d.nest, tensor);
      if (find_stage(d.nest, copy) >= 0) optional(d, "parallel", {copy}, {0, 0});
    }
  }
  std::vector<int> seen;
  for (const Address& address : addresses(d.nest, find_stage(d.nest, name))) {
    if (contains(seen, address.tensor)) continue;
    seen.push_back(address.tensor);
    const Tensor& tensor = d.nest.program->tensors[address.tensor];
    const bool attached = d.nest.stages[find_stage(d.nest, name)].place == Place::kAt;
    if (!tensor.shape.empty() && (!attached || tensor.role == Role::kInput)) {
      optional(d, "prefetch", {name, tensor.name}, {0});
    }
  }
}

}  // namespace

const Rule& tile_reduction() {
  static constexpr Rule rule = {"tile_reduction", Phase::kTile, nullptr, takes, tile};
  return rule;
}

}  // namespace lw::rules
