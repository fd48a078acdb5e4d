// A session: every statement is prepared once and its values travel in binary, results come back
// whole (rows of one statement are read while others run, which a session cannot interleave). What
// goes wrong is told by SQLSTATE, and said with the words and codes that SQLite's errors have.
//
// Besides its Status an error has a consequence for the transaction: a conflict (40001, 40P01) and
// a lost server run it again, a duplicate key (23505) may be a conflict that PostgreSQL noticed
// late, and a failed disk dooms it.
#include "tuner_db/postgres/postgres_connection.h"

#include <endian.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/sql/fork.h"
#include "tuner_db/postgres/postgres_url.h"

namespace lw {
namespace {

constexpr Oid kBool = 16, kBytea = 17, kInt8 = 20, kInt2 = 21, kInt4 = 23, kText = 25,
              kFloat4 = 700, kFloat8 = 701, kNumeric = 1700;
constexpr size_t kMostPrepared = 1000;     // statements with lists of values vary without end

uint64_t big_endian(const char* data, int size) {
  uint64_t value = 0;
  for (int i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(data[i]);
  return value;
}

// What sums of BIGINT are: digits of base 10000, the first worth 10000^weight.
double numeric(const char* data, int size) {
  if (size < 8) return 0;
  const auto digits = static_cast<int16_t>(big_endian(data, 2));
  const auto weight = static_cast<int16_t>(big_endian(data + 2, 2));
  double value = 0;
  for (int i = 0; i < digits && 8 + 2 * i + 2 <= size; ++i) {
    value += static_cast<double>(big_endian(data + 8 + 2 * i, 2)) * std::pow(10000.0, weight - i);
  }
  return big_endian(data + 4, 2) == 0x4000 ? -value : value;
}

// The values as libpq takes them; owns what had to be converted.
struct Parameters {
  std::vector<Oid> types;
  std::vector<const char*> data;
  std::vector<int> sizes, formats;
  std::vector<std::string> owned;

  explicit Parameters(absl::Span<const Value> values) {
    owned.reserve(values.size());          // pointers into it stay valid
    for (const Value& value : values) add(value);
  }

  void add(const Value& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      add_number(kInt8, static_cast<uint64_t>(*integer));
    } else if (const auto* real = std::get_if<double>(&value)) {
      uint64_t bits;
      std::memcpy(&bits, real, sizeof bits);
      add_number(kFloat8, bits);
    } else if (const auto* text = std::get_if<std::string_view>(&value)) {
      owned.push_back(to_utf8(*text));
      push(kText, owned.back().data(), static_cast<int>(owned.back().size()));
    } else if (const auto* blob = std::get_if<Blob>(&value)) {
      push(kBytea, blob->bytes.empty() ? "" : blob->bytes.data(),
           static_cast<int>(blob->bytes.size()));
    } else {
      push(0, nullptr, 0);
    }
  }
  void add_number(Oid type, uint64_t bits) {
    bits = htobe64(bits);
    owned.emplace_back(reinterpret_cast<const char*>(&bits), sizeof bits);
    push(type, owned.back().data(), sizeof bits);
  }
  void push(Oid type, const char* bytes, int size) {
    types.push_back(type);
    data.push_back(bytes);
    sizes.push_back(size);
    formats.push_back(1);
  }
};

}  // namespace

class PostgresStatement : public PreparedStatement {
 public:
  PostgresStatement(PostgresConnection& connection, std::string_view sql,
                    absl::Span<const Value> values)
      : connection_(connection), sql_(sql), values_(values.begin(), values.end()) {}
  ~PostgresStatement() override { PQclear(result_); }

  bool next() override {
    if (!ran_) run();
    if (!status_.ok() || row_ + 1 >= rows_) {
      row_ = rows_;
      return false;
    }
    ++row_;
    return true;
  }
  absl::Status status() const override { return status_; }

