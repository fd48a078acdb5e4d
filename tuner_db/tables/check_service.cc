// "db check" of what the service keeps (schema_2.sql). Each invariant is one query for the rows
// that break it, so that a table larger than memory is read once and only defects come back;
// messages (studies' specs, jobs, devices, events, answers) are parsed one row at a time.
//
// Counters are compared with what they count: a study's with its workloads'; a workload's trials
// with its key's measurements, unless measurements were pruned, which the ids tell. What a study's
// events said about a best, its workload's row must not undercut.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "loopwright/v1/agent.pb.h"
#include "loopwright/v1/fleet.pb.h"
#include "loopwright/v1/schedule.pb.h"
#include "loopwright/v1/study.pb.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/invariants.h"
#include "tuner_db/record.h"
#include "tuner_db/tables/rows.h"
#include "tuner_db/tables/withdrawn.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;
using Lines = std::vector<std::string>;

// Rows that break a rule: the first column says which, the rule what is wrong.
struct Rule {
  const char* what;                        // of the row, before its name
  const char* problem;
  const char* sql;
};

constexpr Rule kRules[] = {
    {"study", "its state is none of the six",
     "SELECT id FROM studies WHERE state NOT IN "
     "('queued', 'running', 'succeeded', 'failed', 'cancelled', 'deleted')"},
    {"study", "it has ended without a time, or has a time without having ended",
     "SELECT id FROM studies WHERE (state IN ('queued', 'running')) = (ended_ms <> 0)"},
    {"study", "its counters are not the sums over its workloads",
     "SELECT s.id FROM studies s WHERE s.trials <> (SELECT coalesce(sum(w.trials), 0) FROM "
     "study_workloads w WHERE w.study = s.id) OR s.failed <> (SELECT coalesce(sum(w.failed), 0) "
     "FROM study_workloads w WHERE w.study = s.id)"},
    {"study", "its workloads are not numbered from 0 without gaps",
     "SELECT study FROM study_workloads GROUP BY study "
     "HAVING min(position) <> 0 OR max(position) <> count(*) - 1"},
    {"study", "a workload of it is not among the workloads",
     "SELECT DISTINCT sw.study FROM study_workloads sw LEFT JOIN workloads w ON w.id = sw.workload "
     "WHERE w.id IS NULL"},
    {"study", "a counter or time of a workload is negative, or a weight not positive",
     "SELECT DISTINCT study FROM study_workloads WHERE trials < 0 OR failed < 0 OR best_us < 0 OR "
     "zero_us < 0 OR busy_s < 0 OR measured < 0 OR measured_s < 0 OR NOT (weight > 0)"},
    {"job", "its state is none of the five",
     "SELECT id FROM jobs WHERE state NOT IN ('queued', 'leased', 'done', 'dead', 'cancelled')"},
    {"job", "it is leased without a device, an agent, a session, an attempt or an end of its lease",
     "SELECT id FROM jobs WHERE state = 'leased' AND (device = '' OR agent = '' OR session = '' OR "
     "attempt < 1 OR lease_until <= 0)"},
    {"job", "it waits and yet somebody holds it",
     "SELECT id FROM jobs WHERE state = 'queued' AND (device <> '' OR agent <> '' OR session <> "
     "'')"},
    {"job", "its epoch is below its attempts: a lease was not counted",
     "SELECT id FROM jobs WHERE epoch < attempt OR attempt < 0"},
    {"job", "it has ended without a time, or has a time without having ended",
     "SELECT id FROM jobs WHERE (state IN ('done', 'dead', 'cancelled') AND ended_ms = 0) OR "
     "(state IN ('queued', 'leased') AND ended_ms <> 0)"},
    {"job", "it is done without a lease or without the digest of its result",
     "SELECT id FROM jobs WHERE state = 'done' AND (epoch < 1 OR digest = '')"},
    {"job", "it belongs to no workload of a study",
     "SELECT j.id FROM jobs j LEFT JOIN study_workloads w ON w.study = j.study AND "
     "w.position = j.position WHERE w.study IS NULL"},
    {"job", "its study has ended, it has not",
     "SELECT j.id FROM jobs j JOIN studies s ON s.id = j.study WHERE j.state IN "
     "('queued', 'leased') AND s.ended_ms <> 0"},
    {"job", "it is leased to a device that is not there, or that is another agent's",
     "SELECT j.id FROM jobs j LEFT JOIN devices d ON d.id = j.device AND d.agent = j.agent "
     "WHERE j.state = 'leased' AND d.id IS NULL"},
    {"job", "it is leased to a device that has left",
     "SELECT j.id FROM jobs j JOIN devices d ON d.id = j.device WHERE j.state = 'leased' AND "
     "d.left_ms <> 0"},
    {"orphan", "its job is not there, or never had its epoch",
     "SELECT o.id FROM orphans o LEFT JOIN jobs j ON j.id = o.job "
     "WHERE j.id IS NULL OR o.epoch > j.epoch"},
    {"device", "its agent is not there",
     "SELECT d.id FROM devices d LEFT JOIN agents a ON a.id = d.agent WHERE a.id IS NULL"},
    {"device", "its target is not there",
     "SELECT d.id FROM devices d LEFT JOIN targets t ON t.id = d.target WHERE t.id IS NULL"},
    {"device", "its admission or health is no state there is",
     "SELECT id FROM devices WHERE admission NOT IN ('open', 'draining', 'quarantined', "
     "'pending', 'unsupported') OR "
     "health NOT IN ('ok', 'throttled', 'unhealthy')"},
    {"device", "it is quarantined without a reason",
     "SELECT id FROM devices WHERE admission = 'quarantined' AND reason = ''"},
    {"device", "a counter is negative",
     "SELECT id FROM devices WHERE failures < 0 OR jobs_done < 0 OR jobs_failed < 0"},
    {"study", "its events are not numbered without gaps from 1, or from the first that it keeps",
     "SELECT e.study FROM events e JOIN studies s ON s.id = e.study GROUP BY e.study, "
     "s.first_event HAVING min(e.sequence) <> s.first_event OR "
     "max(e.sequence) - min(e.sequence) + 1 <> count(*)"},
    {"study", "it has not ended and yet has forgotten events",
     "SELECT id FROM studies WHERE first_event < 1 OR (first_event > 1 AND ended_ms = 0)"},
    {"client", "what it has the service keep is not what is counted",
     "SELECT who FROM (SELECT client AS who, -studies AS study, -spec_bytes AS bytes, -unconfirmed "
     "AS measurement FROM client_usage UNION ALL SELECT CASE WHEN actor = '' THEN 'client/' || "
     "client ELSE actor END, 1, length(spec), 0 FROM studies UNION ALL SELECT actor, 0, 0, 1 FROM "
     "measurements WHERE counts = 0) AS uses GROUP BY who "
     "HAVING sum(study) <> 0 OR sum(bytes) <> 0 OR sum(measurement) <> 0"},
    {"request", "it has no id or its hash is no sha256",
     "SELECT id FROM requests WHERE id = '' OR length(hash) <> 64"},
    {"withdrawn record", "it has no reason or nobody withdrew it",
     "SELECT digest FROM withdrawn WHERE reason = '' OR actor = ''"},
    {"withdrawn_revision", "there is more than one",
     "SELECT id FROM withdrawn_revision WHERE id <> 1"},
    {"clock", "there is more than one", "SELECT id FROM clock WHERE id <> 1"},
};

