// The search of one workload as a machine of steps: what to measure next, given what was measured.
//
// It has no measurer, no store and no clock: results are handed in once they are stored, seconds
// are an argument. So the local loop (tune.cc) and a daemon whose agents are elsewhere drive the
// same code. Phases follow each other: zero trial -> trials -> draining -> finalists -> done.
// Deterministic: the same seed and the same calls in the same order give the same batches. Simulated
// results, whose times are the same wherever and whenever they are taken, are moreover taken batch by
// batch, as they were issued: the next batch is thought of when just so many are out, so that the
// search ends the same however many devices there are and in what order they answer.
//
//   SearchRun run(start, options, std::move(model));
//   run.resume(stored);                     // what the store holds of the key
//   run.adopt(in_flight);                   // what was issued before a restart and is still out
//   while (!run.done()) {
//     ASSIGN_OR_RETURN(Batch batch, run.next(elapsed_s));
//     ... measure; append to the store; then run.take(measurements), or run.lost(trace)
//   }
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/search/progress.h"
#include "src/search/search.h"

namespace lw {

enum class BatchKind : uint8_t {
  kZeroTrial,                              // the answer without measuring, alone, verified
  kTrials,
  kFinalists,                              // measured interleaved on one device; outcomes together
};

struct Batch {
  BatchKind kind = BatchKind::kTrials;
  std::vector<Proposal> proposals;
  bool verify = false;                     // Candidate::verify of each
  double incumbent_us = 0;                 // Candidate::incumbent_us of each
  int effort = 1;                          // Candidate::effort of each
  int rounds = 0;                          // of finalists
  bool empty() const { return proposals.empty(); }
};

enum class SearchPhase : uint8_t { kZeroTrial, kTrials, kDraining, kFinalists, kDone };

// A proposal that is out: what a restarted driver knows of it.
struct IssuedProposal {
  std::string trace;
  Origin origin = Origin::kDraft;          // Proposal::origin
};

// What the caller knows of a measurement beside its outcome.
struct Circumstances {
  uint64_t seed = 0;
  Origin origin = Origin::kDraft;          // Proposal::origin
  double wall_s = 0;                       // since the study began
  int64_t unix_ms = 0;
};
Measurement make_measurement(const std::string& trace, uint64_t kernel_hash,
                             const Outcome& outcome, const Circumstances& circumstances);

// Thread-compatible.
class SearchRun {
 public:
  // `options.trials`, `seconds`, `batch` and `depth` are its budget and its pace. `model` may be
  // null: nothing is learned.
  SearchRun(const Nest& start, const SearchOptions& options, std::unique_ptr<Model> model);

  // What is stored of the key and trusted (tuner_db/best.h), in order of arrival; what is not of
  // options.time_kind is left out. Call first, once. A run that is complete is done() at once.
  void resume(const std::vector<Measurement>& stored);
  // Call after resume. These count as issued: neither proposed again nor counted anew; those that
  // no longer replay, or that were measured already, are ignored. Returns how many count.
  int adopt(const std::vector<IssuedProposal>& issued);
  // Traces of similar workloads (warm_start.h), nearest first. Ignored unless wants_warm().
  void warm_start(const std::vector<Trace>& traces);
  bool wants_warm() const;
  // Traces of this workload that nobody here has measured (unconfirmed_traces), best first.
  void hint(const std::vector<std::string>& traces) { search_.hint(traces); }

  // What to measure now, at most `most` trials of it. Empty when nothing may be issued now (enough
  // is in flight, or what is in flight must come back first) or when done(). `elapsed_s`: of
  // options.seconds; never falls. kNotFound: no schedule can be lowered.
  // kCancelled, kDeadlineExceeded: options.stop was asked; the run is of no more use.
  absl::StatusOr<Batch> next(double elapsed_s, int most = std::numeric_limits<int>::max());
  // Proposes the next batch of trials before it may be issued; a driver calls it when it has time.
  // What next() then returns is the same batch. Nothing where that takes long.
  void prepare();

  // Results that ARE stored: counted and learned from. Those of proposals never issued are welcome.
  // With depth 1 learning waits until nothing is in flight, so that it disturbs no measurement.
  // Returns what has been taken: these, or, where they are taken in order, whatever it is the turn
  // of; a driver calls it after each batch that it issues too. `all`: of what has come, everything
  // is, since nothing is issued meanwhile.
  std::vector<Measurement> take(const std::vector<Measurement>& results, bool all = false);
  // An issued proposal that will not come back, through nobody's fault: it may be proposed again
  // (the zero-trial answer is not, in this run; finalists once more when none of them came back).
  void lost(const std::string& trace);

  // The cap on trials, if it is not options.trials: a study's shared budget moves it. Takes effect
  // at the next call of next().
  void set_trials(int trials) { cap_ = trials; }
  // How many more trials to expect of a shared budget, where that is fewer than the cap allows: the
  // last ones refine the best.
  void set_expected(int trials) { expected_ = trials; }
  // Nothing happens where results are taken in order, which is options.depth's.
  void set_depth(int depth) { options_.depth = in_order_ ? options_.depth : depth; }
  // No trials are issued any more; next come the zero-trial answer, if it is missing, and the
  // finalists. done() at once when there is nothing of these.
  void finish();

  bool takes_in_order() const { return in_order_; }
  bool done() const { return phase_ == SearchPhase::kDone; }
  SearchPhase phase() const { return phase_; }
  const SearchProgress& progress() const { return progress_; }  // stored ones included
  // Issued and not yet taken.
  int in_flight() const { return static_cast<int>(issued_.size()); }
  int trials_in_flight() const;
  const std::vector<CurvePoint>& curve() const { return curve_; }
  const Search& search() const { return search_; }

 private:
  struct Issued {
    uint64_t kernel_hash = 0;
    Origin origin = Origin::kDraft;
    int64_t batch = 0, place = 0;          // 0: adopted
    std::optional<Measurement> result;     // that waits for its turn
  };
  using IssuedRow = std::map<std::string, Issued>::iterator;
  bool complete() const;
  int trials_in_time(double elapsed_s) const;
  void advance(double elapsed_s);
  void count(const Measurement& m);
  void take_one(Measurement m);
  std::vector<IssuedRow> first_batch();
  int batches_out() const;
  bool has_turn(bool all) const;
  int trials_to_issue() const { return cap_ - progress_.trials - trials_in_flight(); }
  void learn();
  void settle();
  bool has_issued(Origin origin) const;
  void fill();
  absl::StatusOr<Batch> issue_some(double elapsed_s, int most);
  absl::StatusOr<Batch> issue_zero();
  Batch issue_trials(int most);
  Batch issue_finalists(double elapsed_s);
  int final_rounds(size_t finalists, double elapsed_s) const;
  void issue(const Batch& batch);

  SearchOptions options_;
  const bool in_order_;
  Search search_;
  int cap_;
  int expected_ = std::numeric_limits<int>::max(), in_time_ = std::numeric_limits<int>::max();
  SearchPhase phase_ = SearchPhase::kZeroTrial;
  std::map<std::string, Issued> issued_;   // by trace
  int64_t batches_ = 0, places_ = 0;       // issued so far
  std::vector<Proposal> ready_;            // proposed, not yet issued
  std::vector<Measurement> unlearned_;     // counted, not yet shown to the search
  SearchProgress progress_;
  int final_attempts_ = 0;
  bool zero_lost_ = false, exhausted_ = false, finishing_ = false;
  bool has_final_ = false;                 // since the last trial
  std::vector<CurvePoint> curve_;
};

}  // namespace lw
