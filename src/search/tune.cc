// tune(): the loop around Search and a Measurer.
//
// One batch is measured while the next is proposed, so builders and the measurer never wait; where
// measuring takes every processor, proposing and learning wait instead, or they would be measured
// too. Results are stored before they are counted, so that whatever was shown survives a crash. What
// fails through nobody's fault (a lost worker, a throttled clock) is tried again and is no trial.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "src/base/check.h"
#include "src/expr/message.h"
#include "src/search/search.h"

namespace lw {
namespace {

constexpr int kRetries = 3;      // of a candidate, when nobody is at fault
constexpr int kLostInARow = 24;  // then the device is given up
constexpr double kPollSeconds = 0.05;
constexpr double kDrainSeconds = 0.25;  // patience for what still runs when the search ends
constexpr double kFinalShare = 0.06;    // of the seconds, kept for the finalists
constexpr int kFinalists = 5;
constexpr int kLeastRounds = 3, kMostRounds = 15;
constexpr double kRoundSeconds = 0.01;  // of a finalist at least: samples are lengthened to that
constexpr size_t kWarmTraces = 4;

bool is_trial(const Measurement& m) {
  const bool counts = m.verdict == Verdict::kOk || is_candidates_fault(m.verdict);
  return counts && m.source != "zero" && m.source != "finalist";
}

int64_t unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

class Tuning {
 public:
  Tuning(const Nest& start, const Key& key, Store& store, Measurer& measurer,
         const SearchOptions& options, std::unique_ptr<Model> model, const TuneHooks& hooks)
      : key_(key),
        store_(store),
        measurer_(measurer),
        options_(options),
        hooks_(hooks),
        search_(start, options, std::move(model)),
        began_(hooks.now()) {}

  absl::StatusOr<TuneResult> run() {
    RETURN_IF_ERROR(resume());
    if (complete()) return result();
    RETURN_IF_ERROR(warm_start());
    RETURN_IF_ERROR(zero_trial());
    while (going()) {
      fill();
      if (flying_.empty()) break;  // nothing is left to try
      RETURN_IF_ERROR(take(measurer_.poll(kPollSeconds)));
    }
    RETURN_IF_ERROR(drain());
    if (!result_.interrupted) RETURN_IF_ERROR(finals());
    return result();
  }

 private:
  struct Flying {
    Proposal proposal;
    int tries = 1;
  };

  double elapsed() const { return hooks_.now() - began_; }
  bool complete() const {
    return trials_ >= options_.trials && has_zero_ && (has_final_ || options_.trials == 0);
  }
  bool going() {
    result_.interrupted = result_.interrupted || (hooks_.interrupted && hooks_.interrupted());
    const bool time_left = elapsed() < options_.seconds * (1 - kFinalShare);
    return !result_.interrupted && time_left && trials_ < options_.trials;
  }

  // What the database holds of this key counts.
  absl::Status resume() {
    ASSIGN_OR_RETURN(const std::vector<Measurement> stored, store_.measurements(key_));
    for (const Measurement& m : stored) count(m);
    search_.observe(stored);
    return absl::OkStatus();
  }

  void count(const Measurement& m) {
    trials_ += is_trial(m);
    result_.failed += is_candidates_fault(m.verdict);
    has_final_ = has_final_ || m.source == "finalist";
    if (m.source == "zero") {
      has_zero_ = true;
      result_.zero_us = m.verdict == Verdict::kOk ? m.time_us : 0;
      result_.zero_verified = m.verified;
    }
    const bool leads = m.verdict == Verdict::kOk && m.verified &&
                       (incumbent_us_ == 0 || m.time_us < incumbent_us_);
    if (!leads) return;
    incumbent_us_ = m.time_us;
    result_.curve.push_back({m.wall_s, trials_, m.time_us});
  }

  // The fastest of other shapes, threads and targets of the family; nearest shapes first.
  absl::Status warm_start() {
    if (!options_.use_warm || trials_ > 0 || options_.trials == 0) return absl::OkStatus();
    const absl::StatusOr<WorkloadRow> mine = store_.workload(key_.workload);
    if (!mine.ok())
      return mine.status().code() == absl::StatusCode::kNotFound ? absl::OkStatus() : mine.status();
    ASSIGN_OR_RETURN(std::vector<BestRow> rows, store_.best_in_family(mine->family, key_.threads));
    std::vector<std::pair<double, Trace>> near;
    for (const BestRow& row : rows) {
      const absl::StatusOr<WorkloadRow> other = store_.workload(row.key.workload);
      absl::StatusOr<Trace> trace = parse_trace(row.measurement.trace);
      if (row.key == key_ || !other.ok() || !trace.ok()) continue;
      near.emplace_back(shape_distance(mine->shape, other->shape), *std::move(trace));
    }
    std::stable_sort(near.begin(), near.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (near.size() > kWarmTraces) near.resize(kWarmTraces);
    std::vector<Trace> traces;
    for (auto& [distance, trace] : near) traces.push_back(std::move(trace));
    search_.warm_start(traces);
    return absl::OkStatus();
  }

  static double shape_distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    double sum = 100.0 * std::abs(static_cast<double>(a.size()) - static_cast<double>(b.size()));
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      sum += std::abs(std::log2(static_cast<double>(std::max<int64_t>(1, a[i])) /
                                static_cast<double>(std::max<int64_t>(1, b[i]))));
    }
    return sum;
  }

