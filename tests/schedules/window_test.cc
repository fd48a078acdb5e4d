// Windows that slide over a register tile's rows: which tiles have them, and what they load.
#include "schedules/window.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

Nest nest_on(const std::vector<std::string>& words, const char* target = "x86_avx512") {
  absl::StatusOr<Program> program = load_workload(words);
  EXPECT_TRUE(program.ok()) << program.status();
  return make_nest(std::make_shared<const Program>(*std::move(program)),
                   std::make_shared<const Target>(*find_target(target)), 1);
}

// Of the program's only stage, whose axes are in the order of the points.
std::optional<Window> window(const Nest& nest, const std::vector<int64_t>& points, int lanes) {
  return window_of(nest, 0, read_steps(nest, 0), points, lanes);
}

TEST(Window, OfDepthwiseConvolutionsAreLoadedOnce) {
  const Nest nest = nest_on({"conv2d_depthwise"});  // n, y, x, c, r, s
  EXPECT_FALSE(window(nest, {1, 1, 7, 1, 1, 1}, 3));
  EXPECT_FALSE(window(nest, {1, 7, 1, 1, 1, 3}, 3));  // the other axis'
  const std::optional<Window> row = window(nest, {1, 1, 7, 2, 1, 3}, 3);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->loads, 2 * (7 + 2) + 2 * 3);
  EXPECT_EQ(row->registers, 2 * 7 + 2 * 3 + 1);
  const std::optional<Window> square = window(nest, {1, 2, 7, 1, 3, 3}, 3);
  ASSERT_TRUE(square);
  EXPECT_EQ(square->loads, (2 + 2) * (7 + 2) + 9);
  EXPECT_FALSE(window(nest, {1, 2, 7, 2, 3, 3}, 3));  // 18 weights and 28 sums
}

TEST(Window, StridesLeaveFewerInCommon) {
  const Nest nest = nest_on({"conv2d_depthwise", "stride=2"});
  const std::optional<Window> row = window(nest, {1, 1, 4, 1, 1, 3}, 3);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->loads, 9 + 3);
  const Nest far = nest_on({"conv2d_depthwise", "stride=4"});
  EXPECT_EQ(window(far, {1, 1, 4, 1, 1, 3}, 3)->loads, 12 + 3);  // nothing is
}

TEST(Window, ProductsHaveNone) {
  EXPECT_FALSE(window(nest_on({"matmul"}), {6, 2, 4}, 1));
  const Nest nest = nest_on({"conv2d"});   // n, y, x, co, r, s, ci
  EXPECT_FALSE(window(nest, {1, 1, 6, 4, 1, 1, 4}, 3));
}

}  // namespace
}  // namespace lw
