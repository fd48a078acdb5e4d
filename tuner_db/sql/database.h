// The SQL seam: what the store and the service say to a database, whichever it is. SQLite
// (sqlite_database.h) is embedded and the default; PostgreSQL (tuner_db/postgres/) serves fleets.
//
// One SQL for both. Its rules: parameters are `?`; types in the schema are written in upper case
// and names in lower case (schema.h says what PostgreSQL makes of them); INSERT ... ON CONFLICT DO
// NOTHING / DO UPDATE instead of INSERT OR; RETURNING id instead of a last id; conditions are
// comparisons (`done <> 0`, never `done`); the columns "inner" and "user" and the like are quoted.
// Text compares by its bytes and may hold any of them.
//
// A Database is thread-safe. What reads takes the Transaction (`tx`) that it is to read in, what
// stores a WriteTransaction; what takes a Database begins its own. A transaction within another of
// the same database is a mistake (a CHECK).
//
// Errors name the database and what to do, with the codes that store.h promises on both.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tuner_db/store.h"

namespace lw {

struct Blob {
  std::string_view bytes;
};

// What a `?` stands for. Integers of 64 unsigned bits are stored as the signed ones of equal bits.
using Value = std::variant<std::nullptr_t, int64_t, double, std::string_view, Blob>;
template <std::integral T>
Value as_value(T value) { return static_cast<int64_t>(value); }
inline Value as_value(double value) { return value; }
inline Value as_value(std::string_view value) { return value; }
inline Value as_value(const std::string& value) { return std::string_view(value); }
inline Value as_value(const char* value) { return std::string_view(value); }
inline Value as_value(Blob value) { return value; }
inline Value as_value(std::nullptr_t) { return nullptr; }
inline Value as_value(Verdict value) { return verdict_name(value); }
inline Value as_value(TimeKind value) { return static_cast<int64_t>(value); }
inline Value as_value(const std::vector<double>& value) {   // as it lies in memory
  return Blob{{reinterpret_cast<const char*>(value.data()), value.size() * sizeof(double)}};
}

// What the `?`s of a statement stand for; a described value takes one for each of its fields.
using Bindings = absl::InlinedVector<Value, 24>;
template <class T>
void add_values(const T& value, Bindings* values) {
  if constexpr (Described<T>) {
    T::fields(value, [&](FieldId, const auto& field) { values->push_back(as_value(field)); });
  } else {
    values->push_back(as_value(value));
  }
}

// A running statement of one implementation. Used by Query only.
class PreparedStatement {
 public:
  virtual ~PreparedStatement() = default;
  virtual bool next() = 0;
  virtual absl::Status status() const = 0;
  virtual bool is_null(int column) const = 0;
  virtual int64_t integer(int column) const = 0;
  virtual double real(int column) const = 0;
  virtual std::string_view bytes(int column) const = 0;
};

// A statement with its values, which must outlive it. It runs at the first next() or run(); an
// error ends the rows and stays in status(). REQUIRES: destroyed within its transaction.
class Query {
 public:
  explicit Query(std::unique_ptr<PreparedStatement> statement)
      : statement_(std::move(statement)) {}

  bool next() { return statement_->next(); }                 // a row is there
  absl::Status run();                      // to the end, for statements without rows
  absl::Status status() const { return statement_->status(); }

  // Columns of the row, from 0. A column that is NULL or of another type reads as zero or empty.
  int64_t integer(int column) const { return statement_->integer(column); }
  double real(int column) const { return statement_->real(column); }
  std::string text(int column) const { return std::string(bytes(column)); }
  std::string_view bytes(int column) const { return statement_->bytes(column); }  // until next()
  bool is_null(int column) const { return statement_->is_null(column); }

 private:
  std::unique_ptr<PreparedStatement> statement_;
};

// The first column of its only row; 0 when there is none.
absl::StatusOr<int64_t> one_integer(Query query);

// One connection of an implementation, used by one thread at a time. Used by Database and
// Transaction only.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual std::unique_ptr<PreparedStatement> start(std::string_view sql,
                                                   absl::Span<const Value> values) = 0;
  virtual absl::Status command(const char* sql) = 0;         // without values and rows
  virtual absl::Status run_script(const std::string& sql) = 0;
  virtual absl::Status each(const std::string& select,
                            absl::FunctionRef<absl::Status(const Query&)> row) = 0;
  virtual int64_t changes() const = 0;
  virtual absl::Status doomed() const = 0;
};