// Only while no measurement was ever deleted: a workload cannot have counted more than its key has.
constexpr Rule kCounted[] = {
    {"study", "a workload counts more trials than its key has measurements",
     "SELECT DISTINCT w.study FROM study_workloads w JOIN studies s ON s.id = w.study "
     "WHERE w.trials > (SELECT count(*) FROM keys k JOIN candidates c ON c.key = k.id "
     "JOIN measurements m ON m.candidate = c.id WHERE k.workload = w.workload AND "
     "k.target = s.target AND k.threads = w.threads AND k.cache = w.cache AND "
     "k.backend = w.backend AND m.source NOT IN ('zero', 'finalist'))"},
    {"study", "a workload's best is below every verified measurement of its key",
     "SELECT DISTINCT w.study FROM study_workloads w JOIN studies s ON s.id = w.study "
     "WHERE w.best_us > 0 AND NOT EXISTS (SELECT 1 FROM keys k JOIN candidates c ON c.key = k.id "
     "JOIN measurements m ON m.candidate = c.id WHERE k.workload = w.workload AND "
     "k.target = s.target AND k.threads = w.threads AND k.cache = w.cache AND "
     "k.backend = w.backend AND m.verdict = 'ok' AND m.verified <> 0 AND m.time_us <= w.best_us)"},
};

