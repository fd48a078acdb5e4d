// Which schedule to try next: draft -> rank -> batch -> measure -> learn -> finish.
//
// The search is a step function: step(state, outcomes) -> batch. Its state is rebuilt from the seed
// and the stored measurements in order of arrival, so a tune, a suite, a durable study or remote
// agents drive the same function (SearchRun, steps.h) and an interrupted one resumes from what the
// database holds. Deterministic for a seed when outcomes are (null measurer). tune() below is the
// local loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cost_model/cost_model.h"
#include "loopwright/tuning.h"
#include "schedules/steps.h"
#include "src/base/clock.h"
#include "src/search/measurer.h"
#include "tuner_db/origin.h"
#include "tuner_db/store.h"

namespace lw {

struct Kernel;

// Candidates drafted in the first rounds together, where nobody says how many.
int usual_drafts();

struct SearchOptions : TuningOptions {
  // Of the times that the search compares and learns from; those of others that the key holds, or
  // that come, tell it nothing. tune() takes its measurer's.
  TimeKind time_kind = TimeKind::kMeasured;
  int batch = 16;
  int depth = 2;                           // batches in flight at once, at most
  int drafts = usual_drafts();
  bool use_draft = true, use_model = true, use_evolution = true, use_descent = true,
       use_warm = true, use_racing = true, use_parts = true;
  bool random_only = false;                // ablation: random sampling, nothing learned
  std::vector<Sketch> space;               // tests; empty: make_space(start)
  std::vector<std::string> hints;          // traces that are said to be fast, best first
  // Looked at in everything that takes long. Once it is asked every call returns soon, what a Search
  // then answers means nothing, and it is of no more use.
  Stop stop;
};

struct Proposal {
  Trace trace;
  std::string text;                        // to_text(trace)
  std::shared_ptr<const Kernel> kernel;
  std::vector<float> features;
  double draft_us = 0;
  Origin origin = Origin::kDraft;
  uint64_t kernel_hash = 0;                // hash(*kernel)
};

// The search of one workload on one target. Not thread-safe.
class Search {
 public:
  Search(Nest start, SearchOptions options, std::unique_ptr<Model> model);
  ~Search();
  // Takes results of earlier proposals (by trace text; unknown ones, from the database, are
  // replayed) and learns from them.
  void observe(const std::vector<Measurement>& results);
  // A proposal of an earlier process that is still in flight. Returns its kernel's hash; an error
  // when it no longer replays, is in flight, or (unless `again`) was measured before.
  absl::StatusOr<uint64_t> adopt(const std::string& trace, bool again);
  // Traces of similar workloads, nearest first: adapted to this one, they are tried early.
  void warm_start(const std::vector<Trace>& foreign);
  // Traces of this very workload that are said to be fast, best first: tried before anything else,
  // as they are, and then searched around; those that do not replay are ignored.
  void hint(const std::vector<std::string>& traces);
  // The next proposals, at most `count`, none of them measured or in flight before (by trace and by
  // kernel hash). `trials_left`: how many will still be proposed; the last ones descend. Empty:
  // nothing is left to try.
  std::vector<Proposal> propose(int count, int trials_left);
  // The best candidate without any measurement: the argmax of draft and model, among those that are
  // not slow to build. Under 0.1 s; of a program of many stages some tenths.
  // kNotFound: no schedule can be lowered, not even the last resort; says why.
  absl::StatusOr<Proposal> zero_trial();
  // Whether the latest draws were cut short, a program of many stages taking long: what else is
  // proposed before an answer is in delays it.
  bool rounds_are_long() const;
  // A finalist set: the statistically indistinguishable leaders, best first (at most `count`).
  std::vector<Proposal> finalists(int count);
  int64_t deduplicated() const;            // proposals dropped because an equal kernel was measured
  // Why nothing but the last resort (schedules/steps.h) is searched; "": the rules' sketches are.
  std::string only_last_resort() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same of a stored best, by its schedule alone.
std::string only_last_resort(const Nest& start, const Trace& best);

// That to whoever reads of a search, in a sentence.
std::string last_resort_note(const std::string& why);

struct CurvePoint {
  double wall_s;
  int trials;
  double best_us;
  std::string trace = {};
};
struct TuneResult {
  int trials = 0, failed = 0;
  int64_t deduped = 0;
  bool interrupted = false;                // options.stop was asked by somebody
  bool timed_out = false;                  // its time was over before the search had ended
  absl::Status failure;                    // in a suite: what ended this workload's search alone; no
                                           // schedule of it can be lowered, nothing be measured
  BestRow best;                            // verified; best.measurement.trace empty when none is
                                           // valid
  std::string only_last_resort;            // Search::only_last_resort()
  int parts = 0, part_trials = 0;          // searched on their own before, and their trials
  double zero_us = 0;                      // zero-trial answer, measured
  bool zero_verified = false;
  std::vector<CurvePoint> curve;           // verified incumbents
  double wall_s = 0;                       // of this run; in a suite, of the workload's turns
  double propose_s = 0, build_s = 0, measure_s = 0, learn_s = 0, store_s = 0;
};
// The clocks enter as arguments. `progress` is called after every acknowledged batch.
struct TuneHooks {
  std::function<double()> now;             // seconds since the process started
  std::function<int64_t()> unix_ms = lw::unix_ms;  // of the measurements
  std::function<void(const TuneProgress&)> progress;
};

// Runs the search until trials, seconds or options.stop; every outcome is stored (and so
// acknowledged) before it is counted. Resumes from the store. Store errors end the run at once and
// are returned. REQUIRES: the key claimed.
absl::StatusOr<TuneResult> tune(const Nest& start, const Key& key, Store& store, Measurer& measurer,
                                const SearchOptions& options, std::unique_ptr<Model> model,
                                const TuneHooks& hooks);

}  // namespace lw
