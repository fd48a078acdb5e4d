// advance(): look (one consistent snapshot), catch up, queue.
//
// A job's results are stored before anybody hears of them, so what a search takes is always stored.
// Jobs that ended without a measurement of a candidate (nobody's fault) give it back to the search.
// Everything that this daemon writes for the study is fenced by the epoch under which it owns it.
#include "src/serve/study_search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/expr/message.h"
#include "src/lower/kernel.h"
#include "src/net/times.h"
#include "src/search/warm_start.h"
#include "src/serve/devices.h"
#include "src/serve/errors.h"
#include "src/serve/names.h"
#include "src/serve/studies.h"
#include "src/serve/study_jobs.h"
#include "src/serve/study_queue.h"
#include "tuner_db/best.h"
#include "tuner_db/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kBatch = 16;
constexpr double kNoLimit = 1e9;           // seconds
constexpr int64_t kFruitlessAdoptions = 3;
constexpr double kSwitchSeconds = 0.5;     // what a device needs to prepare another workload

// Said once, however often the study is taken up.
void note_last_resort(const std::string& why, StudyWorkloadRow* row) {
  if (why.empty()) return;
  const std::string note = last_resort_note(why);
  if (absl::StrContains(row->note, note)) return;
  row->note += row->note.empty() ? note : concat("; ", note);
}

}  // namespace

// A workload of the study; `run` is there while it is searched for.
struct StudySearch::Workload {
  StudyWorkloadRow row;
  std::unique_ptr<Task> task;
  std::unique_ptr<SearchRun> run;
  std::set<int64_t> shown;                 // measurements, by id: with several daemons a lesser id
                                           // may be committed after a greater one
  std::map<int64_t, std::vector<std::string>> out;  // traces of queued and leased jobs
  bool idle = false;                       // has nothing to issue until a result comes
};

struct StudySearch::Seen {
  StudyRow study;
  std::vector<StudyWorkloadRow> workloads;
  std::set<int64_t> open;                  // jobs queued and leased
  std::vector<JobRow> unknown;             // of them, in no workload's `out`
  int slots = 0;
};

StudySearch::StudySearch(const SearchSeat& seat, std::string study, int64_t owner_epoch, Stop stop)
    : seat_(seat), id_(std::move(study)), owner_epoch_(owner_epoch), stop_(std::move(stop)) {}
StudySearch::~StudySearch() = default;

absl::Status StudySearch::fenced(std::function<absl::Status(Database&, Changes*)> body) {
  auto changes = std::make_shared<Changes>();
  RETURN_IF_ERROR(seat_.commit([this, body, changes](Database& database) -> absl::Status {
    *changes = Changes();
    RETURN_IF_ERROR(database.query("UPDATE studies SET owner_until = owner_until WHERE id = ? AND "
                                   "owner = ? AND owner_epoch = ? "
                                   "AND state IN ('queued', 'running')",
                                   id_, seat_.owner, owner_epoch_).run());
    if (database.changes() != 1) return absl::AbortedError("the study is not ours any more");
    return body(database, changes.get());
  }));
  seat_.changed(*changes);
  return absl::OkStatus();
}