class Database;

// What a body says to the database, which Database::read() gave it and takes back when it returns.
// Used by the thread that runs the body.
class Transaction {
 public:
  Transaction(Database& database, Connection& connection)
      : database_(database), connection_(connection) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  template <class... T>
  Query query(std::string_view sql, const T&... values) {
    Bindings all;
    (add_values(values, &all), ...);
    return query_values(sql, all);
  }
  Query query_values(std::string_view sql, absl::Span<const Value> values) {
    return Query(connection_.start(sql, values));
  }
  // Calls `row` for each row of a SELECT that may be larger than memory.
  absl::Status each(const std::string& select,
                    absl::FunctionRef<absl::Status(const Query&)> row) {
    return connection_.each(select, row);
  }
  Database& database() const { return database_; }

 protected:
  friend class Database;
  Database& database_;
  Connection& connection_;
};

// The same of Database::write(): it may change what is stored.
class WriteTransaction : public Transaction {
 public:
  using Transaction::Transaction;

  absl::Status run(std::string_view sql) { return query(sql).run(); }
  absl::Status run_script(const std::string& sql) {          // statements in the schema's dialect
    return connection_.run_script(sql);
  }
  int64_t changes() const {                // rows changed by the last statement that ran to its end
    return connection_.changes();
  }
  // All or nothing of `body`, without ending the transaction.
  absl::Status savepoint(absl::FunctionRef<absl::Status()> body);
  // Why nothing of this transaction can be committed any more, whatever its body returns: OK while
  // it can. A failed disk and a lost connection doom it, a failed statement within a savepoint does
  // not.
  absl::Status doomed() const { return connection_.doomed(); }
};

class Database {
 public:
  virtual ~Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs `body` in a write transaction: all of it is durable when this returns OK, else none of it
  // is there (but kUnavailable from PostgreSQL may leave it open, when the connection broke while
  // COMMIT was under way). Waits `patience_s` for others. The body must be re-runnable: PostgreSQL
  // runs it again, from the start and on the then current state, after a conflict with another
  // transaction (SERIALIZABLE) or a lost connection. So it must clear what it fills.
  // kFailedPrecondition: a newer program has migrated the database since it was opened. What this
  // one reads it goes on reading (docs/service.md, "Upgrades"), but it writes no more.
  absl::Status write(double patience_s, absl::FunctionRef<absl::Status(WriteTransaction&)> body);
  // Runs `body`, once, on one consistent snapshot.
  absl::Status read(double patience_s, absl::FunctionRef<absl::Status(Transaction&)> body);
  // From now on the calling thread's reads find a connection though all others are busy reading:
  // for the few threads on which leases and look-ups depend.
  static void keep_connection_for_this_thread() { keeps_house_ = true; }

  // Ends a `SELECT ... LIMIT n` within a claim: rows that another transaction holds are left out.
  virtual std::string_view skip_locked() const = 0;
  // Several daemons, of several hosts, may use it at once.
  virtual bool is_shared() const = 0;
  // Milliseconds since 1970 by the database's clock, which all its users share. Not inside a
  // transaction.
  virtual absl::StatusOr<int64_t> server_ms() = 0;
  // The same as an expression of a statement, of the time when it runs.
  virtual std::string_view clock_sql() const = 0;

  // Takes a lock that this process holds until unlock() or its end, whichever way it ends; false:
  // somebody holds it, perhaps we. On PostgreSQL an advisory lock of a connection of its own, so
  // that a dead host's go within a minute; a restart of the server gives all of them up, hence what
  // depends on them must stay harmless when they are lost. On SQLite of this process only. Not
  // inside a transaction; thread-safe.
  absl::StatusOr<bool> try_lock(int64_t name);
  void unlock(int64_t name);

