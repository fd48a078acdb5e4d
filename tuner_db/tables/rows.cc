#include "tuner_db/tables/rows.h"

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/tables/columns.h"

namespace lw {
namespace {

const std::string& measurements() {
  static const std::string sql = [] {
    std::string columns = "m.id";
    Measurement m;
    Measurement::fields(m, [&](FieldId field, auto&) {
      columns += concat(", ", is_of_candidate(field) ? "c." : "m.", column_name(field));
    });
    return concat("SELECT ", columns,
                  " FROM measurements m JOIN candidates c ON c.id = m.candidate ");
  }();
  return sql;
}

absl::Status read_measurements(Transaction& tx, Query query, std::vector<Measurement>* rows) {
  while (query.next()) {
    Measurement& m = rows->emplace_back();
    m.id = query.integer(0);
    int column = 1;
    if (!read_columns(query, &column, &m)) {
      return damaged(tx, absl::StrCat("measurement ", m.id),
                     "its verdict, samples or kind of time are garbled");
    }
  }
  return query.status();
}

}  // namespace

absl::Status read_key(Transaction& tx, int64_t key, std::vector<Measurement>* rows) {
  return read_measurements(
      tx, tx.query(concat(measurements(), "WHERE c.key = ? ORDER BY m.id"), key),
      rows);
}

absl::Status read_key_after(Transaction& tx, int64_t key, int64_t after,
                            std::vector<Measurement>* rows) {
  return read_measurements(
      tx,
      tx.query(concat(measurements(), "WHERE m.id > ? AND +c.key = ? ORDER BY m.id"),
               after, key),
      rows);
}

absl::Status read_by_id(Transaction& tx, absl::Span<const int64_t> ids,
                        std::vector<Measurement>* rows) {
  const std::vector<Value> values(ids.begin(), ids.end());
  const std::string sql = concat(measurements(), "WHERE m.id IN (", placeholders(ids.size()),
                                 ") ORDER BY m.id");
  return read_measurements(tx, tx.query_values(sql, values), rows);
}

absl::Status read_candidate(Transaction& tx, int64_t candidate, std::vector<Measurement>* rows) {
  return read_measurements(
      tx,
      tx.query(concat(measurements(), "WHERE m.candidate = ? ORDER BY m.id"), candidate),
      rows);
}

absl::StatusOr<int64_t> find_same(Transaction& tx, int64_t candidate, const Measurement& m,
                                  const std::string& digest) {
  {
    Query query = tx.query("SELECT id FROM measurements WHERE candidate = ? AND digest = ? "
                           "AND digest <> ''", candidate, digest);
    if (query.next()) return query.integer(0);
    RETURN_IF_ERROR(query.status());
  }
  // Rows of before there were digests: those that agree where it is cheap to look.
  std::vector<Measurement> rows;
  RETURN_IF_ERROR(read_measurements(
      tx,
      tx.query(concat(measurements(), "WHERE m.candidate = ? AND m.digest = '' AND "
                                           "m.unix_ms = ? AND m.time_us = ? AND m.seed = ? "
                                           "ORDER BY m.id"),
               candidate, m.unix_ms, m.time_us, m.seed),
      &rows));
  for (const Measurement& row : rows) {
    if (measurement_digest(row) == digest) return row.id;
  }
  return 0;
}

absl::Status read_workloads(Transaction& tx, std::string_view id, std::vector<WorkloadRow>* rows) {
  const std::string all = concat("SELECT ", column_names<WorkloadRow>(), " FROM workloads ");
  // Two statements: with one condition for both SQLite reads the whole table for a row.
  Query query = id.empty() ? tx.query(concat(all, "ORDER BY id"))
                           : tx.query(concat(all, "WHERE id = ?"), id);
  while (query.next()) {
    WorkloadRow& row = rows->emplace_back();
    int column = 0;
    if (!read_columns(query, &column, &row)) {
      return damaged(tx, absl::StrCat("workload ", row.id), "its shape is garbled");
    }
  }
  return query.status();
}

std::vector<const Measurement*> pointers(const std::vector<Measurement>& rows) {
  std::vector<const Measurement*> pointers;
  for (const Measurement& row : rows) pointers.push_back(&row);
  return pointers;
}

absl::Status damaged(const Transaction& tx, const std::string& what, const std::string& problem) {
  return absl::DataLossError(
      absl::StrCat(tx.database().path(), ": corrupt: ", what, ": ", problem));
}

}  // namespace lw
