// What the vector engine of an NPU computes, from a draw of the space to what the simulated machine
// makes of it: maps, reductions, requantisation, several stages, whatever the extents, against the
// reference, without races.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "loopwright/program.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/build/build.h"
#include "src/expr/element.h"
#include "src/expr/reference/interpret.h"
#include "src/lower/lower.h"
#include "src/npu/function/function.h"
#include "src/npu/module.h"
#include "tests/support/parsed_program.h"
#include "tests/support/program.h"

namespace lw {
namespace {

const char* const kTargets[] = {"npu_edge16", "npu_mid32", "npu_big128"};

// Programs of extents M, N, K (odd or even, small or not) and C, a few channels or many.
const char* const kMaps[] = {
    "in A: f32[M, N]\n in B: f32[M, N]\n out Y[i: M, j: N] = A[i, j] + B[i, j]",
    "in A: f32[M, N]\n in b: f32[N]\n out Y[i: M, j: N] = max(A[i, j] - b[j], 0) * 0.5",
    "in A: f32[M, N]\n in b: f32[M]\n out Y[i: M, j: N] = b[i] - A[i, j] * b[i]",
    "in A: f32[M, N]\n in b: f32[M]\n out Y[i: M, j: N] = A[i, j] / (2 + abs(b[i]))",
    "in A: f32[K, M, N]\n in b: f32[K, N]\n out Y[k: K, i: M, j: N] = A[k, i, j] * b[k, j] + 1.5",
    "in A: f32[M]\n out Y[i: M] = exp(A[i]) * sigmoid(A[i])",
    "in A: f32[M, N]\n out Y[i: M, j: N] = sqrt(abs(A[i, j])) + rsqrt(1 + A[i, j] * A[i, j])",
    "in A: f32[M]\n out Y[i: M, j: N] = 2 - A[i]",
    "in A: f32[M, N]\n out Y[i: M, j: N] = 3 / (1.5 + abs(A[i, j])) - -A[i, j]",
    "out Y[i: M, j: N] = cast(f32, 2.5)",
    "in A: f32[M, N]\n out Y[i: M] = A[i, 0] + A[i, 1]",
    // Of 16-bit floats.
    "in A: bf16[M, N]\n in B: bf16[M, N]\n out Y[i: M, j: N] = cast(bf16, A[i, j] * B[i, j] + 1)",
    "in A: bf16[M, N]\n out Y[i: M, j: N] = cast(f32, A[i, j])",
    "in A: f32[M]\n out Y[i: M] = cast(bf16, A[i])",
    // Of integers.
    "in A: i32[M, N]\n in B: i32[N]\n out Y[i: M, j: N] = max(A[i, j] + B[j] * 3, -7)",
    "in A: i8[M, N]\n in B: i8[M, N]\n out Y[i: M, j: N] = cast(i32, A[i, j]) - cast(i32, B[i, j])",
    "in A: i8[M, N]\n in B: i8[N]\n out Y[i: M, j: N] = max(min(A[i, j], B[j]), 0)",
    // Copies.
    "in A: f32[M, N]\n out Y[j: N, i: M] = A[i, j]",
    "in A: i8[K, M, N]\n out Y[i: M, k: K, j: N] = A[k, i, j]",
    "in A: bf16[M, N]\n out Y[j: N, i: M] = A[i, j]",
    "in A: i8[N]\n out Y[i: M, j: N] = A[j]",
};
const char* const kReductions[] = {
    "in A: f32[M, N]\n out Y[i: M] = sum[j: N](A[i, j])",
    "in A: f32[M, N]\n out Y[i: M] = max[j: N](A[i, j])",
    "in A: f32[M, N]\n out Y[j: N] = sum[i: M](A[i, j])",
    "in A: f32[M, N]\n out Y[j: N] = min[i: M](A[i, j])",
    "in A: f32[M, N]\n in b: f32[M]\n"
    " out Y[i: M] = sum[j: N]((A[i, j] - b[i]) * (A[i, j] - b[i]))",
    "in A: f32[M, N]\n in b: f32[M]\n out Y[i: M] = max[j: N](abs(A[i, j] - b[i]))",
    "in A: f32[K, M, N]\n out Y[k: K] = sum[i: M, j: N](A[k, i, j] * A[k, i, j])",
    "in A: f32[M, N]\n out Y[u: 1] = sum[i: M, j: N](A[i, j])",
    "in A: i8[M, N]\n out Y[i: M] = sum[j: N](A[i, j])",
    "in A: i8[M, N]\n out Y[i: M] = max[j: N](A[i, j])",
    "in A: i32[M, N]\n out Y[i: M] = max[j: N](A[i, j])",
    "in A: bf16[M, N]\n out Y[j: N] = max[i: M](A[i, j])",
    "in A: bf16[M, N]\n out Y[i: M] = sum[j: N](A[i, j])",
    // Pooling and channels.
    "in X: f32[2, 9, 11, C]\n"
    " out Y[n: 2, y: 4, x: 5, c: C] = max[r: 3, s: 3](X[n, 2 * y + r, 2 * x + s, c])",
    "in X: i8[2, 9, 11, C]\n"
    " out Y[n: 2, y: 7, x: 9, c: C] = max[r: 3, s: 3](X[n, y + r, x + s, c])",
    "in X: f32[2, 9, 11, C]\n out Y[n: 2, c: C] = sum[y: 9, x: 11](X[n, y, x, c])",
    "in X: i8[9, 11, C]\n in W: i8[3, 3, C]\n"
    " out Y[y: 7, x: 9, c: C] = sum[r: 3, s: 3](X[y + r, x + s, c] * W[r, s, c])",
};
const char* const kRequantised[] = {
    "in S: i32[M, N]\n in b: i32[N]\n in s: f32[N]\n out Y[i: M, j: N] ="
    " cast(i8, clamp(round(cast(f32, S[i, j] + b[j]) * s[j]) + 3, -100, 90))",
    "in S: i32[M, N]\n in s: f32[N]\n"
    " out Y[i: M, j: N] = cast(i8, round(cast(f32, S[i, j]) * s[j]))",
    "in S: i32[M, N]\n in b: i32[N]\n out Y[i: M, j: N] ="
    " cast(i8, max(round(0.0123 * cast(f32, b[j] + S[i, j])) - 5, -5))",
    "in S: i32[M]\n in s: f32[1]\n out Y[i: M] = cast(i8, round(cast(f32, S[i]) * s[0]) + 1)",
    "in S: i32[K, M, N]\n in R: i8[K, M, N]\n in b: i32[N]\n out Y[k: K, i: M, j: N] ="
    " cast(i8, clamp(S[k, i, j] + cast(i32, R[k, i, j]) + b[j], -128, 127))",
};
const char* const kStages[] = {
    "in X: f32[M, N]\n top[i: M] = max[j: N](X[i, j])\n E[i: M, j: N] = exp(X[i, j] - top[i])\n"
    " total[i: M] = sum[j: N](E[i, j])\n out Y[i: M, j: N] = E[i, j] / total[i]",
    "in X: f32[M, N]\n in g: f32[N]\n mean[i: M] = sum[j: N](X[i, j]) / N\n"
    " var[i: M] = sum[j: N]((X[i, j] - mean[i]) * (X[i, j] - mean[i])) / N\n"
    " out Y[i: M, j: N] = (X[i, j] - mean[i]) * rsqrt(var[i] + 1e-5) * g[j]",
    "in A: i8[M, K]\n in B: i8[K, N]\n in b: i32[N]\n in s: f32[N]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " out Y[i: M, j: N] = cast(i8, clamp(round(cast(f32, S[i, j] + b[j]) * s[j]), 0, 127))",
};

// A product whose results are finished where they are held.
const char* const kFinished[] = {
    "in A: i8[M, K]\n in B: i8[K, N]\n in b: i32[N]\n in s: f32[N]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " out Y[i: M, j: N] = cast(i8, clamp(round(cast(f32, S[i, j] + b[j]) * s[j]) - 9, -9, 127))",
    "in A: i8[M, K]\n in B: i8[K, N]\n in R: i8[M, N]\n in b: i32[N]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n out Y[i: M, j: N] ="
    " cast(i8, round(cast(f32, S[i, j] + cast(i32, R[i, j]) * 20 + b[j]) * 0.01))",
    "in A: bf16[M, K]\n in B: bf16[K, N]\n in b: f32[N]\n in c: f32[M]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " out Y[i: M, j: N] = cast(bf16, max(S[i, j] * c[i] + b[j], 0))",
    "in A: i8[M, K]\n in B: i8[K, N]\n S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n"
    " out Y[i: M, j: N] = S[i, j] * 3 - 1",
    "in A: i8[M, K]\n in B: i8[K, N]\n in b: i32[N]\n in s: f32[N]\n"
    " S[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n T[i: M, j: N] = S[i, j] + b[j]\n"
    " U[i: M, j: N] = max(T[i, j], 0)\n"
    " out Y[i: M, j: N] = cast(i8, round(cast(f32, U[i, j]) * s[j]))",
};

std::string replaced(std::string text, const std::string& from, int64_t to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos;) {
    const bool word = at + 1 < text.size() && (std::isalnum(text[at + 1]) || text[at + 1] == '_');
    const bool tail = at > 0 && std::isalnum(text[at - 1]);
    if (word || tail) ++at;
    else text.replace(at, from.size(), std::to_string(to));
  }
  return text;
}

class NpuVector : public testing::Test {
 protected:
  Rng rng_{static_cast<uint64_t>(setting("LW_SEED", 1))};
  int64_t drawn_ = 0, feasible_ = 0;

