// "db check": the structure, then every row. Runs on files whose bytes may be anything, so each
// part reports the error it stops at as a line and the next part still runs.
#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/tables/rows.h"
#include "tuner_db/tables/withdrawn.h"
#include "tuner_db/workload_row.h"

namespace lw {
namespace {

using Lines = std::vector<std::string>;

void report(Lines* lines, const std::string& what, const std::string& problem) {
  if (!problem.empty()) lines->push_back(absl::StrCat(what, ": ", problem));
}

absl::Status check_structure(Transaction& tx, Lines* lines) {
  return tx.database().check_structure(tx, lines);
}

absl::Status check_references(Transaction& tx, Lines* lines) {
  for (const TableSchema& table : schema_tables()) {
    for (const Reference& reference : table.references) {
      const std::string from = sql_name(reference.from), to = sql_name(reference.to);
      Query query = tx.query(
          concat("SELECT count(*) FROM ", sql_name(table.name), " child LEFT JOIN ",
                 sql_name(reference.table), " parent ON parent.", to, " = child.", from,
                 " WHERE parent.", to, " IS NULL AND child.", from, " IS NOT NULL"));
      if (query.next() && query.integer(0) > 0) {
        report(lines, table.name, absl::StrCat(query.integer(0), " of its rows name a row of ",
                                               reference.table, " that is not there"));
      }
      RETURN_IF_ERROR(query.status());
    }
  }
  return absl::OkStatus();
}

absl::Status check_names(Transaction& tx, Lines* lines) {
  std::vector<WorkloadRow> rows;
  RETURN_IF_ERROR(read_workloads(tx, "", &rows));
  for (const WorkloadRow& row : rows) {
    const std::string problem = defect(row), name = absl::StrCat("workload ", row.id);
    report(lines, name, problem.empty() ? contradiction(row) : problem);
  }
  Query targets = tx.query("SELECT id, text FROM targets ORDER BY id");
  while (targets.next()) {
    report(lines, absl::StrCat("target ", targets.text(0)),
           target_defect(targets.text(0), targets.text(1)));
  }
  RETURN_IF_ERROR(targets.status());
  Query keys = tx.query(
      "SELECT workload, target, backend, threads, cache, objective, id FROM keys ORDER BY id");
  while (keys.next()) {
    report(lines, absl::StrCat("key ", keys.integer(6)),
           defect(Key{keys.text(0), keys.text(1), keys.text(2), static_cast<int>(keys.integer(3)),
                      keys.text(4), keys.text(5)}));
  }
  return keys.status();
}

// The measurements of a row of candidates, and that what `best` relies on is what they say.
void check_candidate(Transaction& tx, const Query& row, Lines* lines) {
  const std::string name = absl::StrCat("candidate ", row.integer(0));
  report(lines, name, trace_defect(row.text(1)));
  std::vector<Measurement> rows;
  if (absl::Status status = read_candidate(tx, row.integer(0), &rows); !status.ok()) {
    return report(lines, name, std::string(status.message()));
  }
  bool sound = true;
  for (const Measurement& m : rows) {
    const std::string problem = defect(m);
    report(lines, absl::StrCat("measurement ", m.id), problem);
    sound &= problem.empty();
  }
  Pool expected = pool(pointers(rows));
  const absl::StatusOr<bool> out = is_withdrawn(tx, row.integer(0), expected.kernel_hash);
  if (!out.ok()) return report(lines, name, std::string(out.status().message()));
  expected.eligible = expected.eligible && !*out;
  Pool stored{.samples = row.integer(2), .median_us = row.real(3), .high_us = row.real(4),
              .eligible = row.integer(5) != 0,
              .kernel_hash = static_cast<uint64_t>(row.integer(7))};
  if (!parse_time_kind(row.integer(6), &stored.time_kind)) {
    return report(lines, name, "its kind of time is none");
  }
  if (sound && stored != expected) {
    report(lines, name, "its statistics are not those of its measurements, or of its withdrawal");
  }
}

absl::Status check_candidates(Transaction& tx, Lines* lines) {
  return tx.each(
      "SELECT id, trace, samples, median_us, high_us, eligible, time_kind, kernel_hash "
      "FROM candidates ORDER BY id",
      [&](const Query& row) {
        check_candidate(tx, row, lines);
        return absl::OkStatus();
      });
}

}  // namespace

absl::Status check_database(Transaction& tx, Lines* lines) {
  for (auto part :
       {check_structure, check_references, check_names, check_candidates, check_service}) {
    if (absl::Status status = part(tx, lines); !status.ok()) {
      // What kept us from reading says nothing about the file.
      if (status.code() != absl::StatusCode::kDataLoss) return status;
      lines->push_back(std::string(status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace lw
