// Which part of a tensor one iteration of a loop needs, and where it is kept.
//
// The region of a stage attached at a loop is the box around all the reads that its consumers make
// of it in one iteration: each index expression maps the boxes of the axes to an interval (affine
// start, constant extent). An interval that may leave the tensor is moved back inside: it still
// covers every point that is read in bounds, and its extent stays constant.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/scalar.h"
#include "src/lower/emitter.h"

namespace lw::lowering {
namespace {

Range unknown() { return {affine(0), 0, false}; }

// Of floor(a / d), d > 0.
Range quotient_of(Emitter& e, const Range& a, int64_t d) {
  const bool exact = std::all_of(a.lo.terms.begin(), a.lo.terms.end(),
                                 [&](const Affine::Term& t) { return t.coefficient % d == 0; });
  if (!exact)
    return {e.emit_int(Stmt::IntOp::kDiv, a.lo, {}, d), (a.extent + d - 2) / d + 1, true};
  Affine lo = affine(floor_div(a.lo.constant, d));
  for (const Affine::Term& t : a.lo.terms) lo = lo + variable(t.var, t.coefficient / d);
  const int64_t rest = a.lo.constant - floor_div(a.lo.constant, d) * d;
  return {lo, (rest + a.extent - 1) / d + 1, true};
}

}  // namespace

Range range_of_expr(Emitter& e, const Expr& expr, const std::vector<Range>& axes) {
  const std::vector<Expr>& args = expr->args;
  switch (expr->op) {
    case ExprOp::kConst: return {affine(expr->integer), 1, true};
    case ExprOp::kAxis: return axes[expr->index];
    case ExprOp::kAdd:
    case ExprOp::kSub: {
      const Range a = range_of_expr(e, args[0], axes), b = range_of_expr(e, args[1], axes);
      if (!a.known || !b.known) return unknown();
      if (expr->op == ExprOp::kAdd) return {a.lo + b.lo, a.extent + b.extent - 1, true};
      return {a.lo - b.lo - affine(b.extent - 1), a.extent + b.extent - 1, true};
    }
    case ExprOp::kMul: {
      const bool second = args[1]->op == ExprOp::kConst;
      if (!second && args[0]->op != ExprOp::kConst) return unknown();
      const Range a = range_of_expr(e, args[second ? 0 : 1], axes);
      const int64_t c = args[second ? 1 : 0]->integer;
      if (!a.known) return unknown();
      if (c >= 0) return {a.lo * c, (a.extent - 1) * c + 1, true};
      return {(a.lo + affine(a.extent - 1)) * c, (a.extent - 1) * -c + 1, true};
    }
    case ExprOp::kNeg: {
      const Range a = range_of_expr(e, args[0], axes);
      if (!a.known) return unknown();
      return {(a.lo + affine(a.extent - 1)) * -1, a.extent, true};
    }
    // None of these moves two neighbours apart.
    case ExprOp::kMin:
    case ExprOp::kMax: {
      const bool second = args[1]->op == ExprOp::kConst;
      if (!second && args[0]->op != ExprOp::kConst) return unknown();
      const Range a = range_of_expr(e, args[second ? 0 : 1], axes);
      if (!a.known) return unknown();
      const auto op = expr->op == ExprOp::kMin ? Stmt::IntOp::kMin : Stmt::IntOp::kMax;
      return {e.emit_int(op, a.lo, affine(args[second ? 1 : 0]->integer), 1), a.extent, true};
    }
    case ExprOp::kAbs: {
      const Range a = range_of_expr(e, args[0], axes);
      if (!a.known) return unknown();
      const Affine negated = (a.lo + affine(a.extent - 1)) * -1;
      const Affine nearest = e.emit_int(Stmt::IntOp::kMax, a.lo, negated, 1);
      return {e.emit_int(Stmt::IntOp::kMax, nearest, affine(0), 1), a.extent, true};
    }
    case ExprOp::kDiv: {
      const Range a = range_of_expr(e, args[0], axes);
      if (!a.known || args[1]->op != ExprOp::kConst || args[1]->integer <= 0) return unknown();
      return quotient_of(e, a, args[1]->integer);
    }
    case ExprOp::kMod: {
      if (args[1]->op != ExprOp::kConst || args[1]->integer <= 0) return unknown();
      const Range a = range_of_expr(e, args[0], axes);
      if (a.known) {
        const Interval all = range_of(e, a.lo);
        if (all.lo >= 0 && all.hi + a.extent <= args[1]->integer) return a;
      }
      return {affine(0), args[1]->integer, true};
    }
    default: return unknown();
  }
}

namespace {

Range unite(Emitter& e, const Range& a, const Range& b) {
  if (!a.known || !b.known) return unknown();
  const Affine apart = b.lo - a.lo;
  if (apart.is_constant()) {
    const int64_t lo = std::min<int64_t>(0, apart.constant);
    const int64_t hi = std::max(a.extent, apart.constant + b.extent);
    return {a.lo + affine(lo), hi - lo, true};
  }
  return unknown();
}

// Moves the interval into [0, size).
Range clamp(Emitter& e, Range r, int64_t size) {
  if (!r.known || r.extent >= size) return {affine(0), size, true};
  const Interval lo = range_of(e, r.lo);
  if (lo.lo < 0) r.lo = e.emit_int(Stmt::IntOp::kMax, r.lo, affine(0), 1);
  if (lo.hi + r.extent > size)
    r.lo = e.emit_int(Stmt::IntOp::kMin, r.lo, affine(size - r.extent), 1);
  return r;
}

void collect_reads(const Expr& expr, int tensor, std::vector<const ExprNode*>& reads) {
  visit(expr, [&](const ExprNode& e) {
    if (e.op == ExprOp::kRead && e.index == tensor) reads.push_back(&e);
  });
}

bool inside(const Nest& nest, int stage, int host) {
  for (int s = stage; s >= 0; s = nest.stages[s].host) {
    if (s == host) return true;
    const Place place = nest.stages[s].place;
    if (place != Place::kAt && place != Place::kEpilogue) return false;
  }
  return false;
}

// Values of the TENSOR's axes, given boxes of the stage's.
std::vector<Range> tensor_axes(Emitter& e, const Stage& stage, const std::vector<Range>& axes) {
  if (stage.axis_value.empty()) return axes;
  std::vector<Range> values;
  for (const Expr& value : stage.axis_value) values.push_back(range_of_expr(e, value, axes));
  return values;
}

// What everything inside one iteration of the host's loops needs of each other. A stage is asked for
// by all of its readers and answers once: what that takes stands before the first of them.
class Needs {
 public:
  // `axes`: the host's, inside the loop.
  Needs(Emitter& e, int host, const std::vector<AxisState>& axes) : e_(e), host_(host), axes_(axes) {}

