// What both databases share: savepoints, locks by name, the schema's fence and migration.
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

absl::StatusOr<int64_t> one_integer(Query query) {
  const int64_t value = query.next() ? query.integer(0) : 0;
  RETURN_IF_ERROR(query.status());
  return value;
}

thread_local bool Database::keeps_house_ = false;

namespace {

// A transaction that the calling thread is in, while it lives. Within another of its database a
// read would not see what that has written, and a write would wait for it for ever.
class Inside {
 public:
  explicit Inside(const Database& database) : database_(database), outer_(innermost_) {
    CHECK(!is_inside(database));
    innermost_ = this;
  }
  ~Inside() { innermost_ = outer_; }
  Inside(const Inside&) = delete;

 private:
  static bool is_inside(const Database& database) {
    const Inside* inside = innermost_;
    while (inside != nullptr && &inside->database_ != &database) inside = inside->outer_;
    return inside != nullptr;
  }

  const Database& database_;
  const Inside* const outer_;
  static thread_local const Inside* innermost_;
};
thread_local const Inside* Inside::innermost_ = nullptr;

}  // namespace

absl::Status Database::write(double patience_s,
                             absl::FunctionRef<absl::Status(WriteTransaction&)> body) {
  const Inside inside(*this);
  crash_point();
  absl::Status status = write_transaction(patience_s, body);
  crash_point();
  return status;
}

absl::Status Database::read(double patience_s,
                            absl::FunctionRef<absl::Status(Transaction&)> body) {
  const Inside inside(*this);
  return read_transaction(patience_s, body);
}

absl::Status WriteTransaction::savepoint(absl::FunctionRef<absl::Status()> body) {
  // Equal names nest: RELEASE and ROLLBACK TO mean the innermost.
  RETURN_IF_ERROR(connection_.command("SAVEPOINT here"));
  absl::Status status = body();
  RETURN_IF_ERROR(connection_.doomed());
  if (!status.ok()) RETURN_IF_ERROR(connection_.command("ROLLBACK TO SAVEPOINT here"));
  RETURN_IF_ERROR(connection_.command("RELEASE SAVEPOINT here"));
  return status;
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

absl::Status check_schema(Transaction& tx) {
  const int ours = static_cast<int>(schema_steps().size());
  ASSIGN_OR_RETURN(const int version, tx.database().schema_version(tx));
  if (version == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: another Loopwright has brought it to schema version %d, and this one knows %d: it "
      "stores nothing more there; update it and start it again", tx.database().path(), version,
      ours));
}

absl::Status migrate(WriteTransaction& tx, const std::vector<std::string>& steps) {
  ASSIGN_OR_RETURN(int version, tx.database().schema_version(tx));
  for (; version < static_cast<int>(steps.size()); ++version) {
    RETURN_IF_ERROR(tx.run_script(steps[static_cast<size_t>(version)]));
  }
  return tx.database().set_schema_version(tx, version);
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
