// A row is what lies along the last extent. Its elements travel as doubles or as int64_t, as lanes
// do in the interpreter, but all of a row at once: which types they have is asked once a row.
#include "src/build/interpreter/interpret_block.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "src/expr/element.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

using Position = absl::InlinedVector<int64_t, 4>;

struct Row {
  Row(const Placed& placed, const Position& at)
      : type(placed.type), stride(placed.view->strides.back()) {
    int64_t index = placed.index;
    for (size_t d = 0; d < at.size(); ++d) index += at[d] * placed.view->strides[d];
    data = placed.base + index * size_of(type);
  }
  template <class T>
  T get(size_t i) const {
    T value;
    std::memcpy(&value, data + static_cast<int64_t>(i) * stride * int64_t{sizeof(T)}, sizeof(T));
    return value;
  }
  template <class T>
  void set(size_t i, T value) const {
    std::memcpy(data + static_cast<int64_t>(i) * stride * int64_t{sizeof(T)}, &value, sizeof(T));
  }

  Type type;
  int64_t stride;
  std::byte* data;
};

using Integers = std::vector<int64_t>;     // of integers and bool
using Numbers = std::vector<double>;       // of floats

void load(const Row& row, Integers* values) {
  in_memory(row.type, [&](auto zero) {
    for (size_t i = 0; i < values->size(); ++i) {
      (*values)[i] = static_cast<int64_t>(row.get<decltype(zero)>(i));
    }
  });
  if (row.type != Type::kBool) return;
  for (int64_t& value : *values) value = value != 0;
}

void load(const Row& row, Numbers* values) {
  load_elements(row.type, row.data, row.stride, static_cast<int64_t>(values->size()),
                values->data());
}

void store(const Row& row, const Integers& values) {
  in_memory(row.type, [&](auto zero) {
    for (size_t i = 0; i < values.size(); ++i) {
      row.set(i, static_cast<decltype(zero)>(row.type == Type::kBool ? values[i] != 0 : values[i]));
    }
  });
}

void store(const Row& row, const Numbers& values) {
  const auto each = [&](auto element) {
    for (size_t i = 0; i < values.size(); ++i) row.set(i, element(values[i]));
  };
  if (row.type == Type::kF64) return each([](double value) { return value; });
  if (row.type == Type::kF32) return each([](double value) { return static_cast<float>(value); });
  const NarrowFloat narrow(row.type);
  each([&](double value) { return static_cast<uint16_t>(narrow.bits(value)); });
}

Integers converted(Type to, const Numbers& values) {
  Integers result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [&](double value) { return float_to_int(to, value); });
  return result;
}

// Straight to f32: through f64, i64 would round twice.
Numbers converted(Type to, const Integers& values) {
  Numbers result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), [&](int64_t value) -> double {
    return to == Type::kF32 ? static_cast<float>(value) : static_cast<double>(value);
  });
  return result;
}

// Stores converted values; what remains to be rounded or wrapped, store does.
template <class Values>
void put(const Row& row, const Values& values) {
  constexpr bool floats = std::is_same_v<Values, Numbers>;
  if (is_float(row.type) == floats) store(row, values);
  else store(row, converted(row.type, values));
}

// use(position) where each row begins, in order.
template <class Use>
void for_each_row(const Block& block, const Use& use) {
  const int outer = static_cast<int>(block.extents.size()) - 1;
  Position at(block.extents.size(), 0);
  for (int d = 0; d >= 0;) {
    use(at);
    for (d = outer - 1; d >= 0 && ++at[d] == block.extents[d]; --d) at[d] = 0;
  }
}

void fill(const Block& block, const Placed& dst) {
  const Integers values(block.extents.back(), block.integer);
  for_each_row(block, [&](const Position& at) { put(Row(dst, at), values); });
}

