#include "src/lower/outside.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "src/expr/bounds.h"
#include "src/lower/guards.h"

namespace lw::lowering {
namespace {

bool add_of(const Expr& condition, Visited& visited, std::vector<Expr>* at_least_zero) {
  if (!visited.first(condition)) return true;
  const std::vector<Expr>& args = condition->args;
  if (condition->op == ExprOp::kAnd) {
    bool all = true;
    for (const Expr& arg : args) all = add_of(arg, visited, at_least_zero) && all;
    return all;
  }
  const ExprOp op = condition->op;
  const bool less = op == ExprOp::kLt || op == ExprOp::kLe;
  if (!less && op != ExprOp::kGt && op != ExprOp::kGe) return false;
  if (args[0]->type != Type::kI64 || !is_affine(args[0]) || !is_affine(args[1])) return false;
  const bool strict = op == ExprOp::kLt || op == ExprOp::kGt;
  const Expr more = make_binary(ExprOp::kSub, args[less ? 1 : 0], args[less ? 0 : 1]);
  at_least_zero->push_back(make_binary(ExprOp::kSub, more, make_int(Type::kI64, strict ? 1 : 0)));
  return true;
}

class Known {
 public:
  explicit Known(const Program& program) : program_(program) {}

  std::optional<Outside> of_tensor(int tensor) {
    const Tensor& t = program_.tensors[static_cast<size_t>(tensor)];
    if (t.body == nullptr || t.reduce != Reduce::kNone || !is_float(t.type)) return std::nullopt;
    return of(t.body);
  }

 private:
  // Over the axes that the expression is of.
  std::optional<Outside> of(const Expr& e) {
    switch (e->op) {
      case ExprOp::kSelect: {
        const Expr& other = e->args[2];
        if (other->op != ExprOp::kConst || !is_float(other->type)) return std::nullopt;
        Outside outside{{}, other->number};
        add_comparisons(e->args[0], &outside.at_least_zero);
        if (outside.at_least_zero.empty()) return std::nullopt;
        return outside;
      }
      case ExprOp::kRead: {
        const bool affine = std::all_of(e->args.begin(), e->args.end(), is_affine);
        std::optional<Outside> outside = affine ? of_tensor(e->index) : std::nullopt;
        if (!outside) return std::nullopt;
        for (Expr& index : outside->at_least_zero) index = substitute(index, e->args);
        return outside;
      }
      case ExprOp::kCast: return is_float(e->type) ? of(e->args[0]) : std::nullopt;
      case ExprOp::kSub: {
        std::optional<Outside> outside = of(e->args[0]);
        const bool lost = outside && outside->value == -INFINITY &&
                          is_finite_maximum(e->args[1], e->args[0]);
        return lost ? outside : std::nullopt;
      }
      case ExprOp::kExp: {
        std::optional<Outside> outside = of(e->args[0]);
        if (!outside || outside->value != -INFINITY) return std::nullopt;
        outside->value = 0;
        return outside;
      }
      default: return std::nullopt;
    }
  }

  // Whether `e` reads maxima of what `of` reads, of which each row has some inside.
  bool is_finite_maximum(const Expr& e, const Expr& of) {
    if (e->op != ExprOp::kRead || of->op != ExprOp::kRead) return false;
    const Tensor& maxima = program_.tensors[static_cast<size_t>(e->index)];
    if (maxima.body == nullptr || maxima.reduce != Reduce::kMax) return false;
    if (maxima.body->op != ExprOp::kRead || maxima.body->index != of->index) return false;
    const std::optional<Outside> outside = this->of(maxima.body);
    if (!outside || outside->at_least_zero.size() != 1) return false;
    const size_t rows = maxima.axes.size();
    const std::vector<int64_t> factors =
        coefficients_of(outside->at_least_zero[0], rows + maxima.reduce_axes.size());
    int64_t worst = factors.back();        // of the rows' best
    for (size_t a = 0; a + 1 < factors.size(); ++a) {
      const bool row = a < rows;
      const int64_t last = (row ? maxima.axes[a] : maxima.reduce_axes[a - rows]).extent - 1;
      worst += row ? std::min<int64_t>(0, factors[a] * last) : std::max<int64_t>(0, factors[a] * last);
    }
    return worst >= 0;
  }

  const Program& program_;
};

}  // namespace

bool add_comparisons(const Expr& condition, std::vector<Expr>* at_least_zero) {
  Visited visited;
  return add_of(condition, visited, at_least_zero);
}

std::optional<Outside> outside_of(const Program& program, int tensor) {
  return Known(program).of_tensor(tensor);
}

}  // namespace lw::lowering
