// A witness of the service's promises: remembers what was seen in the database, what agents and
// clients wrote down as acknowledged, and says what got lost, was there twice or became worse
// since.
//
//   Witness witness(url);
//   witness.look(journals, logs);         // at any moment, as often as wanted
//   EXPECT_EQ(witness.problems(), none)
//
// It reads one snapshot of the database on a connection of its own, read-only, while daemons work
// or lie dead. Logs are read first: what they acknowledge must be in the later snapshot.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/serve/messages/names.h"
#include "src/serve/rows/rows.h"
#include "tests/fleet/service_client.h"
#include "tests/support/service_processes.h"
#include "tuner_db/sql/database.h"

namespace lw {

class Witness {
 public:
  explicit Witness(std::string url, int most_attempts = 8)
      : url_(std::move(url)), most_attempts_(most_attempts) {}

  const std::vector<std::string>& problems() const { return problems_; }
  void problem(std::string text) {
    if (problems_.size() < 30 && told_.insert(text).second) problems_.push_back(std::move(text));
  }

  struct Counts {
    size_t studies = 0, jobs = 0, measurements = 0, events = 0, grants = 0, acknowledged = 0,
           orphans = 0;
    std::string text() const {
      return absl::StrCat(studies, " studies, ", jobs, " jobs, ", grants, " grants, ",
                          acknowledged, " acknowledged results, ", measurements,
                          " measurements, ", events, " events, ", orphans, " orphans");
    }
  };
  const Counts& counts() const { return counts_; }

  // From now on ended studies may be missing, or some of what they left behind: retention is at
  // work.
  void expect_forgetting() { forgets_ = true; }

  // `finished`: every client has had all its answers.
  void look(const std::vector<std::string>& journals, const std::vector<std::string>& logs,
            bool finished = false) {
    std::vector<JournalLine> said;
    for (const std::string& journal : journals) {
      for (JournalLine& line : read_journal(journal)) said.push_back(std::move(line));
    }
    read_agents(logs);
    absl::Status status = look_at_database(said, finished);
    if (!status.ok()) problem(absl::StrCat("the database cannot be read: ", status.ToString()));
    size_t wanted = 0;                     // by now: clients wrote on while we read
    for (const std::string& journal : journals) {
      for (const JournalLine& line : read_journal(journal)) {
        wanted += line.what == "want" && line.kind == "study";
      }
    }
    if (studies_.size() > wanted) {
      problem(absl::StrCat(studies_.size(), " studies, ", wanted, " were asked for"));
    }
  }

  std::string text() const {
    std::string all;
    for (const std::string& one : problems_) absl::StrAppend(&all, one, "\n");
    return all;
  }

 private:
  using Lease = std::pair<int64_t, int64_t>;  // job and epoch

  // What the agents were given and what they were told is stored.
  void read_agents(const std::vector<std::string>& logs) {
    std::map<Lease, std::string> grants;
    std::set<Lease> finished, given_up;
    stored_.clear();
    for (const std::string& log : logs) {
      for (const nlohmann::json& event : log_events(log)) {
        const std::string what = event["event"].get<std::string>();
        if (!event.contains("job") || !event.contains("epoch")) continue;
        const std::string job = event["job"].get<std::string>();
        const Lease lease = {*parse_job_name(job, "job"), event["epoch"].get<int64_t>()};
        if (what == "job_taken") {
          const std::string device = event["device"].get<std::string>();
          const auto [at, fresh] = grants.emplace(lease, device);
          // Who gave a lease up by its own clock, before anybody else did, may be given it again.
          if (!fresh && !(at->second == device && given_up.erase(lease) > 0)) {
            problem(absl::StrCat(job, " epoch ", lease.second, " was given to ", at->second,
                                 " and to ", device));
          }
        }
        if (what == "lease_lost") given_up.insert(lease);
        if (what == "job_finished") finished.insert(lease);
        if (what == "result_stored" && finished.contains(lease)) {
          const auto [at, fresh] = stored_.emplace(lease.first, lease.second);
          if (!fresh && at->second != lease.second) {
            problem(absl::StrCat(job, ": results of epochs ", at->second, " and ", lease.second,
                                 " were both stored"));
          }
        }
      }
    }
    counts_.grants = grants.size();
    counts_.acknowledged = stored_.size();
    newest_.clear();
    for (const auto& [lease, device] : grants) {
      newest_[lease.first] = std::max(newest_[lease.first], lease.second);
    }
  }

