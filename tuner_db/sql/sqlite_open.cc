// Opening a database file: everything that can be wrong with one is found here, before anything of
// it is changed, and told apart. In order: the path; the file system; a connection this process has
// already; permissions; who made the file (application_id) and when (user_version), read while
// SQLite is forbidden to checkpoint; then WAL mode and migrations.
//
// Read-only opening must work where nothing can be written, but WAL needs its -shm file. If SQLite
// cannot have one, and no WAL with content lies beside the file, the file alone is the whole
// database and is read as immutable; every read then checks afterwards that the file is still the
// same.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/sql/fork.h"
#include "tuner_db/sql/sqlite_database.h"

namespace lw {

namespace {

// Read-write connections of this process, by device and inode.
struct Registry {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<SqliteDatabase>> open;
};

Registry& registry() {
  static Registry& registry = *new Registry;  // never destroyed: stores may outlive static objects
  return registry;
}

absl::Status refuse(const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", what));
}

// "file:" with what SQLite's URI parser would interpret escaped.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (unsigned char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      absl::StrAppendFormat(&uri, "%%%02X", c);
    } else {
      uri.push_back(static_cast<char>(c));
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

std::string_view network_file_system(uint32_t magic) {
  static constexpr std::pair<uint32_t, std::string_view> kNames[] = {
      {0x00006969, "NFS"},  {0x0000517B, "SMB"},    {0xFE534D42, "SMB"},    {0xFF534D42, "CIFS"},
      {0x01021997, "9P"},   {0x65735546, "FUSE"},   {0x00C36400, "Ceph"},   {0x5346414F, "AFS"},
      {0x73757245, "Coda"}, {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},   {0x19830326, "BeeGFS"},
  };
  for (const auto& [known, name] : kNames) {
    if (known == magic) return name;
  }
  return "";
}

// The steps of one open(); a friend of SqliteDatabase so that one is either open or does not
// exist.
class SqliteOpening {
 public:
  SqliteOpening(const std::string& path, const DatabaseOptions& options)
      : given_(path), options_(options), database_(new SqliteDatabase(options)) {}

  absl::StatusOr<std::shared_ptr<Database>> run() {
    RETURN_IF_ERROR(resolve());
    Registry& known = registry();
    const std::lock_guard guard(known.mutex);
    if (exists_) {
      if (auto shared = known.open[identity()].lock(); shared != nullptr) {
        CHECK(shared->owner_ == getpid());  // SQLite knows this process by its parent's locks
        return shared;
      }
    }
    if (options_.read_only) {
      RETURN_IF_ERROR(open_to_read());
      database_->readers_.adopt(std::move(connection_));
      return database_;
    }
    RETURN_IF_ERROR(open_to_write());
    if (stat(database_->path_.c_str(), &stat_) != 0) return error(SQLITE_CANTOPEN);
    known.open[identity()] = database_;
    return database_;
  }

 private:
  std::pair<dev_t, ino_t> identity() const { return {stat_.st_dev, stat_.st_ino}; }

  absl::Status resolve();
  absl::Status open_to_read();
  absl::Status open_to_write();
  absl::Status connect(const std::string& name, int flags);
  absl::StatusOr<std::string> ask(const char* sql);          // the first column of the first row
  absl::Status identify(int* version);
  absl::Status error(int code) { return connection_->error(code); }
  absl::Status prepare_file();

  std::string given_;
  DatabaseOptions options_;
  std::shared_ptr<SqliteDatabase> database_;
  std::unique_ptr<SqliteConnection> connection_;
  bool exists_ = false;
  struct stat stat_ {};
  std::string directory_;
};

// The absolute path, the directory and the file as they are now.
absl::Status SqliteOpening::resolve() {
  if (given_.empty()) return absl::InvalidArgumentError("the database's path is empty");
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::weakly_canonical(
      std::filesystem::absolute(given_), failure);
  if (failure) {
    return absl::InvalidArgumentError(absl::StrCat(given_, ": ", failure.message()));
  }
  database_->path_ = path.string();
  database_->reader_name_ = database_->path_;
  connection_ = std::make_unique<SqliteConnection>(database_->path_);
  directory_ = path.parent_path().string();
  exists_ = stat(database_->path_.c_str(), &stat_) == 0;
  if (exists_ && !S_ISREG(stat_.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(database_->path_, ": not a regular file"));
  }
  if (!exists_ && errno == EACCES) return error(SQLITE_PERM);
  if (!exists_ && options_.read_only) {
    return absl::NotFoundError(absl::StrCat(
        database_->path_, ": no such database; 'loopwright tune' makes one, --db names another"));
  }
  struct statfs system;
  if (statfs(directory_.c_str(), &system) != 0) {
    return absl::NotFoundError(absl::StrFormat("%s: the directory %s cannot be used: %s",
                                               database_->path_, directory_, std::strerror(errno)));
  }
  const std::string_view network = network_file_system(static_cast<uint32_t>(system.f_type));
  if (!network.empty()) {
    return absl::UnavailableError(absl::StrFormat(
        "%s: lies on a network file system (%s), where locks do not protect it; name a file on a "
        "local disk with --db", database_->path_, network));
  }
  return absl::OkStatus();
}

absl::Status SqliteOpening::connect(const std::string& name, int flags) {
  connection_ = std::make_unique<SqliteConnection>(database_->path_);
  return connection_->open(name, flags, options_.patience_s);
}

absl::StatusOr<std::string> SqliteOpening::ask(const char* sql) {
  const std::unique_ptr<PreparedStatement> statement = connection_->start(sql, {});
  std::string text;
  if (statement->next()) text = std::string(statement->bytes(0));
  RETURN_IF_ERROR(statement->status());
  return text;
}

// Whose file it is and of which version; changes nothing.
absl::Status SqliteOpening::identify(int* version) {
  ASSIGN_OR_RETURN(const std::string application, ask("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const std::string tables, ask("SELECT count(*) FROM sqlite_schema"));
  ASSIGN_OR_RETURN(const std::string number, ask("PRAGMA user_version"));
  *version = std::atoi(number.c_str());
  const bool is_new = application == "0" && *version == 0 && tables == "0";
  if (application != absl::StrCat(kApplicationId) && !is_new) {
    return refuse(database_->path_,
                  "a database of another program; name another file with --db");
  }
  const int ours = static_cast<int>(schema_steps().size());
  if (*version < 0 || *version > ours) {
    return refuse(database_->path_, absl::StrFormat(
        "written by a newer Loopwright (schema version %d, this one knows %d); update Loopwright, "
        "or name another file with --db", *version, ours));
  }
  return absl::OkStatus();
}

absl::Status SqliteOpening::open_to_read() {
  const std::string& path = database_->path_;
  absl::Status status = connect(path, SQLITE_OPEN_READONLY);
  int version = 0;
  if (status.ok()) status = identify(&version);
  struct stat wal;
  const bool has_wal = stat((path + "-wal").c_str(), &wal) == 0 && wal.st_size > 0;
  const bool wants_shm = status.code() == absl::StatusCode::kPermissionDenied ||
                         status.code() == absl::StatusCode::kUnavailable;
  if (wants_shm && faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0) {
    if (has_wal) {
      return absl::PermissionDeniedError(absl::StrCat(
          path, ": holds results that are still in ", path, "-wal, which cannot be read without "
          "permission to write; open it once with that permission"));
    }
    database_->immutable_ = true;
    database_->reader_name_ = immutable_uri(path);
    database_->reader_flags_ |= SQLITE_OPEN_URI;
    status = connect(database_->reader_name_, database_->reader_flags_);
    if (status.ok()) status = identify(&version);
    database_->fingerprint_ = database_->fingerprint();
  }
  RETURN_IF_ERROR(status);
  if (version < static_cast<int>(schema_steps().size())) {
    return refuse(path, absl::StrFormat(
        "has schema version %d and cannot be brought to %d read-only; open it once for writing",
        version, schema_steps().size()));
  }
  return absl::OkStatus();
}

absl::Status SqliteOpening::open_to_write() {
  const std::string& path = database_->path_;
  // SQLite would silently open such a file for reading.
  const bool file_writable = !exists_ || faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
  if (!file_writable || faccessat(AT_FDCWD, directory_.c_str(), W_OK, AT_EACCESS) != 0) {
    return error(SQLITE_READONLY);
  }
  database_->directory_ = open_unshared(
      [&] { return open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (database_->directory_ < 0) return error(SQLITE_CANTOPEN);
  SqliteDatabase::DirectoryLock lock;
  RETURN_IF_ERROR(database_->lock_directory(options_.patience_s, &lock));
  // It holds programs: a new one is its owner's alone, and with it the files beside it.
  const int made = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made >= 0) close(made);
  RETURN_IF_ERROR(prepare_file());
  database_->writer_ = std::move(connection_);
  return absl::OkStatus();
}

// REQUIRES: the directory is locked.
absl::Status SqliteOpening::prepare_file() {
  RETURN_IF_ERROR(connect(database_->path_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  int version = 0;
  RETURN_IF_ERROR(identify(&version));
  sqlite3* handle = connection_->handle();
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  ASSIGN_OR_RETURN(const std::string mode, ask("PRAGMA journal_mode = WAL"));
  if (mode != "wal") return error(SQLITE_READONLY);
  RETURN_IF_ERROR(connection_->command("PRAGMA journal_size_limit = 67108864"));
  // The hot rows of a busy service, which SQLite's 2 MB do not hold: each miss is a system call.
  RETURN_IF_ERROR(connection_->command("PRAGMA cache_size = -16384"));
  // Instead of SQLite's own checkpoints: SqliteDatabase::fold().
  sqlite3_wal_hook(handle, [](void* pages, sqlite3*, const char*, int count) {
    *static_cast<int*>(pages) = count;
    return SQLITE_OK;
  }, &database_->wal_pages_);
  if (version == static_cast<int>(schema_steps().size())) return absl::OkStatus();
  connection_->begin();
  RETURN_IF_ERROR(connection_->command("BEGIN IMMEDIATE"));
  WriteTransaction tx(*database_, *connection_);
  absl::Status status = migrate(tx, schema_steps());
  if (status.ok()) status = connection_->command("COMMIT");
  if (sqlite3_get_autocommit(handle) == 0) connection_->command("ROLLBACK").IgnoreError();
  return status;
}

absl::StatusOr<std::shared_ptr<Database>> connect_sqlite(const std::string& path,
                                                         const DatabaseOptions& options) {
  return SqliteOpening(path, options).run();
}

}  // namespace lw