  bool is_null(int column) const override { return PQgetisnull(result_, row_, column) != 0; }
  int64_t integer(int column) const override {
    const auto [type, data, size] = cell(column);
    switch (type) {
      case kBool: case kInt2: case kInt4: case kInt8: {
        const int shift = 64 - 8 * size;
        return static_cast<int64_t>(big_endian(data, size) << shift) >> shift;
      }
      case kFloat4: case kFloat8: case kNumeric:
        return static_cast<int64_t>(real(column));
      default:
        return 0;
    }
  }
  double real(int column) const override {
    const auto [type, data, size] = cell(column);
    const uint64_t bits = size <= 8 ? big_endian(data, size) : 0;
    if (type == kFloat8) {
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    if (type == kFloat4) {
      const auto narrow = static_cast<uint32_t>(bits);
      float value;
      std::memcpy(&value, &narrow, sizeof value);
      return value;
    }
    return type == kNumeric ? numeric(data, size) : static_cast<double>(integer(column));
  }
  std::string_view bytes(int column) const override {
    const auto [type, data, size] = cell(column);
    const std::string_view raw(data, static_cast<size_t>(size));
    if (type == kBytea || raw.find("\xF4\x8F") == std::string_view::npos) return raw;
    decoded_.push_back(std::make_unique<std::string>(from_utf8(raw)));
    return *decoded_.back();
  }

 private:
  struct Cell {
    Oid type;
    const char* data;
    int size;
  };
  Cell cell(int column) const {
    const int size = PQgetlength(result_, row_, column);
    return {size == 0 ? 0 : PQftype(result_, column), PQgetvalue(result_, row_, column), size};
  }
  void run() {
    ran_ = true;
    result_ = connection_.execute(sql_, values_);
    const ExecStatusType kind = PQresultStatus(result_);
    if (kind != PGRES_TUPLES_OK && kind != PGRES_COMMAND_OK) {
      status_ = connection_.error(result_);
      return;
    }
    rows_ = PQntuples(result_);
    if (!absl::SimpleAtoi(PQcmdTuples(result_), &connection_.changes_)) connection_.changes_ = 0;
  }

  PostgresConnection& connection_;
  std::string sql_;
  std::vector<Value> values_;
  bool ran_ = false;
  PGresult* result_ = nullptr;
  int row_ = -1, rows_ = 0;
  absl::Status status_;
  mutable std::vector<std::unique_ptr<std::string>> decoded_;
};

absl::StatusOr<std::unique_ptr<PostgresConnection>> PostgresConnection::open(
    const std::string& url, const std::string& name, double patience_s) {
  std::unique_ptr<PostgresConnection> made(new PostgresConnection(name));
  // A host that vanished is noticed within half a minute. What the URL says comes later and wins.
  const std::string timeout = absl::StrCat(std::max(2, static_cast<int>(std::ceil(patience_s))));
  const char* const keywords[] = {
      "connect_timeout",  "keepalives_idle",  "keepalives_interval",
      "keepalives_count", "tcp_user_timeout", "fallback_application_name",
      "client_encoding",  "dbname",           nullptr};
  const char* const values[] = {timeout.c_str(), "10", "5", "3", "30000", "loopwright", "UTF8",
                                url.c_str(), nullptr};
  made->connection_ = PQconnectdbParams(keywords, values, 1);
  if (made->usable()) {
    open_unshared([&] { return PQsocket(made->connection_); });
    PQsetNoticeProcessor(made->connection_, [](void*, const char*) {}, nullptr);
    RETURN_IF_ERROR(made->set_up());
    return made;
  }
  // Its words are lines; they name hosts and files, no secrets.
  std::string why = PQerrorMessage(made->connection_);
  while (!why.empty() && why.back() == '\n') why.pop_back();
  why = absl::StrReplaceAll(why, {{"\n", "; "}, {"\t", ""}});
  if (absl::StrContains(why, "does not exist") && absl::StrContains(why, "database")) {
    return absl::NotFoundError(absl::StrFormat(
        "%s: no such database on that server; make it with createdb", name));
  }
  if (PQconnectionNeedsPassword(made->connection_) != 0 ||
      absl::StrContains(why, "authentication") || absl::StrContains(why, "pg_hba.conf") ||
      absl::StrContains(why, "role ")) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s: the server refuses this user or its password; see PGPASSFILE and pg_hba.conf (%s)",
        name, why));
  }
  return absl::UnavailableError(absl::StrFormat(
      "%s: the server cannot be reached (is it running, and the address right?): %s", name, why));
}