  absl::Status look_at_database(const std::vector<JournalLine>& said, bool finished) {
    DatabaseOptions options;
    options.read_only = true;
    ASSIGN_OR_RETURN(const std::shared_ptr<Database> database, open_database(url_, options));
    return database->read(30, [&](Transaction& tx) -> absl::Status {
      RETURN_IF_ERROR(look_at_studies(tx));
      RETURN_IF_ERROR(look_at_jobs(tx));
      RETURN_IF_ERROR(look_at_measurements(tx));
      return look_at_clients(tx, said, finished);
    });
  }

  absl::Status look_at_studies(Transaction& tx) {
    ASSIGN_OR_RETURN(const std::vector<StudyRow> rows, select_studies(tx, "", {}));
    std::map<std::string, StudyRow> now;
    for (const StudyRow& row : rows) now[row.id] = row;
    for (const auto& [id, before] : studies_) {
      const auto after = now.find(id);
      if (after == now.end()) {
        if (forgets_ && has_ended(before.state)) {
          gone_.insert(id);
        } else {
          problem(absl::StrCat("study ", id, " is lost"));
        }
        continue;
      }
      if (has_ended(before.state) && (after->second.state != before.state ||
                                      after->second.ended_ms != before.ended_ms ||
                                      after->second.trials != before.trials)) {
        problem(absl::StrCat("study ", id, " changed after its end"));
      }
      if (after->second.trials < before.trials) problem(absl::StrCat("trials of ", id, " fell"));
      if (after->second.owner_epoch < before.owner_epoch) {
        problem(absl::StrCat("owner epoch of ", id, " fell"));
      }
    }
    studies_ = std::move(now);
    counts_.studies = studies_.size(), counts_.events = 0;
    for (const auto& [id, study] : studies_) {
      RETURN_IF_ERROR(look_at_workloads(tx, id));
      RETURN_IF_ERROR(look_at_events(tx, id));
    }
    return absl::OkStatus();
  }

  absl::Status look_at_workloads(Transaction& tx, const std::string& id) {
    ASSIGN_OR_RETURN(std::vector<StudyWorkloadRow> rows, workloads_of(tx, id));
    std::vector<StudyWorkloadRow>& before = workloads_[id];
    if (!before.empty() && before.size() != rows.size()) {
      problem(absl::StrCat("study ", id, " has other workloads"));
    }
    for (size_t i = 0; i < std::min(rows.size(), before.size()); ++i) {
      if (before[i].best_us > 0 && !(rows[i].best_us > 0 && rows[i].best_us <= before[i].best_us)) {
        problem(absl::StrCat("best of ", id, " ", rows[i].name, " went from ", before[i].best_us,
                             " to ", rows[i].best_us));
      }
      if (rows[i].trials < before[i].trials) problem(absl::StrCat("trials of ", id, " fell"));
    }
    before = std::move(rows);
    return absl::OkStatus();
  }

  absl::Status look_at_events(Transaction& tx, const std::string& id) {
    ASSIGN_OR_RETURN(const std::vector<loopwright::v1::StudyEvent> events,
                     events_after(tx, id, 0, 1 << 20));
    std::vector<std::string>& before = events_[id];  // "": forgotten before it was seen
    std::map<std::string, double> best;
    int ends = 0;
    const bool may_forget = forgets_ && has_ended(studies_[id].state);
    const size_t first = may_forget && !events.empty() ? events[0].sequence() - 1 : 0;
    if (before.size() < first) before.resize(first);
    for (size_t k = 0; k < events.size(); ++k) {
      const loopwright::v1::StudyEvent& event = events[k];
      const std::string digest = KillableClient::event_digest(event);
      const size_t i = first + k;
      if (event.sequence() != static_cast<int64_t>(i) + 1) {
        problem(absl::StrCat("event ", i + 1, " of ", id, " is numbered ", event.sequence()));
      }
      if (i < before.size() && !before[i].empty() && before[i] != digest) {
        problem(absl::StrCat("event ", i + 1, " of ", id, " became another"));
      }
      if (i >= before.size()) before.push_back(digest);
      double& least = best[event.workload()];
      if (event.best_us() > 0 && !event.workload().empty()) {
        if (least > 0 && event.best_us() > least) {
          problem(absl::StrCat("events of ", id, ": the best of ", event.workload(), " rose"));
        }
        least = event.best_us();
      }
      ends += event.kind() == loopwright::v1::StudyEvent::KIND_ENDED;
    }
    if (first + events.size() < before.size()) problem(absl::StrCat("events of ", id, " are lost"));
    if (ends != static_cast<int>(has_ended(studies_[id].state))) {
      problem(absl::StrCat("study ", id, " has ", ends, " ends"));
    }
    counts_.events += events.size();
    return absl::OkStatus();
  }

  // A trace of a study's workload, in words: what its measurements are counted by.
  std::string subject(const Key& key, const std::string& trace) const {
    return absl::StrCat(key.workload, "|", key.target, "|", key.backend, "|", key.threads, "|",
                        key.cache, "|", trace);
  }

