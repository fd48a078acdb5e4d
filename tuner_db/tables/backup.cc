// Copies go table by table and row by row, as the schema lists them (schema.h), so a table of a
// later step is included without a word here. Two tables are equal when they have as many rows and
// the same sum of their rows' hashes, which needs no order.
#include "tuner_db/tables/backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/sql/sqlite_database.h"

namespace lw {
namespace {

constexpr double kPatience_s = 60;

struct Digest {
  int64_t rows = 0;
  uint64_t sum = 0;
  bool operator==(const Digest&) const = default;
};
using Digests = std::map<std::string, Digest>;

std::string select_all(const TableSchema& table) {
  std::string columns;
  for (const Column& column : table.columns) {
    absl::StrAppend(&columns, columns.empty() ? "" : ", ", sql_name(column.name));
  }
  return absl::StrCat("SELECT ", columns, " FROM ", sql_name(table.name));
}

Value value_of(const Query& row, int at, ColumnType type) {
  if (row.is_null(at)) return nullptr;
  switch (type) {
    case ColumnType::kInteger: return row.integer(at);
    case ColumnType::kReal: return row.real(at);
    case ColumnType::kText: return row.bytes(at);
    case ColumnType::kBlob: return Blob{row.bytes(at)};
  }
  return nullptr;
}

uint64_t hash_of(const Value& value) {
  uint64_t bits = 0;
  if (const auto* integer = std::get_if<int64_t>(&value)) bits = static_cast<uint64_t>(*integer);
  if (const auto* real = std::get_if<double>(&value)) std::memcpy(&bits, real, sizeof bits);
  if (const auto* text = std::get_if<std::string_view>(&value)) bits = hash64(*text);
  if (const auto* blob = std::get_if<Blob>(&value)) bits = hash64(blob->bytes);
  return hash_combine(value.index(), bits);
}

// Calls `each` with the values of every row and counts them into the digest.
absl::Status for_rows(Transaction& tx, const TableSchema& table, Digest* digest,
                      absl::FunctionRef<absl::Status(absl::Span<const Value>)> each) {
  std::vector<Value> values(table.columns.size());
  return tx.each(select_all(table), [&](const Query& row) {
    uint64_t hash = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = value_of(row, static_cast<int>(i), table.columns[i].type);
      hash = hash_combine(hash, hash_of(values[i]));
    }
    ++digest->rows;
    digest->sum += hash;
    return each(values);
  });
}

absl::StatusOr<Digests> digest_all(Transaction& tx) {
  Digests digests;
  for (const TableSchema& table : schema_tables()) {
    RETURN_IF_ERROR(for_rows(tx, table, &digests[table.name],
                             [](absl::Span<const Value>) { return absl::OkStatus(); }));
  }
  return digests;
}

// REQUIRES: the tables of `to` are empty.
absl::StatusOr<Digests> copy_all(Transaction& from, WriteTransaction& to) {
  Digests digests;
  for (const TableSchema& table : schema_tables()) {
    std::string columns, places;
    for (const Column& column : table.columns) {
      absl::StrAppend(&columns, columns.empty() ? "" : ", ", sql_name(column.name));
      absl::StrAppend(&places, places.empty() ? "?" : ",?");
    }
    const std::string insert = absl::StrCat("INSERT INTO ", sql_name(table.name), " (", columns,
                                            ") VALUES (", places, ")");
    RETURN_IF_ERROR(for_rows(from, table, &digests[table.name], [&](absl::Span<const Value> row) {
      return to.query_values(insert, row).run();
    }));
    if (!table.identity) continue;
    ASSIGN_OR_RETURN(int64_t last, from.database().last_given(from, table.name));
    Query greatest = to.query(concat("SELECT coalesce(max(id), 0) FROM ", sql_name(table.name)));
    if (greatest.next()) last = std::max(last, greatest.integer(0));
    RETURN_IF_ERROR(greatest.status());
    RETURN_IF_ERROR(to.database().set_last_given(to, table.name, last));
  }
  return digests;
}

absl::Status compare(const Database& database, const Digests& wanted, const Digests& found) {
  for (const auto& [table, digest] : wanted) {
    if (found.at(table) == digest) continue;
    return absl::DataLossError(absl::StrFormat(
        "%s: its table %s has not the rows it was copied from (%d against %d); nothing was changed",
        database.path(), table, found.at(table).rows, digest.rows));
  }
  return absl::OkStatus();
}

// One transaction of each, in which both are seen as they are.
absl::Status copy_and_compare(Database& from, Database& to, bool clear_first) {
  return from.read(kPatience_s, [&](Transaction& reading) {
    return to.write(kPatience_s, [&](WriteTransaction& writing) -> absl::Status {
      const std::vector<TableSchema>& tables = schema_tables();
      for (auto table = tables.rbegin(); clear_first && table != tables.rend(); ++table) {
        RETURN_IF_ERROR(writing.run(concat("DELETE FROM ", sql_name(table->name))));
      }
      ASSIGN_OR_RETURN(const Digests copied, copy_all(reading, writing));
      ASSIGN_OR_RETURN(const Digests found, digest_all(writing));
      return compare(to, copied, found);
    });
  });
}

absl::Status system_error(const std::string& path, const char* what) {
  const std::string why = absl::StrFormat("%s: cannot be %s: %s", path, what, std::strerror(errno));
  if (errno == ENOSPC || errno == EDQUOT) return absl::ResourceExhaustedError(why);
  return errno == EACCES || errno == EROFS || errno == EPERM ? absl::PermissionDeniedError(why)
                                                             : absl::UnavailableError(why);
}

absl::Status sync(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  const bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  const absl::Status status = synced ? absl::OkStatus() : system_error(path, "synced");
  if (descriptor >= 0) close(descriptor);
  return status;
}

// A directory for work beside `path`, deleted with what it holds.
struct Workshop {
  std::string directory, file;
  absl::Status open(const std::filesystem::path& path) {
    std::filesystem::path parent = path.parent_path();
    if (parent.empty()) parent = ".";
    std::string name = (parent / ".backup_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return system_error(path.string(), "written");
    directory = name;
    file = directory + "/copy.db";
    return absl::OkStatus();
  }
  ~Workshop() {
    std::error_code ignored;
    if (!directory.empty()) std::filesystem::remove_all(directory, ignored);
  }
};

DatabaseOptions to_read() {
  DatabaseOptions options;
  options.read_only = true;
  return options;
}

// That SQLite and the schema find nothing wrong with a file.
absl::Status verify(const std::string& file) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Database> copy, open_sqlite(file, to_read()));
  return copy->read(kPatience_s, [&](Transaction& tx) -> absl::Status {
    std::vector<std::string> lines;
    RETURN_IF_ERROR(tx.database().check_structure(tx, &lines));
    Query dangling = tx.query("PRAGMA foreign_key_check");
    if (dangling.next()) {
      lines.push_back(absl::StrCat("references: table ", dangling.text(0), " row ",
                                   dangling.integer(1)));
    }
    RETURN_IF_ERROR(dangling.status());
    if (lines.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(copy->path(), ": the copy is damaged: ", lines[0]));
  });
}

}  // namespace