absl::Status PostgresConnection::set_up() {
  const char* encoding = PQparameterStatus(connection_, "server_encoding");
  if (encoding == nullptr || std::strcmp(encoding, "UTF8") != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: its encoding is %s; make it with createdb --encoding=UTF8 --template=template0",
        name_, encoding == nullptr ? "unknown" : encoding));
  }
  RETURN_IF_ERROR(check_postgres_version(PQserverVersion(connection_), name_));
  // What commits is durable whatever the server's default, on its synchronous standbys too where it
  // has some; and a dead client's locks end soon.
  return command("SELECT set_config('synchronous_commit', 'on', false)"
                 " WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');"
                 "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;"
                 "SET tcp_keepalives_count = 3; SET standard_conforming_strings = on");
}

PostgresConnection::~PostgresConnection() {
  if (connection_ == nullptr) return;
  if (const int socket = PQsocket(connection_); socket >= 0) forget_unshared(socket);
  PQfinish(connection_);
}

std::unique_ptr<PreparedStatement> PostgresConnection::start(std::string_view sql,
                                                             absl::Span<const Value> values) {
  return std::make_unique<PostgresStatement>(*this, sql, values);
}

PGresult* PostgresConnection::execute(std::string_view sql, absl::Span<const Value> values) {
  if (sql.starts_with("FETCH ")) {         // of a cursor that exists once
    return PQexecParams(connection_, std::string(sql).c_str(), 0, nullptr, nullptr, nullptr,
                        nullptr, 1);
  }
  const Parameters parameters(values);
  const int count = static_cast<int>(values.size());
  std::string signature(sql);
  for (Oid type : parameters.types) absl::StrAppend(&signature, "|", type);
  auto found = prepared_.find(signature);
  if (found == prepared_.end()) {
    if (prepared_.size() >= kMostPrepared) {
      PQclear(PQexec(connection_, "DEALLOCATE ALL"));
      prepared_.clear();
    }
    const std::string name = absl::StrCat("s", prepared_.size());
    PGresult* made = PQprepare(connection_, name.c_str(), number_parameters(sql).c_str(), count,
                               parameters.types.data());
    if (PQresultStatus(made) != PGRES_COMMAND_OK) return made;
    PQclear(made);
    found = prepared_.emplace(signature, name).first;
  }
  return PQexecPrepared(connection_, found->second.c_str(), count, parameters.data.data(),
                        parameters.sizes.data(), parameters.formats.data(), 1);
}

absl::Status PostgresConnection::command(const char* sql) {
  PGresult* result = PQexec(connection_, sql);
  const ExecStatusType kind = PQresultStatus(result);
  absl::Status status;
  if (kind != PGRES_COMMAND_OK && kind != PGRES_TUPLES_OK) status = error(result);
  PQclear(result);
  return status;
}

absl::Status PostgresConnection::run_script(const std::string& sql) {
  return command(to_postgres(sql).c_str());
}

// Through a cursor; FETCH is not prepared, so its name may differ from call to call.
absl::Status PostgresConnection::each(const std::string& select,
                                      absl::FunctionRef<absl::Status(const Query&)> row) {
  static std::atomic<int64_t> count = 0;
  const std::string cursor = absl::StrCat("rows_", ++count);
  RETURN_IF_ERROR(command(
      absl::StrCat("DECLARE ", cursor, " NO SCROLL CURSOR FOR ", select).c_str()));
  absl::Status status;
  for (bool more = true; more && status.ok();) {
    Query rows(start(absl::StrCat("FETCH 500 FROM ", cursor), {}));
    for (more = false; status.ok() && rows.next(); more = true) status = row(rows);
    if (status.ok()) status = rows.status();
  }
  RETURN_IF_ERROR(status);
  return command(absl::StrCat("CLOSE ", cursor).c_str());
}

