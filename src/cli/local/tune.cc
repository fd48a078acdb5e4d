// `tune`: one workload, or the cases of a suite, which share one budget.
//
// The bound is measured beside the timing it judges; a fraction of it that stays over 1 is
// said in `warnings`.
#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cost_model/trees/learned.h"
#include "schedules/targets/target.h"
#include "src/api/run/devices.h"
#include "src/api/run/tune_task.h"
#include "src/cli/commands.h"
#include "src/cli/failure_text.h"
#include "src/cli/interrupt.h"
#include "src/cli/failing_case.h"
#include "src/cli/progress.h"
#include "src/cli/report/tuned_charts.h"
#include "src/expr/language/text.h"
#include "src/measure/environment.h"
#include "tuner_db/failures.h"

namespace lw {
namespace {

struct TuneOptions {
  WorkloadOptions workload;
  DatabaseFlags database;
  Output output;
  SearchOptions search;
  std::string suite, model = "draft", keep_failing, progress = "text";
  bool names_model = false, svg = false;
};

constexpr int kLastResortSeconds = 5;      // after Ctrl-C, should anything not heed it

// One workload's end: what is printed about it, and the exit code it asks for.
struct Tuned {
  Json document;
  std::vector<std::string> row;
  std::string text;
  int exit = kDone;
  std::string why;                         // it came to nothing; "": it did not
};

// The error that was judged: of the element whose error is the largest share of the admissible one.
Json error_json(const Measurement& best) {
  Json error = Json::parse(parse_environment(best.environment).error, nullptr,
                           /*allow_exceptions=*/false);
  if (!error.is_object()) error = Json::object();
  error["of_admissible"] = best.max_rel_error;
  return error;
}

std::string error_line(const Measurement& best) {
  const Json error = error_json(best);
  if (!error.contains("element")) return "  error     none: every element that was compared is equal\n";
  std::string text = absl::StrFormat(
      "  error     at most %s of the admissible; there %.2g", percent(best.max_rel_error),
      error["absolute"].get<double>());
  if (error.contains("relative")) {
    absl::StrAppendFormat(&text, " (relative %.2g)", error["relative"].get<double>());
  }
  return text + ", at " + error["element"].get<std::string>() + "\n";
}

double limit_us(const Bound& bound, std::string_view name) {
  for (const TimeLimit& limit : bound.limits)
    if (limit.name == name) return limit.us;
  return 0;
}

double peak_fraction(const Bound& bound, const Measurement& best) {
  return bound.flops.useful / best.time_us / 1e3 / bound.peak_gflops;
}

// What a simulator counted, by name; empty: nothing did.
Json counters_of(const Measurement& m) {
  const Json environment = Json::parse(m.environment, nullptr, /*allow_exceptions=*/false);
  return environment.is_object() ? environment.value("counters", Json::object()) : Json::object();
}

// The cycles, and which share of them each limit of what the program does would take alone.
std::string cycles_line(const Measurement& best) {
  constexpr std::string_view kBound = "bound.";
  const Json counters = counters_of(best);
  const double cycles = counters.value("cycles", 0.0);
  if (cycles <= 0) return "";
  std::vector<std::pair<double, std::string>> limits;
  for (const auto& [name, value] : counters.items()) {
    if (name.starts_with(kBound)) limits.emplace_back(-value.get<double>(), name);
  }
  std::sort(limits.begin(), limits.end());
  std::string out = absl::StrFormat("  cycles    %.0f", cycles);
  for (const auto& [less, name] : limits) {
    out += absl::StrFormat("%s%s %s", &less == &limits[0].first ? "; " : ", ",
                           name.substr(kBound.size()), percent(-less / cycles));
  }
  return out + (limits.empty() ? "\n" : " of them at least\n");
}

Json best_json(const Measurement& best, const Bound& bound) {
  const double us = best.time_us;
  return {{"time_us", us},
          {"ci_us", time_json(best)},
          {"gflops", bound.flops.useful / us / 1e3},
          {"gflops_counted", bound.flops.counted / us / 1e3},
          {"bound_us", bound.bound_us},
          {"bound_fraction", bound.bound_us / us},
          {"bound_by", bound.set_by().name},
          {"bound_limits", limits_json(bound)},
          {"peak_fraction", peak_fraction(bound, best)},
          {"peak_gflops", bound.peak_gflops},
          {"bandwidth_gbytes_per_s", bound.bandwidth_gbytes},
          {"trace", best.trace},
          {"verified", best.verified},
          {"counters", counters_of(best)},
          {"error", error_json(best)}};
}

std::string summary(const Task& task, RunsOn device, const TuneResult& result, const Bound* bound,
                    const FailureMessages& failures, double wall_s) {
  const Measurement& best = result.best.measurement;
  std::string out = bold(task.workload().source_words) +
                    absl::StrFormat("  on %s, %d thread%s\n", task.target()->name, task.threads(),
                                    task.threads() == 1 ? "" : "s");
  if (bound == nullptr) {
    out += "  best      none is valid\n";
  } else {
    if (best.time_kind != TimeKind::kMeasured) {
      out += absl::StrFormat("  best      %s, %s; %s\n", micros(best.time_us),
                             time_kind_name(best.time_kind), how_verified(best.time_kind));
    } else {
      out += absl::StrFormat("  best      %s  [%s, %s]  verified\n", micros(best.time_us),
                             micros(best.ci_low_us), micros(best.ci_high_us));
    }
    if (bound->flops.useful > 0) {
      out += absl::StrFormat("            %s GFLOP/s", number(bound->flops.useful / best.time_us / 1e3));
      // The peak is one of multiply-adds: where there are none it says nothing.
      if (limit_us(*bound, "compute") > 0) {
        out += absl::StrFormat(", %s of the peak (%s GFLOP/s)", percent(peak_fraction(*bound, best)),
                               number(bound->peak_gflops));
      }
      out += "\n";
    }
    out += absl::StrFormat("  bound     %s, set by %s (%s): %s of it\n", micros(bound->bound_us),
                           bound->set_by().name, bound->set_by().by,
                           percent(bound->bound_us / best.time_us));
    out += cycles_line(best);
    if (result.zero_us > 0) {
      out += absl::StrFormat("  untuned   %s, %s of the best\n", micros(result.zero_us),
                             percent(best.time_us / result.zero_us));
    }
  }
  out += absl::StrFormat("  trials    %d, %d failed, %d duplicates skipped; %.1f s\n",
                         result.trials, result.failed, result.deduped, wall_s);
  if (result.parts > 0) {
    out += absl::StrFormat("  parts     %d, searched on their own before, in %d trials\n",
                           result.parts, result.part_trials);
  }
  out += failure_lines(failures, /*in_full=*/bound == nullptr);
  if (bound != nullptr) out += error_line(best);
  if (bound != nullptr) out += "  schedule  " + trace_as_line(best.trace) + "\n";
  return out;
}

Json curve_json(const std::vector<CurvePoint>& curve) {
  Json points = Json::array();
  for (const CurvePoint& point : curve)
    points.push_back({point.wall_s, point.trials, point.best_us});
  return points;
}

// That no schedule can be lowered is not the environment's doing.
absl::Status searched(const absl::Status& status) {
  return absl::IsNotFound(status) ? status : environment(status);
}

// Why there is no best.
std::string why_none(const TuneResult& result, const FailureMessages& failures) {
  if (!failures.empty()) {
    return absl::StrFormat("none is valid: %d %s, e.g. %s", failures[0].count(), failures[0].name(),
                           failures[0].detail());
  }
  return result.timed_out ? "the seconds were over before a schedule had been measured and "
                            "verified; --seconds gives more"
                          : "nothing was measured";
}

absl::StatusOr<Tuned> describe(const TuneOptions& options, const Task& task, RunsOn device,
                               const TuneResult& result, const Store& store, double wall_s) {
  Tuned tuned;
  ASSIGN_OR_RETURN(const std::vector<Measurement> all, environment(store.measurements(task.key())));
  const std::vector<FailureClass> failures = failure_classes(all);
  if (!options.keep_failing.empty()) {
    RETURN_IF_ERROR(write_failing_cases(task, failures, options.search.seed, options.keep_failing));
  }
  const FailureMessages messages = failure_messages(failures);
  const Measurement& best = result.best.measurement;
  const bool valid = best.verdict == Verdict::kOk && best.time_us > 0 && best.verified;
  std::optional<Bound> bound;
  Json warnings = Json::array();
  if (valid) {
    ASSIGN_OR_RETURN(bound, bound_beside(task, best));
    if (device == RunsOn::kHost && bound->bound_us > best.time_us) {
      warnings.push_back(absl::StrFormat("the bound of %s is above the measured %s: one of the two "
                                         "measurements is wrong", micros(bound->bound_us),
                                         micros(best.time_us)));
    }
  }
  if (!result.only_last_resort.empty()) {
    warnings.push_back(last_resort_note(result.only_last_resort));
  }
  if (result.timed_out && valid) {
    warnings.push_back("the seconds were over before the fastest had been compared");
  }
  if (!result.failure.ok()) {
    tuned.why = std::string(result.failure.message());
    warnings.push_back(tuned.why);
  } else if (!valid && !result.interrupted) {
    tuned.why = why_none(result, messages);
    // What failed is shown anyway.
    if (result.timed_out || messages.empty()) warnings.push_back(why_none(result, {}));
  }
  tuned.document = {
      {"workload", task.workload().source_words},
      {"canonical_sha256", task.workload().id},
      {"target", task.target()->name},
      {"threads", task.threads()},
      {"estimated", best.time_kind == TimeKind::kEstimated},
      {"time_kind", valid ? Json(time_kind_name(best.time_kind)) : Json()},
      {"trials", result.trials},
      {"failed", result.failed},
      {"failures", failures_json(messages)},
      {"deduped", result.deduped},
      {"parts", result.parts},
      {"part_trials", result.part_trials},
      {"wall_s", wall_s},
      {"best", valid ? best_json(best, *bound) : Json()},
      {"zero_trial", {{"time_us", result.zero_us}, {"verified", result.zero_verified}}},
      {"curve", curve_json(result.curve)},
      {"breakdown_s",
       {{"propose", result.propose_s},
        {"build", result.build_s},
        {"measure", result.measure_s},
        {"learn", result.learn_s},
        {"store", result.store_s}}},
      {"interrupted", result.interrupted},
      {"warnings", warnings}};
  if (options.svg && valid) {
    const TunedCharts charts = charts_of(task, result, *bound);
    tuned.document["svg"] = {{"curve", charts.curve}, {"roofline", charts.roofline}};
  }
  tuned.text = summary(task, device, result, valid ? &*bound : nullptr, messages, wall_s);
  for (const Json& warning : warnings)
    tuned.text += "  warning   " + warning.get<std::string>() + "\n";
  tuned.row = {task.workload().source_words, task.target()->name, concat(task.threads()),
               concat(result.trials), concat(result.failed), absl::StrFormat("%.2f", wall_s)};
  if (valid) {
    const double us = best.time_us;
    for (double value : {us, bound->flops.useful / us / 1e3, bound->bound_us, bound->bound_us / us,
                         peak_fraction(*bound, best), result.zero_us}) {
      tuned.row.push_back(absl::StrFormat("%.5g", value));
    }
    tuned.row.push_back(trace_as_line(best.trace));
  } else {
    tuned.row.resize(13);
  }
  tuned.exit = result.interrupted ? kInterrupted
               : !result.failure.ok() ? exit_code(searched(result.failure))
               : valid ? kDone : kNotValid;
  return tuned;
}

// What ranks the task's candidates before any is measured. A model of no use costs its advantage,
// not the run.
std::unique_ptr<Model> model_of(const TuneOptions& options, const Task& task) {
  if (!options.names_model) return learning_model(task.start());
  if (options.model == "draft") return make_xgboost_model();
  if (options.model == "none") return make_draft_model();
  absl::StatusOr<std::unique_ptr<Model>> model =
      model_named(options.model, task.target()->architecture);
  if (model.ok()) return *std::move(model);
  options.output.note(concat(std::string(model.status().message()), "; the draft model is used"));
  return make_xgboost_model();
}

absl::StatusOr<Tuned> tune_one(const TuneOptions& options, const Task& task, Store& store,
                               double begin_s) {
  ASSIGN_OR_RETURN(const RunsOn device, find_device(task));
  RETURN_IF_ERROR(environment(put_task(store, task)));
  std::unique_ptr<Model> model = model_of(options, task);
  double peak_gflops = 0;                  // for the live line; before the workers start
  if (!options.output.quiet && !options.output.verbose && options.search.trials > 0) {
    ASSIGN_OR_RETURN(const Bound bound, measure_bound(task, 0.02));
    peak_gflops = bound.peak_gflops;
  }
  absl::StatusOr<TuneResult> result;
  {
    Progress progress(options.output, task, store, options.search, peak_gflops,
                      options.progress == "json");
    TuneHooks hooks;
    hooks.now = [begin_s] { return process_seconds() - begin_s; };
    hooks.progress = [&](const TuneProgress& p) { progress.update(p); };
    result = tune_task(task, store, options.search, std::move(model), std::move(hooks));
  }
  if (!result.ok()) return searched(result.status());
  return describe(options, task, device, *result, store, process_seconds() - begin_s);
}

const std::vector<std::string>& csv_columns() {
  static const std::vector<std::string> columns = {
      "workload",      "target",        "threads", "trials",   "failed",
      "wall_s",        "best_us",       "gflops",  "bound_us", "bound_fraction",
      "peak_fraction", "zero_trial_us", "trace"};
  return columns;
}

// The cases share one budget.
absl::StatusOr<std::vector<TuneResult>> tune_cases(const TuneOptions& options,
                                                   const std::vector<SuiteCase>& cases,
                                                   const std::vector<Task>& tasks, Store& store) {
  std::vector<std::unique_ptr<Progress>> progress;
  std::vector<SuiteMember> members;
  for (size_t i = 0; i < tasks.size(); ++i) {
    progress.push_back(std::make_unique<Progress>(options.output, tasks[i], store, options.search,
                                                  /*peak_gflops=*/0, options.progress == "json",
                                                  cases[i].name));
    SuiteMember member{.task = tasks[i]};
    member.progress = [p = progress.back().get()](const TuneProgress& now) { p->update(now); };
    member.model = model_of(options, tasks[i]);
    members.push_back(std::move(member));
  }
  TuneHooks hooks;
  hooks.now = process_seconds;
  return environment(tune_tasks(std::move(members), store, options.search, hooks));
}

// The cases of a suite that can be tuned here, and the others.
struct SuiteTasks {
  std::vector<SuiteCase> cases;
  std::vector<Task> tasks;                 // of each
  std::vector<RefusedCase> refused;
};

absl::StatusOr<SuiteTasks> suite_tasks(const TuneOptions& options) {
  ASSIGN_OR_RETURN(SuiteCases suite, read_suite(options.suite, options.workload.words));
  SuiteTasks result;
  result.refused = std::move(suite.refused);
  absl::Status first;
  for (SuiteCase& one : suite.cases) {
    absl::StatusOr<Task> task = options.workload.task(one);
    const absl::Status status = task.ok() ? find_device(*task).status() : task.status();
    if (status.ok()) {
      result.tasks.push_back(*std::move(task));
      result.cases.push_back(std::move(one));
    } else {
      first.Update(status);
      result.refused.push_back({one.name, std::string(status.message())});
    }
  }
  if (result.cases.empty()) return all_refused(result.refused, first);
  return result;
}

// What a case came to; what cannot be said of it is its failure, not the others'.
Tuned describe_case(const TuneOptions& options, const Task& task, const TuneResult& result,
                    const Store& store) {
  const absl::StatusOr<RunsOn> device = find_device(task);
  absl::StatusOr<Tuned> tuned =
      device.ok() ? describe(options, task, *device, result, store, result.wall_s)
                  : device.status();
  if (tuned.ok()) return *std::move(tuned);
  Tuned failed;
  failed.why = std::string(tuned.status().message());
  failed.document = {{"workload", task.workload().source_words}, {"target", task.target()->name},
                     {"threads", task.threads()}, {"best", nullptr},
                     {"warnings", Json::array({failed.why})}};
  failed.row = {task.workload().source_words, task.target()->name, concat(task.threads())};
  failed.row.resize(csv_columns().size());
  failed.text = bold(task.workload().source_words) + "\n  warning   " + failed.why + "\n";
  failed.exit = exit_code(tuned.status());
  return failed;
}

// Every case has its turn, whatever becomes of the others; the worst of their exit codes is the
// suite's.
absl::StatusOr<int> run_suite(const TuneOptions& options, const SuiteTasks& suite, Store& store) {
  const std::vector<SuiteCase>& cases = suite.cases;
  const std::vector<Task>& tasks = suite.tasks;
  const Json refused = say_refused(suite.refused);
  for (const Task& task : tasks) RETURN_IF_ERROR(environment(put_task(store, task)));
  ASSIGN_OR_RETURN(const std::vector<TuneResult> results,
                   tune_cases(options, cases, tasks, store));
  Json workloads = Json::array(), failed = Json::array();
  Table table{csv_columns(), {}, {}};
  std::string text, failures;
  int exit = refused.empty() ? kDone : kBadRequest;
  for (size_t i = 0; i < cases.size(); ++i) {
    Tuned tuned = describe_case(options, tasks[i], results[i], store);
    tuned.document["name"] = cases[i].name;
    workloads.push_back(tuned.document);
    table.rows.push_back(tuned.row);
    text += cases[i].name + "  " + tuned.text;
    exit = std::max(exit, tuned.exit);
    if (tuned.why.empty()) continue;
    failed.push_back({{"name", cases[i].name}, {"exit", tuned.exit}, {"why", tuned.why}});
    failures += "  " + cases[i].name + ": " + tuned.why + "\n";
  }
  if (!failed.empty())
    text += absl::StrFormat("%d of %d workloads failed\n%s", failed.size(), cases.size(), failures);
  emit(options.output,
       {{"workloads", workloads}, {"failed", failed}, {"refused", refused},
        {"wall_s", process_seconds()}}, table, text);
  return exit;
}

absl::StatusOr<int> run_tune(TuneOptions& options) {
  watch_interrupts(1, kLastResortSeconds);
  options.search.stop = Stop(interrupted);
  if (options.suite.empty() && options.workload.words.empty()) {
    return absl::InvalidArgumentError("no workload is named (see `loopwright ops`)");
  }
  // A wrong request must not leave a database behind.
  if (!options.suite.empty()) {
    ASSIGN_OR_RETURN(const SuiteTasks suite, suite_tasks(options));
    ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, options.database.open());
    return run_suite(options, suite, *store);
  }
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, options.database.open());
  ASSIGN_OR_RETURN(const Tuned tuned, tune_one(options, task, *store, 0));
  emit(options.output, tuned.document, {csv_columns(), {tuned.row}, {}}, tuned.text);
  return tuned.exit;
}

