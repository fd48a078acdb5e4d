#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/cli/commands.h"
#include "tuner_db/origin.h"

namespace lw {
namespace {

struct BestOptions {
  WorkloadOptions workload;
  DatabaseFlags database;
  Output output;
  std::string suite;
};

// The record's measurement, where a database is at hand: snapshots keep less.
absl::StatusOr<Measurement> measurement_of(const LookupAnswer& answer, const Store* store) {
  if (answer.record == nullptr || store == nullptr) return absl::NotFoundError("");
  ASSIGN_OR_RETURN(const BestRow row, store->best(answer.record->key));
  return row.measurement;
}

// What is on record; for the default what would be.
Json record_json(const Task& task, const LookupAnswer& answer,
                 const absl::StatusOr<Measurement>& measurement) {
  if (answer.record == nullptr) {
    return {{"workload", task.workload().source_words}, {"canonical_sha256", task.key().workload},
            {"target_sha256", task.key().target},       {"backend", task.key().backend},
            {"threads", task.key().threads},            {"cache", task.key().cache},
            {"trace", answer.trace},                  {"source", origin_name(Origin::kZero)}};
  }
  Json json = Json::parse(to_json(*answer.record));
  json["estimated"] = answer.record->time_kind == TimeKind::kEstimated;
  if (!measurement.ok()) return json;
  const std::string& environment = measurement->environment;
  json["environment"] = Json::parse(environment, nullptr, /*allow_exceptions=*/false);
  if (json["environment"].is_discarded()) json["environment"] = environment;
  return json;
}

std::string text_of(const Task& task, const LookupAnswer& answer) {
  const std::string outcome(rung_name(answer.outcome));
  const ScheduleRecord* record = answer.record.get();
  std::string text = bold(outcome) + "  " +
                     (record == nullptr ? task.workload().source_words : record->source_words) +
                     "\n";
  if (record != nullptr && record->time_kind != TimeKind::kMeasured) {
    text += absl::StrFormat("  time      %s; %s\n", micros(record->time_us, record->time_kind),
                            how_verified(record->time_kind));
  } else if (record != nullptr) {
    text += absl::StrFormat("  time      %s  [%s, %s], %s GFLOP/s, %d samples\n",
                            micros(record->time_us), micros(record->ci_low_us),
                            micros(record->ci_high_us),
                            number(record->flops / record->time_us / 1e3), record->samples);
  }
  if (answer.outcome > Rung::kLoose && record != nullptr) {
    text += absl::StrFormat("  distance  %s; expected to take %s, %s longer than a tuned kernel\n",
                            number(answer.distance),
                            micros(answer.predicted_us.value_or(0), record->time_kind),
                            percent(answer.predicted_loss.value_or(0)));
  }
  if (answer.stale) text += "  stale     measure it again: `loopwright tune`\n";
  if (answer.adapted) text += "  recorded  " + trace_as_line(record->trace) + "\n";
  text += "  schedule  " + trace_as_line(answer.trace) + "\n";
  for (const std::string& note : answer.notes) text += "  note      " + note + "\n";
  return text;
}

std::vector<std::string> row_of(const Asked& asked, const LookupAnswer& answer) {
  const ScheduleRecord* record = answer.record.get();
  return {std::string(rung_name(answer.outcome)), asked.words,
          record == nullptr ? "" : record->source_words,
          record == nullptr ? "" : absl::StrFormat("%.5g", record->time_us),
          record == nullptr ? "" : std::string(time_kind_name(record->time_kind)),
          trace_as_line(answer.trace)};
}

absl::StatusOr<int> run_best(const BestOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Asked> asked,
                   asked_workloads(options.workload, options.suite));
  ASSIGN_OR_RETURN(const DatabaseFlags::Records records, options.database.open_records());
  Table table{{"outcome", "workload", "record", "time_us", "time_kind", "trace"}, {}, {}};
  Json list = Json::array();
  std::string text;
  std::vector<Task> missing;
  for (const Asked& one : asked) {
    ASSIGN_OR_RETURN(const LookupAnswer answer, environment(look_up(one.task, *records.source)));
    if (answer.outcome != Rung::kExact) missing.push_back(one.task);
    Json document = Json::parse(to_json(answer));
    document["record"] =
        record_json(one.task, answer, measurement_of(answer, records.store.get()));
    if (!options.suite.empty()) document["workload"] = one.words;
    list.push_back(std::move(document));
    table.rows.push_back(row_of(one, answer));
    if (!options.suite.empty()) text += one.words + ":\n";
    text += text_of(one.task, answer);
  }
  if (options.database.frozen && !missing.empty()) {
    return frozen_miss(missing, asked.size(), options.database.shown());
  }
  emit(options.output, options.suite.empty() ? list[0] : Json{{"results", list}}, table, text);
  return kDone;
}

Action declare_best(CliArguments app) {
  auto options = std::make_shared<BestOptions>();
  add_workload(app, &options->workload, /*required=*/false);
  add_suite(app, &options->suite);
  add_database(app, &options->database);
  app.add_flag("--frozen", options->database.frozen,
               "only what was tuned before; exit 2 where it was not");
  add_snapshot(app, &options->database);
  add_output(app, &options->output);
  return [options] { return run_best(*options); };
}

}  // namespace

const CommandGroup& best_commands() {
  static const CommandGroup group = {
      20, {{"best", "look the best stored schedules up", declare_best}}};
  return group;
}

}  // namespace lw
