// `db`: what the schedule database holds, and its upkeep.
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedules/targets/target.h"
#include "src/base/clock.h"
#include "src/cli/commands.h"
#include "src/cli/db/clock.h"
#include "src/cli/db/prune.h"
#include "src/cli/skipped.h"
#include "src/cli/subcommands.h"
#include "src/serve/daemon_lock.h"
#include "tuner_db/ladder/ladder.h"
#include "tuner_db/ladder/snapshot.h"
#include "tuner_db/ladder/withdrawn_list.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/tables/backup.h"

namespace lw {
namespace {

struct DbOptions {
  int top = kRecordTraces;
  DatabaseFlags database;
  Output output;
  std::string id, file, reason, evidence;
  bool force = false, strict = false;
  PruneOptions prune;
  ClockOptions clock;
};

absl::StatusOr<std::unique_ptr<Store>> open_existing(const DbOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Store> store, options.database.open_to_read());
  if (store == nullptr)
    return absl::NotFoundError(concat("there is no database ", options.database.shown()));
  return store;
}

std::string time_text(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%04d-%02d-%02d %02d:%02d", utc.tm_year + 1900, utc.tm_mon + 1,
                         utc.tm_mday, utc.tm_hour, utc.tm_min);
}

absl::StatusOr<int> ls(const DbOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, open_existing(options));
  ASSIGN_OR_RETURN(const std::vector<Key> keys, environment(store->keys()));
  Json list = Json::array();
  Table table{{"id", "workload", "target", "threads", "backend", "measured", "best", "GFLOP/s"}, {},
              {false, false, false, true, false, true, true, true}};
  for (const Key& key : keys) {
    ASSIGN_OR_RETURN(const WorkloadRow workload, environment(store->workload(key.workload)));
    ASSIGN_OR_RETURN(const Target target, environment(store->target(key.target)));
    ASSIGN_OR_RETURN(const std::vector<Measurement> all, environment(store->measurements(key)));
    const absl::StatusOr<BestRow> best = store->best(key);
    if (!best.ok() && !absl::IsNotFound(best.status())) return environment(best.status());
    const double us = best.ok() ? best->measurement.time_us : 0;
    const TimeKind kind = best.ok() ? best->measurement.time_kind : TimeKind::kMeasured;
    list.push_back({{"canonical_sha256", key.workload}, {"workload", workload.source_words},
                    {"target", target.name}, {"threads", key.threads}, {"backend", key.backend},
                    {"cache", key.cache}, {"measurements", all.size()},
                    {"time_us", best.ok() ? Json(us) : Json()},
                    {"estimated", kind == TimeKind::kEstimated},
                    {"time_kind", best.ok() ? Json(time_kind_name(kind)) : Json()},
                    {"gflops", best.ok() ? Json(workload.flops / us / 1e3) : Json()}});
    table.rows.push_back({key.workload.substr(0, 12), workload.source_words, target.name,
                          concat(key.threads), key.backend,
                          concat(static_cast<int64_t>(all.size())), micros(us, kind),
                          best.ok() ? number(workload.flops / us / 1e3) : "-"});
  }
  emit(options.output, list, table);
  return kDone;
}

Json measurement_json(const Measurement& m) {
  return {{"id", m.id},
          {"verdict", std::string(verdict_name(m.verdict))},
          {"detail", m.detail},
          {"time_us", m.time_us},
          {"time_kind", time_kind_name(m.time_kind)},
          {"ci_us", time_json(m)},
          {"samples_us", m.samples_us},
          {"inner", m.inner},
          {"verified", m.verified},
          {"error_of_admissible", m.max_rel_error},
          {"source", m.source},
          {"seed", m.seed},
          {"wall_s", m.wall_s},
          {"unix_ms", m.unix_ms},
          {"environment", m.environment},
          {"trace", m.trace}};
}

