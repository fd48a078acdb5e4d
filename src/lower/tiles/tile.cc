// The register tile: its points are unrolled, each with an accumulator of its own, which starts
// from the identity of the reduction.
//
// An update visits the points in the order of the tile's loops, rows outside, chunks of lanes
// inside, so that a row's broadcast operand is used for all its chunks while it is at hand; where a
// window slides over the rows, in the order of the places that it reads.
#include "src/lower/tiles/tile.h"

#include <algorithm>

#include "absl/types/span.h"
#include "schedules/dot.h"
#include "src/lower/tiles/matrices.h"
#include "src/lower/tiles/rows.h"

namespace lw::lowering {
namespace {

// Elements go where they go as they are; widened and rounded again, subnormals might become zero.
bool only_moves(const Frame& f, const Expr& body) {
  return f.stage.copy_of >= 0 ||
         (body->op == ExprOp::kRead && body->type == f.e.tensor(f.stage.tensor).type);
}

// `body` at each point.
void emit_points(Frame& f, const Expr& body) {
  if (f.e.counting) return count_results(f, true);
  const int va = vector_axis(f);
  Evaluator evaluator(f.e, f.s, f.vars);
  if (only_moves(f, body) && f.stage.epilogue.empty()) evaluator.memory().keep_raw(true);
  std::vector<Point> points;
  std::vector<size_t> bundle;              // how many points from here belong together
  const std::vector<Row> rows = rows_of(f, true);
  for (const std::vector<size_t>& run : bundles_of(rows, f.stage.group_dim, f.stage.group)) {
    for (const Chunk& chunk : chunks_of(f, rows[run[0]])) {
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
    for (const Point& p : together) values.push_back(evaluator.evaluate(body, p));
    if (count > 1 && evaluator.memory().store_group(f.e.copies[f.s], together, values)) {
      continue;
    }
    for (size_t i = 0; i < count; ++i) finish_point(f, evaluator, together[i], values[i]);
  }
}

}  // namespace

// Where none of its points counts, what stands there is stored uncomputed.
void emit_map_tile(Frame& f) {
  Emitter& e = f.e;
  const Expr body = e.bodies[f.s];
  const auto compute = [&] { emit_points(f, body); };
  if (!f.outside) return compute();
  const auto fill = [&] { emit_points(f, make_const(body->type, *f.outside)); };
  Stmt branch;
  branch.kind = Stmt::Kind::kIf;
  for (const Guard& guard : f.guards) {
    const GuardRange range = range_of_guard(e, guard, f.axes);
    if (range.outside) return fill();
    if (!known_at_least_zero(e, range.hi)) branch.conditions.push_back(range.hi);
  }
  if (branch.conditions.empty()) return compute();
  e.emit_into(branch.body, compute);
  e.emit_into(branch.otherwise, fill);
  e.emit(std::move(branch));
}

Accumulators start_accumulators(Frame& f) {
  Accumulators accumulators;
  if (f.e.counting) return accumulators;
  const Tensor& tensor = f.e.tensor(f.stage.tensor);
  Registers registers(f.e);
  for (const Row& row : rows_of(f, false)) {
    for (const Chunk& chunk : result_chunks(f, row)) {
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
  registers.move(sum, kept);
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

struct Update {
  size_t first, count;                     // points
  int64_t chunk;                           // its first lane, from the tile's
  Value sum;
};

// Whether two rows are of the same step of the reduction.
bool same_step(const Frame& f, const Row& a, const Row& b) {
  for (size_t axis = 0; axis < a.offset.size(); ++axis) {
    if (f.stage.axes[axis].reduction && a.offset[axis] != b.offset[axis]) return false;
  }
  return true;
}

void order_by_lane(std::vector<Update>::iterator begin, std::vector<Update>::iterator end) {
  std::stable_sort(begin, end,
                   [](const Update& a, const Update& b) { return a.chunk < b.chunk; });
}

}  // namespace

void update_accumulators(Frame& f, const Accumulators& accumulators) {
  Emitter& e = f.e;
  if (e.counting) return count_update(f);
  if (f.stage.matrix >= 0) return multiply_matrices(f, accumulators);
  const bool chosen = e.bodies[f.s]->op == ExprOp::kSelect;
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
  std::vector<Point> points;
  std::vector<Update> updates;
  size_t step = 0, runs = 0;               // of the step: its first update; its runs so far
  const Row* previous = nullptr;
  // What a step's rows share (its vectors) or its vectors do (an element a row) is held in
  // registers, whichever are fewer, beside one of the others: 3 rows of 4 vectors take 12 + 3 + 1.
  const auto end_step = [&] {
    const bool few_rows = runs * runs < updates.size() - step;
    if (few_rows && !partials) order_by_lane(updates.begin() + step, updates.end());
    step = updates.size(), runs = 0;
  };
  for (const std::vector<size_t>& run : bundles_of(rows, f.stage.dot_axis, f.stage.dot_group)) {
    const Row& row = rows[run[0]];
    if (previous != nullptr && !same_step(f, *previous, row)) end_step();
    previous = &row, ++runs;
    for (const Chunk& chunk : chunks_of(f, row)) {
      updates.push_back({points.size(), run.size(), chunk.offset,
                         accumulators.at(position(f, row, chunk))});
      for (size_t i : run) points.push_back(make_point(f, evaluator, rows[i], va, chunk));
    }
  }
  end_step();
  evaluator.set_tile(&points);
  // Lane after lane, so that few of the vectors that others are slid out of are held at a time.
  if (f.stage.slide) order_by_lane(updates.begin(), updates.end());
  for (const Update& update : updates) {
    const absl::Span<const Point> together(points.data() + update.first, update.count);
    std::vector<const Expr*> bodies;
    for (const Point& point : together) {
      bodies.push_back(chosen ? &evaluator.unguarded(e.bodies[f.s], point) : &e.bodies[f.s]);
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

}  // namespace lw::lowering