absl::StatusOr<StudySearch::Seen> StudySearch::look() {
  Seen seen;
  RETURN_IF_ERROR(seat_.database->read(5, [&]() -> absl::Status {
    seen = Seen();
    ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(*seat_.database, id_));
    if (!study) return absl::NotFoundError(study_name(id_));
    seen.study = *std::move(study);
    ASSIGN_OR_RETURN(seen.workloads, workloads_of(*seat_.database, id_));
    Query open = seat_.database->query("SELECT id FROM jobs WHERE study = ? AND state IN "
                                       "('queued', 'leased') ORDER BY id", id_);
    while (open.next()) seen.open.insert(open.integer(0));
    RETURN_IF_ERROR(open.status());
    for (int64_t id : seen.open) {
      const bool known = std::any_of(workloads_.begin(), workloads_.end(),
                                     [id](const auto& w) { return w->out.contains(id); });
      if (known) continue;
      ASSIGN_OR_RETURN(std::optional<JobRow> job, find_job(*seat_.database, id));
      if (job) seen.unknown.push_back(*std::move(job));
    }
    if (seen.study.device_target.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(seen.slots, slots_of(*seat_.database, seen.study.device_target,
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
  const absl::Status queued = queue_jobs(std::max(seen.slots, 1));
  if (queued.code() == absl::StatusCode::kAborted) return Next::kEnded;
  RETURN_IF_ERROR(queued);
  if (!has_advanced_.exchange(true) || row_.fruitless > 0) RETURN_IF_ERROR(note_fruitless(0));
  const bool all_done = std::all_of(workloads_.begin(), workloads_.end(),
                                    [](const auto& w) { return w->row.done; });
  if (!all_done) return Next::kWait;
  RETURN_IF_ERROR(end(v1::STUDY_STATE_SUCCEEDED, ""));
  return Next::kEnded;
}

absl::StatusOr<StudySearch::Next> StudySearch::fail(const std::string& reason) {
  const absl::Status ended = end(v1::STUDY_STATE_FAILED, reason);
  if (ended.code() != absl::StatusCode::kAborted) RETURN_IF_ERROR(ended);
  return Next::kEnded;
}

absl::Status StudySearch::note_fruitless(int64_t fruitless) {
  return fenced([this, fruitless](Database& database, Changes*) {
    return database.query("UPDATE studies SET fruitless = ? WHERE id = ?", fruitless, id_).run();
  });
}

// Whether it waits for a device again, since those that it had have gone. What they hold comes back
// to the queue, or as results, all the same.
absl::StatusOr<bool> StudySearch::gives_up(const Seen& seen) {
  const int64_t now_ms = seat_.now_ms();
  if (seen.slots > 0) {
    gone_since_ms_ = -1;
    return false;
  }
  if (gone_since_ms_ < 0) gone_since_ms_ = now_ms;
  if (now_ms - gone_since_ms_ < seat_.gone_ms) return false;
  RETURN_IF_ERROR(fenced([this](Database& database, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<StudyRow> study, find_study(database, id_));
    CHECK(study.has_value());
    return put_back(database, seat_, *study, "no device: its devices have gone", changes);
  }));
  return true;
}

// All or nothing, so that the next call begins again. A workload that cannot be searched for on
// this target closes with the reason; the others go on.
absl::Status StudySearch::begin_all(const Seen& seen) {
  began_ms_ = seat_.now_ms();
  states_.assign(seen.workloads.size(), WorkloadState());
  absl::Status status;
  for (const StudyWorkloadRow& row : seen.workloads) {
    Workload& workload = *workloads_.emplace_back(std::make_unique<Workload>());
    workload.row = row;
    states_[row.position].weight = row.weight;
    states_[row.position].closed = row.done;
    states_[row.position].time_kind = row.time_kind;
    states_[row.position].switch_s = kSwitchSeconds;
    if (row.done) continue;
    if (seat_.before_search) seat_.before_search(row_, stop_);
    status = begin(workload, seen);
    if (stop_.asked()) status = stop_.status("the search");
    const bool never = status.code() == absl::StatusCode::kInvalidArgument ||
                       status.code() == absl::StatusCode::kFailedPrecondition;
    if (never) status = close_workload(workload, std::string(status.message()));
    if (!status.ok()) break;
  }
  if (status.ok()) status = note_stored();
  if (!status.ok()) workloads_.clear();
  return status;
}

// Builds the search from what is stored and what is out.
absl::Status StudySearch::begin(Workload& workload, const Seen& seen) {
  const int position = workload.row.position;
  ASSIGN_OR_RETURN(Program program, parse_program(row_.spec.workloads(position).program(),
                                                  workload.row.name));
  ASSIGN_OR_RETURN(const Target target, seat_.store->target(row_.target));
  ASSIGN_OR_RETURN(Task task, make_task(std::move(program), workload.row.name, target,
                                        workload.row.threads));
  task.key = key_of(row_, workload.row);
  states_[position].group = task.workload.family;
  workload.task = std::make_unique<Task>(std::move(task));
  SearchOptions options;
  options.seed = row_.spec.seed();
  options.batch = row_.spec.batch() > 0 ? row_.spec.batch() : kBatch;
  options.trials = std::max(1, row_.spec.trials() / row_.spec.workloads_size());
  options.seconds = kNoLimit;
  options.time_kind = workload.row.time_kind;
  options.stop = stop_;
  workload.run = std::make_unique<SearchRun>(workload.task->start, options, make_xgboost_model());
  ASSIGN_OR_RETURN(const std::vector<Measurement> all,
                   seat_.store->measurements(workload.task->key));
  ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn,
                   seat_.store->withdrawn(workload.task->key));
  const std::vector<Measurement> stored = trusted(all, withdrawn);
  workload.run->resume(stored);
  workload.run->hint(unconfirmed_traces(all, options.time_kind));
  for (const Measurement& m : stored) record(states_[position], m);
  for (const Measurement& m : stored) workload.shown.insert(m.id);
  std::vector<IssuedProposal> issued;
  for (const JobRow& job : seen.unknown) {
    if (job.position != position) continue;
    std::vector<std::string>& traces = workload.out[job.id];
    for (int i = 0; i < job.payload.candidates_size(); ++i) {
      traces.push_back(job.payload.candidates(i).trace());
      issued.push_back({traces.back(), job.sources[i]});
    }
  }
  workload.run->adopt(issued);
  if (workload.run->wants_warm()) {
    ASSIGN_OR_RETURN(const std::vector<Trace> traces,
                     warm_traces(*seat_.store, workload.task->key));
    workload.run->warm_start(traces);
  }
  return absl::OkStatus();
}

// What was stored of the keys before the study counts, so that a repeated study is done at once.
absl::Status StudySearch::note_stored() {
  return fenced([&](Database& database, Changes*) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<StudyWorkloadRow> rows, workloads_of(database, id_));
    ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(database, id_));
    CHECK(study.has_value());
    study->trials = study->failed = 0;
    for (StudyWorkloadRow& row : rows) {
      if (const SearchRun* run = workloads_[row.position]->run.get(); run != nullptr) {
        row.trials = std::max(row.trials, run->trials());
        row.failed = std::max(row.failed, run->failed());
        if (row.best_us == 0) row.best_us = run->incumbent_us();
        if (row.zero_us == 0) row.zero_us = run->zero_us();
        note_last_resort(run->only_last_resort(), &row);
        RETURN_IF_ERROR(update_workload(database, row));
      }
      study->trials += row.trials;
      study->failed += row.failed;
    }
    return update_study(database, *study);
  });
}