template <class Values>
void copy(const Block& block, const Placed& dst, const Placed& src) {
  Values values(block.extents.back());
  for_each_row(block, [&](const Position& at) {
    load(Row(src, at), &values);
    put(Row(dst, at), values);
  });
}

// add(sum, a, b) gives sum + a * b in dst's type.
template <class Values, class Add>
void product(const Block& block, const Placed& dst, const Placed* srcs, const Add& add) {
  const View& view = *dst.view;
  const size_t count = block.extents.back();
  const bool is_sum = view.strides.back() == 0;
  Values sums(is_sum ? 1 : count), a(count), b(count);
  const auto begun = [&](const Position& at) {
    for (size_t d = 0; d < at.size(); ++d) {
      if (view.strides[d] == 0 && at[d] > 0) return true;
    }
    return false;
  };
  for_each_row(block, [&](const Position& at) {
    const Row row(dst, at);
    if (block.accumulate || begun(at)) load(row, &sums);
    else std::fill(sums.begin(), sums.end(), 0);
    load(Row(srcs[0], at), &a);
    load(Row(srcs[1], at), &b);
    if (is_sum) {
      for (size_t i = 0; i < count; ++i) sums[0] = add(sums[0], a[i], b[i]);
    } else {
      for (size_t i = 0; i < count; ++i) sums[i] = add(sums[i], a[i], b[i]);
    }
    store(row, sums);
  });
}

// Of floats; round(value) is in dst's type.
template <class Round>
void product_rounding(const Block& block, const Placed& dst, const Placed* srcs,
                      const Round& round) {
  product<Numbers>(block, dst, srcs, [&](double sum, double a, double b) {
    return round(sum + round(round(a) * round(b)));
  });
}

void product(const Block& block, const Placed& dst, const Placed* srcs) {
  if (!is_float(dst.type)) {
    return product<Integers>(block, dst, srcs, [](int64_t sum, int64_t a, int64_t b) {
      return add_wrapping(sum, mul_wrapping(a, b));  // store wraps what remains
    });
  }
  if (dst.type == Type::kF32) {
    return product_rounding(block, dst, srcs,
                            [](double value) -> double { return static_cast<float>(value); });
  }
  product_rounding(block, dst, srcs, [&](double value) { return round_to(dst.type, value); });
}

// compute(row, at): the row's values, in dst's type, from those of its sources.
template <class Values, class Compute>
void rows_of(const Block& block, const Placed& dst, const Compute& compute) {
  Values values(block.extents.back());
  for_each_row(block, [&](const Position& at) {
    compute(&values, at);
    store(Row(dst, at), values);
  });
}

void compute_floats(const Block& block, const Placed& dst, const Placed* srcs) {
  const auto rounded = [&](double value) { return round_to(dst.type, value); };
  const bool compares = is_comparison(block.expr_op);
  const auto binary = [&](double a, double b) {
    return compares ? compare(block.expr_op, a, b) : apply_float(block.expr_op, a, b);
  };
  const double number = rounded(block.number);
  Numbers other(block.extents.back());
  rows_of<Numbers>(block, dst, [&](Numbers* values, const Position& at) {
    load(Row(srcs[0], at), values);
    if (block.op == BlockOp::kBinary) load(Row(srcs[1], at), &other);
    for (size_t i = 0; i < values->size(); ++i) {
      double& x = (*values)[i];
      x = rounded(block.op == BlockOp::kUnary    ? apply_float(block.expr_op, x)
                  : block.op == BlockOp::kBinary ? binary(x, other[i])
                                                 : apply_float(block.expr_op, number, x));
    }
  });
}

