// One workload's search, driven with a Measurer of this process: issue, measure, store, take.
// Internal to src/search; tune() runs one of it, tune_suite() several in turns.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/search/steps.h"

namespace lw::search {

// Not thread-safe. What is passed by reference outlives it. Errors are the store's, kUnavailable
// when the measurer measures nothing any more, and SearchRun::next()'s.
class LocalLoop {
 public:
  LocalLoop(const Nest& start, const Key& key, Store& store, const SearchOptions& options,
            std::unique_ptr<Model> model, const TuneHooks& hooks);

  // Called with each measurement that the search has taken, which is stored then, in order, those of
  // resume() first. Set before.
  void on_stored(std::function<void(const Measurement&)> observer) {
    observer_ = std::move(observer);
  }
  // Takes what the store holds of the key.
  absl::Status resume();
  // Starts from what the store holds of similar workloads, if nothing was tried yet.
  absl::Status warm_start();
  // Issues what may be issued, at most `most` trials of it, and takes what came back meanwhile.
  // Returns within the measuring of one batch, mostly 0.05 s; soon, with nothing issued, once
  // options.stop is asked.
  absl::Status step(Measurer& measurer, double elapsed_s,
                    int most = std::numeric_limits<int>::max());
  // What is running still counts, what waits is dropped. Nothing is in flight afterwards.
  absl::Status drain(Measurer& measurer);
  // The error that step() or drain() ended with, if it is the search's or the measurer's; OK where
  // it is the store's.
  const absl::Status& failure() const { return failure_; }

  SearchRun& run() { return run_; }
  const SearchRun& run() const { return run_; }
  double elapsed() const { return hooks_.now() - began_; }
  // Ended early, if options.stop was asked before the run was done.
  absl::StatusOr<TuneResult> result();

 private:
  struct Flying {
    Proposal proposal;
    Candidate candidate;
    int tries = 1;
  };
  absl::Status issue(Measurer& measurer, Batch batch);
  absl::Status take(Measurer& measurer, const std::vector<Outcome>& outcomes, bool all);
  absl::Status take_finalists(Measurer& measurer, const Batch& batch);
  absl::Status acknowledge(std::vector<Measurement> done, bool all);
  Measurement measurement(const Proposal& proposal, const Outcome& outcome) const;
  std::vector<Candidate> candidates(const Batch& batch);
  template <class Work>
  void learning(Work work);

  const Key& key_;
  Store& store_;
  const SearchOptions options_;
  const TuneHooks& hooks_;
  SearchRun run_;
  const double began_;
  std::map<int64_t, Flying> flying_;       // by ticket
  int64_t ticket_ = 0;
  int taken_ = 0, lost_in_a_row_ = 0;
  TuneResult result_;
  absl::Status failure_;
  std::function<void(const Measurement&)> observer_;
};

}  // namespace lw::search
