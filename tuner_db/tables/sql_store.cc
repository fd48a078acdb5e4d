// The Store on SQLite and PostgreSQL. tuner_db/schema/schema.sql says what is stored; database.h
// how; pools.cc how the best is found.
//
// A claim is a row that names a process. On one host the process can be looked at, so the row of a
// dead one counts for nothing. On a shared database it may be anywhere: there a claim is a lock by
// name (database.h), which ends with its process, and the row only says who has it. Either way two
// may tune one key in the worst case (another pid namespace, a restarted server), which wastes
// time but harms nothing.
#include <algorithm>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "tuner_db/invariants.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/sql/process.h"
#include "tuner_db/store.h"
#include "tuner_db/tables/annulled.h"
#include "tuner_db/tables/columns.h"
#include "tuner_db/tables/history.h"
#include "tuner_db/tables/pools.h"
#include "tuner_db/tables/rows.h"
#include "tuner_db/tables/withdrawn.h"

namespace lw {
namespace {

const std::string kKeys = concat("SELECT ", column_names<Key>("k."), ", k.id FROM keys k ");
const std::string kKeyNames = column_names<Key>();
const std::string kIsKey = concat(" WHERE ", column_conditions<Key>());
constexpr int64_t kMinuteMs = 60'000;

Query by_key(Transaction& tx, const char* verb, const Key& key) {
  return tx.query(concat(verb, kIsKey), key);
}

absl::StatusOr<int64_t> clock_of(Transaction& tx) {
  return one_integer(tx.query(concat("SELECT ", tx.database().clock_sql())));
}

// `locked`: the claim's lock is ours, so whoever the row names is gone.
absl::Status write_claim(WriteTransaction& tx, const Key& key, bool locked) {
  if (!locked) {
    Query holder = by_key(tx, "SELECT boot, pid, started FROM claims", key);
    if (holder.next()) {
      const ProcessName process{holder.text(0), holder.integer(1), holder.integer(2)};
      if (tx.database().is_shared() || is_alive(process)) return claimed(key, process.pid);
    }
    RETURN_IF_ERROR(holder.status());
    if (tx.database().is_shared()) return claimed(key, 0);   // locked, its row not yet written
  }
  const ProcessName us = this_process();
  return tx.query(concat("INSERT INTO claims (boot, pid, started, ", kKeyNames,
                         ") VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (", kKeyNames,
                         ") DO UPDATE SET boot = excluded.boot, pid = excluded.pid, "
                         "started = excluded.started"), us.boot, us.pid, us.started, key).run();
}

// The key's id, made if it is not there. kNotFound: its workload or target is not.
absl::StatusOr<int64_t> put_key(WriteTransaction& tx, const Key& key, bool make) {
  ASSIGN_OR_RETURN(const int64_t known, find_key_id(tx, key));
  if (known != 0) return known;
  for (const auto& [what, table, id] : {std::tuple("workload", "workloads", &key.workload),
                                        std::tuple("target", "targets", &key.target)}) {
    Query query = tx.query(absl::StrCat("SELECT 1 FROM ", table, " WHERE id = ?"), *id);
    if (!query.next()) return query.status().ok() ? unknown(what, *id) : query.status();
  }
  if (!make) return 0;
  RETURN_IF_ERROR(
      tx.query(concat("INSERT INTO keys (", kKeyNames, ") VALUES (?,?,?,?,?,?) "
                      "ON CONFLICT DO NOTHING"), key).run());
  return find_key_id(tx, key);
}

class SqlStore : public Store {
 public:
  SqlStore(std::shared_ptr<Database> database, const DatabaseOptions& options)
      : database_(std::move(database)), db_(*database_), options_(options) {}
  explicit SqlStore(Transaction& tx) : reads_(&tx), db_(tx.database()) {}
  explicit SqlStore(WriteTransaction& tx) : reads_(&tx), writes_(&tx), db_(tx.database()) {}

  ~SqlStore() override {
    const std::vector<Key> claims = claims_;
    for (const Key& key : claims) release(key);
  }

  absl::Status put_workload(const WorkloadRow& row) override {
    return write([&](WriteTransaction& tx) {
      const std::string shape = absl::StrJoin(row.shape, ",");
      Bindings values;
      WorkloadRow::fields(row, [&](FieldId, const auto& value) {
        if constexpr (std::is_same_v<decltype(value), const std::vector<int64_t>&>) {
          values.push_back(as_value(shape));
        } else {
          values.push_back(as_value(value));
        }
      });
      return tx.query_values(
          concat("INSERT INTO workloads (", column_names<WorkloadRow>(), ") VALUES (",
                 placeholders(values.size()), ") "
                       "ON CONFLICT (id) DO UPDATE SET flops = excluded.flops, "
                       "bytes = excluded.bytes, shape = excluded.shape, family = excluded.family, "
                       "program = CASE WHEN workloads.program = '' THEN excluded.program "
                       "ELSE workloads.program END "
                       "WHERE workloads.flops <> excluded.flops OR "
                       "workloads.bytes <> excluded.bytes OR "
                       "workloads.shape <> excluded.shape OR "
                       "workloads.family <> excluded.family OR "
                       "(workloads.program = '' AND excluded.program <> '')"), values).run();
    });
  }

