// Loops: every instance of a loop body with its own constant extents.
//
// A loop whose tile does not divide its range runs its full tiles in a loop and the remainder once,
// as code of its own (kCompose); or all tiles alike with a limit that masks points (kMask); or with
// the last tile moved back (kShift). Fused and parallel loops decide by a branch what serial loops
// peel.
#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "schedules/dot.h"
#include "src/base/check.h"
#include "src/lower/tiles/boxes.h"
#include "src/lower/tiles/matrices.h"
#include "src/lower/tiles/rows.h"
#include "src/lower/tiles/send.h"
#include "src/lower/tiles/tile.h"
#include "src/lower/tiles/wide.h"

namespace lw::lowering {
namespace {

using Body = std::function<void()>;

// Where the axis stands in one instance of a loop's body, relative to the instance outside.
struct Instance {
  Affine iteration, start;
  int64_t extent;                          // points
  bool limited = false;                    // to those of the instance outside: a masked tail
};

void instance(Frame& f, const LoopPart& part, const Instance& at, const Body& body) {
  const AxisState saved = f.axes[part.axis];
  AxisState& axis = f.axes[part.axis];
  axis.base = saved.base + at.start;
  axis.extent = at.extent;
  if (at.limited) axis.limits.push_back(saved.base + affine(saved.extent));
  const Affine around = std::exchange(f.iteration, at.iteration);
  const bool factored = f.stage.factored_axis == part.axis && f.stage.factored_tile == part.tile;
  AxisState partial;
  if (factored) {
    partial = f.axes[0];
    f.axes[0] = {partial.base + at.iteration, 1, {}};
  }
  body();
  if (factored) f.axes[0] = partial;
  f.iteration = around;
  f.axes[part.axis] = saved;
}

// An iteration of `count`, before or after which there are others of the same loop.
struct Visit {
  Affine iteration;
  int64_t count;
  bool has_before = false, has_after = false;
};

// Remembers, for reduction loops outside the register run, when a point is visited first and last.
void tracked(Frame& f, bool track, const Visit& visit, const Body& body) {
  if (!track) return body();
  const auto first = f.first, last = f.last;
  const bool never_first = f.never_first, never_last = f.never_last;
  if (visit.has_before) f.never_first = true;
  if (visit.has_after) f.never_last = true;
  if (visit.count > 1) {
    f.first.push_back(visit.iteration * -1);
    f.last.push_back(visit.iteration - affine(visit.count - 1));
  }
  body();
  f.first = first;
  f.last = last;
  f.never_first = never_first;
  f.never_last = never_last;
}

// As many as the stage says, or its first loop that is shared among items has iterations.
int64_t group_items(const Stage& stage) {
  if (stage.items > 0) return stage.items;
  for (size_t l = 0; l < stage.loops.size(); ++l) {
    if (stage.loops[l].kind == LoopKind::kItem) return trips(stage, static_cast<int>(l));
  }
  return 1;
}

// for (var = 0; var < count; ++var) body(var); one iteration needs no loop, but for a group.
void counted(Frame& f, int64_t count, bool parallel,
             const std::function<void(const Affine&)>& body) {
  Emitter& e = f.e;
  if (count == 0) return;
  const int64_t items = parallel ? group_items(f.stage) : 1;
  if (count == 1 && items == 1) return body(affine(0));
  Stmt loop;
  loop.kind = Stmt::Kind::kFor;
  loop.count = count;
  loop.parallel = parallel;
  loop.var = e.new_var({0, count - 1});
  const bool was_parallel = e.in_parallel;
  f.vars.push_back(loop.var);
  e.in_parallel = was_parallel || parallel;
  loop.items = items;
  if (parallel) loop.cluster = f.stage.cluster, loop.producer = f.stage.producer;
  if (parallel) e.items = items, e.sub_group = f.stage.sub_group;
  e.emit_into(loop.body, [&] { body(count == 1 ? affine(0) : variable(loop.var)); });
  if (parallel) e.items = 1, e.sub_group = 0;
  e.in_parallel = was_parallel;
  f.vars.pop_back();
  e.emit(std::move(loop));
}

struct Trips {
  int64_t extent, tile, full, rest, all;
};
// `whole`: the last tile is like the others.
Trips trips_of(const Frame& f, const LoopPart& part, bool whole = false) {
  const int64_t extent = f.axes[part.axis].extent, rest = whole ? 0 : extent % part.tile;
  const int64_t full = (extent + (whole ? part.tile - 1 : 0)) / part.tile;
  return {extent, part.tile, full, rest, full + (rest > 0 ? 1 : 0)};
}

// The instance for a run-time iteration number: full tile, or what its tail says.
void dispatch(Frame& f, const LoopPart& part, Tail tail, const Affine& v, const Body& body) {
  Emitter& e = f.e;
  const Trips t = trips_of(f, part);
  if (t.full == 0) return instance(f, part, {affine(0), affine(0), t.rest}, body);
  if (t.rest == 0) return instance(f, part, {v, v * t.tile, t.tile}, body);
  if (tail == Tail::kMask) return instance(f, part, {v, v * t.tile, t.tile, true}, body);
  if (tail == Tail::kShift) {
    const Affine start = e.emit_int(Stmt::IntOp::kMin, v * t.tile, affine(t.extent - t.tile), 1);
    return instance(f, part, {v, start, t.tile}, body);
  }
  Stmt branch;
  branch.kind = Stmt::Kind::kIf;
  branch.conditions.push_back(affine(t.full - 1) - v);
  e.emit_into(branch.body, [&] {
    // Says what the branch knows: without it every read in here would look as if it could run out
    // of its tensor, and be masked.
    const Affine full = e.emit_int(Stmt::IntOp::kMin, v, affine(t.full - 1), 1);
    instance(f, part, {full, full * t.tile, t.tile}, body);
  });
  e.emit_into(branch.otherwise, [&] {
    instance(f, part, {affine(t.full), affine(t.full * t.tile), t.rest}, body);
  });
  e.emit(std::move(branch));
}

void dispatch_parts(Frame& f, const Loop& loop, size_t part, const std::vector<Affine>& v,
                    const Body& body) {
  if (part == loop.parts.size()) return body();
  dispatch(f, loop.parts[part], loop.tail, v[part],
           [&] { dispatch_parts(f, loop, part + 1, v, body); });
}

// Whether the group meets inside of a loop of the stage, to fetch what its items share.
bool meets_inside(const Frame& f, const Loop& loop) {
  const std::vector<Stage>& stages = f.e.nest.stages;
  const int inside_of = find_loop(f.stage, loop.name);
  return std::any_of(stages.begin(), stages.end(), [&](const Stage& s) {
    return s.place == Place::kAt && s.host == f.s && s.memory >= 0 &&
           find_loop(f.stage, s.loop) >= inside_of;
  });
}

void only_where(Emitter& e, const std::vector<Affine>& conditions, const Body& body) {
  Stmt branch;
  branch.kind = Stmt::Kind::kIf;
  branch.conditions.assign(conditions.begin(), conditions.end());
  e.emit_into(branch.body, body);
  e.emit(std::move(branch));
}

struct Dealt {
  int64_t count;                           // to whom the loop's iterations are dealt
  Affine which;                            // of them
};

// Items of the group; or, where that is several sub-groups, these, or the items of each.
Dealt dealt_to(const Frame& f, const Loop& loop) {
  Emitter& e = f.e;
  const Affine item = e.item();
  const bool matrices = f.stage.matrix >= 0;
  const int host = f.stage.copy_of >= 0 ? f.stage.host : -1;
  const bool shared = host >= 0 && e.nest.stages[host].matrix >= 0;
  const bool one = e.sub_group == 0 || (e.sub_group == e.items && !matrices);
  if (one || shared) return {e.items, item};
  const auto first = std::find_if(f.stage.loops.begin(), f.stage.loops.end(), [](const Loop& l) {
    return l.kind == LoopKind::kItem;
  });
  if (matrices || first->name == loop.name) {
    return {e.items / e.sub_group, e.emit_int(Stmt::IntOp::kDiv, item, {}, e.sub_group)};
  }
  return {e.sub_group, e.emit_int(Stmt::IntOp::kMod, item, {}, e.sub_group)};
}

// The iterations are dealt to the group's items. Where the last round has too few, those without
// one rest; or, if all must come where the group meets, do again what another does, and keep
// nothing.
void deal(Frame& f, const Loop& loop, int64_t count,
          const std::function<void(const Affine&)>& body) {
  Emitter& e = f.e;
  if (count == 0) return;
  const Dealt dealt = dealt_to(f, loop);
  const int64_t items = dealt.count, rounds = (count + items - 1) / items;
  counted(f, rounds, false, [&](const Affine& round) {
    const Affine mine = dealt.which + round * items, has_one = affine(count - 1) - mine;
    if (known_at_least_zero(e, has_one)) return body(mine);
    const auto clamped = [&] {
      body(e.emit_int(Stmt::IntOp::kMin, mine, affine(count - 1), 1));
    };
    if (!meets_inside(f, loop)) return only_where(e, {has_one}, clamped);
    if (is_reduction(f.stage, loop) && e.failure.ok()) {
      e.failure = infeasible("items would meet where some of them accumulate");
    }
    f.working.push_back(has_one);
    clamped();
    f.working.pop_back();
  });
}

// Parallel, shared and fused loops: one counter for all parts, the last running fastest.
void fused_loop(Frame& f, const Loop& loop, const Body& body) {
  std::vector<int64_t> counts;
  int64_t total = 1;
  for (const LoopPart& part : loop.parts) {
    counts.push_back(trips_of(f, part).all);
    total *= counts.back();
  }
  const size_t shared = f.shared.size();
  const auto iteration = [&](const Affine& counter) {
    std::vector<Affine> v(counts.size());
    Affine rest = counter;
    for (size_t p = counts.size(); p-- > 1;) {
      v[p] = f.e.emit_int(Stmt::IntOp::kMod, rest, {}, counts[p]);
      rest = f.e.emit_int(Stmt::IntOp::kDiv, rest, {}, counts[p]);
    }
    v[0] = rest;
    dispatch_parts(f, loop, 0, v, body);
  };
  if (loop.kind != LoopKind::kItem) {
    counted(f, total, loop.kind == LoopKind::kParallel, iteration);
    return;
  }
  for (const LoopPart& part : loop.parts) f.shared.emplace_back(part.axis, f.axes[part.axis]);
  deal(f, loop, total, iteration);
  f.shared.resize(shared);
}

// What stands at the loop.
void attached(Frame& f, const Loop& loop) {
  const AtLoop::Slots slots = std::exchange(f.slots, AtLoop::Slots::kFetched);
  if (f.shared.empty()) {
    return emit_attached(f.e, f.s, loop.name, {f.axes, f.axes, f.iteration, slots});
  }
  std::vector<AxisState> group = f.axes;
  for (auto it = f.shared.rbegin(); it != f.shared.rend(); ++it) group[it->first] = it->second;
  emit_attached(f.e, f.s, loop.name, {f.axes, group, f.iteration, slots});
}

// Slots in which copies at the loop take turns.
int64_t slots_at(const Frame& f, const Loop& loop) {
  int64_t most = 1;
  for (const Stage& s : f.e.nest.stages) {
    const bool here = s.place == Place::kAt && s.host == f.s && s.loop == loop.name;
    if (here) most = std::max<int64_t>(most, s.slots);
  }
  return most;
}

// What an iteration of the loop, whose tile starts there, needs in slots.
void fetch_ahead(Frame& f, const Loop& loop, const Affine& iteration, const Affine& start) {
  std::vector<Stmt> fetch;
  f.e.emit_into(fetch, [&] {
    instance(f, loop.parts[0], {iteration, start, loop.parts[0].tile}, [&] {
      f.slots = AtLoop::Slots::kAhead;
      attached(f, loop);
    });
  });
  if (f.e.options.async_copies) send(f.e.kernel, fetch);
  for (Stmt& s : fetch) f.e.out->push_back(std::move(s));
}

// Full tiles: each iteration first fetches what a later one needs: the next or, where copies go on
// their way, that which takes the slot of the last, or of that before, if products read the last's.
void loop_ahead(Frame& f, const Loop& loop, int64_t count,
                const std::function<void(const Affine&)>& full_tile) {
  Emitter& e = f.e;
  const bool sends = e.options.async_copies;
  const int64_t slots = slots_at(f, loop);
  const bool flows = sends && slots > 2 && f.stage.matrix >= 0 && is_wide(e.nest, f.stage) &&
                     !f.stage.made;
  const int64_t ahead = sends ? slots - (flows ? 2 : 1) : 1;
  const bool outer = std::exchange(f.products_flow, flows);
  for (int64_t v = 0; v < ahead; ++v) {
    if (v < count) fetch_ahead(f, loop, affine(v), affine(v * loop.parts[0].tile));
    if (sends) e.emit(Op::kCommit);
  }
  counted(f, count, false, [&](const Affine& v) {
    if (sends) e.emit(Op::kLanded, ahead - 1);
    if (count > ahead) {
      only_where(e, {affine(count - 1 - ahead) - v}, [&] {
        // Says what the branch knows.
        const Affine next =
            e.emit_int(Stmt::IntOp::kMin, v + affine(ahead), affine(count - 1), 1);
        fetch_ahead(f, loop, v + affine(ahead), next * loop.parts[0].tile);
      });
    }
    if (sends) e.emit(Op::kCommit);
    full_tile(v);
    if (flows) e.emit(Op::kMultiplied, 1);
  });
  if (flows) {
    // Others may still read what this item is to fetch when it comes here again.
    e.emit(Op::kMultiplied, 0);
    e.emit(Op::kLanded, 0);
  }
  f.products_flow = outer;
}

void one_loop(Frame& f, const Loop& loop, bool track, const Body& body) {
  if (loop.parts.size() > 1 || loop.kind == LoopKind::kParallel || loop.kind == LoopKind::kItem) {
    return fused_loop(f, loop, body);
  }
  const LoopPart part = loop.parts[0];
  const Trips t = trips_of(f, part, ends_in_zeros(f, loop));
  if (t.full == 0) return instance(f, part, {affine(0), affine(0), t.rest}, body);
  if (t.rest > 0 && loop.tail != Tail::kCompose) {
    counted(f, t.all, false, [&](const Affine& v) {
      tracked(f, track, {v, t.all}, [&] { dispatch(f, part, loop.tail, v, body); });
    });
    return;
  }
  const bool ahead = t.full > 1 && slots_at(f, loop) > 1;
  const auto full_tile = [&](const Affine& v) {
    instance(f, part, {v, v * t.tile, t.tile}, [&] {
      if (ahead) f.slots = AtLoop::Slots::kThere;
      body();
    });
  };
  // One point of the axis at a time does not differ within a tile: a branch decides.
  Interior inner = track || ahead || !unrolled(f, part.axis)
                       ? Interior{0, t.full}
                       : interior(f.e, f.guards, f.axes, part.axis, t.tile, t.full);
  const bool phases =
      !track && !ahead && !is_reduction(f.stage, loop) && t.tile == 1 && t.rest == 0;
  if (phases && unrolls_phase(f.e, f.guards, f.axes, part.axis, t.full)) inner = {t.full, t.full};
  for (int64_t v = 0; v < inner.first; ++v) full_tile(affine(v));
  const auto visited = [&](const Affine& v) {
    const Visit visit{v, t.full, false, t.rest > 0};
    tracked(f, track, visit, [&] { full_tile(v + affine(inner.first)); });
  };
  if (ahead) loop_ahead(f, loop, t.full, visited);
  else counted(f, inner.last - inner.first, false, visited);
  for (int64_t v = inner.last; v < t.full; ++v) full_tile(affine(v));
  if (t.rest > 0) {
    tracked(f, track, {affine(0), 1, true}, [&] {
      instance(f, part, {affine(t.full), affine(t.full * t.tile), t.rest}, body);
    });
  }
}

// Whether a loop from `l` to the tile moves what the guard looks at.
bool moves(const Frame& f, int l, const Guard& guard) {
  for (; l < f.tile; ++l) {
    for (const LoopPart& part : f.stage.loops[l].parts) {
      if (guard.moved_by(part.axis)) return true;
    }
  }
  return false;
}

void decide(Frame& f, int l, size_t g, const Body& body);

// What is left to decide, where some points may count.
void where_some(Frame& f, int l, size_t g, const GuardRange& range, const Body& body) {
  Emitter& e = f.e;
  std::vector<Affine> some = some_of(f.guards[g], range);
  std::erase_if(some, [&e](const Affine& bound) { return known_at_least_zero(e, bound); });
  if (some.empty()) return decide(f, l, g + 1, body);
  only_where(e, some, [&] { decide(f, l, g + 1, body); });
}

// Branches over the guards, from number `g`, that no loop from `l` on moves.
void decide(Frame& f, int l, size_t g, const Body& body) {
  Emitter& e = f.e;
  if (!e.failure.ok()) return;
  GuardRange range;
  for (; g < f.guards.size(); ++g) {
    const Guard& guard = f.guards[g];
    if (f.decided[g] || moves(f, l, guard)) continue;
    range = range_of_guard(e, guard, f.axes);
    if (range.outside) return;
    // Rows that differ from each other know by themselves where their answers are settled.
    // Nor does who multiplies matrices with others part from them, or who fetches with them.
    const bool by_row = range.settled || (!range.single() && guard.divisor > 1) ||
                        f.stage.matrix >= 0 || parts_items(f, l, guard);
    if (!range.inside && !by_row) break;
  }
  if (g == f.guards.size()) return body();
  if (f.guards[g].idle) return where_some(f, l, g, range, body);
  Stmt branch;
  branch.kind = Stmt::Kind::kIf;
  const size_t assumed = e.assumed.size(), quotients = e.quotients.size();
  for (const Affine& bound : conditions_of(e, f.guards[g], range)) {
    if (known_at_least_zero(e, bound)) continue;
    branch.conditions.push_back(bound);
    e.assumed.push_back(bound);
  }
  f.decided[g] = true;
  e.emit_into(branch.body, [&] { decide(f, l, g + 1, body); });
  e.assumed.resize(assumed);
  if (!range.single()) {
    e.emit_into(branch.otherwise, [&] { where_some(f, l, g, range, body); });
  }
  f.decided[g] = false;
  e.emit(std::move(branch));
  e.quotients.resize(quotients);
}

// What keeps results, of items that have some.
void kept(Frame& f, const Body& body) {
  f.working.empty() ? body() : only_where(f.e, f.working, body);
}

// The reductions of the run, from loop `l` to the tile.
void run_loops(Frame& f, int l, const Accumulators& accumulators) {
  decide(f, l, 0, [&] {
    if (l == f.tile) return update_accumulators(f, accumulators);
    const Loop& loop = f.stage.loops[l];
    const Body body = [&] {
      attached(f, loop);
      run_loops(f, l + 1, accumulators);
    };
    const bool plain = loop.parts.size() == 1 && loop.kind == LoopKind::kSerial;
    const Trips t = trips_of(f, loop.parts[0]);
    if (!plain || t.rest > 0 ||
        !unrolls_window(f.e, f.guards, f.axes, loop.parts[0].axis, t.full)) {
      return one_loop(f, loop, false, body);
    }
    // Taps share what they read with their neighbours, but the tile leaves no registers to hold it.
    for (int64_t v = 0; v < t.full; ++v) {
      f.e.emit(Op::kFence);
      instance(f, loop.parts[0], {affine(v), affine(v * t.tile), t.tile}, body);
    }
  });
}

void outer_loops(Frame& f, int l) {
  if (!f.e.failure.ok()) return;
  const bool reduction = f.stage.copy_of < 0 && f.e.tensor(f.stage.tensor).reduce != Reduce::kNone;
  if (l == f.run) {
    if (!reduction) return kept(f, [&] { emit_map_tile(f); });
    Frame results = of_results(f);
    const Accumulators accumulators = start_accumulators(results);
    run_loops(f, l, accumulators);
    return kept(f, [&] { finish_accumulators(results, accumulators); });
  }
  const Loop& loop = f.stage.loops[l];
  one_loop(f, loop, reduction && is_reduction(f.stage, loop), [&] {
    attached(f, loop);
    outer_loops(f, l + 1);
  });
}

}  // namespace

// A map that has taken over its operand's place (region.cc).
static bool writes_what_it_reads(const Emitter& e, int s) {
  const Stage& stage = e.nest.stages[s];
  const int buffer = e.home[stage.tensor].buffer;
  const std::vector<int> reads = body_reads(e.nest, s);
  return stage.copy_of < 0 && buffer >= 0 &&
         std::any_of(reads.begin(), reads.end(),
                     [&](int tensor) { return e.home[tensor].buffer == buffer; });
}

void emit_stage(Emitter& e, int s, std::vector<AxisState> axes) {
  const Stage& stage = e.nest.stages[s];
  if (stage.boxed) return copy_boxes(e, s, axes);
  Guards guards = guards_of(e, s);
  Frame f{.e = e,
          .s = s,
          .stage = stage,
          .run = run_begin(stage),
          .tile = tile_begin(stage),
          .axes = std::move(axes),
          .lanes = stage_lanes(e.nest, s),
          .guards = std::move(guards.all),
          .outside = guards.outside,
          .overlaps = begins_anywhere(stage) && !writes_what_it_reads(e, s)};
  f.decided.assign(f.guards.size(), false);
  // Items in company have no vectors along a reduction that a whole tile does not fill.
  if (vector_reduces(f) && std::max(e.items, group_items(stage)) > 1) {
    const int64_t points = range_of(stage, static_cast<int>(stage.loops.size()) - 1);
    f.lanes = static_cast<int>(std::min<uint64_t>(f.lanes, std::bit_ceil<uint64_t>(points)));
  }
  if (stage.factored_axis >= 0) f.axes[0] = {affine(0), 1, {}};
  outer_loops(f, 0);
}

}  // namespace lw::lowering
