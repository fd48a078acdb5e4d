// `explore`: machines that differ in some fields, each at its tuned best, against what they cost.
#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedules/targets/family.h"
#include "src/api/run/tune_task.h"
#include "src/api/words.h"
#include "src/base/clock.h"
#include "src/cli/commands.h"
#include "src/cli/interrupt.h"
#include "src/cli/report/explored.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

constexpr size_t kMostMachines = 1024;

struct ExploreOptions {
  std::vector<std::string> words, over;
  std::string suite, target, file = "explored.html";
  DatabaseFlags database;
  Output output;
  SearchOptions search;
};

// Fields that take the same values together: "mx.R+mx.C=16,32".
struct Axis {
  std::string name;
  std::vector<std::string> fields, values;
};

// "256K" as "262144".
std::string plain_value(const std::string& text) {
  int64_t number = 0;
  if (text.size() < 2 || !absl::SimpleAtoi(text.substr(0, text.size() - 1), &number)) return text;
  const char unit = text.back();
  const int shift = unit == 'K' ? 10 : unit == 'M' ? 20 : 0;
  if (shift == 0 || number < 0 || number >> 40 != 0) return text;
  return concat(number << shift);
}

absl::StatusOr<Axis> parse_over(const std::string& text) {
  const size_t equals = text.find('=');
  Axis axis;
  if (equals != std::string::npos) {
    axis.name = text.substr(0, equals);
    axis.fields = absl::StrSplit(axis.name, '+', absl::SkipEmpty());
    const std::vector<std::string> values =
        absl::StrSplit(text.substr(equals + 1), ',', absl::SkipEmpty());
    for (const std::string& value : values) axis.values.push_back(plain_value(value));
  }
  if (axis.fields.empty() || axis.values.empty()) {
    return absl::InvalidArgumentError(
        concat("--over takes FIELD=VALUE,VALUE,... or FIELD+FIELD=..., not '", text, "'"));
  }
  return axis;
}

using Configurations = TargetFamily::Configurations;

absl::StatusOr<const Configurations*> configurations_of(const Target& target) {
  const TargetFamily* family = target.part.family();
  if (family == nullptr || family->configurations == nullptr) {
    return absl::InvalidArgumentError(
        concat(target.name, " is no machine of which there are configurations to compare; "
               "`loopwright targets` lists the simulated ones"));
  }
  return family->configurations;
}