  int64_t extent() { return 2 + static_cast<int64_t>(rng_.below(rng_.below(4) ? 70 : 400)); }

  // Sums of all sizes, so that some saturate, some do not; the rest natural numbers.
  Data input(const Program& program, int tensor, uint64_t seed) {
    Data data = random_input(program, tensor, seed, false);
    if (program.tensors[static_cast<size_t>(tensor)].type != Type::kI32) return data;
    for (size_t i = 0; i + 4 <= data.bytes.size(); i += 4) {
      const int32_t value = static_cast<int32_t>(static_cast<uint32_t>(rng_.next())) >>
                            (8 + rng_.below(20));
      std::memcpy(&data.bytes[i], &value, 4);
    }
    return data;
  }

  void expect_reference(const Program& program, const std::vector<Data>& in,
                        const std::vector<uint8_t>& got) {
    std::vector<const std::byte*> bytes;
    for (const Data& data : in) bytes.push_back(data.bytes.data());
    PointOracle oracle(program, bytes);
    const int out = outputs(program)[0];
    const Tensor& tensor = program.tensors[static_cast<size_t>(out)];
    std::vector<int64_t> all(static_cast<size_t>(elements(tensor)));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    const std::vector<PointOracle::Value> values = oracle.values(out, all);
    for (size_t i = 0; i < all.size(); ++i) {
      const double value = load_element(
          tensor.type, reinterpret_cast<const std::byte*>(got.data()), static_cast<int64_t>(i));
      if (value == values[i].value || std::isinf(values[i].error)) continue;
      ASSERT_LE(std::fabs(value - values[i].value), values[i].error)
          << tensor.name << "[" << i << "] is " << value << ", should be " << values[i].value;
    }
  }

