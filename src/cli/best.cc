#include "absl/strings/str_format.h"
#include "src/cli/commands.h"

namespace lw {
namespace {

struct BestOptions {
  WorkloadOptions workload;
  DatabaseOptions database;
  Output output;
};

Json record_json(const Found& found) {
  const Measurement& m = found.measurement;
  Json json = {{"workload", found.workload.source_words}, {"canonical_sha256", found.key.workload},
               {"target_sha256", found.key.target},       {"backend", found.key.backend},
               {"threads", found.key.threads},            {"cache", found.key.cache},
               {"trace", m.trace},                        {"source", m.source}};
  if (found.outcome == "default") return json;
  json["time_us"] = m.time_us;
  json["ci_us"] = time_json(m);
  json["gflops"] = found.workload.flops / m.time_us / 1e3;
  json["samples"] = m.samples_us.size();
  json["verified"] = m.verified;
  json["max_rel_error"] = m.max_rel_error;
  json["unix_ms"] = m.unix_ms;
  json["environment"] = Json::parse(m.environment, nullptr, /*allow_exceptions=*/false);
  if (json["environment"].is_discarded()) json["environment"] = m.environment;
  return json;
}

absl::StatusOr<int> run_best(const BestOptions& options) {
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  ASSIGN_OR_RETURN(std::unique_ptr<Store> store, options.database.open_to_read());
  if (store == nullptr) store = make_memory_store();
  ASSIGN_OR_RETURN(const Found found, environment(look_up(task, *store)));
  if (options.database.frozen && found.outcome != "exact") {
    return absl::NotFoundError(concat("nothing is stored for exactly '", task.workload.source_words,
                                      "' on ", task.target->name, "; the nearest is ",
                                      found.outcome));
  }
  const Measurement& m = found.measurement;
  const bool measured = found.outcome != "default";
  std::string text = bold(found.outcome) + "  " + found.workload.source_words + "\n";
  if (measured) {
    text += absl::StrFormat("  time      %s  [%s, %s], %s GFLOP/s, %d samples\n", micros(m.time_us),
                            micros(m.ci_low_us), micros(m.ci_high_us),
                            number(found.workload.flops / m.time_us / 1e3), m.samples_us.size());
  }
  text += "  schedule  " + trace_as_line(m.trace) + "\n";
  const Table table{{"outcome", "workload", "time_us", "trace"},
                    {{found.outcome, found.workload.source_words,
                      measured ? absl::StrFormat("%.5g", m.time_us) : "", trace_as_line(m.trace)}},
                    {}};
  emit(options.output, {{"outcome", found.outcome}, {"record", record_json(found)}}, table, text);
  return kDone;
}

}  // namespace

Action best_command(CLI::App& app) {
  auto options = std::make_shared<BestOptions>();
  add_workload(app, &options->workload);
  add_database(app, &options->database);
  add_frozen(app, &options->database);
  add_output(app, &options->output);
  return [options] { return run_best(*options); };
}

}  // namespace lw
