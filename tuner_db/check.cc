// "db check" of a SQLite file: its structure, then every row. Runs on files whose bytes may be
// anything, so each part reports the error it stops at as a line and the next part still runs.
#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "tuner_db/best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/rows.h"

namespace lw {
namespace {

using Lines = std::vector<std::string>;

void report(Lines* lines, const std::string& what, const std::string& problem) {
  if (!problem.empty()) lines->push_back(absl::StrCat(what, ": ", problem));
}

// The tables as `query` lists them, as one text.
constexpr std::string_view kSchema =
    "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' "
    "ORDER BY name";

std::string wanted_schema() {
  sqlite3* memory = nullptr;
  CHECK(sqlite3_open(":memory:", &memory) == SQLITE_OK);
  for (const std::string& step : schema_steps()) {
    CHECK(sqlite3_exec(memory, step.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  std::string text;
  auto append = [](void* text, int, char** columns, char**) {
    absl::StrAppend(static_cast<std::string*>(text), columns[0], "\n");
    return 0;
  };
  const std::string query(kSchema);
  CHECK(sqlite3_exec(memory, query.c_str(), append, &text, nullptr) == SQLITE_OK);
  sqlite3_close(memory);
  return text;
}

absl::Status check_structure(Database& database, Lines* lines) {
  std::string schema;
  Query tables = database.query(kSchema);
  while (tables.next()) absl::StrAppend(&schema, tables.text(0), "\n");
  RETURN_IF_ERROR(tables.status());
  if (schema != wanted_schema()) report(lines, "schema", "the tables are not those of its version");
  Query integrity = database.query("PRAGMA integrity_check");
  while (integrity.next()) {
    if (integrity.text(0) != "ok") report(lines, "integrity", integrity.text(0));
  }
  return integrity.status();
}

absl::Status check_references(Database& database, Lines* lines) {
  Query query = database.query("PRAGMA foreign_key_check");
  while (query.next()) {
    report(lines, absl::StrCat(query.text(0), " row ", query.integer(1)),
           absl::StrCat("names a row of ", query.text(2), " that is not there"));
  }
  return query.status();
}

absl::Status check_names(Database& database, Lines* lines) {
  std::vector<WorkloadRow> rows;
  RETURN_IF_ERROR(read_workloads(database, "", &rows));
  for (const WorkloadRow& row : rows) report(lines, absl::StrCat("workload ", row.id), defect(row));
  Query targets = database.query("SELECT id, text FROM targets ORDER BY id");
  while (targets.next()) {
    report(lines, absl::StrCat("target ", targets.text(0)),
           target_defect(targets.text(0), targets.text(1)));
  }
  RETURN_IF_ERROR(targets.status());
  Query keys = database.query(
      "SELECT workload, target, backend, threads, cache, objective, id FROM keys ORDER BY id");
  while (keys.next()) {
    report(lines, absl::StrCat("key ", keys.integer(6)),
           defect(Key{keys.text(0), keys.text(1), keys.text(2), static_cast<int>(keys.integer(3)),
                      keys.text(4), keys.text(5)}));
  }
  return keys.status();
}

// Each measurement, and that what `best` relies on is what the measurements say.
absl::Status check_candidates(Database& database, Lines* lines) {
  Query query = database.query(
      "SELECT id, trace, samples, median_us, high_us, eligible FROM candidates ORDER BY id");
  while (query.next()) {
    const std::string name = absl::StrCat("candidate ", query.integer(0));
    report(lines, name, trace_defect(query.text(1)));
    std::vector<Measurement> rows;
    if (absl::Status status = read_candidate(database, query.integer(0), &rows); !status.ok()) {
      report(lines, name, std::string(status.message()));
      continue;
    }
    bool sound = true;
    for (const Measurement& m : rows) {
      const std::string problem = defect(m);
      report(lines, absl::StrCat("measurement ", m.id), problem);
      sound &= problem.empty();
    }
    const Pool stored{query.integer(2), query.real(3), query.real(4), query.integer(5) != 0};
    if (sound && stored != pool(pointers(rows))) {
      report(lines, name, "its statistics are not those of its measurements");
    }
  }
  return query.status();
}

}  // namespace

absl::Status check_database(Database& database, Lines* lines) {
  for (auto part : {check_structure, check_references, check_names, check_candidates}) {
    if (absl::Status status = part(database, lines); !status.ok()) {
      // What kept us from reading says nothing about the file.
      if (status.code() != absl::StatusCode::kDataLoss) return status;
      lines->push_back(std::string(status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace lw