  // The box of points that the stage must compute: what is read of all that it stores, its own
  // tensor and those of its epilogue.
  std::vector<Range> own_region(int s) {
    if (auto known = regions_.find(s); known != regions_.end()) return known->second;
    std::vector<Range> region = compute_region(s);
    return regions_[s] = std::move(region);
  }

  // The box of `tensor` that everything inside reads. `only`: just this reader. `beyond`: also what of it
  // lies outside of the tensor.
  std::vector<Range> required(int tensor, int only, bool beyond = false);

 private:
  // Where the host's loop stands, of the one axis; all of the others. At a tail it may reach beyond:
  // then the last points are computed again.
  std::vector<Range> dealt_region(const Stage& stage) {
    const Tensor& tensor = e_.tensor(stage.tensor);
    std::vector<Range> box(tensor.shape.size(), unknown());
    const AxisState& at = axes_[dealt_axis(e_.nest, stage)];
    box[stage.along] = {at.base, at.extent, true};
    for (size_t d = 0; d < box.size(); ++d) box[d] = clamp(e_, box[d], tensor.shape[d]);
    return box;
  }

  std::vector<Range> compute_region(int s) {
    const Stage& stage = e_.nest.stages[s];
    if (stage.along >= 0) return dealt_region(stage);
    std::vector<Range> box;
    auto include = [&](int writer) {
      if (!must_store(e_.nest, writer)) return;
      const std::vector<Range> part = required(e_.nest.stages[writer].tensor, -1);
      for (size_t d = 0; d < part.size(); ++d) {
        if (d == box.size()) {
          box.push_back(part[d]);
        } else {
          box[d] = unite(e_, box[d], part[d]);
        }
      }
    };
    include(s);
    for (int f : stage.epilogue) include(f);
    const Tensor& tensor = e_.tensor(stage.tensor);
    for (size_t d = 0; d < box.size(); ++d) {
      if (!runs_along(stage, d)) box[d] = unknown();
      box[d] = clamp(e_, box[d], tensor.shape[d]);
    }
    return box;
  }

