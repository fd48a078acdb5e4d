// advance(): look (one consistent snapshot), catch up, queue.
//
// A job's results are stored before anybody hears of them, so what a search takes is always stored.
// Jobs that ended without a measurement of a candidate (nobody's fault) give it back to the search.
// Everything that this daemon writes for the study is fenced by the epoch under which it owns it.
#include "src/serve/studies/study_search_impl.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/kernel/kernel.h"
#include "src/net/times.h"
#include "src/search/warm_start.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/devices.h"
#include "src/serve/studies/studies.h"
#include "src/serve/studies/study_jobs.h"
#include "src/serve/studies/study_queue.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int64_t kFruitlessAdoptions = 3;

}  // namespace

StudySearch::StudySearch(const SearchSeat& seat, std::string study, int64_t owner_epoch, Stop stop)
    : seat_(seat), id_(std::move(study)), owner_epoch_(owner_epoch), stop_(std::move(stop)) {}
StudySearch::~StudySearch() = default;

absl::Status StudySearch::fenced(std::function<absl::Status(WriteTransaction&, Changes*)> body) {
  auto changes = std::make_shared<Changes>();
  RETURN_IF_ERROR(seat_.commit([this, body, changes](WriteTransaction& tx) -> absl::Status {
    *changes = Changes();
    RETURN_IF_ERROR(tx.query("UPDATE studies SET owner_until = owner_until WHERE id = ? AND "
                             "owner = ? AND owner_epoch = ? "
                             "AND state IN ('queued', 'running')",
                             id_, seat_.owner, owner_epoch_).run());
    if (tx.changes() != 1) return absl::AbortedError("the study is not ours any more");
    return body(tx, changes.get());
  }));
  seat_.changed(*changes);
  return absl::OkStatus();
}

absl::StatusOr<StudySearch::Seen> StudySearch::look() {
  Seen seen;
  RETURN_IF_ERROR(seat_.database->read(5, [&](Transaction& tx) -> absl::Status {
    seen = Seen();
    ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(tx, id_));
    if (!study) return absl::NotFoundError(study_name(id_));
    seen.study = *std::move(study);
    ASSIGN_OR_RETURN(seen.workloads, workloads_of(tx, id_));
    Query open = tx.query("SELECT id FROM jobs WHERE study = ? AND state IN "
                          "('queued', 'leased') ORDER BY id", id_);
    while (open.next()) seen.open.insert(open.integer(0));
    RETURN_IF_ERROR(open.status());
    for (int64_t id : seen.open) {
      const bool known = std::any_of(workloads_.begin(), workloads_.end(),
                                     [id](const auto& w) { return w->out.contains(id); });
      if (known) continue;
      ASSIGN_OR_RETURN(std::optional<JobRow> job, find_job(tx, id));
      if (job) seen.unknown.push_back(*std::move(job));
    }
    if (seen.study.device_target.empty()) return absl::OkStatus();
    if (seen.workloads.empty()) return damaged(tx, concat("study ", id_));
    ASSIGN_OR_RETURN(seen.capacity,
                     capacity_of(tx, seen.study.device_target, seen.workloads[0].backend,
                                 seat_.now_ms() - seat_.online_ms));
    return absl::OkStatus();
  }));
  return seen;
}

