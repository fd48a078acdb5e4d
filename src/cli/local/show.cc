#include "src/api/task.h"
#include "src/build/build.h"
#include "src/cli/commands.h"
#include "src/export/nest_json.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

struct ShowOptions {
  WorkloadOptions workload;
  DatabaseFlags database;
  Output output;
  std::string stage = "nest", trace_file;
};

// What is shown, and in JSON also the facts of a nest.
struct Shown {
  std::string text;
  Json nest;                               // null: another stage
};

absl::StatusOr<Shown> show_stage(const ShowOptions& options, const Task& task) {
  if (options.stage == "expr") return Shown{print(*task.program())};
  Choice choice;
  if (options.trace_file.empty()) {
    ASSIGN_OR_RETURN(choice, choose_and_say(task, options.database, options.output));
  } else {
    ASSIGN_OR_RETURN(const std::string text, read_text(options.trace_file));
    absl::StatusOr<Choice> chosen = choose_trace(task, text);
    if (!chosen.ok()) {
      return absl::Status(chosen.status().code(), concat(options.trace_file, ": ",
                                                         std::string(chosen.status().message())));
    }
    choice = *std::move(chosen);
  }
  if (options.stage == "trace") return Shown{choice.trace};
  if (options.stage == "nest") return Shown{print(*choice.nest), nest_json(*choice.nest)};
  if (options.stage == "kernel") return Shown{print(*choice.kernel)};
  ASSIGN_OR_RETURN(std::string text,
                   task.backend().text(*choice.kernel, *task.target(), options.stage));
  return Shown{std::move(text)};
}

absl::StatusOr<int> run_show(const ShowOptions& options) {
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  ASSIGN_OR_RETURN(Shown shown, show_stage(options, task));
  std::string& text = shown.text;
  if (text.empty() || text.back() != '\n') text += '\n';
  Json document = {{"stage", options.stage}, {"text", text}};
  if (!shown.nest.is_null()) document["nest"] = std::move(shown.nest);
  emit(options.output, document, {{"stage", "text"}, {{options.stage, text}}, {}}, text);
  return kDone;
}

Action declare_show(CliArguments app) {
  auto options = std::make_shared<ShowOptions>();
  add_workload(app, &options->workload);
  add_database(app, &options->database);
  add_frozen(app, &options->database, /*runs=*/false);
  add_output(app, &options->output);
  app.add_option("--stage", options->stage, "how far down").capture_default_str()
      .one_of({"expr", "trace", "nest", "kernel", "llvm", "asm", "npu", "opencl", "ptx", "sass"});
  app.add_option("--trace", options->trace_file, "a file with a trace, instead of the best");
  return [options] { return run_show(*options); };
}

}  // namespace

const CommandGroup& show_commands() {
  static const CommandGroup group = {50, {
      {"show", "print a stage of the best, or of a trace", declare_show},
  }};
  return group;
}

}  // namespace lw
