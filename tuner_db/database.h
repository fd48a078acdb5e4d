// One SQLite file as this process sees it: opening with every refusal the Store promises,
// transactions, statements. Used by sqlite_store.cc only.
//
// SQLite 3.7.0-3.51.2 can corrupt a WAL when two connections write and checkpoint at the same
// instant (fixed in 3.51.3; Debian 12 has 3.40.1). Hence at any moment at most one of ours does:
//   - a process has one read-write connection per file (a registry by device and inode shares it),
//     guarded by a mutex;
//   - every write transaction with its checkpoint, opening and closing hold an flock on the file's
//     directory. Not on the file: closing another descriptor of it would drop SQLite's own locks.
//     A forked child closes its copy of the descriptor, or the lock would outlive a killed parent.
// Writes are BEGIN IMMEDIATE: a read transaction is never upgraded, so it never fails half way.
// Measured on the development machine (ext4): a durable append of one measurement 0.4 ms.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner_db/store.h"

namespace lw {

constexpr int kApplicationId = 0x4C6F6F70;  // "Loop", in bytes 68..71 of the file: file(1) can tell

struct Blob {
  std::string_view bytes;
};

class Database;

// A prepared statement, borrowed from the database's cache and given back when destroyed. An error
// ends the rows and stays in status().
class Query {
 public:
  Query(Query&& other) noexcept;
  Query(const Query&) = delete;
  ~Query();

  bool next();                             // a row is there
  absl::Status run();                      // to the end, for statements without rows
  absl::Status status() const;

  // Columns of the row, from 0. A column of another type reads as zero or empty.
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  std::string text(int column) const;
  std::string_view bytes(int column) const;  // until the next call

 private:
  friend class Database;
  Query(Database& database, std::string_view sql);
  void bind(int at, int64_t value);
  void bind(int at, int value) { bind(at, static_cast<int64_t>(value)); }
  void bind(int at, bool value) { bind(at, static_cast<int64_t>(value)); }
  void bind(int at, uint64_t value) { bind(at, static_cast<int64_t>(value)); }
  void bind(int at, double value);
  void bind(int at, std::string_view value);
  void bind(int at, Blob value);

  Database* database_;
  std::string sql_;
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
  absl::Status status_;
};

class Database {
 public:
  // See open_sqlite_store in store.h for what is refused.
  static absl::StatusOr<std::shared_ptr<Database>> open(const std::string& path,
                                                        const SqliteOptions& options);
  ~Database();

  // Runs `body` in a write transaction: all of it is durable when this returns OK, else none of it
  // is there. Waits `patience_s` for other processes.
  absl::Status write(double patience_s, absl::FunctionRef<absl::Status()> body);
  // Runs `body` on one consistent snapshot.
  absl::Status read(double patience_s, absl::FunctionRef<absl::Status()> body);
  // Rewrites the file without its free space; nothing changes but its size.
  absl::Status vacuum(double patience_s);

  // REQUIRES: inside write() or read(). Strings must outlive the Query.
  template <class... Values>
  Query query(std::string_view sql, const Values&... values) {
    Query query(*this, sql);
    int at = 0;
    (query.bind(++at, values), ...);
    return query;
  }
  absl::Status run(std::string_view sql) { return query(sql).run(); }
  absl::Status run_script(const std::string& sql);
  int64_t last_id() const { return sqlite3_last_insert_rowid(handle_); }
  int64_t changes() const { return sqlite3_changes(handle_); }

  const std::string& path() const { return path_; }
  // A Status for SQLite's result `code`, naming the file and what to do.
  absl::Status error(int code) const;

 private:
  friend class Query;
  friend class Opening;
  // Holds the directory while it lives.
  struct DirectoryLock {
    int descriptor = -1;
    ~DirectoryLock();
  };

  Database() = default;
  absl::Status usable() const;
  int64_t fingerprint() const;             // of the file's identity, size and times
  void disconnect();
  absl::Status lock_directory(double patience_s, DirectoryLock* lock) const;
  void set_patience(double patience_s);

  std::string path_;                       // absolute, links resolved
  sqlite3* handle_ = nullptr;
  int directory_ = -1;                     // what is flocked; -1 when read-only
  int owner_ = 0;                          // pid: a connection must not be used across a fork
  bool read_only_ = false;
  bool immutable_ = false;                 // read without locks: see Opening
  int64_t fingerprint_ = 0;                // immutable: when opened
  double patience_s_ = 10;
  std::mutex mutex_;
  std::unordered_map<std::string, std::vector<sqlite3_stmt*>> statements_;
};

// Opens a directory for flock, such that a forked child does not share the lock; -1 and errno.
int open_lock(const std::string& directory);
void close_lock(int descriptor);

// Step i takes a file from version i to i + 1; their number is the version that this program
// writes.
const std::vector<std::string>& schema_steps();

// Takes the file from its version to steps.size(), all or nothing. REQUIRES: inside write().
absl::Status migrate(Database& database, const std::vector<std::string>& steps);

// The name of the network file system with this statfs() magic, "" for local ones. Their locks and
// shared memory do not work between hosts.
std::string_view network_file_system(uint32_t magic);

}  // namespace lw
