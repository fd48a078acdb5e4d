#include <algorithm>
#include <iostream>

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

// A line of the list.
struct Listed {
  std::string name;
  Target target;
  std::string runs;                        // "yes", "emulated", "estimated", ... or why not
  Json facts;                              // what of it JSON has besides the target's fields
};

Listed of_target(const std::string& name, const Target& target, const Target& host) {
  const std::string missing = missing_feature(target, host);
  const bool emulated = missing == target.architecture && find_emulator(target).ok();
  const bool simulated = is_simulated(target), estimated = is_estimated(target);
  const std::string runs = missing.empty() ? "yes"
                           : emulated      ? "emulated"
                           : simulated     ? "simulated"
                           : estimated     ? "estimated"
                                           : "no: " + missing;
  return {name, target, runs,
          {{"runs_here", missing.empty()}, {"emulated_here", emulated},
           {"simulated_here", simulated}, {"estimated_here", estimated}}};
}

// What drivers of this machine have; one that cannot be used has no target, and is said.
std::vector<Listed> of_drivers() {
  std::vector<Listed> listed;
  const absl::StatusOr<std::vector<DrivenMachine>> machines = driven_machines();
  if (!machines.ok()) std::cerr << machines.status().message() << "\n";
  if (!machines.ok()) return listed;
  for (const DrivenMachine& machine : *machines) {
    if (!machine.target.ok()) {
      std::cerr << machine.target.status().message() << "\n";
      continue;
    }
    listed.push_back({machine.name, *machine.target, concat("yes: ", machine.device),
                      {{"runs_here", true}, {"emulated_here", false}, {"simulated_here", false},
                       {"estimated_here", false}, {"device", machine.device}, {"driver", machine.driver},
                       {"target", machine.target->name}}});
  }
  return listed;
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
  std::vector<Listed> all = {of_target("host", host, host)};
  for (const Target& target : builtin_targets()) all.push_back(of_target(target.name, target, host));
  for (Listed& listed : of_drivers()) all.push_back(std::move(listed));
  std::vector<TargetSummary> summaries;
  for (const Listed& listed : all) summaries.push_back(target_summary(listed.target));
  const std::vector<std::string> columns = columns_of(summaries);
  Json document = Json::array();
  Table table{{"target", "family"}, {}, {false, false}};
  table.columns.insert(table.columns.end(), columns.begin(), columns.end());
  table.columns.insert(table.columns.end(), {"cores", "memories", "runs here"});
  table.right.resize(3 + columns.size(), true);
  for (size_t i = 0; i < all.size(); ++i) {
    Json entry = Json::parse(to_text(all[i].target));
    entry["name"] = all[i].name;
    entry.update(all[i].facts);
    document.push_back(entry);
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {all[i].name, all[i].target.architecture};
    for (const std::string& column : columns) row.push_back(figure_of(summaries[i], column));
    row.insert(row.end(), {concat(all[i].target.cores), memories_of(summaries[i]), all[i].runs});
  }
  emit(output, document, table);
  return kDone;
}

Action declare_targets(CliArguments app) {
  auto name = std::make_shared<std::string>();
  auto output = std::make_shared<Output>();
  app.add_option("target", *name, "only this one, whole, or that of a file or, by opencl:NUMBER, opencl:NAME, "
                 "cuda:NUMBER or cuda:NAME, of a driver's device");
  add_output(app, output.get());
  return [name, output] { return run_targets(*name, *output); };
}

}  // namespace

const CommandGroup& targets_commands() {
  static const CommandGroup group = {130, {{"targets", "the targets", declare_targets}}};
  return group;
}

}  // namespace lw