  void check(const std::string& target, const std::string& text) {
    const Program program = parsed(text);
    const Nest start = make_nest(std::make_shared<const Program>(program),
                                 std::make_shared<const Target>(*find_target(target)), 1);
    std::vector<Refusal> refusals;
    const std::vector<Sketch> space = make_space(start, &refusals);
    SCOPED_TRACE(target + "\n" + text);
    if (space[0].last_resort) {
      FAIL() << (refusals.empty() ? "" : refusals[0].why) << " " << lower(start).status();
    }
    ++drawn_;
    const absl::StatusOr<Sample> sample =
        lw::sample(start, space[rng_.below(space.size())], rng_);
    if (!sample.ok()) return;
    ++feasible_;
    SCOPED_TRACE(to_text(sample->trace));
    ASSERT_TRUE(verify(sample->nest).ok()) << verify(sample->nest);
    const absl::StatusOr<Kernel> kernel = lower(sample->nest);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    ASSERT_TRUE(verify(*kernel).ok()) << verify(*kernel) << print(*kernel);
    const absl::StatusOr<Artifact> artifact =
        (*find_backend("npu"))->build(*kernel, *start.target);
    ASSERT_TRUE(artifact.ok()) << artifact.status() << "\n" << print(*kernel);
    run(program, *kernel, *artifact);
  }