absl::StatusOr<int> show(const DbOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, open_existing(options));
  ASSIGN_OR_RETURN(const std::vector<Key> keys, environment(store->keys()));
  Json list = Json::array();
  Table table{
      {"id", "verdict", "time", "verified", "source", "when", "trace"}, {}, {true, false, true}};
  for (const Key& key : keys) {
    if (!absl::StartsWith(key.workload, options.id)) continue;
    ASSIGN_OR_RETURN(const std::vector<Measurement> all, environment(store->measurements(key)));
    for (const Measurement& m : all) {
      list.push_back(measurement_json(m));
      table.rows.push_back({concat(m.id), std::string(verdict_name(m.verdict)),
                            micros(m.time_us, m.time_kind), m.verified ? "yes" : "no", m.source,
                            time_text(m.unix_ms), trace_as_line(m.trace)});
    }
  }
  if (table.rows.empty()) {
    return absl::NotFoundError(
        concat("no workload's id begins with '", options.id, "' (see `db ls`)"));
  }
  emit(options.output, list, table);
  return kDone;
}

absl::StatusOr<int> stats(const DbOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, open_existing(options));
  ASSIGN_OR_RETURN(const Store::Stats s, environment(store->stats()));
  Json json = {{"workloads", s.workloads}, {"targets", s.targets}, {"keys", s.keys},
                     {"measurements", s.measurements}, {"failed", s.failed}, {"bytes", s.bytes},
                     {"schema_version", s.schema_version}};
  Table table{{"what", "count"}, {}, {false, true}};
  for (const auto& [name, rows] : s.service) json[name] = rows;
  for (const auto& [name, value] : json.items()) table.rows.push_back({name, value.dump()});
  emit(options.output, json, table);
  return kDone;
}

absl::StatusOr<int> export_lines(const DbOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, open_existing(options));
  ASSIGN_OR_RETURN(const std::string lines, environment(export_records(*store)));
  if (options.file.empty() || options.file == "-") {
    std::cout << lines;                    // one JSON document a line, whatever the format
    return kDone;
  }
  RETURN_IF_ERROR(write_text(options.file, lines));
  emit(options.output, {{"file", options.file}, {"bytes", lines.size()}},
       {{"file", "bytes"}, {{options.file, concat(static_cast<int64_t>(lines.size()))}}, {}});
  return kDone;
}

absl::StatusOr<int> import_lines(const DbOptions& options) {
  std::string lines;
  if (options.file == "-") {
    std::stringstream text;
    text << std::cin.rdbuf();
    lines = text.str();
  } else {
    ASSIGN_OR_RETURN(lines, read_text(options.file));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, options.database.open());
  int64_t imported = 0;
  Skipped skipped;
  RETURN_IF_ERROR(environment(
      import_records(*store, lines, &imported, options.strict ? nullptr : &skipped)));
  Json json = {{"imported", imported}};
  add_skipped(skipped, &json);
  emit(options.output, json,
       {{"imported", "skipped"}, {{concat(imported), concat(skipped.records)}}, {true, true}},
       concat(imported, " measurements imported\n", skipped_text(skipped)));
  return skipped.records == 0 ? kDone : kBadRequest;
}

absl::StatusOr<int> prune(const DbOptions& options) {
  return lw::prune(options.database, options.prune, options.output);
}

absl::StatusOr<int> snapshot(const DbOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, open_existing(options));
  ASSIGN_OR_RETURN(const SnapshotStats stats,
                   environment(write_snapshot(*store, options.file, options.top,
                                              unix_ms())));
  emit(options.output,
       {{"file", options.file}, {"records", stats.records}, {"families", stats.structures},
        {"targets", stats.targets}, {"bytes", stats.bytes}},
       {{"file", "records", "bytes"},
        {{options.file, concat(stats.records), concat(stats.bytes)}}, {false, true, true}});
  return kDone;
}

absl::StatusOr<int> check(const DbOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, open_existing(options));
  ASSIGN_OR_RETURN(const std::vector<std::string> defects, environment(store->check()));
  Table table{{"defect"}, {}, {}};
  for (const std::string& defect : defects) table.rows.push_back({defect});
  emit(options.output, {{"defects", defects}}, table,
       defects.empty() ? "no defects\n" : absl::StrJoin(defects, "\n") + "\n");
  return defects.empty() ? kDone : kEnvironmentFailed;
}

