// A connection to a file: its prepared statements, kept from use to use, and its errors as words.
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "tuner_db/sql/sqlite_database.h"

namespace lw {
namespace {

bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

void bind(sqlite3_stmt* statement, int at, const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    sqlite3_bind_int64(statement, at, *integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    sqlite3_bind_double(statement, at, *real);
  } else if (const auto* text = std::get_if<std::string_view>(&value)) {
    // A null pointer would bind NULL, whatever the length.
    const char* data = text->empty() ? "" : text->data();
    sqlite3_bind_text64(statement, at, data, text->size(), SQLITE_STATIC, SQLITE_UTF8);
  } else if (const auto* blob = std::get_if<Blob>(&value)) {
    const char* data = blob->bytes.empty() ? "" : blob->bytes.data();
    sqlite3_bind_blob64(statement, at, data, blob->bytes.size(), SQLITE_STATIC);
  } else {
    sqlite3_bind_null(statement, at);
  }
}

}  // namespace

// Borrowed from the connection's cache and given back when destroyed.
class SqliteStatement : public PreparedStatement {
 public:
  SqliteStatement(SqliteConnection& connection, std::string_view sql,
                  absl::Span<const Value> values)
      : connection_(connection) {
    auto found = connection.statements_.find(sql);
    if (found == connection.statements_.end()) {
      found = connection.statements_.try_emplace(std::string(sql)).first;
    }
    home_ = &found->second;
    if (!home_->empty()) {
      statement_ = home_->back();
      home_->pop_back();
    } else {
      prepare(sql);
    }
    if (statement_ == nullptr) return;
    CHECK(sqlite3_bind_parameter_count(statement_) == static_cast<int>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      bind(statement_, static_cast<int>(i) + 1, values[i]);
    }
  }

  ~SqliteStatement() override {
    if (statement_ == nullptr) return;
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
    home_->push_back(statement_);
  }

  bool next() override {
    if (code_ != SQLITE_OK && code_ != SQLITE_ROW) return false;
    code_ = sqlite3_step(statement_);
    if (code_ != SQLITE_ROW && code_ != SQLITE_DONE) status_ = connection_.error(code_);
    return code_ == SQLITE_ROW;
  }