  void run(const Program& program, const Kernel& kernel, const Artifact& artifact) {
    const absl::StatusOr<npu::Module> module = npu::read_module(artifact.bytes);
    ASSERT_TRUE(module.ok()) << module.status();
    std::vector<Data> in;
    std::vector<std::vector<uint8_t>> memory;
    for (const int t : inputs(program)) {
      in.push_back(input(program, t, rng_.next()));
      const uint8_t* const begin = reinterpret_cast<const uint8_t*>(in.back().bytes.data());
      memory.emplace_back(begin, begin + in.back().bytes.size());
    }
    memory.emplace_back(static_cast<size_t>(bytes(program.tensors[outputs(program)[0]])), 0x5a);
    std::vector<uint8_t> workspace(module->workspace.bytes, 0x5a);
    std::vector<npu::Buffer> dram;
    for (size_t a = 0; a < memory.size(); ++a) {
      dram.push_back(
          {module->arguments[a].range.address, memory[a], module->arguments[a].written});
    }
    if (!workspace.empty()) dram.push_back({module->workspace.address, workspace, true});
    absl::StatusOr<npu::Memory> machine = npu::make_memory(module->config, dram);
    ASSERT_TRUE(machine.ok()) << machine.status();
    const absl::StatusOr<npu::FunctionReport> report =
        npu::execute(module->config, module->program, &*machine);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->status, npu::FunctionStatus::kOk)
        << (report->errors.empty() ? "" : report->errors[0]) << "\n" << print(kernel);
    expect_reference(program, in, memory.back());
  }

  // `draws` of random targets and extents, the programs in turn.
  template <size_t count>
  void check_all(const char* const (&programs)[count], int64_t draws) {
    for (int64_t d = 0; d < draws * static_cast<int64_t>(count); ++d) {
      std::string text = programs[static_cast<size_t>(d) % count];
      text = replaced(text, "K", 1 + static_cast<int64_t>(rng_.below(40)));
      for (const char* const name : {"M", "N"}) text = replaced(text, name, extent());
      text = replaced(text, "C", 2 + static_cast<int64_t>(rng_.below(rng_.below(2) ? 20 : 200)));
      check(kTargets[rng_.below(3)], text);
    }
    EXPECT_GE(feasible_ * 100, drawn_ * 95);
  }
};

TEST_F(NpuVector, Maps) { check_all(kMaps, setting("LW_DRAWS", 8)); }
TEST_F(NpuVector, Reductions) { check_all(kReductions, setting("LW_DRAWS", 8)); }
TEST_F(NpuVector, RequantisesBitForBit) { check_all(kRequantised, setting("LW_DRAWS", 12)); }
TEST_F(NpuVector, FinishesProducts) { check_all(kFinished, setting("LW_DRAWS", 16)); }
TEST_F(NpuVector, Stages) { check_all(kStages, setting("LW_DRAWS", 8)); }

}  // namespace
}  // namespace lw
