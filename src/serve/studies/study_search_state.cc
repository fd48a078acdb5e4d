// What is known of each workload: its search is built from what is stored when it is first chosen, kept
// up with what is new, let go when there are many, and built again.
#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "cost_model/trees/learned.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/measure/judge/plausible.h"
#include "src/search/warm_start.h"
#include "src/serve/studies/study_search_impl.h"
#include "tuner_db/best.h"
#include "tuner_db/origin.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kNoLimit = 1e9;           // seconds
constexpr double kSwitchSeconds = 0.5;     // what a device needs to prepare another workload
constexpr int kMostKept = 16;              // searches of a study: megabytes each, with their models
constexpr int kMostDeadJobs = 5;           // of a workload, in a row
constexpr int64_t kSettledMs = 60'000;     // far more than a transaction lives
constexpr int64_t kUnsettled = 50'000;     // more ids than are given out meanwhile

}  // namespace

void note_last_resort(const std::string& why, StudyWorkloadRow* row) {
  if (why.empty()) return;
  const std::string note = last_resort_note(why);
  if (absl::StrContains(row->note, note)) return;
  row->note += row->note.empty() ? note : concat("; ", note);
}

// All or nothing, so that the next call begins again. Searches of workloads that have jobs are built
// now, the others when they are chosen.
absl::Status StudySearch::begin_all(const Seen& seen) {
  began_ms_ = seat_.now_ms();
  states_.assign(seen.workloads.size(), WorkloadState());
  std::set<int> have_jobs;
  for (const JobRow& job : seen.unknown) have_jobs.insert(job.position);
  for (const StudyWorkloadRow& row : seen.workloads) {
    Workload& workload = *workloads_.emplace_back(std::make_unique<Workload>());
    workload.row = row;
    states_[row.position].weight = row.weight;
    states_[row.position].closed = row.done;
    states_[row.position].time_kind = row.time_kind;
    states_[row.position].switch_s = kSwitchSeconds;
  }
  for (int position : have_jobs) {
    const bool is_known = position >= 0 && position < static_cast<int>(workloads_.size());
    const absl::Status status = !is_known || workloads_[position]->row.done
                                    ? absl::OkStatus()
                                    : begin(*workloads_[position], seen.unknown);
    if (!status.ok()) {
      workloads_.clear();
      return status;
    }
  }
  return absl::OkStatus();
}

// One that cannot be searched for on this target closes with the reason; the others go on.
absl::Status StudySearch::begin(Workload& workload, const std::vector<JobRow>& out) {
  if (seat_.before_search) seat_.before_search(row_, stop_);
  absl::Status status = build(workload, out);
  if (stop_.asked()) status = stop_.status("the search");
  const bool never = status.code() == absl::StatusCode::kInvalidArgument ||
                     status.code() == absl::StatusCode::kFailedPrecondition;
  if (never) return close_workload(workload, std::string(status.message()));
  if (status.ok()) status = note_stored(workload);
  if (!status.ok()) workload.run.reset();
  return status;
}

// Searches that wait for their turn are let go when there are many: they are rebuilt from what is
// stored. What is out, and whoever has yet to answer untuned, stays.
void StudySearch::let_go() {
  const int most = seat_.most_kept ? std::min(kMostKept, seat_.most_kept()) : kMostKept;
  std::vector<Workload*> idle;
  int kept = 0;
  for (const auto& workload : workloads_) {
    if (workload->run == nullptr) continue;
    ++kept;
    const bool may_go = workload->out.empty() && workload->run->in_flight() == 0 &&
                        workload->run->phase() == SearchPhase::kTrials &&
                        workload.get() != workloads_[std::max(current_, 0)].get();
    if (may_go) idle.push_back(workload.get());
  }
  std::sort(idle.begin(), idle.end(),
            [](const Workload* a, const Workload* b) { return a->turn < b->turn; });
  for (size_t i = 0; i < idle.size() && kept >= most; ++i, --kept) {
    idle[i]->run.reset();
    idle[i]->task.reset();
    idle[i]->held.clear();
    idle[i]->idle = false;
  }
}

