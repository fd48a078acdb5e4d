// Transactions, checkpoints and copies of a file; see sqlite_database.h for the rules they keep.
#include "tuner_db/sql/sqlite_database.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/file_lock.h"
#include "src/base/hash.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/sql/fork.h"

namespace lw {
namespace {

constexpr int kFoldPages = 1000;
constexpr int kTruncatePages = 16384;      // 64 MiB

}  // namespace

SqliteDatabase::SqliteDatabase(const DatabaseOptions& options)
    : options_(options), owner_(getpid()), readers_(options.connections) {}

SqliteDatabase::DirectoryLock::~DirectoryLock() {
  if (descriptor >= 0) flock(descriptor, LOCK_UN);
}

absl::Status SqliteDatabase::busy(double patience_s) const {
  return absl::UnavailableError(absl::StrFormat(
      "%s: locked by another process for over %g s; let it finish or stop it, then run again",
      path_, patience_s));
}

absl::Status SqliteDatabase::lock_directory(double patience_s, DirectoryLock* lock) const {
  if (!lock_within(directory_, std::chrono::duration<double>(patience_s))) {
    if (errno == EWOULDBLOCK) return busy(patience_s);
    return absl::UnavailableError(absl::StrCat(path_, ": its directory cannot be locked"));
  }
  lock->descriptor = directory_;
  return absl::OkStatus();
}

// What would be written into a file that was deleted or replaced under us would be lost.
absl::Status SqliteDatabase::usable(sqlite3* handle) const {
  CHECK(owner_ == getpid());               // SQLite's locks do not survive a fork
  int moved = 0;
  sqlite3_file_control(handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved != 0) {
    return absl::UnavailableError(absl::StrFormat(
        "%s: was moved, deleted or replaced while in use; put it back, or run again", path_));
  }
  return absl::OkStatus();
}

absl::Status SqliteDatabase::write_transaction(
    double patience_s, absl::FunctionRef<absl::Status(WriteTransaction&)> body) {
  const std::lock_guard guard(writer_mutex_);
  if (writer_ == nullptr) return refuse_write();
  writer_->set_patience(patience_s);
  RETURN_IF_ERROR(usable(writer_->handle()));
  DirectoryLock lock;
  RETURN_IF_ERROR(lock_directory(patience_s, &lock));
  writer_->begin();
  RETURN_IF_ERROR(writer_->command("BEGIN IMMEDIATE"));
  WriteTransaction tx(*this, *writer_);
  absl::Status status = check_schema(tx);
  if (status.ok()) status = body(tx);
  if (absl::Status doom = writer_->doomed(); !doom.ok()) status = doom;
  if (status.ok()) status = writer_->command("COMMIT");
  // Some errors (a full disk) have rolled back already.
  if (sqlite3_get_autocommit(writer_->handle()) == 0) writer_->command("ROLLBACK").IgnoreError();
  if (status.ok()) fold(false);
  return status;
}

// REQUIRES: the writer's mutex and the directory. What fails here is tried again later.
void SqliteDatabase::fold(bool all) {
  if (wal_pages_ < fold_at_ - kFoldPages) fold_at_ = kFoldPages;  // the WAL began anew
  if (!all && wal_pages_ < fold_at_) return;
  const bool truncate = all || wal_pages_ > kTruncatePages;
  writer_->set_patience(0);                // not for readers
  int pages = 0, folded = 0;
  const int code = sqlite3_wal_checkpoint_v2(
      writer_->handle(), "main", truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE,
      &pages, &folded);
  fold_at_ = wal_pages_ + kFoldPages;
  if (code == SQLITE_OK && folded == pages) fold_at_ = kFoldPages;
  if (code == SQLITE_OK && truncate) wal_pages_ = 0;
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteDatabase::take_reader(double patience_s) {
  auto make = [&]() -> absl::StatusOr<std::unique_ptr<SqliteConnection>> {
    auto reader = std::make_unique<SqliteConnection>(path_);
    RETURN_IF_ERROR(reader->open(reader_name_, reader_flags_, patience_s));
    return reader;
  };
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> reader,
                   readers_.take(patience_s, reserved(), make));
  if (reader == nullptr) {
    return absl::UnavailableError(absl::StrFormat(
        "%s: all %d connections were busy reading for over %g s; run again", path_,
        options_.connections, patience_s));
  }
  reader->set_patience(patience_s);
  return reader;
}

absl::Status SqliteDatabase::read_transaction(
    double patience_s, absl::FunctionRef<absl::Status(Transaction&)> body) {
  CHECK(owner_ == getpid());
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> reader, take_reader(patience_s));
  reader->begin();
  absl::Status status = usable(reader->handle());
  if (status.ok()) status = reader->command("BEGIN");
  if (status.ok()) {
    Transaction tx(*this, *reader);
    status = body(tx);
  }
  if (sqlite3_get_autocommit(reader->handle()) == 0) reader->command("ROLLBACK").IgnoreError();
  readers_.give(std::move(reader));
  if (immutable_ && fingerprint() != fingerprint_) {
    return absl::UnavailableError(absl::StrFormat(
        "%s: another user's process wrote to it while it was read; run again", path_));
  }
  return status;
}

