// Products on NPUs, from a draw of the space to what the simulated machine computes: every schedule
// that the space holds is right, without races, on every configuration, whatever the extents.
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "loopwright/program.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/build/build.h"
#include "src/build/npu/encode.h"
#include "src/lower/lower.h"
#include "src/npu/function/function.h"
#include "src/npu/module.h"
#include "tests/support/parsed_program.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using Bytes = std::vector<uint8_t>;

Nest start_nest(const std::string& target, const std::string& lines) {
  return make_nest(std::make_shared<const Program>(parsed(lines)),
                   std::make_shared<const Target>(*find_target(target)), 1);
}

std::string product_text(int64_t m, int64_t n, int64_t k, bool across) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  return "  in A: i8[" + text(m) + ", " + text(k) + "]\n  in B: i8[" +
         (across ? text(n) + ", " + text(k) : text(k) + ", " + text(n)) + "] const\n  out C[i: " +
         text(m) + ", j: " + text(n) + "] = sum[k: " + text(k) + "](A[i, k] * " +
         (across ? "B[j, k]" : "B[k, j]") + ")\n";
}

// Runs the artifact on the simulated machine, its arguments in `data`.
npu::FunctionReport run(const Artifact& artifact, std::vector<Bytes>& data) {
  const absl::StatusOr<npu::Module> module = npu::read_module(artifact.bytes);
  EXPECT_TRUE(module.ok()) << module.status();
  std::vector<npu::Buffer> dram;
  for (size_t a = 0; a < data.size(); ++a) {
    EXPECT_EQ(module->arguments[a].range.bytes, data[a].size());
    dram.push_back({module->arguments[a].range.address, data[a], module->arguments[a].written});
  }
  absl::StatusOr<npu::Memory> memory = npu::make_memory(module->config, dram);
  EXPECT_TRUE(memory.ok()) << memory.status();
  const absl::StatusOr<npu::FunctionReport> report =
      npu::execute(module->config, module->program, &*memory);
  EXPECT_TRUE(report.ok()) << report.status();
  return *report;
}

Bytes random_bytes(int64_t count, Rng& rng) {
  Bytes bytes(static_cast<size_t>(count));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.next());
  return bytes;
}

std::vector<int32_t> expected(const Bytes& a, const Bytes& b, int64_t m, int64_t n, int64_t k,
                              bool across) {
  std::vector<int32_t> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      int32_t sum = 0;
      for (int64_t x = 0; x < k; ++x) {
        sum += static_cast<int8_t>(a[static_cast<size_t>(i * k + x)]) *
               static_cast<int8_t>(b[static_cast<size_t>(across ? j * k + x : x * n + j)]);
      }
      c[static_cast<size_t>(i * n + j)] = sum;
    }
  }
  return c;
}

const char* const kTargets[] = {"npu_edge16", "npu_mid32", "npu_big128"};

TEST(NpuProducts, EveryDrawComputesTheProduct) {
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 1)));
  const int64_t draws = setting("LW_PAIRS", 300);
  int64_t feasible = 0, drawn = 0;
  for (int64_t d = 0; d < draws; ++d) {
    const std::string target = kTargets[rng.below(3)];
    const auto extent = [&] { return 1 + static_cast<int64_t>(rng.below(rng.below(4) ? 70 : 300)); };
    const int64_t m = extent(), n = 1 + extent(), k = extent();
    const bool across = rng.below(2) == 1;
    const Nest start = start_nest(target, product_text(m, n, k, across));
    const std::vector<Sketch> space = make_space(start);
    ASSERT_FALSE(space[0].last_resort) << target << " " << m << " " << n << " " << k;
    ++drawn;
    const absl::StatusOr<Sample> sample = lw::sample(start, space[rng.below(space.size())], rng);
    if (!sample.ok()) { std::cerr << sample.status().message() << "\n"; continue; }
    SCOPED_TRACE(target + " " + std::to_string(m) + " x " + std::to_string(n) + " x " +
                 std::to_string(k) + (across ? " across\n" : "\n") + to_text(sample->trace));
    ASSERT_TRUE(verify(sample->nest).ok()) << verify(sample->nest);
    const absl::StatusOr<Kernel> kernel = lower(sample->nest);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    ASSERT_TRUE(verify(*kernel).ok()) << verify(*kernel) << print(*kernel);
    ++feasible;
    const absl::StatusOr<const Backend*> backend = find_backend("npu");
    ASSERT_TRUE(backend.ok());
    const absl::StatusOr<Artifact> artifact = (*backend)->build(*kernel, *start.target);
    ASSERT_TRUE(artifact.ok()) << artifact.status() << "\n" << print(*kernel);
    std::vector<Bytes> data = {random_bytes(m * k, rng), random_bytes(k * n, rng),
                               random_bytes(4 * m * n, rng)};
    const npu::FunctionReport report = run(*artifact, data);
    ASSERT_EQ(report.status, npu::FunctionStatus::kOk)
        << (report.errors.empty() ? "" : report.errors[0]) << "\n" << print(*kernel);
    const std::vector<int32_t> right = expected(data[0], data[1], m, n, k, across);
    ASSERT_EQ(std::memcmp(data[2].data(), right.data(), data[2].size()), 0) << print(*kernel);
  }
  EXPECT_GE(feasible * 100, drawn * 95);
}

}  // namespace
}  // namespace lw