  absl::Status put_target(const std::string& id, const Target& target) override {
    return write([&](WriteTransaction& tx) {
      const std::string text = to_text(target);
      return tx.query("INSERT INTO targets (id, text) VALUES (?,?) ON CONFLICT DO NOTHING",
                      id, text).run();
    });
  }

  absl::Status append(const Key& key, std::vector<Measurement>& measurements) override {
    RETURN_IF_ERROR(admit(key, measurements));
    std::vector<int64_t> ids;
    RETURN_IF_ERROR(write([&](WriteTransaction& tx) -> absl::Status {
      ids.clear();
      ASSIGN_OR_RETURN(const int64_t id, put_key(tx, key, !measurements.empty()));
      return append_measurements(tx, id, measurements, &ids);
    }));
    for (size_t i = 0; i < ids.size(); ++i) measurements[i].id = ids[i];
    return absl::OkStatus();
  }

  absl::Status put(const Key& key, std::vector<Measurement>& measurements,
                   int64_t* stored) override {
    RETURN_IF_ERROR(admit(key, measurements));
    std::vector<int64_t> ids;
    RETURN_IF_ERROR(write([&](WriteTransaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const int64_t id, put_key(tx, key, !measurements.empty()));
      return put_measurements(tx, id, measurements, &ids, stored);
    }));
    for (size_t i = 0; i < ids.size(); ++i) measurements[i].id = ids[i];
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Measurement>> measurements(const Key& key) const override {
    std::vector<Measurement> rows;
    RETURN_IF_ERROR(read([&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const int64_t id, find_key_id(tx, key));
      return read_key(tx, id, &rows);
    }));
    return rows;
  }

  absl::StatusOr<std::vector<Measurement>> measurements_after(const Key& key, int64_t after,
                                                              int64_t* newest) const override {
    std::vector<Measurement> rows;
    RETURN_IF_ERROR(read([&](Transaction& tx) -> absl::Status {
      rows.clear();
      *newest = 0;
      ASSIGN_OR_RETURN(const int64_t id, find_key_id(tx, key));
      Query last = tx.query("SELECT max(id) FROM measurements");
      if (last.next()) *newest = last.integer(0);
      RETURN_IF_ERROR(last.status());
      return read_key_after(tx, id, after, &rows);
    }));
    return rows;
  }

  absl::StatusOr<BestRow> top(const Key& key, int count) const override {
    BestRow row{key, {}, {}};
    RETURN_IF_ERROR(read([&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const int64_t id, find_key_id(tx, key));
      ASSIGN_OR_RETURN(const bool found, best_of_key(tx, id, count, &row));
      return found ? absl::OkStatus() : no_result(key);
    }));
    return row;
  }

  absl::StatusOr<std::vector<BestRow>> best_of_structure(const std::string& structure,
                                                         int threads) const override {
    std::vector<BestRow> rows;
    RETURN_IF_ERROR(read([&](Transaction& tx) -> absl::Status {
      Query query = tx.query(
          concat(kKeys, "JOIN workloads w ON w.id = k.workload "
                        "WHERE w.family = ? AND k.threads = ? ORDER BY 1,2,3,4,5,6"),
          structure, threads);
      while (query.next()) {
        BestRow row;
        int column = 0;
        read_columns(query, &column, &row.key);
        ASSIGN_OR_RETURN(const bool found, best_of_key(tx, query.integer(column), 1, &row));
        if (found) rows.push_back(std::move(row));
      }
      return query.status();
    }));
    return rows;
  }

  absl::StatusOr<WorkloadRow> workload(const std::string& id) const override {
    WorkloadRow row;
    RETURN_IF_ERROR(read([&](Transaction& tx) -> absl::Status {
      std::vector<WorkloadRow> rows;
      RETURN_IF_ERROR(read_workloads(tx, id, &rows));
      if (rows.empty()) return unknown("workload", id);
      row = std::move(rows[0]);
      return absl::OkStatus();
    }));
    return row;
  }

