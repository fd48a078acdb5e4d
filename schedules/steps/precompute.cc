// precompute(Y)
//   before  Y[p: 4096, c: 64] = (X[p, c] - m[c]) * rsqrt(v[c]) * s[c]
//   after   Y.pre[c: 64] = rsqrt(v[c]) * s[c]
//           Y[p: 4096, c: 64] = (X[p, c] - m[c]) * Y.pre[c]
// What a map's costly operations make of values that some axis does not move is computed once for
// all of that axis, and stored: quotients, roots, exponentials, the factors beside them in a
// product, and reciprocals of what many values are divided by. That of axes that come before all
// others stays where it is: it stands before the inner loops anyway.
//
// docs/numbers.md has what makes this the same: factors in any order, and reciprocals.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "schedules/costs.h"
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/intern.h"

namespace lw {
namespace {

constexpr double kCostly = 8;              // vector instructions, of one operation
constexpr double kFewer = 8;               // times as many points has the map

class Precompute {
 public:
  Precompute(const Nest& nest, int stage)
      : nest_(nest), tensor_(nest.program->tensors[nest.stages[stage].tensor]),
        first_(nest.stages[stage].tensor) {
    body_ = rewrite(nodes_.share(nest.stages[stage].body->value));
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Expr& body() const { return body_; }

 private:
  struct Facts {
    uint64_t axes = 0;                     // that move it
    bool costly = false;
  };

  const Facts& facts(const Expr& e) {
    if (const auto known = facts_.find(e.get()); known != facts_.end()) return known->second;
    Facts result;
    if (e->op == ExprOp::kAxis) result.axes = uint64_t{1} << e->index;
    for (const Expr& arg : e->args) {
      const Facts& of = facts(arg);
      result.axes |= of.axes;
      result.costly = result.costly || of.costly;
    }
    const double weight = costs(*nest_.target).of(e->op).weight;
    result.costly = result.costly || (is_stored(e) && weight >= kCostly);
    return facts_[e.get()] = result;
  }

  static bool is_stored(const Expr& e) { return e->type == Type::kF32 || e->type == Type::kF64; }
  static bool moves(uint64_t axes, size_t axis) { return axes >> axis & 1; }

  // Whether what these axes move is of few points, and not before the inner loops anyway.
  bool is_apart(uint64_t axes) const {
    double others = 1;
    bool inside = false;
    for (size_t a = 0; a < tensor_.axes.size(); ++a) {
      if (tensor_.axes[a].extent < 2) continue;
      if (!moves(axes, a)) others *= static_cast<double>(tensor_.axes[a].extent);
      else inside = inside || others > 1;
    }
    return inside && others >= kFewer;
  }
  bool is_apart(const Expr& e) { return is_apart(facts(e).axes); }

  // A read of `e`, which becomes a tensor of its own.
  Expr stored(const Expr& e) {
    auto [known, fresh] = stored_.try_emplace(e.get());
    if (!fresh) return known->second;
    Tensor t;
    t.name = concat(tensor_.name, ".pre");
    if (!tensors_.empty()) t.name += std::to_string(tensors_.size() + 1);
    t.type = e->type;
    std::vector<Expr> indices, inside(tensor_.axes.size(), make_int(Type::kI64, 0));
    for (size_t a = 0; a < tensor_.axes.size(); ++a) {
      if (!moves(facts(e).axes, a)) continue;
      inside[a] = make_axis(static_cast<int>(t.axes.size()));
      indices.push_back(make_axis(static_cast<int>(a)));
      t.axes.push_back(tensor_.axes[a]);
      t.shape.push_back(tensor_.axes[a].extent);
    }
    t.body = substitute(e, inside);
    const int number = first_ + static_cast<int>(tensors_.size());
    tensors_.push_back(std::move(t));
    return known->second = nodes_.share(make_read(number, e->type, std::move(indices)));
  }

  Expr rewrite(const Expr& e) {
    if (e->type == Type::kI64 || e->op == ExprOp::kRead || e->op == ExprOp::kPad) return e;
    if (is_stored(e) && facts(e).costly && is_apart(e)) return stored(e);
    if (const auto known = rewritten_.find(e.get()); known != rewritten_.end())
      return known->second;
    const bool product = e->op == ExprOp::kMul || e->op == ExprOp::kDiv;
    Expr result = is_stored(e) && product ? factored(e) : with_rewritten_args(e);
    return rewritten_[e.get()] = nodes_.share(result);
  }

  Expr with_rewritten_args(const Expr& e) {
    std::vector<Expr> args;
    for (const Expr& arg : e->args) args.push_back(rewrite(arg));
    return args == e->args ? e : with_args(e, std::move(args));
  }

  // The factors of a product, divisors that are apart as their reciprocals.
  void add_factors(const Expr& e, std::vector<Expr>& factors) {
    const bool divides = e->op == ExprOp::kDiv && is_apart(e->args[1]);
    if (e->op != ExprOp::kMul && !divides) return factors.push_back(e);
    add_factors(e->args[0], factors);
    if (!divides) return add_factors(e->args[1], factors);
    factors.push_back(
        nodes_.share(make_binary(ExprOp::kDiv, make_const(e->type, 1), e->args[1])));
  }

  Expr factored(const Expr& e) {
    std::vector<Expr> factors;
    add_factors(e, factors);
    const auto first = std::find_if(factors.begin(), factors.end(), [&](const Expr& factor) {
      return facts(factor).costly && is_apart(factor);
    });
    if (first == factors.end()) return with_rewritten_args(e);
    // With all that moves no further, so that it may stand on the tile of what it reads.
    const uint64_t axes = facts(*first).axes;
    Expr apart = *first, rest;
    for (auto factor = factors.begin(); factor != factors.end(); ++factor) {
      if (factor == first) continue;
      const uint64_t moved = facts(*factor).axes;
      const bool joins = moved != 0 && (moved & ~axes) == 0;
      const Expr mine = joins ? *factor : rewrite(*factor);
      Expr& product = joins ? apart : rest;
      product = product == nullptr ? mine : make_binary(ExprOp::kMul, product, mine);
    }
    apart = stored(nodes_.share(apart));
    return rest == nullptr ? apart : make_binary(ExprOp::kMul, rest, apart);
  }

  const Nest& nest_;
  const Tensor& tensor_;
  const int first_;                        // number of the first new tensor
  Interner nodes_;
  absl::flat_hash_map<const ExprNode*, Facts> facts_;
  absl::flat_hash_map<const ExprNode*, Expr> stored_, rewritten_;
  std::vector<Tensor> tensors_;
  Expr body_;
};

absl::Status apply_precompute(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 0, 0}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  const Stage& s = nest.stages[stage];
  const std::string name = s.name;
  if (!is_unscheduled(nest, stage)) return infeasible(concat(name, " has been scheduled"));
  const int t = s.tensor;
  const Tensor& tensor = nest.program->tensors[t];
  if (tensor.reduce != Reduce::kNone) return infeasible(concat(name, " is a reduction"));
  if (tensor.axes.size() > 64) return infeasible(concat(name, " has too many axes"));
  const Precompute found(nest, stage);
  const int count = static_cast<int>(found.tensors().size());
  if (count == 0) return infeasible(concat(name, " has nothing to compute before it"));
  for (int n = 0; n < count; ++n) {
    const Tensor& more = found.tensors()[n];
    if (find_tensor(*nest.program, more.name) >= 0)
      return infeasible(concat(more.name, " exists"));
    insert_tensor(nest, t + n, more);
  }
  // What protected a read may have been a condition outside.
  if (const absl::Status status = verify(*nest.program); !status.ok())
    return infeasible(std::string(status.message()));
  nest.stages[stage].body = make_body(found.body());
  for (int n = 0; n < count; ++n)
    insert_stage(nest, stage + n, make_stage(*nest.program, t + n));
  return check_places(nest);
}

}  // namespace

const StepKind& precompute() {
  static constexpr StepKind kind = {"precompute", 1, apply_precompute, nullptr};
  return kind;
}

}  // namespace lw
