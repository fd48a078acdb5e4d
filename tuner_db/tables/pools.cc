// What needs care is `best`: it must not read every sample of a key, so append() keeps each trace's
// pooled statistics in `candidates`, in the same transaction. best() takes the median of the most
// sampled candidate from one index, the few candidates that are not above it from another, and
// gives just those to best_of(), which could not have chosen another (see best.h). With 10,000
// measurements of a key: 0.01 ms on the development machine.
#include "tuner_db/tables/pools.h"

#include <map>
#include <optional>
#include <set>

#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/best.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/tables/columns.h"
#include "tuner_db/tables/rows.h"
#include "tuner_db/tables/usage.h"
#include "tuner_db/tables/withdrawn.h"

namespace lw {
namespace {

absl::StatusOr<int64_t> insert(WriteTransaction& tx, int64_t candidate, const Measurement& m,
                               const std::string& digest) {
  static const std::string sql = [] {
    std::string columns = "candidate, digest";
    size_t count = 2;
    const Measurement any;
    Measurement::fields(any, [&](FieldId field, const auto&) {
      if (is_of_candidate(field)) return;
      columns += concat(", ", column_name(field));
      ++count;
    });
    return concat("INSERT INTO measurements (", columns, ") VALUES (", placeholders(count),
                  ") RETURNING id");
  }();
  Bindings values = {candidate, as_value(digest)};
  Measurement::fields(m, [&](FieldId field, const auto& value) {
    if (!is_of_candidate(field)) values.push_back(as_value(value));
  });
  Query query = tx.query_values(sql, values);
  const int64_t id = query.next() ? query.integer(0) : 0;
  RETURN_IF_ERROR(query.run());
  return id;
}

// Somebody whose word counts vouches for a measurement of a client's; whether that is news.
absl::StatusOr<bool> confirm(WriteTransaction& tx, int64_t id, const Measurement& m) {
  std::string client;
  {
    Query query = tx.query("SELECT actor FROM measurements WHERE id = ? AND counts = 0", id);
    const bool is_unconfirmed = query.next();
    if (is_unconfirmed) client = query.text(0);
    RETURN_IF_ERROR(query.status());
    if (!is_unconfirmed) return false;
  }
  RETURN_IF_ERROR(add_use(tx, client, {.unconfirmed = -1}));
  RETURN_IF_ERROR(tx.query("UPDATE measurements SET counts = 1, actor = ?, device = ? "
                           "WHERE id = ?", m.actor, m.device, id).run());
  return true;
}

// What a copy of a stored measurement adds: that it counts, or was annulled; whether that is news.
absl::StatusOr<bool> vouch(WriteTransaction& tx, int64_t id, const Measurement& m,
                           const std::string& digest) {
  RETURN_IF_ERROR(tx.query("UPDATE measurements SET digest = ? WHERE id = ? AND digest = ''",
                           digest, id).run());
  if (!m.counts) return false;
  ASSIGN_OR_RETURN(const bool changed, confirm(tx, id, m));
  if (m.annulled.empty()) return changed;
  RETURN_IF_ERROR(tx.query("UPDATE measurements SET annulled = ? WHERE id = ? AND "
                           "annulled = ''", m.annulled, id).run());
  return changed || tx.changes() > 0;
}

// Makes rows of `candidates` and remembers which have to be pooled again.
class Appending {
 public:
  Appending(WriteTransaction& tx, int64_t key) : tx_(tx), key_(key) {}

  // The trace's row, made of the measurement if it is not there: most traces are new and come once,
  // so their statistics are those of the one measurement.
  absl::StatusOr<int64_t> candidate_of(const Measurement& m, bool* is_new) {
    const Measurement* only = &m;
    const Pool p = pool({&only, 1});
    int64_t candidate = 0;
    {
      Query query = tx_.query(
          "INSERT INTO candidates (key, trace, samples, median_us, high_us, time_kind, eligible, "
          "kernel_hash) VALUES (?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING RETURNING id",
          key_, m.trace, p.samples, p.median_us, p.high_us, static_cast<int>(p.time_kind),
          p.eligible, p.kernel_hash);
      if (query.next()) candidate = query.integer(0);
      RETURN_IF_ERROR(query.run());
    }
    *is_new = candidate != 0;
    if (*is_new && p.eligible) {
      changed_ = true;
      if (!has_withdrawn_) {
        ASSIGN_OR_RETURN(has_withdrawn_, has_withdrawn(tx_, key_));
      }
      if (*has_withdrawn_) touch(candidate);  // its kernel may be out
    }
    if (*is_new) return candidate;
    Query query = tx_.query("SELECT id FROM candidates WHERE key = ? AND trace = ?", key_, m.trace);
    if (query.next()) candidate = query.integer(0);
    RETURN_IF_ERROR(query.status());
    return candidate;
  }

  void touch(int64_t candidate) { touched_.insert(candidate); }
  absl::StatusOr<int64_t> add(int64_t candidate, const Measurement& m, const std::string& digest) {
    if (!m.counts) ++unconfirmed_[m.actor];
    return insert(tx_, candidate, m, digest);
  }

  absl::Status finish() {
    for (const int64_t candidate : touched_) {
      ASSIGN_OR_RETURN(const bool moved, update_pool(tx_, candidate));
      changed_ |= moved;
    }
    for (const auto& [client, rows] : unconfirmed_) {
      RETURN_IF_ERROR(add_use(tx_, client, {.unconfirmed = rows}));
    }
    return changed_ ? note_change(tx_, key_) : absl::OkStatus();
  }

