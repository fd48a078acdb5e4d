// The register tile: its points are unrolled, each with an accumulator of its own.
//
// An update visits the points in the order of the tile's loops, rows outside, chunks of lanes
// inside, so that a row's broadcast operand is used for all its chunks while it is at hand; where a
// window slides over the rows, in the order of the places that it reads.
// Accumulators start from the identity; where outer reduction loops keep partial sums in memory,
// those are added when the run ends, except at a point's first visit. The last visit applies the
// epilogue.
#include "src/lower/tile.h"

#include <algorithm>

#include "absl/types/span.h"
#include "schedules/dot.h"
#include "src/base/check.h"
#include "src/lower/rows.h"

namespace lw::lowering {
namespace {

bool reduces(const Frame& f) {
  return f.stage.copy_of < 0 && f.e.tensor(f.stage.tensor).reduce != Reduce::kNone;
}

// Cuts `extent` points into vectors. The rest is a narrower vector where it is a power of two, else
// a masked one (or several narrower ones on targets without masks). `uniform`: full vectors only,
// masked.
std::vector<Chunk> chunks_of(const Frame& f, int64_t extent, bool uniform) {
  std::vector<Chunk> chunks;
  int64_t at = 0;
  for (; at + f.lanes <= extent; at += f.lanes) chunks.push_back({at, f.lanes, f.lanes});
  int64_t rest = extent - at;
  if (rest == 0) return chunks;
  if (uniform || (f.e.nest.target->masks && (rest & (rest - 1)) != 0)) {
    chunks.push_back({at, f.lanes, static_cast<int>(rest)});
    return chunks;
  }
  for (int lanes = f.lanes / 2; rest > 0; lanes /= 2) {
    if (lanes > rest) continue;
    chunks.push_back({at, lanes, lanes});
    at += lanes;
    rest -= lanes;
  }
  return chunks;
}

// From a point over the stage's axes to one over its tensor's (they differ after whole axes were
// fused).
Point tensor_point(const Frame& f, Evaluator& evaluator, const Point& point) {
  const Tensor& tensor = f.e.tensor(f.stage.tensor);
  const size_t spatial = tensor.axes.size();
  Point result;
  result.chunk = point.chunk;
  result.valid = point.valid;
  result.dropped = point.dropped;
  for (size_t a = 0; a < f.stage.axis_value.size(); ++a) {
    const Expr& value = f.stage.axis_value[a];
    result.axis.push_back(evaluator.index(value, point));
    // Testing quotients that differ from lane to lane would cost a division each.
    if (!point.valid.empty() && !result.axis.back().terms.empty()) {
      result.bounded = true;
      Interval& range = result.axis.back().range;
      const Axis& axis = a < spatial ? tensor.axes[a] : tensor.reduce_axes[a - spatial];
      range = {std::max<int64_t>(range.lo, 0), std::min(range.hi, axis.extent - 1)};
      range.hi = std::max(range.lo, range.hi);
    }
    int64_t key = 0;
    bool varies = false;
    visit(value, [&](const ExprNode& node) {
      if (node.op != ExprOp::kAxis) return;
      key = key * 1000003 + point.key[node.index];
      varies = varies || point.varies[node.index];
    });
    result.key.push_back(key);
    result.varies.push_back(varies);
  }
  return result;
}

Point make_point(const Frame& f, Evaluator& evaluator, const Row& row, int va, const Chunk& chunk) {
  Point point;
  point.chunk = chunk;
  for (size_t a = 0; a < row.axes.size(); ++a) {
    const bool vector = static_cast<int>(a) == va;
    const Affine base = vector ? row.axes[a].base + affine(chunk.offset) : row.axes[a].base;
    point.axis.push_back(make_index(f.e, base, vector ? 1 : 0, vector ? chunk.lanes : 1));
    point.key.push_back(row.offset[a] + (vector ? chunk.offset : 0));
    point.varies.push_back(vector && chunk.lanes > 1);
    for (const Affine& limit : row.axes[a].limits) {
      const Index end = make_index(f.e, limit - affine(1), 0, 1);
      point.valid.push_back(add(end, point.axis.back(), -1));
      point.dropped.push_back(!f.stage.axes[a].reduction);
    }
  }
  if (f.stage.axis_value.empty()) return point;
  return tensor_point(f, evaluator, point);
}

std::vector<int64_t> position(const Frame& f, const Row& row, const Chunk& chunk) {
  std::vector<int64_t> key;
  for (size_t a = 0; a < row.offset.size(); ++a) {
    if (!f.stage.axes[a].reduction) key.push_back(row.offset[a]);
  }
  key.push_back(chunk.offset);
  return key;
}

ExprOp combiner(Reduce reduce) {
  switch (reduce) {
    case Reduce::kSum: return ExprOp::kAdd;
    case Reduce::kProd: return ExprOp::kMul;
    case Reduce::kMax: return ExprOp::kMax;
    default: return ExprOp::kMin;
  }
}

bool vector_reduces(const Frame& f) {
  const int va = vector_axis(f);
  return va >= 0 && reduces(f) && f.stage.axes[va].reduction;
}

// Points of the vector axis that one tile holds: what the innermost loop over it before the tile
// leaves.
int64_t vector_extent(const Frame& f, int va) {
  int64_t extent = f.axes[va].extent;
  for (int l = f.run; l < f.tile; ++l) {
    for (const LoopPart& part : f.stage.loops[l].parts) {
      if (part.axis == va) extent = std::min(extent, part.tile);
    }
  }
  return extent;
}

void move_into(Emitter& e, int dst, int src) {
  Stmt stmt;
  stmt.op = Op::kMove;
  stmt.dst = dst;
  stmt.srcs[0] = src;
  e.emit(std::move(stmt));
}

// Applies the epilogue to a finished value and stores what must be stored.
void finish_point(Frame& f, Evaluator& evaluator, const Point& point, Value value) {
  Emitter& e = f.e;
  const Nest& nest = e.nest;
  Memory& memory = evaluator.memory();
  if (f.stage.copy_of >= 0) {
    memory.store(e.copies[f.s], point, value, false);
    return;
  }
  const Tensor& tensor = e.tensor(f.stage.tensor);
  value = memory.registers().cast(tensor.type, value);
  if (must_store(nest, f.s)) {
    memory.store(e.home[f.stage.tensor], point, value, f.stage.non_temporal);
  }
  if (f.stage.epilogue.empty()) return;
  evaluator.overlay(f.stage.tensor, value);
  for (int s : f.stage.epilogue) {
    const Tensor& result = e.tensor(nest.stages[s].tensor);
    Point at = point;
    at.axis.resize(result.shape.size());
    at.key.resize(result.shape.size());
    at.varies.resize(result.shape.size());
    const Value v = memory.registers().cast(result.type, evaluator.evaluate(e.bodies[s], at));
    if (must_store(nest, s)) {
      memory.store(e.home[nest.stages[s].tensor], at, v, f.stage.non_temporal);
    }
    evaluator.overlay(nest.stages[s].tensor, v);
  }
}

}  // namespace

namespace {

// Elements go where they go as they are; widened and rounded again, subnormals might become zero.
bool only_moves(const Frame& f) {
  const Expr& body = f.e.bodies[f.s];
  return f.stage.copy_of >= 0 ||
         (body->op == ExprOp::kRead && body->type == f.e.tensor(f.stage.tensor).type);
}

}  // namespace

void emit_map_tile(Frame& f) {
  if (f.e.counting) return count_results(f, true);
  const int va = vector_axis(f);
  Evaluator evaluator(f.e, f.s, f.vars);
  if (only_moves(f) && f.stage.epilogue.empty()) evaluator.memory().keep_raw(true);
  std::vector<Point> points;
  std::vector<size_t> bundle;              // how many points from here belong together
  const std::vector<Row> rows = rows_of(f, true);
  for (const std::vector<size_t>& run : bundles_of(rows, f.stage.group_dim, f.stage.group)) {
    const int64_t extent = va >= 0 ? rows[run[0]].axes[va].extent : 1;
    for (const Chunk& chunk :
         va >= 0 ? chunks_of(f, extent, false) : std::vector<Chunk>{{0, 1, 1}}) {
      for (size_t i : run) points.push_back(make_point(f, evaluator, rows[i], va, chunk));
      bundle.push_back(run.size());
    }
  }
  evaluator.set_tile(&points);
  size_t first = 0;
  for (size_t count : bundle) {
    const absl::Span<const Point> together(points.data() + first, count);
    first += count;
    std::vector<Value> values;
    for (const Point& p : together) values.push_back(evaluator.evaluate(f.e.bodies[f.s], p));
    if (count > 1 && evaluator.memory().store_group(f.e.copies[f.s], together, values)) {
      continue;
    }
    for (size_t i = 0; i < count; ++i) finish_point(f, evaluator, together[i], values[i]);
  }
}

Accumulators start_accumulators(Frame& f) {
  Accumulators accumulators;
  if (f.e.counting) return accumulators;
  const Tensor& tensor = f.e.tensor(f.stage.tensor);
  const int va = vector_axis(f);
  Registers registers(f.e);
  for (const Row& row : rows_of(f, false)) {
    const bool partials = vector_reduces(f);
    const int64_t extent = va < 0 ? 1 : partials ? vector_extent(f, va) : row.axes[va].extent;
    for (const Chunk& chunk :
         va >= 0 ? chunks_of(f, extent, partials) : std::vector<Chunk>{{0, 1, 1}}) {
      accumulators[position(f, row, chunk)] =
          registers.immediate(tensor.type, identity_float(tensor.reduce),
                              identity_int(tensor.reduce, tensor.type), chunk.lanes);
    }
  }
  return accumulators;
}

namespace {

// sum = what `stmt` computes from it, at the lanes of the point that count.
void accumulate(Frame& f, Evaluator& evaluator, const Point& point, Value sum, bool partials,
                Stmt stmt) {
  Registers& registers = evaluator.registers();
  // Points that do not exist must not count, unless the whole lane is dropped in the end.
  bool masked = partials && point.chunk.active < point.chunk.lanes;
  for (size_t v = 0; v < point.valid.size(); ++v)
    masked = masked || (point.valid[v].range.lo < 0 && !point.dropped[v]);
  const int mask = masked ? point_mask(registers, point) : -1;
  stmt.dst = mask < 0 ? sum.reg : f.e.new_register(registers.type_of(sum), sum.lanes);
  const int result = stmt.dst;
  f.e.emit(std::move(stmt));
  if (mask < 0) return;
  // The mask covers lanes; an accumulator of one lane takes the first.
  const Value kept = registers.select({mask, sum.lanes}, {result, sum.lanes}, sum);
  move_into(f.e, sum.reg, kept.reg);
}

void update_point(Frame& f, Evaluator& evaluator, const Expr& body, const Point& point, Value sum,
                  bool partials) {
  const Tensor& tensor = f.e.tensor(f.stage.tensor);
  const bool fma =
      tensor.reduce == Reduce::kSum && body->op == ExprOp::kMul && body->type == tensor.type;
  Registers& registers = evaluator.registers();
  Stmt stmt;
  if (fma) {
    stmt.op = Op::kFma;
    stmt.srcs[0] =
        registers.broadcast(evaluator.evaluate(body->args[0], point), sum.lanes).reg;
    stmt.srcs[1] =
        registers.broadcast(evaluator.evaluate(body->args[1], point), sum.lanes).reg;
    stmt.srcs[2] = sum.reg;
  } else {
    const Value term = registers.cast(tensor.type, evaluator.evaluate(body, point));
    stmt.op = Op::kBinary;
    stmt.expr_op = combiner(tensor.reduce);
    stmt.srcs[0] = sum.reg;
    stmt.srcs[1] = registers.broadcast(term, sum.lanes).reg;
  }
  accumulate(f, evaluator, point, sum, partials, std::move(stmt));
}

// All points at once, where an instruction can: they must count alike.
bool update_group(Frame& f, Evaluator& evaluator, const Expr& body,
                  absl::Span<const Point> points, Value sum) {
  const Tensor& tensor = f.e.tensor(f.stage.tensor);
  const Target& target = *f.e.nest.target;
  const std::optional<DotFactors> factors = dot_factors(target, body, tensor.type);
  if (!factors || body->op != ExprOp::kMul || vector_reduces(f)) return false;
  for (const Point& point : points) {
    for (size_t v = 0; v < point.valid.size(); ++v) {
      const Index &mine = point.valid[v], &other = points[0].valid[v];
      if (!(mine.base == other.base) || mine.lane != other.lane) return false;
    }
  }
  const int lanes = sum.lanes * static_cast<int>(points.size());
  const Value a = evaluator.grouped(factors->a, points, factors->atom->a);
  const Value b = evaluator.grouped(factors->b, points, factors->atom->b);
  Stmt stmt;
  stmt.op = Op::kDot;
  stmt.srcs[0] = evaluator.registers().broadcast(a, lanes).reg;
  stmt.srcs[1] = evaluator.registers().broadcast(b, lanes).reg;
  stmt.srcs[2] = sum.reg;
  accumulate(f, evaluator, points[0], sum, false, std::move(stmt));
  return true;
}

}  // namespace

void update_accumulators(Frame& f, const Accumulators& accumulators) {
  Emitter& e = f.e;
  if (e.counting) return count_update(f);
  const bool divided = std::any_of(f.guards.begin(), f.guards.end(),
                                   [](const Guard& guard) { return guard.multiple; });
  const int va = vector_axis(f);
  const bool partials = vector_reduces(f);
  Evaluator evaluator(e, f.s, f.vars);
  std::vector<Row> rows = rows_of(f, true);
  std::erase_if(rows, [&](const Row& row) {
    return std::any_of(f.guards.begin(), f.guards.end(), [&](const Guard& guard) {
      return range_of_guard(e, guard, row.axes).outside;
    });
  });
  order_by_place(f, rows);
  struct Update {
    size_t first, count;                   // points
    Value sum;
  };
  std::vector<Point> points;
  std::vector<Update> updates;
  for (const std::vector<size_t>& run : bundles_of(rows, f.stage.dot_axis, f.stage.dot_group)) {
    const Row& row = rows[run[0]];
    const int64_t extent = va >= 0 ? row.axes[va].extent : 1;
    for (const Chunk& chunk :
         va >= 0 ? chunks_of(f, extent, partials) : std::vector<Chunk>{{0, 1, 1}}) {
      updates.push_back({points.size(), run.size(), accumulators.at(position(f, row, chunk))});
      for (size_t i : run) points.push_back(make_point(f, evaluator, rows[i], va, chunk));
    }
  }
  evaluator.set_tile(&points);
  // Lane after lane, so that few of the vectors that others are slid out of are held at a time.
  if (f.stage.slide) {
    std::stable_sort(updates.begin(), updates.end(), [&](const Update& a, const Update& b) {
      return points[a.first].chunk.offset < points[b.first].chunk.offset;
    });
  }
  for (const Update& update : updates) {
    const absl::Span<const Point> together(points.data() + update.first, update.count);
    std::vector<const Expr*> bodies;
    for (const Point& point : together) {
      bodies.push_back(divided ? &evaluator.unguarded(e.bodies[f.s], point) : &e.bodies[f.s]);
    }
    const bool alike = std::all_of(bodies.begin(), bodies.end(),
                                   [&](const Expr* body) { return *body == *bodies[0]; });
    if (update.count > 1 && alike &&
        update_group(f, evaluator, *bodies[0], together, update.sum)) {
      continue;
    }
    for (size_t i = 0; i < update.count; ++i) {
      update_point(f, evaluator, *bodies[i], together[i], update.sum, partials);
    }
  }
}

void finish_accumulators(Frame& f, const Accumulators& accumulators) {
  Emitter& e = f.e;
  if (e.counting) return count_results(f, false);
  const Tensor& tensor = e.tensor(f.stage.tensor);
  const ExprOp combine = combiner(tensor.reduce);
  const bool partials = vector_reduces(f);
  const int va = partials ? -1 : vector_axis(f);
  Evaluator evaluator(e, f.s, {});
  std::vector<Point> points;
  std::vector<Value> values;
  for (const Row& row : rows_of(f, false)) {
    if (!partials) {
      const int64_t extent = va >= 0 ? row.axes[va].extent : 1;
      for (const Chunk& chunk :
           va >= 0 ? chunks_of(f, extent, false) : std::vector<Chunk>{{0, 1, 1}}) {
        points.push_back(make_point(f, evaluator, row, va, chunk));
        values.push_back(accumulators.at(position(f, row, chunk)));
      }
      continue;
    }
    // Lanes and chunks of a vector reduction come together here, as a tree.
    std::vector<Value> parts;
    for (const Chunk& chunk : chunks_of(f, vector_extent(f, vector_axis(f)), true)) {
      parts.push_back(accumulators.at(position(f, row, chunk)));
    }
    while (parts.size() > 1) {
      std::vector<Value> next;
      for (size_t i = 0; i + 1 < parts.size(); i += 2) {
        next.push_back(evaluator.registers().binary(combine, tensor.type, parts[i], parts[i + 1]));
      }
      if (parts.size() % 2 == 1) next.push_back(parts.back());
      parts = std::move(next);
    }
    values.push_back(parts[0]);
    points.push_back(make_point(f, evaluator, row, -1, {0, 1, 1}));
  }
  // One after the other: a backend makes those that follow each other together.
  for (Value& value : values) {
    if (!partials) break;
    Stmt stmt;
    stmt.op = Op::kHorizontal;
    stmt.reduce = tensor.reduce;
    stmt.srcs[0] = value.reg;
    stmt.dst = e.new_register(register_type(tensor.type), 1);
    value = {stmt.dst, 1};
    e.emit(std::move(stmt));
  }

  const bool in_memory = accumulates_in_memory(f.stage);
  auto in_branch = [&](std::vector<Stmt>& branch, auto&& emit_branch) {
    std::vector<Stmt>* saved = e.out;
    e.out = &branch;
    emit_branch();
    e.out = saved;
  };
  if (in_memory) {
    auto add_stored = [&] {
      Memory memory = evaluator.memory();  // knows what was computed before the branch
      const Storage& sums = e.home[f.stage.tensor];
      for (size_t i = 0; i < points.size(); ++i) {
        const Value stored =
            memory.load_element(sums, f.stage.tensor, memory.localized(sums, points[i]), points[i]);
        const Value sum = memory.registers().binary(combine, tensor.type, values[i], stored);
        move_into(e, values[i].reg, sum.reg);
      }
    };
    Stmt unless_first;
    unless_first.kind = Stmt::Kind::kIf;
    unless_first.conditions = f.first;
    if (f.never_first) {
      add_stored();
    } else if (!f.first.empty()) {
      in_branch(unless_first.otherwise, add_stored);
      e.emit(std::move(unless_first));
    }
  }
  auto finish = [&] {
    Evaluator stores = evaluator;
    for (size_t i = 0; i < points.size(); ++i) finish_point(f, stores, points[i], values[i]);
  };
  auto store_partial = [&] {
    Memory memory = evaluator.memory();
    for (size_t i = 0; i < points.size(); ++i) {
      memory.store(e.home[f.stage.tensor], points[i], values[i], false);
    }
  };
  if (!in_memory || (!f.never_last && f.last.empty())) {
    finish();
  } else if (f.never_last || f.stage.epilogue.empty()) {
    store_partial();
  } else {
    Stmt if_last;
    if_last.kind = Stmt::Kind::kIf;
    if_last.conditions = f.last;
    in_branch(if_last.body, finish);
    in_branch(if_last.otherwise, store_partial);
    e.emit(std::move(if_last));
  }
}

}  // namespace lw::lowering