// One value of each axis.
std::vector<std::vector<std::string>> grid(const std::vector<Axis>& axes) {
  std::vector<std::vector<std::string>> points = {{}};
  for (const Axis& axis : axes) {
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& point : points) {
      for (const std::string& value : axis.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
    if (points.size() > kMostMachines) break;
  }
  return points;
}

struct Workload {
  std::string name, words;
  Program program;
};

absl::StatusOr<std::vector<Workload>> workloads_of(const ExploreOptions& options) {
  std::vector<SuiteCase> cases;
  if (options.suite.empty()) {
    if (options.words.empty()) {
      return absl::InvalidArgumentError("no workload is named (see `loopwright ops`)");
    }
    cases.push_back({options.words[0], options.words});
  } else {
    ASSIGN_OR_RETURN(cases, load_suite(options.suite, options.words));
  }
  std::vector<Workload> workloads;
  for (const SuiteCase& one : cases) {
    const WorkloadOptions own = WorkloadOptions().of(one);
    const std::vector<std::string> asked = own.all_words(one.words);
    ASSIGN_OR_RETURN(Program program,
                     load_workload(asked, own.const_names ? &*own.const_names : nullptr));
    workloads.push_back({one.name, label_of(asked, program), std::move(program)});
  }
  return workloads;
}

// The machine's time of each workload, tuned in turns that share its budget.
absl::Status tune_on(const ExploreOptions& options, const std::vector<Workload>& workloads,
                     std::shared_ptr<const Target> target, Store& store,
                     ExploredMachine* machine) {
  std::vector<SuiteMember> members;
  for (const Workload& workload : workloads) {
    ASSIGN_OR_RETURN(Task task, make_task(workload.program, workload.words, target, 1));
    RETURN_IF_ERROR(environment(put_task(store, task)));
    // What a machine's time is made of are microseconds: those of long workloads weigh most.
    members.push_back({.task = std::move(task), .weight = 1});
  }
  TuneHooks hooks;
  hooks.now = process_seconds;
  ASSIGN_OR_RETURN(const std::vector<TuneResult> results,
                   environment(tune_tasks(std::move(members), store, options.search, hooks)));
  bool all = true;
  for (size_t i = 0; i < results.size(); ++i) {
    const Measurement& best = results[i].best.measurement;
    const bool valid = best.verdict == Verdict::kOk && best.time_us > 0 && best.verified;
    machine->each_us.push_back(valid ? best.time_us : 0);
    machine->time_us += machine->each_us.back();
    if (valid) continue;
    all = false;
    machine->why = concat(workloads[i].name, ": ",
                          results[i].failure.ok() ? "none is valid"
                                                  : std::string(results[i].failure.message()));
  }
  if (!all) machine->time_us = 0;
  return absl::OkStatus();
}

Json machine_json(const ExploredMachine& machine, const std::vector<Axis>& axes,
                  const std::vector<Workload>& workloads) {
  Json settings = Json::object(), area = Json::object(), each = Json::array();
  for (size_t a = 0; a < axes.size(); ++a) {
    for (const std::string& field : axes[a].fields) settings[field] = machine.values[a];
  }
  for (const auto& [name, value] : machine.area) area[name] = value;
  for (size_t i = 0; i < machine.each_us.size(); ++i) {
    const double us = machine.each_us[i];
    each.push_back({{"name", workloads[i].name}, {"time_us", us > 0 ? Json(us) : Json()}});
  }
  return {{"target", machine.name}, {"settings", settings}, {"area", area},
          {"time_us", machine.time_us > 0 ? Json(machine.time_us) : Json()}, {"workloads", each},
          {"pareto_front", machine.on_front}, {"why", machine.why}};
}

Table table_of(const std::vector<ExploredMachine>& machines, const std::vector<std::string>& names) {
  Table table{names, {}, {}};
  for (const auto& [name, value] : machines[0].area) table.columns.push_back(name);
  for (const char* column : {"time_us", "of_first", "front"}) table.columns.push_back(column);
  table.right.resize(table.columns.size() - 1, true);
  const double first = machines[0].time_us;
  for (const ExploredMachine& machine : machines) {
    std::vector<std::string>& row = table.rows.emplace_back(machine.values);
    for (size_t f = 0; f < machines[0].area.size(); ++f) {
      row.push_back(f < machine.area.size() ? absl::StrFormat("%.0f", machine.area[f].second) : "");
    }
    const bool valid = machine.time_us > 0;
    row.push_back(valid ? absl::StrFormat("%.5g", machine.time_us) : "");
    row.push_back(valid && first > 0 ? absl::StrFormat("%.3f", machine.time_us / first) : "");
    row.push_back(valid ? (machine.on_front ? "front" : "") : machine.why);
  }
  return table;
}

absl::StatusOr<int> run_explore(ExploreOptions& options) {
  watch_interrupts();
  options.search.stop = Stop(interrupted);
  std::vector<Axis> axes;
  for (const std::string& text : options.over) {
    ASSIGN_OR_RETURN(axes.emplace_back(), parse_over(text));
  }
  absl::StatusOr<std::shared_ptr<const Target>> base = load_target(options.target);
  if (!base.ok()) return absl::InvalidArgumentError(base.status().message());
  ASSIGN_OR_RETURN(const Configurations* const configurations, configurations_of(**base));
  ASSIGN_OR_RETURN(const std::vector<Workload> workloads, workloads_of(options));
  const std::vector<std::vector<std::string>> points = grid(axes);
  if (points.size() > kMostMachines) {
    return absl::InvalidArgumentError(
        concat("more than ", kMostMachines, " machines: fewer values of --over"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, options.database.open());
  std::vector<ExploredMachine> machines;
  for (const std::vector<std::string>& point : points) {
    if (interrupted()) break;
    std::vector<FieldSetting> settings;
    for (size_t a = 0; a < axes.size(); ++a) {
      for (const std::string& field : axes[a].fields) settings.push_back({field, point[a]});
    }
    ExploredMachine machine;
    machine.values = point;
    const absl::StatusOr<Target> target = configurations->with(**base, settings);
    if (target.ok()) {
      machine.name = target->name;
      machine.area = configurations->area(*target);
      RETURN_IF_ERROR(tune_on(options, workloads, std::make_shared<const Target>(*target), *store,
                              &machine));
    } else {
      machine.why = std::string(target.status().message());
    }
    options.output.note(concat(machines.size() + 1, " of ", points.size(), "  ",
                               machine.name.empty() ? absl::StrJoin(point, ", ") : machine.name,
                               "  ", machine.time_us > 0 ? micros(machine.time_us) : machine.why));
    machines.push_back(std::move(machine));
  }
  const auto possible = [](const ExploredMachine& machine) { return !machine.area.empty(); };
  if (std::none_of(machines.begin(), machines.end(), possible)) {
    return machines.empty() ? absl::StatusOr<int>(kInterrupted)
                            : absl::InvalidArgumentError(machines[0].why);
  }
  // Others are compared with the first: one that there can be.
  std::stable_partition(machines.begin(), machines.end(), possible);
  mark_front(machines);
  std::vector<std::string> names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  const std::string what = concat(
      workloads.size() == 1 ? workloads[0].words : concat(workloads.size(), " workloads of ",
                                                          options.suite),
      " on ", (*base)->name, ", ", machines.size(), " configurations");
  RETURN_IF_ERROR(write_text(options.file, explored_page(machines, names, what)));
  Json document = Json::array();
  for (const ExploredMachine& machine : machines) {
    document.push_back(machine_json(machine, axes, workloads));
  }
  const Table table = table_of(machines, names);
  emit(options.output, {{"file", options.file}, {"machines", document},
                        {"wall_s", process_seconds()}}, table,
       as_text(table) + options.file + "\n");
  const bool all = std::all_of(machines.begin(), machines.end(),
                               [](const ExploredMachine& machine) { return machine.time_us > 0; });
  return interrupted() ? kInterrupted : all ? kDone : kNotValid;
}

Action declare_explore(CliArguments app) {
  auto options = std::make_shared<ExploreOptions>();
  options->search.trials = 50;
  options->search.seconds = 10;
  options->target = "npu_mid32";
  app.add_option("workload", options->words, "NAME[:OP] and overrides; with --suite, its cases");
  app.add_option("--suite", options->suite, "a JSON file of cases");
  app.add_option("--target", options->target,
                 "the machine that the others differ from: a name that `targets` lists, or a file's")
      .capture_default_str();
  app.add_option("--over", options->over,
                 "what they differ in: FIELD=VALUE,VALUE,... of the target's text, with K and M for "
                 "1024 and its square; FIELD+FIELD=... have the same value. Of several all "
                 "combinations")
      .required();
  add_database(app, &options->database);
  add_output(app, &options->output);
  app.add_option("-o,--output", options->file, "the page to write").capture_default_str();
  app.add_option("--trials", options->search.trials, "of a workload on a machine, on average")
      .not_negative()
      .capture_default_str();
  app.add_option("--seconds", options->search.seconds, "the same; whichever comes first")
      .not_negative()
      .capture_default_str();
  app.add_option("--seed", options->search.seed, "of everything that is random")
      .capture_default_str();
  return [options] { return run_explore(*options); };
}

}  // namespace

const CommandGroup& explore_commands() {
  static const CommandGroup group = {115, {
      {"explore", "compare machines, each at its tuned best, with what they cost", declare_explore},
  }};
  return group;
}

}  // namespace lw
