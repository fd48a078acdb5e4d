// Studies, their workloads and their events.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/net/times.h"
#include "src/serve/rows/requests.h"
#include "src/serve/rows/rows.h"
#include "tuner_db/key_terms.h"
#include "tuner_db/tables/usage.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr char kStudies[] =
    "SELECT id, client, spec, state, priority, target, device_target, error, trials, failed, "
    "created_ms, updated_ms, ended_ms, owner, owner_epoch, owner_until, fruitless, actor, "
    "asked, threads, waiting, waiting_ms, wait_until, started_ms FROM studies ";

absl::StatusOr<StudyRow> study_of(const Transaction& tx, const Query& query) {
  StudyRow row;
  row.id = query.text(0);
  row.client = query.text(1);
  if (!row.spec.ParseFromString(query.text(2))) return damaged(tx, "study " + row.id);
  row.state = parse_state<v1::StudyState>(query.text(3));
  row.priority = static_cast<int>(query.integer(4));
  row.target = query.text(5);
  row.device_target = query.text(6);
  row.error = query.text(7);
  row.trials = static_cast<int>(query.integer(8));
  row.failed = static_cast<int>(query.integer(9));
  row.created_ms = query.integer(10);
  row.updated_ms = query.integer(11);
  row.ended_ms = query.integer(12);
  row.owner = query.text(13);
  row.owner_epoch = query.integer(14);
  row.owner_until = query.integer(15);
  row.fruitless = query.integer(16);
  row.actor = query.text(17);
  row.asked = query.text(18);
  row.threads = static_cast<int>(query.integer(19));
  row.waiting = query.text(20);
  row.waiting_ms = query.integer(21);
  row.wait_until = query.integer(22);
  row.started_ms = query.integer(23);
  return row;
}

}  // namespace

absl::Status damaged(const Transaction& tx, std::string_view what) {
  return absl::DataLossError(absl::StrCat(tx.database().path(), ": ", std::string(what),
                                          " cannot be read; see `loopwright db check`"));
}

Key key_of(const StudyRow& study, const StudyWorkloadRow& workload) {
  return {workload.workload, study.target, workload.backend, workload.threads, workload.cache,
          std::string(objective_name(Objective::kTime))};
}

absl::StatusOr<std::vector<StudyRow>> select_studies(Transaction& tx, std::string_view where,
                                                     const std::vector<Value>& values) {
  std::vector<StudyRow> rows;
  Query query = tx.query_values(absl::StrCat(kStudies, std::string(where)), values);
  while (query.next()) {
    if (query.bytes(3) == kDeleted) continue;
    ASSIGN_OR_RETURN(StudyRow row, study_of(tx, query));
    rows.push_back(std::move(row));
  }
  RETURN_IF_ERROR(query.status());
  return rows;
}

absl::StatusOr<std::optional<StudyRow>> find_study(Transaction& tx, std::string_view id) {
  ASSIGN_OR_RETURN(std::vector<StudyRow> rows, select_studies(tx, "WHERE id = ?", {id}));
  if (rows.empty()) return std::optional<StudyRow>();
  return std::optional<StudyRow>(std::move(rows[0]));
}

absl::Status insert_study(WriteTransaction& tx, const StudyRow& row) {
  const std::string spec = row.spec.SerializeAsString(), state = state_name(row.state),
                    digest = message_digest(row.spec);
  RETURN_IF_ERROR(add_use(tx, row.actor.empty() ? concat("client/", row.client) : row.actor,
                          {.studies = 1, .spec_bytes = static_cast<int64_t>(spec.size())}));
  return tx.query("INSERT INTO studies (id, client, spec, state, priority, target, "
                  "device_target, error, trials, failed, created_ms, updated_ms, ended_ms, "
                  "owner, owner_epoch, owner_until, actor, asked, threads, waiting, "
                  "waiting_ms, wait_until, spec_digest) "
                  "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                  row.id, row.client, Blob{spec}, state, row.priority, row.target,
                  row.device_target, row.error, row.trials, row.failed, row.created_ms,
                  row.updated_ms, row.ended_ms, row.owner, row.owner_epoch,
                  row.owner_until, row.actor, row.asked, row.threads, row.waiting,
                  row.waiting_ms, row.wait_until, digest).run();
}

absl::StatusOr<std::optional<StudyRow>> find_like(Transaction& tx, const StudyRow& row) {
  const std::string digest = message_digest(row.spec);
  ASSIGN_OR_RETURN(std::vector<StudyRow> rows,
                   select_studies(tx,
                                  "WHERE client = ? AND actor = ? AND spec_digest = ? AND "
                                  "state IN ('queued', 'running') ORDER BY id LIMIT 1",
                                  {as_value(row.client), as_value(row.actor), as_value(digest)}));
  return rows.empty() ? std::optional<StudyRow>() : std::optional<StudyRow>(std::move(rows[0]));
}