void StudySearch::show(Workload& workload, const std::vector<Measurement>& fresh) {
  if (fresh.empty()) return;
  for (const Measurement& m : fresh) record(states_[workload.row.position], m);
  for (const Measurement& m : fresh) workload.shown.insert(m.id);
  workload.run->take(fresh);
  workload.idle = false;
}

// What came since the last time: results, and jobs that ended without. They are shown job by job, as
// if each had been seen as soon as it had ended: what is proposed does not depend on how often the
// study's turn comes.
absl::Status StudySearch::catch_up(const Seen& seen) {
  std::map<int64_t, Workload*> ended;
  for (const auto& workload : workloads_) {
    const bool was_done = workload->row.done;
    workload->row = seen.workloads[workload->row.position];
    if (was_done || workload->run == nullptr) continue;
    for (const auto& [job, traces] : workload->out) {
      if (!seen.open.contains(job)) ended[job] = workload.get();
    }
    for (const JobRow& job : seen.unknown) {
      if (job.position != workload->row.position) continue;
      for (const v1::CandidateSpec& candidate : job.payload.candidates()) {  // a job was split
        workload->out[job.id].push_back(candidate.trace());
      }
    }
  }
  std::map<const Workload*, std::vector<Measurement>> stored;  // with those of all jobs that ended
  for (const auto& [job, workload] : ended) {
    if (workload->run == nullptr) continue;
    const auto [known, is_new] = stored.try_emplace(workload);
    if (is_new) {
      ASSIGN_OR_RETURN(known->second, trusted_measurements(*seat_.store, workload->task->key));
    }
    catch_up(*workload, job, known->second);
    RETURN_IF_ERROR(queue_jobs(std::max(seen.slots, 1)));
  }
  return absl::OkStatus();
}

void StudySearch::catch_up(Workload& workload, int64_t job,
                           const std::vector<Measurement>& stored) {
  const std::vector<std::string> traces = std::move(workload.out.extract(job).mapped());
  const auto is_out = [&](const std::string& trace) {
    return std::any_of(workload.out.begin(), workload.out.end(), [&](const auto& other) {
      return std::count(other.second.begin(), other.second.end(), trace) > 0;
    });
  };
  std::vector<Measurement> fresh;
  for (const Measurement& m : stored) {
    if (!workload.shown.contains(m.id) && !is_out(m.trace)) fresh.push_back(m);
  }
  show(workload, fresh);
  for (const std::string& trace : traces) {
    if (!is_out(trace)) workload.run->lost(trace);  // nothing, if it was measured
  }
  workload.idle = false;
}

