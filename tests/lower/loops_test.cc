// What is taken out of loops and what stays; which of their iterations check what.
#include "src/lower/hoist.h"

#include <algorithm>

#include "loopwright/type.h"
#include "src/lower/interiors.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

// The root of a norm is taken once for all its rows.
TEST(HoistTest, WhatIsDearAndTheSameIsTakenOutOfLoops) {
  auto program = std::make_shared<const Program>(
      *load_workload({"rms_norm_2d", "B=4", "M=8", "N=64"}));
  auto target = std::make_shared<const Target>(*find_target("x86_avx512"));
  const absl::StatusOr<Trace> trace = parse_trace(
      "compute_at(S, Y; 1)\nfuse(S, i, j)\nregister_tile(S, i*j; 128, 0)\nregister_tile(Y, j; 64, 0)\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const absl::StatusOr<Nest> nest = replay(make_nest(program, target, 1), *trace);
  ASSERT_TRUE(nest.ok()) << nest.status();
  const std::optional<Scheduled> scheduled = schedule_kernel(*nest, *trace);
  ASSERT_TRUE(scheduled.has_value());
  // In the loop over the batch, beside the loop over the rows.
  ASSERT_EQ(scheduled->kernel.body.size(), 1u);
  const std::vector<Stmt>& batch = scheduled->kernel.body[0].body;
  EXPECT_EQ(std::count_if(batch.begin(), batch.end(), [](const Stmt& s) {
    return s.kind == Stmt::Kind::kOp && s.op == Op::kUnary && s.expr_op == ExprOp::kRsqrt;
  }), 1);
}

// What an iteration changes stays: a register or a buffer that it sets, its own variable. So does
// what is cheap.
TEST(HoistTest, WhatAnIterationChangesStaysInItsLoop) {
  const char* const head =
      "kernel p arguments=3 variables=2 workspace=0 private=0 packed=0\n"
      "buffer X f32 64 argument 0\nbuffer Y f32 64 argument 1 written\n"
      "buffer Z f32 64 argument 2 written\nregisters f32x1 4\nregisters f32x16 3\nbody {\n";
  const auto hoisted = [&](const std::string& body) {
    absl::StatusOr<Kernel> kernel = parse_kernel(head + body + "}\n");
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    if (!kernel.ok()) return std::string();
    lowering::hoist(*kernel);
    EXPECT_TRUE(verify(*kernel).ok()) << verify(*kernel);
    const std::string text = print(*kernel);
    return text.substr(text.find("body {\n") + 7);
  };
  EXPECT_EQ(hoisted("for v0 < 4 {\nr0 = load X[0] stride 0\nr1 = sqrt r0\nr4 = broadcast r1\n"
                    "store Y[16*v0] = r4 stride 1\n}\n"),
            "  r0 = load X[0] stride 0\n  r1 = sqrt r0\n  r4 = broadcast r1\n  for v0 < 4 {\n"
            "    store Y[16*v0] = r4 stride 1\n  }\n}\n");
  const std::string stay[] = {
      // the variable; the buffer; the register; cheap; the boundary of a parallel loop
      "  for v0 < 4 {\n    r0 = load X[v0] stride 0\n    r1 = sqrt r0\n"
      "    store Y[v0] = r1 stride 0\n  }\n}\n",
      "  for v0 < 4 {\n    r0 = load Y[0] stride 0\n    r1 = sqrt r0\n"
      "    store Y[v0] = r1 stride 0\n  }\n}\n",
      "  r0 = const 1\n  for v0 < 4 {\n    r1 = sqrt r0\n    r0 = add r0, r1\n"
      "    store Y[v0] = r1 stride 0\n  }\n}\n",
      "  for v0 < 4 {\n    r0 = load X[0] stride 0\n    r4 = broadcast r0\n"
      "    store Y[16*v0] = r4 stride 1\n  }\n}\n",
      "  for v0 < 4 parallel {\n    r0 = load X[0] stride 0\n    r1 = sqrt r0\n"
      "    store Y[v0] = r1 stride 0\n  }\n}\n"};
  for (const std::string& body : stay)
    EXPECT_EQ(hoisted(body.substr(0, body.size() - 2)), body);
}


// ---- interiors

std::string with_interiors(const std::string& body) {
  const std::string head =
      "kernel p arguments=2 variables=6 workspace=0 private=0 packed=0\n"
      "buffer X f32 4096 argument 0\nbuffer Y f32 4096 argument 1 written\n"
      "registers boolx16 1\nregisters f32x16 2\nbody {\n";
  absl::StatusOr<Kernel> kernel = parse_kernel(head + body + "}\n");
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  if (!kernel.ok()) return "";
  EXPECT_TRUE(verify(*kernel).ok()) << verify(*kernel);
  lowering::version_interiors(*kernel);
  EXPECT_TRUE(verify(*kernel).ok()) << verify(*kernel) << print(*kernel);
  const std::string text = print(*kernel);
  return text.substr(text.find("body {\n") + 7);
}

int occurrences(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

const char* const kMasked =
    "r0 = lanemask 16*v0 - 2 stride 1\nr1 = load X[16*v0 - 2] stride 1 mask r0\n"
    "store Y[16*v0] = r1 stride 1\n";

TEST(InteriorsTest, WhatHoldsInMostIterationsIsAskedOnce) {
  const std::string text = with_interiors(std::string("for v0 < 64 {\n") + kMasked + "}\n");
  EXPECT_EQ(occurrences(text, "if 16*v0 - 2 >= 0 {"), 1) << text;
  EXPECT_EQ(occurrences(text, "lanemask"), 1) << text;
  EXPECT_LT(text.find("const 1"), text.find("else")) << text;
  EXPECT_GT(text.find("lanemask"), text.find("else")) << text;
}

TEST(InteriorsTest, ClampedIndicesAreOnesWithoutTheClamp) {
  const std::string text = with_interiors(
      "for v0 < 64 {\nint v1 = max v0 - 1, 0\nint v2 = min v1, 60\n"
      "r1 = load X[16*v2] stride 1\nstore Y[16*v0] = r1 stride 1\n}\n");
  EXPECT_EQ(occurrences(text, "if v0 - 1 >= 0, -v0 + 61 >= 0 {"), 1) << text;
  EXPECT_EQ(occurrences(text, "max"), 1) << text;
  EXPECT_EQ(occurrences(text, "min"), 1) << text;
}

// Before inner loops, where it mostly holds for all that they do; else inside.
TEST(InteriorsTest, AConditionStandsOutsideOfTheLoopsThatItDoesNotNeed) {
  const auto nested = [](const std::string& outer, const std::string& index) {
    return with_interiors("for v0 < " + outer + " {\nfor v1 < 8 {\nr0 = lanemask " + index +
                          " stride 1\nr1 = load X[0] stride 1 mask r0\n"
                          "store Y[16*v1] = r1 stride 1\n}\n}\n");
  };
  const std::string rows = nested("32", "v0 - 1");
  EXPECT_LT(rows.find("if v0 - 1 >= 0"), rows.find("for v1")) << rows;
  const std::string tiles = nested("32", "8*v0 + v1 - 1");
  EXPECT_LT(tiles.find("if 8*v0 - 1 >= 0"), tiles.find("for v1")) << tiles;
  const std::string few = nested("6", "8*v0 + 16*v1 - 60");
  EXPECT_GT(few.find("if 8*v0 + 16*v1 - 60 >= 0"), few.find("for v1")) << few;
}

// One that always holds is dropped, one that hardly ever does or that differs by lanes stays.
TEST(InteriorsTest, OthersAreLeftAlone) {
  const std::string always = with_interiors(
      "for v0 < 64 {\nr0 = lanemask v0 stride 1\nr1 = load X[16*v0] stride 1 mask r0\n"
      "store Y[16*v0] = r1 stride 1\n}\n");
  EXPECT_EQ(occurrences(always, "lanemask") + occurrences(always, "if "), 0) << always;
  for (const char* index : {"v0 - 60", "-16*v0 + 8"}) {
    const std::string seldom = with_interiors(
        std::string("for v0 < 64 {\nr0 = lanemask ") + index +
        " stride 1\nr1 = load X[16*v0] stride 1 mask r0\nstore Y[16*v0] = r1 stride 1\n}\n");
    EXPECT_EQ(occurrences(seldom, "lanemask"), 1) << seldom;
    EXPECT_EQ(occurrences(seldom, "if "), 0) << seldom;
  }
}

// Of two iterations each has its own border.
TEST(InteriorsTest, FewIterationsAreUnrolled) {
  const std::string text = with_interiors(
      "for v0 < 2 {\nr0 = lanemask 16*v0 - 2 stride 1\nr1 = load X[16*v0] stride 1 mask r0\n"
      "store Y[16*v0] = r1 stride 1\nr0 = lanemask -16*v0 + 14 stride -1\n"
      "r2 = load X[16*v0 + 1] stride 1 mask r0\nstore Y[16*v0 + 64] = r2 stride 1\n}\n");
  EXPECT_EQ(occurrences(text, "for "), 0) << text;
  EXPECT_EQ(occurrences(text, "lanemask"), 3) << text;  // all off in the second
  EXPECT_EQ(occurrences(text, "store"), 4) << text;
}

}  // namespace
}  // namespace lw