  // The first batch is proposed while the zero-trial answer is measured: it is raced against that.
  absl::Status zero_trial() {
    if (has_zero_) return absl::OkStatus();
    const double began = hooks_.now();
    absl::StatusOr<Proposal> zero = search_.zero_trial();
    result_.propose_s += hooks_.now() - began;
    RETURN_IF_ERROR(zero.status());
    std::vector<Proposal> batch;
    batch.push_back(*std::move(zero));
    submit(std::move(batch), /*verify=*/true);
    if (!measurer_.wants_quiet()) propose();
    while (!flying_.empty()) {
      result_.interrupted = result_.interrupted || (hooks_.interrupted && hooks_.interrupted());
      if (result_.interrupted || elapsed() > options_.seconds) break;
      RETURN_IF_ERROR(take(measurer_.poll(kPollSeconds)));
    }
    return absl::OkStatus();
  }

  void propose() {
    const int left = options_.trials - trials_ - in_flight() - static_cast<int>(ready_.size());
    if (left <= 0) return;
    const double began = hooks_.now();
    for (Proposal& p : search_.propose(std::min(options_.batch, left), left))
      ready_.push_back(std::move(p));
    result_.propose_s += hooks_.now() - began;
  }

  // Two batches at most are with the measurer, one where it wants quiet.
  void fill() {
    if (in_flight() > (measurer_.wants_quiet() ? 0 : options_.batch)) return;
    if (ready_.empty()) propose();
    submit(std::move(ready_), /*verify=*/false);
    ready_.clear();
  }

  int in_flight() const {
    return static_cast<int>(std::count_if(flying_.begin(), flying_.end(), [](const auto& f) {
      return f.second.proposal.source != "zero";
    }));
  }

  Candidate candidate(int64_t ticket, const Proposal& proposal, bool verify) const {
    Candidate c;
    c.ticket = ticket;
    c.kernel = proposal.kernel;
    c.incumbent_us = incumbent_us_;
    c.verify = verify;
    return c;
  }

  void submit(std::vector<Proposal> proposals, bool verify) {
    std::vector<Candidate> batch;
    for (Proposal& proposal : proposals) {
      batch.push_back(candidate(++ticket_, proposal, verify));
      flying_.emplace(ticket_, Flying{std::move(proposal)});
    }
    if (!batch.empty()) measurer_.submit(std::move(batch));
  }

  Measurement measurement(const Proposal& proposal, const Outcome& o) const {
    Measurement m;
    m.trace = proposal.text;
    m.kernel_hash = hash(*proposal.kernel);
    m.verdict = o.verdict;
    m.detail = o.detail;
    m.samples_us = o.samples_us;
    m.inner = o.inner;
    m.time_us = o.time_us, m.ci_low_us = o.ci_low_us, m.ci_high_us = o.ci_high_us;
    m.verified = o.verified;
    m.max_rel_error = o.max_rel_error;
    m.wall_s = hooks_.now();
    m.build_s = o.build_s;
    m.seed = options_.seed;
    m.source = proposal.source;
    m.environment = o.environment;
    m.unix_ms = unix_ms();
    return m;
  }

  // Stores, then counts, then learns.
  absl::Status take(const std::vector<Outcome>& outcomes) {
    std::vector<Measurement> done, released;
    std::vector<Candidate> again;
    for (const Outcome& o : outcomes) {
      const auto it = flying_.find(o.ticket);
      CHECK(it != flying_.end());
      result_.build_s += o.build_s;
      result_.measure_s += o.measure_s;
      const bool counts = o.verdict == Verdict::kOk || is_candidates_fault(o.verdict);
      lost_ = counts ? 0 : lost_ + 1;
      if (lost_ > kLostInARow) {
        return absl::UnavailableError(
            concat("nothing can be measured: ", verdict_name(o.verdict), ": ", o.detail));
      }
      if (!counts && ++it->second.tries <= kRetries + 1) {
        again.push_back(
            candidate(o.ticket, it->second.proposal, it->second.proposal.source == "zero"));
        continue;
      }
      (counts ? done : released).push_back(measurement(it->second.proposal, o));
      flying_.erase(it);
    }
    if (!again.empty()) measurer_.submit(std::move(again));
    unlearned_.insert(unlearned_.end(), released.begin(), released.end());
    RETURN_IF_ERROR(acknowledge(std::move(done)));
    if (flying_.empty() || !measurer_.wants_quiet()) learn();
    return absl::OkStatus();
  }

