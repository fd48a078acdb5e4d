#include "tuner_db/pools.h"

#include <set>

#include "src/base/check.h"
#include "src/expr/message.h"
#include "tuner_db/best.h"
#include "tuner_db/rows.h"
#include "tuner_db/withdrawn.h"

namespace lw {
namespace {

absl::StatusOr<int64_t> insert(Database& database, int64_t candidate, const Measurement& m) {
  Query query = database.query(
      "INSERT INTO measurements (candidate, kernel_hash, verdict, detail, samples_us, \"inner\","
      " time_us, ci_low_us, ci_high_us, verified, max_rel_error, wall_s, build_s, seed, source,"
      " environment, unix_ms, time_kind) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) RETURNING id",
      candidate, m.kernel_hash, verdict_name(m.verdict), m.detail, as_blob(m.samples_us), m.inner,
      m.time_us, m.ci_low_us, m.ci_high_us, m.verified, m.max_rel_error, m.wall_s, m.build_s,
      m.seed, m.source, m.environment, m.unix_ms, static_cast<int>(m.time_kind));
  const int64_t id = query.next() ? query.integer(0) : 0;
  RETURN_IF_ERROR(query.run());
  return id;
}

}  // namespace

// Most traces are new and come once: their statistics are those of the one measurement.
absl::Status append_measurements(Database& database, int64_t key,
                                 const std::vector<Measurement>& measurements,
                                 std::vector<int64_t>* ids) {
  ids->clear();
  std::set<int64_t> touched;
  bool changed = false;
  for (const Measurement& m : measurements) {
    const Measurement* only = &m;
    const Pool p = pool({&only, 1});
    int64_t candidate = 0;
    {
      Query query = database.query(
          "INSERT INTO candidates (key, trace, samples, median_us, high_us, time_kind, eligible) "
          "VALUES (?,?,?,?,?,?,?) ON CONFLICT DO NOTHING RETURNING id",
          key, m.trace, p.samples, p.median_us, p.high_us, static_cast<int>(p.time_kind),
          p.eligible);
      if (query.next()) candidate = query.integer(0);
      RETURN_IF_ERROR(query.run());
    }
    if (candidate == 0) {
      Query query = database.query("SELECT id FROM candidates WHERE key = ? AND trace = ?", key,
                                   m.trace);
      if (query.next()) candidate = query.integer(0);
      RETURN_IF_ERROR(query.status());
      touched.insert(candidate);
    } else {
      changed |= p.eligible;
    }
    ASSIGN_OR_RETURN(ids->emplace_back(), insert(database, candidate, m));
  }
  for (int64_t candidate : touched) {
    ASSIGN_OR_RETURN(const bool moved, update_pool(database, candidate));
    changed |= moved;
  }
  return changed ? note_change(database, key) : absl::OkStatus();
}

absl::StatusOr<bool> update_pool(Database& database, int64_t candidate) {
  std::vector<Measurement> rows;
  RETURN_IF_ERROR(read_candidate(database, candidate, &rows));
  Pool p = pool(pointers(rows));
  if (p.eligible) {
    ASSIGN_OR_RETURN(const bool out, is_withdrawn(database, candidate));
    p.eligible = !out;
  }
  bool was_eligible = false;
  {
    Query query = database.query("SELECT eligible FROM candidates WHERE id = ?", candidate);
    if (query.next()) was_eligible = query.integer(0) != 0;
    RETURN_IF_ERROR(query.status());
  }
  RETURN_IF_ERROR(database.query("UPDATE candidates SET samples = ?, median_us = ?, high_us = ?, "
                                 "time_kind = ?, eligible = ? WHERE id = ?",
                                 p.samples, p.median_us, p.high_us, static_cast<int>(p.time_kind),
                                 p.eligible, candidate).run());
  return was_eligible || p.eligible;
}

absl::Status note_change(Database& database, int64_t key) {
  const std::string sql = concat("UPDATE keys SET revision = revision + 1, changed_ms = ",
                                 database.clock_sql(), " WHERE id = ?");
  return database.query(sql, key).run();
}

}  // namespace lw
