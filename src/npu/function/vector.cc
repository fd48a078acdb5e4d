#include "src/npu/function/vector.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/npu/function/numbers.h"
#include "src/npu/function/tables.h"

namespace lw::npu {
namespace {

template <class T>
T reduce_row(ReduceFn fn, const T* row, int64_t count, int64_t lanes, int64_t* overflows) {
  if (fn == ReduceFn::kMax) {
    T most = row[0];
    for (int64_t i = 1; i < count; ++i) most = apply(BinaryFn::kMax, most, row[i], overflows);
    return most;
  }
  int64_t left = std::min(lanes, count);
  std::vector<T> sums(row, row + left);
  for (int64_t i = left; i < count; ++i) {
    T& sum = sums[i % lanes];
    sum = apply(BinaryFn::kAdd, sum, row[i], overflows);
  }
  while (left > 1) {
    const int64_t half = (left + 1) / 2;
    for (int64_t i = 0; i + half < left; ++i) {
      sums[i] = apply(BinaryFn::kAdd, sums[i], sums[i + half], overflows);
    }
    left = half;
  }
  return sums[0];
}

}  // namespace

int32_t apply(BinaryFn fn, int32_t a, int32_t b, int64_t* overflows) {
  switch (fn) {
    case BinaryFn::kAdd: return wrap(int64_t{a} + b, overflows);
    case BinaryFn::kSub: return wrap(int64_t{a} - b, overflows);
    case BinaryFn::kMul: return wrap(int64_t{a} * b, overflows);
    case BinaryFn::kMax: return a < b ? b : a;
    case BinaryFn::kMin: return b < a ? b : a;
    case BinaryFn::kShr: return a >> (b & 31);
    case BinaryFn::kCmp: return a > b;
  }
  CHECK(false);
  return 0;
}

float apply(BinaryFn fn, float a, float b, int64_t*) {
  switch (fn) {
    case BinaryFn::kAdd: return a + b;
    case BinaryFn::kSub: return a - b;
    case BinaryFn::kMul: return a * b;
    case BinaryFn::kMax: return a != a || !(a < b || b != b) ? a : b;
    case BinaryFn::kMin: return a != a || !(b < a || b != b) ? a : b;
    case BinaryFn::kShr:
      return b != b ? b : std::ldexp(a, -static_cast<int>(std::clamp(b, -300.0f, 300.0f)));
    case BinaryFn::kCmp: return a > b ? 1 : 0;
  }
  CHECK(false);
  return 0;
}

int32_t apply(UnaryFn fn, int32_t x, int64_t* overflows) {
  switch (fn) {
    case UnaryFn::kCopy: return x;
    case UnaryFn::kRelu: return x < 0 ? 0 : x;
    case UnaryFn::kAbs: return x < 0 ? wrap(-int64_t{x}, overflows) : x;
    default: return round_to_int(apply(fn, static_cast<float>(x), overflows));
  }
}

float apply(UnaryFn fn, float x, int64_t*) {
  switch (fn) {
    case UnaryFn::kCopy: return x;
    case UnaryFn::kRelu: return x < 0 ? 0 : x;
    case UnaryFn::kAbs: return std::fabs(x);
    case UnaryFn::kRecip: return 1 / x;
    case UnaryFn::kRsqrt: {
      const float root = std::sqrt(x);
      return 1 / root;
    }
    default: return look_up(fn, x);
  }
}

int32_t reduce(ReduceFn fn, const int32_t* row, int64_t count, int64_t lanes, int64_t* overflows) {
  return reduce_row(fn, row, count, lanes, overflows);
}
float reduce(ReduceFn fn, const float* row, int64_t count, int64_t lanes, int64_t* overflows) {
  return reduce_row(fn, row, count, lanes, overflows);
}

}  // namespace lw::npu
