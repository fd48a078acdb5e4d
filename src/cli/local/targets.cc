#include <algorithm>

#include "absl/strings/str_join.h"
#include "schedules/targets/family.h"
#include "src/cli/commands.h"
#include "src/measure/cpu/emulator.h"
#include "src/measure/local.h"

namespace lw {
namespace {

std::string memories_of(const TargetSummary& summary) {
  const auto add = [](std::string* out, const TargetSummary::Memory& memory) {
    *out += memory.name;
    if (memory.bytes > 0) *out += " " + byte_size(static_cast<double>(memory.bytes));
  };
  return absl::StrJoin(summary.memories, ", ", add);
}

// What the targets' summaries have figures of: a column each.
std::vector<std::string> columns_of(const std::vector<TargetSummary>& summaries) {
  std::vector<std::string> columns;
  for (const TargetSummary& summary : summaries) {
    for (const auto& [column, figure] : summary.figures) {
      if (std::find(columns.begin(), columns.end(), column) == columns.end()) {
        columns.push_back(column);
      }
    }
  }
  return columns;
}

std::string figure_of(const TargetSummary& summary, const std::string& column) {
  for (const auto& [name, figure] : summary.figures) {
    if (name == column) return figure;
  }
  return "";
}


absl::StatusOr<int> run_targets(const std::string& name, const Output& output) {
  if (!name.empty()) {
    absl::StatusOr<std::shared_ptr<const Target>> target = load_target(name);
    if (!target.ok()) return absl::InvalidArgumentError(target.status().message());
    const std::string text = to_text(**target);
    emit(output, Json::parse(text), {{"target"}, {{text}}, {}}, text);
    return kDone;
  }
  ASSIGN_OR_RETURN(const Target host, find_target("host"));
  std::vector<Target> targets = builtin_targets();
  targets.insert(targets.begin(), host);
  std::vector<TargetSummary> summaries;
  for (const Target& target : targets) summaries.push_back(target_summary(target));
  const std::vector<std::string> columns = columns_of(summaries);
  Json document = Json::array();
  Table table{{"target", "family"}, {}, {false, false}};
  table.columns.insert(table.columns.end(), columns.begin(), columns.end());
  table.columns.insert(table.columns.end(), {"cores", "memories", "runs here"});
  table.right.resize(3 + columns.size(), true);
  for (size_t i = 0; i < targets.size(); ++i) {
    const Target& target = targets[i];
    const std::string missing = missing_feature(target, host);
    const std::string shown = i == 0 ? "host" : target.name;
    Json entry = Json::parse(to_text(target));
    entry["name"] = shown;
    entry["runs_here"] = missing.empty();
    const bool emulated = missing == target.architecture && find_emulator(target).ok();
    entry["emulated_here"] = emulated;
    entry["simulated_here"] = is_simulated(target);
    document.push_back(entry);
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {shown, target.architecture};
    for (const std::string& column : columns) row.push_back(figure_of(summaries[i], column));
    row.insert(row.end(), {concat(target.cores), memories_of(summaries[i]),
                           missing.empty() ? "yes" : emulated ? "emulated"
                           : is_simulated(target) ? "simulated" : "no: " + missing});
  }
  emit(output, document, table);
  return kDone;
}

Action declare_targets(CliArguments app) {
  auto name = std::make_shared<std::string>();
  auto output = std::make_shared<Output>();
  app.add_option("target", *name, "only this one, whole; or that of a file");
  add_output(app, output.get());
  return [name, output] { return run_targets(*name, *output); };
}

}  // namespace

const CommandGroup& targets_commands() {
  static const CommandGroup group = {130, {{"targets", "the targets", declare_targets}}};
  return group;
}

}  // namespace lw