absl::StatusOr<int> backup_to(const DbOptions& options) {
  DatabaseOptions to_read;
  to_read.read_only = true;
  to_read.insecure = options.database.insecure;
  ASSIGN_OR_RETURN(const std::shared_ptr<Database> database,
                   environment(open_database(options.database.path, to_read)));
  const absl::Status written = backup(*database, options.file);
  if (absl::IsInvalidArgument(written)) return written;
  RETURN_IF_ERROR(environment(written));
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(options.file, error));
  emit(options.output, {{"file", options.file}, {"bytes", bytes}},
       {{"file", "bytes"}, {{options.file, concat(bytes)}}, {false, true}});
  return kDone;
}

absl::StatusOr<int> restore_from(const DbOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(options.file, error)) {
    return absl::InvalidArgumentError(concat(options.file, ": there is no such file"));
  }
  // A daemon would go on with what it read before.
  ASSIGN_OR_RETURN(const DaemonLock lock, DaemonLock::take(options.database.path));
  DatabaseOptions to_write;
  to_write.insecure = options.database.insecure;
  const absl::Status restored =
      restore(options.file, options.database.path, options.force, to_write);
  // Not empty: the request is wrong, not the environment.
  if (absl::IsFailedPrecondition(restored)) return restored;
  RETURN_IF_ERROR(environment(restored));
  emit(options.output, {{"database", options.database.shown()}, {"from", options.file}},
       {{"database", "from"}, {{options.database.shown(), options.file}}, {}});
  return kDone;
}

absl::StatusOr<int> clock_of(const DbOptions& options) {
  return db_clock(options.database, options.clock, options.output);
}

// ---- withdrawn records

Json withdrawal_json(const Withdrawal& row) {
  return {{"digest", record_digest(row.key, row.trace)}, {"canonical_sha256", row.key.workload},
          {"target_sha256", row.key.target}, {"backend", row.key.backend},
          {"threads", row.key.threads}, {"cache", row.key.cache}, {"trace", row.trace},
          {"reason", row.reason}, {"evidence", row.evidence}, {"actor", row.actor},
          {"unix_ms", row.unix_ms}, {"kernel_digest", kernel_digest(row.key, row.kernel_hash)}};
}

void emit_withdrawn(const DbOptions& options, const std::vector<Withdrawal>& rows) {
  Json list = Json::array();
  Table table{{"record", "workload", "threads", "when", "who", "reason", "trace"}, {},
              {false, false, true}};
  for (const Withdrawal& row : rows) {
    list.push_back(withdrawal_json(row));
    table.rows.push_back({record_digest(row.key, row.trace).substr(0, 12),
                          row.key.workload.substr(0, 12), concat(row.key.threads),
                          time_text(row.unix_ms), row.actor, row.reason, trace_as_line(row.trace)});
  }
  emit(options.output, {{"withdrawn", list}}, table);
}

absl::StatusOr<int> list_withdrawn(const DbOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, open_existing(options));
  ASSIGN_OR_RETURN(const std::vector<Withdrawal> rows, environment(store->withdrawn()));
  emit_withdrawn(options, rows);
  return kDone;
}

// The trace of a measurement, which `db show` numbers.
absl::StatusOr<int> withdraw(const DbOptions& options) {
  RETURN_IF_ERROR(open_existing(options).status());
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, options.database.open());
  ASSIGN_OR_RETURN(const std::vector<Key> keys, environment(store->keys()));
  for (const Key& key : keys) {
    ASSIGN_OR_RETURN(const std::vector<Measurement> all, environment(store->measurements(key)));
    for (const Measurement& m : all) {
      if (concat(m.id) != options.id) continue;
      const char* user = std::getenv("USER");
      const Withdrawal row{key, m.trace, options.reason, options.evidence,
                           concat("db/", user == nullptr ? "?" : user),
                           unix_ms()};
      RETURN_IF_ERROR(environment(store->withdraw(row)));
      ASSIGN_OR_RETURN(std::vector<Withdrawal> rows, environment(store->withdrawn(key)));
      std::erase_if(rows, [&](const Withdrawal& other) { return other.trace != row.trace; });
      emit_withdrawn(options, rows);       // with its kernel
      return kDone;
    }
  }
  return absl::NotFoundError(concat("there is no measurement ", options.id, " (see `db show`)"));
}

