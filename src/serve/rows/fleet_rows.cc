// Jobs, agents and devices.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/rows/rows.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

std::vector<std::string> split(const std::string& text) {
  return absl::StrSplit(text, ',', absl::SkipEmpty());
}

// ",a,b,": each between commas, to be found by LIKE.
std::string enclosed(const std::vector<std::string>& names) {
  return names.empty() ? "" : absl::StrCat(",", absl::StrJoin(names, ","), ",");
}

// "3:board-7,4:board-2": names have neither of the two characters.
std::string holders_text(const JobRow& row) {
  std::string text;
  for (const auto& [epoch, agent] : row.holders) {
    absl::StrAppend(&text, text.empty() ? "" : ",", epoch, ":", agent);
  }
  return text;
}

std::vector<std::pair<int64_t, std::string>> holders_of(const std::string& text) {
  std::vector<std::pair<int64_t, std::string>> holders;
  for (const std::string& one : split(text)) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(one, absl::MaxSplits(':', 1));
    auto& [epoch, agent] = holders.emplace_back(0, parts.second);
    if (!absl::SimpleAtoi(parts.first, &epoch)) holders.pop_back();
  }
  return holders;
}

template <class Row>
std::optional<Row> only(std::vector<Row> rows) {
  if (rows.empty()) return std::nullopt;
  return std::move(rows[0]);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> distinct_values(Transaction& tx, std::string_view table,
                                                         std::string_view column,
                                                         std::string_view where,
                                                         std::vector<Value> values) {
  std::vector<std::string> found;
  for (size_t i = 0, count = values.size(); i < count; ++i) values.push_back(values[i]);
  Query query = tx.query_values(
      concat("WITH RECURSIVE next(value) AS ("
             " SELECT min(", column, ") FROM ", table, " WHERE ", where,
             " UNION ALL"
             " SELECT (SELECT min(", table, ".", column, ") FROM ", table, " WHERE ", where,
             " AND ", table, ".", column, " > next.value) FROM next WHERE next.value IS NOT NULL)"
             " SELECT value FROM next WHERE value IS NOT NULL"),
      values);
  while (query.next()) found.push_back(query.text(0));
  RETURN_IF_ERROR(query.status());
  return found;
}

absl::StatusOr<int64_t> insert_job(WriteTransaction& tx, const JobRow& row) {
  const std::string state = state_name(row.state), payload = row.payload.SerializeAsString();
  const std::string sources = absl::StrJoin(row.sources, ","),
                    lost = absl::StrJoin(row.lost_on, ","), holders = holders_text(row),
                    avoid = enclosed(row.avoid);
  Query query = tx.query(
      "INSERT INTO jobs (study, position, client, target, state, priority, run_after, attempt, "
      "epoch, device, agent, session, lease_until, created_ms, ended_ms, candidates, payload, "
      "sources, lost_on, digest, detail, leased_ms, backend, holders, avoid, avoid_until) "
      "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) "
      "RETURNING id",
      row.study, row.position, row.client, row.target, state, row.priority, row.run_after,
      row.attempt, row.epoch, row.device, row.agent, row.session, row.lease_until, row.created_ms,
      row.ended_ms, row.candidates, Blob{payload}, sources, lost, row.digest, row.detail,
      row.leased_ms, row.backend, holders, avoid, row.avoid_until);
  int64_t id = 0;
  while (query.next()) id = query.integer(0);
  RETURN_IF_ERROR(query.status());
  return id;
}

absl::StatusOr<std::vector<JobRow>> select_jobs(Transaction& tx, std::string_view where,
                                                const std::vector<Value>& values) {
  std::vector<JobRow> rows;
  Query query = tx.query_values(
      absl::StrCat("SELECT id, study, position, client, target, state, priority, run_after, "
                   "attempt, epoch, device, agent, session, lease_until, created_ms, ended_ms, "
                   "candidates, payload, sources, lost_on, digest, detail, leased_ms, backend, "
                   "holders, avoid, avoid_until FROM jobs ",
                   std::string(where)),
      values);
  while (query.next()) {
    JobRow& row = rows.emplace_back();
    row.id = query.integer(0);
    row.study = query.text(1);
    row.position = static_cast<int>(query.integer(2));
    row.client = query.text(3);
    row.target = query.text(4);
    row.state = parse_state<v1::JobState>(query.text(5));
    row.priority = static_cast<int>(query.integer(6));
    row.run_after = query.integer(7);
    row.attempt = static_cast<int>(query.integer(8));
    row.epoch = query.integer(9);
    row.device = query.text(10);
    row.agent = query.text(11);
    row.session = query.text(12);
    row.lease_until = query.integer(13);
    row.created_ms = query.integer(14);
    row.ended_ms = query.integer(15);
    row.candidates = static_cast<int>(query.integer(16));
    if (!row.payload.ParseFromString(query.text(17))) {
      return damaged(tx, absl::StrCat("job ", row.id));
    }
    row.sources = split(query.text(18));
    row.lost_on = split(query.text(19));
    row.digest = query.text(20);
    row.detail = query.text(21);
    row.leased_ms = query.integer(22);
    row.backend = query.text(23);
    row.holders = holders_of(query.text(24));
    row.avoid = split(query.text(25));
    row.avoid_until = query.integer(26);
  }
  RETURN_IF_ERROR(query.status());
  return rows;
}

absl::StatusOr<std::optional<JobRow>> find_job(Transaction& tx, int64_t id) {
  ASSIGN_OR_RETURN(std::vector<JobRow> rows, select_jobs(tx, "WHERE id = ?", {id}));
  return only(std::move(rows));
}

absl::Status update_job(WriteTransaction& tx, const JobRow& row) {
  const std::string state = state_name(row.state), lost = absl::StrJoin(row.lost_on, ","),
                    holders = holders_text(row), avoid = enclosed(row.avoid);
  return tx.query("UPDATE jobs SET state = ?, run_after = ?, attempt = ?, epoch = ?, "
                  "device = ?, agent = ?, session = ?, lease_until = ?, ended_ms = ?, "
                  "lost_on = ?, digest = ?, detail = ?, leased_ms = ?, holders = ?, "
                  "avoid = ?, avoid_until = ? WHERE id = ?",
                  state, row.run_after, row.attempt, row.epoch, row.device, row.agent,
                  row.session, row.lease_until, row.ended_ms, lost, row.digest, row.detail,
                  row.leased_ms, holders, avoid, row.avoid_until, row.id).run();
}

absl::StatusOr<std::vector<AgentRow>> select_agents(Transaction& tx, std::string_view where,
                                                    const std::vector<Value>& values) {
  std::vector<AgentRow> rows;
  Query query = tx.query_values(
      absl::StrCat("SELECT id, sessions, version, labels, peer, seen_ms, losses, "
                   "session_number, left_ms FROM agents ",
                   std::string(where)),
      values);
  while (query.next()) {
    rows.push_back({query.text(0), split(query.text(1)), query.text(2), query.text(3),
                    query.text(4), query.integer(5), query.integer(6), query.integer(7),
                    query.integer(8)});
  }
  RETURN_IF_ERROR(query.status());
  return rows;
}

absl::StatusOr<std::optional<AgentRow>> find_agent(Transaction& tx, std::string_view id) {
  ASSIGN_OR_RETURN(std::vector<AgentRow> rows, select_agents(tx, "WHERE id = ?", {id}));
  return only(std::move(rows));
}

absl::Status put_agent(WriteTransaction& tx, const AgentRow& row) {
  const std::string sessions = absl::StrJoin(row.sessions, ",");
  return tx.query("INSERT INTO agents (id, sessions, version, labels, peer, seen_ms, "
                  "session_number, left_ms) VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (id) DO "
                  "UPDATE SET sessions = excluded.sessions, version = excluded.version, "
                  "labels = excluded.labels, peer = excluded.peer, "
                  "seen_ms = excluded.seen_ms, session_number = excluded.session_number, "
                  "left_ms = excluded.left_ms",
                  row.id, sessions, row.version, row.labels, row.peer, row.seen_ms,
                  row.session_number, row.left_ms).run();
}

absl::StatusOr<std::vector<DeviceRow>> select_devices(Transaction& tx, std::string_view where,
                                                      const std::vector<Value>& values) {
  std::vector<DeviceRow> rows;
  Query query = tx.query_values(
      absl::StrCat("SELECT id, agent, description, target, admission, reason, evidence, health, "
                   "failures, jobs_done, jobs_failed, seen_ms, left_ms, confirmed, contradicted "
                   "FROM devices ",
                   std::string(where)),
      values);
  while (query.next()) {
    DeviceRow& row = rows.emplace_back();
    row.id = query.text(0);
    row.agent = query.text(1);
    if (!row.description.ParseFromString(query.text(2))) {
      return damaged(tx, absl::StrCat("device ", row.id));
    }
    row.target = query.text(3);
    row.admission = parse_state<v1::DeviceAdmission>(query.text(4));
    row.reason = query.text(5);
    row.evidence = query.text(6);
    row.health = parse_state<v1::DeviceHealth>(query.text(7));
    row.failures = static_cast<int>(query.integer(8));
    row.jobs_done = query.integer(9);
    row.jobs_failed = query.integer(10);
    row.seen_ms = query.integer(11);
    row.left_ms = query.integer(12);
    row.confirmed = query.integer(13);
    row.contradicted = query.integer(14);
  }
  RETURN_IF_ERROR(query.status());
  return rows;
}

absl::StatusOr<std::optional<DeviceRow>> find_device(Transaction& tx, std::string_view id) {
  ASSIGN_OR_RETURN(std::vector<DeviceRow> rows, select_devices(tx, "WHERE id = ?", {id}));
  return only(std::move(rows));
}

absl::Status put_device(WriteTransaction& tx, const DeviceRow& row) {
  const std::string description = row.description.SerializeAsString();
  const std::string admission = state_name(row.admission), health = state_name(row.health);
  return tx.query("INSERT INTO devices (id, agent, description, target, admission, reason, "
                  "evidence, health, failures, jobs_done, jobs_failed, seen_ms, memory, "
                  "left_ms, confirmed, contradicted) "
                  "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET "
                  "agent = excluded.agent, description = excluded.description, "
                  "target = excluded.target, admission = excluded.admission, "
                  "reason = excluded.reason, evidence = excluded.evidence, "
                  "health = excluded.health, failures = excluded.failures, "
                  "jobs_done = excluded.jobs_done, jobs_failed = excluded.jobs_failed, "
                  "seen_ms = excluded.seen_ms, memory = excluded.memory, "
                  "left_ms = excluded.left_ms, "
                  "confirmed = excluded.confirmed, contradicted = excluded.contradicted",
                  row.id, row.agent, Blob{description}, row.target, admission, row.reason,
                  row.evidence, health, row.failures, row.jobs_done, row.jobs_failed,
                  row.seen_ms, row.description.memory_bytes(), row.left_ms, row.confirmed,
                  row.contradicted).run();
}

}  // namespace lw
