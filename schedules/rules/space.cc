// From a program to its sketches.
//
//   1. inline   cheap maps, and maps with a single reader, disappear into their readers;
//   2. epilogue a map that reads a reduction at its own point runs on that reduction's register tile;
//   3. rows     what feeds a map row by row (the maximum and sum of a softmax, the moments of a norm)
//               is computed at the map's row loop, so that a row stays in the nearest cache;
//               Where matrix products are among it, or are what it feeds, at a block of rows
//               (rules/fusion.cc): attention without its scores in memory, say;
//   4. tile     every stage left at the root, and every stage attached to one, gets a register tile.
// What does not apply to a stage is left out, and said (Refusal): the next rule takes the stage, and
// in the end tile_plainly(), so that none goes without vectors because a rule did not fit.
// Where Nest::winograd allows it, convolutions are rewritten first (rules/winograd.cc).
// Where a structural choice is open (which axis carries the lanes, dot products or multiply-adds,
// splitting a reduction over the threads, inlining a map that is read often), there is a sketch for
// each combination; numbers are decisions.
#include <algorithm>

#include "schedules/rules/sketch.h"
#include "src/expr/message.h"

namespace lw {
namespace {

using namespace rules;

constexpr double kCheapBody = 6;           // vector instructions that are cheaper than a store and load
constexpr double kMostRecomputed = 64;     // and what is worth trying

// What becomes of maps that reductions read many times: cheap ones disappear into them, or the
// expensive ones too, or none, which costs a pass but takes their arithmetic off the register tile.
enum class Maps { kInlineCheap, kInlineAll, kKeep };

// Vector instructions that inlining a map adds for each point of a reader that needs it at several:
// a window of a window of a window grows with every step, and past some point storing is cheaper.
double recomputed(const Nest& nest, int s, const std::vector<int>& users) {
  int points = 1;
  for (int user : users) points = std::max(points, points_read(nest, user, nest.stages[s].tensor));
  return (points - 1) * body_cost(nest, s);
}

// A map is inlined where recomputing it costs less than keeping it: into its only reader, unless that
// reader would evaluate it many times: `maps` says what then.
// With `transforms` those of Winograd's algorithm that feed each other stay.
void inline_maps(Draft& d, Maps maps, bool transforms = false) {
  for (int s = static_cast<int>(d.nest.stages.size()) - 1; s >= 0 && !is_over(d); --s) {
    const Stage& stage = d.nest.stages[s];
    const Tensor& tensor = d.nest.program->tensors[stage.tensor];
    if (!is_map(d.nest, s) || tensor.role == Role::kOutput || stage.place != Place::kRoot) continue;
    if (transforms && feeds_transform(d.nest, s)) continue;
    const std::vector<int> users = readers(d.nest, stage.tensor);
    const bool reused = std::any_of(users.begin(), users.end(), [&](int u) { return has_reuse(d.nest, u); });
    const bool cheap = body_cost(d.nest, s) <= kCheapBody && !(maps == Maps::kKeep && reused);
    if (!cheap && maps != Maps::kInlineAll && (users.size() != 1 || reused)) continue;
    const double most = maps == Maps::kInlineAll ? kMostRecomputed : kCheapBody;
    if (recomputed(d.nest, s, users) > most) continue;
    // What would make too large a body of its reader stays a stage of its own.
    const std::string name = stage.name;
    attempt(d, [&](Draft& next) { fixed(next, "inline_producer", {name}); });
  }
}

void fuse_epilogues(Draft& d) {
  for (int s = 0; s < static_cast<int>(d.nest.stages.size()) && !is_over(d); ++s) {
    if (is_map(d.nest, s) || d.nest.stages[s].place != Place::kRoot) continue;
    int tail = s;
    for (int f = s + 1; f < static_cast<int>(d.nest.stages.size()); ++f) {
      const Stage& stage = d.nest.stages[f];
      if (!is_map(d.nest, f) || stage.place != Place::kRoot) continue;
      const std::vector<int> reads = body_reads(d.nest, f);
      const int value = d.nest.stages[tail].tensor;
      if (std::find(reads.begin(), reads.end(), value) == reads.end()) continue;
      Draft attempt = d;
      fixed(attempt, "reverse_inline", {stage.name, d.nest.stages[s].name});
      if (attempt.failed) break;
      d = std::move(attempt);
      tail = f;
    }
  }
}

// A reduction too small in space for the threads is split among them and combined afterwards.
bool wants_rfactor(const Nest& nest, int s) {
  if (nest.threads <= 1 || is_map(nest, s) || nest.stages[s].place != Place::kRoot) return false;
  const Tensor& tensor = nest.program->tensors[nest.stages[s].tensor];
  double points = 1, reduced = 1;
  for (const Axis& axis : tensor.axes) points *= static_cast<double>(axis.extent);
  for (const Axis& axis : tensor.reduce_axes) reduced *= static_cast<double>(axis.extent);
  const double tile = has_reuse(nest, s) ? 512 : 1;
  return points < tile * nest.threads * 8 && reduced >= 64 * nest.threads;
}

void rfactor_outer(Draft& d, const std::string& name) {
  const Tensor& tensor = d.nest.program->tensors[d.nest.stages[find_stage(d.nest, name)].tensor];
  const Axis* widest = &tensor.reduce_axes[0];
  for (const Axis& axis : tensor.reduce_axes) {
    if (widest->extent < 2 * d.nest.threads) widest = &axis;
  }
  const std::string axis = widest->name;
  // As many parts as threads, or a few times more.
  const int64_t part = (widest->extent + d.nest.threads - 1) / d.nest.threads;
  fixed(d, "split", {name, axis}, {part, 0});
  fixed(d, "rfactor", {name, axis + ".0"});
}

bool follows_result(const Stage& stage, const Access& access) {
  for (size_t a = 0; a < stage.axes.size(); ++a) {
    const NestAxis& axis = stage.axes[a];
    if (!axis.reduction && axis.extent > 1 && std::abs(access.stride[a]) == 1) return true;
  }
  return false;
}

// Whether an operand that is read once lies in memory along an axis of the result.
bool lies_along_result(const Nest& nest, int s) {
  const Stage& stage = nest.stages[s];
  const std::vector<Access> list = accesses(nest, s);
  return std::any_of(list.begin(), list.end(), [&](const Access& access) {
    return access.affine && !reused(stage, access) && follows_result(stage, access);
  });
}

// Whether lanes along the result would gather: an operand that is read once lies in memory along a
// reduction axis, and along no axis of the result.
bool lies_along_reduction(const Nest& nest, int s) {
  const Stage& stage = nest.stages[s];
  const Tensor& tensor = nest.program->tensors[stage.tensor];
  if (is_map(nest, s) || stage.factored_axis >= 0) return false;
  const size_t spatial = tensor.axes.size();
  for (const Access& access : accesses(nest, s)) {
    if (!access.affine || reused(stage, access)) continue;
    bool along = false;
    for (size_t r = 0; r < tensor.reduce_axes.size(); ++r) {
      along = along || (std::abs(access.stride[spatial + r]) == 1 &&
                        tensor.reduce_axes[r].extent >= 2 * stage_lanes(nest, s));
    }
    if (along && !follows_result(stage, access)) return true;
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
  for (const Access& access : accesses(nest, s)) {
    for (size_t a = 0; a < stage.axes.size() && stage.axis_value.empty(); ++a) {
      contiguous = contiguous || (stage.axes[a].reduction && std::abs(access.stride[a]) == 1);
    }
  }
  // A product of matrices at a block of rows is tiled as it is elsewhere.
  const int axes = static_cast<int>(nest.program->tensors[stage.tensor].axes.size());
  const bool product = has_reuse(nest, s) && !is_moment(nest, s, axes);
  const bool at_rows = stage.place == Place::kAt && !product && !lies_along_result(nest, s);
  return contiguous && (vector_reduction || at_rows || lies_along_reduction(nest, s));
}

void tile_all(Draft& d, bool vector_reduction, bool transforms = false) {
  std::vector<std::string> names;
  for (const Stage& stage : d.nest.stages) {
    const bool runs = stage.place != Place::kInlined && stage.place != Place::kEpilogue;
    if (runs) names.push_back(stage.name);
  }
  for (const std::string& name : names) {
    if (is_over(d)) return;
    const int s = find_stage(d.nest, name);
    if (d.failed || s < 0 || d.nest.stages[s].copy_of >= 0) continue;
    const bool tiled = attempt(d, [&](Draft& next) {
      if (!is_map(next.nest, s)) {
        tile_reduction(next, s, runs_along_reduction(next.nest, s, vector_reduction));
      } else if (transforms && is_transform(next.nest, s)) {
        tile_transform(next, s);
      } else {
        tile_map(next, s);
      }
    });
    if (!tiled) tile_plainly(d, s);
  }
}

// Whether lanes along reduction axis `axis` read every operand in whole vectors: as it lies in
// memory, or, where the result has too few columns for vectors, from a copy that is reused.
bool lanes_fit(const Nest& nest, int s, size_t axis) {
  const Tensor& tensor = nest.program->tensors[nest.stages[s].tensor];
  const bool narrow =
      !tensor.axes.empty() && tensor.axes.back().extent < 2 * stage_lanes(nest, s);
  bool contiguous = false;
  for (const Access& access : accesses(nest, s)) {
    const int64_t stride = std::abs(access.stride[axis]);
    contiguous = contiguous || stride == 1;
    if (stride <= 1) continue;
    if (!narrow || !reused(nest.stages[s], access) || !access.affine) return false;
  }
  return contiguous;
}

// Whether both ways of vectorizing some reduction make sense.
bool lanes_are_a_choice(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    if (is_map(nest, s) || stage.place == Place::kEpilogue || stage.place == Place::kInlined) continue;
    const Tensor& tensor = nest.program->tensors[stage.tensor];
    for (size_t r = 0; r < tensor.reduce_axes.size(); ++r) {
      if (lanes_fit(nest, s, tensor.axes.size() + r)) return true;
    }
  }
  return false;
}

bool has_dot_products(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Place place = nest.stages[s].place;
    if (place == Place::kInlined || place == Place::kEpilogue) continue;
    for (int a = 0; a < static_cast<int>(nest.stages[s].axes.size()); ++a) {
      if (dot_group(nest, s, a) > 1) return true;
    }
  }
  return false;
}

bool has_expensive_shared_map(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Tensor& tensor = nest.program->tensors[nest.stages[s].tensor];
    if (is_map(nest, s) && tensor.role != Role::kOutput && nest.stages[s].place != Place::kInlined &&
        nest.stages[s].place != Place::kEpilogue) {
      return true;
    }
  }
  return false;
}

