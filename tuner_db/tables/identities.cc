#include "tuner_db/tables/identities.h"

#include <string>
#include <utility>
#include <vector>

#include "schedules/targets/identity.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "tuner_db/tables/pools.h"
#include "tuner_db/tables/rows.h"
#include "tuner_db/tables/withdrawn.h"

namespace lw {
namespace {

struct OldName {
  std::string id;
  Target target;
};

// Only those that something still goes by. A text that does not parse is for `db check` to report.
absl::Status read_old_names(Transaction& tx, std::vector<OldName>* names) {
  names->clear();
  Query query = tx.query(
      "SELECT id, text FROM targets WHERE id IN (SELECT target FROM keys UNION "
      "SELECT target FROM studies UNION SELECT target FROM withdrawn) ORDER BY id");
  while (query.next()) {
    absl::StatusOr<Target> target = read_target(query.text(1));
    if (target.ok() && target_id(*target) != query.text(0)) {
      names->push_back({query.text(0), *std::move(target)});
    }
  }
  return query.status();
}

using Rows = std::vector<std::pair<int64_t, std::string>>;

// The ids and texts that a query gives.
absl::StatusOr<Rows> rows_of(Query query) {
  Rows rows;
  while (query.next()) rows.emplace_back(query.integer(0), query.text(1));
  RETURN_IF_ERROR(query.status());
  return rows;
}

// All of one key's candidates to another.
absl::Status merge_keys(WriteTransaction& tx, int64_t from, int64_t to) {
  ASSIGN_OR_RETURN(const Rows candidates,
                   rows_of(tx.query("SELECT id, trace FROM candidates WHERE key = ? "
                                    "ORDER BY id", from)));
  for (const auto& [candidate, trace] : candidates) {
    ASSIGN_OR_RETURN(const Rows same,
                     rows_of(tx.query("SELECT id, trace FROM candidates WHERE key = ? AND "
                                      "trace = ?", to, trace)));
    if (same.empty()) {
      RETURN_IF_ERROR(tx.query("UPDATE candidates SET key = ? WHERE id = ?", to, candidate).run());
      continue;
    }
    RETURN_IF_ERROR(tx.query("UPDATE measurements SET candidate = ? WHERE candidate = ?",
                             same[0].first, candidate).run());
    RETURN_IF_ERROR(tx.query("DELETE FROM candidates WHERE id = ?", candidate).run());
  }
  return tx.query("DELETE FROM keys WHERE id = ?", from).run();
}

// Adds the keys that others were merged into.
absl::Status rename_keys(WriteTransaction& tx, const std::string& from, const std::string& to,
                         std::vector<int64_t>* merged) {
  ASSIGN_OR_RETURN(const Rows keys, rows_of(tx.query(
                                        "SELECT id, '' FROM keys WHERE target = ? ORDER BY id",
                                        from)));
  for (const auto& [key, unused] : keys) {
    ASSIGN_OR_RETURN(
        const Rows same,
        rows_of(tx.query(
            "SELECT b.id, '' FROM keys a JOIN keys b ON b.workload = a.workload AND b.target = ? "
            "AND b.backend = a.backend AND b.threads = a.threads AND b.cache = a.cache AND "
            "b.objective = a.objective WHERE a.id = ?", to, key)));
    if (same.empty()) {
      RETURN_IF_ERROR(tx.query("UPDATE keys SET target = ? WHERE id = ?", to, key).run());
      RETURN_IF_ERROR(note_change(tx, key));
    } else {
      RETURN_IF_ERROR(merge_keys(tx, key, same[0].first));
      merged->push_back(same[0].first);
    }
  }
  return absl::OkStatus();
}

absl::Status rename_withdrawn(WriteTransaction& tx, const std::string& from,
                              const std::string& to) {
  std::vector<Withdrawal> all;
  RETURN_IF_ERROR(read_withdrawn(tx, nullptr, &all));
  for (Withdrawal& row : all) {
    if (row.key.target != from) continue;
    RETURN_IF_ERROR(delete_withdrawal(tx, row.key, row.trace));
    row.key.target = to;
    RETURN_IF_ERROR(put_withdrawal(tx, row));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status adopt_identities(Database& database, double patience_s) {
  std::vector<OldName> names;
  RETURN_IF_ERROR(database.read(patience_s, [&](Transaction& tx) {
    return read_old_names(tx, &names);
  }));
  if (names.empty()) return absl::OkStatus();
  return database.write(patience_s, [&](WriteTransaction& tx) -> absl::Status {
    RETURN_IF_ERROR(read_old_names(tx, &names));
    std::vector<int64_t> merged;
    for (const OldName& name : names) {
      const std::string to = target_id(name.target);
      RETURN_IF_ERROR(tx.query("INSERT INTO targets (id, text) VALUES (?,?) ON CONFLICT DO NOTHING",
                               to, to_text(identity_of(name.target))).run());
      RETURN_IF_ERROR(rename_keys(tx, name.id, to, &merged));
      RETURN_IF_ERROR(rename_withdrawn(tx, name.id, to));
      RETURN_IF_ERROR(
          tx.query("UPDATE studies SET target = ? WHERE target = ?", to, name.id).run());
    }
    for (const int64_t key : merged) {
      ASSIGN_OR_RETURN(const Rows candidates,
                       rows_of(tx.query("SELECT id, '' FROM candidates WHERE key = ?", key)));
      for (const auto& [candidate, unused] : candidates) {
        RETURN_IF_ERROR(update_pool(tx, candidate).status());
      }
      RETURN_IF_ERROR(note_change(tx, key));
    }
    return absl::OkStatus();
  });
}

}  // namespace lw
