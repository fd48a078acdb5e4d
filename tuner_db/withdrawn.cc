#include "tuner_db/withdrawn.h"

#include "src/base/check.h"
#include "src/expr/message.h"
#include "tuner_db/invariants.h"
#include "tuner_db/ladder.h"

namespace lw {

absl::Status put_withdrawal(Database& database, const Withdrawal& withdrawal) {
  const Key& key = withdrawal.key;
  const std::string digest = record_digest(key, withdrawal.trace);
  return database.query("INSERT INTO withdrawn (digest, workload, target, backend, threads, cache, "
                        "objective, trace, reason, evidence, actor, time_ms) "
                        "VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (digest) DO UPDATE SET "
                        "reason = excluded.reason, evidence = excluded.evidence, "
                        "actor = excluded.actor, time_ms = excluded.time_ms",
                        digest, key.workload, key.target, key.backend, key.threads, key.cache,
                        key.objective, withdrawal.trace, withdrawal.reason, withdrawal.evidence,
                        withdrawal.actor, withdrawal.unix_ms).run();
}

absl::Status delete_withdrawal(Database& database, const Key& key, const std::string& trace) {
  const std::string digest = record_digest(key, trace);
  RETURN_IF_ERROR(database.query("DELETE FROM withdrawn WHERE digest = ?", digest).run());
  return database.changes() > 0 ? absl::OkStatus() : not_withdrawn(key);
}

absl::Status read_withdrawn(Database& database, const Key* key, std::vector<Withdrawal>* rows) {
  rows->clear();
  const std::string workload = key == nullptr ? "" : key->workload;
  Query query = database.query(
      concat(
          "SELECT workload, target, backend, threads, cache, objective, trace, reason, evidence, "
          "actor, time_ms FROM withdrawn WHERE ",
          key == nullptr ? "workload <> ?" : "workload = ?", " ORDER BY time_ms DESC, digest"),
      workload);
  while (query.next()) {
    Withdrawal row;
    row.key = {query.text(0), query.text(1), query.text(2), static_cast<int>(query.integer(3)),
               query.text(4), query.text(5)};
    row.trace = query.text(6);
    row.reason = query.text(7);
    row.evidence = query.text(8);
    row.actor = query.text(9);
    row.unix_ms = query.integer(10);
    if (key == nullptr || row.key == *key) rows->push_back(std::move(row));
  }
  return query.status();
}

absl::StatusOr<bool> is_withdrawn(Database& database, int64_t candidate) {
  Query query = database.query(
      "SELECT 1 FROM candidates c JOIN keys k ON k.id = c.key JOIN withdrawn w ON "
      "w.workload = k.workload AND w.target = k.target AND w.backend = k.backend AND "
      "w.threads = k.threads AND w.cache = k.cache AND w.objective = k.objective AND "
      "w.trace = c.trace WHERE c.id = ?", candidate);
  const bool found = query.next();
  RETURN_IF_ERROR(query.status());
  return found;
}

absl::Status no_such_trace(const Key& key) {
  return absl::NotFoundError(concat("no such trace was measured for ", describe(key)));
}

absl::Status not_withdrawn(const Key& key) {
  return absl::NotFoundError(concat("the record of ", describe(key), " is not withdrawn"));
}

}  // namespace lw