// Sketches as they are found, and what became of the others.
class Collector {
 public:
  Collector(std::vector<Sketch>& space, std::vector<Refusal>* refusals)
      : space_(space), refusals_(refusals) {}

  void add(Draft d, std::string name) {
    // A draft that failed without a reason is a choice that the program does not offer.
    for (std::string& why : d.left_out) note({name, false, std::move(why)});
    if (d.failed && !d.why.empty()) note({name, true, std::move(d.why)});
    if (d.failed) return;
    // Where a choice changes nothing, the space holds what it leads to once.
    for (const Sketch& other : space_) {
      if (to_text(other.steps) == to_text(d.sketch.steps) && other.open == d.sketch.open) return;
    }
    d.sketch.name = std::move(name);
    space_.push_back(std::move(d.sketch));
  }

 private:
  void note(Refusal refusal) {
    if (refusals_ != nullptr) refusals_->push_back(std::move(refusal));
  }

  std::vector<Sketch>& space_;
  std::vector<Refusal>* refusals_;
};

// What disappears into what: nothing else takes as long, where a program has many stages.
Draft merged(const Nest& start, Maps maps) {
  Draft d{start, {}};
  fuse_epilogues(d);
  inline_maps(d, maps);
  fuse_epilogues(d);
  return d;
}

