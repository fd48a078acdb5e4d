#include "src/search/local_loop.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/search/retry.h"
#include "src/search/warm_start.h"
#include "tuner_db/best.h"

namespace lw::search {
namespace {

constexpr double kPollSeconds = 0.05;
constexpr double kDrainSeconds = 0.25;     // patience for what still runs when the search ends

}  // namespace

LocalLoop::LocalLoop(const Nest& start, const Key& key, Store& store, const SearchOptions& options,
                     std::unique_ptr<Model> model, const TuneHooks& hooks)
    : key_(key),
      store_(store),
      options_(options),
      hooks_(hooks),
      run_(start, options, std::move(model)),
      began_(hooks.now()) {}

absl::Status LocalLoop::resume() {
  ASSIGN_OR_RETURN(const std::vector<Measurement> all, store_.measurements(key_));
  ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn, store_.withdrawn(key_));
  const std::vector<Measurement> stored = trusted(all, withdrawn);
  run_.resume(stored);
  run_.hint(options_.hints);
  run_.hint(unconfirmed_traces(all, options_.time_kind));
  if (observer_) std::for_each(stored.begin(), stored.end(), observer_);
  return absl::OkStatus();
}

absl::Status LocalLoop::warm_start() {
  if (run_.done() || !run_.wants_warm()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<Trace> traces, warm_traces(store_, key_));
  run_.warm_start(traces);
  return absl::OkStatus();
}

absl::Status LocalLoop::step(Measurer& measurer, double elapsed_s, int most) {
  run_.set_depth(measurer.wants_quiet() ? 1 : options_.depth);
  const double began = hooks_.now();
  absl::StatusOr<Batch> batch = run_.next(elapsed_s, most);
  result_.propose_s += hooks_.now() - began;
  if (options_.stop.asked()) return absl::OkStatus();
  if (!batch.ok()) return failure_ = batch.status();
  if (!batch->empty()) RETURN_IF_ERROR(issue(measurer, *std::move(batch)));
  // Results that are taken in order are waited for, as elsewhere, unless the time is over.
  const bool waits = run_.takes_in_order() && elapsed_s < options_.seconds;
  if (run_.phase() == SearchPhase::kDraining && !waits) return drain(measurer);
  const bool all = most <= 0;
  if (flying_.empty()) return acknowledge({}, all);
  return take(measurer, measurer.poll(kPollSeconds), all);
}

std::vector<Candidate> LocalLoop::candidates(const Batch& batch) {
  std::vector<Candidate> result;
  for (const Proposal& proposal : batch.proposals) {
    Candidate candidate;
    candidate.ticket = ++ticket_;
    candidate.kernel = proposal.kernel;
    candidate.draft_us = proposal.draft_us;
    candidate.incumbent_us = batch.incumbent_us;
    candidate.race = options_.use_racing;
    candidate.verify = batch.verify;
    candidate.effort = batch.effort;
    result.push_back(std::move(candidate));
  }
  return result;
}

// The first batch is proposed while the zero-trial answer is measured: it is raced against that.
absl::Status LocalLoop::issue(Measurer& measurer, Batch batch) {
  if (batch.kind == BatchKind::kFinalists) return take_finalists(measurer, batch);
  std::vector<Candidate> submitted = candidates(batch);
  for (size_t i = 0; i < submitted.size(); ++i) {
    flying_.emplace(submitted[i].ticket,
                    Flying{std::move(batch.proposals[i]), submitted[i]});
  }
  measurer.submit(std::move(submitted));
  if (batch.kind != BatchKind::kZeroTrial || measurer.wants_quiet()) return absl::OkStatus();
  const double began = hooks_.now();
  run_.prepare();
  result_.propose_s += hooks_.now() - began;
  return absl::OkStatus();
}

Measurement LocalLoop::measurement(const Proposal& proposal, const Outcome& outcome) const {
  return make_measurement(proposal.text, proposal.kernel_hash, outcome,
                          {options_.seed, proposal.origin, hooks_.now(), hooks_.unix_ms()});
}