  absl::StatusOr<std::vector<WorkloadRow>> workloads() const override {
    std::vector<WorkloadRow> rows;
    RETURN_IF_ERROR(read([&](Transaction& tx) { return read_workloads(tx, "", &rows); }));
    return rows;
  }

  absl::StatusOr<Target> target(const std::string& id) const override {
    Target target;
    RETURN_IF_ERROR(read([&](Transaction& tx) -> absl::Status {
      Query query = tx.query("SELECT text FROM targets WHERE id = ?", id);
      if (!query.next()) return query.status().ok() ? unknown("target", id) : query.status();
      absl::StatusOr<Target> parsed = read_target(query.text(0));
      if (!parsed.ok()) {
        return damaged(tx, absl::StrCat("target ", id), std::string(parsed.status().message()));
      }
      target = *std::move(parsed);
      return absl::OkStatus();
    }));
    return target;
  }

  absl::StatusOr<std::vector<Key>> keys() const override {
    std::vector<Key> keys;
    RETURN_IF_ERROR(read([&](Transaction& tx) {
      Query query = tx.query(concat(kKeys, "ORDER BY ", kKeyNames));
      while (query.next()) keys.push_back(read_key_columns(query));
      return query.status();
    }));
    return keys;
  }

  absl::Status withdraw(const Withdrawal& withdrawal) override {
    return write([&](WriteTransaction& tx) { return withdraw_trace(tx, withdrawal); });
  }

  absl::Status restore(const Key& key, const std::string& trace) override {
    return write([&](WriteTransaction& tx) { return restore_trace(tx, key, trace); });
  }

  absl::StatusOr<std::vector<Withdrawal>> withdrawn() const override {
    std::vector<Withdrawal> rows;
    RETURN_IF_ERROR(read([&](Transaction& tx) { return read_withdrawn(tx, nullptr, &rows); }));
    return rows;
  }

  absl::StatusOr<std::vector<Withdrawal>> withdrawn(const Key& key) const override {
    std::vector<Withdrawal> rows;
    RETURN_IF_ERROR(read([&](Transaction& tx) { return read_withdrawn(tx, &key, &rows); }));
    return rows;
  }

  absl::StatusOr<std::vector<WithdrawnDigests>> withdrawn_digests() const override {
    std::vector<WithdrawnDigests> rows;
    RETURN_IF_ERROR(read([&](Transaction& tx) { return read_withdrawn_digests(tx, &rows); }));
    return rows;
  }

  absl::StatusOr<int64_t> withdrawn_revision() const override {
    int64_t revision = 0;
    RETURN_IF_ERROR(read([&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(revision, read_withdrawn_revision(tx));
      return absl::OkStatus();
    }));
    return revision;
  }

