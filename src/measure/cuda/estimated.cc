#include "src/measure/cuda/estimated.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "schedules/targets/target.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/base/rng.h"
#include "src/build/simt/ptx/build_nvidia.h"
#include "src/build/emulator/emulate.h"
#include "src/build/emulator/part.h"
#include "src/expr/expr.h"
#include "src/expr/reference/interpret.h"
#include "src/measure/judge/verify.h"

namespace lw {
namespace {

// Of a kernel that spills, the estimate's share: what registers do not hold goes through the
// caches.
constexpr double kSpillFactor = 1.5;
// Operations of lanes that are emulated of a kernel, in a second or so; of what makes one group of
// results as many as take ten, as far as so many accesses to memory go.
constexpr double kMostEmulated = 2e7, kMostWork = 2e8;
constexpr int64_t kMostGroups = 4, kMostAccesses = 20'000'000;

double work_of(const Kernel& kernel, std::span<const Stmt> list) {
  double work = 0;
  for (const Stmt& s : list) {
    switch (s.kind) {
      case Stmt::Kind::kFor:
        work += static_cast<double>(s.count) * static_cast<double>(s.items) *
                work_of(kernel, s.body);
        break;
      case Stmt::Kind::kIf:
        work += std::max(work_of(kernel, s.body), work_of(kernel, s.otherwise));
        break;
      case Stmt::Kind::kOp: {
        const int reg = s.dst >= 0 ? s.dst : s.srcs[0];
        work += s.op == Op::kMatrixProduct ? 32
                : s.op == Op::kWideProduct ? 2.0 * static_cast<double>(s.many.size())
                : reg >= 0 ? kernel.registers[reg].lanes : 1;
        break;
      }
      default: work += 1;
    }
  }
  return work;
}

double work_of(const Kernel& kernel, const PartOfKernel& part) {
  double work = 0;
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    const Stmt& s = kernel.body[i];
    const double share = s.kind != Stmt::Kind::kFor ? 1
                         : static_cast<double>(part.groups[i].size()) / static_cast<double>(s.count);
    work += share * work_of(kernel, {&s, 1});
  }
  return work;
}

// One set of inputs, and memory for outputs.
class Emulation {
 public:
  Emulation(const Program& program, const LocalOptions& options)
      : program_(program), seed_(options.seed), points_(options.points),
        budget_s_(options.oracle_budget_s) {
    for (int tensor : arguments(program)) {
      const bool input = program.tensors[tensor].role == Role::kInput;
      data_.push_back(input ? random_input(program, tensor, seed_, /*integers=*/false)
                            : Data{std::vector<std::byte>(bytes(program.tensors[tensor]))});
      is_input_.push_back(input);
    }
  }

  // Fills the outcome's verdict and what it says of errors; of a kernel that was judged before, at
  // once.
  void judge(const Kernel& kernel, Outcome* outcome) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [known, is_new] = judged_.try_emplace(hash(kernel));
    if (is_new) known->second = judged(kernel);
    const Outcome& found = known->second;
    outcome->verdict = found.verdict;
    outcome->detail = found.detail;
    outcome->verified = found.verified;
    outcome->max_rel_error = found.max_rel_error;
    outcome->worst_error = found.worst_error;
    outcome->worst_expected = found.worst_expected;
    outcome->worst_element = found.worst_element;
  }

 private:
  Outcome judged(const Kernel& kernel) {
    Outcome outcome;
    std::vector<void*> pointers;
    std::vector<const std::byte*> inputs, outputs;
    for (size_t i = 0; i < data_.size(); ++i) {
      if (!is_input_[i]) std::fill(data_[i].bytes.begin(), data_[i].bytes.end(), kUnwritten);
      pointers.push_back(data_[i].bytes.data());
      (is_input_[i] ? inputs : outputs).push_back(data_[i].bytes.data());
    }
    absl::StatusOr<PartOfKernel> part = part_of(kernel, pointers.data(), 1);
    if (!part.ok()) {
      outcome.detail = concat("not emulated: ", std::string(part.status().message()));
      return outcome;
    }
    const double least = work_of(kernel, *part);
    if (least > kMostWork) {
      outcome.detail = absl::StrFormat(
          "not emulated: what makes one group of results are %.0e operations", least);
      return outcome;
    }
    if (const auto more = static_cast<int64_t>(kMostEmulated / least); more > 1) {
      part = part_of(kernel, pointers.data(), std::min(more, kMostGroups));
    }
    EmulateOptions options;
    options.order = {ItemOrder::Kind::kShuffled, seed_};
    options.groups = part->groups;
    options.most_accesses = kMostAccesses;
    const absl::Status ran = emulate(kernel, pointers.data(), options);
    if (absl::IsResourceExhausted(ran)) {
      outcome.detail = concat("not emulated: ", std::string(ran.message()));
      return outcome;
    }
    if (!ran.ok()) {
      outcome.verdict = Verdict::kWrongResult;
      outcome.detail = std::string(ran.message());
      return outcome;
    }
    const std::vector<Point> points = points_of(*part);
    std::vector<PointValue> values(points.size());
    evaluate_points(program_, inputs, points, 0, static_cast<int64_t>(points.size()),
                    now() + budget_s_, values.data());
    if (points.empty()) {
      outcome.verdict = Verdict::kWrongResult;
      outcome.detail = "none of the groups that were emulated wrote a result";
      return outcome;
    }
    const Check check = check_points(program_, outputs, points, values.data(),
                                     kernel.error_growth);
    outcome.max_rel_error = check.worst;
    outcome.worst_element = check.element;
    outcome.worst_error = check.error;
    outcome.worst_expected = check.expected;
    if (!check.ok) {
      outcome.verdict = Verdict::kWrongResult;
      outcome.detail = check.detail;
    }
    outcome.verified = check.ok && check.compared > 0;
    return outcome;
  }

