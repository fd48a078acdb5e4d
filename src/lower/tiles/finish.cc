// The end of a register tile's reduction: what its accumulators hold becomes results.
//
// Lanes that run along the reduction are combined. Where outer reduction loops keep partial sums in
// memory, those are added, except at a point's first visit; what is stored is a partial sum again,
// until the last visit applies the epilogue.
#include <algorithm>
#include <utility>

#include "src/lower/tiles/rows.h"

namespace lw::lowering {

ExprOp combiner(Reduce reduce) {
  switch (reduce) {
    case Reduce::kSum: return ExprOp::kAdd;
    case Reduce::kProd: return ExprOp::kMul;
    case Reduce::kMax: return ExprOp::kMax;
    default: return ExprOp::kMin;
  }
}

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

namespace {

struct Results {
  std::vector<Point> points;
  std::vector<Value> values;
};

// As a tree.
Value join(Registers& registers, const Tensor& tensor, std::vector<Value> parts) {
  const ExprOp combine = combiner(tensor.reduce);
  while (parts.size() > 1) {
    std::vector<Value> next;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      next.push_back(registers.binary(combine, tensor.type, parts[i], parts[i + 1]));
    }
    if (parts.size() % 2 == 1) next.push_back(parts.back());
    parts = std::move(next);
  }
  return parts[0];
}

// Whether each item of a group has accumulated a part.
bool exchanges(const Stage& stage) {
  return std::any_of(stage.loops.begin(), stage.loops.end(), [&](const Loop& loop) {
    return loop.kind == LoopKind::kItem && is_reduction(stage, loop);
  });
}

Results results_of(Frame& f, Evaluator& evaluator, const Accumulators& accumulators) {
  const Tensor& tensor = f.e.tensor(f.stage.tensor);
  const bool partials = vector_reduces(f);
  Results results;
  for (const Row& row : rows_of(f, false)) {
    std::vector<Value> parts;
    for (const Chunk& chunk : result_chunks(f, row)) {
      parts.push_back(accumulators.at(position(f, row, chunk)));
      if (!partials) {
        results.points.push_back(make_point(f, evaluator, row, vector_axis(f), chunk));
        results.values.push_back(parts.back());
      }
    }
    if (!partials) continue;
    results.values.push_back(join(evaluator.registers(), tensor, std::move(parts)));
    results.points.push_back(make_point(f, evaluator, row, -1, {0, 1, 1}));
  }
  // One after the other: a backend makes those that follow each other together.
  for (Value& value : results.values) {
    if (partials) value = evaluator.registers().horizontal(tensor.reduce, value);
    if (exchanges(f.stage)) {
      value = evaluator.registers().across(tensor.reduce, value, f.e.sub_group);
    }
  }
  return results;
}

// Each of these may be a branch: its copy of what was computed before it takes nothing out of it.
void add_stored(Frame& f, Memory memory, const Results& results) {
  const Tensor& tensor = f.e.tensor(f.stage.tensor);
  const Storage& sums = f.e.home[f.stage.tensor];
  for (size_t i = 0; i < results.points.size(); ++i) {
    const Point& point = results.points[i];
    const Value stored =
        memory.load_element(sums, f.stage.tensor, memory.localized(sums, point), point);
    const Value sum = results.values[i];
    memory.registers().move(
        sum, memory.registers().binary(combiner(tensor.reduce), tensor.type, sum, stored));
  }
}

void store_partial(Frame& f, Memory memory, const Results& results) {
  for (size_t i = 0; i < results.points.size(); ++i) {
    memory.store(f.e.home[f.stage.tensor], results.points[i], results.values[i], false);
  }
}

void finish(Frame& f, Evaluator evaluator, const Results& results) {
  for (size_t i = 0; i < results.points.size(); ++i) {
    finish_point(f, evaluator, results.points[i], results.values[i]);
  }
}

void keep(Frame& f, Evaluator evaluator, const Results& results) {
  Emitter& e = f.e;
  const bool in_memory = accumulates_in_memory(f.stage);
  if (in_memory && f.never_first) {
    add_stored(f, evaluator.memory(), results);
  } else if (in_memory && !f.first.empty()) {
    Stmt if_first;
    if_first.kind = Stmt::Kind::kIf;
    if_first.conditions = f.first;
    e.emit_into(if_first.otherwise, [&] { add_stored(f, evaluator.memory(), results); });
    e.emit(std::move(if_first));
  }
  if (!in_memory || (!f.never_last && f.last.empty())) {
    finish(f, evaluator, results);
  } else if (f.never_last || f.stage.epilogue.empty()) {
    store_partial(f, evaluator.memory(), results);
  } else {
    Stmt if_last;
    if_last.kind = Stmt::Kind::kIf;
    if_last.conditions = f.last;
    e.emit_into(if_last.body, [&] { finish(f, evaluator, results); });
    e.emit_into(if_last.otherwise, [&] { store_partial(f, evaluator.memory(), results); });
    e.emit(std::move(if_last));
  }
}

}  // namespace

void finish_accumulators(Frame& f, const Accumulators& accumulators) {
  Emitter& e = f.e;
  if (e.counting) return count_results(f, false);
  Evaluator evaluator(e, f.s, {});
  const Results results = results_of(f, evaluator, accumulators);
  if (e.items == 1 || f.stage.place != Place::kRoot || !exchanges(f.stage)) {
    return keep(f, std::move(evaluator), results);
  }
  Affine item = e.item();
  if (e.sub_group < e.items) item = e.emit_int(Stmt::IntOp::kMod, item, {}, e.sub_group);
  Stmt first_item;                         // all have it, and where it goes it goes once
  first_item.kind = Stmt::Kind::kIf;
  first_item.conditions.push_back(item * -1);
  e.emit_into(first_item.body, [&] { keep(f, evaluator, results); });
  e.emit(std::move(first_item));
}

}  // namespace lw::lowering
