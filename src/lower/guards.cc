#include "src/lower/guards.h"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "schedules/targets/family.h"
#include "src/expr/bounds.h"
#include "src/expr/expr.h"
#include "src/lower/outside.h"

namespace lw::lowering {
namespace {

constexpr int64_t kMostPeeled = 2;         // tiles at either end
constexpr int64_t kMostTaps = 8;           // iterations that are unrolled
constexpr int64_t kUnbounded = int64_t{1} << 40;  // beyond all indices

int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

}  // namespace

bool is_affine(const Expr& expr) {
  switch (expr->op) {
    case ExprOp::kConst: case ExprOp::kAxis: return true;
    case ExprOp::kAdd: case ExprOp::kSub:
      return is_affine(expr->args[0]) && is_affine(expr->args[1]);
    case ExprOp::kMul:
      return (expr->args[0]->op == ExprOp::kConst && is_affine(expr->args[1])) ||
             (expr->args[1]->op == ExprOp::kConst && is_affine(expr->args[0]));
    default: return false;
  }
}

std::vector<int64_t> coefficients_of(const Expr& index, size_t axes) {
  std::vector<int64_t> sum(axes + 1, 0);
  int left = INT_MAX;
  add_summands(index, 1, sum.back(), left,
               [&](const Expr& axis, int64_t factor) { sum[axis->index] += factor; });
  return sum;
}

namespace {

bool add_multiples(const Expr& condition, Visited& visited,
                   std::vector<std::pair<Expr, int64_t>>* multiples) {
  if (!visited.first(condition)) return true;
  if (condition->op == ExprOp::kAnd) {
    bool all = true;
    for (const Expr& arg : condition->args) all = add_multiples(arg, visited, multiples) && all;
    return all;
  }
  if (condition->op != ExprOp::kEq) return false;
  const Expr &left = condition->args[0], &right = condition->args[1];
  if (left->op != ExprOp::kMod || right->op != ExprOp::kConst || right->integer != 0) return false;
  const Expr& divisor = left->args[1];
  if (divisor->op != ExprOp::kConst || divisor->integer < 2 || !is_affine(left->args[0])) return false;
  multiples->push_back({left->args[0], divisor->integer});
  return true;
}

}  // namespace

bool multiples_of(const Expr& condition, std::vector<std::pair<Expr, int64_t>>* multiples) {
  Visited visited;
  return add_multiples(condition, visited, multiples);
}

std::vector<int64_t> remainder_of(const Expr& index, int64_t divisor, size_t axes) {
  std::vector<int64_t> sum = coefficients_of(index, axes);
  for (size_t a = 0; a < axes; ++a) {
    if (sum[a] % divisor == 0) sum[a] = 0;
  }
  return sum;
}

namespace {

// Whether a term is the reduction's identity where `part` of it is a value that is that identity, or
// is a zero.
bool vanishes(const Expr& body, const ExprNode* part, Reduce reduce, Type type, bool is_identity,
              bool part_is_zero) {
  if (body.get() == part) return part->type == type && is_identity;
  if (reduce != Reduce::kSum) return false;
  // A factor of the term that is zero there.
  Visited visited;
  const auto factor = [&](const Expr& expr, const auto& self) -> bool {
    if (expr.get() == part) return part_is_zero;
    if (!visited.first(expr)) return false;  // was none
    switch (expr->op) {
      case ExprOp::kMul: return self(expr->args[0], self) || self(expr->args[1], self);
      case ExprOp::kNeg: case ExprOp::kCast: return self(expr->args[0], self);
      case ExprOp::kSelect: return is_zero(*expr->args[2]) && self(expr->args[1], self);
      default: return false;
    }
  };
  return factor(body, factor);
}

}  // namespace

bool vanishes_with(const Expr& body, const ExprNode* part, Reduce reduce, Type type) {
  const Expr& fill = part->args.back();
  if (fill->op != ExprOp::kConst) return false;
  const bool is_identity = is_float(type) ? fill->number == identity_float(reduce)
                                          : fill->integer == identity_int(reduce, type);
  return vanishes(body, part, reduce, type, is_identity, is_zero(*fill));
}

namespace {

// Where a result is looked at that goes to an epilogue alone, which takes it or something else: each at
// least zero. Empty: everywhere.
std::vector<Expr> wanted_by_epilogue(const Emitter& e, int s) {
  const Stage& stage = e.nest.stages[s];
  if (stage.epilogue.empty() || must_store(e.nest, s)) return {};
  const auto reads_it = [&](const ExprNode* read) { return read->index == stage.tensor; };
  std::vector<Expr> wanted;
  int readers = 0;
  for (const int f : stage.epilogue) {
    const Expr& body = e.bodies[f];
    const std::vector<const ExprNode*> reads = reads_in(body);
    if (std::none_of(reads.begin(), reads.end(), reads_it)) continue;
    ++readers;
    if (body->op != ExprOp::kSelect) return {};
    for (const Expr& part : {body->args[0], body->args[2]}) {
      const std::vector<const ExprNode*> others = reads_in(part);
      if (std::any_of(others.begin(), others.end(), reads_it)) return {};
    }
    add_comparisons(body->args[0], &wanted);
  }
  return readers == 1 ? wanted : std::vector<Expr>();
}

// Whether the epilogue reads what stands at loops of the run, so that it must be there whatever the
// terms are.
bool reads_from_run(const Emitter& e, int s) {
  const std::vector<Stage>& stages = e.nest.stages;
  const Stage& stage = stages[s];
  const auto stands_in_run = [&](const ExprNode* read) {
    return std::any_of(stages.begin(), stages.end(), [&](const Stage& other) {
      return other.place == Place::kAt && other.host == s && other.tensor == read->index &&
             find_loop(stage, other.loop) >= run_begin(stage);
    });
  };
  return std::any_of(stage.epilogue.begin(), stage.epilogue.end(), [&](int f) {
    const std::vector<const ExprNode*> reads = reads_in(e.bodies[f]);
    return std::any_of(reads.begin(), reads.end(), stands_in_run);
  });
}

std::optional<Outside> outside_of_map(const Emitter& e, int s) {
  const Stage& stage = e.nest.stages[s];
  const bool slow = register_file(*e.nest.target).processor && e.bodies[s]->op == ExprOp::kExp;
  if (!slow || !stage.epilogue.empty()) return std::nullopt;
  return outside_of(*e.nest.program, stage.tensor);
}

// Whether the stage has boxes of the tensor, in which the zeros around it are.
bool has_boxes(const Nest& nest, int s, int tensor) {
  return std::any_of(nest.stages.begin(), nest.stages.end(), [&](const Stage& c) {
    return c.copy_of == tensor && c.host == s && c.boxed;
  });
}

}  // namespace

Guards guards_of(Emitter& e, int s) {
  const Stage& stage = e.nest.stages[s];
  const Tensor& tensor = e.tensor(stage.tensor);
  Guards guards;
  if (stage.copy_of >= 0 || has_fused_axes(stage)) return guards;
  const std::vector<AxisState> whole = whole_axes(e.nest, s);
  const size_t axes = stage.axes.size();
  const auto add = [&](const Expr& of_tensor, int64_t extent, int64_t divisor, bool multiple,
                       bool idle = false) {
    const Expr index =
        stage.axis_value.empty() ? of_tensor : substitute(of_tensor, stage.axis_value);
    const Guard guard{multiple ? remainder_of(index, divisor, axes) : coefficients_of(index, axes),
                      extent, divisor, multiple, idle};
    if (!range_of_guard(e, guard, whole).inside) guards.all.push_back(guard);
  };
  const auto add_idle = [&](const std::vector<Expr>& at_least_zero) {
    for (const Expr& index : at_least_zero) add(index, kUnbounded, 1, false, /*idle=*/true);
  };
  if (tensor.reduce == Reduce::kNone) {
    if (const std::optional<Outside> outside = outside_of_map(e, s)) {
      add_idle(outside->at_least_zero);
      guards.outside = outside->value;
    }
    return guards;
  }
  if (reads_from_run(e, s)) return guards;
  visit(e.bodies[s], [&](const ExprNode& node) {
    const bool pads = node.op == ExprOp::kPad && node.args[0]->op == ExprOp::kRead;
    if (!pads && node.op != ExprOp::kSelect) return;
    if (!vanishes_with(e.bodies[s], &node, tensor.reduce, tensor.type)) return;
    if (!pads) {
      std::vector<std::pair<Expr, int64_t>> multiples;
      multiples_of(node.args[0], &multiples);
      for (const auto& [index, n] : multiples) add(index, 0, n, true);
      std::vector<Expr> at_least_zero;
      add_comparisons(node.args[0], &at_least_zero);
      for (const Expr& index : at_least_zero) add(index, kUnbounded, 1, false);
      return;
    }
    const ExprNode& read = *node.args[0];
    if (has_boxes(e.nest, s, read.index)) return;
    for (size_t d = 0; d < read.args.size(); ++d) {
      const Expr& index = read.args[d];
      const int64_t extent = e.tensor(read.index).shape[d];
      const bool quotient = index->op == ExprOp::kDiv && index->args[1]->op == ExprOp::kConst &&
                            index->args[1]->integer > 0 && is_affine(index->args[0]);
      if (is_affine(index)) add(index, extent, 1, false);
      if (quotient) add(index->args[0], extent, index->args[1]->integer, false);
    }
  });
  for (const ExprNode* read : reads_in(e.bodies[s])) {
    if (!std::all_of(read->args.begin(), read->args.end(), is_affine)) continue;
    const std::optional<Outside> outside = outside_of(*e.nest.program, read->index);
    const bool vanish =
        outside && vanishes(e.bodies[s], read, tensor.reduce, tensor.type,
                            outside->value == identity_float(tensor.reduce), outside->value == 0);
    if (!vanish) continue;
    std::vector<Expr> at_least_zero = outside->at_least_zero;
    for (Expr& index : at_least_zero) index = substitute(index, read->args);
    add_idle(at_least_zero);
  }
  add_idle(wanted_by_epilogue(e, s));
  return guards;
}

GuardRange range_of_guard(const Emitter& e, const Guard& guard,
                          const std::vector<AxisState>& axes) {
  Affine lo = affine(guard.coefficients.back());
  int64_t beyond = 0;                      // the last point from the first
  for (size_t a = 0; a < axes.size(); ++a) {
    const int64_t factor = guard.coefficients[a], most = factor * (axes[a].extent - 1);
    if (factor == 0) continue;
    lo = lo + axes[a].base * factor + affine(std::min<int64_t>(most, 0));
    beyond += std::abs(most);
  }
  GuardRange range{lo, lo + affine(beyond)};
  if (guard.multiple) {
    range.settled = std::all_of(range.lo.terms.begin(), range.lo.terms.end(), [&](const auto& t) {
      return t.coefficient % guard.divisor == 0;
    });
    const bool decided = range.settled && range.single();
    range.inside = decided && range.lo.constant % guard.divisor == 0;
    range.outside = decided && !range.inside;
    return range;
  }
  const int64_t extent = guard.extent * guard.divisor;  // of the index itself
  range.settled = range.lo.is_constant();
  range.inside =
      known_at_least_zero(e, range.lo) && known_at_least_zero(e, affine(extent - 1) - range.hi);
  range.outside = known_at_least_zero(e, affine(-1) - range.hi) ||
                  known_at_least_zero(e, range.lo - affine(extent));
  return range;
}

Interior interior(Emitter& e, const std::vector<Guard>& guards, const std::vector<AxisState>& axes,
                  int axis, int64_t tile, int64_t count) {
  Interior result{0, count};
  std::vector<AxisState> at = axes;
  for (const Guard& guard : guards) {
    if (!guard.moved_by(axis) || guard.multiple || guard.idle || count < 2) continue;
    const Affine start = axes[axis].base;
    at[axis] = {start, tile, {}};
    const GuardRange first = range_of_guard(e, guard, at);
    at[axis] = {start + affine(tile), tile, {}};
    const GuardRange second = range_of_guard(e, guard, at);
    if (!first.settled || !second.settled) continue;
    const int64_t step = second.lo.constant - first.lo.constant;
    // Points of a tile of one do not differ: a branch decides for all.
    if (step <= 0 || tile == 1) continue;
    const int64_t from = ceil_div(-first.lo.constant, step);
    const int64_t to = floor_div(guard.extent * guard.divisor - 1 - first.hi.constant, step) + 1;
    result.first = std::clamp(std::max(result.first, from), int64_t{0}, count);
    result.last = std::clamp(std::min(result.last, to), int64_t{0}, count);
  }
  if (result.first > kMostPeeled || count - result.last > kMostPeeled) return {0, count};
  if (result.first > result.last) result.last = result.first;
  return result;
}

bool unrolls_phase(Emitter& e, const std::vector<Guard>& guards,
                   const std::vector<AxisState>& axes, int axis, int64_t count) {
  if (count < 2 || count > kMostTaps) return false;
  return std::any_of(guards.begin(), guards.end(), [&](const Guard& guard) {
    return guard.multiple && guard.moved_by(axis) && count <= guard.divisor &&
           range_of_guard(e, guard, axes).settled;
  });
}

bool unrolls_window(Emitter& e, const std::vector<Guard>& guards,
                    const std::vector<AxisState>& axes, int axis, int64_t count) {
  if (count < 2 || count > kMostTaps) return false;
  return std::any_of(guards.begin(), guards.end(), [&](const Guard& guard) {
    if (!guard.moved_by(axis) || guard.idle) return false;
    const GuardRange range = range_of_guard(e, guard, axes);
    return range.settled && !range.inside;
  });
}

namespace {

// The guard's index divided, where it decides by a quotient or a remainder: known to all that is
// emitted until it is popped.
const Emitter::Quotient& divided(Emitter& e, const Affine& index, int64_t divisor) {
  for (const Emitter::Quotient& known : e.quotients) {
    if (known.of == index && known.divisor == divisor) return known;
  }
  const Affine quotient = e.emit_int(Stmt::IntOp::kDiv, index, {}, divisor);
  const Affine remainder = e.emit_int(Stmt::IntOp::kMod, index, {}, divisor);
  e.quotients.push_back({index, divisor, quotient, remainder});
  return e.quotients.back();
}

}  // namespace

std::vector<Affine> conditions_of(Emitter& e, const Guard& guard, const GuardRange& range) {
  const Affine last = affine(guard.extent - 1);
  if (guard.multiple) return {divided(e, range.lo, guard.divisor).remainder * -1};
  if (guard.divisor == 1) return {range.lo, last - range.hi};
  const Affine at = divided(e, range.lo, guard.divisor).quotient;
  return {at, last - at};
}

std::vector<Affine> some_of(const Guard& guard, const GuardRange& range) {
  if (guard.multiple || guard.divisor > 1) return {};
  return {range.hi, affine(guard.extent - 1) - range.lo};
}

}  // namespace lw::lowering