  Emitter& e_;
  const int host_;
  const std::vector<AxisState>& axes_;
  absl::flat_hash_map<int, std::vector<Range>> regions_;
};

std::vector<Range> Needs::required(int tensor, int only, bool beyond) {
  Emitter& e = e_;
  const int host = host_;
  const Nest& nest = e.nest;
  const Tensor& t = e.tensor(tensor);
  std::vector<Range> box;
  bool first = true;
  auto include = [&](const Expr& body, const std::vector<Range>& boxes) {
    std::vector<const ExprNode*> reads;
    collect_reads(body, tensor, reads);
    for (const ExprNode* read : reads) {
      for (size_t d = 0; d < t.shape.size(); ++d) {
        const Range r = range_of_expr(e, read->args[d], boxes);
        if (first) {
          box.push_back(r);
        } else {
          box[d] = unite(e, box[d], r);
        }
      }
      first = false;
    }
  };
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& reader = nest.stages[s];
    if (only >= 0 && s != only) continue;
    if (reader.place == Place::kInlined || reader.place == Place::kEpilogue) continue;
    if (reader.copy_of >= 0 || !inside(nest, s, host)) continue;
    // What a stage and its epilogue hand each other stays in registers.
    const bool own = reader.tensor == tensor ||
                     std::any_of(reader.epilogue.begin(), reader.epilogue.end(),
                                 [&](int f) { return nest.stages[f].tensor == tensor; });
    if (own) continue;
    std::vector<const ExprNode*> any;
    collect_reads(e.bodies[s], tensor, any);
    for (int f : reader.epilogue) collect_reads(e.bodies[f], tensor, any);
    if (any.empty()) continue;
    std::vector<Range> boxes;
    if (s == host) {
      for (const AxisState& a : axes_) boxes.push_back({a.base, a.extent, true});
    } else {
      // The reader computes its own region of its tensor, and its whole reductions.
      const std::vector<Range> region = own_region(s);
      for (size_t a = 0; a < reader.axes.size(); ++a) {
        const bool spatial = a < region.size() && runs_along(reader, a);
        boxes.push_back(spatial ? region[a] : Range{affine(0), reader.axes[a].extent, true});
      }
    }
    const std::vector<Range> values = tensor_axes(e, reader, boxes);
    include(e.bodies[s], values);
    for (int f : reader.epilogue) include(e.bodies[f], values);
  }
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (first) box.push_back(unknown());
    if (beyond && box[d].known) continue;
    if (beyond && has_tail(nest.stages[only], Tail::kMask) && e.failure.ok()) {
      e.failure = infeasible(concat("tiles end early, and ", t.name, " is read in other places too"));
    }
    box[d] = clamp(e, box[d], t.shape[d]);
  }
  return box;
}

}  // namespace

bool must_store(const Nest& nest, int s) {
  const Stage& stage = nest.stages[s];
  if (nest.program->tensors[stage.tensor].role == Role::kOutput) return true;
  const Stage& host = stage.place == Place::kEpilogue ? nest.stages[stage.host] : stage;
  if (host.epilogue.empty()) return true;
  if (!nest.checks(Legality::kEpilogueStoredElsewhere)) return false;
  for (int reader : readers(nest, stage.tensor)) {
    if (std::find(host.epilogue.begin(), host.epilogue.end(), reader) == host.epilogue.end())
      return true;
  }
  return false;
}

bool accumulates_in_memory(const Stage& stage) {
  const int run = run_begin(stage);
  for (int l = 0; l < run; ++l) {
    if (is_reduction(stage, stage.loops[l]) && trips(stage, l) > 1) return true;
  }
  return false;
}

std::vector<AxisState> whole_axes(const Nest& nest, int s) {
  std::vector<AxisState> axes;
  for (const NestAxis& axis : nest.stages[s].axes) axes.push_back({affine(0), axis.extent, {}});
  return axes;
}

