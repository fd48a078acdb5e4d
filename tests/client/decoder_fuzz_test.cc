// The fuzz targets of the readers of traces, kernels, NumPy files, lock files and runners' frames on some
// thousand mutations of real ones: what every build can check without a fuzzer. (The parser's:
// expr_fuzz_test.cc.)
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "loopwright/task.h"
#include "nlohmann/json.hpp"
#include "src/api/dispatch.h"
#include "src/api/kernel_facts.h"
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/base/rng.h"
#include "src/client/lock.h"
#include "src/lower/lower.h"

#define LLVMFuzzerTestOneInput feed_trace
#include "fuzz/trace_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput feed_kernel
#include "fuzz/kernel_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput feed_npy
#include "fuzz/npy_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput feed_lock
#include "fuzz/lock_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput feed_runner
#include "fuzz/runner_fuzz.cc"
#undef LLVMFuzzerTestOneInput

namespace lw {
namespace {

constexpr int kMutations = 4000;

using Feed = int (*)(const uint8_t*, size_t);

// Bytes flipped, cut out, doubled, or replaced by what readers stumble over.
std::string mutate(std::string text, Rng& rng) {
  static const std::vector<std::string> pieces = {
      "-1", "0", "9223372036854775807", "99999999999999999999", "(", ")", ";", ",", "\n", "[", "{",
      "}", "r0", "v0", "stride", "for", "if", std::string(1, '\0'), "\xff", "1e308", "nan"};
  for (int64_t n = 1 + rng.below(4); n > 0 && !text.empty(); --n) {
    const size_t at = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())));
    const size_t length = 1 + static_cast<size_t>(rng.below(8));
    switch (rng.below(4)) {
      case 0: text[at] = static_cast<char>(rng.below(256)); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      default: text.replace(at, length, pieces[rng.below(static_cast<int64_t>(pieces.size()))]);
    }
  }
  return text;
}

void expect_no_harm(Feed feed, const std::vector<std::string>& seeds) {
  Rng rng(1);
  for (const std::string& seed : seeds)
    feed(reinterpret_cast<const uint8_t*>(seed.data()), seed.size());
  for (int i = 0; i < kMutations; ++i) {
    const std::string text =
        mutate(seeds[static_cast<size_t>(rng.below(static_cast<int64_t>(seeds.size())))], rng);
    feed(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }
}

Nest drawn(uint64_t seed, std::string* trace) {
  const Nest start = start_nest();
  const std::vector<Sketch> space = make_space(start);
  Rng rng(seed);
  while (true) {                           // a draw may be infeasible
    absl::StatusOr<Sample> sample = lw::sample(start, space[seed % space.size()], rng);
    if (!sample.ok()) continue;
    *trace = to_text(sample->trace);
    return std::move(sample->nest);
  }
}

TEST(DecoderFuzz, Traces) {
  std::vector<std::string> seeds(8);
  for (size_t i = 0; i < seeds.size(); ++i) drawn(i, &seeds[i]);
  expect_no_harm(feed_trace, seeds);
}

TEST(DecoderFuzz, Kernels) {
  std::vector<std::string> seeds;
  for (uint64_t i = 0; i < 3; ++i) {
    std::string trace;
    const absl::StatusOr<Kernel> kernel = lower(drawn(i, &trace));
    if (kernel.ok()) seeds.push_back(print(*kernel));
  }
  ASSERT_FALSE(seeds.empty());
  expect_no_harm(feed_kernel, seeds);
}

TEST(DecoderFuzz, NumPyHeaders) {
  const std::string text =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n";
  std::string file = std::string("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(text.size());
  file += '\0';
  expect_no_harm(feed_npy, {file + text + std::string(48, '\0')});
}

// A lock of a product, made here.
std::string small_lock(const Task& task) {
  LockEntry entry;
  entry.words = "relu M=8";
  entry.entry = "relu";
  entry.program = print(*task.program());
  entry.key = task.key();
  entry.record = record_digest(task.key(), "");
  entry.kernel = std::string(64, 'a');
  entry.files = {{"relu.o", std::string(64, 'b')}};
  Lock lock;
  lock.targets[task.key().target] = task.target();
  lock.entries = {entry};
  return to_text(lock);
}

TEST(DecoderFuzz, LocksRequestsAndFacts) {
  const absl::StatusOr<Task> task =
      make_task({"matmul", "M=8", "N=8", "K=8"}, {.target = "x86_avx2", .threads = 1});
  ASSERT_TRUE(task.ok()) << task.status();
  const std::string lock = small_lock(*task);
  ASSERT_TRUE(parse_lock(lock).ok()) << parse_lock(lock).status();
  const absl::StatusOr<LookupAnswer> answer = default_answer(*task, {});
  ASSERT_TRUE(answer.ok());
  const Choice choice = as_choice(*answer);
  absl::StatusOr<DescribedKernel> described = build_described(*task, choice, "");
  ASSERT_TRUE(described.ok()) << described.status();
  nlohmann::ordered_json& facts = described->facts;
  facts["files"] = {{"matmul.o", std::string(64, 'c')}};
  ASSERT_TRUE(dispatch_source("f", {{{{"M", 1}}, facts.dump()}}, true).ok());
  expect_no_harm(feed_lock, {lock, "matmul M=8 --const B --entry mm --threads 2\n# more\n",
                             facts.dump()});
}

TEST(DecoderFuzz, RunnerFrames) {
  runner::Job job;
  runner::Job::Code& code = job.codes.emplace_back();
  code.base = uint64_t{1} << 36;
  code.image_bytes = 128 << 10;
  code.run = code.base + 64;
  code.segments = {{0, 64 << 10, false, true, "code"}, {64 << 10, 64 << 10, false, false, "data"}};
  job.arguments = {{8, 2, 4, false, "12345678"}, {4096, 0, 96, true, ""}};
  runner::Result result;
  result.times = {{{1, 2.5}, 3, true}, {}};
  result.outputs = {"abcd", ""};
  runner::Crash crash;
  crash.regions = {{0, 1, 2, 3, 4}, {-1, 5, 6, 7, 8}};
  const std::vector<std::string> seeds = {
      runner::encode_header({}), runner::encode_greeting({4096, 2, "aarch64", "6.1", "", "qemu"}),
      runner::encode_job(job), runner::encode_result(result), runner::encode_crash(crash)};
  ASSERT_TRUE(runner::decode_job(seeds[2]));
  expect_no_harm(feed_runner, seeds);
}

}  // namespace
}  // namespace lw
