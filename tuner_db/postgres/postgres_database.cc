// A PostgreSQL database, which several daemons may share. Each transaction borrows a session of a
// small pool for its thread, so readers and writers run side by side; a few are kept for writers
// and for threads that the service cannot do without, whatever readers do.
//
// Writes are SERIALIZABLE: the bodies were written for SQLite, where writers come one after the
// other, and so must believe what they read here too. The price is that PostgreSQL may refuse a
// transaction for what others did; it is run again from its start, after a pause that grows from 1
// to 100 ms with jitter, until the patience is over. The same is done when the session breaks
// before COMMIT was sent. When it breaks under COMMIT the outcome is unknown, and only the caller
// can tell (by its request id, or by looking), so that is an error.
//
// Reads are REPEATABLE READ READ ONLY: one snapshot, never refused, run once.
//
// Sessions belong to the process that opened them: a forked child closes its copies of their
// sockets (fork.h), or the server would keep a killed parent's locks for as long as the child runs.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/sql/pool.h"
#include "tuner_db/postgres/postgres_connection.h"
#include "tuner_db/postgres/postgres_url.h"

namespace lw {
namespace {

using Clock = std::chrono::steady_clock;
using End = PostgresConnection::End;

constexpr int64_t kMigrationLock = 0x4C6F6F70;  // "Loop"
// What a writer begins with; a migration takes the same lock alone. A statement of its own, because
// the snapshot is taken after it: a SELECT that waited would see the version of before.
constexpr char kKeepSchema[] = "LOCK TABLE loopwright_schema IN ACCESS SHARE MODE";
constexpr int kMostDuplicates = 3;         // a duplicate key of ours, not of a race, repeats

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(seconds));
}

// 1 ms, doubled with each attempt up to 100 ms, times 0.5 to 1.5, so that rivals part.
void back_off(int attempt) {
  static std::atomic<uint64_t> count = 0;
  const uint64_t hash = hash_combine(static_cast<uint64_t>(getpid()), ++count);
  const int64_t full_us = std::min<int64_t>(int64_t{1000} << std::min(attempt, 7), 100'000);
  std::this_thread::sleep_for(std::chrono::microseconds(
      full_us / 2 + static_cast<int64_t>(hash % static_cast<uint64_t>(full_us))));
}

}  // namespace

class PostgresDatabase : public Database {
 public:
  PostgresDatabase(std::string url, const std::string& name, const DatabaseOptions& options)
      : url_(std::move(url)), options_(options), owner_(getpid()), pool_(options.connections) {
    path_ = name;
  }
  ~PostgresDatabase() override {
    std::vector<std::unique_ptr<PostgresConnection>> idle = pool_.drain();
    if (owner_ == getpid()) return;
    for (auto& connection : idle) connection->abandon();
    if (locker_ != nullptr) locker_->abandon();
  }

  // Brings the schema up to date, or refuses it.
  absl::Status open();

  std::string_view skip_locked() const override { return " FOR UPDATE SKIP LOCKED"; }
  bool is_shared() const override { return true; }
  absl::StatusOr<int64_t> server_ms() override {
    return integer_outside(concat("SELECT ", clock_sql()));
  }
  std::string_view clock_sql() const override {
    return "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
  }
  absl::StatusOr<int64_t> bytes() override {
    return integer_outside("SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM "
                           "pg_class WHERE relnamespace = current_schema()::regnamespace AND "
                           "relkind = 'r'");
  }
  absl::StatusOr<int> schema_version(Transaction& tx) override;
  absl::Status set_schema_version(WriteTransaction& tx, int version) override;
  absl::StatusOr<int64_t> last_given(Transaction& tx, const std::string& table) override;
  absl::Status set_last_given(WriteTransaction& tx, const std::string& table, int64_t id) override;
  absl::Status check_structure(Transaction& tx, std::vector<std::string>* lines) override;
  absl::Status vacuum(double) override { return absl::OkStatus(); }  // the server sees to it
  absl::Status tidy() override { return absl::OkStatus(); }