absl::StatusOr<int64_t> SqliteDatabase::server_ms() {
  return unix_ms();
}

absl::StatusOr<int> SqliteDatabase::schema_version(Transaction& tx) {
  ASSIGN_OR_RETURN(const int64_t version, one_integer(tx.query("PRAGMA user_version")));
  return static_cast<int>(version);
}

absl::Status SqliteDatabase::set_schema_version(WriteTransaction& tx, int version) {
  RETURN_IF_ERROR(tx.run(absl::StrCat("PRAGMA application_id = ", kApplicationId)));
  return tx.run(absl::StrCat("PRAGMA user_version = ", version));
}

absl::StatusOr<int64_t> SqliteDatabase::last_given(Transaction& tx, const std::string& table) {
  return one_integer(tx.query("SELECT seq FROM sqlite_sequence WHERE name = ?", table));
}

absl::Status SqliteDatabase::set_last_given(WriteTransaction& tx, const std::string& table,
                                            int64_t id) {
  for (const TableSchema& known : schema_tables()) {
    if (known.name == table && !known.counts) return absl::OkStatus();
  }
  RETURN_IF_ERROR(tx.query("DELETE FROM sqlite_sequence WHERE name = ?", table).run());
  return tx.query("INSERT INTO sqlite_sequence (name, seq) VALUES (?,?)", table, id).run();
}

absl::Status SqliteDatabase::check_structure(Transaction& tx, std::vector<std::string>* lines) {
  std::string schema;
  {
    Query tables = tx.query(kSqliteSchemaQuery);
    while (tables.next()) absl::StrAppend(&schema, tables.text(0), "\n");
    RETURN_IF_ERROR(tables.status());
  }
  if (schema != sqlite_schema_text()) {
    lines->push_back("schema: the tables are not those of its version");
  }
  Query integrity = tx.query("PRAGMA integrity_check");
  while (integrity.next()) {
    if (integrity.text(0) != "ok") lines->push_back(absl::StrCat("integrity: ", integrity.text(0)));
  }
  return integrity.status();
}

absl::Status SqliteDatabase::vacuum(double patience_s) {
  const std::lock_guard guard(writer_mutex_);
  if (writer_ == nullptr) return refuse_write();
  writer_->set_patience(patience_s);
  RETURN_IF_ERROR(usable(writer_->handle()));
  DirectoryLock lock;
  RETURN_IF_ERROR(lock_directory(patience_s, &lock));
  RETURN_IF_ERROR(writer_->command("VACUUM"));
  fold(true);
  return absl::OkStatus();
}

absl::Status SqliteDatabase::tidy() {
  const std::lock_guard guard(writer_mutex_);
  if (writer_ == nullptr || wal_pages_ == 0) return absl::OkStatus();
  RETURN_IF_ERROR(usable(writer_->handle()));
  DirectoryLock lock;
  RETURN_IF_ERROR(lock_directory(0, &lock));
  fold(true);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SqliteDatabase::bytes() {
  int64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    struct stat file;
    if (stat((path_ + suffix).c_str(), &file) == 0) bytes += file.st_size;
  }
  return bytes;
}

absl::Status SqliteDatabase::copy_to(const std::string& file) {
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> reader, take_reader(options_.patience_s));
  absl::Status status = usable(reader->handle());
  if (status.ok()) {
    const Value name = as_value(file);
    const std::unique_ptr<PreparedStatement> copy = reader->start("VACUUM INTO ?", {&name, 1});
    while (copy->next()) {
    }
    status = copy->status();
  }
  readers_.give(std::move(reader));
  return status;
}

absl::Status SqliteDatabase::leave_wal() {
  const std::lock_guard guard(writer_mutex_);
  readers_.drain();
  if (writer_ == nullptr) return refuse_write();
  return writer_->command("PRAGMA journal_mode = DELETE");
}

int64_t SqliteDatabase::fingerprint() const {
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

SqliteDatabase::~SqliteDatabase() {
  std::vector<std::unique_ptr<SqliteConnection>> readers = readers_.drain();
  if (owner_ != getpid()) {                // a fork's copy: the file's locks are the parent's
    for (auto& reader : readers) reader.release();
    writer_.release();
    return;
  }
  readers.clear();
  // Closing the last connection checkpoints, which is a write: without the lock the WAL stays, and
  // the next opening takes it in.
  DirectoryLock lock;
  if (directory_ >= 0 && writer_ != nullptr && !lock_directory(options_.patience_s, &lock).ok()) {
    sqlite3_db_config(writer_->handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  }
  writer_ = nullptr;
  if (lock.descriptor >= 0) flock(std::exchange(lock.descriptor, -1), LOCK_UN);
  if (directory_ >= 0) {
    forget_unshared(directory_);
    close(directory_);
  }
}

}  // namespace lw
