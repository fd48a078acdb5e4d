#include "schedules/npu/index_steps.h"

#include <algorithm>

#include "src/expr/bounds.h"
#include "src/expr/expr.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

constexpr int kMostParts = 4096;           // of a sum, what is shared as often as it occurs

class Reader {
 public:
  explicit Reader(const Stage& stage) : stage_(stage) {}

  std::optional<IndexSteps> read(const Expr& index, bool of_tensor) {
    IndexSteps sum;
    sum.steps.resize(stage_.axes.size());
    bool known = true;
    const bool own = !of_tensor || stage_.axis_value.empty();
    const auto add = [&](const Expr& atom, int64_t factor) {
      if (own && atom->op == ExprOp::kAxis) {
        int64_t& step = sum.steps[static_cast<size_t>(atom->index)];
        step = add_wrapping(step, factor);
        return;
      }
      const std::optional<IndexSteps> part = known ? part_of(atom, of_tensor) : std::nullopt;
      known = part.has_value();
      if (!known) return;
      sum.begin = add_wrapping(sum.begin, mul_wrapping(factor, part->begin));
      for (size_t a = 0; a < sum.steps.size(); ++a) {
        sum.steps[a] = add_wrapping(sum.steps[a], mul_wrapping(factor, part->steps[a]));
      }
    };
    if (!add_summands(index, 1, sum.begin, left_, add) || !known) return std::nullopt;
    return sum;
  }

 private:
  // Of what is no axis of the stage.
  std::optional<IndexSteps> part_of(const Expr& e, bool of_tensor) {
    if (e->op == ExprOp::kAxis) {
      return read(stage_.axis_value[static_cast<size_t>(e->index)], false);
    }
    const bool divides = e->op == ExprOp::kDiv;
    if (!divides && e->op != ExprOp::kMod) return std::nullopt;
    if (e->args[1]->op != ExprOp::kConst || e->args[1]->integer <= 0) return std::nullopt;
    const std::optional<IndexSteps> whole = read(e->args[0], of_tensor);
    return whole ? divided(*whole, e->args[1]->integer, divides) : std::nullopt;
  }

  // n times the quotient and a remainder, each a sum of its own axes.
  std::optional<IndexSteps> divided(const IndexSteps& whole, int64_t n, bool quotient) const {
    IndexSteps result;
    const int64_t rest = floor_mod(whole.begin, n);
    __int128 least = rest, most = rest;
    for (size_t a = 0; a < whole.steps.size(); ++a) {
      const int64_t step = whole.steps[a];
      const bool in_rest = step % n != 0;
      result.steps.push_back(in_rest == quotient ? 0 : quotient ? step / n : step);
      if (!in_rest) continue;
      const __int128 last = __int128{step} * (stage_.axes[a].extent - 1);
      (step < 0 ? least : most) += last;
    }
    if (least < 0 || most >= n) return std::nullopt;
    result.begin = quotient ? floor_div(whole.begin, n) : rest;
    return result;
  }

  const Stage& stage_;
  int left_ = kMostParts;
};

}  // namespace

std::optional<IndexSteps> index_steps(const Nest& nest, int stage, const Expr& index) {
  return Reader(nest.stages[static_cast<size_t>(stage)]).read(index, true);
}

}  // namespace lw
