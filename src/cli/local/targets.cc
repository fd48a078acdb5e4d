#include "absl/strings/str_join.h"
#include "schedules/targets/family.h"
#include "src/cli/commands.h"
#include "src/measure/workers/emulator.h"

namespace lw {
namespace {

std::string caches_of(const Target& target) {
  return absl::StrJoin(target.caches, ", ", [](std::string* out, const CacheLevel& level) {
    *out += level.name + (level.bytes > 0 ? " " + byte_size(static_cast<double>(level.bytes)) : "");
  });
}

absl::StatusOr<int> run_targets(const std::string& name, const Output& output) {
  if (!name.empty()) {
    absl::StatusOr<Target> target = find_target(name);
    if (!target.ok()) return absl::InvalidArgumentError(target.status().message());
    const std::string text = to_text(*target);
    emit(output, Json::parse(text), {{"target"}, {{text}}, {}}, text);
    return kDone;
  }
  ASSIGN_OR_RETURN(const Target host, find_target("host"));
  std::vector<Target> targets = builtin_targets();
  targets.insert(targets.begin(), host);
  Json document = Json::array();
  Table table{{"target", "family", "vector", "registers", "cores", "memories", "runs here"}, {},
              {false, false, true, true, true}};
  for (size_t i = 0; i < targets.size(); ++i) {
    const Target& target = targets[i];
    const std::string missing = missing_feature(target, host);
    const std::string shown = i == 0 ? "host" : target.name;
    Json entry = Json::parse(to_text(target));
    entry["name"] = shown;
    entry["runs_here"] = missing.empty();
    const bool emulated = missing == target.architecture && find_emulator(target).ok();
    entry["emulated_here"] = emulated;
    document.push_back(entry);
    const TargetSummary summary = target_summary(target);
    table.rows.push_back({shown, target.architecture, summary.vector, summary.registers,
                          concat(target.cores), caches_of(target),
                          missing.empty() ? "yes" : emulated ? "emulated" : "no: " + missing});
  }
  emit(output, document, table);
  return kDone;
}

Action declare(CliArguments app) {
  auto name = std::make_shared<std::string>();
  auto output = std::make_shared<Output>();
  app.add_option("target", *name, "only this one, whole");
  add_output(app, output.get());
  return [name, output] { return run_targets(*name, *output); };
}

}  // namespace

const CommandGroup& targets_commands() {
  static const CommandGroup group = {130, {{"targets", "the targets", declare}}};
  return group;
}

}  // namespace lw
