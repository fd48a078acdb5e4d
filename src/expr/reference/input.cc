// Random inputs, from the range that the program's use of a tensor implies: an index of a gather
// must hit the gathered tensor, the operand of a logarithm must be positive, and so on. Inputs
// without such a use are uniform in [-1, 1], or small integers, but for what makes intermediate
// values grow or vanish with the program's depth:
//   one factor of every sum of K products, a const one first, else the last, is drawn from
//   [-s, s], s = sqrt(3 / K): the sum is then of the size of the other factor;
//   factors of a product over K are drawn from +-[e^-d, e^d], d = 1 / sqrt(K);
//   of an input that comes out to a power n of 8 and more, by squarings or the like, every other
//   element is drawn from +-[e^(-1/n), e^(1/n)].
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/expr/bounds.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

struct Use {
  const Program& program;
  const Tensor& user;
  int tensor;
  bool gathered = false, positive = false;
  double lo = -INFINITY, hi = INFINITY;    // of the values that keep every gather in range

  bool reads_it(const Expr& e) const {
    if (e->op == ExprOp::kCast || e->op == ExprOp::kPad) return reads_it(e->args[0]);
    return e->op == ExprOp::kRead && e->index == tensor;
  }

  void gather(const Expr& index, int64_t extent) {
    std::vector<Axis> axes = user.axes;
    axes.insert(axes.end(), user.reduce_axes.begin(), user.reduce_axes.end());
    const Facts facts = facts_of(axes);
    Linear form = linear_form(index);
    for (size_t i = 0; i < form.terms.size(); ++i) {
      if (!reads_it(form.terms[i].atom)) continue;
      gathered = true;
      const double factor = static_cast<double>(form.terms[i].factor);
      double rest_lo = static_cast<double>(form.constant), rest_hi = rest_lo;
      for (size_t j = 0; j < form.terms.size(); ++j) {
        if (j == i) continue;
        Interval range = interval_of(form.terms[j].atom, facts);
        const double f = static_cast<double>(form.terms[j].factor);
        const double a = f * static_cast<double>(range.lo), b = f * static_cast<double>(range.hi);
        rest_lo += std::min(a, b);
        rest_hi += std::max(a, b);
      }
      const double a = -rest_lo / factor, b = (static_cast<double>(extent) - 1 - rest_hi) / factor;
      lo = std::max(lo, std::ceil(std::min(a, b)));
      hi = std::min(hi, std::floor(std::max(a, b)));
    }
    // Read under a quotient or remainder: small indices of either kind are in range.
    visit(index, [&](const ExprNode& e) {
      if (e.op == ExprOp::kRead && e.index == tensor && !gathered) {
        gathered = true;
        lo = std::max(lo, 0.0);
        hi = std::min(hi, static_cast<double>(extent - 1));
      }
    });
  }

  void walk(const Expr& e) {
    if (e->op == ExprOp::kRead) {
      const std::vector<int64_t>& shape = program.tensors[static_cast<size_t>(e->index)].shape;
      for (size_t d = 0; d < e->args.size(); ++d) {
        if (is_gather(e->args[d])) gather(e->args[d], shape[d]);
      }
    }
    positive |= row_of(e->op).wants_positive && reads_it(e->args[0]);
    positive |= e->op == ExprOp::kDiv && reads_it(e->args[1]);
    for (const Expr& arg : e->args) walk(arg);
  }
};

InputRange natural_range(Type type) {
  if (is_float(type)) return {-1, 1};
  const IntegerRange all = integer_range(type);
  return {static_cast<double>(std::max<int64_t>(all.lo, -1000)),
          static_cast<double>(std::min<int64_t>(all.hi, 1000))};
}

// ---- natural magnitudes ----

double terms_of(const Tensor& tensor) {
  double terms = 1;
  for (const Axis& axis : tensor.reduce_axes) terms *= static_cast<double>(axis.extent);
  return terms;
}

// The inputs that `e` is the product of, each once for every time that it is a factor, be it as
// what a definition casts it to.
void add_factors(const Program& program, const Expr& e, std::vector<int>* factors, bool* others) {
  switch (e->op) {
    case ExprOp::kMul:
      for (const Expr& arg : e->args) add_factors(program, arg, factors, others);
      return;
    case ExprOp::kCast:
    case ExprOp::kPad:
    case ExprOp::kNeg: return add_factors(program, e->args[0], factors, others);
    case ExprOp::kSelect: return add_factors(program, e->args[1], factors, others);
    case ExprOp::kRead: {
      const Tensor& read = program.tensors[static_cast<size_t>(e->index)];
      if (read.role == Role::kInput) return factors->push_back(e->index);
      if (read.reduce != Reduce::kNone || read.body->op != ExprOp::kCast) break;
      return add_factors(program, read.body, factors, others);
    }
    default: break;
  }
  if (e->op != ExprOp::kConst) *others = true;
}

// What an input is scaled by for a sum of products that it is to keep of natural size; 1: nothing.
double scale_in(const Program& program, const Tensor& user, int tensor) {
  if (user.reduce != Reduce::kSum) return 1;
  std::vector<int> factors;
  bool others = false;
  add_factors(program, user.body, &factors, &others);
  if (factors.empty() || (factors.size() == 1 && !others)) return 1;
  int chosen = factors.back();
  for (int factor : factors) {
    if (program.tensors[static_cast<size_t>(factor)].is_const) chosen = factor;
  }
  if (chosen != tensor) return 1;
  const auto times = std::count(factors.begin(), factors.end(), tensor);
  return std::min(1.0, std::sqrt(3.0) * std::pow(terms_of(user), -0.5 / static_cast<double>(times)));
}