// What failed through nobody's fault is tried again, raced against the incumbent of now.
absl::Status LocalLoop::take(Measurer& measurer, const std::vector<Outcome>& outcomes, bool all) {
  std::vector<Measurement> done;
  std::vector<std::string> lost;
  std::vector<Candidate> again;
  for (const Outcome& o : outcomes) {
    const auto it = flying_.find(o.ticket);
    if (it == flying_.end()) continue;     // drain() has given it up
    Flying& flying = it->second;
    result_.build_s += o.build_s;
    result_.measure_s += o.measure_s;
    lost_in_a_row_ = is_retried(o.verdict) ? lost_in_a_row_ + 1 : 0;
    if (lost_in_a_row_ > kLostInARow) {
      return failure_ = absl::UnavailableError(
                 concat("nothing can be measured: ", verdict_name(o.verdict), ": ", o.detail));
    }
    if (is_retried(o.verdict) && flying.tries++ < kLocalTries) {
      flying.candidate.incumbent_us = run_.progress().best_us;
      again.push_back(flying.candidate);
      continue;
    }
    if (is_retried(o.verdict)) lost.push_back(flying.proposal.text);
    else done.push_back(measurement(flying.proposal, o));
    flying_.erase(it);
  }
  if (!again.empty()) measurer.submit(std::move(again));
  learning([&] {
    for (const std::string& trace : lost) run_.lost(trace);
  });
  return acknowledge(std::move(done), all);
}

absl::Status LocalLoop::take_finalists(Measurer& measurer, const Batch& batch) {
  const std::vector<Outcome> outcomes = measurer.interleave(candidates(batch), batch.rounds);
  CHECK(outcomes.size() == batch.proposals.size());
  std::vector<Measurement> done;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    result_.build_s += outcomes[i].build_s;
    result_.measure_s += outcomes[i].measure_s;
    if (is_retried(outcomes[i].verdict)) continue;
    done.push_back(measurement(batch.proposals[i], outcomes[i]));
  }
  RETURN_IF_ERROR(acknowledge(std::move(done), /*all=*/true));
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (is_retried(outcomes[i].verdict)) run_.lost(batch.proposals[i].text);
  }
  return acknowledge({}, /*all=*/true);
}

template <class Work>
void LocalLoop::learning(Work work) {
  const double began = hooks_.now();
  work();
  result_.learn_s += hooks_.now() - began;
}

// Stores, then counts and learns. Nothing new may still be the turn of what is stored.
absl::Status LocalLoop::acknowledge(std::vector<Measurement> done, bool all) {
  if (done.empty() && !run_.takes_in_order()) return absl::OkStatus();
  if (!done.empty()) {
    const double began = hooks_.now();
    RETURN_IF_ERROR(store_.append(key_, done));
    result_.store_s += hooks_.now() - began;
    taken_ += static_cast<int>(done.size());
  }
  std::vector<Measurement> taken;
  learning([&] { taken = run_.take(done, all); });
  if (observer_) std::for_each(taken.begin(), taken.end(), observer_);
  if (hooks_.progress && !taken.empty()) {
    const double seconds = std::max(elapsed(), 1e-9);
    const SearchProgress& now = run_.progress();
    hooks_.progress({now.trials, now.failed, now.best_us, elapsed(), taken_ / seconds});
  }
  return absl::OkStatus();
}

absl::Status LocalLoop::drain(Measurer& measurer) {
  if (flying_.empty()) return acknowledge({}, /*all=*/true);
  measurer.cancel();
  while (!flying_.empty()) {
    const std::vector<Outcome> outcomes = measurer.poll(kDrainSeconds);
    if (outcomes.empty()) break;
    RETURN_IF_ERROR(take(measurer, outcomes, /*all=*/true));
  }
  learning([&] {
    for (const auto& [ticket, flying] : flying_) run_.lost(flying.proposal.text);
  });
  flying_.clear();
  return acknowledge({}, /*all=*/true);
}

absl::StatusOr<TuneResult> LocalLoop::result() {
  const absl::Status stopped = run_.done() ? absl::OkStatus() : options_.stop.status("the search");
  const SearchProgress& progress = run_.progress();
  result_.trials = progress.trials;
  result_.failed = progress.failed;
  result_.deduped = run_.search().deduplicated();
  result_.interrupted = absl::IsCancelled(stopped);
  // The first answer may be given up, and the search ends as it should, with nothing to show.
  const bool none = progress.trials == 0 && progress.failed == 0;
  result_.timed_out =
      absl::IsDeadlineExceeded(stopped) || (none && elapsed() >= options_.seconds);
  result_.only_last_resort = run_.search().only_last_resort();
  result_.zero_us = progress.zero_us;
  result_.zero_verified = progress.zero_verified;
  result_.curve = run_.curve();
  result_.wall_s = elapsed();
  absl::StatusOr<BestRow> best = store_.best(key_);
  if (best.ok()) {
    result_.best = *std::move(best);
  } else if (best.status().code() != absl::StatusCode::kNotFound) {
    return best.status();
  }
  return result_;
}

}  // namespace lw::search
