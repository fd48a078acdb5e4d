// Turns: a workload is chosen, gets a few batches, is drained, and the next is chosen.
//
// Measuring must not be disturbed, so that one workload measures at a time. When all of a turn is
// issued and the last batch still runs, the next workload is chosen already: if it is the same, the
// pipeline never runs dry; else it is drained. To prepare a measurer takes 0.2 to 0.5 s (tensors,
// references, workers), so measurers are kept, the least recently used dropped when memory is
// short, and the cost of a switch counts in the choice.
#include "src/search/suite.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <utility>

#include "src/base/check.h"
#include "src/search/local_loop.h"

namespace lw {
namespace {

constexpr double kPrepareSeconds = 0.4;    // of a measurer
constexpr double kTurnSeconds = 0.05;      // to turn to one that is kept
constexpr double kFinalShare = 0.06;       // of the seconds, kept for the finalists
constexpr int kUnbounded = std::numeric_limits<int>::max() / 2;
constexpr size_t kMostMeasurers = 8;       // each has worker processes

// Runs while its workload has the turn.
class Stopwatch {
 public:
  explicit Stopwatch(std::function<double()> now) : now_(std::move(now)) {}
  void start() { since_ = now_(); }
  void stop() { before_ = read(), since_ = -1; }
  double read() const { return since_ < 0 ? before_ : before_ + now_() - since_; }

 private:
  std::function<double()> now_;
  double before_ = 0, since_ = -1;
};

// A workload in its lane.
struct Lane {
  Lane(SuiteItem given, Store& store, const SuiteOptions& options)
      : item(std::move(given)), watch(options.now), state(item.state) {
    hooks.now = [this] { return watch.read(); };
    hooks.progress = item.progress;
    SearchOptions own = options.search;
    own.time_kind = state.time_kind;
    loop = std::make_unique<search::LocalLoop>(item.start, item.key, store, own,
                                               std::move(item.model), hooks);
  }

  SuiteItem item;
  Stopwatch watch;
  TuneHooks hooks;
  WorkloadState state;                     // of what is stored
  std::unique_ptr<search::LocalLoop> loop;
  std::unique_ptr<Measurer> measurer;
  absl::Status failure;                    // then it has no turn any more
  bool turned = false;                     // had a turn: by then others have something to start
                                           // from

  int in_flight() const { return failure.ok() ? loop->run().trials_in_flight() : 0; }
};

class Suite {
 public:
  Suite(std::vector<SuiteItem> items, Store& store, const SuiteOptions& options)
      : options_(options), began_(options.now()) {
    options_.allocate.batch = options_.search.batch;
    for (SuiteItem& item : items)
      lanes_.push_back(std::make_unique<Lane>(std::move(item), store, options_));
    const auto count = static_cast<double>(lanes_.size());
    budget_.trials = static_cast<int64_t>(options_.search.trials) *
                     static_cast<int64_t>(lanes_.size());
    seconds_ = options_.search.seconds * count;
    budget_.seconds = seconds_ * (1 - kFinalShare);
  }

  absl::StatusOr<std::vector<TuneResult>> run() {
    for (const auto& lane : lanes_) {
      // The shared budget ends the trials, not a cap of its own.
      lane->loop->run().set_trials(options_.search.trials == 0 ? 0 : kUnbounded);
      lane->loop->on_stored([&state = lane->state](const Measurement& m) { record(state, m); });
      RETURN_IF_ERROR(lane->loop->resume());
      lane->state.resumed = lane->state.trials;
    }
    for (int next = pick(-1); next >= 0;) {
      ASSIGN_OR_RETURN(next, turn(next));
    }
    RETURN_IF_ERROR(finals());
    return results();
  }

 private:
  bool interrupted() const { return options_.search.stop.asked(); }
  double elapsed() const { return options_.now() - began_; }

  std::vector<WorkloadState> states() const {
    std::vector<WorkloadState> all;
    for (const auto& lane : lanes_) {
      all.push_back(lane->state);
      all.back().in_flight = lane->in_flight();
      all.back().switch_s = lane->measurer == nullptr ? kPrepareSeconds : kTurnSeconds;
    }
    return all;
  }
  int pick(int current) {
    return interrupted() ? -1 : choose(states(), budget_, elapsed(), current, options_.allocate);
  }
  // What may still be issued.
  int left() const {
    int64_t spent = 0;
    for (const auto& lane : lanes_)
      spent += lane->state.trials + lane->in_flight();
    return static_cast<int>(std::clamp<int64_t>(budget_.trials - spent, 0, kUnbounded));
  }

  // A workload's share of what is left, for its search to know when to refine its best.
  void share(Lane& lane) {
    int open = 0;
    for (const auto& other : lanes_) open += is_open(other->state, options_.allocate);
    lane.loop->run().set_expected(left() / std::max(open, 1));
  }

  // Returns the next, or -1.
  absl::StatusOr<int> turn(int chosen) {
    absl::StatusOr<int> next = batches(chosen);
    if (next.ok()) return next;
    RETURN_IF_ERROR(give_up(chosen, next.status()));
    return pick(-1);
  }

