// The bound of a program's time: its limits by given rates, beside figures worked out by hand, and
// the rates themselves.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "loopwright/type.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/measure/machine/instructions.h"
#include "src/measure/machine/limits.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/parsed_program.h"

namespace lw {
namespace {

std::vector<InstructionMix> mixes_of(const std::string& text) {
  return instruction_mixes(count_work(parsed(text)), *find_target("x86_avx512"));
}

constexpr char kNearest[] =
    "in X: f32[64, 30]\n in C: f32[20, 30]\n"
    "out Y[i: 64] = min[c: 20](sum[d: 30]((X[i, d] - C[c, d]) * (X[i, d] - C[c, d])))";

TEST(Instructions, SimpleOnesAreJudgedTogether) {
  const std::vector<InstructionMix> mixes = mixes_of(kNearest);
  ASSERT_EQ(mixes.size(), 1u);             // of the minima there are too few to say
  EXPECT_EQ(mixes[0].name, "multiply-add 1, add 1, f32");
  EXPECT_EQ(mixes[0].elements, 64 * 20 * 30);
  // Never more than required: of 3 : 1 and a few more, whole threes.
  const std::vector<InstructionMix> three =
      mixes_of("in A: f32[100]\n in B: f32[100]\n"
               "out Y[i: 100] = max(max(max(A[i], B[i]), 0.5 - A[i]), B[i] - 2)");
  ASSERT_EQ(three.size(), 1u);
  EXPECT_EQ(three[0].name, "max 3, add 2, f32");
  EXPECT_EQ(three[0].elements, 100);
}

TEST(Instructions, MultiplyAddsAloneAreThePeaks) {
  EXPECT_TRUE(mixes_of("in A: f32[8, 64]\n in B: f32[64, 9]\n"
                       "out C[i: 8, j: 9] = sum[k: 64](A[i, k] * B[k, j])").empty());
}

TEST(Instructions, ExpensiveOnesAreJudgedAlone) {
  const std::vector<InstructionMix> mixes =
      mixes_of("in A: f32[100]\n in D: f64[100]\n in I: i32[100]\n in T: f32[50]\n"
               "out Y[i: 100] = exp(A[i]) / (tanh(A[i]) + 3) + T[I[i]]\n"
               "out Z[i: 100] = log(D[i])\n out Q[i: 100] = I[i] / 7 / 8 + I[i] % 5");
  std::map<std::string, double> elements;
  for (const InstructionMix& mix : mixes) elements[mix.name] = mix.elements;
  EXPECT_EQ(elements["exp f32"], 100);
  EXPECT_EQ(elements["div f32"], 100);
  EXPECT_EQ(elements["tanh f32"], 100);
  EXPECT_EQ(elements["log f64"], 100);
  EXPECT_EQ(elements["gather"], 100);
  EXPECT_FALSE(elements.contains("div i32"));  // by constants: products
}

TEST(Instructions, NarrowOperandsFillTheirShareOfALane) {
  // Four products of bytes to a lane in one instruction: a quarter of a lane each.
  const std::vector<InstructionMix> mixes =
      mixes_of("in A: i8[100, 65]\n out Y[i: 100] = max[k: 65](A[i, k])");
  ASSERT_EQ(mixes.size(), 1u);
  EXPECT_EQ(mixes[0].elements, 1600);
}

Limits limits_for_test() {
  Limits limits;
  limits.peak_gflops = 200;
  limits.bandwidth_gbytes = 50;
  limits.instructions = {{"multiply-add 1, add 1, f32", 40}, {"exp f32", 2}};
  return limits;
}

Bound bound_of(const std::string& text) {
  return find_bound(count_work(parsed(text)), *find_target("x86_avx512"), limits_for_test());
}

TEST(Bound, IsTheLargestOfItsLimits) {
  const Bound nearest = bound_of(kNearest);
  EXPECT_EQ(nearest.set_by().name, "instructions");
  EXPECT_EQ(nearest.set_by().by, "multiply-add 1, add 1, f32");
  EXPECT_DOUBLE_EQ(nearest.bound_us, 64 * 20 * 30 / 40e3);
  ASSERT_EQ(nearest.limits.size(), 3u);
  EXPECT_EQ(nearest.limits[1].name, "compute");
  EXPECT_DOUBLE_EQ(nearest.limits[1].us, 2 * 64 * 20 * 30 / 200e3);
  EXPECT_EQ(nearest.limits[2].name, "memory");
  EXPECT_DOUBLE_EQ(nearest.limits[2].us, 4 * (64 * 30 + 20 * 30 + 64) / 50e3);

  const Bound product = bound_of("in A: f32[64, 64]\n in B: f32[64, 64]\n"
                                 "out C[i: 64, j: 64] = sum[k: 64](A[i, k] * B[k, j])");
  EXPECT_EQ(product.set_by().name, "compute");
  EXPECT_DOUBLE_EQ(product.bound_us, 2 * 64 * 64 * 64 / 200e3);
  const Bound copy = bound_of("in A: f32[64]\n out Y[i: 64] = A[i]");
  EXPECT_EQ(copy.set_by().name, "memory");
  EXPECT_EQ(copy.set_by().by, "50 GB/s");
  EXPECT_DOUBLE_EQ(copy.bound_us, 8 * 64 / 50e3);
  const Bound exp = bound_of("in A: f32[64]\n out Y[i: 64] = exp(A[i])");
  EXPECT_EQ(exp.set_by().by, "exp f32");
  EXPECT_DOUBLE_EQ(exp.bound_us, 64 / 2e3);
}

// F(2, 3) twice: 4 x 4 products for 2 x 2 results, of weights that were transformed before.
TEST(Bound, WinogradHasItsOwn) {
  const auto program = std::make_shared<const Program>(
      *load_workload({"conv2d", "H=8", "W=8", "CI=16", "CO=16"}));
  const auto target = std::make_shared<const Target>(*find_target("x86_avx512"));
  Nest start = make_nest(program, target, 1);
  start.winograd = true;
  const absl::StatusOr<Nest> nest =
      replay(start, *parse_trace("winograd(Y, y; 2)\nwinograd(Y.p, x; 2)\n"));
  ASSERT_TRUE(nest.ok()) << nest.status();
  const Work direct = count_work(*program), work = count_work(*nest->program);
  double products = 0, additions = 0;
  for (const OperationCount& o : work.operations) (o.adds ? products : additions) += o.count;
  EXPECT_EQ(products, 16 * 16 * 16 * 16);
  // 32 additions for a tile of data, 24 for one of results, at 16 channels each; some of the data's
  // fall on padding alone.
  EXPECT_LE(additions, 16 * 16 * (32 + 24));
  EXPECT_GE(additions, 0.7 * 16 * 16 * (32 + 24));
  EXPECT_EQ(work.bytes_read, 4 * (8 * 8 * 16 + 4 * 4 * 16 * 16));
  EXPECT_EQ(work.bytes_written, direct.bytes_written);
  const Limits limits = nominal_limits(*nest->program, work, *target, 1);
  EXPECT_LT(find_bound(work, *target, limits).limits.front().us,
            find_bound(direct, *target, nominal_limits(*program, direct, *target, 1)).bound_us);
}

TEST(Bound, FasterMachinesHaveLowerOnes) {
  for (const OpDefinition& op : builtin_ops()) {
    SCOPED_TRACE(op.name);
    const absl::StatusOr<Program> program = instantiate(op, {});
    ASSERT_TRUE(program.ok()) << program.status();
    const Work work = count_work(*program);
    const Target target = *find_target("aarch64_neon");
    const Limits limits = nominal_limits(*program, work, target, 1);
    const Bound bound = find_bound(work, target, limits);
    EXPECT_GT(bound.bound_us, 0);
    for (size_t i = 1; i < bound.limits.size(); ++i)
      EXPECT_LE(bound.limits[i].us, bound.limits[i - 1].us);
    for (const InstructionMix& mix : instruction_mixes(work, target)) {
      EXPECT_GT(mix.elements, 0) << mix.name;
      EXPECT_TRUE(limits.instructions.contains(mix.name)) << mix.name;
    }
    Limits faster = limits;
    faster.peak_gflops *= 2;
    faster.bandwidth_gbytes *= 2;
    for (auto& [name, rate] : faster.instructions) rate *= 2;
    EXPECT_DOUBLE_EQ(find_bound(work, target, faster).bound_us, bound.bound_us / 2);
    EXPECT_LE(find_bound(work, target, larger(limits, faster)).bound_us, bound.bound_us);
  }
}

// Behind units that share it there is one memory, however many they are.
TEST(Bound, AMemoryThatUnitsShareIsCountedOnce) {
  const Target target = *find_target("opencl_gpu");
  const Program program = parsed("in X: f32[4096, 4096]\n out Y[i: 4096, j: 4096] = X[i, j]");
  const Work work = count_work(program);
  const double rate = target.caches.back().read_bytes_per_cycle * target.ghz;
  ASSERT_EQ(target.caches.back().write_bytes_per_cycle * target.ghz, rate);
  for (const int units : {1, 8, 132}) {
    EXPECT_DOUBLE_EQ(nominal_limits(program, work, target, units).bandwidth_gbytes, rate);
  }
  const double peak = nominal_limits(program, work, target, 1).peak_gflops;
  EXPECT_DOUBLE_EQ(nominal_limits(program, work, target, 132).peak_gflops, 132 * peak);
}

// Each is at most what its parts allow.
TEST(Limits, RatesOfThisMachineAgreeWithEachOther) {
  const Target host = *find_target("host");
  const auto rate = [&](std::vector<InstructionMix::Part> parts, Type type = Type::kF32) {
    const absl::StatusOr<double> measured =
        measure_instruction_rate(host, {"", type, std::move(parts), 1}, 1, 0.05);
    EXPECT_TRUE(measured.ok()) << measured.status();
    return measured.ok() ? *measured : 1;
  };
  const double add = rate({{ExprOp::kAdd, false, 1}});
  const double two = rate({{ExprOp::kAdd, false, 1}, {ExprOp::kMax, false, 1}});
  EXPECT_LT(two, 3 * add);                 // each of two takes one that adds; noise aside
  EXPECT_GT(two, 0.1 * add);
  for (ExprOp op : {ExprOp::kDiv, ExprOp::kSqrt, ExprOp::kRsqrt, ExprOp::kExp, ExprOp::kLog,
                    ExprOp::kTanh, ExprOp::kErf, ExprOp::kSigmoid, ExprOp::kPow}) {
    const double alone = rate({{op, false, 1}});
    EXPECT_GT(alone, 0) << op_name(op);
    EXPECT_LT(alone, 2 * add) << op_name(op);
    EXPECT_LT(rate({{op, false, 1}}, Type::kF64), 2 * add) << op_name(op);
  }
  EXPECT_GT(rate({{ExprOp::kDiv, false, 1}}, Type::kI32), 0);
  EXPECT_GT(rate({{ExprOp::kMod, false, 1}}, Type::kI32), 0);
  EXPECT_GT(rate({}), 0);                  // gathers
}

// Programs whose bounds kernels used to beat: what is gathered, strided or padded away is not read,
// equal subexpressions and machines that add beside their multiply-adds.
TEST_F(CliTest, NoKernelBeatsItsBound) {
  write("p.te",
        "op gather() {\n  in A: f64[179, 29, 5]\n  in I: i32[3]\n"
        "  out Y[g: 3, b: 29, d: 5] = A[I[g], b, d]\n}\n"
        "op strided() {\n  in A: f32[46, 18, 183]\n"
        "  out Y[y: 23, x: 9, c: 183] = A[y * 2, x * 2, c]\n}\n"
        "op beside() {\n  in X: f32[4, 500]\n  in W: f32[3, 500]\n  out Y[y: 4] ="
        " sum[r: 3, c: 500](pad(X[y + r + 4, c], 0) * W[r, c])\n}\n"
        "op few() {\n  in A: f32[16]\n  out Y[i: 16] = A[i] + 1\n}\n"
        "op nearest() {\n  in X: f32[256, 64]\n  in M: f32[128, 64]\n"
        "  out Y[i: 256] = min[c: 128](sum[d: 64]((X[i, d] - M[c, d]) * (X[i, d] - M[c, d])))\n}\n"
        "op radial() {\n  in X: f32[128, 16]\n  in M: f32[256, 16]\n"
        "  out Y[i: 128, c: 256] ="
        " exp(-sum[d: 16]((X[i, d] - M[c, d]) * (X[i, d] - M[c, d])))\n}\n");
  for (const char* op : {"gather", "strided", "beside", "few", "nearest", "radial"}) {
    const CliRun run =
        cli(concat("tune -q --json --trials 8 --seconds 20 --threads 1 p.te:", op));
    ASSERT_EQ(run.code, 0) << op << run.err;
    const auto best = run.json()["best"];
    EXPECT_LE(best["bound_fraction"].get<double>(), 1.05) << op << best;
    EXPECT_GT(best["bound_fraction"].get<double>(), 0) << op;
    EXPECT_EQ(best["bound_limits"][0]["name"], best["bound_by"]) << op;
    EXPECT_EQ(best["bound_limits"][0]["us"], best["bound_us"]) << op;
  }
}

}  // namespace
}  // namespace lw