  void learn() {
    const double began = hooks_.now();
    search_.observe(std::exchange(unlearned_, {}));
    result_.learn_s += hooks_.now() - began;
  }

  absl::Status acknowledge(std::vector<Measurement> done) {
    if (done.empty()) return absl::OkStatus();
    const double began = hooks_.now();
    RETURN_IF_ERROR(store_.append(key_, done));
    result_.store_s += hooks_.now() - began;
    for (const Measurement& m : done) count(m);
    taken_ += static_cast<int>(done.size());
    unlearned_.insert(unlearned_.end(), done.begin(), done.end());
    if (hooks_.progress) {
      const double seconds = std::max(elapsed(), 1e-9);
      hooks_.progress({trials_, result_.failed, incumbent_us_, elapsed(), taken_ / seconds});
    }
    return absl::OkStatus();
  }

  // What is running when the search ends still counts; what waited was dropped.
  absl::Status drain() {
    if (flying_.empty()) return absl::OkStatus();
    measurer_.cancel();
    while (!flying_.empty()) {
      const std::vector<Outcome> outcomes = measurer_.poll(kDrainSeconds);
      if (outcomes.empty()) break;
      RETURN_IF_ERROR(take(outcomes));
    }
    learn();                               // the finalists are chosen among all that is known
    return absl::OkStatus();
  }

  // As many as the time allows.
  int final_rounds(size_t finalists) const {
    const double left = std::max(options_.seconds - elapsed(), options_.seconds * kFinalShare);
    const double round =
        static_cast<double>(finalists) * std::max(incumbent_us_ * 1e-6, kRoundSeconds);
    return static_cast<int>(std::clamp(left / round, static_cast<double>(kLeastRounds),
                                       static_cast<double>(kMostRounds)));
  }

  // The leaders, measured in turns: only so are their times comparable.
  absl::Status finals() {
    const std::vector<Proposal> finalists = search_.finalists(kFinalists);
    if (finalists.empty() || options_.trials == 0 || trials_ == 0) return absl::OkStatus();
    std::vector<Candidate> batch;
    for (const Proposal& proposal : finalists) {
      batch.push_back(candidate(++ticket_, proposal, /*verify=*/true));
      batch.back().effort = 2;
    }
    const std::vector<Outcome> outcomes =
        measurer_.interleave(std::move(batch), final_rounds(finalists.size()));
    CHECK(outcomes.size() == finalists.size());
    std::vector<Measurement> done;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      result_.build_s += outcomes[i].build_s;
      result_.measure_s += outcomes[i].measure_s;
      const Verdict verdict = outcomes[i].verdict;
      if (verdict == Verdict::kOk || is_candidates_fault(verdict))
        done.push_back(measurement(finalists[i], outcomes[i]));
    }
    return acknowledge(std::move(done));
  }

  absl::StatusOr<TuneResult> result() {
    result_.trials = trials_;
    result_.deduped = search_.deduplicated();
    absl::StatusOr<BestRow> best = store_.best(key_);
    if (best.ok()) {
      result_.best = *std::move(best);
    } else if (best.status().code() != absl::StatusCode::kNotFound) {
      return best.status();
    }
    return std::move(result_);
  }

  const Key& key_;
  Store& store_;
  Measurer& measurer_;
  const SearchOptions& options_;
  const TuneHooks& hooks_;
  Search search_;
  const double began_;
  std::map<int64_t, Flying> flying_;
  std::vector<Proposal> ready_;
  std::vector<Measurement> unlearned_;     // stored and counted, not yet shown to the search
  int64_t ticket_ = 0;
  int trials_ = 0, taken_ = 0, lost_ = 0;
  bool has_zero_ = false, has_final_ = false;
  double incumbent_us_ = 0;
  TuneResult result_;
};

}  // namespace

absl::StatusOr<TuneResult> tune(const Nest& start, const Key& key, Store& store, Measurer& measurer,
                                const SearchOptions& options, std::unique_ptr<Model> model,
                                const TuneHooks& hooks) {
  return Tuning(start, key, store, measurer, options, std::move(model), hooks).run();
}

}  // namespace lw
