// SearchRun: the phases around Search.
//
// A batch is issued while at most depth - 1 batches are in flight, so that whoever builds and
// measures never waits for proposals. Every outcome is counted before anything new is proposed.
// What was issued is remembered by trace, which is all that survives a restart; a result that
// nobody here issued is taken all the same.
#include "src/search/steps.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/search/retry.h"

namespace lw {
namespace {

constexpr double kShareOfFinalists = 0.06;       // of the seconds, kept for the finalists
constexpr int kFinalists = 5;
constexpr int kLeastRounds = 3, kMostRounds = 15;
constexpr double kRoundSeconds = 0.01;     // of a finalist at least: samples are lengthened to that

std::vector<Measurement> of_kind(const std::vector<Measurement>& all, TimeKind kind) {
  std::vector<Measurement> own;
  std::copy_if(all.begin(), all.end(), std::back_inserter(own),
               [&](const Measurement& m) { return m.time_kind == kind; });
  return own;
}

}  // namespace

Measurement make_measurement(const std::string& trace, uint64_t kernel_hash, const Outcome& o,
                             const Circumstances& circumstances) {
  Measurement m;
  m.trace = trace;
  m.kernel_hash = kernel_hash;
  m.verdict = o.verdict;
  m.detail = o.detail;
  m.samples_us = o.samples_us;
  m.inner = o.inner;
  m.time_us = o.time_us, m.ci_low_us = o.ci_low_us, m.ci_high_us = o.ci_high_us;
  m.time_kind = o.time_kind;
  m.verified = o.verified;
  m.max_rel_error = o.max_rel_error;
  m.build_s = o.build_s;
  m.environment = o.environment;
  m.seed = circumstances.seed;
  m.source = std::string(origin_name(circumstances.origin));
  m.wall_s = circumstances.wall_s;
  m.unix_ms = circumstances.unix_ms;
  return m;
}

SearchRun::SearchRun(const Nest& start, const SearchOptions& options, std::unique_ptr<Model> model)
    : options_(options),
      in_order_(options.time_kind == TimeKind::kSimulated),
      search_(start, options, std::move(model)),
      cap_(options.trials) {
  progress_.time_kind = options.time_kind;
}

// ---- what is known ------------------------------------------------------------------------------

void SearchRun::count(const Measurement& m) {
  if (is_trial(m)) has_final_ = false;
  if (origin_of(m) == Origin::kFinalist) has_final_ = true;
  if (progress_.take(m)) curve_.push_back({m.wall_s, progress_.trials, m.time_us, m.trace});
}

bool SearchRun::complete() const {
  return progress_.trials >= cap_ && progress_.has_zero && (has_final_ || cap_ == 0);
}

void SearchRun::resume(const std::vector<Measurement>& stored) {
  const std::vector<Measurement> own = of_kind(stored, options_.time_kind);
  for (const Measurement& m : own) count(m);
  search_.observe(own);
  if (complete()) phase_ = SearchPhase::kDone;
}

int SearchRun::adopt(const std::vector<IssuedProposal>& issued) {
  int adopted = 0;
  for (const IssuedProposal& proposal : issued) {
    const bool measured_twice = proposal.origin == Origin::kFinalist;
    const absl::StatusOr<uint64_t> kernel_hash = search_.adopt(proposal.trace, measured_twice);
    if (!kernel_hash.ok() || issued_.contains(proposal.trace)) continue;
    issued_[proposal.trace] = {*kernel_hash, proposal.origin, 0, ++places_, std::nullopt};
    ++adopted;
  }
  if (adopted > 0 && phase_ == SearchPhase::kDone) phase_ = SearchPhase::kDraining;
  if (has_issued(Origin::kFinalist)) {
    phase_ = SearchPhase::kFinalists;
    ++final_attempts_;
  }
  return adopted;
}

bool SearchRun::wants_warm() const {
  return options_.use_warm && progress_.trials == 0 && cap_ > 0;
}

void SearchRun::warm_start(const std::vector<Trace>& traces) {
  if (wants_warm()) search_.warm_start(traces);
}

void SearchRun::learn() {
  search_.observe(std::exchange(unlearned_, {}));
}

void SearchRun::take_one(Measurement m) {
  count(m);
  unlearned_.push_back(std::move(m));
}

std::vector<Measurement> SearchRun::take(const std::vector<Measurement>& results, bool all) {
  for (Measurement m : results) {
    const IssuedRow issued = issued_.find(m.trace);
    const bool was_issued = issued != issued_.end();
    if (m.time_kind != options_.time_kind) {
      if (!was_issued) continue;
      // Spent, but its time is another quantity: as a candidate that failed, it is not tried again.
      m.verdict = Verdict::kDeviceLimit;
      m.verified = false;
      m.time_kind = options_.time_kind;
    }
    if (was_issued && in_order_) {
      issued->second.result = std::move(m);
      continue;
    }
    if (was_issued) issued_.erase(issued);
    take_one(std::move(m));
  }
  std::vector<Measurement> taken;
  while (has_turn(all)) {
    std::vector<IssuedRow> batch = first_batch();
    const auto has_come = [](IssuedRow row) { return row->second.result.has_value(); };
    if (!std::all_of(batch.begin(), batch.end(), has_come)) break;
    for (const IssuedRow row : batch) {
      Measurement m = *std::move(row->second.result);
      issued_.erase(row);
      if (!is_retried(m.verdict)) taken.push_back(m);
      take_one(std::move(m));
    }
  }
  settle();
  return in_order_ ? taken : results;
}

// The oldest that is out, as it was issued.
std::vector<SearchRun::IssuedRow> SearchRun::first_batch() {
  std::vector<IssuedRow> rows;
  for (IssuedRow row = issued_.begin(); row != issued_.end(); ++row) rows.push_back(row);
  std::sort(rows.begin(), rows.end(),
            [](IssuedRow a, IssuedRow b) { return a->second.place < b->second.place; });
  rows.erase(std::find_if(rows.begin(), rows.end(), [&](IssuedRow row) {
               return row->second.batch != rows.front()->second.batch;
             }), rows.end());
  return rows;
}

int SearchRun::batches_out() const {
  std::set<int64_t> batches;
  for (const auto& [trace, issued] : issued_) batches.insert(issued.batch);
  return static_cast<int>(batches.size());
}

// Whether the oldest batch may be taken: where more will be issued, not before they are as many as
// may be out.
bool SearchRun::has_turn(bool all) const {
  if (!in_order_ || issued_.empty()) return false;
  return all || phase_ != SearchPhase::kTrials || exhausted_ || trials_to_issue() <= 0 ||
         batches_out() >= options_.depth;
}

void SearchRun::lost(const std::string& trace) {
  const auto it = issued_.find(trace);
  if (it == issued_.end()) return;
  if (it->second.origin == Origin::kZero) zero_lost_ = true;
  if (it->second.origin != Origin::kFinalist) {
    Measurement released;                  // the search forgets that it was tried
    released.trace = trace;
    released.kernel_hash = it->second.kernel_hash;
    released.verdict = Verdict::kWorkerLost;
    if (in_order_) {
      if (!it->second.result) it->second.result = std::move(released);
      return;
    }
    unlearned_.push_back(std::move(released));
  }
  issued_.erase(it);
  settle();
}

void SearchRun::settle() {
  if (issued_.empty() || options_.depth > 1) learn();
  const bool over = phase_ == SearchPhase::kFinalists && !has_issued(Origin::kFinalist) &&
                    (has_final_ || final_attempts_ >= kFinalistsTries);
  if (over) phase_ = SearchPhase::kDone;
}

// ---- what comes next ----------------------------------------------------------------------------

bool SearchRun::has_issued(Origin origin) const {
  return std::any_of(issued_.begin(), issued_.end(),
                     [&](const auto& issued) { return issued.second.origin == origin; });
}

int SearchRun::trials_in_flight() const {
  return static_cast<int>(std::count_if(issued_.begin(), issued_.end(), [](const auto& issued) {
    return issued.second.origin != Origin::kZero && issued.second.origin != Origin::kFinalist;
  }));
}

void SearchRun::finish() {
  finishing_ = true;
  advance(0);
}

// Trials that the time still allows, at the pace so far.
int SearchRun::trials_in_time(double elapsed_s) const {
  if (progress_.trials < options_.batch || elapsed_s <= 0) return std::numeric_limits<int>::max();
  const double left_s = options_.seconds * (1 - kShareOfFinalists) - elapsed_s;
  const double trials = std::max(0.0, left_s) * progress_.trials / elapsed_s;
  return trials < cap_ ? static_cast<int>(trials) : cap_;
}

void SearchRun::advance(double elapsed_s) {
  in_time_ = trials_in_time(elapsed_s);
  if (phase_ == SearchPhase::kZeroTrial) {
    if (progress_.has_zero || zero_lost_) {
      phase_ = SearchPhase::kTrials;
    } else if (has_issued(Origin::kZero) && elapsed_s > options_.seconds) {
      phase_ = SearchPhase::kDraining;
    }
  }
  if (phase_ == SearchPhase::kTrials) {
    const bool time_left = elapsed_s < options_.seconds * (1 - kShareOfFinalists);
    if (!time_left || progress_.trials >= cap_ || finishing_ || (exhausted_ && issued_.empty()))
      phase_ = SearchPhase::kDraining;
  }
  if (phase_ == SearchPhase::kDraining && issued_.empty()) {
    const bool final = cap_ > 0 && progress_.trials > 0 && !has_final_;
    phase_ = final ? SearchPhase::kFinalists : SearchPhase::kDone;
  }
}

absl::StatusOr<Batch> SearchRun::next(double elapsed_s, int most) {
  ASSIGN_OR_RETURN(Batch batch, issue_some(elapsed_s, most));
  RETURN_IF_ERROR(options_.stop.status("the search"));
  return batch;
}

absl::StatusOr<Batch> SearchRun::issue_some(double elapsed_s, int most) {
  advance(elapsed_s);
  switch (phase_) {
    case SearchPhase::kZeroTrial: return issue_zero();
    case SearchPhase::kTrials: {
      Batch batch = issue_trials(most);
      if (!batch.empty() || !issued_.empty() || !exhausted_) return batch;
      advance(elapsed_s);                  // nothing is left to try
      return phase_ == SearchPhase::kFinalists ? issue_finalists(elapsed_s) : Batch();
    }
    case SearchPhase::kFinalists: return issue_finalists(elapsed_s);
    case SearchPhase::kDraining:
    case SearchPhase::kDone: break;
  }
  return Batch();
}

absl::StatusOr<Batch> SearchRun::issue_zero() {
  Batch batch;
  if (has_issued(Origin::kZero)) return batch;
  ASSIGN_OR_RETURN(Proposal zero, search_.zero_trial());
  batch.kind = BatchKind::kZeroTrial;
  batch.verify = true;
  batch.incumbent_us = progress_.best_us;
  batch.proposals.push_back(std::move(zero));
  issue(batch);
  return batch;
}

void SearchRun::prepare() {
  // What is to be taken first is not known yet.
  const bool waits = in_order_ && (phase_ != SearchPhase::kTrials || batches_out() >= options_.depth);
  if (!waits && !search_.rounds_are_long()) fill();
}

void SearchRun::fill() {
  if (!ready_.empty() || phase_ > SearchPhase::kTrials || finishing_) return;
  const int left = trials_to_issue();
  if (left <= 0) return;
  ready_ = search_.propose(std::min(options_.batch, left), std::min({left, expected_, in_time_}));
  exhausted_ = ready_.empty() && !options_.stop.asked();
}

Batch SearchRun::issue_trials(int most) {
  Batch batch;
  const bool full = in_order_ ? batches_out() >= options_.depth
                              : trials_in_flight() > (options_.depth - 1) * options_.batch;
  if (most <= 0 || full) return batch;
  fill();
  const int left = std::min(most, trials_to_issue());
  const size_t count = std::min(ready_.size(), static_cast<size_t>(std::max(0, left)));
  batch.incumbent_us = progress_.best_us;
  std::move(ready_.begin(), ready_.begin() + count, std::back_inserter(batch.proposals));
  ready_.erase(ready_.begin(), ready_.begin() + count);
  issue(batch);
  return batch;
}

// As many as the time allows.
int SearchRun::final_rounds(size_t finalists, double elapsed_s) const {
  const double left = std::max(options_.seconds - elapsed_s, options_.seconds * kShareOfFinalists);
  const double round =
      static_cast<double>(finalists) * std::max(progress_.best_us * 1e-6, kRoundSeconds);
  return static_cast<int>(std::clamp(left / round, static_cast<double>(kLeastRounds),
                                     static_cast<double>(kMostRounds)));
}

// The leaders, measured in turns: only so are their times comparable.
Batch SearchRun::issue_finalists(double elapsed_s) {
  Batch batch;
  if (!issued_.empty()) return batch;
  batch.kind = BatchKind::kFinalists;
  batch.verify = true;
  batch.effort = 2;
  batch.incumbent_us = progress_.best_us;
  batch.proposals = search_.finalists(kFinalists);
  batch.rounds = final_rounds(batch.proposals.size(), elapsed_s);
  ++final_attempts_;
  issue(batch);
  const bool none = batch.empty() && !options_.stop.asked();
  if (none) phase_ = SearchPhase::kDone;   // nothing is valid
  return batch;
}

void SearchRun::issue(const Batch& batch) {
  ++batches_;
  for (const Proposal& p : batch.proposals) {
    issued_[p.text] = {p.kernel_hash, p.origin, batches_, ++places_, std::nullopt};
  }
}

}  // namespace lw
