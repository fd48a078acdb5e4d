// `report`: reads everything measured, measures what this machine could do, writes the page.
#include "src/cli/report/report.h"

#include <ctime>
#include <set>

#include "absl/strings/str_format.h"
#include "schedules/targets/family.h"
#include "schedules/targets/identity.h"
#include "src/api/run/devices.h"
#include "src/api/task.h"
#include "src/base/clock.h"
#include "src/cli/commands.h"
#include "src/cli/failure_text.h"
#include "src/expr/expr.h"
#include "src/measure/local.h"
#include "src/search/progress.h"
#include "src/search/search.h"
#include "tuner_db/best.h"
#include "tuner_db/key_terms.h"

namespace lw {
namespace {

struct ReportOptions {
  DatabaseFlags database;
  Output output;
  std::string file = "loopwright.html";
  bool no_machine = false;
};

// The measurements of one key in order of arrival: its curve, failures and totals.
void read_measurements(const std::vector<Measurement>& all, ReportTask* task) {
  double leading_us = 0;                   // of the kind of which the best will be
  for (const Measurement& m : all) {
    if (!leads(m, leading_us, task->time_kind)) continue;
    leading_us = m.time_us, task->time_kind = m.time_kind;
  }
  double before = 0, last = 0;             // of earlier processes; of this one
  SearchProgress progress;
  progress.time_kind = task->time_kind;
  for (const Measurement& m : all) {
    if (m.wall_s < last) before += last;   // a later run begins at zero
    last = m.wall_s;
    if (m.verdict == Verdict::kOk && m.time_kind != task->time_kind) continue;
    if (progress.take(m)) task->curve.push_back({before + last, progress.trials, m.time_us});
  }
  task->trials = progress.trials;
  task->failed = progress.failed;
  task->zero_us = progress.zero_us;
  task->seconds = before + last;
  task->failures = failure_classes(all);
}

// "" too where the program is gone, or nobody here knows such machines: its space is not known.
std::string last_resort_of(const WorkloadRow& row, const Key& key, const Target& target,
                           const std::string& trace) {
  absl::StatusOr<Program> program = reload_program(row);
  const absl::StatusOr<Trace> best = parse_trace(trace);
  if (!program.ok() || !best.ok() || !check_family(target).ok()) return "";
  Nest start = make_nest(std::make_shared<const Program>(*std::move(program)),
                         std::make_shared<const Target>(target), key.threads);
  start.winograd = allows_winograd(key.objective);
  const std::string why = only_last_resort(start, *best);
  return why.empty() ? "" : last_resort_note(why);
}

absl::Status find_task_bound(const WorkloadRow& row, const Key& key, const std::string& target,
                             const Measurement& best, Report* report, ReportTask* task) {
  absl::StatusOr<Program> program = reload_program(row);
  if (!program.ok()) return absl::OkStatus();
  const absl::StatusOr<Target> named = find_target(target);
  if (!named.ok() || target_id(*named) != key.target || !check_family(*named).ok()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Task now,
                   make_task(*std::move(program), row.source_words, *named, key.threads));
  if (!check_runs_here(now).ok()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Bound bound, bound_beside(now, best, 0.02));
  task->bound_us = bound.bound_us;
  task->bound_by = bound.set_by().name;
  const PeakKind kind = peak_kind(*now.program(), *now.target());
  task->roof = kind.name();
  for (PeakRoof& roof : report->peaks) {
    if (roof.name != task->roof || roof.threads != task->threads) continue;
    roof.gflops = std::max(roof.gflops, bound.peak_gflops);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const double peak, measure_peak(kind, *now.target(), task->threads));
  report->peaks.push_back({task->roof, task->threads, std::max(peak, bound.peak_gflops)});
  return absl::OkStatus();
}

// What is known of a best without measuring, where its machine is simulated here.
absl::Status watch(const WorkloadRow& row, const Key& key, const Target& target,
                   const Measurement& best, ReportTask* task) {
  if (best.time_kind != TimeKind::kSimulated || !is_simulated(target)) return absl::OkStatus();
  absl::StatusOr<Program> program = reload_program(row);
  if (!program.ok() || !check_family(target).ok()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Task now,
                   make_task(*std::move(program), row.source_words, target, key.threads));
  if (!(now.key() == key)) return absl::OkStatus();  // another version of the backend's
  ASSIGN_OR_RETURN(const Bound bound, bound_beside(now, best));
  task->bound_us = bound.bound_us;
  task->bound_by = bound.set_by().name;
  ASSIGN_OR_RETURN(const Choice choice, choose_trace(now, best.trace));
  ASSIGN_OR_RETURN(task->simulation, simulate(now, choice));
  return absl::OkStatus();
}

// The quick doctor looks at the caches with one thread; the roofs of other counts are measured
// here.
absl::Status measure_roofs(const Target& host, const std::vector<ReportTask>& tasks,
                           DoctorReport* machine) {
  const std::vector<DoctorReport::Level> known = machine->levels;
  std::set<int> missing;
  for (const ReportTask& task : tasks) missing.insert(task.threads);
  for (const DoctorReport::Level& level : known) missing.erase(level.threads);
  for (int threads : missing) {
    if (threads > machine->cores) continue;
    for (DoctorReport::Level level : known) {
      level.threads = threads;
      ASSIGN_OR_RETURN(const Bandwidth read,
                       measure_bandwidth(host, level.footprint_bytes, 1, threads));
      ASSIGN_OR_RETURN(const Bandwidth copy,
                       measure_bandwidth(host, level.footprint_bytes, 0.5, threads));
      level.read = read.gbytes_per_s;
      level.copy = copy.gbytes_per_s;
      machine->levels.push_back(level);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Report> gather(const ReportOptions& options, const Store& store) {
  Report report;
  report.database = options.database.shown();
  char text[32];
  const std::time_t seconds = unix_ms() / 1000;
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", std::gmtime(&seconds));
  report.generated = text;
  ASSIGN_OR_RETURN(const std::vector<Key> keys, environment(store.keys()));
  ASSIGN_OR_RETURN(const Target host, find_target("host"));
  for (const Key& key : keys) {
    ASSIGN_OR_RETURN(const WorkloadRow row, environment(store.workload(key.workload)));
    ASSIGN_OR_RETURN(const Target target, environment(store.target(key.target)));
    ASSIGN_OR_RETURN(const std::vector<Measurement> all, environment(store.measurements(key)));
    ReportTask task;
    task.words = row.source_words;
    task.name = row.name;
    task.id = row.id;
    task.target = target.name;
    task.threads = key.threads;
    task.flops = row.flops;
    task.bytes = row.bytes;
    read_measurements(all, &task);
    const absl::StatusOr<BestRow> best = store.best(key);
    if (!best.ok() && !absl::IsNotFound(best.status())) return environment(best.status());
    if (best.ok()) {
      task.best_us = best->measurement.time_us;
      task.ci_low_us = best->measurement.ci_low_us;
      task.ci_high_us = best->measurement.ci_high_us;
      task.trace = best->measurement.trace;
      task.last_resort = last_resort_of(row, key, target, task.trace);
      task.time_kind = best->measurement.time_kind;
      RETURN_IF_ERROR(watch(row, key, target, best->measurement, &task));
      const std::string named = target.name == host.name ? "host" : target.name;
      if (!options.no_machine)
        RETURN_IF_ERROR(find_task_bound(row, key, named, best->measurement, &report, &task));
    }
    report.tasks.push_back(std::move(task));
  }
  if (!options.no_machine) {
    ASSIGN_OR_RETURN(report.machine, doctor(host, /*quick=*/true));
    RETURN_IF_ERROR(measure_roofs(host, report.tasks, &*report.machine));
  }
  return report;
}

Json task_json(const ReportTask& task) {
  Json json = {{"workload", task.words}, {"canonical_sha256", task.id}, {"target", task.target},
               {"threads", task.threads}, {"trials", task.trials}, {"failed", task.failed},
               {"best_us", task.best_us}, {"zero_us", task.zero_us}, {"bound_us", task.bound_us},
               {"bound_by", task.bound_by}, {"roof", task.roof}, {"flops", task.flops},
               {"estimated", task.time_kind == TimeKind::kEstimated},
               {"time_kind", time_kind_name(task.time_kind)}, {"seconds", task.seconds},
               {"last_resort", task.last_resort},
               {"failures", failures_json(failure_messages(task.failures))}};
  if (task.simulation) json["simulation"] = simulation_json(*task.simulation);
  return json;
}

absl::StatusOr<int> run_report(const ReportOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, options.database.open_to_read());
  if (store == nullptr)
    return absl::NotFoundError(concat("there is no database ", options.database.shown()));
  ASSIGN_OR_RETURN(const Report report, gather(options, *store));
  if (report.tasks.empty()) {
    return absl::NotFoundError(concat(options.database.shown(), " has no measurement yet"));
  }
  RETURN_IF_ERROR(write_text(options.file, report_page(report)));
  Json tasks = Json::array(), peaks = Json::array();
  for (const ReportTask& task : report.tasks) tasks.push_back(task_json(task));
  for (const PeakRoof& roof : report.peaks)
    peaks.push_back({{"name", roof.name}, {"threads", roof.threads}, {"gflops", roof.gflops}});
  emit(options.output, {{"file", options.file}, {"tasks", tasks}, {"peaks", peaks}},
       {{"file"}, {{options.file}}, {}},
       options.file + "\n");
  return kDone;
}

Action declare_report(CliArguments app) {
  auto options = std::make_shared<ReportOptions>();
  add_database(app, &options->database);
  add_output(app, &options->output);
  app.add_option("-o,--output", options->file, "the page to write").capture_default_str();
  app.add_flag(
      "--no-machine", options->no_machine,
      "do not measure this machine: no roofs and no bounds (the figures are from another)");
  return [options] { return run_report(*options); };
}

}  // namespace

const CommandGroup& report_commands() {
  static const CommandGroup group = {110, {
      {"report", "one HTML page of everything measured", declare_report},
  }};
  return group;
}

}  // namespace lw
