#include "tuner_db/database.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/base/hash.h"

namespace lw {
namespace {

bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

// The descriptors behind DirectoryLocks of all databases: flock belongs to what a fork shares.
struct Locks {
  std::mutex mutex;
  std::set<int> descriptors;
};

Locks& locks() {
  static Locks& locks = *[] {
    pthread_atfork([] { lw::locks().mutex.lock(); }, [] { lw::locks().mutex.unlock(); },
                   [] {
                     for (int descriptor : lw::locks().descriptors) close(descriptor);
                     lw::locks().descriptors.clear();
                     lw::locks().mutex.unlock();
                   });
    return new Locks;
  }();
  return locks;
}

}  // namespace

int open_lock(const std::string& directory) {
  const std::lock_guard guard(locks().mutex);
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) locks().descriptors.insert(descriptor);
  return descriptor;
}

void close_lock(int descriptor) {
  const std::lock_guard guard(locks().mutex);
  if (locks().descriptors.erase(descriptor) > 0) close(descriptor);
}

Query::Query(Database& database, std::string_view sql) : database_(&database), sql_(sql) {
  std::vector<sqlite3_stmt*>& cached = database.statements_[sql_];
  if (!cached.empty()) {
    statement_ = cached.back();
    cached.pop_back();
    return;
  }
  code_ = sqlite3_prepare_v3(database.handle_, sql_.data(), static_cast<int>(sql_.size()),
                             SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
  // Our own SQL is right, so what does not compile was meant for other tables than the file has.
  if (code_ == SQLITE_ERROR) {
    status_ = absl::DataLossError(absl::StrFormat(
        "%s: corrupt: its tables are not those of its version (%s); restore a copy, or tune into a "
        "new file", database.path_, sqlite3_errmsg(database.handle_)));
  } else if (code_ != SQLITE_OK) {
    status_ = database.error(code_);
  }
}

Query::Query(Query&& other) noexcept
    : database_(other.database_),
      sql_(std::move(other.sql_)),
      statement_(std::exchange(other.statement_, nullptr)),
      code_(other.code_),
      status_(std::move(other.status_)) {}

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  database_->statements_[sql_].push_back(statement_);
}

void Query::bind(int at, int64_t value) {
  if (statement_ != nullptr) sqlite3_bind_int64(statement_, at, value);
}
void Query::bind(int at, double value) {
  if (statement_ != nullptr) sqlite3_bind_double(statement_, at, value);
}
void Query::bind(int at, std::string_view value) {
  if (statement_ == nullptr) return;
  // A null pointer would bind NULL, whatever the length.
  const char* data = value.empty() ? "" : value.data();
  sqlite3_bind_text64(statement_, at, data, value.size(), SQLITE_STATIC, SQLITE_UTF8);
}
void Query::bind(int at, Blob value) {
  if (statement_ == nullptr) return;
  const char* data = value.bytes.empty() ? "" : value.bytes.data();
  sqlite3_bind_blob64(statement_, at, data, value.bytes.size(), SQLITE_STATIC);
}

bool Query::next() {
  if (code_ != SQLITE_OK && code_ != SQLITE_ROW) return false;
  code_ = sqlite3_step(statement_);
  if (code_ != SQLITE_ROW && code_ != SQLITE_DONE) status_ = database_->error(code_);
  return code_ == SQLITE_ROW;
}

absl::Status Query::run() {
  while (next()) {
  }
  return status_;
}

absl::Status Query::status() const { return status_; }

std::string_view Query::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string Query::text(int column) const { return std::string(bytes(column)); }

absl::Status Database::error(int code) const {
  const int system_error = handle_ == nullptr ? 0 : sqlite3_system_errno(handle_);
  const std::string why =
      code == sqlite3_errcode(handle_) || code == sqlite3_extended_errcode(handle_)
          ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  const int kind = code & 0xff;
  const bool is_io = kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN;
  if (kind == SQLITE_FULL || (is_io && is_full(system_error))) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%s: the disk is full; what was stored before is safe; free some space and run again",
        path_));
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
      return absl::ResourceExhaustedError(absl::StrFormat("%s: out of memory", path_));
    case SQLITE_CANTOPEN:
      if (system_error == EACCES || system_error == EPERM || system_error == EROFS) {
        return absl::PermissionDeniedError(absl::StrFormat(
            "%s: cannot be opened (%s); change its permissions, or name another with --db", path_,
            std::strerror(system_error)));
      }
      [[fallthrough]];
    default:
      return absl::UnavailableError(absl::StrFormat(
          "%s: the disk or file system failed (%s%s%s); what was stored before is safe; see the "
          "kernel's log", path_, why, system_error == 0 ? "" : ": ",
          system_error == 0 ? "" : std::strerror(system_error)));
  }
}

