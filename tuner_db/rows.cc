#include "tuner_db/rows.h"

#include <bit>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/check.h"
#include "src/expr/message.h"
#include "tuner_db/messages.h"

namespace lw {
namespace {

static_assert(std::endian::native == std::endian::little,
              "samples are stored as they lie in memory");

bool from_bytes(std::string_view bytes, std::vector<double>* samples) {
  if (bytes.size() % sizeof(double) != 0) return false;
  samples->resize(bytes.size() / sizeof(double));
  if (!bytes.empty()) std::memcpy(samples->data(), bytes.data(), bytes.size());
  return true;
}

constexpr char kMeasurements[] =
    "SELECT m.id, c.trace, m.kernel_hash, m.verdict, m.detail, m.samples_us, m.\"inner\", "
    "m.time_us,"
    " m.ci_low_us, m.ci_high_us, m.verified, m.max_rel_error, m.wall_s, m.build_s, m.seed,"
    " m.source, m.environment, m.unix_ms, m.time_kind, m.counts, m.actor, m.device, m.annulled"
    " FROM measurements m JOIN candidates c ON c.id = m.candidate ";

absl::Status read_measurements(Database& database, Query query, std::vector<Measurement>* rows) {
  while (query.next()) {
    Measurement& m = rows->emplace_back();
    m.id = query.integer(0);
    m.trace = query.text(1);
    m.kernel_hash = static_cast<uint64_t>(query.integer(2));
    const std::string verdict = query.text(3);
    if (!parse_verdict(verdict, &m.verdict) || !from_bytes(query.bytes(5), &m.samples_us) ||
        !parse_time_kind(query.integer(18), &m.time_kind)) {
      return damaged(database, absl::StrCat("measurement ", m.id),
                     "its verdict, samples or kind of time are garbled");
    }
    m.detail = query.text(4);
    m.inner = query.integer(6);
    m.time_us = query.real(7);
    m.ci_low_us = query.real(8);
    m.ci_high_us = query.real(9);
    m.verified = query.integer(10) != 0;
    m.max_rel_error = query.real(11);
    m.wall_s = query.real(12);
    m.build_s = query.real(13);
    m.seed = static_cast<uint64_t>(query.integer(14));
    m.source = query.text(15);
    m.environment = query.text(16);
    m.unix_ms = query.integer(17);
    m.counts = query.integer(19) != 0;
    m.actor = query.text(20);
    m.device = query.text(21);
    m.annulled = query.text(22);
  }
  return query.status();
}

}  // namespace

Blob as_blob(const std::vector<double>& samples) {
  return {{reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(double)}};
}

absl::Status read_key(Database& database, int64_t key, std::vector<Measurement>* rows) {
  return read_measurements(
      database, database.query(absl::StrCat(kMeasurements, "WHERE c.key = ? ORDER BY m.id"), key),
      rows);
}

absl::Status read_key_after(Database& database, int64_t key, int64_t after,
                            std::vector<Measurement>* rows) {
  return read_measurements(
      database,
      database.query(absl::StrCat(kMeasurements, "WHERE m.id > ? AND +c.key = ? ORDER BY m.id"),
                     after, key),
      rows);
}

absl::Status read_by_id(Database& database, absl::Span<const int64_t> ids,
                        std::vector<Measurement>* rows) {
  std::string sql = absl::StrCat(kMeasurements, "WHERE m.id IN (");
  for (size_t i = 0; i < ids.size(); ++i) sql += i == 0 ? "?" : ",?";
  const std::vector<Value> values(ids.begin(), ids.end());
  sql += ") ORDER BY m.id";
  return read_measurements(database, database.query_values(sql, values), rows);
}

absl::Status read_candidate(Database& database, int64_t candidate, std::vector<Measurement>* rows) {
  return read_measurements(
      database,
      database.query(absl::StrCat(kMeasurements, "WHERE m.candidate = ? ORDER BY m.id"), candidate),
      rows);
}

absl::StatusOr<int64_t> find_same(Database& database, int64_t candidate, const Measurement& m,
                                  const std::string& digest) {
  {
    Query query = database.query("SELECT id FROM measurements WHERE candidate = ? AND digest = ? "
                                 "AND digest <> ''", candidate, digest);
    if (query.next()) return query.integer(0);
    RETURN_IF_ERROR(query.status());
  }
  // Rows of before there were digests: those that agree where it is cheap to look.
  std::vector<Measurement> rows;
  RETURN_IF_ERROR(read_measurements(
      database,
      database.query(concat(kMeasurements, "WHERE m.candidate = ? AND m.digest = '' AND "
                                           "m.unix_ms = ? AND m.time_us = ? AND m.seed = ? "
                                           "ORDER BY m.id"),
                     candidate, m.unix_ms, m.time_us, m.seed),
      &rows));
  for (const Measurement& row : rows) {
    if (measurement_digest(row) == digest) return row.id;
  }
  return 0;
}

absl::Status read_workloads(Database& database, std::string_view id,
                            std::vector<WorkloadRow>* rows) {
  const std::string all = "SELECT id, name, canonical_text, source_words, flops, bytes, shape, family, "
                          "program FROM workloads ";
  // Two statements: with one condition for both SQLite reads the whole table for a row.
  Query query = id.empty() ? database.query(absl::StrCat(all, "ORDER BY id"))
                           : database.query(absl::StrCat(all, "WHERE id = ?"), id);
  while (query.next()) {
    WorkloadRow& row = rows->emplace_back();
    row = {query.text(0), query.text(1), query.text(2), query.text(3),
           query.real(4), query.real(5), {},            query.text(7), query.text(8)};
    const std::string shape = query.text(6);
    for (absl::string_view extent : absl::StrSplit(shape, ',', absl::SkipEmpty())) {
      if (!absl::SimpleAtoi(extent, &row.shape.emplace_back())) {
        return damaged(database, absl::StrCat("workload ", row.id), "its shape is garbled");
      }
    }
  }
  return query.status();
}

std::vector<const Measurement*> pointers(const std::vector<Measurement>& rows) {
  std::vector<const Measurement*> pointers;
  for (const Measurement& row : rows) pointers.push_back(&row);
  return pointers;
}

absl::Status damaged(const Database& database, const std::string& what,
                     const std::string& problem) {
  return absl::DataLossError(absl::StrCat(database.path(), ": corrupt: ", what, ": ", problem));
}

}  // namespace lw