  absl::Status look_at_jobs(Transaction& tx) {
    ASSIGN_OR_RETURN(const std::vector<JobRow> rows, select_jobs(tx, "ORDER BY id", {}));
    done_.clear(), charged_.clear();
    std::map<int64_t, std::string> now_done;
    for (const JobRow& job : rows) {
      const std::string name = job_name(job.id);
      if (job.attempt > most_attempts_) problem(absl::StrCat(name, ": attempt ", job.attempt));
      if (job.epoch < newest_[job.id]) {
        problem(absl::StrCat(name, ": epoch ", newest_[job.id], " was given, its row says ",
                             job.epoch));
      }
      study_of_[job.id] = job.study;
      const auto stored = stored_.find(job.id);
      const bool done = job.state == loopwright::v1::JOB_STATE_DONE;
      if (stored != stored_.end() && !(done && job.epoch == stored->second)) {
        problem(absl::StrCat(name, ": the result of epoch ", stored->second,
                             " was acknowledged, but it is ", state_name(job.state), " epoch ",
                             job.epoch));
      }
      const auto study = studies_.find(job.study);
      if (study == studies_.end()) {
        if (!gone_.contains(job.study)) problem(absl::StrCat(name, " has no study"));
        continue;
      }
      const bool live = job.state == loopwright::v1::JOB_STATE_QUEUED ||
                        job.state == loopwright::v1::JOB_STATE_LEASED;
      if (live && has_ended(study->second.state)) {
        problem(absl::StrCat(name, " is live, its study has ended"));
      }
      if (done) now_done[job.id] = job.digest;
      const bool dead = job.state == loopwright::v1::JOB_STATE_DEAD && job.candidates == 1;
      if (!done && !dead) {
        traces_.erase(job.id);
        continue;
      }
      const Key key = key_of(study->second, workloads_[job.study].at(job.position));
      if (job.payload.candidates().empty() && forgets_) {
        if (!traces_.contains(job.id)) unsure_.insert(subject(key, ""));
        continue;
      }
      Measured& measured = traces_[job.id];
      measured = {done, {}};
      for (const auto& candidate : job.payload.candidates()) {
        measured.subjects.push_back(subject(key, candidate.trace()));
      }
    }
    // Also of the jobs that are forgotten.
    for (const auto& [id, job] : traces_) {
      for (const std::string& one : job.subjects) ++(job.done ? done_ : charged_)[one];
    }
    for (const auto& [id, digest] : ended_jobs_) {
      if (gone_.contains(study_of_[id])) now_done[id] = digest;
    }
    for (const auto& [id, digest] : ended_jobs_) {
      const auto at = now_done.find(id);
      if (at == now_done.end() || at->second != digest) {
        problem(absl::StrCat("the result of ", job_name(id), " is lost or another"));
      }
    }
    for (const auto& [id, epoch] : stored_) {
      if (!now_done.contains(id)) problem(absl::StrCat(job_name(id), " is lost"));
    }
    ended_jobs_ = std::move(now_done);
    counts_.jobs = rows.size();
    return absl::OkStatus();
  }

  // Each candidate of each finished job was measured once, and nothing else was.
  absl::Status look_at_measurements(Transaction& tx) {
    std::map<std::string, int64_t> measured;
    Query query = tx.query(
        "SELECT k.workload, k.target, k.backend, k.threads, k.cache, c.trace, count(*) "
        "FROM measurements m JOIN candidates c ON c.id = m.candidate JOIN keys k ON k.id = c.key "
        "WHERE m.source <> 'put' "
        "GROUP BY k.workload, k.target, k.backend, k.threads, k.cache, c.trace");
    counts_.measurements = 0;
    while (query.next()) {
      Key key;
      key.workload = query.text(0), key.target = query.text(1), key.backend = query.text(2);
      key.threads = static_cast<int>(query.integer(3)), key.cache = query.text(4);
      measured[subject(key, query.text(5))] = query.integer(6);
      counts_.measurements += static_cast<size_t>(query.integer(6));
    }
    RETURN_IF_ERROR(query.status());
    for (const auto& [what, count] : measured) {
      if (unsure_.contains(what.substr(0, what.rfind('|') + 1))) continue;
      const int64_t least = done_[what], most = least + charged_[what];
      if (count < least || count > most) {
        problem(absl::StrCat("measured ", count, " times, finished jobs say ", least, " to ", most,
                             ": ", what.substr(0, 8)));
      }
    }
    for (const auto& [what, count] : done_) {
      if (!measured.contains(what) && count > 0) problem("a finished job's measurement is lost");
    }
    Query orphans = tx.query("SELECT count(*) FROM orphans");
    if (orphans.next()) counts_.orphans = static_cast<size_t>(orphans.integer(0));
    return orphans.status();
  }