absl::StatusOr<int> restore_record(const DbOptions& options) {
  RETURN_IF_ERROR(open_existing(options).status());
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, options.database.open());
  ASSIGN_OR_RETURN(std::vector<Withdrawal> rows, environment(store->withdrawn()));
  std::erase_if(rows, [&](const Withdrawal& row) {
    return !absl::StartsWith(record_digest(row.key, row.trace), options.id);
  });
  if (rows.empty()) {
    return absl::NotFoundError(concat("no withdrawn record begins with '", options.id, "'"));
  }
  if (rows.size() > 1) {
    return absl::InvalidArgumentError(concat(static_cast<int64_t>(rows.size()),
                                             " withdrawn records begin with '", options.id, "'"));
  }
  RETURN_IF_ERROR(environment(store->restore(rows[0].key, rows[0].trace)));
  emit_withdrawn(options, rows);
  return kDone;
}

using Run = Subcommands<DbOptions>::Run;
using Add = std::function<CliArguments(const char* name, const char* help, Run run)>;

void declare_records(const Add& add, DbOptions* options) {
  add("ls", "every key: workload, target, threads, best", ls);
  add("show", "the measurements of a workload", show)
      .add_option("id", options->id, "the beginning of its id, as `db ls` prints it").required();
  add("stats", "counts and sizes", stats);
  add("export", "all records, one JSON line each", export_lines)
      .add_option("-o,--output", options->file, "file to write (default: stdout)");
  CliArguments importing = add("import", "records as `db export` writes them; those that are there "
                                      "already are passed over", import_lines);
  importing.add_option("file", options->file, "file to read, - for stdin").required();
  add_strict(importing, &options->strict);
  add_prune(add("prune", "forget measurements that look-ups do not need, or what a daemon forgets "
                          "in time", prune), &options->prune);
  CliArguments making = add("snapshot", "the best of every key as one read-only file", snapshot);
  making.add_option("-o,--output", options->file, "file to write or replace").required();
  making.add_option("--top", options->top, "traces of each key")
      .between(1, 100).capture_default_str();
}

void declare_upkeep(const Add& add, DbOptions* options) {
  add("backup", "one verified copy of everything, as a file, while others go on writing", backup_to)
      .add_option("-o,--output", options->file, "file to write or replace").required();
  CliArguments restoring = add("restore", "bring a backup into a new database of either kind",
                            restore_from);
  restoring.add_option("file", options->file, "as `db backup` or a daemon's `backup` wrote it")
      .required();
  restoring.add_flag("--force", options->force, "replace what the database holds");
  CliArguments withdrawing = add("withdraw", "give a trace out no more; what was measured stays",
                              withdraw);
  withdrawing.add_option("id", options->id, "of one of its measurements, as `db show` prints it")
      .required();
  withdrawing.add_option("--reason", options->reason, "why").required();
  withdrawing.add_option("--evidence", options->evidence, "what shows it");
  add("restore-record", "give a withdrawn trace out again", restore_record)
      .add_option("record", options->id,
                   "the beginning of its digest, as `db withdrawn` prints it")
      .required();
  add("withdrawn", "the traces that are withdrawn, and why", list_withdrawn);
  add("check", "every invariant; exit 5 when one does not hold", check);
  CliArguments clock = add("clock", "the service's time beside the present", clock_of);
  clock.add_flag("--reset", options->clock.reset,
                  "set it and what it has stamped back to the present; stop the daemons first");
  clock.add_flag("--force", options->clock.force, "though a daemon may be at work");
}

Action declare_db(CliArguments app) {
  Subcommands<DbOptions> commands(app, nullptr);
  DbOptions* options = commands.options.get();
  const auto add = [&](const char* name, const char* help, Run run) {
    CliArguments sub = commands.add(app, name, help, run);
    add_database(sub, &options->database);
    add_output(sub, &options->output);
    return sub;
  };
  declare_records(add, options);
  declare_upkeep(add, options);
  return commands.action();
}

}  // namespace

const CommandGroup& db_commands() {
  static const CommandGroup group = {90, {
      {"db", "the schedule database: ls, show, stats, export, import, prune, check, snapshot, "
             "backup, restore, withdraw, restore-record, withdrawn", declare_db},
  }};
  return group;
}

}  // namespace lw
