// The dependence test (see legality.h). Definitions are pure and each point of a tensor is written
// by one stage, so order matters in four places only: partial sums (reductions run in parallel, or
// recomputed by a shifted tile), where a producer stands relative to its readers, what an epilogue
// reads, and what a copy is taken of. Everything else is freely reordered.
#include "schedules/legality.h"

#include <algorithm>

#include "schedules/access.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

bool over_axis(const Loop& loop, int axis) {
  return std::any_of(loop.parts.begin(), loop.parts.end(),
                     [&](const LoopPart& part) { return part.axis == axis; });
}

absl::Status check_tile_size(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.variant >= 0) return absl::OkStatus();  // one instruction
  if (s.matrix >= 0) return absl::OkStatus();  // steps/simt/matrix_tile.cc has counted
  int64_t vectors = 1;
  for (int l = 0; l < static_cast<int>(s.loops.size()); ++l) {
    const Loop& loop = s.loops[l];
    if (loop.kind != LoopKind::kUnroll && loop.kind != LoopKind::kVector) continue;
    const int64_t lanes = loop.kind == LoopKind::kVector ? stage_lanes(nest, stage) : 1;
    int64_t points = trips(s, l);
    for (const LoopPart& part : loop.parts) {
      if (part.axis == s.dot_axis) points = (points + s.dot_group - 1) / s.dot_group;
    }
    vectors *= (points + lanes - 1) / lanes;
    if (vectors > kMaxTileVectors) {
      return infeasible(concat("more than ", kMaxTileVectors, " unrolled vectors in ", s.name));
    }
  }
  return absl::OkStatus();
}

// The stage that computes `tensor` where its value becomes final: epilogues stand with their host.
int home_of(const Nest& nest, int stage) {
  return nest.stages[stage].place == Place::kEpilogue ? nest.stages[stage].host : stage;
}

using Readers = std::vector<std::vector<int>>;  // of each tensor

absl::Status check_inside(const Nest& nest, const Readers& readers, int producer, int tensor,
                          int depth) {
  const Stage& p = nest.stages[producer];
  for (int reader : readers[tensor]) {
    if (home_of(nest, reader) == producer) continue;
    const Stage& r = nest.stages[reader];
    const bool copy = r.copy_of >= 0;
    if (!nest.checks(copy ? Legality::kStageReadsFinal : Legality::kComputeAtConsumers)) continue;
    if (depth_within(nest, reader, p.host) < depth) {
      return infeasible(concat(copy ? "copy " : "reader ", r.name, " of ", p.name,
                               " runs outside loop ", p.loop, " of ", nest.stages[p.host].name));
    }
  }
  return absl::OkStatus();
}

// What a copy serves runs inside the loop at which the copy stands.
absl::Status check_serves(const Nest& nest, int copy, int depth) {
  const Stage& c = nest.stages[copy];
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    for (const Stage::Copy& served : nest.stages[s].copies) {
      if (served.stage == copy && depth_within(nest, s, c.host) < depth) {
        return infeasible(concat(nest.stages[s].name, " runs outside the loop of ", c.name));
      }
    }
  }
  return absl::OkStatus();
}

// What the items of a group compute together stands where they are together: outside of the loops
// that they share.
absl::Status check_together(const Nest& nest, int stage) {
  const Stage* s = &nest.stages[stage];
  if (!has_items(*s)) return absl::OkStatus();
  for (; s->place == Place::kAt; s = &nest.stages[s->host]) {
    const Stage& host = nest.stages[s->host];
    for (int l = 0; l <= find_loop(host, s->loop); ++l) {
      if (host.loops[l].kind != LoopKind::kItem) continue;
      return infeasible(concat(nest.stages[stage].name, " would be shared by items that ",
                               host.loops[l].name, " parts"));
    }
  }
  return absl::OkStatus();
}