 private:
  WriteTransaction& tx_;
  int64_t key_;
  std::set<int64_t> touched_;
  std::map<std::string, int64_t> unconfirmed_;  // rows that are new, by who put them
  bool changed_ = false;
  std::optional<bool> has_withdrawn_;      // the key, once somebody has looked
};

}  // namespace

absl::Status append_measurements(WriteTransaction& tx, int64_t key,
                                 const std::vector<Measurement>& measurements,
                                 std::vector<int64_t>* ids) {
  ids->clear();
  Appending appending(tx, key);
  for (const Measurement& m : measurements) {
    bool is_new = false;
    ASSIGN_OR_RETURN(const int64_t candidate, appending.candidate_of(m, &is_new));
    if (!is_new && is_pooled(m)) appending.touch(candidate);
    ASSIGN_OR_RETURN(ids->emplace_back(), appending.add(candidate, m, measurement_digest(m)));
  }
  return appending.finish();
}

// A measurement that does not count pools nothing, so that it costs the same on every key.
absl::Status put_measurements(WriteTransaction& tx, int64_t key,
                              const std::vector<Measurement>& measurements,
                              std::vector<int64_t>* ids, int64_t* stored) {
  ids->clear();
  *stored = 0;
  Appending appending(tx, key);
  for (const Measurement& m : measurements) {
    bool is_new = false;
    ASSIGN_OR_RETURN(const int64_t candidate, appending.candidate_of(m, &is_new));
    const std::string digest = measurement_digest(m);
    int64_t same = 0;
    if (!is_new) {
      ASSIGN_OR_RETURN(same, find_same(tx, candidate, m, digest));
    }
    if (same == 0) {
      if (!is_new && is_pooled(m)) appending.touch(candidate);
      ASSIGN_OR_RETURN(same, appending.add(candidate, m, digest));
      ++*stored;
    } else {
      ASSIGN_OR_RETURN(const bool changed, vouch(tx, same, m, digest));
      if (changed) appending.touch(candidate);
      *stored += changed;
    }
    ids->push_back(same);
  }
  return appending.finish();
}

absl::StatusOr<bool> update_pool(WriteTransaction& tx, int64_t candidate) {
  std::vector<Measurement> rows;
  RETURN_IF_ERROR(read_candidate(tx, candidate, &rows));
  Pool p = pool(pointers(rows));
  if (p.eligible) {
    ASSIGN_OR_RETURN(const bool out, is_withdrawn(tx, candidate, p.kernel_hash));
    p.eligible = !out;
  }
  bool was_eligible = false;
  {
    Query query = tx.query("SELECT eligible FROM candidates WHERE id = ?", candidate);
    if (query.next()) was_eligible = query.integer(0) != 0;
    RETURN_IF_ERROR(query.status());
  }
  RETURN_IF_ERROR(tx.query("UPDATE candidates SET samples = ?, median_us = ?, high_us = ?, "
                           "time_kind = ?, eligible = ?, kernel_hash = ? WHERE id = ?",
                           p.samples, p.median_us, p.high_us, static_cast<int>(p.time_kind),
                           p.eligible, p.kernel_hash, candidate).run());
  return was_eligible || p.eligible;
}

absl::StatusOr<bool> best_of_key(Transaction& tx, int64_t key, int count, BestRow* row) {
  // As the partial indexes say it: SQLite compares the text.
  const char* eligible = tx.database().is_shared() ? "eligible <> 0" : "eligible";
  double limit = 0;
  int64_t kind = 0;
  {
    Query query = tx.query(concat("SELECT median_us, time_kind FROM candidates WHERE key = ? AND ",
                                  eligible, " ORDER BY time_kind, samples DESC, median_us, id "
                                  "LIMIT 1"), key);
    if (!query.next()) {
      RETURN_IF_ERROR(query.status());
      return false;
    }
    limit = query.real(0);
    kind = query.integer(1);
  }
  std::vector<int64_t> ids;
  std::vector<Pool> pools;
  {
    Query query = tx.query(concat("SELECT id, samples, median_us, high_us FROM candidates "
                                  "WHERE key = ? AND time_kind = ? AND median_us <= ? AND ",
                                  eligible, " ORDER BY trace"), key, kind, limit);
    while (query.next()) {
      ids.push_back(query.integer(0));
      pools.push_back({query.integer(1), query.real(2), query.real(3), true});
    }
    RETURN_IF_ERROR(query.status());
  }
  const int64_t chosen = best_of(pools);
  if (chosen < 0) return damaged(tx, "candidates", "their two indexes disagree");
  std::vector<Measurement> rows;
  RETURN_IF_ERROR(read_candidate(tx, ids[chosen], &rows));
  if (!pool(pointers(rows)).eligible) {
    return damaged(tx, absl::StrCat("candidate ", ids[chosen]), "not what its measurements say");
  }
  row->measurement = represent(pointers(rows));
  row->others.clear();
  if (count <= 1) return true;
  Query query = tx.query(concat("SELECT trace, median_us FROM candidates WHERE key = ? AND "
                                "time_kind = ? AND id <> ? AND ", eligible,
                                " ORDER BY median_us, trace LIMIT ?"),
                         key, kind, ids[chosen], count - 1);
  while (query.next()) row->others.push_back({query.text(0), query.real(1)});
  RETURN_IF_ERROR(query.status());
  return true;
}

absl::Status note_change(WriteTransaction& tx, int64_t key) {
  const std::string sql = concat("UPDATE keys SET revision = revision + 1, changed_ms = ",
                                 tx.database().clock_sql(), " WHERE id = ?");
  return tx.query(sql, key).run();
}

}  // namespace lw