void compute_integers(const Block& block, const Placed& dst, const Placed* srcs) {
  const Type type = dst.type;
  const int64_t number = float_to_int(type, block.number);
  Integers other(block.extents.back());
  rows_of<Integers>(block, dst, [&](Integers* values, const Position& at) {
    load(Row(srcs[0], at), values);
    if (block.op == BlockOp::kBinary) load(Row(srcs[1], at), &other);
    for (size_t i = 0; i < values->size(); ++i) {
      int64_t& x = (*values)[i];
      x = block.op == BlockOp::kUnary    ? apply_int(block.expr_op, type, x)
          : block.op == BlockOp::kBinary ? apply_int(block.expr_op, type, x, other[i])
                                         : apply_int(block.expr_op, type, number, x);
    }
  });
}

ExprOp combining(Reduce reduce) {
  switch (reduce) {
    case Reduce::kMax: return ExprOp::kMax;
    case Reduce::kMin: return ExprOp::kMin;
    case Reduce::kProd: return ExprOp::kMul;
    default: return ExprOp::kAdd;
  }
}

// combine(a, b) in dst's type.
template <class Values, class Combine>
void reduce(const Block& block, const Placed& dst, const Placed& src,
            typename Values::value_type identity, const Combine& combine) {
  const View& view = *dst.view;
  const size_t count = block.extents.back(), kept = view.strides.back() == 0 ? 1 : count;
  Values results(kept), values(count);
  for_each_row(block, [&](const Position& at) {
    bool begun = block.accumulate;
    for (size_t d = 0; d < at.size(); ++d) begun = begun || (view.strides[d] == 0 && at[d] > 0);
    const Row row(dst, at);
    if (begun) load(row, &results);
    else std::fill(results.begin(), results.end(), identity);
    load(Row(src, at), &values);
    for (size_t i = 0; i < count; ++i) {
      auto& result = results[kept == 1 ? 0 : i];
      result = combine(result, values[i]);
    }
    store(row, results);
  });
}

void reduce(const Block& block, const Placed& dst, const Placed& src) {
  const ExprOp op = combining(block.reduce);
  const Type type = dst.type;
  if (is_float(type)) {
    return reduce<Numbers>(block, dst, src, identity_float(block.reduce), [&](double a, double b) {
      return round_to(type, apply_float(op, a, b));
    });
  }
  reduce<Integers>(block, dst, src, identity_int(block.reduce, type),
                   [&](int64_t a, int64_t b) { return apply_int(op, type, a, b); });
}

void requantise(const Block& block, const Placed& dst, const Placed* srcs) {
  Integers biases(block.extents.back());
  Numbers scales(block.extents.back());
  rows_of<Integers>(block, dst, [&](Integers* values, const Position& at) {
    load(Row(srcs[0], at), values);
    load(Row(srcs[1], at), &scales);
    load(Row(srcs[2], at), &biases);
    for (size_t i = 0; i < values->size(); ++i) {
      int64_t& value = (*values)[i];
      const int64_t sum = wrap(Type::kI32, value + biases[i]);
      const double scaled = round_to(
          Type::kF32, static_cast<double>(static_cast<float>(sum)) * scales[i]);
      value = float_to_int(Type::kI32, round_half_even(scaled)) + block.zero;
      value = std::clamp<int64_t>(std::clamp<int64_t>(value, -128, 127), block.lo, block.hi);
    }
  });
}

}  // namespace

void interpret_block(const Block& block, const Placed& dst, const Placed* srcs) {
  switch (block.op) {
    case BlockOp::kFill: return fill(block, dst);
    case BlockOp::kCopy:
      return is_float(srcs[0].type) ? copy<Numbers>(block, dst, srcs[0])
                                    : copy<Integers>(block, dst, srcs[0]);
    case BlockOp::kProduct: return product(block, dst, srcs);
    case BlockOp::kUnary:
    case BlockOp::kBinary:
    case BlockOp::kScalar:
      return is_float(dst.type) ? compute_floats(block, dst, srcs)
                                : compute_integers(block, dst, srcs);
    case BlockOp::kReduce: return reduce(block, dst, srcs[0]);
    case BlockOp::kRequantise: return requantise(block, dst, srcs);
  }
}

}  // namespace lw