// What may still be issued of the study's trials.
int64_t StudySearch::count_left() {
  for (size_t i = 0; i < workloads_.size(); ++i) {
    const SearchRun* run = workloads_[i]->run.get();
    states_[i].in_flight = run == nullptr ? 0 : run->trials_in_flight();
  }
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
    candidates[i].closed = w.row.done || w.idle || w.run == nullptr;
    if (candidates[i].closed) continue;
    if (w.run->phase() != SearchPhase::kTrials) return i;
  }
  SharedBudget budget;
  budget.trials = row_.spec.trials();
  return choose(candidates, budget, 0, current_, allocation());
}

absl::Status StudySearch::queue_jobs(int slots) {
  int64_t out = 0;
  const bool over = is_over();
  const AllocateOptions options = allocation();
  const auto close_if_done = [this](Workload& w) -> absl::Status {
    if (w.run == nullptr || !w.run->done() || !w.out.empty()) return absl::OkStatus();
    return close_workload(w, w.run->incumbent_us() > 0 ? "" : "nothing valid was found");
  };
  for (size_t i = 0; i < workloads_.size(); ++i) {
    Workload& w = *workloads_[i];
    int64_t candidates = 0;                // their batches are counted, however many jobs they make
    for (const auto& [job, traces] : w.out) candidates += static_cast<int64_t>(traces.size());
    out += (candidates + options.batch - 1) / options.batch;
    if (w.row.done || w.run == nullptr) continue;
    if (over || !is_open(states_[i], options)) w.run->finish();
    w.run->set_depth(std::max(1, slots));
    RETURN_IF_ERROR(close_if_done(w));
  }
  while (out < slots) {
    const int64_t left = count_left();
    const int chosen = next_workload();
    if (chosen < 0) break;
    Workload& w = *workloads_[chosen];
    w.run->set_trials(static_cast<int>(
        std::min<int64_t>(1 << 30, w.run->trials() + w.run->trials_in_flight() + left)));
    ASSIGN_OR_RETURN(const bool queued, queue_batch(w, static_cast<int>(std::min<int64_t>(
                                                           std::max<int64_t>(left, 1), 1 << 30))));
    if (queued) {
      ++out;
      current_ = chosen;
      continue;
    }
    w.idle = true;
    RETURN_IF_ERROR(close_if_done(w));
  }
  // While devices are busy, the next batch can be thought of.
  if (current_ >= 0 && slots > 1 && !workloads_[current_]->row.done) {
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
  std::vector<JobRow> jobs =
      jobs_of(row_, w.row, *w.task->target, *batch, seat_.rules.slice_s, seat_.now_ms());
  const absl::Status stored = fenced([&](Database& database, Changes* changes) -> absl::Status {
    for (JobRow& job : jobs) {
      ASSIGN_OR_RETURN(job.id, insert_job(database, job));
      changes->queued.insert(job.target);
    }
    return absl::OkStatus();
  });
  if (!stored.ok()) {
    for (const Proposal& proposal : batch->proposals) w.run->lost(proposal.text);
    return stored;
  }
  for (const JobRow& job : jobs) {
    for (const v1::CandidateSpec& candidate : job.payload.candidates()) {
      w.out[job.id].push_back(candidate.trace());
    }
  }
  return true;
}

absl::Status StudySearch::close_workload(Workload& w, const std::string& note) {
  RETURN_IF_ERROR(stop_.status("the search"));
  RETURN_IF_ERROR(fenced([&](Database& database, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<StudyWorkloadRow> rows, workloads_of(database, id_));
    StudyWorkloadRow row = rows[w.row.position];
    row.done = true;
    if (w.run != nullptr) note_last_resort(w.run->only_last_resort(), &row);  // known by now
    row.note += row.note.empty() || note.empty() ? note : concat("; ", note);
    RETURN_IF_ERROR(update_workload(database, row));
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
    return add_event(database, id_, seat_.now_ms(), std::move(event));
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
  return fenced([&](Database& database, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(database, id_));
    CHECK(study.has_value());
    return end_study(database, *study, state, error, seat_.now_ms(), changes);
  });
}

}  // namespace lw
