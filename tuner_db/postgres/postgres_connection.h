// One session with a PostgreSQL server: statements, values and errors. Used by
// postgres_database.cc only; one thread at a time.
//
// Text of ours may hold any bytes, PostgreSQL's only valid UTF-8 without NUL. Bytes that it would
// refuse travel as the characters U+10FF00 + byte of the private plane, and so does whatever looks
// like these, so that all text comes back as it was; ordinary text is stored as it is.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tuner_db/sql/database.h"

namespace lw {

class PostgresConnection : public Connection {
 public:
  // Why a transaction came to nothing.
  enum class End { kNone, kConflict, kDuplicate, kLost };

  // `url` as libpq takes it; `name` is how messages call the database.
  static absl::StatusOr<std::unique_ptr<PostgresConnection>> open(const std::string& url,
                                                                  const std::string& name,
                                                                  double patience_s);
  ~PostgresConnection() override;

  std::unique_ptr<PreparedStatement> start(std::string_view sql,
                                           absl::Span<const Value> values) override;
  absl::Status command(const char* sql) override;            // one or more, in one round trip
  absl::Status run_script(const std::string& sql) override;
  absl::Status each(const std::string& select,
                    absl::FunctionRef<absl::Status(const Query&)> row) override;
  int64_t changes() const override { return changes_; }
  // Set by what savepoints cannot undo: conflicts, a lost server, a full disk.
  absl::Status doomed() const override { return doom_; }

  // Starts a transaction of `level` ("SERIALIZABLE", ...), forgetting the last one, and runs the
  // statements `first` in it, in the same round trip. Nothing in it waits longer for a lock.
  absl::Status begin(std::string_view level, std::string_view first, double patience_s);
  absl::Status commit();                   // an error also when the server made it a rollback
  void rollback();
  End end() const { return end_; }
  bool usable() const { return PQstatus(connection_) == CONNECTION_OK; }
  void abandon() { connection_ = nullptr; }  // in a forked child: the session is the parent's

 private:
  friend class PostgresStatement;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  explicit PostgresConnection(std::string name) : name_(std::move(name)) {}
  absl::Status set_up();
  absl::Status error(const PGresult* result);
  PGresult* execute(std::string_view sql, absl::Span<const Value> values);

  std::string name_;
  PGconn* connection_ = nullptr;
  double patience_s_ = -1;                 // of the transaction's lock_timeout
  int64_t changes_ = 0;
  absl::Status doom_, first_error_;
  End end_ = End::kNone;
  // By the SQL and the types of its values.
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> prepared_;
};

// `?` as $1, $2, ..., outside of strings, quoted names and comments.
std::string number_parameters(std::string_view sql);

std::string to_utf8(std::string_view bytes);                 // see above
std::string from_utf8(std::string_view text);

}  // namespace lw
