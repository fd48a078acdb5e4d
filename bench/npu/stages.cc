// From a trace to cycles, stage by stage: draws of the space of ResNet-50's layers on the
// simulated NPU, as products of their windows, i8 into i32. Of each stage the milliseconds of a
// processor that half of the draws and that 95 of 100 need at most, and of all of them beside the
// project's bars; what follows is for candidates that are run. The number behind the draws is a
// hash of instructions and cycles: who makes a stage faster leaves it as it is. Exits 1 where a bar
// is missed; there is none for edge16, whose programs have ten times as many instructions.
//   lw_npu_stages [TARGET...] [--draws=N]
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "bench/npu/layers.h"
#include "loopwright/program.h"
#include "schedules/steps.h"
#include "schedules/targets/npu/npu_target.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/rng.h"
#include "src/build/npu/operations.h"
#include "src/lower/lower.h"
#include "src/npu/module.h"
#include "src/npu/timing/timing.h"

namespace lw {
namespace {

enum Stage : int {
  kReplay, kLower, kHash, kPrint, kParse, kVerify, kUnroll, kOrder, kTokens, kSimulate,
  kAll,          // of those before it
  kMake, kRead,  // of candidates that are run
  kStages
};
constexpr const char* kNames[kStages] = {"replay", "lower",  "hash",     "print",
                                         "parse",  "verify", "unroll",   "order",
                                         "tokens", "simulate", "trace to cycles", "make module",
                                         "read module"};
constexpr double kHalfMs = 2, kMostMs = 10;

struct Draw {
  std::array<double, kStages> ms = {};
  size_t instructions = 0;
  int64_t cycles = 0;
};

// Processor time, so that neighbours do not count.
class Watch {
 public:
  double lap() {
    const double then = began_;
    began_ = seconds();
    return 1e3 * (began_ - then);
  }

 private:
  static double seconds() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  double began_ = seconds();
};

absl::StatusOr<Draw> measure(const Nest& start, const Trace& trace, const npu::Config& config) {
  using namespace npu_build;
  Draw draw;
  Watch watch;
  ASSIGN_OR_RETURN(const Nest nest, replay(start, trace));
  draw.ms[kReplay] = watch.lap();
  ASSIGN_OR_RETURN(const Kernel lowered, lower(nest));
  draw.ms[kLower] = watch.lap();
  CHECK(hash(lowered) != 0);
  draw.ms[kHash] = watch.lap();
  const std::string text = print(lowered);
  draw.ms[kPrint] = watch.lap();
  ASSIGN_OR_RETURN(const Kernel kernel, parse_kernel(text));
  draw.ms[kParse] = watch.lap();
  RETURN_IF_ERROR(verify(kernel, Checked::kMeaning));
  draw.ms[kVerify] = watch.lap();
  ASSIGN_OR_RETURN(const Operations operations, unroll(kernel, config, 2'000'000));
  draw.ms[kUnroll] = watch.lap();
  const std::vector<int32_t> order = fill_early(operations);
  draw.ms[kOrder] = watch.lap();
  npu::Module module;
  module.config = config;
  ASSIGN_OR_RETURN(module.program, add_tokens(operations, order, config));
  draw.ms[kTokens] = watch.lap();
  ASSIGN_OR_RETURN(const npu::Timing timing, npu::simulate(config, module.program, {.checked = true}));
  draw.ms[kSimulate] = watch.lap();
  for (int s = 0; s < kAll; ++s) draw.ms[kAll] += draw.ms[s];
  draw.instructions = module.program.size();
  draw.cycles = timing.cycles;
  watch.lap();
  ASSIGN_OR_RETURN(const std::string bytes, npu::make_module(module));
  draw.ms[kMake] = watch.lap();
  RETURN_IF_ERROR(npu::read_module(bytes).status());
  draw.ms[kRead] = watch.lap();
  return draw;
}

// What so many of the values are at most.
double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

absl::StatusOr<bool> run(const std::string& name, int draws) {
  ASSIGN_OR_RETURN(const Target target, find_target(name));
  const npu::Config& config = npu_config(target);
  std::vector<Draw> all;
  uint64_t results = 0;
  for (const Layer& layer : kResNet) {
    ASSIGN_OR_RETURN(Program program, parse_program(text_of(layer), layer.name));
    const Nest start = make_nest(std::make_shared<const Program>(std::move(program)),
                                 std::make_shared<const Target>(target), 1);
    const std::vector<Sketch> space = make_space(start);
    Rng rng(1);
    for (int i = 0; i < draws; ++i) {
      const absl::StatusOr<Sample> drawn = sample(start, space[rng.below(space.size())], rng);
      if (!drawn.ok()) continue;
      ASSIGN_OR_RETURN(const Draw draw, measure(start, drawn->trace, config));
      results = hash64(std::to_string(draw.instructions), results);
      results = hash64(std::to_string(draw.cycles), results);
      all.push_back(draw);
    }
  }
  CHECK(!all.empty());
  std::printf("%s, %zu draws (%016llx)\n  %-16s %10s %10s\n", name.c_str(), all.size(),
              static_cast<unsigned long long>(results), "ms", "p50", "p95");
  bool met = false;
  for (int s = 0; s < kStages; ++s) {
    std::vector<double> ms;
    for (const Draw& draw : all) ms.push_back(draw.ms[s]);
    const double half = percentile(ms, .5), most = percentile(ms, .95);
    std::printf("  %-16s %10.3f %10.3f", kNames[s], half, most);
    if (s == kAll) {
      met = half <= kHalfMs && most <= kMostMs;
      std::printf("   bars %.0f, %.0f: %s", kHalfMs, kMostMs, met ? "met" : "missed");
    }
    std::printf("\n");
  }
  std::vector<double> instructions;
  for (const Draw& draw : all) instructions.push_back(static_cast<double>(draw.instructions));
  std::printf("  %-16s %10.0f %10.0f\n\n", "instructions", percentile(instructions, .5),
              percentile(instructions, .95));
  std::fflush(stdout);
  return met;
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  mallopt(M_MMAP_MAX, 0);  // as builders do (src/measure/workers/builder.cc)
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  std::vector<std::string> targets;
  int draws = 20;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--draws=", 0) == 0) draws = std::atoi(word.c_str() + 8);
    else targets.push_back(word);
  }
  if (targets.empty()) targets = {"npu_mid32", "npu_big128", "npu_edge16"};
  bool met = true;
  for (const std::string& target : targets) {
    const absl::StatusOr<bool> result = lw::run(target, draws);
    if (!result.ok()) {
      std::fprintf(stderr, "%s: %s\n", target.c_str(),
                   std::string(result.status().message()).c_str());
      return 2;
    }
    met = met && (*result || target == "npu_edge16");
  }
  return met ? 0 : 1;
}