// What of it is fused at rows. `blocks`: products of matrices are fused too, and something must be.
Draft structure(Draft d, bool blocks) {
  bool any = false;
  for (int s = static_cast<int>(d.nest.stages.size()) - 1; s >= 0 && !is_over(d); --s) {
    if (d.nest.stages[s].place != Place::kRoot || (!blocks && !is_map(d.nest, s))) continue;
    bool stands = false;
    const bool applied = attempt(d, [&](Draft& next) { stands = attach_rows(next, s, blocks); });
    any = any || (applied && stands);
  }
  d.failed = any != blocks;
  return d;
}

void add_winograd(const Nest& start, Collector& collector) {
  for (const int64_t results : {2, 4}) {
    Draft cut{start, {}};
    if (!start.winograd || !transform_convolutions(cut, results)) continue;
    inline_maps(cut, Maps::kInlineCheap, /*transforms=*/true);
    fuse_epilogues(cut);
    attach_transforms(cut);
    for (const bool blocks : {false, true}) {
      Draft d = cut;
      if (blocks && !attach_products(d)) continue;
      for (int s = static_cast<int>(d.nest.stages.size()) - 1; s >= 0 && !d.failed; --s) {
        if (d.nest.stages[s].place == Place::kRoot && is_map(d.nest, s)) attach_rows(d, s, false);
      }
      tile_all(d, false, /*transforms=*/true);
      collector.add(std::move(d),
                    concat("winograd F(", results, ", 3)", blocks ? ", blocks of tiles" : ""));
    }
  }
}

}  // namespace

