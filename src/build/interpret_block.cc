// A row is what lies along the last extent. Its elements travel as doubles or as int64_t, as lanes
// do in the interpreter, but all of a row at once: which types they have is asked once a row.
#include "src/build/interpret_block.h"

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
  const auto each = [&](auto get) {
    for (size_t i = 0; i < values->size(); ++i) (*values)[i] = get(i);
  };
  if (row.type == Type::kF64) return each([&](size_t i) { return row.get<double>(i); });
  if (row.type == Type::kF32) return each([&](size_t i) { return row.get<float>(i); });
  const NarrowFloat narrow(row.type);
  each([&](size_t i) { return narrow.value(row.get<uint16_t>(i)); });
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

}  // namespace

void interpret_block(const Block& block, const Placed& dst, const Placed* srcs) {
  switch (block.op) {
    case BlockOp::kFill: return fill(block, dst);
    case BlockOp::kCopy:
      return is_float(srcs[0].type) ? copy<Numbers>(block, dst, srcs[0])
                                    : copy<Integers>(block, dst, srcs[0]);
    case BlockOp::kProduct: return product(block, dst, srcs);
  }
}

}  // namespace lw