  absl::Status look_at_clients(Transaction& tx, const std::vector<JournalLine>& said,
                               bool finished) {
    std::map<std::string, int> puts;
    Query query = tx.query("SELECT environment FROM measurements WHERE source = 'put'");
    while (query.next()) ++puts[query.text(0)];
    RETURN_IF_ERROR(query.status());
    for (const auto& [environment, count] : puts) {
      if (count > 1) problem(absl::StrCat("put twice: ", environment));
    }
    std::map<std::string, std::string> answers;
    for (const JournalLine& line : said) {
      if (line.what == "wrong") problem(absl::StrCat("a client: ", line.rest));
      if (line.what == "saw") {
        const std::vector<std::string>& events = events_[line.kind.substr(8)];
        const size_t at = std::stoull(line.id);
        const bool is_known = at <= events.size() && !(forgets_ && events[at - 1].empty());
        if (at > events.size() || (is_known && events[at - 1] != line.rest)) {
          problem(absl::StrCat("a client saw another event ", at, " of ", line.kind));
        }
      }
      if (line.what == "ended" && !is_gone(line.kind) && !is_in(line.kind, line.id)) {
        problem(absl::StrCat(line.kind, " had ended as ", line.id));
      }
      if (line.what != "done") continue;
      const auto [answer, fresh] = answers.emplace(line.id, line.rest);
      if (!fresh && answer->second != line.rest) problem("two answers for one request id");
      if (line.kind == "study" && !is_gone(line.rest) && !studies_.contains(line.rest.substr(8))) {
        problem(absl::StrCat("acknowledged and lost: ", line.rest));
      }
      if (line.kind == "put" &&
          (line.rest != "1" || puts[absl::StrCat("{\"put\":\"", line.id, "\"}")] != 1)) {
        problem(absl::StrCat("put and lost, or stored twice: ", line.id));
      }
    }
    look_at_cancels(said);
    std::set<std::string> acknowledged;
    for (const JournalLine& line : said) {
      if (line.what == "done" && line.kind == "study") acknowledged.insert(line.rest);
    }
    if (finished && studies_.size() + gone_.size() != acknowledged.size()) {
      problem(absl::StrCat(studies_.size() + gone_.size(), " studies, ", acknowledged.size(),
                           " acknowledged"));
    }
    return absl::OkStatus();
  }

  bool is_in(const std::string& study, const std::string& state) {
    const auto at = studies_.find(study.substr(8));
    return at != studies_.end() && loopwright::v1::StudyState_Name(at->second.state) == state;
  }

  bool is_gone(const std::string& study) const { return gone_.contains(study.substr(8)); }

  void look_at_cancels(const std::vector<JournalLine>& said) {
    std::map<std::string, std::string> subjects;
    for (const JournalLine& line : said) {
      if (line.what == "want" && line.kind == "cancel") subjects[line.id] = line.rest;
      if (line.what != "done" || line.kind != "cancel") continue;
      if (!is_gone(subjects[line.id]) && !is_in(subjects[line.id], line.rest)) {
        problem(absl::StrCat(subjects[line.id], " was ", line.rest, " when it was cancelled"));
      }
    }
  }

  const std::string url_;
  const int most_attempts_;
  std::vector<std::string> problems_;
  std::set<std::string> told_;
  Counts counts_;
  std::map<int64_t, int64_t> stored_, newest_;  // by job: the epoch acknowledged, the newest given
  std::map<std::string, StudyRow> studies_;
  std::map<std::string, std::vector<StudyWorkloadRow>> workloads_;
  std::map<std::string, std::vector<std::string>> events_;
  std::map<int64_t, std::string> ended_jobs_, study_of_;  // by job: the result's digest, the study
  struct Measured {
    bool done = false;                     // else charged
    std::vector<std::string> subjects;
  };
  std::map<int64_t, Measured> traces_;     // of jobs that ended, as last seen
  std::map<std::string, int64_t> done_, charged_;  // how often jobs say that a trace was measured
  bool forgets_ = false;
  std::set<std::string> gone_, unsure_;    // studies; keys of which jobs were forgotten unseen
};

// The witness finds nothing wrong in the client's journal, the logs of so many agents (nth_agent)
// and the database.
inline void expect_sound(Witness& witness, const Processes& processes, int agents,
                         bool finished = false) {
  std::vector<std::string> logs;
  for (int i = 0; i < agents; ++i) logs.push_back(processes.log(nth_agent(i)));
  witness.look({processes.path("journal")}, logs, finished);
  ASSERT_EQ(witness.problems(), std::vector<std::string>()) << witness.text();
}

}  // namespace lw