 protected:
  absl::Status write_transaction(
      double patience_s, absl::FunctionRef<absl::Status(WriteTransaction&)> body) override;
  absl::Status read_transaction(double patience_s,
                                absl::FunctionRef<absl::Status(Transaction&)> body) override;
  absl::StatusOr<bool> lock_outside(int64_t name) override;
  void unlock_outside(int64_t name) override;

 private:
  using Borrowed = std::unique_ptr<PostgresConnection>;
  absl::StatusOr<Borrowed> connect() {
    return PostgresConnection::open(url_, path_, options_.patience_s);
  }
  absl::StatusOr<Borrowed> begin(std::string_view level, std::string_view first,
                                 double patience_s, int reserved);
  void give(Borrowed connection);
  absl::Status attempt(double patience_s, absl::FunctionRef<absl::Status(WriteTransaction&)> body,
                       End* end);
  absl::StatusOr<bool> has_schema(Transaction& tx);
  absl::StatusOr<int64_t> integer_outside(std::string_view sql);
  absl::StatusOr<bool> ask_lock(const char* function, int64_t name);
  absl::Status migrate_alone();

  const std::string url_;                  // with its password: never shown
  const DatabaseOptions options_;
  const int owner_;                        // pid
  std::atomic<bool> is_migrated_{false};   // so that its version is asked in one round trip
  ConnectionPool<PostgresConnection> pool_;
  Borrowed locker_;                        // the session of try_lock(); guarded by its mutex
  std::set<int64_t> held_;
};

// A session inside a new transaction. One that idled may have died with its server: then all have.
absl::StatusOr<PostgresDatabase::Borrowed> PostgresDatabase::begin(std::string_view level,
                                                                   std::string_view first,
                                                                   double patience_s,
                                                                   int reserved) {
  CHECK(owner_ == getpid());
  for (int round = 0;; ++round) {
    ASSIGN_OR_RETURN(Borrowed connection,
                     pool_.take(patience_s, reserved, [&] { return connect(); }));
    if (connection == nullptr) {
      return absl::UnavailableError(absl::StrFormat(
          "%s: all %d connections were busy for over %g s; run again", path_, options_.connections,
          patience_s));
    }
    const absl::Status status = connection->begin(level, first, patience_s);
    if (status.ok()) return connection;
    const bool lost = connection->end() == End::kLost;
    give(std::move(connection));
    if (!lost || round == 2) return status;
    pool_.drain();
  }
}

void PostgresDatabase::give(Borrowed connection) {
  connection->rollback();
  pool_.give(connection->usable() ? std::move(connection) : nullptr);
}

absl::Status PostgresDatabase::attempt(double patience_s,
                                       absl::FunctionRef<absl::Status(WriteTransaction&)> body,
                                       End* end) {
  *end = End::kNone;
  ASSIGN_OR_RETURN(Borrowed connection, begin("SERIALIZABLE", kKeepSchema, patience_s, kReserved));
  WriteTransaction tx(*this, *connection);
  absl::Status status = check_schema(tx);
  if (status.ok()) status = body(tx);
  if (absl::Status doom = connection->doomed(); !doom.ok()) status = doom;
  *end = connection->end();
  if (status.ok()) {
    status = connection->commit();
    *end = status.ok() ? End::kNone : connection->end();
    if (*end == End::kLost) {
      *end = End::kNone;
      status = absl::UnavailableError(absl::StrCat(
          path_, ": the connection broke during COMMIT, which may or may not have been done; look, "
          "then run again"));
    }
  }
  give(std::move(connection));
  return status;
}

absl::Status PostgresDatabase::write_transaction(
    double patience_s, absl::FunctionRef<absl::Status(WriteTransaction&)> body) {
  if (options_.read_only) return refuse_write();
  const Clock::time_point deadline = after(patience_s);
  int duplicates = 0;
  for (int round = 0;; ++round) {
    End end = End::kNone;
    const absl::Status status = attempt(patience_s, body, &end);
    if (status.ok() || end == End::kNone || Clock::now() >= deadline) return status;
    if (end == End::kDuplicate && ++duplicates > kMostDuplicates) return status;
    back_off(round);
  }
}

