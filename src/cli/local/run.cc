// `run`: the best kernel, or the reference, on NumPy files.
#include <cstring>
#include <map>

#include "absl/strings/str_join.h"
#include "cost_model/cost_model.h"
#include "loopwright/kernel.h"
#include "loopwright/program.h"
#include "src/api/run/devices.h"
#include "src/api/run/npy.h"
#include "src/api/task.h"
#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/cli/commands.h"
#include "src/cli/failing_case.h"
#include "src/expr/reference/interpret.h"
#include "src/measure/machine/processors.h"
#include "src/measure/run/timing.h"

namespace lw {
namespace {

constexpr int kMostSamples = 30;
constexpr double kDriven_s = 0.1;          // of calls on a driver's device, with their copies

struct RunOptions {
  WorkloadOptions workload;
  DatabaseFlags database;
  Output output;
  std::vector<std::string> in, out;        // NAME=FILE
  std::string trace_file, case_folder;
  bool reference = false;
};

// NAME=FILE of each of the tensors; every input must be there.
absl::StatusOr<std::map<int, std::string>> bind(const Program& program,
                                                const std::vector<std::string>& bindings,
                                                Role role) {
  const std::vector<int> all = arguments(program);
  std::map<int, std::string> files;        // by position among the arguments
  std::vector<std::string> names;
  for (int t : all) {
    if (program.tensors[t].role == role) names.push_back(program.tensors[t].name);
  }
  for (const std::string& binding : bindings) {
    const size_t equals = binding.find('=');
    const std::string name = binding.substr(0, equals);
    int position = -1;
    for (size_t i = 0; i < all.size(); ++i) {
      const Tensor& tensor = program.tensors[all[i]];
      if (tensor.role == role && tensor.name == name) position = static_cast<int>(i);
    }
    if (equals == std::string::npos || position < 0) {
      const std::string near = nearest_name(name, names);
      return absl::InvalidArgumentError(concat(
          "'", binding, "' is not NAME=FILE of an ", role == Role::kInput ? "input" : "output",
          near.empty() ? "; there are " + absl::StrJoin(names, ", ")
                       : "; did you mean '" + near + "'?"));
    }
    if (!files.emplace(position, binding.substr(equals + 1)).second) {
      return absl::InvalidArgumentError(concat(name, " is given twice"));
    }
  }
  return files;
}

absl::Status read_inputs(const Program& program, const RunOptions& options,
                         ArgumentMemory& memory) {
  ASSIGN_OR_RETURN(const auto files, bind(program, options.in, Role::kInput));
  std::string missing;
  const std::vector<int> all = arguments(program);
  for (size_t i = 0; i < inputs(program).size(); ++i) {
    const Tensor& tensor = program.tensors[all[i]];
    if (files.count(static_cast<int>(i)) > 0) continue;
    missing += concat("\n  -i ", tensor.name, "=FILE.npy   ", type_name(tensor.type), " (",
                      absl::StrJoin(tensor.shape, ", "), ")");
  }
  if (!missing.empty()) return absl::InvalidArgumentError("inputs are missing:" + missing);
  for (const auto& [position, file] : files) {
    RETURN_IF_ERROR(read_npy(file, program.tensors[all[position]], memory.data(position)));
  }
  return absl::OkStatus();
}

// Seconds of the reference, whose outputs are copied to where a kernel would write them.
absl::StatusOr<double> run_reference(const Program& program, const ArgumentMemory& memory) {
  const std::vector<int> all = arguments(program);
  std::vector<Data> in;
  for (size_t i = 0; i < inputs(program).size(); ++i) {
    const std::byte* begin = memory.data(static_cast<int>(i));
    in.push_back({std::vector<std::byte>(begin, begin + bytes(program.tensors[all[i]]))});
  }
  const double begin = now();
  ASSIGN_OR_RETURN(const std::vector<Data> out, interpret(program, in));
  const double seconds = now() - begin;
  for (size_t o = 0; o < out.size(); ++o) {
    std::memcpy(memory.data(static_cast<int>(in.size() + o)), out[o].bytes.data(),
                out[o].bytes.size());
  }
  return seconds;
}

// As a tuning times its finalists: on the same processors, in samples of the same length.
absl::StatusOr<Estimate> time_kernel(const Task& task, const Choice& choice,
                                     const ArgumentMemory& memory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Executable> kernel, Executable::create(task, choice));
  RETURN_IF_ERROR(kernel->prepack(memory.pointers()));
  if (const std::optional<double> us = kernel->own_us()) {
    RETURN_IF_ERROR(kernel->run(memory.pointers()));
    return Estimate{*us, *us, *us};
  }
  if (kernel->driven()) {
    std::vector<double> samples;
    RETURN_IF_ERROR(kernel->run(memory.pointers()));  // warms up
    const double end_s = now() + kDriven_s;
    do {
      RETURN_IF_ERROR(kernel->run(memory.pointers()));
      samples.push_back(kernel->last_us());
    } while (samples.size() < kMostSamples && now() < end_s);
    return estimate(samples);
  }
  absl::Status status = absl::OkStatus();
  Timed timed;
  timed.call = [&] {
    status = kernel->run(memory.pointers());
    return status.ok();
  };
  TimingPlan plan;
  plan.max_samples = kMostSamples;
  plan.budget_s = 0.1;
  plan.min_sample_s = 1e-3;
  const std::vector<int> allowed = allowed_cpus();
  pin_to({measuring_processors(allowed, task.threads()).front()});
  const Timing timing = time_call(timed, plan);
  pin_to(allowed);
  RETURN_IF_ERROR(status);
  return estimate(timing.samples_us);
}

absl::StatusOr<int> run_run(const RunOptions& options) {
  if (!options.case_folder.empty()) return repeat_failing_case(options.case_folder, options.output);
  if (options.workload.words.empty()) {
    return absl::InvalidArgumentError("no workload is named (see `loopwright ops`)");
  }
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  ASSIGN_OR_RETURN(const RunsOn device, find_device(task));
  const Program& program = *task.program();
  ASSIGN_OR_RETURN(const auto out_files, bind(program, options.out, Role::kOutput));
  ASSIGN_OR_RETURN(ArgumentMemory memory, ArgumentMemory::create(program));
  RETURN_IF_ERROR(read_inputs(program, options, memory));
  Estimate time_us;
  std::string outcome = "reference";
  TimeKind kind = TimeKind::kMeasured;
  if (options.reference) {
    ASSIGN_OR_RETURN(const double seconds, run_reference(program, memory));
    time_us = {seconds * 1e6, seconds * 1e6, seconds * 1e6};
  } else {
    ASSIGN_OR_RETURN(const Choice choice, choose_to_run(task, options.database, options.output));
    ASSIGN_OR_RETURN(time_us, time_kernel(task, choice, memory));
    outcome = choice.outcome;
    kind = time_kind(device);
  }
  const std::vector<int> all = arguments(program);
  Json written = Json::array();
  for (const auto& [position, file] : out_files) {
    RETURN_IF_ERROR(
        environment(write_npy(file, program.tensors[all[position]], memory.data(position))));
    written.push_back(file);
  }
  const double us = time_us.median;
  const bool sampled = time_us.low < time_us.high;
  emit(options.output, {{"time_us", us},
        {"ci_us", {time_us.low, time_us.high}},
        {"estimated", kind == TimeKind::kEstimated},
        {"time_kind", time_kind_name(kind)},
        {"outcome", outcome},
        {"files", written}},
       {{"time_us", "outcome"}, {{number(us, 5), outcome}}, {}},
       concat(micros(us),
              sampled ? concat("  [", micros(time_us.low), ", ", micros(time_us.high), "]") : "",
              kind == TimeKind::kMeasured ? "" : concat(", ", time_kind_name(kind)),
              kind == TimeKind::kEstimated ? " (the run was emulated)" : "",
              outcome == "exact" ? "" : "  (" + outcome + ")", "\n"));
  return kDone;
}

Action declare_run(CliArguments app) {
  auto options = std::make_shared<RunOptions>();
  add_workload(app, &options->workload, /*required=*/false);
  add_database(app, &options->database);
  add_frozen(app, &options->database, /*runs=*/true);
  add_output(app, &options->output);
  app.add_option("-i,--input", options->in, "NAME=FILE.npy, once for each input")
      .allow_extra_args(false);
  app.add_option("-o,--output", options->out, "NAME=FILE.npy, outputs to write")
      .allow_extra_args(false);
  app.add_option("--case", options->case_folder,
                 "checks again what `tune --keep-failing` wrote into this folder, on its inputs; "
                 "exit 3 if it still fails")
      .excludes("--input")
      .excludes("--output");
  app.add_flag("--reference", options->reference, "the slow and obvious way instead of a kernel");
  return [options] { return run_run(*options); };
}

}  // namespace

const CommandGroup& run_commands() {
  static const CommandGroup group = {
      40, {{"run", "run the best kernel on NumPy files", declare_run}}};
  return group;
}

}  // namespace lw