  virtual absl::StatusOr<int> schema_version(Transaction& tx) = 0;
  virtual absl::Status set_schema_version(WriteTransaction& tx, int version) = 0;
  // The greatest id that an AUTOINCREMENT table ever gave out (0: none, or not such a table).
  virtual absl::StatusOr<int64_t> last_given(Transaction& tx, const std::string& table) = 0;
  virtual absl::Status set_last_given(WriteTransaction& tx, const std::string& table,
                                      int64_t id) = 0;
  // What is structurally wrong: tables that are not those of its version, SQLite's integrity.
  virtual absl::Status check_structure(Transaction& tx, std::vector<std::string>* lines) = 0;

  // Gives free space back to the disk; nothing changes but the size. Not inside a transaction.
  virtual absl::Status vacuum(double patience_s) = 0;
  // For when there is nothing else to do: SQLite folds its WAL in. Not inside a transaction.
  virtual absl::Status tidy() = 0;
  // On the disk. Not inside a transaction.
  virtual absl::StatusOr<int64_t> bytes() = 0;

  // For messages: an absolute path, or an address without its password.
  const std::string& path() const { return path_; }
  absl::Status refuse_write() const;       // kPermissionDenied: opened read-only

 protected:
  static constexpr int kReserved = 3;      // connections: a writer's, and of two such threads
  static int reserved() { return keeps_house_ ? kReserved : 0; }
  Database() = default;
  virtual absl::Status write_transaction(
      double patience_s, absl::FunctionRef<absl::Status(WriteTransaction&)> body) = 0;
  virtual absl::Status read_transaction(double patience_s,
                                        absl::FunctionRef<absl::Status(Transaction&)> body) = 0;
  virtual absl::StatusOr<bool> lock_outside(int64_t name) { return true; }
  virtual void unlock_outside(int64_t name) {}

  static Connection& connection_of(Transaction& tx) { return tx.connection_; }

  std::string path_;

 private:
  static thread_local bool keeps_house_;
  std::mutex locks_mutex_;
  std::set<int64_t> locks_;
};

// "postgres://USER@HOST:PORT/NAME" (or postgresql://; libpq's parameters may follow) or a file's
// path. Brings the schema up to date. See open_sqlite_store in store.h for what is refused; files
// are shared within the process. This and open_store() are defined by lw_postgres, or by lw_files for
// who links no PostgreSQL: its addresses are then kUnimplemented.
absl::StatusOr<std::shared_ptr<Database>> open_database(const std::string& url,
                                                        const DatabaseOptions& options = {});
absl::StatusOr<std::shared_ptr<Database>> open_sqlite(const std::string& path,
                                                      const DatabaseOptions& options);
bool is_postgres_url(std::string_view url);
// kInvalidArgument: "mysql://..." and the like, which no database here speaks and which is no
// file's path either.
absl::Status check_database_url(std::string_view url);

// The halves of these: connected, and the schema up to date.
using Connect = absl::StatusOr<std::shared_ptr<Database>>(const std::string& url,
                                                          const DatabaseOptions& options);
Connect connect_sqlite;
Connect connect_postgres;                  // in lw_postgres
// open_database(), where PostgreSQL's addresses are connected to by `postgres`.
absl::StatusOr<std::shared_ptr<Database>> open_database_by(Connect* postgres,
                                                           const std::string& url,
                                                           const DatabaseOptions& options);

// A Store over it. `options` as the database was opened with.
std::unique_ptr<Store> make_store(std::shared_ptr<Database> database,
                                  const DatabaseOptions& options = {});
// The same within a transaction: what it stores is there with all else that the transaction does,
// each call all or nothing. Without claims, statistics and pruning, which are the whole database's
// (a CHECK).
std::unique_ptr<Store> store_in(WriteTransaction& tx);
std::unique_ptr<const Store> store_in(Transaction& tx);

// kFailedPrecondition: the schema is not this program's. The fence of Database::write(), which asks
// in each transaction, once migrations are kept out of it.
absl::Status check_schema(Transaction& tx);
// Takes the database from its version to steps.size(), all or nothing.
absl::Status migrate(WriteTransaction& tx, const std::vector<std::string>& steps);

}  // namespace lw