// A stage that is dealt along its host's loop is complete, part by part, before what the loop runs,
// and whole behind the host.
absl::Status check_dealt(const Nest& nest, const Readers& readers, int stage, int position) {
  const Stage& s = nest.stages[stage];
  const Stage& host = nest.stages[s.host];
  const auto no = [&](const std::string& why) {
    return infeasible(concat(s.name, " with ", host.name, " ", s.loop, ": ", why));
  };
  if (host.place != Place::kRoot || !host.axis_value.empty() || !s.axis_value.empty()) {
    return no("their axes are not their tensors'");
  }
  if (has_items(host) || has_items(s)) return no("items share loops");
  const int axis = dealt_axis(nest, s);
  if (host.axes[axis].extent != s.axes[s.along].extent) return no("the loop has other points");
  bool parallel = false, even = true;
  for (int l = 0; l <= position; ++l) {
    const Loop& loop = host.loops[l];
    if (loop.parts.size() != 1 || loop.parts[0].axis != axis || is_factored(host, loop.parts[0])) {
      return no(concat("loop ", loop.name, " would repeat it"));
    }
    parallel = parallel || loop.kind == LoopKind::kParallel;
    even = even && (loop.tail == Tail::kCompose || range_of(host, l) % loop.parts[0].tile == 0);
  }
  if (parallel && !even) return no("two threads would write the same");
  std::vector<int> results = {s.tensor};
  for (int e : s.epilogue) results.push_back(nest.stages[e].tensor);
  for (const int tensor : results) {
    for (const int reader : readers[tensor]) {
      const int home = home_of(nest, reader);
      if (home == stage || root_of(nest, home) > s.host) continue;
      const bool own = home == s.host && nest.stages[reader].copy_of < 0 &&
                       index_axis(nest, reader, tensor, s.along) == axis;
      if (!own) return no(concat(nest.stages[reader].name, " reads more of it than is there"));
    }
  }
  return absl::OkStatus();
}

absl::Status check_place(const Nest& nest, const Readers& readers, int stage) {
  const Stage& s = nest.stages[stage];
  const Stage& host = nest.stages[s.host];
  const int position = find_loop(host, s.loop);
  if (position < 0) return infeasible(concat(s.name, " stands at a loop that is gone: ", s.loop));
  if (position >= tile_begin(host)) {
    return infeasible(concat(s.name, " would stand inside the register tile of ", host.name));
  }
  if (has_parallel(s) && inside_parallel(nest, stage)) {
    return infeasible(concat("the parallel loop of ", s.name, " would run inside another"));
  }
  if (s.copy_of >= 0) return check_serves(nest, stage, position + 1);
  RETURN_IF_ERROR(check_together(nest, stage));
  if (s.along >= 0) return check_dealt(nest, readers, stage, position);
  RETURN_IF_ERROR(check_inside(nest, readers, stage, s.tensor, position + 1));
  for (int e : s.epilogue) {
    RETURN_IF_ERROR(check_inside(nest, readers, stage, nest.stages[e].tensor, position + 1));
  }
  const int final_tensor = s.epilogue.empty() ? s.tensor : nest.stages[s.epilogue.back()].tensor;
  if (nest.program->tensors[final_tensor].role == Role::kOutput ||
      nest.program->tensors[s.tensor].role == Role::kOutput) {
    return infeasible(concat(s.name, " is an output: it is computed whole"));
  }
  return absl::OkStatus();
}

// Copies of one tensor for several readers have numbers, by which of them there are.
int copy_for_reader(const Nest& nest, std::string_view copy, std::string_view reader) {
  const int stage = find_stage(nest, reader);
  if (stage < 0) return -1;
  for (const Stage::Copy& read : nest.stages[stage].copies) {
    if (concat(nest.program->tensors[read.tensor].name, ".copy") == copy) return read.stage;
  }
  return -1;
}

int named_stage(const Nest& nest, std::string_view name) {
  const size_t colon = name.find(':');
  return colon == name.npos
             ? find_stage(nest, name)
             : copy_for_reader(nest, name.substr(0, colon), name.substr(colon + 1));
}

}  // namespace

absl::Status expect(const Step& step, const Arity& arity) {
  const int names = static_cast<int>(step.names.size());
  const int numbers = static_cast<int>(step.numbers.size());
  if (names >= arity.min_names && names <= arity.max_names && numbers >= arity.min_numbers &&
      numbers <= arity.max_numbers) {
    return absl::OkStatus();
  }
  return infeasible(
      concat(step.kind->name, " does not take ", names, " names and ", numbers, " numbers"));
}

