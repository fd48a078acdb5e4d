// `device check`: whether a program is the exec device that docs/exec.md asks for.
#include "schedules/targets/target.h"
#include "src/cli/commands.h"
#include "src/cli/subcommands.h"
#include "src/measure/exec/conformance.h"

namespace lw {
namespace {

struct DeviceOptions {
  std::string device, target = "npu_mid32";
  double limit_s = 30;
  Output output;
};

const char* word_of(CheckEnd end) {
  return end == CheckEnd::kPassed ? "passed" : end == CheckEnd::kFailed ? "FAILED" : "skipped";
}

absl::StatusOr<int> run_check(const DeviceOptions& options) {
  const std::string kind = "exec:";
  if (!options.device.starts_with(kind) ||
      options.device.find_first_not_of(' ', kind.size()) == std::string::npos) {
    return absl::InvalidArgumentError(
        concat("'", options.device, "' is no device that is checked; write exec:PROGRAM"));
  }
  absl::StatusOr<std::shared_ptr<const Target>> target = load_target(options.target);
  if (!target.ok()) return absl::InvalidArgumentError(target.status().message());
  ASSIGN_OR_RETURN(
      const std::vector<DeviceCheck> checks,
      check_exec_device(options.device.substr(kind.size()), **target, options.limit_s));
  Table table{{"check", "end", "asks for", "seen"}, {}, {}};
  Json rows = Json::array();
  int failed = 0;
  for (const DeviceCheck& one : checks) {
    failed += one.end == CheckEnd::kFailed;
    table.rows.push_back({one.name, word_of(one.end), one.asks, one.detail});
    rows.push_back({{"check", one.name},
                    {"passed", one.end == CheckEnd::kPassed},
                    {"skipped", one.end == CheckEnd::kSkipped},
                    {"asks", one.asks},
                    {"seen", one.detail}});
  }
  emit(options.output,
       {{"device", options.device}, {"target", (*target)->name}, {"failed", failed},
        {"checks", rows}},
       table);
  if (failed == 0) return kDone;
  options.output.note(concat(failed, " of ", checks.size(), " checks failed (docs/exec.md)"));
  return kNotValid;
}

Action declare_device(CliArguments app) {
  Subcommands<DeviceOptions> commands(app, nullptr);
  DeviceOptions* const options = commands.options.get();
  CliArguments check = commands.add(
      app, "check", "try out whether a program is a device as docs/exec.md asks for", run_check);
  check.add_option("device", options->device, "exec:COMMAND, as `agent --device` takes it")
      .required();
  check.add_option("--target", options->target, "whose programs it runs: a name, or a file's path")
      .capture_default_str();
  check.add_option("--limit", options->limit_s, "seconds that an answer may take")
      .positive().capture_default_str();
  add_output(check, &options->output);
  return commands.action();
}

}  // namespace

const CommandGroup& device_commands() {
  static const CommandGroup group = {195, {
      {"device", "check a device of yours", declare_device},
  }};
  return group;
}

}  // namespace lw
