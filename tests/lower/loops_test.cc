// What is taken out of loops, and what stays.
#include "src/lower/hoist.h"

#include <algorithm>

#include "loopwright/type.h"
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

}  // namespace
}  // namespace lw