absl::StatusOr<int> target_stage(const Nest& nest, const Step& step) {
  const int stage = step.names.empty() ? -1 : named_stage(nest, step.names[0]);
  if (stage < 0) return infeasible(concat("no stage ", step.names.empty() ? "" : step.names[0]));
  const Place place = nest.stages[stage].place;
  if (place == Place::kInlined || place == Place::kEpilogue) {
    return infeasible(concat(step.names[0], " runs no loops of its own"));
  }
  return stage;
}

bool is_plain(const Loop& loop) {
  return loop.parts.size() == 1 && loop.parts[0].tile == 1 && loop.kind == LoopKind::kSerial;
}

bool is_unscheduled(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const auto hosted = [&](const Stage& other) { return other.host == stage; };
  return s.place == Place::kRoot && s.copy_of < 0 && s.factored_axis < 0 && s.axis_value.empty() &&
         s.copies.empty() && s.prefetches.empty() && !s.non_temporal &&
         s.loops.size() == s.axes.size() && std::all_of(s.loops.begin(), s.loops.end(), is_plain) &&
         std::none_of(nest.stages.begin(), nest.stages.end(), hosted);
}

absl::StatusOr<int> loop_position(const Stage& stage, std::string_view name) {
  const int position = find_loop(stage, name);
  if (position < 0) return infeasible(concat(stage.name, " has no loop ", name));
  return position;
}

absl::StatusOr<Tail> tail_of(int64_t number) {
  if (number < 0 || number > 2) return infeasible(concat("no tail policy ", number));
  return static_cast<Tail>(number);
}

bool shift_is_harmless(const Stage& stage, int position) {
  for (int l = 0; l <= position; ++l) {
    if (is_reduction(stage, stage.loops[l])) return false;
  }
  return !over_axis(stage.loops[position], stage.factored_axis);
}

absl::Status check_loops(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const int count = static_cast<int>(s.loops.size());
  int parallel = 0;
  bool accumulates = false;  // partial sums in memory
  for (int l = 0, run = run_begin(s); l < run; ++l) {
    accumulates = accumulates || is_reduction(s, s.loops[l]);
  }
  // Of several sub-groups each exchanges its own.
  const Stage& root = nest.stages[root_of(nest, stage)];
  bool exchanges = root.sub_group > 0 && !has_several_sub_groups(root);
  for (int l = 0; l < count; ++l) {
    const Loop& loop = s.loops[l];
    if (loop.kind == LoopKind::kParallel) {
      if (++parallel > 1) return infeasible(concat("parallel loops of ", s.name, " would nest"));
      if (is_reduction(s, loop) && nest.checks(Legality::kParallelReduction)) {
        return infeasible(concat("parallel loop ", loop.name, " would run a reduction"));
      }
    }
    if (loop.kind == LoopKind::kItem && is_reduction(s, loop) &&
        !(exchanges && l >= run_begin(s)) && nest.checks(Legality::kParallelReduction)) {
      return infeasible(concat("loop ", loop.name, " would share a reduction among items"));
    }
    exchanges = exchanges || (loop.kind == LoopKind::kItem && root.sub_group > 0);
    if (loop.kind == LoopKind::kVector && l + 1 < count &&
        nest.checks(Legality::kVectorInnermost)) {
      return infeasible(concat("vector loop ", loop.name, " is not the last"));
    }
    if (loop.tail == Tail::kShift && nest.checks(Legality::kShiftAccumulates) &&
        (!shift_is_harmless(s, l) || (loop.kind == LoopKind::kParallel && accumulates))) {
      return infeasible(concat("the shifted tail of ", loop.name, " would add partial sums twice"));
    }
  }
  return check_tile_size(nest, stage);
}

absl::Status check_places(const Nest& nest) {
  const auto attached = [](const Stage& stage) { return stage.place == Place::kAt; };
  if (std::none_of(nest.stages.begin(), nest.stages.end(), attached)) return absl::OkStatus();
  const Readers readers = all_readers(nest);
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    if (attached(nest.stages[s])) RETURN_IF_ERROR(check_place(nest, readers, s));
  }
  return absl::OkStatus();
}

// Tiles start at whole groups, of the copy's box too: what masks and moves a tile could not be
// followed through a group's quotients.
bool groups_fit(const Nest& nest, int reader, int tensor, const Stage& copy) {
  const Stage& stage = nest.stages[reader];
  const int axis = index_axis(nest, reader, tensor, copy.group_dim);
  if (axis < 0 || inner_extents(stage, tile_begin(stage))[axis] % copy.group != 0) return false;
  return std::none_of(stage.loops.begin(), stage.loops.end(), [&](const Loop& loop) {
    const bool moves = loop.tail == Tail::kShift ||
                       (loop.tail == Tail::kMask && copy.place == Place::kAt);
    return moves && over_axis(loop, axis);
  });
}

