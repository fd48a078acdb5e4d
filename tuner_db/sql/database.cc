// What both databases share: which connection a thread is in, joined transactions, savepoints,
// locks by name, migration.
#include "tuner_db/sql/database.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/sql/crash_point.h"

namespace lw {

absl::Status Query::run() {
  while (next()) {
  }
  crash_point();
  return status();
}

thread_local bool Database::keeps_house_ = false;
thread_local Database::Scope* Database::innermost_ = nullptr;

Database::Scope::Scope(const Database& database, Connection& connection, bool writes)
    : database_(&database), connection_(&connection), writes_(writes), outer_(innermost_) {
  innermost_ = this;
}

Database::Scope::~Scope() { innermost_ = outer_; }

const Database::Scope* Database::scope() const {
  for (const Scope* scope = innermost_; scope != nullptr; scope = scope->outer_) {
    if (scope->database_ == this) return scope;
  }
  return nullptr;
}

Connection* Database::current() const {
  const Scope* found = scope();
  return found == nullptr ? nullptr : found->connection_;
}

absl::Status Database::write(double patience_s, absl::FunctionRef<absl::Status()> body) {
  if (const Scope* outer = scope(); outer != nullptr) {
    CHECK(outer->writes_);                 // a snapshot cannot become a write
    return savepoint(body);
  }
  crash_point();
  absl::Status status = write_transaction(patience_s, body);
  crash_point();
  return status;
}

absl::Status Database::read(double patience_s, absl::FunctionRef<absl::Status()> body) {
  return scope() != nullptr ? body() : read_transaction(patience_s, body);
}

absl::Status Database::savepoint(absl::FunctionRef<absl::Status()> body) {
  const Scope* outer = scope();
  CHECK(outer != nullptr && outer->writes_);
  Connection& connection = *outer->connection_;
  // Equal names nest: RELEASE and ROLLBACK TO mean the innermost.
  RETURN_IF_ERROR(connection.command("SAVEPOINT here"));
  absl::Status status = body();
  RETURN_IF_ERROR(connection.doomed());
  if (!status.ok()) RETURN_IF_ERROR(connection.command("ROLLBACK TO SAVEPOINT here"));
  RETURN_IF_ERROR(connection.command("RELEASE SAVEPOINT here"));
  return status;
}

absl::Status Database::doomed() const {
  CHECK(current() != nullptr);
  return current()->doomed();
}

Query Database::query_values(std::string_view sql, absl::Span<const Value> values) {
  CHECK(current() != nullptr);
  return Query(current()->start(sql, values));
}

absl::Status Database::run_script(const std::string& sql) {
  CHECK(current() != nullptr);
  return current()->run_script(sql);
}

int64_t Database::changes() const {
  CHECK(current() != nullptr);
  return current()->changes();
}

absl::StatusOr<bool> Database::try_lock(int64_t name) {
  const std::lock_guard guard(locks_mutex_);
  if (locks_.contains(name)) return false;
  ASSIGN_OR_RETURN(const bool taken, lock_outside(name));
  if (taken) locks_.insert(name);
  return taken;
}

void Database::unlock(int64_t name) {
  const std::lock_guard guard(locks_mutex_);
  if (locks_.erase(name) > 0) unlock_outside(name);
}

absl::Status Database::refuse_write() const {
  return absl::PermissionDeniedError(absl::StrFormat(
      "%s: read-only; make the file and its directory writable, or name another with --db",
      path_));
}

absl::Status Database::check_schema() {
  const int ours = static_cast<int>(schema_steps().size());
  ASSIGN_OR_RETURN(const int version, schema_version());
  if (version == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: another Loopwright has brought it to schema version %d, and this one knows %d: it "
      "stores nothing more there; update it and start it again", path_, version, ours));
}

absl::Status migrate(Database& database, const std::vector<std::string>& steps) {
  ASSIGN_OR_RETURN(int version, database.schema_version());
  for (; version < static_cast<int>(steps.size()); ++version) {
    RETURN_IF_ERROR(database.run_script(steps[static_cast<size_t>(version)]));
  }
  return database.set_schema_version(version);
}

bool is_postgres_url(std::string_view url) {
  return url.starts_with("postgres://") || url.starts_with("postgresql://");
}

absl::Status check_database_url(std::string_view url) {
  const size_t end = url.find("://");
  const std::string_view scheme = url.substr(0, end);
  const bool is_url = end != std::string_view::npos && !scheme.empty() &&
                      std::all_of(scheme.begin(), scheme.end(), absl::ascii_isalnum);
  if (!is_url || is_postgres_url(url)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the database is neither a file nor postgres://USER@HOST/NAME: the scheme '",
      std::string(scheme), "' is unknown"));
}

}  // namespace lw