absl::StatusOr<StudySearch::Next> StudySearch::advance() {
  ASSIGN_OR_RETURN(Seen seen, look());
  const bool ours = seen.study.owner == seat_.owner && seen.study.owner_epoch == owner_epoch_;
  if (!ours || has_ended(seen.study.state)) return Next::kEnded;
  row_ = seen.study;
  if (row_.state == v1::STUDY_STATE_QUEUED) return Next::kEnded;  // another daemon put it back
  ASSIGN_OR_RETURN(const bool given_up, gives_up(seen));
  if (given_up) return Next::kEnded;
  if (first_) {
    if (row_.fruitless >= kFruitlessAdoptions) {
      return fail(concat("adopted ", row_.fruitless, " times without progress: its search ended the "
                         "daemon, or takes longer than the daemon lived"));
    }
    RETURN_IF_ERROR(note_fruitless(row_.fruitless + 1));  // unless we live to take it back
    first_ = false;
  }
  const absl::Status known = workloads_.empty() ? begin_all(seen) : catch_up(seen);
  if (known.code() == absl::StatusCode::kAborted) return Next::kEnded;
  RETURN_IF_ERROR(known);
  const absl::Status closed = close_hopeless(seen);
  if (closed.code() == absl::StatusCode::kAborted) return Next::kEnded;
  RETURN_IF_ERROR(closed);
  const absl::Status queued = queue_jobs(std::max(seen.capacity.slots, 1));
  if (queued.code() == absl::StatusCode::kAborted) return Next::kEnded;
  RETURN_IF_ERROR(queued);
  if (!has_advanced_.exchange(true) || row_.fruitless > 0) RETURN_IF_ERROR(note_fruitless(0));
  const bool all_done = std::all_of(workloads_.begin(), workloads_.end(),
                                    [](const auto& w) { return w->row.done; });
  if (!all_done) return Next::kWait;
  const std::string why = why_nothing();
  if (!why.empty()) return fail(why);
  RETURN_IF_ERROR(end(v1::STUDY_STATE_SUCCEEDED, ""));
  return Next::kEnded;
}

absl::StatusOr<StudySearch::Next> StudySearch::fail(const std::string& reason) {
  const absl::Status ended = end(v1::STUDY_STATE_FAILED, reason);
  if (ended.code() != absl::StatusCode::kAborted) RETURN_IF_ERROR(ended);
  return Next::kEnded;
}

absl::Status StudySearch::note_fruitless(int64_t fruitless) {
  return fenced([this, fruitless](WriteTransaction& tx, Changes*) {
    return tx.query("UPDATE studies SET fruitless = ? WHERE id = ?", fruitless, id_).run();
  });
}

// Whether it waits for a device again, since those that it had have gone. What they hold comes back
// to the queue, or as results, all the same.
absl::StatusOr<bool> StudySearch::gives_up(const Seen& seen) {
  const int64_t now_ms = seat_.now_ms();
  if (seen.capacity.slots > 0) {
    gone_since_ms_ = -1;
    return false;
  }
  if (gone_since_ms_ < 0) gone_since_ms_ = now_ms;
  if (now_ms - gone_since_ms_ < seat_.gone_ms) return false;
  RETURN_IF_ERROR(fenced([this](WriteTransaction& tx, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<StudyRow> study, find_study(tx, id_));
    CHECK(study.has_value());
    return put_back(tx, seat_, *study, "no device: its devices have gone", changes);
  }));
  return true;
}

// Of each workload, what is out now: the budget that others may have is what that leaves.
void StudySearch::note_in_flight() {
  for (size_t i = 0; i < workloads_.size(); ++i) {
    const SearchRun* run = workloads_[i]->run.get();
    states_[i].in_flight = run == nullptr ? 0 : run->trials_in_flight();
  }
}

// What may still be issued of the study's trials.
int64_t StudySearch::count_left() {
  note_in_flight();
  SharedBudget budget;
  budget.trials = row_.spec.trials();
  return trials_left(states_, budget);
}

bool StudySearch::is_over() const {
  int64_t trials = 0;
  for (const WorkloadState& state : states_) trials += state.trials;
  if (trials >= row_.spec.trials()) return true;
  if (!row_.spec.has_time_budget()) return false;
  double busy_s = 0;
  for (const auto& workload : workloads_) busy_s += workload->row.busy_s;
  return busy_s >= seconds_of(row_.spec.time_budget());
}

// One for all questions: a workload that is not chosen any more has to be finished.
AllocateOptions StudySearch::allocation() const {
  AllocateOptions options;
  options.batch = row_.spec.batch() > 0 ? row_.spec.batch() : kBatch;
  return options;
}