absl::Status check_blocks(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    for (const Stage::Copy& served : stage.copies) {
      const Stage& copy = nest.stages[served.stage];
      if (copy.group > 0 && !groups_fit(nest, s, served.tensor, copy)) {
        return infeasible(concat("groups of ", copy.name, " do not fit the tile of ", stage.name));
      }
      if (copy.block == 0 || copy.swizzled) continue;  // instructions find what is swizzled
      const int axis = index_axis(nest, s, served.tensor, copy.block_dim);
      bool aligned = axis >= 0 && inner_extents(stage, tile_begin(stage))[axis] % copy.block == 0;
      for (int l = 0; aligned && l < static_cast<int>(stage.loops.size()); ++l) {
        aligned = !(over_axis(stage.loops[l], axis) && stage.loops[l].tail == Tail::kShift);
      }
      if (!aligned) {
        return infeasible(concat("blocks of ", copy.name, " do not fit the tile of ", stage.name));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status check_legal(const Nest& nest, int stage) {
  RETURN_IF_ERROR(check_loops(nest, stage));
  RETURN_IF_ERROR(check_places(nest));
  return check_blocks(nest);
}

int depth_within(const Nest& nest, int stage, int host) {
  for (int s = stage; s >= 0;) {
    const Stage& inner = nest.stages[s];
    const int loops = static_cast<int>(nest.stages[host].loops.size());
    if (s == host) return loops;
    if (inner.place != Place::kAt && inner.place != Place::kEpilogue) return -1;
    if (inner.host == host && inner.place == Place::kAt) {
      return find_loop(nest.stages[host], inner.loop) + 1;
    }
    s = inner.host;
  }
  return -1;
}

bool has_parallel(const Stage& stage) {
  return std::any_of(stage.loops.begin(), stage.loops.end(),
                     [](const Loop& loop) { return loop.kind == LoopKind::kParallel; });
}

bool has_items(const Stage& stage) {
  return std::any_of(stage.loops.begin(), stage.loops.end(),
                     [](const Loop& loop) { return loop.kind == LoopKind::kItem; });
}

absl::Status check_group_reads(const Stage& host, int loop) {
  int items = -1;
  for (int l = 0; l < static_cast<int>(host.loops.size()); ++l) {
    if (host.loops[l].kind == LoopKind::kItem) items = l;
  }
  const Loop& shared = host.loops[items];
  if (loop >= items && is_reduction(host, shared)) {
    return infeasible(concat("items accumulate by themselves in ", shared.name));
  }
  // Items whose tiles differ in size run code of their own, in which the others meet nobody.
  for (const LoopPart& part : shared.parts) {
    const bool even = host.axes[part.axis].extent % part.tile == 0;
    if (!even && shared.tail == Tail::kCompose) {
      return infeasible(concat("items of ", shared.name, " differ at its end"));
    }
  }
  for (int l = items + 1; l <= loop; ++l) {
    for (const LoopPart& part : host.loops[l].parts) {
      for (const LoopPart& dealt : shared.parts) {
        if (part.axis != dealt.axis) continue;
        return infeasible(concat("items move along ", host.loops[l].name, " one by one"));
      }
    }
  }
  return absl::OkStatus();
}

bool has_several_sub_groups(const Stage& root) {
  return root.sub_group > 0 && root.items > root.sub_group;
}

int root_of(const Nest& nest, int stage) {
  while (nest.stages[stage].place == Place::kAt) stage = nest.stages[stage].host;
  return stage;
}

bool inside_parallel(const Nest& nest, int stage) {
  const Stage* s = &nest.stages[stage];
  while (s->place == Place::kAt) {
    const Stage& host = nest.stages[s->host];
    for (const Loop& loop : host.loops) {
      if (loop.kind == LoopKind::kParallel) return true;
      if (loop.name == s->loop) break;
    }
    s = &host;
  }
  return false;
}

absl::Status split_loop(Nest& nest, int stage, int position, absl::Span<const int64_t> sizes,
                        Tail tail) {
  Stage& s = nest.stages[stage];
  const Loop old = s.loops[position];
  if (old.parts.size() != 1) return infeasible(concat("fused loop ", old.name, " is not split"));
  if (old.kind != LoopKind::kSerial) return infeasible(concat(old.name, " is not serial"));
  if (is_factored(s, old.parts[0])) return infeasible(concat(old.name, " is factored"));
  const int count = static_cast<int>(sizes.size());
  const int64_t range = range_of(s, position);
  int64_t tile = old.parts[0].tile;
  const int64_t most = (range + tile - 1) / tile;
  int64_t product = 1;
  s.loops.insert(s.loops.begin() + position, count, Loop());
  for (int n = count; n >= 0; --n) {
    Loop& loop = s.loops[position + n];
    loop.name = concat(old.name, ".", n);
    loop.parts = {{old.parts[0].axis, tile}};
    loop.tail = n == count ? old.tail : tail;
    if (n == 0) break;
    if (sizes[n - 1] < 1) return infeasible(concat("factor ", sizes[n - 1]));
    // The division keeps the product from overflowing.
    if (sizes[n - 1] > most / product) {
      return infeasible(concat("factors exceed the ", most, " iterations of ", old.name));
    }
    product *= sizes[n - 1];
    tile *= sizes[n - 1];
  }
  if (tail == Tail::kShift && tile > range) {
    return infeasible(concat("a tile of ", old.name, " does not fit: nowhere to shift it"));
  }
  for (Stage& other : nest.stages) {
    if (other.place == Place::kAt && other.host == stage && other.loop == old.name) {
      other.loop = s.loops[position + count].name;
    }
  }
  return absl::OkStatus();
}

absl::Status merge_loops(Nest& nest, int stage, int position) {
  Stage& s = nest.stages[stage];
  Loop& a = s.loops[position];
  const Loop& b = s.loops[position + 1];
  for (const LoopPart& part : b.parts) {
    if (over_axis(a, part.axis))
      return infeasible(concat(a.name, " and ", b.name, " run over one axis"));
  }
  const auto exact = [&](int l) {
    for (size_t p = 0; p < s.loops[l].parts.size(); ++p) {
      const LoopPart& part = s.loops[l].parts[p];
      if (s.axes[part.axis].extent % part.tile != 0) return false;
      if (range_of(s, l, static_cast<int>(p)) % part.tile != 0) return false;
    }
    return true;
  };
  if (a.tail != b.tail) {
    if (exact(position)) {
      a.tail = b.tail;
    } else if (!exact(position + 1)) {
      return infeasible(concat("tails of ", a.name, " and ", b.name, " differ"));
    }
  }
  for (Stage& other : nest.stages) {
    if (other.place != Place::kAt || other.host != stage) continue;
    if (other.loop == a.name) return infeasible(concat(other.name, " stands at loop ", a.name));
    if (other.loop == b.name) other.loop = concat(a.name, "*", b.name);
  }
  a.name = concat(a.name, "*", b.name);
  a.parts.insert(a.parts.end(), b.parts.begin(), b.parts.end());
  s.loops.erase(s.loops.begin() + position + 1);
  return absl::OkStatus();
}

void fuse_axes(Stage& stage, int a, int b) {
  const int64_t inner = stage.axes[b].extent;
  const int count = static_cast<int>(stage.axes.size());
  const auto renumbered = [&](int axis) { return axis - (axis > b); };
  std::vector<Expr> values;
  for (int axis = 0; axis < count; ++axis) values.push_back(make_axis(renumbered(axis)));
  const Expr fused = make_axis(renumbered(a)), extent = make_int(Type::kI64, inner);
  values[a] = make_binary(ExprOp::kDiv, fused, extent);
  values[b] = make_binary(ExprOp::kMod, fused, extent);
  if (stage.axis_value.empty()) {
    stage.axis_value = values;
  } else {
    for (Expr& value : stage.axis_value) value = substitute(value, values);
  }
  stage.axes[a].name = concat(stage.axes[a].name, "*", stage.axes[b].name);
  stage.axes[a].extent *= inner;
  stage.axes.erase(stage.axes.begin() + b);
  for (Loop& loop : stage.loops) {
    for (LoopPart& part : loop.parts) part.axis = renumbered(part.axis);
  }
}

}  // namespace lw