// Builds the search from what is stored and what is out.
absl::Status StudySearch::build(Workload& workload, const std::vector<JobRow>& out) {
  const int position = workload.row.position;
  ASSIGN_OR_RETURN(Program program, parse_program(row_.spec.workloads(position).program(),
                                                  workload.row.name));
  ASSIGN_OR_RETURN(const Target target, seat_.store->target(row_.target));
  ASSIGN_OR_RETURN(Task task, make_task(std::move(program), workload.row.name, target,
                                        workload.row.threads));
  task = with_key(task, key_of(row_, workload.row));
  states_[position].group = task.workload().structure;
  workload.task = std::make_unique<Task>(std::move(task));
  SearchOptions options;
  options.seed = row_.spec.seed();
  options.batch = row_.spec.batch() > 0 ? row_.spec.batch() : kBatch;
  options.trials = std::max(1, row_.spec.trials() / row_.spec.workloads_size());
  options.seconds = kNoLimit;
  options.time_kind = workload.row.time_kind;
  options.stop = stop_;
  options.drafts = seat_.drafts;
  const Nest& start = workload.task->start();
  workload.run =
      std::make_unique<SearchRun>(start, options, learning_model(start));
  workload.floor = 0;
  workload.read.clear(), workload.marks.clear(), workload.held.clear();
  ASSIGN_OR_RETURN(const std::vector<Measurement> all, read_new(workload));
  ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn,
                   seat_.store->withdrawn(workload.task->key()));
  const std::vector<Measurement> stored = trusted(all, withdrawn);
  workload.run->resume(stored);
  workload.run->hint(unconfirmed_traces(all, options.time_kind));
  if (!std::exchange(workload.has_begun, true)) {
    for (const Measurement& m : stored) record(states_[position], m);
  }
  std::vector<IssuedProposal> issued;
  for (const JobRow& job : out) {
    if (job.position != position) continue;
    std::vector<std::string>& traces = workload.out[job.id];
    for (int i = 0; i < job.payload.candidates_size(); ++i) {
      traces.push_back(job.payload.candidates(i).trace());
      issued.push_back({traces.back()});
      parse_origin(job.sources[i], &issued.back().origin);
    }
  }
  workload.run->adopt(issued);
  if (workload.run->wants_warm()) {
    ASSIGN_OR_RETURN(const std::vector<Trace> traces,
                     warm_traces(*seat_.store, workload.task->key()));
    workload.run->warm_start(traces);
  }
  return absl::OkStatus();
}

// What others have measured of the key counts for the study's budget, so that a repeated study is done
// at once; it is told apart from the study's own. And what no result of it can be below, for those who
// take results: counted here, where it holds up nobody.
absl::Status StudySearch::note_stored(Workload& workload) {
  const Task& task = *workload.task;
  const double least_us = impossible_below_us(*task.program(), *task.target(), task.threads());
  return fenced([&, least_us](WriteTransaction& tx, Changes*) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<StudyWorkloadRow> rows, workloads_of(tx, id_));
    StudyWorkloadRow& row = rows[workload.row.position];
    const SearchProgress& known = workload.run->progress();
    row.known = std::max(0, known.trials - row.trials);
    row.least_us = least_us;
    if (row.best_us == 0) row.best_us = known.best_us;
    if (row.zero_us == 0) row.zero_us = known.zero_us;
    note_last_resort(workload.run->search().only_last_resort(), &row);
    return update_workload(tx, row);
  });
}

// What the store has of the key that was not read yet.
absl::StatusOr<std::vector<Measurement>> StudySearch::read_new(Workload& workload) {
  int64_t newest = 0;
  std::vector<Measurement> fresh;
  ASSIGN_OR_RETURN(std::vector<Measurement> found,
                   seat_.store->measurements_after(workload.task->key(), workload.floor, &newest));
  for (Measurement& m : found) {
    if (workload.read.insert(m.id).second) fresh.push_back(std::move(m));
  }
  if (!seat_.database->is_shared()) {
    workload.floor = std::max(workload.floor, newest);
  } else {
    const int64_t now_ms = seat_.now_ms();
    if (workload.marks.empty()) workload.floor = std::max(workload.floor, newest - kUnsettled);
    workload.marks.emplace_back(now_ms, newest);
    while (workload.marks.front().first < now_ms - kSettledMs) {
      workload.floor = std::max(workload.floor, workload.marks.front().second);
      workload.marks.pop_front();
    }
  }
  workload.read.erase(workload.read.begin(), workload.read.upper_bound(workload.floor));
  return fresh;
}