Action declare_tune(CliArguments app) {
  auto options = std::make_shared<TuneOptions>();
  add_workload(app, &options->workload, /*required=*/false);
  add_database(app, &options->database);
  add_output(app, &options->output);
  app.add_option("--progress", options->progress,
                 "text, or json: a line of it on stderr after every batch, for programs")
      .capture_default_str()
      .one_of({"text", "json"});
  app.add_option(
      "--suite", options->suite,
      "a JSON file of cases; the words then name some of them. Trials and seconds, times the "
      "number of cases, are shared: they go where they gain most");
  app.add_option("--trials", options->search.trials,
                 "stored ones of the same key count; with --suite, per case on average")
      .not_negative()
      .capture_default_str();
  app.add_option("--seconds", options->search.seconds,
                 "whichever comes first; with --suite, per case on average")
      .not_negative()
      .capture_default_str();
  app.add_option("--seed", options->search.seed, "of everything that is random")
      .capture_default_str();
  app.add_option("--model", options->model,
                 "what ranks candidates: `draft`: the analytic model, and what the run learns; "
                 "`none`: the analytic model alone; `shipped`: the model that comes with the "
                 "program, or a FILE that `model train` saved, and what the run learns on top; for "
                 "NPUs `shipped` is the default")
      .capture_default_str()
      .each([options](std::string) { options->names_model = true; });
  app.add_option("--keep-failing", options->keep_failing,
                 "a folder for one case of each class of failures: the program, its schedule, the "
                 "inputs' seed and the verdict, which `run --case` repeats");
  app.add_flag("--svg", options->svg, "with --json: the search's curve and the roofline, as SVG");
  app.add_flag("--random", options->search.random_only, "random sampling, nothing learned");
  return [options] { return run_tune(*options); };
}

}  // namespace

const CommandGroup& tune_commands() {
  static const CommandGroup group = {10, {
      {"tune", "search for the fastest kernel, measure, verify, store", declare_tune},
  }};
  return group;
}

}  // namespace lw