  // What ended one search leaves the others their turns; what is the store's is returned.
  absl::Status give_up(int i, const absl::Status& error) {
    Lane& lane = *lanes_[i];
    lane.failure.Update(lane.loop->failure());
    if (lane.failure.ok()) return error;
    lane.watch.stop();
    lane.state.closed = true;
    lane.measurer = nullptr;
    recent_.remove(i);
    return absl::OkStatus();
  }

  // The chosen one's batches, as long as it is chosen again. Returns the next, or -1.
  absl::StatusOr<int> batches(int chosen) {
    Lane& lane = *lanes_[chosen];
    SearchRun& run = lane.loop->run();
    ASSIGN_OR_RETURN(Measurer* measurer, measurer_of(chosen));
    if (!std::exchange(lane.turned, true)) RETURN_IF_ERROR(lane.loop->warm_start());
    lane.watch.start();
    int next = chosen;
    int most = options_.search.batch;      // of this round, not yet issued
    while (next == chosen) {
      const int before = run.progress().trials + run.trials_in_flight();
      share(lane);
      RETURN_IF_ERROR(lane.loop->step(*measurer, 0, std::min(most, left())));
      if (interrupted() || elapsed() >= budget_.seconds) {
        RETURN_IF_ERROR(lane.loop->drain(*measurer));
        lane.watch.stop();
        return -1;
      }
      most -= run.progress().trials + run.trials_in_flight() - before;
      lane.state.closed = run.phase() > SearchPhase::kTrials;  // nothing is left to try
      const bool round_over = most <= 0 || left() == 0 || lane.state.closed;
      if (!round_over || run.phase() == SearchPhase::kZeroTrial) continue;
      next = pick(chosen);
      most = options_.search.batch;
    }
    while (run.in_flight() > 0 && !interrupted() && elapsed() < budget_.seconds)
      RETURN_IF_ERROR(lane.loop->step(*measurer, 0, 0));
    RETURN_IF_ERROR(lane.loop->drain(*measurer));
    lane.watch.stop();
    if (next < 0) next = pick(chosen);  // what was lost may be tried again
    return next;
  }

  absl::Status finals() {
    for (int i = 0; i < static_cast<int>(lanes_.size()) && !interrupted(); ++i) {
      if (!lanes_[i]->failure.ok()) continue;
      if (const absl::Status status = final(i); !status.ok()) RETURN_IF_ERROR(give_up(i, status));
    }
    return absl::OkStatus();
  }

  absl::Status final(int i) {
    Lane& lane = *lanes_[i];
    SearchRun& run = lane.loop->run();
    run.finish();
    if (run.done()) return absl::OkStatus();
    ASSIGN_OR_RETURN(Measurer* measurer, measurer_of(i));
    lane.watch.start();
    const double spent = std::max(options_.search.seconds * (1 - kFinalShare),
                                  options_.search.seconds - (seconds_ - elapsed()));
    while (!run.done() && !interrupted())
      RETURN_IF_ERROR(lane.loop->step(*measurer, std::min(spent, options_.search.seconds)));
    RETURN_IF_ERROR(lane.loop->drain(*measurer));
    lane.watch.stop();
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<TuneResult>> results() {
    std::vector<TuneResult> all;
    for (const auto& lane : lanes_) {
      ASSIGN_OR_RETURN(TuneResult result, lane->loop->result());
      const absl::Status& failure = lane->failure;
      const bool stopped = absl::IsCancelled(failure) || absl::IsDeadlineExceeded(failure);
      if (!stopped) result.failure = failure;
      all.push_back(std::move(result));
    }
    return all;
  }

  // Makes room first: a measurer confines the calling thread while it lives.
  absl::StatusOr<Measurer*> measurer_of(int i) {
    Lane& lane = *lanes_[i];
    recent_.remove(i);
    if (lane.measurer == nullptr) {
      int64_t bytes = lane.item.bytes;
      for (int other : recent_) bytes += lanes_[other]->item.bytes;
      while (!recent_.empty() &&
             (bytes > options_.memory_bytes || recent_.size() >= kMostMeasurers)) {
        bytes -= lanes_[recent_.back()]->item.bytes;
        lanes_[recent_.back()]->measurer = nullptr;
        recent_.pop_back();
      }
      lane.watch.start();
      absl::StatusOr<std::unique_ptr<Measurer>> made = lane.item.make_measurer();
      lane.watch.stop();
      if (!made.ok()) return lane.failure = made.status();
      lane.measurer = *std::move(made);
    }
    recent_.push_front(i);
    return lane.measurer.get();
  }

  SuiteOptions options_;
  const double began_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::list<int> recent_;                  // whose measurer is kept, the latest first
  SharedBudget budget_;
  double seconds_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<TuneResult>> tune_suite(std::vector<SuiteItem> items, Store& store,
                                                   const SuiteOptions& options) {
  return Suite(std::move(items), store, options).run();
}

}  // namespace lw