  // Of each output, among the elements that are as the whole kernel makes them; of those of whole
  // outputs as for kernels that are run.
  std::vector<Point> points_of(const PartOfKernel& part) {
    Rng rng(seed_);
    std::vector<Point> points;
    bool whole = true;
    int output = 0;
    const std::vector<int> tensors = arguments(program_);
    for (size_t slot = 0; slot < tensors.size(); ++slot) {
      if (is_input_[slot]) continue;
      const std::vector<int64_t>& made = part.made[slot];
      const int64_t count = std::ssize(made), some = std::min(points_, count);
      const Tensor& tensor = program_.tensors[tensors[slot]];
      whole = whole && count == bytes(tensor) / size_of(tensor.type);
      for (int64_t n = 0; n < some; ++n) {
        points.push_back({output, made[static_cast<size_t>(some == count ? n : rng.below(count))]});
      }
      ++output;
    }
    return whole ? choose_points(program_, points_, seed_) : points;
  }

  const Program& program_;
  const uint64_t seed_;
  const int64_t points_;
  const double budget_s_;
  std::mutex mutex_;                       // guards all below
  absl::flat_hash_map<uint64_t, Outcome> judged_;  // by the kernel's hash
  std::vector<Data> data_;
  std::vector<bool> is_input_;
};

class EstimatingMeasurer : public Measurer {
 public:
  EstimatingMeasurer(const Program& program, const Target& target, const LocalOptions& options)
      : target_(target), emulation_(program, options) {
    const int here = static_cast<int>(allowed_cpus().size());
    const int threads = std::max(1, options.builders > 0 ? options.builders : here);
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~EstimatingMeasurer() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
      waiting_.clear();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void submit(std::vector<Candidate> batch) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Candidate& candidate : batch) waiting_.push_back(std::move(candidate));
    changed_.notify_all();
  }

  std::vector<Outcome> poll(double timeout_s) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(std::min(timeout_s, 1e6)),
                      [&] { return !done_.empty(); });
    return std::exchange(done_, {});
  }

  void cancel() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.clear();
  }

  std::vector<Outcome> interleave(std::vector<Candidate> batch, int) override {
    std::vector<Outcome> outcomes;
    for (const Candidate& candidate : batch) outcomes.push_back(estimate(candidate));
    return outcomes;
  }

  TimeKind time_kind() const override { return TimeKind::kEstimated; }

 private:
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
      if (over_) return;
      // The fastest first: who is behind it need not be judged.
      const auto fastest = std::min_element(
          waiting_.begin(), waiting_.end(),
          [](const Candidate& a, const Candidate& b) { return a.draft_us < b.draft_us; });
      const Candidate candidate = std::move(*fastest);
      waiting_.erase(fastest);
      lock.unlock();
      Outcome outcome = estimate(candidate);
      lock.lock();
      done_.push_back(std::move(outcome));
      changed_.notify_all();
    }
  }

  Outcome estimate(const Candidate& candidate) {
    Outcome outcome;
    outcome.ticket = candidate.ticket;
    outcome.time_kind = TimeKind::kEstimated;
    const double begin = now();
    const absl::StatusOr<NvidiaBuild> built = build_nvidia(*candidate.kernel, target_);
    outcome.build_s = now() - begin;
    if (!built.ok() || candidate.draft_us <= 0) {
      outcome.verdict = Verdict::kBuildError;
      outcome.detail = built.ok() ? "there is no estimate of its time"
                                  : std::string(built.status().message());
      return outcome;
    }
    const NvidiaFacts facts = facts_of(*built);
    double us = candidate.draft_us;
    if (facts.spill_bytes > 0) us *= kSpillFactor;
    outcome.samples_us = {us};
    outcome.time_us = outcome.ci_low_us = outcome.ci_high_us = us;
    outcome.environment = absl::StrFormat(
        "{\"emulated\":true,\"emulator\":\"simt\",\"estimated\":true,\"threads\":1,"
        "\"assembler\":\"%s\",\"registers\":%d,\"spill_bytes\":%d}",
        facts.assembler, facts.registers, facts.spill_bytes);
    const bool behind = us > best_us_.load() ||
                        (candidate.incumbent_us > 0 && us > candidate.incumbent_us);
    if (over_ || (behind && !candidate.verify)) return outcome;
    const double started = now();
    emulation_.judge(*candidate.kernel, &outcome);
    outcome.measure_s = now() - started;
    if (!outcome.verified) return outcome;
    double best = best_us_.load();
    while (us < best && !best_us_.compare_exchange_weak(best, us)) {}
    return outcome;
  }

  const Target& target_;
  Emulation emulation_;
  std::vector<std::thread> threads_;
  std::atomic<bool> over_ = false;
  std::atomic<double> best_us_ = std::numeric_limits<double>::infinity();  // of what is verified
  std::mutex mutex_;                       // guards all below
  std::condition_variable changed_;
  std::deque<Candidate> waiting_;
  std::vector<Outcome> done_;
};

}  // namespace

std::unique_ptr<Measurer> make_estimating_measurer(const Program& program, const Target& target,
                                                   const LocalOptions& options) {
  return std::make_unique<EstimatingMeasurer>(program, target, options);
}

}  // namespace lw
