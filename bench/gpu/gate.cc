// What of the spaces of NVIDIA's targets can be made, without a GPU: of each class of operators how
// many draws are feasible, and what ptxas says of some of them and of the best of all by the draft.
//   lw_gpu_gate [--draws 200] [--assembled 50] [--seed 1] [--target NAME] [--case 'conv2d T=bf16']
//               [--json] [-v]
// That kernels are right, is for tests/ptx/printed_kernels_test.cc, as long as one likes (LW_PRINTED,
// LW_SHAPES).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cost_model/cost_model.h"
#include "cost_model/simt/launches.h"
#include "nlohmann/json.hpp"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/build/simt/ptx/assembler/assemble.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"

namespace lw {
namespace {

constexpr const char* kCases[] = {
    "matmul M=4096 N=4096 K=4096 T=bf16", "matmul M=4096 N=4096 K=4096 T=i8",
    "matmul M=1024 N=1024 K=1024 T=f32", "matmul M=1024 N=1024 K=1024 T=f64",
    "matmul M=16 N=8192 K=8192 T=bf16", "dense_gelu M=4096 N=4096 K=1024 T=f16",
    "batch_matmul B=12 M=512 N=512 K=64 T=bf16", "conv1d T=bf16", "conv2d T=bf16",
    "conv2d N=16 H=14 W=14 CI=256 CO=256 T=bf16", "conv2d H=56 W=56 CI=64 CO=128 stride=2 T=bf16",
    "conv3d T=bf16", "conv2d_transpose T=bf16",
    "conv2d_depthwise", "max_pool2d", "row_sum", "softmax", "layer_norm", "transpose",
    "attention type=bf16", "matmul_requant M=512 N=512 K=512"};
constexpr const char* kTargets[] = {"nvidia_sm80", "nvidia_sm90a"};
constexpr int64_t kNear = 16;              // registers: predicted so well

struct GateOptions {
  int draws = 200, assembled = 50;
  uint64_t seed = 1;
  std::vector<std::string> targets, cases;
  bool json = false, verbose = false;
};

struct Tally {
  int drawn = 0, feasible = 0, assembled = 0, refused = 0, spilled = 0, kernels = 0, near = 0;
  std::vector<double> ms;
  std::string best;                        // the drafted best's registers, "" where none is
  bool best_spills = false;
};

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

bool spills(const Assembled::Facts& facts) {
  return facts.spill_store_bytes + facts.spill_load_bytes > 0;
}

// An item's registers as the draft has them, of each launch that a call makes.
std::vector<double> predicted_registers(const Nest& nest) {
  std::vector<double> all;
  for (const cost::simt::Launch& launch : cost::simt::launches(nest)) {
    all.push_back(launch.registers);
  }
  return all;
}

absl::StatusOr<Assembled> assembled_kernel(const Kernel& kernel, const Target& target) {
  ASSIGN_OR_RETURN(const SimtProgram program, ptx_program(kernel, target));
  return assemble(program.source, program.options);
}

class Gate {
 public:
  explicit Gate(const GateOptions& options) : options_(options) {}

  absl::Status run(const std::string& target_name, const std::string& words) {
    ASSIGN_OR_RETURN(const Target target, find_target(target_name));
    const std::vector<std::string> split = absl::StrSplit(words, ' ');
    ASSIGN_OR_RETURN(Program program, load_workload(split));
    const Nest start = make_nest(std::make_shared<const Program>(std::move(program)),
                                 std::make_shared<const Target>(target), 1);
    const std::vector<Sketch> space = make_space(start);
    Rng rng(options_.seed);
    Tally tally;
    double least_us = HUGE_VAL;
    std::optional<Sample> best;
    for (; tally.drawn < options_.draws; ++tally.drawn) {
      const Sketch& sketch = space[rng.below(static_cast<int64_t>(space.size()))];
      absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
      const absl::StatusOr<Kernel> kernel =
          drawn.ok() ? lower(drawn->nest) : absl::StatusOr<Kernel>(drawn.status());
      if (!kernel.ok()) {
        if (options_.verbose) {
          std::cout << sketch.name << ": " << kernel.status().message() << std::endl;
          if (drawn.ok()) std::cout << to_text(drawn->trace) << std::endl;
        }
        continue;
      }
      ++tally.feasible;
      if (tally.assembled + tally.refused < options_.assembled) {
        assemble_one(target, *drawn, *kernel, &tally);
      }
      const double us = draft_us(drawn->nest);
      if (us < least_us) least_us = us, best = *std::move(drawn);
    }
    if (best.has_value()) assemble_best(target, best->nest, &tally);
    tell(target_name, words, tally);
    return absl::OkStatus();
  }

