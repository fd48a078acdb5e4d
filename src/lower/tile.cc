// The register tile: its points are unrolled, each with an accumulator of its own.
//
// An update visits the points in the order of the tile's loops, rows outside, chunks of lanes
// inside, so that a row's broadcast operand is used for all its chunks while it is at hand.
// Accumulators start from the identity; where outer reduction loops keep partial sums in memory,
// those are added when the run ends, except at a point's first visit. The last visit applies the
// epilogue.
#include "src/lower/tile.h"

#include <algorithm>

#include "src/base/check.h"

namespace lw::lowering {
namespace {

struct Row {
  std::vector<AxisState> axes;
  std::vector<int64_t> offset;             // of each axis, from the tile's first point
};

bool is_vector(const Loop& loop) { return loop.kind == LoopKind::kVector; }

bool reduces(const Frame& f) {
  return f.stage.copy_of < 0 && f.e.tensor(f.stage.tensor).reduce != Reduce::kNone;
}

// All rows of the tile: its unrolled loops' points. `reductions` false: spatial loops only.
void add_rows(const Frame& f, size_t l, size_t part, bool reductions, Row& row,
              std::vector<Row>& rows) {
  if (l == f.stage.loops.size() || is_vector(f.stage.loops[l])) {
    rows.push_back(row);
    return;
  }
  const Loop& loop = f.stage.loops[l];
  if (part == loop.parts.size() || (!reductions && is_reduction(f.stage, loop))) {
    add_rows(f, l + 1, 0, reductions, row, rows);
    return;
  }
  const auto [a, tile] = loop.parts[part];
  const AxisState saved = row.axes[a];
  const int64_t offset = row.offset[a];
  const int64_t extent = saved.extent;
  const int64_t full = extent / tile, rest = extent % tile;
  const int64_t count = full + (rest > 0 ? 1 : 0);
  for (int64_t v = 0; v < count; ++v) {
    int64_t at = v * tile, points = tile;
    if (v == full) {
      if (full > 0 && loop.tail == Tail::kShift) {
        at = extent - tile;
      } else {
        points = rest;                     // masks are not needed: the extents are constants
      }
    }
    row.axes[a] = {saved.base + affine(at), points, saved.limits};
    row.offset[a] = offset + at;
    if (f.stage.factored_axis == a && f.stage.factored_tile == tile) {
      row.axes[0].base = affine(v);
      row.offset[0] = v;
    }
    add_rows(f, l, part + 1, reductions, row, rows);
  }
  row.axes[a] = saved;
  row.offset[a] = offset;
}

std::vector<Row> rows_of(const Frame& f, bool reductions) {
  std::vector<Row> rows;
  Row row{f.axes, std::vector<int64_t>(f.axes.size(), 0)};
  // Where a reduction's tiles are masked, a result exists at steps that do not.
  for (size_t a = 0; a < row.axes.size(); ++a) {
    if (!reductions && f.stage.axes[a].reduction) row.axes[a].limits.clear();
  }
  add_rows(f, f.tile, 0, reductions, row, rows);
  return rows;
}

int vector_axis(const Frame& f) {
  if (f.stage.loops.empty() || !is_vector(f.stage.loops.back())) return -1;
  return f.stage.loops.back().parts[0].axis;
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
    }
  }
  if (f.stage.axis_value.empty()) return point;
  return evaluator.tensor_point(f.stage, std::move(point));
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
  if (f.stage.copy_of >= 0) {
    evaluator.store(e.copies[f.s], e.tensor(f.stage.copy_of), point, value, false);
    return;
  }
  const Tensor& tensor = e.tensor(f.stage.tensor);
  value = evaluator.cast(tensor.type, value);
  if (must_store(nest, f.s)) {
    evaluator.store(e.home[f.stage.tensor], tensor, point, value, f.stage.non_temporal);
  }
  if (f.stage.epilogue.empty()) return;
  evaluator.overlay(f.stage.tensor, value);
  for (int s : f.stage.epilogue) {
    const Tensor& result = e.tensor(nest.stages[s].tensor);
    Point at = point;
    at.axis.resize(result.shape.size());
    at.key.resize(result.shape.size());
    at.varies.resize(result.shape.size());
    const Value v = evaluator.cast(result.type, evaluator.evaluate(e.bodies[s], at));
    if (must_store(nest, s)) {
      evaluator.store(e.home[nest.stages[s].tensor], result, at, v, f.stage.non_temporal);
    }
    evaluator.overlay(nest.stages[s].tensor, v);
  }
}

}  // namespace

void emit_map_tile(Frame& f) {
  const int va = vector_axis(f);
  Evaluator evaluator(f.e, f.s, f.vars);
  std::vector<Point> points;
  for (const Row& row : rows_of(f, true)) {
    const int64_t extent = va >= 0 ? row.axes[va].extent : 1;
    for (const Chunk& chunk :
         va >= 0 ? chunks_of(f, extent, false) : std::vector<Chunk>{{0, 1, 1}}) {
      points.push_back(make_point(f, evaluator, row, va, chunk));
    }
  }
  evaluator.set_tile(&points);
  for (const Point& point : points)
    finish_point(f, evaluator, point, evaluator.evaluate(f.e.bodies[f.s], point));
}