absl::Status backup(Database& database, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::equivalent(path, database.path(), ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is the database itself; name another file"));
  }
  // The columns of a newer schema would be left out without a word.
  RETURN_IF_ERROR(database.read(kPatience_s, [](Transaction& tx) { return check_schema(tx); }));
  Workshop work;
  RETURN_IF_ERROR(work.open(path));
  if (auto* sqlite = dynamic_cast<SqliteDatabase*>(&database); sqlite != nullptr) {
    RETURN_IF_ERROR(sqlite->copy_to(work.file));
  } else {
    ASSIGN_OR_RETURN(const std::shared_ptr<Database> copy, open_sqlite(work.file, {}));
    RETURN_IF_ERROR(copy_and_compare(database, *copy, false));
    RETURN_IF_ERROR(static_cast<SqliteDatabase&>(*copy).leave_wal());
  }
  RETURN_IF_ERROR(verify(work.file));
  // It holds programs, as the database does.
  if (chmod(work.file.c_str(), 0600) != 0) return system_error(path, "kept to its owner");
  RETURN_IF_ERROR(sync(work.file, O_RDWR));
  if (rename(work.file.c_str(), path.c_str()) != 0) return system_error(path, "written");
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  return sync(parent.string(), O_RDONLY | O_DIRECTORY);
}

absl::Status restore(const std::string& path, const std::string& url, bool force,
                     const DatabaseOptions& options) {
  std::error_code ignored;
  if (std::filesystem::equivalent(path, url, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is the database itself; name another file"));
  }
  // A backup is left as it is: what an older one needs is done to a copy.
  Workshop work;
  absl::StatusOr<std::shared_ptr<Database>> from = open_sqlite(path, to_read());
  if (from.status().code() == absl::StatusCode::kFailedPrecondition) {
    RETURN_IF_ERROR(work.open(std::filesystem::temp_directory_path() / "backup"));
    std::error_code failure;
    std::filesystem::copy_file(path, work.file, failure);
    if (failure) return from.status();
    absl::StatusOr<std::shared_ptr<Database>> migrated = open_sqlite(work.file, {});
    if (!migrated.ok()) return from.status();
    from = std::move(migrated);
  }
  RETURN_IF_ERROR(from.status());
  RETURN_IF_ERROR((*from)->read(kPatience_s, [&](Transaction& tx) -> absl::Status {
    std::vector<std::string> lines;
    RETURN_IF_ERROR(tx.database().check_structure(tx, &lines));
    if (lines.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(path, ": damaged: ", lines[0]));
  }));
  ASSIGN_OR_RETURN(const std::shared_ptr<Database> to, open_database(url, options));
  bool empty = true;
  RETURN_IF_ERROR(to->read(kPatience_s, [&](Transaction& tx) -> absl::Status {
    for (const TableSchema& table : schema_tables()) {
      Query any = tx.query(concat("SELECT 1 FROM ", sql_name(table.name), " LIMIT 1"));
      empty &= !any.next();
      RETURN_IF_ERROR(any.status());
    }
    return absl::OkStatus();
  }));
  if (!empty && !force) {
    return absl::FailedPreconditionError(absl::StrCat(
        to->path(), ": is not empty; restore into a new database, or use --force to replace all "
        "it holds"));
  }
  return copy_and_compare(**from, *to, !empty);
}

}  // namespace lw
