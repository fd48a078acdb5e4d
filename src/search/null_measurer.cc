#include "src/search/null_measurer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "absl/strings/str_cat.h"
#include "src/base/rng.h"
#include "src/kernel/kernel.h"

namespace lw {
namespace {

constexpr double kCyclesPerUs = 3000;
constexpr double kParallelCycles = 6000;  // of one parallel loop
constexpr double kLoopCycles = 1;         // of one iteration
constexpr double kBlockCycles = 1.0 / 64;  // of one position of a block's box

double memory_cycles(const Kernel& kernel, const Stmt& stmt) {
  const int reg = stmt.op == Op::kLoad ? stmt.dst : stmt.srcs[0];
  const int lanes = reg >= 0 ? kernel.registers[reg].lanes : 1;
  const bool apart = stmt.indices >= 0 || (stmt.stride != 0 && stmt.stride != 1);
  return apart ? lanes : stmt.op == Op::kStore ? 1 : 0.5;
}

double op_cycles(const Kernel& kernel, const Stmt& stmt) {
  switch (stmt.op) {
    case Op::kLoad:
    case Op::kStore: return memory_cycles(kernel, stmt);
    case Op::kUnary: return stmt.expr_op == ExprOp::kNeg || stmt.expr_op == ExprOp::kAbs ? 0.5 : 8;
    case Op::kBinary: return stmt.expr_op == ExprOp::kDiv || stmt.expr_op == ExprOp::kPow ? 8 : 0.5;
    case Op::kTranspose: case Op::kInterleave: return static_cast<double>(stmt.many.size());
    case Op::kHorizontal: return 6;
    default: return 0.5;
  }
}

double positions(const Block& block) {
  double product = 1;
  for (int64_t extent : block.extents) product *= static_cast<double>(extent);
  return product;
}

double cycles(const Kernel& kernel, const std::vector<Stmt>& body, int threads) {
  double sum = 0;
  for (const Stmt& stmt : body) {
    switch (stmt.kind) {
      case Stmt::Kind::kFor: {
        double trips = static_cast<double>(stmt.count);
        if (stmt.parallel) {
          sum += kParallelCycles;
          trips = std::ceil(trips / threads);
        }
        sum += trips * (kLoopCycles + cycles(kernel, stmt.body, threads));
        break;
      }
      case Stmt::Kind::kIf:
        sum += 1 + std::max(cycles(kernel, stmt.body, threads),
                            cycles(kernel, stmt.otherwise, threads));
        break;
      case Stmt::Kind::kInt: sum += 0.5; break;
      case Stmt::Kind::kOp: sum += op_cycles(kernel, stmt); break;
      case Stmt::Kind::kBlock: sum += 1 + kBlockCycles * positions(*stmt.block); break;
    }
  }
  return sum;
}

class NullMeasurer : public Measurer {
 public:
  explicit NullMeasurer(const NullOptions& options) : options_(options) {}

  void submit(std::vector<Candidate> batch) override {
    for (Candidate& candidate : batch) queue_.push_back(std::move(candidate));
  }

  std::vector<Outcome> poll(double) override {
    std::vector<Outcome> outcomes;
    for (const Candidate& candidate : queue_) outcomes.push_back(measure(candidate));
    queue_.clear();
    return outcomes;
  }

  void cancel() override { queue_.clear(); }
  TimeKind time_kind() const override { return options_.time_kind; }

  std::vector<Outcome> interleave(std::vector<Candidate> batch, int rounds) override {
    std::vector<Outcome> outcomes;
    for (Candidate& candidate : batch) {
      candidate.verify = true;
      candidate.incumbent_us = 0;
      outcomes.push_back(measure(candidate, rounds));
    }
    return outcomes;
  }

 private:
  Verdict fate(uint64_t kernel_hash, Rng rng) {
    const bool first = seen_.insert(kernel_hash).second;
    double draw = rng.uniform();
    for (const std::pair<const Verdict, double>& failure : options_.failures) {
      if (draw < failure.second) {
        return is_candidates_fault(failure.first) || first ? failure.first : Verdict::kOk;
      }
      draw -= failure.second;
    }
    return Verdict::kOk;
  }

  Outcome measure(const Candidate& candidate, int rounds = 0) {
    const uint64_t kernel_hash = hash(*candidate.kernel);
    Rng rng(hash_combine(options_.seed, kernel_hash));
    Outcome outcome;
    outcome.time_kind = options_.time_kind;
    outcome.ticket = candidate.ticket;
    outcome.environment = "{\"null\":true}";
    outcome.verdict = fate(kernel_hash, rng.split(1));
    if (outcome.verdict != Verdict::kOk) {
      outcome.detail = absl::StrCat("injected ", std::string(verdict_name(outcome.verdict)));
      return outcome;
    }
    const double us = null_time_us(*candidate.kernel, options_.threads);
    const bool behind = candidate.race && candidate.incumbent_us > 0 &&
                        us > 1.5 * candidate.incumbent_us;
    const int samples = rounds > 0 ? rounds : behind ? 1 : candidate.effort > 1 ? 30 : 10;
    Rng noise = rng.split(2);
    for (int i = 0; i < samples; ++i) {
      outcome.samples_us.push_back(us * (1 + options_.jitter * (2 * noise.uniform() - 1)));
    }
    std::vector<double> sorted = outcome.samples_us;
    std::sort(sorted.begin(), sorted.end());
    outcome.time_us = sorted[sorted.size() / 2];
    outcome.ci_low_us = sorted.front();
    outcome.ci_high_us = sorted.back();
    outcome.verified =
        candidate.verify || candidate.incumbent_us <= 0 || outcome.time_us < candidate.incumbent_us;
    return outcome;
  }

  NullOptions options_;
  std::deque<Candidate> queue_;
  std::set<uint64_t> seen_;
};

}  // namespace

double null_time_us(const Kernel& kernel, int threads) {
  return (100 + cycles(kernel, kernel.body, std::max(threads, 1))) / kCyclesPerUs;
}

std::unique_ptr<Measurer> make_null_measurer(const NullOptions& options) {
  return std::make_unique<NullMeasurer>(options);
}

}  // namespace lw