  absl::StatusOr<std::vector<Change>> changes(int64_t since_ms) const override {
    std::vector<Change> rows;
    RETURN_IF_ERROR(read([&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const int64_t now_ms, clock_of(tx));
      if (since_ms > now_ms) since_ms = now_ms - kMinuteMs;
      Query query = tx.query(
          concat("SELECT revision, changed_ms, ", kKeyNames, " FROM keys WHERE changed_ms >= ? AND "
                 "revision > 0 ORDER BY changed_ms"), since_ms);
      while (query.next()) {
        rows.push_back({read_key_columns(query, 2), query.integer(0), query.integer(1)});
      }
      return query.status();
    }));
    return rows;
  }

  absl::StatusOr<int64_t> latest_change_ms() const override {
    int64_t ms = 0;
    RETURN_IF_ERROR(read([&](Transaction& tx) {
      Query query = tx.query("SELECT max(changed_ms) FROM keys");
      if (query.next()) ms = query.integer(0);
      return query.status();
    }));
    return ms;
  }

  absl::StatusOr<std::vector<int64_t>> find(const MeasurementFilter& filter, int64_t after,
                                            int most) const override {
    std::vector<int64_t> ids;
    RETURN_IF_ERROR(read([&](Transaction& tx) {
      return find_measurements(tx, filter, after, most, &ids);
    }));
    return ids;
  }

  absl::StatusOr<std::vector<Key>> annul(const std::vector<int64_t>& ids, const std::string& mark,
                                         int64_t* changed) override {
    std::vector<Key> keys;
    RETURN_IF_ERROR(write([&](WriteTransaction& tx) {
      return mark_annulled(tx, ids, mark, &keys, changed);
    }));
    return keys;
  }

  absl::Status claim(const Key& key) override {
    CHECK(database_ != nullptr);
    bool locked = false;
    if (db_.is_shared()) {
      if (options_.read_only) return db_.refuse_write();
      ASSIGN_OR_RETURN(locked, db_.try_lock(name_of(key)));
    }
    absl::Status status = write([&](WriteTransaction& tx) {
      return write_claim(tx, key, locked);
    });
    if (!status.ok()) {
      if (locked) db_.unlock(name_of(key));
      return status;
    }
    const std::lock_guard guard(claims_mutex_);
    claims_.push_back(key);
    return absl::OkStatus();
  }

  // Only what this Store holds. A failure leaves a claim that lasts no longer than this process.
  void release(const Key& key) override {
    {
      const std::lock_guard guard(claims_mutex_);
      if (std::erase(claims_, key) == 0) return;
    }
    write([&](WriteTransaction& tx) {
      return by_key(tx, "DELETE FROM claims", key).run();
    }).IgnoreError();
    if (db_.is_shared()) db_.unlock(name_of(key));
  }

  absl::StatusOr<Stats> stats() const override;
  absl::StatusOr<int64_t> prune(int keep, int64_t unix_ms) override;
  absl::StatusOr<std::vector<std::string>> check() const override {
    std::vector<std::string> lines;
    RETURN_IF_ERROR(read([&](Transaction& tx) { return check_database(tx, &lines); }));
    return lines;
  }

 private:
  template <class Body>
  absl::Status write(Body body) {
    if (writes_ != nullptr) return writes_->savepoint([&] { return body(*writes_); });
    if (options_.read_only) return db_.refuse_write();
    return db_.write(options_.patience_s, body);
  }
  template <class Body>
  absl::Status read(Body body) const {
    return reads_ != nullptr ? body(*reads_) : db_.read(options_.patience_s, body);
  }

  static int64_t name_of(const Key& key) { return static_cast<int64_t>(hash64(describe(key))); }

  const std::shared_ptr<Database> database_;  // nullptr: within a transaction
  Transaction* const reads_ = nullptr;     // that
  WriteTransaction* const writes_ = nullptr;
  Database& db_;                           // a const Store still runs statements
  const DatabaseOptions options_;
  std::mutex claims_mutex_;
  std::vector<Key> claims_;                // held, and given back when the Store goes
};

absl::StatusOr<Store::Stats> SqlStore::stats() const {
  CHECK(database_ != nullptr);
  Stats stats;
  RETURN_IF_ERROR(read([&](Transaction& tx) -> absl::Status {
    stats.service.clear();
    const std::pair<const char*, int64_t*> counts[] = {
        {"SELECT count(*) FROM workloads", &stats.workloads},
        {"SELECT count(*) FROM targets", &stats.targets},
        {"SELECT count(*) FROM keys", &stats.keys},
        {"SELECT count(*) FROM measurements", &stats.measurements},
        {"SELECT count(*) FROM measurements WHERE verdict <> 'ok'", &stats.failed}};
    for (const auto& [sql, value] : counts) {
      Query query = tx.query(sql);
      if (query.next()) *value = query.integer(0);
      RETURN_IF_ERROR(query.status());
    }
    for (const TableSchema& table : schema_tables()) {
      constexpr std::string_view kOwn[] = {"workloads", "targets", "keys", "candidates",
                                           "measurements", "claims", "clock",
                                           "withdrawn_revision"};
      if (std::find(std::begin(kOwn), std::end(kOwn), table.name) != std::end(kOwn)) continue;
      Query query = tx.query(concat("SELECT count(*) FROM ", sql_name(table.name)));
      stats.service.emplace_back(table.name, query.next() ? query.integer(0) : 0);
      RETURN_IF_ERROR(query.status());
    }
    return absl::OkStatus();
  }));
  stats.schema_version = static_cast<int>(schema_steps().size());
  ASSIGN_OR_RETURN(stats.bytes, db_.bytes());
  return stats;
}

absl::StatusOr<int64_t> SqlStore::prune(int keep, int64_t unix_ms) {
  CHECK(database_ != nullptr);
  int64_t deleted = 0;
  RETURN_IF_ERROR(write([&](WriteTransaction& tx) {
    return prune_measurements(tx, keep, unix_ms, &deleted);
  }));
  // Only the file's size is at stake: a full disk keeps it as it is.
  if (deleted > 0) db_.vacuum(options_.patience_s).IgnoreError();
  return deleted;
}

}  // namespace

std::unique_ptr<Store> make_store(std::shared_ptr<Database> database,
                                  const DatabaseOptions& options) {
  return std::make_unique<SqlStore>(std::move(database), options);
}

std::unique_ptr<Store> store_in(WriteTransaction& tx) { return std::make_unique<SqlStore>(tx); }

std::unique_ptr<const Store> store_in(Transaction& tx) { return std::make_unique<SqlStore>(tx); }

}  // namespace lw
