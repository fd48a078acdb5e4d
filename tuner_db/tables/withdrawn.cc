#include "tuner_db/tables/withdrawn.h"

#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/invariants.h"
#include "tuner_db/ladder/withdrawn_list.h"
#include "tuner_db/record.h"
#include "tuner_db/tables/columns.h"
#include "tuner_db/tables/history.h"
#include "tuner_db/tables/pools.h"

namespace lw {
namespace {

// A row `w` of withdrawals and a row `k` of keys are of one key.
const std::string kOfKey = [] {
  std::string conditions;
  Key key;
  Key::fields(key, [&](FieldId field, auto&) {
    conditions += concat(conditions.empty() ? "" : " AND ", "w.", field.name, " = k.", field.name);
  });
  return conditions;
}();

const std::string kRows =
    concat("SELECT trace, reason, evidence, actor, time_ms, kernel_hash, ", column_names<Key>(),
           " FROM withdrawn ");

absl::Status read_rows(Query query, std::vector<Withdrawal>* rows) {
  while (query.next()) {
    rows->push_back({read_key_columns(query, 6), query.text(0), query.text(1), query.text(2),
                     query.text(3), query.integer(4), static_cast<uint64_t>(query.integer(5))});
  }
  return query.status();
}

absl::Status move_revision(WriteTransaction& tx) {
  return tx.run("INSERT INTO withdrawn_revision (id, revision) VALUES (1, 1) "
                "ON CONFLICT (id) DO UPDATE SET revision = withdrawn_revision.revision + 1");
}

struct Candidate {
  int64_t id = 0;
  uint64_t kernel_hash = 0;
};
// Of the key with this id. id = 0: there is none.
absl::StatusOr<Candidate> find_candidate(Transaction& tx, int64_t key, const std::string& trace) {
  Candidate found;
  Query query = tx.query("SELECT id, kernel_hash FROM candidates WHERE key = ? AND trace = ?",
                         key, trace);
  if (query.next()) found = {query.integer(0), static_cast<uint64_t>(query.integer(1))};
  RETURN_IF_ERROR(query.status());
  return found;
}

// The candidates that the withdrawal with this digest takes out; none if it is not there.
absl::StatusOr<std::vector<int64_t>> taken_out(Transaction& tx, int64_t key,
                                               const std::string& digest) {
  std::vector<int64_t> candidates;
  Query query = tx.query(
      "SELECT c.id FROM withdrawn w JOIN candidates c ON c.key = ? AND c.trace = w.trace "
      "WHERE w.digest = ? UNION SELECT c.id FROM withdrawn w JOIN candidates c ON c.key = ? AND "
      "c.kernel_hash = w.kernel_hash AND c.kernel_hash <> 0 WHERE w.digest = ? ORDER BY 1",
      key, digest, key, digest);
  while (query.next()) candidates.push_back(query.integer(0));
  RETURN_IF_ERROR(query.status());
  return candidates;
}

absl::Status pool_again(WriteTransaction& tx, int64_t key, const std::vector<int64_t>& candidates) {
  for (const int64_t candidate : candidates) {
    RETURN_IF_ERROR(update_pool(tx, candidate).status());
  }
  return candidates.empty() ? absl::OkStatus() : note_change(tx, key);
}

}  // namespace

absl::Status withdraw_trace(WriteTransaction& tx, Withdrawal withdrawal) {
  ASSIGN_OR_RETURN(const int64_t key, find_key_id(tx, withdrawal.key));
  ASSIGN_OR_RETURN(const Candidate candidate, find_candidate(tx, key, withdrawal.trace));
  if (candidate.id == 0) return no_such_trace(withdrawal.key);
  if (withdrawal.kernel_hash == 0) withdrawal.kernel_hash = candidate.kernel_hash;
  const std::string digest = record_digest(withdrawal.key, withdrawal.trace);
  ASSIGN_OR_RETURN(const std::vector<int64_t> before, taken_out(tx, key, digest));
  RETURN_IF_ERROR(put_withdrawal(tx, withdrawal));
  ASSIGN_OR_RETURN(const std::vector<int64_t> now, taken_out(tx, key, digest));
  RETURN_IF_ERROR(pool_again(tx, key, before));            // the kernel may be another than it was
  return pool_again(tx, key, now);
}

absl::Status restore_trace(WriteTransaction& tx, const Key& key, const std::string& trace) {
  ASSIGN_OR_RETURN(const int64_t id, find_key_id(tx, key));
  ASSIGN_OR_RETURN(const std::vector<int64_t> out, taken_out(tx, id, record_digest(key, trace)));
  RETURN_IF_ERROR(delete_withdrawal(tx, key, trace));
  return pool_again(tx, id, out);
}

absl::Status put_withdrawal(WriteTransaction& tx, const Withdrawal& withdrawal) {
  const std::string digest = record_digest(withdrawal.key, withdrawal.trace);
  RETURN_IF_ERROR(move_revision(tx));
  return tx.query(concat("INSERT INTO withdrawn (digest, trace, reason, evidence, actor, "
                         "time_ms, kernel_hash, ", column_names<Key>(), ") "
                         "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (digest) DO UPDATE "
                         "SET reason = excluded.reason, evidence = excluded.evidence, "
                         "actor = excluded.actor, time_ms = excluded.time_ms, kernel_hash = "
                         "CASE WHEN excluded.kernel_hash <> 0 THEN excluded.kernel_hash "
                         "ELSE withdrawn.kernel_hash END"),
                  digest, withdrawal.trace, withdrawal.reason, withdrawal.evidence,
                  withdrawal.actor, withdrawal.unix_ms, withdrawal.kernel_hash,
                  withdrawal.key).run();
}

absl::Status delete_withdrawal(WriteTransaction& tx, const Key& key, const std::string& trace) {
  const std::string digest = record_digest(key, trace);
  RETURN_IF_ERROR(tx.query("DELETE FROM withdrawn WHERE digest = ?", digest).run());
  return tx.changes() > 0 ? move_revision(tx) : not_withdrawn(key);
}

absl::Status list_withdrawn_digests(Transaction& tx, const std::vector<Key>& keys,
                                    std::vector<std::string>* digests) {
  digests->clear();
  constexpr char kLatestFirst[] = " ORDER BY time_ms DESC, digest";
  const auto take = [&](Query query) {
    while (query.next()) digests->push_back(query.text(0));
    return query.status();
  };
  if (keys.empty()) {
    return take(tx.query(concat("SELECT digest FROM withdrawn", kLatestFirst)));
  }
  for (const Key& key : keys) {
    RETURN_IF_ERROR(take(tx.query(
        concat("SELECT digest FROM withdrawn WHERE ", column_conditions<Key>(), kLatestFirst),
        key)));
  }
  return absl::OkStatus();
}

absl::Status find_withdrawn(Transaction& tx, const std::string& digest, Withdrawal* row) {
  std::vector<Withdrawal> rows;
  RETURN_IF_ERROR(read_rows(tx.query(concat(kRows, "WHERE digest = ?"), digest), &rows));
  if (rows.empty()) return absl::NotFoundError(concat("no record ", digest, " is withdrawn"));
  *row = std::move(rows[0]);
  return absl::OkStatus();
}

absl::Status read_withdrawn(Transaction& tx, const Key* key, std::vector<Withdrawal>* rows) {
  rows->clear();
  const std::string workload = key == nullptr ? "" : key->workload;
  const char* which = key == nullptr ? "workload <> ?" : "workload = ?";
  RETURN_IF_ERROR(read_rows(
      tx.query(concat(kRows, "WHERE ", which, " ORDER BY time_ms DESC, digest"), workload),
      rows));
  std::erase_if(*rows, [&](const Withdrawal& row) { return key != nullptr && row.key != *key; });
  return absl::OkStatus();
}

absl::Status read_withdrawn_digests(Transaction& tx, std::vector<WithdrawnDigests>* rows) {
  rows->clear();
  Query query = tx.query(concat("SELECT digest, kernel_hash, ", column_names<Key>(),
                                " FROM withdrawn"));
  while (query.next()) {
    const Key key = read_key_columns(query, 2);
    rows->push_back({key, query.text(0),
                     kernel_digest(key, static_cast<uint64_t>(query.integer(1)))});
  }
  return query.status();
}

absl::StatusOr<int64_t> read_withdrawn_revision(Transaction& tx) {
  Query query = tx.query("SELECT max(revision) FROM withdrawn_revision");
  const int64_t revision = query.next() ? query.integer(0) : 0;
  RETURN_IF_ERROR(query.status());
  return revision;
}

absl::StatusOr<bool> is_withdrawn(Transaction& tx, int64_t candidate, uint64_t kernel_hash) {
  Query query = tx.query(
      concat("SELECT 1 FROM candidates c JOIN keys k ON k.id = c.key JOIN withdrawn w ON ", kOfKey,
             " AND (w.trace = c.trace OR (w.kernel_hash <> 0 AND w.kernel_hash = ?)) "
             "WHERE c.id = ?"), kernel_hash, candidate);
  const bool found = query.next();
  RETURN_IF_ERROR(query.status());
  return found;
}

absl::StatusOr<bool> has_withdrawn(Transaction& tx, int64_t key) {
  Query query = tx.query(
      concat("SELECT 1 FROM keys k JOIN withdrawn w ON ", kOfKey, " WHERE k.id = ? LIMIT 1"), key);
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