absl::Status PostgresConnection::begin(std::string_view level, std::string_view first,
                                       double patience_s) {
  doom_ = first_error_ = absl::OkStatus();
  end_ = End::kNone;
  patience_s_ = patience_s;
  const int patience_ms = std::max(1, static_cast<int>(patience_s * 1000));
  return command(concat("BEGIN ISOLATION LEVEL ", level, "; SET LOCAL lock_timeout = ", patience_ms,
                        "; ", first).c_str());
}

absl::Status PostgresConnection::commit() {
  // COMMIT of a transaction in which a statement failed is a rollback, and no error.
  if (!first_error_.ok() && PQtransactionStatus(connection_) == PQTRANS_INERROR) {
    return first_error_;
  }
  return command("COMMIT");
}

void PostgresConnection::rollback() {
  if (PQtransactionStatus(connection_) != PQTRANS_IDLE) command("ROLLBACK").IgnoreError();
}

absl::Status PostgresConnection::error(const PGresult* result) {
  const char* field = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string code = field == nullptr ? "" : field;
  const char* primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const std::string why = primary == nullptr ? "" : primary;
  const std::string kind = code.substr(0, 2);
  auto ends = [&](End end, absl::Status status, bool dooms = true) {
    if (end_ == End::kNone) end_ = end;
    if (dooms && doom_.ok()) doom_ = status;
    if (first_error_.ok()) first_error_ = status;
    return status;
  };
  auto words = [&](const char* what) { return absl::StrFormat("%s: %s", name_, what); };
  if (code.empty() || kind == "08" || kind == "57" || !usable()) {
    if (code == "57014") {                 // a timeout of the server's
      return ends(End::kNone, absl::UnavailableError(words("took too long; run again")), false);
    }
    return ends(End::kLost, absl::UnavailableError(words(
        "the connection to the server was lost; what was stored before is safe; run again")));
  }
  if (code == "40001" || code == "40P01") {
    return ends(End::kConflict, absl::UnavailableError(words(
        "others change the same rows all the time; run again")));
  }
  if (code == "55P03") {
    return ends(End::kNone, absl::UnavailableError(absl::StrFormat(
        "%s: locked by another process for over %g s; let it finish or stop it, then run again",
        name_, patience_s_)), false);
  }
  if (code == "53100") {
    return ends(End::kNone, absl::ResourceExhaustedError(words(
        "the server's disk is full; what was stored before is safe; free some space and run "
        "again")));
  }
  if (kind == "53") {                      // no problem of the disk's
    return ends(End::kNone, absl::UnavailableError(absl::StrFormat(
        "%s: the server has not enough memory or connections (%s)", name_, why)));
  }
  if (kind == "58" || (kind == "XX" && code != "XX001" && code != "XX002")) {
    return ends(End::kNone, absl::UnavailableError(absl::StrFormat(
        "%s: the server's disk or the server failed (%s); see its log", name_, why)));
  }
  if (code == "42501" || code == "25006" || kind == "28") {
    return ends(End::kNone, absl::PermissionDeniedError(absl::StrFormat(
        "%s: read-only for this user (%s); grant it the rights, or name another with --db", name_,
        why)), false);
  }
  if (kind == "42") {
    return ends(End::kNone, absl::DataLossError(absl::StrFormat(
        "%s: corrupt: its tables are not those of its version (%s); restore a copy, or tune into a "
        "new database", name_, why)), false);
  }
  return ends(code == "23505" ? End::kDuplicate : End::kNone,
              absl::DataLossError(absl::StrFormat("%s: corrupt (%s); 'loopwright db check' lists "
                                                  "the damage; restore a copy, or tune into a new "
                                                  "database",
                                                  name_, why)),
              false);
}

}  // namespace lw