void tell(Lines* lines, const std::string& what, const std::string& problem) {
  if (!problem.empty()) lines->push_back(absl::StrCat(what, ": ", problem));
}

// A number or a text, whichever the column is: one of the two readings is empty.
std::string name_in(const Query& row) {
  const std::string text = row.text(0);
  return text.empty() ? absl::StrCat(row.integer(0)) : text;
}

absl::Status check_rules(Transaction& tx, absl::Span<const Rule> rules, Lines* lines) {
  for (const Rule& rule : rules) {
    RETURN_IF_ERROR(tx.each(rule.sql, [&](const Query& row) {
      tell(lines, absl::StrCat(rule.what, " ", name_in(row)), rule.problem);
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::Status check_tables(Transaction& tx, Lines* lines) {
  return check_rules(tx, kRules, lines);
}

absl::Status check_counted(Transaction& tx, Lines* lines) {
  ASSIGN_OR_RETURN(const int64_t given, tx.database().last_given(tx, "measurements"));
  int64_t there = 0;
  {
    Query query = tx.query("SELECT count(*) FROM measurements");
    if (query.next()) there = query.integer(0);
    RETURN_IF_ERROR(query.status());
  }
  return there == given ? check_rules(tx, kCounted, lines) : absl::OkStatus();
}

absl::Status check_studies(Transaction& tx, Lines* lines) {
  return tx.each(
      "SELECT s.id, s.spec, (SELECT count(*) FROM study_workloads w WHERE w.study = s.id) "
      "FROM studies s ORDER BY s.id", [&](const Query& row) {
        const std::string name = absl::StrCat("study ", row.text(0));
        v1::StudySpec spec;
        if (!spec.ParseFromString(row.text(1))) {
          tell(lines, name, "its spec cannot be read");
        } else if (spec.workloads_size() != row.integer(2)) {
          tell(lines, name,
                 concat("its spec has ", spec.workloads_size(), " workloads, its rows ",
                        row.integer(2)));
        }
        return absl::OkStatus();
      });
}

int64_t count_of(std::string_view list) {
  return list.empty() ? 0 : 1 + std::count(list.begin(), list.end(), ',');
}

// Of a study that ended long ago the payloads may be forgotten.
absl::Status check_jobs(Transaction& tx, Lines* lines) {
  return tx.each(
      "SELECT j.id, j.payload, j.candidates, j.sources, s.ended_ms FROM jobs j "
      "LEFT JOIN studies s ON s.id = j.study ORDER BY j.id", [&](const Query& row) {
        const std::string name = absl::StrCat("job ", row.integer(0));
        const bool is_forgotten = row.bytes(1).empty() && row.integer(4) > 0;
        v1::Job job;
        if (!job.ParseFromString(row.text(1))) {
          tell(lines, name, "its payload cannot be read");
        } else if ((!is_forgotten && job.candidates_size() != row.integer(2)) ||
                   count_of(row.bytes(3)) != row.integer(2)) {
          tell(lines, name, "its candidates are not as many as its row says, or their sources");
        }
        return absl::OkStatus();
      });
}

absl::Status check_fleet(Transaction& tx, Lines* lines) {
  RETURN_IF_ERROR(tx.each(
      "SELECT id, description, evidence FROM devices ORDER BY id", [&](const Query& row) {
        const std::string name = absl::StrCat("device ", row.text(0));
        v1::Device device;
        if (!device.ParseFromString(row.text(1)))
          tell(lines, name, "its description cannot be read");
        const std::string evidence = row.text(2);
        if (!evidence.empty() && !nlohmann::json::accept(evidence)) {
          tell(lines, name, "its evidence is not JSON");
        }
        return absl::OkStatus();
      }));
  RETURN_IF_ERROR(tx.each("SELECT id, labels FROM agents ORDER BY id", [&](const Query& row) {
    if (!nlohmann::json::accept(row.text(1))) {
      tell(lines, absl::StrCat("agent ", row.text(0)), "its labels are not JSON");
    }
    return absl::OkStatus();
  }));
  return tx.each("SELECT id, result FROM orphans ORDER BY id", [&](const Query& row) {
    v1::JobResult result;
    if (!result.ParseFromString(row.text(1))) {
      tell(lines, absl::StrCat("orphan ", row.integer(0)), "its result cannot be read");
    }
    return absl::OkStatus();
  });
}

// What calls of this name answer with; nullptr: no such call.
const google::protobuf::Message* answer_of(const std::string& method) {
  for (const google::protobuf::FileDescriptor* file :
       {v1::StudySpec::descriptor()->file(), v1::Fleet::descriptor()->file(),
        v1::Schedule::descriptor()->file(), v1::Job::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const google::protobuf::MethodDescriptor* found = file->service(s)->FindMethodByName(method);
      if (found == nullptr) continue;
      return google::protobuf::MessageFactory::generated_factory()->GetPrototype(
          found->output_type());
    }
  }
  return nullptr;
}

absl::Status check_requests(Transaction& tx, Lines* lines) {
  std::map<std::string, const google::protobuf::Message*> known;
  return tx.each("SELECT id, method, response FROM requests", [&](const Query& row) {
    const std::string name = absl::StrCat("request ", row.text(0)), method = row.text(1);
    const auto [place, is_new] = known.emplace(method, nullptr);
    if (is_new) place->second = answer_of(method);
    if (place->second == nullptr) {
      tell(lines, name, concat("there is no method '", method, "'"));
    } else {
      const std::unique_ptr<google::protobuf::Message> answer(place->second->New());
      if (!answer->ParseFromString(row.text(2))) tell(lines, name, "its answer cannot be read");
    }
    return absl::OkStatus();
  });
}

// That events can be read and that a workload's best never rose, down to what its row says.
absl::Status check_events(Transaction& tx, Lines* lines) {
  using Named = std::pair<std::string, std::string>;  // a study and a workload's name
  std::map<Named, double> rows, best;
  std::set<Named> unknown;                 // names need not differ; or a best was none
  RETURN_IF_ERROR(tx.each(
      "SELECT study, name, best_us, corrected FROM study_workloads", [&](const Query& row) {
        const Named key(row.text(0), row.text(1));
        const bool is_new = rows.emplace(key, row.real(2)).second;
        if (!is_new || row.integer(3) != 0) unknown.insert(key);
        return absl::OkStatus();
      }));
  RETURN_IF_ERROR(tx.each(
      "SELECT study, sequence, event FROM events ORDER BY study, sequence", [&](const Query& row) {
        const std::string name = absl::StrCat("study ", row.text(0), ", event ", row.integer(1));
        v1::StudyEvent event;
        if (!event.ParseFromString(row.text(2))) {
          tell(lines, name, "it cannot be read");
          return absl::OkStatus();
        }
        if (event.sequence() != row.integer(1)) {
          tell(lines, name, concat("it says that it is number ", event.sequence()));
        }
        const Named key(row.text(0), event.workload());
        if (event.workload().empty() || event.best_us() <= 0 || unknown.contains(key)) {
          return absl::OkStatus();
        }
        const auto [place, is_new] = best.emplace(key, event.best_us());
        if (event.best_us() > place->second) tell(lines, name, "the best has become worse");
        place->second = event.best_us();
        return absl::OkStatus();
      }));
  for (const auto& [key, us] : best) {
    const auto row = rows.find(key);
    if (row == rows.end()) continue;
    if (row->second == 0 || row->second > us) {
      tell(lines, absl::StrCat("study ", key.first, ", workload ", key.second),
             "its best is above what its events have announced");
    }
  }
  return absl::OkStatus();
}

absl::Status check_withdrawn(Transaction& tx, Lines* lines) {
  std::vector<Withdrawal> rows;
  RETURN_IF_ERROR(read_withdrawn(tx, nullptr, &rows));
  std::set<std::string> digests;
  for (const Withdrawal& row : rows) digests.insert(record_digest(row.key, row.trace));
  for (const Withdrawal& row : rows) {
    const std::string name = absl::StrCat("withdrawn record of ", row.key.workload);
    tell(lines, name, defect(row.key));
    tell(lines, name, trace_defect(row.trace));
  }
  Query query = tx.query("SELECT digest FROM withdrawn");
  while (query.next()) {
    if (digests.contains(query.text(0))) continue;
    tell(lines, absl::StrCat("withdrawn record ", query.text(0)),
           "its digest is not that of its key and trace");
  }
  return query.status();
}

}  // namespace

absl::Status check_service(Transaction& tx, Lines* lines) {
  for (auto part : {check_tables, check_counted, check_studies, check_jobs, check_fleet,
                    check_requests, check_events, check_withdrawn}) {
    if (absl::Status status = part(tx, lines); !status.ok()) {
      if (status.code() != absl::StatusCode::kDataLoss) return status;
      lines->push_back(std::string(status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace lw
