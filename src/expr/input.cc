// Random inputs, from the range that the program's use of a tensor implies: an index of a gather
// must hit the gathered tensor, the operand of a logarithm must be positive, and so on. Inputs
// without such a use are uniform in [-1, 1], or small integers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/expr/bounds.h"
#include "src/expr/interpret.h"
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
    switch (e->op) {
      case ExprOp::kLog: case ExprOp::kSqrt: case ExprOp::kRsqrt: case ExprOp::kPow:
        positive |= reads_it(e->args[0]);
        break;
      case ExprOp::kDiv: positive |= reads_it(e->args[1]); break;
      default: break;
    }
    for (const Expr& arg : e->args) walk(arg);
  }
};

InputRange natural_range(Type type) {
  switch (type) {
    case Type::kI64: case Type::kI32: case Type::kI16: return {-1000, 1000};
    case Type::kI8: return {-128, 127};
    case Type::kU8: return {0, 255};
    case Type::kBool: return {0, 1};
    default: return {-1, 1};
  }
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
  const InputRange natural = natural_range(input.type);
  const bool free = range.lo == natural.lo && range.hi == natural.hi;
  // Small enough that the sum of some hundred thousand products is exact in f32.
  if (integers && free && input.type != Type::kBool)
    range = {input.type == Type::kU8 ? 0.0 : -3, 3};
  if (integers && !free && is_float(input.type)) range = {1, 4};
  Rng rng = Rng(seed).split(static_cast<uint64_t>(tensor));
  const int64_t count = elements(input);
  const int64_t lo = static_cast<int64_t>(range.lo);
  const int64_t width = static_cast<int64_t>(range.hi) - lo + 1;
  const auto real = [&] { return range.lo + rng.uniform() * (range.hi - range.lo); };
  const auto whole = [&] { return lo + rng.below(width); };
  if (input.type == Type::kF32) {          // the type of most large inputs, without a switch
    const auto fill = [&](const auto& draw) {
      for (int64_t i = 0; i < count; ++i) {
        const float value = static_cast<float>(draw());
        std::memcpy(out + i * 4, &value, 4);
      }
    };
    return integers ? fill(whole) : fill(real);
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!is_float(input.type)) store_integer(input.type, out, i, whole());
    else store_element(input.type, out, i, integers ? static_cast<double>(whole()) : real());
  }
}

}  // namespace lw