absl::Status PostgresDatabase::read_transaction(
    double patience_s, absl::FunctionRef<absl::Status(Transaction&)> body) {
  std::string bound;
  if (options_.statement_s > 0) {
    bound = concat("SET LOCAL statement_timeout = ",
                   static_cast<int64_t>(options_.statement_s * 1000));
  }
  ASSIGN_OR_RETURN(Borrowed connection,
                   begin("REPEATABLE READ READ ONLY", bound, patience_s, reserved()));
  Transaction tx(*this, *connection);
  const absl::Status status = body(tx);
  give(std::move(connection));
  return status;
}

absl::StatusOr<int64_t> PostgresDatabase::integer_outside(std::string_view sql) {
  int64_t value = 0;
  RETURN_IF_ERROR(read(options_.patience_s, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(value, one_integer(tx.query(sql)));
    return absl::OkStatus();
  }));
  return value;
}

// ---- locks

absl::StatusOr<bool> PostgresDatabase::ask_lock(const char* function, int64_t name) {
  const Value value = name;
  const std::unique_ptr<PreparedStatement> statement =
      locker_->start(concat("SELECT ", function, "(?)"), {&value, 1});
  const bool taken = statement->next() && statement->integer(0) != 0;
  RETURN_IF_ERROR(statement->status());
  return taken;
}

absl::StatusOr<bool> PostgresDatabase::lock_outside(int64_t name) {
  CHECK(owner_ == getpid());
  for (int round = 0;; ++round) {
    if (locker_ == nullptr) {
      ASSIGN_OR_RETURN(locker_, connect());
      // What was held before the session broke, as far as nobody took it.
      for (int64_t held : held_) RETURN_IF_ERROR(ask_lock("pg_try_advisory_lock", held).status());
    }
    absl::StatusOr<bool> taken = ask_lock("pg_try_advisory_lock", name);
    if (taken.ok() && *taken) held_.insert(name);
    if (taken.ok() || locker_->usable() || round == 1) return taken;
    locker_ = nullptr;
  }
}

void PostgresDatabase::unlock_outside(int64_t name) {
  held_.erase(name);
  if (locker_ != nullptr) ask_lock("pg_advisory_unlock", name).IgnoreError();
}

// ---- schema

absl::StatusOr<bool> PostgresDatabase::has_schema(Transaction& tx) {
  if (is_migrated_) return true;
  ASSIGN_OR_RETURN(const int64_t tables,
                   one_integer(tx.query("SELECT count(*) FROM pg_tables WHERE schemaname = "
                                        "current_schema() AND tablename = 'loopwright_schema'")));
  return tables > 0;
}

absl::StatusOr<int> PostgresDatabase::schema_version(Transaction& tx) {
  ASSIGN_OR_RETURN(const bool there, has_schema(tx));
  if (!there) return 0;
  ASSIGN_OR_RETURN(const int64_t version,
                   one_integer(tx.query("SELECT version FROM loopwright_schema")));
  return static_cast<int>(version);
}

absl::Status PostgresDatabase::set_schema_version(WriteTransaction& tx, int version) {
  ASSIGN_OR_RETURN(const bool there, has_schema(tx));
  if (!there) {
    RETURN_IF_ERROR(connection_of(tx).command(
        "CREATE TABLE loopwright_schema (id BIGINT PRIMARY KEY CHECK (id = 1), version BIGINT NOT "
        "NULL)"));
  }
  return tx.query("INSERT INTO loopwright_schema (id, version) VALUES (1, ?) ON CONFLICT (id) DO "
                  "UPDATE SET version = excluded.version", version).run();
}