Database::DirectoryLock::~DirectoryLock() {
  if (descriptor >= 0) flock(descriptor, LOCK_UN);
}

absl::Status Database::lock_directory(double patience_s, DirectoryLock* lock) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(patience_s));
  // Polled, since flock has no timeout; finer than any transaction takes, coarser than a scheduler
  // tick.
  std::chrono::microseconds pause(200);
  while (flock(directory_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return error(SQLITE_IOERR_LOCK);
    if (Clock::now() >= deadline) return error(SQLITE_BUSY);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
  lock->descriptor = directory_;
  return absl::OkStatus();
}

void Database::set_patience(double patience_s) {
  patience_s_ = patience_s;
  sqlite3_busy_timeout(handle_, static_cast<int>(std::lround(patience_s * 1000)));
}

// What would be written into a file that was deleted or replaced under us would be lost.
absl::Status Database::usable() const {
  CHECK(owner_ == getpid());               // SQLite's locks do not survive a fork
  int moved = 0;
  sqlite3_file_control(handle_, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved != 0) {
    return absl::UnavailableError(absl::StrFormat(
        "%s: was moved, deleted or replaced while in use; put it back, or run again", path_));
  }
  return absl::OkStatus();
}

absl::Status Database::write(double patience_s, absl::FunctionRef<absl::Status()> body) {
  const std::lock_guard guard(mutex_);
  if (read_only_) return error(SQLITE_READONLY);
  set_patience(patience_s);
  RETURN_IF_ERROR(usable());
  DirectoryLock lock;
  RETURN_IF_ERROR(lock_directory(patience_s, &lock));
  RETURN_IF_ERROR(run("BEGIN IMMEDIATE"));
  absl::Status status = body();
  if (status.ok()) status = run("COMMIT");
  // Some errors (a full disk) have rolled back already.
  if (!status.ok() && sqlite3_get_autocommit(handle_) == 0) run("ROLLBACK").IgnoreError();
  return status;
}

absl::Status Database::read(double patience_s, absl::FunctionRef<absl::Status()> body) {
  const std::lock_guard guard(mutex_);
  set_patience(patience_s);
  RETURN_IF_ERROR(usable());
  RETURN_IF_ERROR(run("BEGIN"));
  const absl::Status status = body();
  run("ROLLBACK").IgnoreError();
  if (immutable_ && fingerprint() != fingerprint_) {
    return absl::UnavailableError(absl::StrFormat(
        "%s: another user's process wrote to it while it was read; run again", path_));
  }
  return status;
}

absl::Status Database::vacuum(double patience_s) {
  const std::lock_guard guard(mutex_);
  if (read_only_) return error(SQLITE_READONLY);
  set_patience(patience_s);
  RETURN_IF_ERROR(usable());
  DirectoryLock lock;
  RETURN_IF_ERROR(lock_directory(patience_s, &lock));
  RETURN_IF_ERROR(run("VACUUM"));
  return run("PRAGMA wal_checkpoint(TRUNCATE)");
}

absl::Status Database::run_script(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : error(code);
}

int64_t Database::fingerprint() const {
  struct stat file {}, wal {};
  stat(path_.c_str(), &file);
  stat((path_ + "-wal").c_str(), &wal);
  uint64_t hash = 0;
  for (int64_t part : {static_cast<int64_t>(file.st_ino), static_cast<int64_t>(file.st_size),
                       static_cast<int64_t>(file.st_mtim.tv_sec),
                       static_cast<int64_t>(file.st_mtim.tv_nsec),
                       static_cast<int64_t>(wal.st_size)}) {
    hash = hash_combine(hash, static_cast<uint64_t>(part));
  }
  return static_cast<int64_t>(hash);
}

void Database::disconnect() {
  for (auto& [sql, statements] : statements_) {
    for (sqlite3_stmt* statement : statements) sqlite3_finalize(statement);
  }
  statements_.clear();
  sqlite3_close(std::exchange(handle_, nullptr));
}

Database::~Database() {
  if (owner_ != getpid()) return;          // a fork's copy: the file's locks are the parent's
  // Closing the last connection checkpoints, which is a write: without the lock the WAL stays, and
  // the next opening takes it in.
  DirectoryLock lock;
  if (directory_ >= 0 && handle_ != nullptr && !lock_directory(patience_s_, &lock).ok()) {
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  }
  disconnect();
  if (lock.descriptor >= 0) flock(std::exchange(lock.descriptor, -1), LOCK_UN);
  if (directory_ >= 0) close_lock(directory_);
}

}  // namespace lw