absl::Status update_study(WriteTransaction& tx, const StudyRow& row) {
  const std::string state = state_name(row.state);
  return tx.query("UPDATE studies SET state = ?, target = ?, device_target = ?, error = ?, "
                  "trials = ?, failed = ?, updated_ms = ?, ended_ms = ? WHERE id = ?",
                  state, row.target, row.device_target, row.error, row.trials, row.failed,
                  row.updated_ms, row.ended_ms, row.id).run();
}

absl::StatusOr<std::vector<StudyWorkloadRow>> workloads_of(Transaction& tx,
                                                           std::string_view study) {
  std::vector<StudyWorkloadRow> rows;
  Query query = tx.query(
      "SELECT study, position, name, workload, backend, threads, cache, weight, trials, failed, "
      "best_us, zero_us, busy_s, done, note, time_kind, measured, measured_s, known, given_us, "
      "dead_jobs, memory, least_us, looks, doubted FROM study_workloads "
      "WHERE study = ? ORDER BY position", study);
  while (query.next()) {
    StudyWorkloadRow& row = rows.emplace_back();
    row.study = query.text(0);
    row.position = static_cast<int>(query.integer(1));
    row.name = query.text(2);
    row.workload = query.text(3);
    row.backend = query.text(4);
    row.threads = static_cast<int>(query.integer(5));
    row.cache = query.text(6);
    row.weight = query.real(7);
    row.trials = static_cast<int>(query.integer(8));
    row.failed = static_cast<int>(query.integer(9));
    row.best_us = query.real(10);
    row.zero_us = query.real(11);
    row.busy_s = query.real(12);
    row.done = query.integer(13) != 0;
    row.note = query.text(14);
    if (!parse_time_kind(query.integer(15), &row.time_kind)) {
      return damaged(tx, absl::StrCat("study ", row.study));
    }
    row.measured = query.integer(16);
    row.measured_s = query.real(17);
    row.known = static_cast<int>(query.integer(18));
    row.given_us = query.real(19);
    row.dead_jobs = static_cast<int>(query.integer(20));
    row.memory = query.real(21);
    row.least_us = query.real(22);
    row.looks = static_cast<int>(query.integer(23));
    row.doubted = absl::StrSplit(query.text(24), ',', absl::SkipEmpty());
  }
  RETURN_IF_ERROR(query.status());
  return rows;
}

absl::Status insert_workload(WriteTransaction& tx, const StudyWorkloadRow& row) {
  return tx.query("INSERT INTO study_workloads (study, position, name, workload, backend, "
                  "threads, cache, weight, trials, failed, best_us, zero_us, busy_s, done, "
                  "note, time_kind, memory) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                  row.study, row.position, row.name, row.workload, row.backend, row.threads,
                  row.cache, row.weight, row.trials, row.failed, row.best_us, row.zero_us,
                  row.busy_s, row.done, row.note, static_cast<int>(row.time_kind),
                  row.memory).run();
}

absl::Status update_workload(WriteTransaction& tx, const StudyWorkloadRow& row) {
  return tx.query("UPDATE study_workloads SET backend = ?, threads = ?, trials = ?, "
                  "failed = ?, best_us = ?, zero_us = ?, busy_s = ?, done = ?, note = ?, "
                  "time_kind = ?, measured = ?, measured_s = ?, known = ?, "
                  "given_us = ?, dead_jobs = ?, least_us = ?, looks = ?, doubted = ? "
                  "WHERE study = ? AND position = ?",
                  row.backend, row.threads, row.trials, row.failed, row.best_us, row.zero_us,
                  row.busy_s, row.done, row.note, static_cast<int>(row.time_kind),
                  row.measured, row.measured_s, row.known, row.given_us, row.dead_jobs,
                  row.least_us, row.looks, absl::StrJoin(row.doubted, ","), row.study,
                  row.position).run();
}

absl::Status add_event(WriteTransaction& tx, std::string_view study, int64_t now_ms,
                       v1::StudyEvent event) {
  int64_t last = 0;
  {
    Query query = tx.query(
        "SELECT sequence FROM events WHERE study = ? ORDER BY sequence DESC LIMIT 1", study);
    if (query.next()) last = query.integer(0);
    RETURN_IF_ERROR(query.status());
  }
  event.set_sequence(last + 1);
  *event.mutable_time() = timestamp(now_ms);
  const std::string bytes = event.SerializeAsString();
  return tx.query("INSERT INTO events (study, sequence, event) VALUES (?,?,?)", study,
                  last + 1, Blob{bytes}).run();
}

absl::StatusOr<std::vector<v1::StudyEvent>> events_after(Transaction& tx, std::string_view study,
                                                         int64_t sequence,
                                                         int count) {
  std::vector<v1::StudyEvent> events;
  Query query = tx.query("SELECT event FROM events WHERE study = ? AND sequence > ? "
                         "ORDER BY sequence LIMIT ?", study, sequence, count);
  while (query.next()) {
    if (!events.emplace_back().ParseFromString(query.text(0))) {
      return damaged(tx, "an event");
    }
  }
  RETURN_IF_ERROR(query.status());
  return events;
}

}  // namespace lw
