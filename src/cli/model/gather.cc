#include "src/cli/model/gather.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "loopwright/task.h"
#include "src/api/run/tune_task.h"
#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/base/rng.h"
#include "src/cli/interrupt.h"
#include "src/learn/draw.h"
#include "src/learn/gather.h"
#include "src/measure/local.h"

namespace lw {
namespace {

constexpr double kSaveSeconds = 10;

bool same(const TaskSpec& a, const TaskSpec& b) {
  return a.words == b.words && a.target == b.target && a.threads == b.threads &&
         a.const_names == b.const_names;
}

class Gathering {
 public:
  Gathering(const GatherOptions& options, const Output& output)
      : options_(options), output_(output), objects_(options.objects) {}

  absl::StatusOr<int> run() {
    if (std::filesystem::exists(options_.file)) {
      ASSIGN_OR_RETURN(dataset_, environment(load_dataset(options_.file)));
    }
    const bool built_ones = !options_.objects.empty() && !options_.build_only;
    for (int i = options_.first; i < options_.tasks && !over(); ++i) {
      if (!built_ones || objects_.has(i)) RETURN_IF_ERROR(one(i));
    }
    if (!options_.build_only) RETURN_IF_ERROR(environment(save_dataset(dataset_, options_.file)));
    int64_t programs = 0;
    for (const MeasuredTask& task : dataset_.tasks)
      programs += static_cast<int64_t>(task.programs.size());
    emit(output_,
         {{"file", options_.file}, {"tasks", dataset_.tasks.size()}, {"programs", programs},
          {"new", new_}},
         {{"file", "tasks", "programs", "new"},
          {{options_.file, concat(dataset_.tasks.size()), concat(programs), concat(new_)}},
          {}});
    return interrupted() ? kInterrupted : kDone;
  }

 private:
  bool over() const { return interrupted() || now() - began_ > options_.seconds; }

  // The name of the target in the data set; it differs where another machine gave its name first.
  std::string known_as(const std::string& name, const Target& target) {
    std::string known = name;
    for (int n = 2; dataset_.targets.count(known) > 0; ++n) {
      if (to_text(dataset_.targets[known]) == to_text(target)) return known;
      known = concat(name, "-", n);
    }
    dataset_.targets[known] = target;
    return known;
  }

  absl::Status one(int index) {
    TaskSpec spec;
    Target target;
    if (options_.targets.empty()) {
      spec = draw_task(options_.seed, index, options_.threads, options_.lesser);
      ASSIGN_OR_RETURN(target, find_target(spec.target));
    } else {
      const size_t turn = static_cast<size_t>(index) % options_.targets.size();
      ASSIGN_OR_RETURN(const std::shared_ptr<const Target> loaded,
                       load_target(options_.targets[turn]));
      target = *loaded;
      ASSIGN_OR_RETURN(spec, draw_task_on(options_.seed, index, target.name, target));
    }
    ASSIGN_OR_RETURN(const Task task, task_of(spec, target));
    if (options_.build_only) return build(index, task);
    spec.target = known_as(spec.target, target);
    const bool known =
        std::any_of(dataset_.tasks.begin(), dataset_.tasks.end(),
                    [&](const MeasuredTask& other) { return same(other.spec, spec); });
    if (known) return absl::OkStatus();
    return measure(index, task, spec);
  }

  absl::StatusOr<std::vector<DrawnProgram>> draw(int index, const Task& task) const {
    std::unique_ptr<Model> guide;
    if (options_.guided > 0) {
      ASSIGN_OR_RETURN(
          guide, environment(model_named(options_.model, task.target()->architecture)));
    }
    return draw_programs(task, {options_.uniform, options_.searched, options_.guided},
                         Rng(options_.seed).split(static_cast<uint64_t>(index)).next(),
                         std::move(guide));
  }

  absl::Status build(int index, const Task& task) {
    ++new_;
    ASSIGN_OR_RETURN(const std::vector<DrawnProgram> programs, draw(index, task));
    return environment(objects_.build(index, task, programs));
  }

  absl::Status measure(int index, const Task& task, const TaskSpec& spec) {
    const double begin = now();
    ASSIGN_OR_RETURN(const std::vector<DrawnProgram> programs, draw(index, task));
    if (programs.empty()) {                // a type, say, that the target lacks
      output_.note(absl::StrFormat("%d  %s  %s: nothing to measure", index,
                                   absl::StrJoin(spec.words, " "), spec.target));
      return absl::OkStatus();
    }
    const std::unique_ptr<Backend> backend = objects_.backend(index, task);
    LocalOptions local;
    local.backend = backend.get();
    local.load = load;
    local.seed = options_.seed;
    local.points = 256;                    // enough to notice what is wrong
    local.oracle_budget_s = 1;
    MeasuredTask measured{spec, {}};
    {
      ASSIGN_OR_RETURN(const std::unique_ptr<Measurer> measurer,
                       environment(make_measurer(task, local)));
      ASSIGN_OR_RETURN(measured.programs, environment(measure_programs(programs, *measurer)));
    }
    const auto failed = std::count_if(measured.programs.begin(), measured.programs.end(),
                                      [](const MeasuredProgram& p) { return p.time_us == 0; });
    output_.note(absl::StrFormat("%d  %s  %s, %d threads: %d programs, %d failed; %.1f s", index,
                                 absl::StrJoin(spec.words, " "), spec.target, spec.threads,
                                 measured.programs.size(), failed, now() - begin));
    dataset_.tasks.push_back(std::move(measured));
    ++new_;
    if (now() - saved_ < kSaveSeconds) return absl::OkStatus();
    saved_ = now();
    return environment(save_dataset(dataset_, options_.file));
  }

  const GatherOptions& options_;
  const Output& output_;
  const ObjectFolder objects_;
  const double began_ = now();
  double saved_ = began_;
  Dataset dataset_;
  int64_t new_ = 0;
};

}  // namespace

void add_gather(CliArguments app, GatherOptions* options) {
  app.add_option("--tasks", options->tasks, "of the seed's sequence, from its first")
      .capture_default_str();
  app.add_option("--first", options->first, "of them that is looked at").capture_default_str();
  app.add_option("--seconds", options->seconds, "after which no task begins");
  app.add_option("--seed", options->seed, "of tasks and programs").capture_default_str();
  app.add_option("--uniform", options->uniform, "programs a task, uniform over the space")
      .capture_default_str();
  app.add_option("--searched", options->searched, "programs a task, as a search would choose")
      .capture_default_str();
  app.add_option("--guided", options->guided, "programs a task, as one with --model would")
      .capture_default_str();
  app.add_option("--model", options->model, "what guides: `shipped`, or a FILE")
      .capture_default_str();
  app.add_option("--threads", options->threads, "of the tasks that have more than one")
      .positive()
      .capture_default_str();
  app.add_option("--lesser", options->lesser, "built-in targets that some of the tasks are for")
      .delimiter(',');
  app.add_option("--targets", options->targets,
                 "in turns: all tasks are for these, of what their family computes; names or files")
      .delimiter(',');
  app.add_option("-o,--output", options->file, "the data set, added to").capture_default_str();
  app.add_option("--objects", options->objects,
                 "folder of machine code: those tasks that --build-only left there are measured");
  app.add_flag("--build-only", options->build_only,
               "measure nothing: fill --objects, for which the machine need not be quiet");
}

absl::StatusOr<int> gather(const GatherOptions& options, const Output& output) {
  watch_interrupts();
  if (options.build_only && options.objects.empty())
    return absl::InvalidArgumentError("--build-only needs --objects");
  return Gathering(options, output).run();
}

}  // namespace lw