// The tensor whose place the map `s` may take, point by point, as nothing reads it any more: it is
// computed at the same loop over the same box, the map reads it at its own point, and its other
// readers have run. -1: none. Half the memory for what softmax does to a block of scores.
static int taken_over(const Emitter& e, int s, const std::vector<Range>& region) {
  const Nest& nest = e.nest;
  const Stage& stage = nest.stages[s];
  const Tensor& result = e.tensor(stage.tensor);
  const bool map = stage.place == Place::kAt && stage.copy_of < 0 &&
                   result.reduce == Reduce::kNone && stage.epilogue.empty() &&
                   stage.axis_value.empty();
  // A tile that is moved back would read what it has written.
  const auto shifts = [](const Loop& loop) { return loop.tail == Tail::kShift; };
  if (!map || std::any_of(stage.loops.begin(), stage.loops.end(), shifts)) return -1;
  for (int t : body_reads(nest, s)) {
    const Storage& storage = e.home[t];
    const int source = stage_of_tensor(nest, t);
    if (source < 0 || storage.buffer < 0 || storage.block_dim >= 0) continue;
    if (e.tensor(t).type != result.type || e.tensor(t).role != Role::kTemp) continue;
    const auto beside = [&](int other) {
      const Stage* o = &nest.stages[other];
      if (o->place == Place::kEpilogue) o = &nest.stages[o->host];
      return o->place == Place::kAt && o->host == stage.host && o->loop == stage.loop &&
             o->memory == stage.memory;
    };
    bool free = beside(source) && storage.shape.size() == region.size();
    for (size_t d = 0; free && d < region.size(); ++d)
      free = region[d].known && region[d].extent == storage.shape[d] &&
             region[d].lo == storage.origin[d];
    for (int reader : readers(nest, t))
      free = free && (reader == s || (reader < s && beside(reader)));
    visit(e.bodies[s], [&](const ExprNode& node) {
      if (node.op != ExprOp::kRead || node.index != t) return;
      for (size_t d = 0; d < node.args.size(); ++d)
        free = free && node.args[d]->op == ExprOp::kAxis &&
               node.args[d]->index == static_cast<int>(d);
    });
    if (free) return t;
  }
  return -1;
}

// Elements to put between the rows of what is kept at a loop where they would all begin in the same
// few sets of a cache, and at addresses that processors compare by their low 12 bits take a load for
// one that follows a store. Two steps of a stencil over rows of 4 KiB take 1.4 times as long so.
static int64_t spread(const Emitter& e, const Stage& owner, const std::vector<int64_t>& shape,
                      int64_t element) {
  constexpr int64_t kApart = 2048, kLine = 64;
  if (owner.place != Place::kAt || owner.copy_of >= 0 || e.items > 1 || shape.size() < 2) return 0;
  const bool rows = std::any_of(shape.begin(), shape.end() - 1, [](int64_t n) { return n > 1; });
  return rows && shape.back() * element % kApart == 0 ? kLine / element : 0;
}

