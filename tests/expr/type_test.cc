#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "src/expr/scalar.h"

namespace lw {
namespace {

TEST(Types, RowsSayWhichFloatsTheyHold) {
  EXPECT_EQ(smallest_normal(Type::kF64), std::numeric_limits<double>::min());
  EXPECT_EQ(largest_finite(Type::kF64), std::numeric_limits<double>::max());
  EXPECT_EQ(smallest_normal(Type::kF32), std::numeric_limits<float>::min());
  EXPECT_EQ(largest_finite(Type::kF32), std::numeric_limits<float>::max());
  EXPECT_EQ(smallest_normal(Type::kF16), 0x1p-14);
  EXPECT_EQ(largest_finite(Type::kF16), 65504);
  EXPECT_EQ(smallest_normal(Type::kBF16), 0x1p-126);
  EXPECT_EQ(largest_finite(Type::kBF16), 0x1.fep127);
}

TEST(Types, RowsSayWhichIntegersTheyHold) {
  const auto range = [](Type type) {
    return std::pair(integer_range(type).lo, integer_range(type).hi);
  };
  const auto of = [](int64_t lo, int64_t hi) { return std::pair(lo, hi); };
  EXPECT_EQ(range(Type::kI64), of(INT64_MIN, INT64_MAX));
  EXPECT_EQ(range(Type::kI32), of(INT32_MIN, INT32_MAX));
  EXPECT_EQ(range(Type::kI16), of(-32768, 32767));
  EXPECT_EQ(range(Type::kI8), of(-128, 127));
  EXPECT_EQ(range(Type::kU8), of(0, 255));
  EXPECT_EQ(range(Type::kBool), of(0, 1));
}

TEST(Types, IntegersWrapToTheirBits) {
  const int64_t value = 0x1234567889abcd80;
  EXPECT_EQ(wrap(Type::kI64, value), value);
  EXPECT_EQ(wrap(Type::kI32, value), static_cast<int32_t>(0x89abcd80));
  EXPECT_EQ(wrap(Type::kI16, value), static_cast<int16_t>(0xcd80));
  EXPECT_EQ(wrap(Type::kI8, value), -128);
  EXPECT_EQ(wrap(Type::kU8, value), 128);
  EXPECT_EQ(wrap(Type::kBool, value), 1);
}

}  // namespace
}  // namespace lw