// Finals and zero trials first, which everybody gets; then the allocation's choice. -1: nobody.
int StudySearch::next_workload() const {
  const int count = static_cast<int>(workloads_.size());
  std::vector<WorkloadState> candidates = states_;
  for (int i = 0; i < count; ++i) {
    const Workload& w = *workloads_[i];
    candidates[i].closed = w.row.done || w.idle;
    if (candidates[i].closed) continue;
    if (w.run != nullptr) {
      if (w.run->phase() != SearchPhase::kTrials) return i;
    } else if (!w.has_begun || is_over() || !is_open(states_[i], allocation())) {
      return i;                            // its search is to answer untuned, or to end
    }
  }
  SharedBudget budget;
  budget.trials = row_.spec.trials();
  return choose(candidates, budget, 0, current_, allocation());
}

absl::Status StudySearch::queue_jobs(int slots) {
  int64_t out = 0;
  const AllocateOptions options = allocation();
  const auto set_pace = [&](size_t i) {
    SearchRun& run = *workloads_[i]->run;
    run.set_depth(std::max(1, slots));
    if (!is_over() && is_open(states_[i], options)) return;
    run.finish();
    show(*workloads_[i], {});              // nobody waits for his turn any more
  };
  const auto close_if_done = [this](Workload& w) -> absl::Status {
    if (w.run == nullptr || !w.run->done() || !w.out.empty()) return absl::OkStatus();
    std::string note = w.run->progress().best_us > 0 ? "" : "nothing valid was found";
    ASSIGN_OR_RETURN(const bool settled, confirm(w, &note));
    return settled ? close_workload(w, note) : absl::OkStatus();
  };
  for (size_t i = 0; i < workloads_.size(); ++i) {
    Workload& w = *workloads_[i];
    int64_t candidates = 0;                // their batches are counted, however many jobs they make
    for (const auto& [job, traces] : w.out) candidates += static_cast<int64_t>(traces.size());
    out += (candidates + options.batch - 1) / options.batch;
    if (w.row.done || w.run == nullptr) continue;
    set_pace(i);
    RETURN_IF_ERROR(close_if_done(w));
  }
  while (out < slots) {
    note_in_flight();                      // results have come, perhaps without a look at it here
    const int chosen = next_workload();
    if (chosen < 0) break;
    Workload& w = *workloads_[chosen];
    w.turn = ++turns_;
    if (w.run == nullptr) {
      let_go();
      RETURN_IF_ERROR(begin(w, {}));
      if (w.run == nullptr) continue;      // it has closed
    }
    set_pace(chosen);                      // by what has been taken since the last batch
    const int64_t left = count_left();
    w.run->set_trials(static_cast<int>(
        std::min<int64_t>(1 << 30, w.run->progress().trials + w.run->trials_in_flight() + left)));
    ASSIGN_OR_RETURN(const bool queued, queue_batch(w, static_cast<int>(std::min<int64_t>(
                                                           std::max<int64_t>(left, 1), 1 << 30))));
    if (queued) {
      ++out;
      current_ = chosen;
      show(w, {});
      continue;
    }
    w.idle = true;
    RETURN_IF_ERROR(close_if_done(w));
  }
  // Nor where nothing more can be issued.
  for (const auto& w : workloads_) {
    if (w->run == nullptr || !w->run->takes_in_order() || count_left() > 0) continue;
    w->run->set_trials(w->run->progress().trials + w->run->trials_in_flight());
    show(*w, {});
  }
  // While devices are busy, the next batch can be thought of.
  if (current_ >= 0 && slots > 1 && workloads_[current_]->run != nullptr) {
    workloads_[current_]->run->prepare();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> StudySearch::queue_batch(Workload& w, int most) {
  const double elapsed_s = 1e-3 * static_cast<double>(seat_.now_ms() - began_ms_);
  absl::StatusOr<Batch> batch = w.run->next(elapsed_s, most);
  if (absl::IsNotFound(batch.status())) {  // no schedule can be lowered
    RETURN_IF_ERROR(close_workload(w, std::string(batch.status().message())));
    return false;
  }
  RETURN_IF_ERROR(batch.status());
  if (batch->empty()) return false;
  absl::StatusOr<std::vector<std::string>> avoid = whom_to_avoid(w, *batch);
  const absl::Status stored =
      avoid.ok() ? queue_jobs_of(w, *batch, *std::move(avoid), false) : avoid.status();
  if (stored.ok()) return true;
  for (const Proposal& proposal : batch->proposals) w.run->lost(proposal.text);
  return stored;
}

// `is_look`: a comparison that the search has not asked for.
absl::Status StudySearch::queue_jobs_of(Workload& w, const Batch& batch,
                                        std::vector<std::string> avoid, bool is_look) {
  std::vector<JobRow> jobs =
      jobs_of(row_, w.row, *w.task->target(), batch, seat_.rules.slice_s, seat_.now_ms());
  RETURN_IF_ERROR(fenced([&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    for (JobRow& job : jobs) {
      job.avoid = avoid;
      job.avoid_until = avoid.empty() ? 0 : seat_.now_ms() + seat_.rules.confirm_ms;
      ASSIGN_OR_RETURN(job.id, insert_job(tx, job));
      changes->queued.insert(queue_of(job.target, job.backend));
    }
    if (!is_look) return absl::OkStatus();
    return tx.query("UPDATE study_workloads SET looks = looks + 1 WHERE study = ? AND "
                    "position = ?", id_, w.row.position).run();
  }));
  for (const JobRow& job : jobs) {
    for (const v1::CandidateSpec& candidate : job.payload.candidates()) {
      w.out[job.id].push_back(candidate.trace());
    }
  }
  return absl::OkStatus();
}

absl::Status StudySearch::close_workload(Workload& w, const std::string& note) {
  RETURN_IF_ERROR(stop_.status("the search"));
  // From now on it shows what look-ups give out: the pooled time, not the luckiest one.
  double given_us = 0;
  if (w.task != nullptr) {
    const absl::StatusOr<BestRow> best = seat_.store->best(w.task->key());
    const bool same = best.ok() && best->measurement.time_kind == w.row.time_kind;
    if (same) given_us = best->measurement.time_us;
  }
  RETURN_IF_ERROR(fenced([&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<StudyWorkloadRow> rows, workloads_of(tx, id_));
    StudyWorkloadRow row = rows[w.row.position];
    row.done = true;
    row.given_us = given_us;
    // It is known by now.
    if (w.run != nullptr) note_last_resort(w.run->search().only_last_resort(), &row);
    row.note += row.note.empty() || note.empty() ? note : concat("; ", note);
    w.row.note = row.note;
    RETURN_IF_ERROR(update_workload(tx, row));
    v1::StudyEvent event;
    event.set_kind(v1::StudyEvent::KIND_WORKLOAD_DONE);
    event.set_workload(row.name);
    event.set_best_us(row.best_us);
    event.set_time_kind(to_proto(row.time_kind));
    event.set_trials(row_.trials);
    event.set_state(row_.state);
    event.set_detail(row.note);
    event.set_elapsed_s(1e-3 * static_cast<double>(seat_.now_ms() - row_.created_ms));
    changes->studies.insert(id_);
    return add_event(tx, id_, seat_.now_ms(), std::move(event));
  }));
  w.row.done = true;
  states_[w.row.position].closed = true;
  w.run.reset();
  w.task.reset();
  return absl::OkStatus();
}

absl::Status StudySearch::end(v1::StudyState state, const std::string& error) {
  log(Level::kInfo, "study_ended",
      {{"study", id_}, {"state", state_name(state)}, {"error", error}});
  return fenced([&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(tx, id_));
    CHECK(study.has_value());
    return end_study(tx, *study, state, error, seat_.now_ms(), changes);
  });
}

}  // namespace lw