void StudySearch::show(Workload& workload, const std::vector<Measurement>& fresh) {
  if (fresh.empty() && !workload.run->takes_in_order()) return;
  for (const Measurement& m : workload.run->take(fresh)) {
    record(states_[workload.row.position], m);
  }
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
  std::set<const Workload*> read;          // with the results of all jobs that ended
  for (const auto& [job, workload] : ended) {
    if (workload->run == nullptr) continue;
    if (read.insert(workload).second) {
      ASSIGN_OR_RETURN(std::vector<Measurement> fresh, read_new(*workload));
      ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn,
                       seat_.store->withdrawn(workload->task->key()));
      fresh = trusted(std::move(fresh), withdrawn);
      std::move(fresh.begin(), fresh.end(), std::back_inserter(workload->held));
    }
    catch_up(*workload, job);
    RETURN_IF_ERROR(queue_jobs(std::max(seen.capacity.slots, 1)));
  }
  return absl::OkStatus();
}

void StudySearch::catch_up(Workload& workload, int64_t job) {
  const std::vector<std::string> traces = std::move(workload.out.extract(job).mapped());
  const auto is_out = [&](const std::string& trace) {
    return std::any_of(workload.out.begin(), workload.out.end(), [&](const auto& other) {
      return std::count(other.second.begin(), other.second.end(), trace) > 0;
    });
  };
  std::vector<Measurement> fresh, held;
  for (Measurement& m : workload.held) {
    (is_out(m.trace) ? held : fresh).push_back(std::move(m));
  }
  workload.held = std::move(held);
  show(workload, fresh);
  for (const std::string& trace : traces) {
    if (!is_out(trace)) workload.run->lost(trace);  // nothing, if it was measured
  }
  show(workload, {});
  workload.idle = false;
}

// Workloads that the study's devices cannot measure close, with the reason: all lack the memory, or
// job after job was given up. The others go on.
absl::Status StudySearch::close_hopeless(const Seen& seen) {
  for (const auto& w : workloads_) {
    const StudyWorkloadRow& row = seen.workloads[w->row.position];
    if (row.done || w->row.done) continue;
    std::string why;
    if (!may_hold(seen.capacity.memory, row.memory)) {
      why = absl::StrFormat("measuring it takes %.3g GB of memory, its devices have at most %.3g",
                            row.memory / 1e9, seen.capacity.memory / 1e9);
    } else if (row.dead_jobs >= kMostDeadJobs) {
      why = concat(row.dead_jobs, " jobs in a row were given up");
    }
    if (why.empty()) continue;
    std::string detail;
    RETURN_IF_ERROR(fenced([&](WriteTransaction& tx, Changes* changes) -> absl::Status {
      Query last = tx.query("SELECT detail FROM jobs WHERE study = ? AND state = 'dead' AND "
                            "position = ? ORDER BY id DESC LIMIT 1", id_, row.position);
      if (last.next()) detail = concat("; ", last.text(0));
      RETURN_IF_ERROR(last.status());
      Query held = tx.query("SELECT DISTINCT agent FROM jobs WHERE study = ? AND "
                            "position = ? AND state = 'leased'", id_, row.position);
      while (held.next()) changes->agents.insert(held.text(0));
      RETURN_IF_ERROR(held.status());
      return tx.query("UPDATE jobs SET state = 'cancelled', ended_ms = ? WHERE study = ? "
                      "AND position = ? AND state IN ('queued', 'leased')",
                      seat_.now_ms(), id_, row.position).run();
    }));
    w->out.clear();
    RETURN_IF_ERROR(close_workload(*w, concat(why, detail)));
  }
  return absl::OkStatus();
}

// Why nothing of any workload was measured; "": something was, or nothing says why not.
std::string StudySearch::why_nothing() const {
  std::string why;
  for (const auto& w : workloads_) {
    if (w->row.trials > 0 || w->row.best_us > 0) return "";
    if (why.empty() && !w->row.note.empty()) why = concat(w->row.name, ": ", w->row.note);
  }
  return why;
}

}  // namespace lw