// All daemons that start at once, one after the other, and while nobody writes.
absl::Status PostgresDatabase::migrate_alone() {
  ASSIGN_OR_RETURN(Borrowed connection,
                   begin("READ COMMITTED", "", options_.patience_s, kReserved));
  WriteTransaction tx(*this, *connection);
  const auto lock = [&]() -> absl::Status {
    RETURN_IF_ERROR(tx.query("SELECT pg_advisory_xact_lock(?)", kMigrationLock).run());
    ASSIGN_OR_RETURN(const bool there, has_schema(tx));
    if (!there) return absl::OkStatus();
    return connection->command("LOCK TABLE loopwright_schema IN ACCESS EXCLUSIVE MODE");
  };
  absl::Status status = lock();
  if (status.ok()) status = migrate(tx, schema_steps());
  if (status.ok()) status = connection->commit();
  give(std::move(connection));
  return status;
}

absl::Status PostgresDatabase::open() {
  const int ours = static_cast<int>(schema_steps().size());
  int version = 0;
  int64_t tables = 0, schemas = 0;
  RETURN_IF_ERROR(read(options_.patience_s, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(schemas, one_integer(tx.query("SELECT count(current_schema())")));
    ASSIGN_OR_RETURN(version, schema_version(tx));
    ASSIGN_OR_RETURN(tables, one_integer(tx.query("SELECT count(*) FROM pg_tables WHERE "
                                                  "schemaname = current_schema()")));
    return absl::OkStatus();
  }));
  auto refuse = [&](const std::string& what) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": ", what));
  };
  if (schemas == 0) return refuse("its search_path names no schema that exists");
  if (version == 0 && tables > 0) {
    return refuse("holds tables of another program; name another database, or a search_path");
  }
  if (version > ours) {
    return refuse(absl::StrFormat("written by a newer Loopwright (schema version %d, this one "
                                  "knows %d); update Loopwright", version, ours));
  }
  if (version != ours && options_.read_only) {
    return refuse(absl::StrFormat("has schema version %d and cannot be brought to %d read-only; "
                                  "open it once for writing", version, ours));
  }
  if (version != ours) RETURN_IF_ERROR(migrate_alone());
  is_migrated_ = true;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> PostgresDatabase::last_given(Transaction& tx, const std::string& table) {
  Query name = tx.query("SELECT pg_get_serial_sequence(quote_ident(?), 'id')", table);
  if (!name.next() || name.text(0).empty()) return 0;
  return one_integer(tx.query(concat("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ",
                                     name.text(0))));
}

absl::Status PostgresDatabase::set_last_given(WriteTransaction& tx, const std::string& table,
                                              int64_t id) {
  if (id <= 0) return absl::OkStatus();
  return tx.query("SELECT setval(pg_get_serial_sequence(quote_ident(?), 'id'), ?)", table,
                  id).run();
}

absl::Status PostgresDatabase::check_structure(Transaction& tx, std::vector<std::string>* lines) {
  static constexpr const char* kTypes[] = {"bigint", "double precision", "text", "bytea"};
  std::string wanted, found;
  for (const TableSchema& table : schema_tables()) {
    for (const Column& column : table.columns) {
      absl::StrAppend(&wanted, table.name, ".", column.name, " ",
                      kTypes[static_cast<int>(column.type)], "\n");
    }
    Query columns = tx.query("SELECT column_name::text, data_type::text FROM "
                             "information_schema.columns WHERE table_schema = current_schema() AND "
                             "table_name = ? ORDER BY ordinal_position", table.name);
    while (columns.next()) {
      absl::StrAppend(&found, table.name, ".", columns.text(0), " ", columns.text(1), "\n");
    }
    RETURN_IF_ERROR(columns.status());
  }
  if (found != wanted) lines->push_back("schema: the tables are not those of its version");
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Database>> connect_postgres(const std::string& url,
                                                           const DatabaseOptions& options) {
  ASSIGN_OR_RETURN(const std::string name, postgres_name(url));
  if (!options.insecure) RETURN_IF_ERROR(check_postgres_transport(url));
  auto database = std::make_shared<PostgresDatabase>(url, name, options);
  RETURN_IF_ERROR(database->open());
  return database;
}

}  // namespace lw