Accumulators start_accumulators(Frame& f) {
  Accumulators accumulators;
  const Tensor& tensor = f.e.tensor(f.stage.tensor);
  const int va = vector_axis(f);
  Evaluator evaluator(f.e, f.s, {});
  for (const Row& row : rows_of(f, false)) {
    const bool partials = vector_reduces(f);
    const int64_t extent = va < 0 ? 1 : partials ? vector_extent(f, va) : row.axes[va].extent;
    for (const Chunk& chunk :
         va >= 0 ? chunks_of(f, extent, partials) : std::vector<Chunk>{{0, 1, 1}}) {
      accumulators[position(f, row, chunk)] =
          evaluator.immediate(tensor.type, identity_float(tensor.reduce),
                              identity_int(tensor.reduce, tensor.type), chunk.lanes);
    }
  }
  return accumulators;
}

void update_accumulators(Frame& f, const Accumulators& accumulators) {
  Emitter& e = f.e;
  const Tensor& tensor = e.tensor(f.stage.tensor);
  const bool divided = std::any_of(f.guards.begin(), f.guards.end(),
                                   [](const Guard& guard) { return guard.multiple; });
  const int va = vector_axis(f);
  const bool partials = vector_reduces(f);
  Evaluator evaluator(e, f.s, f.vars);
  std::vector<Point> points;
  std::vector<Value> sums;
  for (const Row& row : rows_of(f, true)) {
    const bool outside = std::any_of(f.guards.begin(), f.guards.end(), [&](const Guard& guard) {
      return range_of_guard(e, guard, row.axes).outside;
    });
    if (outside) continue;
    const int64_t extent = va >= 0 ? row.axes[va].extent : 1;
    for (const Chunk& chunk :
         va >= 0 ? chunks_of(f, extent, partials) : std::vector<Chunk>{{0, 1, 1}}) {
      points.push_back(make_point(f, evaluator, row, va, chunk));
      sums.push_back(accumulators.at(position(f, row, chunk)));
    }
  }
  evaluator.set_tile(&points);
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    const Expr& body = divided ? evaluator.unguarded(e.bodies[f.s], point) : e.bodies[f.s];
    const bool fma =
        tensor.reduce == Reduce::kSum && body->op == ExprOp::kMul && body->type == tensor.type;
    const Value sum = sums[i];
    // Points that do not exist must not count, unless the whole lane is dropped in the end.
    bool masked = partials && point.chunk.active < point.chunk.lanes;
    for (const Index& valid : point.valid) masked = masked || valid.range.lo < 0;
    const int mask = masked ? evaluator.point_mask(point) : -1;
    Stmt stmt;
    stmt.dst = mask < 0 ? sum.reg : e.new_register(evaluator.type_of(sum), sum.lanes);
    if (fma) {
      const Value a = evaluator.broadcast(evaluator.evaluate(body->args[0], point), sum.lanes);
      const Value b = evaluator.broadcast(evaluator.evaluate(body->args[1], point), sum.lanes);
      stmt.op = Op::kFma;
      stmt.srcs[0] = a.reg;
      stmt.srcs[1] = b.reg;
      stmt.srcs[2] = sum.reg;
    } else {
      const Value term = evaluator.broadcast(
          evaluator.cast(tensor.type, evaluator.evaluate(body, point)), sum.lanes);
      stmt.op = Op::kBinary;
      stmt.expr_op = combiner(tensor.reduce);
      stmt.srcs[0] = sum.reg;
      stmt.srcs[1] = term.reg;
    }
    const int result = stmt.dst;
    e.emit(std::move(stmt));
    if (mask < 0) continue;
    // The mask covers lanes; an accumulator of one lane takes the first.
    const Value kept = evaluator.select({mask, sum.lanes}, {result, sum.lanes}, sum);
    move_into(e, sum.reg, kept.reg);
  }
}

void finish_accumulators(Frame& f, const Accumulators& accumulators) {
  Emitter& e = f.e;
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
        next.push_back(evaluator.binary(combine, tensor.type, parts[i], parts[i + 1]));
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
    stmt.dst = e.new_register(tensor.type, 1);
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
      Evaluator loads = evaluator;         // knows what was computed before the branch
      for (size_t i = 0; i < points.size(); ++i) {
        const Storage& sums = e.home[f.stage.tensor];
        std::vector<Index> at;
        for (size_t d = 0; d < tensor.shape.size(); ++d) {
          at.push_back(loads.localize(sums, d, points[i].axis[d], points[i]));
        }
        const Value stored = loads.load(sums, f.stage.tensor, std::move(at), points[i], false);
        move_into(e, values[i].reg, loads.binary(combine, tensor.type, values[i], stored).reg);
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
    Evaluator stores = evaluator;
    for (size_t i = 0; i < points.size(); ++i) {
      stores.store(e.home[f.stage.tensor], tensor, points[i], values[i], false);
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