void allocate(Emitter& e, int s, const std::vector<Range>& region, const Affine& iteration) {
  const Stage& stage = e.nest.stages[s];
  if (const int t = taken_over(e, s, region); t >= 0) {
    e.home[stage.tensor] = e.home[t];
    return;
  }
  auto place = [&](int owner, int tensor, Storage& storage) {
    const Tensor& t = e.tensor(tensor);
    if (storage.buffer >= 0 && e.kernel.buffers[storage.buffer].scope == Scope::kArgument) return;
    int64_t size = 1;
    storage.origin.clear();
    storage.shape.clear();
    for (size_t d = 0; d < t.shape.size(); ++d) {
      storage.origin.push_back(region.empty() ? affine(0) : region[d].lo);
      storage.shape.push_back(region.empty() ? t.shape[d] : region[d].extent);
    }
    const Stage& o = e.nest.stages[owner];
    const Type type = o.wide ? Type::kF32 : t.type;
    storage.beyond = o.boxed;
    storage.block_dim = o.copy_of >= 0 && o.block > 0 ? o.block_dim : -1;
    storage.block = storage.block_dim >= 0 ? o.block : 0;
    const bool grouped = o.copy_of >= 0 && o.group > 0;
    storage.group_dim = grouped ? o.group_dim : -1;
    storage.group = grouped ? o.group : 1;
    for (size_t d = 0; d < t.shape.size(); ++d) {
      const int64_t n = storage.shape[d];
      const int64_t whole = static_cast<int>(d) == storage.block_dim   ? storage.block
                            : static_cast<int>(d) == storage.group_dim ? storage.group
                                                                       : 1;
      size *= (n + whole - 1) / whole * whole;
    }
    storage.pad = o.pad > 0 ? o.pad : spread(e, o, storage.shape, size_of(type));
    if (storage.pad > 0) {
      const int64_t row = storage.block_dim >= 0 ? storage.block : storage.shape.back();
      size = size / row * (row + storage.pad);
    }
    if (size * size_of(type) > e.options.max_workspace_bytes && e.failure.ok()) {
      e.failure = infeasible("the workspace is too large");
    }
    storage.buffer = e.stage_buffer(owner, type, size);
    storage.offset = o.slots > 1 ? e.slot(owner, storage.buffer, size, iteration) : affine(0);
  };
  if (stage.copy_of >= 0) {
    place(s, stage.copy_of, e.copies[s]);
    return;
  }
  for (size_t i = 0; i < stage.epilogue.size(); ++i) {
    const int f = stage.epilogue[i];
    if (must_store(e.nest, f)) place(f, e.nest.stages[f].tensor, e.home[e.nest.stages[f].tensor]);
  }
  if (must_store(e.nest, s)) {
    place(s, stage.tensor, e.home[stage.tensor]);
  } else if (accumulates_in_memory(stage)) {
    // Partial sums live in the final result's place where that has the same elements.
    const int final_tensor = e.nest.stages[stage.epilogue.back()].tensor;
    if (e.tensor(final_tensor).type == e.tensor(stage.tensor).type &&
        e.home[final_tensor].buffer >= 0) {
      e.home[stage.tensor] = e.home[final_tensor];
    } else {
      place(s, stage.tensor, e.home[stage.tensor]);
    }
  }
}

// The stage that reads the copy.
static int served_by(const Nest& nest, int copy) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    for (const Stage::Copy& served : nest.stages[s].copies) {
      if (served.stage == copy) return s;
    }
  }
  return nest.stages[copy].host;
}

// Whether the items of the group fill it together.
static bool is_shared(const Emitter& e, const Stage& stage) {
  return stage.memory >= 0 && e.items > 1;
}

void emit_attached(Emitter& e, int host, const std::string& loop, const AtLoop& at) {
  const Nest& nest = e.nest;
  std::vector<int> attached;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    const bool comes = at.slots != AtLoop::Slots::kAhead || stage.slots > 1;
    if (comes && stage.place == Place::kAt && stage.host == host && stage.loop == loop)
      attached.push_back(s);
  }
  if (attached.empty()) return;
  const auto shared = [&](int s) { return is_shared(e, nest.stages[s]); };
  Needs own(e, host, at.axes), together(e, host, at.group);
  bool boxes = false;
  for (int s : attached) {
    const Stage& stage = nest.stages[s];
    Needs& needs = shared(s) ? together : own;
    const bool copy = stage.copy_of >= 0;
    const std::vector<Range> region =
        copy ? needs.required(stage.copy_of, served_by(nest, s), stage.boxed) : needs.own_region(s);
    if (stage.along < 0) allocate(e, s, region, at.iteration);
    if (stage.slots > 1 && at.slots == AtLoop::Slots::kThere) continue;
    std::vector<AxisState> box;
    for (size_t a = 0; a < stage.axes.size(); ++a) {
      const bool spatial = a < region.size() && runs_along(stage, a);
      box.emplace_back();
      box.back().base = spatial ? region[a].lo : affine(0);
      box.back().extent = spatial ? region[a].extent : stage.axes[a].extent;
    }
    emit_stage(e, s, std::move(box));
    boxes = boxes || stage.boxed;
  }
  if (!boxes || at.slots == AtLoop::Slots::kAhead) return;
  e.emit(Op::kCommit);
  e.emit(Op::kLanded, 0);
}

}  // namespace lw::lowering