std::vector<Sketch> make_space(const Nest& start, std::vector<Refusal>* refusals) {
  std::vector<Sketch> space;
  Collector collector(space, refusals);
  const Draft cheap = merged(start, Maps::kInlineCheap);
  if (Draft d = structure(cheap, true); !d.failed) {
    tile_all(d, false);
    collector.add(std::move(d), "blocks of rows");
  }
  const Draft usual = structure(cheap, false);
  bool reduces = false;
  for (int s = 0; s < static_cast<int>(start.stages.size()); ++s) reduces |= !is_map(start, s);
  for (const Maps maps : {Maps::kInlineCheap, Maps::kInlineAll, Maps::kKeep}) {
    if (maps == Maps::kInlineAll && !has_expensive_shared_map(usual.nest)) continue;
    if (maps == Maps::kKeep && !reduces) continue;
    const Draft base = maps == Maps::kInlineCheap ? usual : structure(merged(start, maps), false);
    if (maps == Maps::kKeep && to_text(base.sketch.steps) == to_text(usual.sketch.steps)) continue;
    const std::string suffix = maps == Maps::kInlineAll ? ", recompute"
                               : maps == Maps::kKeep    ? ", maps kept"
                                                        : "";
    if (has_dot_products(base.nest)) {
      Draft d = base;
      d.dot_products = true;
      tile_all(d, false);
      collector.add(std::move(d), "dot products" + suffix);
    }
    for (const bool rows : {false, true}) {
      if (rows && !lanes_are_a_choice(base.nest)) continue;
      for (const bool flat : {true, false}) {
        Draft d = base;
        d.flat = flat;
        tile_all(d, rows);
        collector.add(std::move(d), concat(rows ? "lanes along the reduction"
                                                : "lanes along the result",
                                           flat ? "" : ", axes apart", suffix));
      }
      // The same with the first reduction that is too small split over the threads.
      for (int s = 0; s < static_cast<int>(base.nest.stages.size()); ++s) {
        if (!wants_rfactor(base.nest, s)) continue;
        Draft split = base;
        rfactor_outer(split, base.nest.stages[s].name);
        tile_all(split, rows);
        collector.add(std::move(split),
                      concat(rows ? "split reduction, lanes along it" : "split reduction", suffix));
        break;
      }
    }
  }
  add_winograd(start, collector);
  if (space.empty()) space.push_back(last_resort(start));
  return space;
}

Sketch last_resort(const Nest& start) {
  Draft d{start, {}};
  for (size_t s = 0; s < d.nest.stages.size(); ++s) tile_plainly(d, static_cast<int>(s));
  d.sketch.name = "last resort";
  d.sketch.last_resort = true;
  return std::move(d.sketch);
}

}  // namespace lw