// The power to which `e` has an input in it, given that of every tensor before; functions that
// bound or tame their operand end a power.
double power_in(const Expr& e, const std::vector<double>& powers) {
  constexpr double kMost = 1e15;
  if (e->op == ExprOp::kRead) return powers[static_cast<size_t>(e->index)];
  std::vector<double> of;
  for (const Expr& arg : e->args) of.push_back(power_in(arg, powers));
  switch (e->op) {
    case ExprOp::kMul:
    case ExprOp::kDiv: return std::min(kMost, of[0] + of[1]);
    case ExprOp::kPow:
      return e->args[1]->op == ExprOp::kConst
                 ? std::min(kMost, of[0] * std::fabs(e->args[1]->number))
                 : of[0];
    default: break;
  }
  switch (row_of(e->op).growth) {
    case Growth::kRoot: return of[0] / 2;
    case Growth::kTamed: return std::min(1.0, of[0]);
    case Growth::kAsOperand: break;
  }
  return of.empty() ? 0 : *std::max_element(of.begin(), of.end());
}

double highest_power(const Program& program, int tensor) {
  std::vector<double> powers(program.tensors.size());
  powers[static_cast<size_t>(tensor)] = 1;
  double highest = 1;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& user = program.tensors[i];
    if (!user.body || !is_float(user.type)) continue;
    powers[i] = power_in(user.body, powers);
    highest = std::max(highest, powers[i]);
  }
  return highest;
}

// How the free elements of a float input are drawn.
struct Natural {
  double scale = 1;                        // uniform in +-scale
  double spread = 0;                       // from +-[e^-spread, e^spread]: all ...
  bool every_other = false;                // ... or every other
};

Natural natural_of(const Program& program, int tensor) {
  Natural natural;
  for (const Tensor& user : program.tensors) {
    if (!user.body) continue;
    natural.scale = std::min(natural.scale, scale_in(program, user, tensor));
    std::vector<int> factors;
    bool others = false;
    if (user.reduce != Reduce::kProd) continue;
    add_factors(program, user.body, &factors, &others);
    if (std::count(factors.begin(), factors.end(), tensor) > 0)
      natural.spread = 1 / std::sqrt(terms_of(user));
  }
  const double power = highest_power(program, tensor);
  if (natural.spread == 0 && power >= 8) {
    natural.spread = 1 / power;
    natural.every_other = true;
  }
  return natural;
}

Use use_of(const Program& program, const Tensor& user, int tensor) {
  Use use{program, user, tensor};
  use.walk(user.body);
  return use;
}

}  // namespace

InputRange input_range(const Program& program, int tensor) {
  const Tensor& input = program.tensors[static_cast<size_t>(tensor)];
  InputRange range = natural_range(input.type);
  bool gathered = false, positive = false;
  double lo = -INFINITY, hi = INFINITY;
  for (const Tensor& user : program.tensors) {
    if (!user.body) continue;
    Use use = use_of(program, user, tensor);
    gathered |= use.gathered;
    positive |= use.positive;
    lo = std::max(lo, use.lo);
    hi = std::min(hi, use.hi);
  }
  if (gathered && lo <= hi) {
    const IntegerRange all = integer_range(input.type);
    return {std::max(lo, static_cast<double>(all.lo)), std::min(hi, static_cast<double>(all.hi))};
  }
  if (positive && is_float(input.type)) return {0.25, 1};
  if (positive) return {1, range.hi};
  return range;
}

Data random_input(const Program& program, int tensor, uint64_t seed, bool integers) {
  Data data;
  data.bytes.resize(static_cast<size_t>(bytes(program.tensors[static_cast<size_t>(tensor)])));
  fill_random_input(program, tensor, seed, integers, data.bytes.data());
  return data;
}

void fill_random_input(const Program& program, int tensor, uint64_t seed, bool integers,
                       std::byte* out) {
  const Tensor& input = program.tensors[static_cast<size_t>(tensor)];
  CHECK(input.role == Role::kInput);
  InputRange range = input_range(program, tensor);
  const InputRange usual = natural_range(input.type);
  const bool free = range.lo == usual.lo && range.hi == usual.hi;
  const Natural natural = free && is_float(input.type) ? natural_of(program, tensor) : Natural();
  // Small enough that the sum of some hundred thousand products is exact in f32.
  if (integers && free && input.type != Type::kBool)
    range = {std::max(-3.0, static_cast<double>(integer_range(input.type).lo)), 3};
  if (integers && !free && is_float(input.type)) range = {1, 4};
  Rng rng = Rng(seed).split(static_cast<uint64_t>(tensor));
  const int64_t count = elements(input);
  const int64_t lo = static_cast<int64_t>(range.lo);
  const int64_t width = static_cast<int64_t>(range.hi) - lo + 1;
  const auto whole = [&] { return lo + rng.below(width); };
  const auto real = [&](int64_t i) {
    const double uniform = range.lo + rng.uniform() * (range.hi - range.lo);
    if (natural.spread > 0 && (!natural.every_other || i % 2 == 1))
      return std::copysign(std::exp(natural.spread * (2 * rng.uniform() - 1)), uniform);
    return uniform * natural.scale;
  };
  if (input.type == Type::kF32) {          // the type of most large inputs, without a switch
    const auto fill = [&](const auto& draw) {
      for (int64_t i = 0; i < count; ++i) {
        const float value = static_cast<float>(draw(i));
        std::memcpy(out + i * 4, &value, 4);
      }
    };
    return integers ? fill([&](int64_t) { return whole(); }) : fill(real);
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!is_float(input.type)) store_integer(input.type, out, i, whole());
    else store_element(input.type, out, i, integers ? static_cast<double>(whole()) : real(i));
  }
}

}  // namespace lw