  absl::Status status() const override { return status_; }
  bool is_null(int column) const override {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }
  int64_t integer(int column) const override { return sqlite3_column_int64(statement_, column); }
  double real(int column) const override { return sqlite3_column_double(statement_, column); }
  std::string_view bytes(int column) const override {
    const void* data = sqlite3_column_blob(statement_, column);
    if (data == nullptr) return {};
    return {static_cast<const char*>(data),
            static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
  }

 private:
  void prepare(std::string_view sql) {
    code_ = sqlite3_prepare_v3(connection_.handle_, sql.data(), static_cast<int>(sql.size()),
                               SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
    // Our own SQL is right, so what does not compile was meant for other tables than the file has.
    if (code_ == SQLITE_ERROR) {
      status_ = absl::DataLossError(absl::StrFormat(
          "%s: corrupt: its tables are not those of its version (%s); restore a copy, or tune "
          "into a new file", connection_.path_, sqlite3_errmsg(connection_.handle_)));
    } else if (code_ != SQLITE_OK) {
      status_ = connection_.error(code_);
    }
  }

  SqliteConnection& connection_;
  std::vector<sqlite3_stmt*>* home_ = nullptr;               // in the connection's cache
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
  absl::Status status_;
};

absl::Status SqliteConnection::open(const std::string& name, int flags, double patience_s) {
  // NOMUTEX: one thread at a time uses a connection.
  const int code = sqlite3_open_v2(name.c_str(), &handle_,
                                   flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  if (code != SQLITE_OK) return error(code);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
  // A plan never depends on what is bound to it: else statements on tables with partial indexes would
  // be prepared anew for each value, which is half of the time of a writer of small transactions.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_QPSG, 1, nullptr);
  set_patience(patience_s);
  for (const char* pragma : {"PRAGMA cell_size_check = ON", "PRAGMA synchronous = FULL",
                             "PRAGMA temp_store = MEMORY", "PRAGMA mmap_size = 0"}) {
    RETURN_IF_ERROR(command(pragma));
  }
  return absl::OkStatus();
}

void SqliteConnection::set_patience(double patience_s) {
  patience_s_ = patience_s;
  sqlite3_busy_timeout(handle_, static_cast<int>(std::lround(patience_s * 1000)));
}

SqliteConnection::~SqliteConnection() {
  for (auto& [sql, statements] : statements_) {
    for (sqlite3_stmt* statement : statements) sqlite3_finalize(statement);
  }
  sqlite3_close(handle_);
}

std::unique_ptr<PreparedStatement> SqliteConnection::start(std::string_view sql,
                                                           absl::Span<const Value> values) {
  return std::make_unique<SqliteStatement>(*this, sql, values);
}

absl::Status SqliteConnection::command(const char* sql) {
  SqliteStatement statement(*this, sql, {});
  while (statement.next()) {
  }
  return statement.status();
}

absl::Status SqliteConnection::run_script(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : error(code);
}

absl::Status SqliteConnection::each(const std::string& select,
                                    absl::FunctionRef<absl::Status(const Query&)> row) {
  Query rows(start(select, {}));
  while (rows.next()) RETURN_IF_ERROR(row(rows));
  return rows.status();
}

// Errors of the disk roll back on their own, mostly, and what ran after that would commit alone.
absl::Status SqliteConnection::doomed() const {
  if (!doom_.ok() || sqlite3_get_autocommit(handle_) == 0) return doom_;
  return absl::UnavailableError(
      absl::StrCat(path_, ": the transaction was rolled back; run again"));
}

absl::Status SqliteConnection::error(int code) {
  const int system_error = handle_ == nullptr ? 0 : sqlite3_system_errno(handle_);
  const std::string why =
      code == sqlite3_errcode(handle_) || code == sqlite3_extended_errcode(handle_)
          ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  const int kind = code & 0xff;
  const bool is_io = kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN;
  auto doom = [&](absl::Status status) {
    if (doom_.ok()) doom_ = status;
    return status;
  };
  if (kind == SQLITE_FULL || (is_io && is_full(system_error))) {
    return doom(absl::ResourceExhaustedError(absl::StrFormat(
        "%s: the disk is full; what was stored before is safe; free some space and run again",
        path_)));
  }
  switch (kind) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(absl::StrFormat(
          "%s: locked by another process for over %g s; let it finish or stop it, then run again",
          path_, patience_s_));
    case SQLITE_CORRUPT:
    case SQLITE_CONSTRAINT:                // our statements keep them all, so an index is wrong
    case SQLITE_MISMATCH:
    case SQLITE_ERROR:
      return absl::DataLossError(absl::StrFormat(
          "%s: corrupt (%s); 'loopwright db check' lists the damage; restore a copy, or tune into "
          "a new file", path_, why));
    case SQLITE_NOTADB:
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s: not a SQLite database (or its first page is destroyed); name another file with --db",
          path_));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(absl::StrFormat(
          "%s: read-only; make the file and its directory writable, or name another with --db",
          path_));
    case SQLITE_NOMEM:
      return doom(absl::ResourceExhaustedError(absl::StrFormat("%s: out of memory", path_)));
    case SQLITE_CANTOPEN:
      if (system_error == EACCES || system_error == EPERM || system_error == EROFS) {
        return absl::PermissionDeniedError(absl::StrFormat(
            "%s: cannot be opened (%s); change its permissions, or name another with --db", path_,
            std::strerror(system_error)));
      }
      [[fallthrough]];
    default:
      return doom(absl::UnavailableError(absl::StrFormat(
          "%s: the disk or file system failed (%s%s%s); what was stored before is safe; see the "
          "kernel's log", path_, why, system_error == 0 ? "" : ": ",
          system_error == 0 ? "" : std::strerror(system_error))));
  }
}

}  // namespace lw
