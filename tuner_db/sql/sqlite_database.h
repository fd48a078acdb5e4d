// One SQLite file as this process sees it. Used by sqlite_*.cc and their tests only.
//
// SQLite 3.7.0-3.51.2 can corrupt a WAL when two connections write and checkpoint at the same
// instant (fixed in 3.51.3; Debian 12 has 3.40.1). Hence at any moment at most one of ours does:
//   - a process has one read-write connection per file (a registry by device and inode shares it),
//     guarded by a mutex; all others are read-only and never checkpoint;
//   - every write transaction with its checkpoint, opening and closing hold an flock on the file's
//     directory. Not on the file: closing another descriptor of it would drop SQLite's own locks.
//     A forked child closes its copy of the descriptor, or the lock would outlive a killed parent.
// Writes are BEGIN IMMEDIATE: a read transaction is never upgraded, so it never fails half way.
// Readers borrow a connection each, so they wait neither for a write nor for its sync.
//
// Checkpoints are ours: after a commit, PASSIVE for every 1000 pages that the WAL grew, TRUNCATE
// once it exceeds 64 MiB (readers had pinned it) and in tidy(). A failed one loses nothing.
// Measured on the development machine (ext4): a durable append of one measurement 0.4 ms.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/sql/pool.h"

namespace lw {

constexpr int kApplicationId = 0x4C6F6F70;  // "Loop", in bytes 68..71 of the file: file(1) can tell

class SqliteConnection : public Connection {
 public:
  explicit SqliteConnection(std::string path) : path_(std::move(path)) {}
  ~SqliteConnection() override;            // closes, finalizing the cached statements

  // Opens `name`. Closing will not touch the file until allowed to.
  absl::Status open(const std::string& name, int flags, double patience_s);
  void set_patience(double patience_s);

  std::unique_ptr<PreparedStatement> start(std::string_view sql,
                                           absl::Span<const Value> values) override;
  absl::Status command(const char* sql) override;
  absl::Status run_script(const std::string& sql) override;
  absl::Status each(const std::string& select,
                    absl::FunctionRef<absl::Status(const Query&)> row) override;
  int64_t changes() const override { return sqlite3_changes64(handle_); }
  absl::Status doomed() const override;

  // Forgets what doomed the last transaction.
  void begin() { doom_ = absl::OkStatus(); }
  sqlite3* handle() const { return handle_; }
  // A Status for SQLite's result `code`, naming the file and what to do.
  absl::Status error(int code);

 private:
  friend class SqliteStatement;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Cache = std::unordered_map<std::string, std::vector<sqlite3_stmt*>, Hash, std::equal_to<>>;

  std::string path_;
  sqlite3* handle_ = nullptr;
  double patience_s_ = 10;
  absl::Status doom_;
  Cache statements_;
};

class SqliteDatabase : public Database {
 public:
  ~SqliteDatabase() override;

  std::string_view skip_locked() const override { return ""; }
  bool is_shared() const override { return false; }
  absl::StatusOr<int64_t> server_ms() override;
  std::string_view clock_sql() const override {
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
  }
  absl::StatusOr<int> schema_version(Transaction& tx) override;
  absl::Status set_schema_version(WriteTransaction& tx, int version) override;
  absl::StatusOr<int64_t> last_given(Transaction& tx, const std::string& table) override;
  absl::Status set_last_given(WriteTransaction& tx, const std::string& table, int64_t id) override;
  absl::Status check_structure(Transaction& tx, std::vector<std::string>* lines) override;
  absl::Status vacuum(double patience_s) override;
  absl::Status tidy() override;
  absl::StatusOr<int64_t> bytes() override;

  // A copy of one snapshot as a new file, without its free space.
  absl::Status copy_to(const std::string& file);
  // Folds all in and leaves the WAL mode, until the next opening for writing: whoever reads the
  // file makes none beside it. REQUIRES: nobody else has it open.
  absl::Status leave_wal();

 protected:
  absl::Status write_transaction(
      double patience_s, absl::FunctionRef<absl::Status(WriteTransaction&)> body) override;
  absl::Status read_transaction(double patience_s,
                                absl::FunctionRef<absl::Status(Transaction&)> body) override;

 private:
  friend class SqliteOpening;
  // Holds the directory while it lives.
  struct DirectoryLock {
    int descriptor = -1;
    ~DirectoryLock();
  };

  explicit SqliteDatabase(const DatabaseOptions& options);
  absl::StatusOr<std::unique_ptr<SqliteConnection>> take_reader(double patience_s);
  absl::Status usable(sqlite3* handle) const;
  int64_t fingerprint() const;             // of the file's identity, size and times
  absl::Status lock_directory(double patience_s, DirectoryLock* lock) const;
  absl::Status busy(double patience_s) const;
  void fold(bool all);                     // the WAL into the file

  DatabaseOptions options_;
  int directory_ = -1;                     // what is flocked; -1 when read-only
  int owner_ = 0;                          // pid: a connection must not be used across a fork
  bool immutable_ = false;                 // read without locks: see SqliteOpening
  int64_t fingerprint_ = 0;                // immutable: when opened
  std::string reader_name_;                // what readers open, and how
  int reader_flags_ = SQLITE_OPEN_READONLY;

  std::mutex writer_mutex_;                // guards what follows
  std::unique_ptr<SqliteConnection> writer_;  // nullptr when read-only
  int wal_pages_ = 0;                      // in the WAL after the last commit
  int fold_at_ = 0;                        // pages

  ConnectionPool<SqliteConnection> readers_;
};

// The name of the network file system with this statfs() magic, "" for local ones. Their locks and
// shared memory do not work between hosts.
std::string_view network_file_system(uint32_t magic);

}  // namespace lw