 private:
  void assemble_one(const Target& target, const Sample& drawn, const Kernel& kernel,
                    Tally* tally) {
    const double begin = now();
    absl::StatusOr<Assembled> assembled = assembled_kernel(kernel, target);
    if (!assembled.ok()) {
      ++tally->refused;
      std::fprintf(stderr, "%s\n", std::string(assembled.status().message()).c_str());
      return;
    }
    ++tally->assembled;
    tally->ms.push_back(1000 * (now() - begin));
    tally->spilled += std::any_of(assembled->facts.begin(), assembled->facts.end(), spills);
    const std::vector<double> predicted = predicted_registers(drawn.nest);
    std::erase_if(assembled->facts, [](const Assembled::Facts& facts) {
      return absl::StrContains(facts.entry, "_prepack_");
    });
    if (options_.verbose) {
      for (size_t i = 0; i < assembled->facts.size(); ++i) {
        const Assembled::Facts& facts = assembled->facts[i];
        std::cout << absl::StrFormat("%s: %d registers, %.0f predicted, %d bytes spilled\n",
                                     facts.entry, facts.registers,
                                     i < predicted.size() ? predicted[i] : -1,
                                     facts.spill_store_bytes + facts.spill_load_bytes);
      }
      std::cout << to_text(drawn.trace) << std::endl;
    }
    if (predicted.size() != assembled->facts.size()) return;
    for (size_t i = 0; i < predicted.size(); ++i) {
      ++tally->kernels;
      const double registers = static_cast<double>(assembled->facts[i].registers);
      tally->near += std::abs(predicted[i] - registers) <= kNear;
    }
  }

  void assemble_best(const Target& target, const Nest& nest, Tally* tally) {
    const absl::StatusOr<Kernel> kernel = lower(nest);
    if (!kernel.ok()) return;
    const absl::StatusOr<Assembled> assembled = assembled_kernel(*kernel, target);
    if (!assembled.ok()) return;
    for (const Assembled::Facts& facts : assembled->facts) {
      tally->best += concat(tally->best.empty() ? "" : ",", facts.registers);
      tally->best_spills = tally->best_spills || spills(facts);
    }
  }

  void tell(const std::string& target, const std::string& words, const Tally& t) {
    const auto share = [](int part, int all) { return all > 0 ? 100.0 * part / all : 0; };
    if (options_.json) {
      std::cout << nlohmann::json{{"target", target}, {"case", words}, {"draws", t.drawn},
                                  {"feasible", t.feasible}, {"assembled", t.assembled},
                                  {"refused", t.refused}, {"spilled", t.spilled},
                                  {"kernels", t.kernels}, {"registers_near", t.near},
                                  {"ptxas_ms", quantile(t.ms, 0.5)},
                                  {"ptxas_ms_p95", quantile(t.ms, 0.95)},
                                  {"best_registers", t.best}, {"best_spills", t.best_spills}}
                << std::endl;
      return;
    }
    if (!headed_) {
      std::cout << absl::StrFormat("%-46s %-13s %8s %9s %7s %6s %8s %6s %6s  %s\n", "case",
                                   "target", "feasible", "assembled", "refused", "spill",
                                   "+-16", "ms", "p95", "best: registers");
      headed_ = true;
    }
    std::cout << absl::StrFormat("%-46s %-13s %6.1f %% %9d %7d %4.0f %% %6.0f %% %6.0f %6.0f  %s%s\n",
                                 words, target, share(t.feasible, t.drawn), t.assembled, t.refused,
                                 share(t.spilled, t.assembled), share(t.near, t.kernels),
                                 quantile(t.ms, 0.5), quantile(t.ms, 0.95), t.best,
                                 t.best_spills ? " (spills)" : "")
              << std::flush;
  }

  const GateOptions options_;
  bool headed_ = false;
};

int run(GateOptions options) {
  if (options.targets.empty()) options.targets.assign(std::begin(kTargets), std::end(kTargets));
  if (options.cases.empty()) options.cases.assign(std::begin(kCases), std::end(kCases));
  if (ptxas_version().empty()) {
    std::fprintf(stderr, "there is no ptxas: ./setup fetches it\n");
    return 1;
  }
  Gate gate(options);
  for (const std::string& words : options.cases) {
    for (const std::string& target : options.targets) {
      const absl::Status status = gate.run(target, words);
      if (status.ok()) continue;
      std::fprintf(stderr, "%s: %s\n", words.c_str(), std::string(status.message()).c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  lw::GateOptions options;
  CLI::App app("What of the spaces of NVIDIA's targets can be made, without a GPU");
  app.add_option("--draws", options.draws, "of each case and target")->capture_default_str();
  app.add_option("--assembled", options.assembled, "of the draws")->capture_default_str();
  app.add_option("--seed", options.seed, "of the draws")->capture_default_str();
  app.add_option("--target", options.targets, "both, where none is given");
  app.add_option("--case", options.cases, "an operator and its parameters; all, where none is given");
  app.add_flag("--json", options.json, "a line each, for scripts");
  app.add_flag("-v,--verbose", options.verbose,
               "each kernel that is assembled, its schedule, and what is infeasible");
  CLI11_PARSE(app, argc, argv);
  return lw::run(std::move(options));
}
