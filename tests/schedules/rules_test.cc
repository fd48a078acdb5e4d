// What every rule makes of a program, and where it does not apply: tests/rules/NAME.test. A file
// holds
//   === title
//   program text
//   --- branch NAME | tile NAME [threads N] [on TARGET] [winograd] [dot] [reduction] [groups]
//       [sub-groups] [several] [matrices] [wide] [group-reductions]
//   the steps that stand in the draft already
//   --- branches | tiles | declines
//   the steps that the rule adds, "?" where a number is to be drawn; with their sketch's name,
//   for each branch; "..." where it has none yet
// as tests/support/text_cases.h says. A choice that every program has begins its title with "always".
#include "schedules/space/rule.h"

#include <algorithm>

#include "tests/support/text_cases.h"

namespace lw {
namespace {

using rules::Draft;
using rules::Rule;

const Rule* find_rule(const std::string& name) {
  for (const Rule* rule : rules::lw_rule_table()) {
    if (rule->name == name) return rule;
  }
  return nullptr;
}

// The sketch's steps from `first` on.
std::string added(const Draft& draft, size_t first) {
  std::string text;
  for (size_t i = first; i < draft.sketch.steps.size(); ++i) {
    Step step = draft.sketch.steps[i];
    if (draft.sketch.open[i]) step.numbers.clear();
    const std::string line = to_text(step);
    text += draft.sketch.open[i] ? concat(line.substr(0, line.size() - 1), "; ?)\n")
                                 : concat(line, "\n");
  }
  if (draft.failed) text += concat("fails: ", draft.why, "\n");
  return text;
}

TextSection branches_of(const Rule& rule, Draft draft) {
  const size_t before = draft.sketch.steps.size();
  std::vector<Draft> drafts;
  rule.branch(std::move(draft), drafts);
  if (drafts.size() == 1 && drafts[0].sketch.steps.size() == before) return {"declines", ""};
  std::string text;
  for (const Draft& one : drafts) {
    const std::string name = one.name.empty() ? "..." : one.name;
    text += concat("* ", name, one.suffix, "\n", added(one, before));
  }
  return {"branches", text};
}

TextSection tiles_of(const Rule& rule, Draft draft) {
  const size_t before = draft.sketch.steps.size();
  bool any = false;
  std::vector<std::string> names;
  for (const Stage& stage : draft.nest.stages) {
    const bool runs = stage.place != Place::kInlined && stage.place != Place::kEpilogue;
    if (runs) names.push_back(stage.name);
  }
  for (const std::string& name : names) {
    const int stage = find_stage(draft.nest, name);
    if (!rule.takes(draft, stage)) continue;
    rule.tile(draft, stage);
    any = true;
  }
  if (!any) return {"declines", ""};
  return {"tiles", added(draft, before)};
}

TextCase run_rule(const TextCase& c) {
  TextCase now = c;
  const std::string& header = c.sections[0].header;
  const bool tiles = header.starts_with("tile ");
  const std::string name = word_after(header, tiles ? "tile" : "branch", "");
  const Rule* rule = find_rule(name);
  const std::string options = concat(header.substr(header.find(name) + name.size()), " ");
  const absl::StatusOr<Nest> start = start_of(c, options);
  const absl::StatusOr<Trace> trace = parse_trace(c.sections[0].text);
  EXPECT_TRUE(start.ok() && trace.ok() && rule != nullptr)
      << c.title << ": " << start.status() << trace.status();
  if (!start.ok() || !trace.ok() || rule == nullptr) return now;
  EXPECT_TRUE(tiles ? rule->tile != nullptr : rule->branch != nullptr) << c.title;
  Draft draft{*start, {}};
  for (const Step& step : *trace) {
    rules::fixed(draft, step.kind->name, {step.names.begin(), step.names.end()}, step.numbers);
  }
  EXPECT_FALSE(draft.failed) << c.title << ": " << draft.why;
  draft.dot_products = options.find(" dot ") != std::string::npos;
  draft.groups = options.find(" groups ") != std::string::npos;
  draft.sub_groups = options.find(" sub-groups ") != std::string::npos;
  draft.several_sub_groups = options.find(" several ") != std::string::npos;
  draft.matrices = options.find(" matrices ") != std::string::npos;
  draft.wide_way = options.find(" wide ") != std::string::npos       ? 0
                   : options.find(" two-axes ") != std::string::npos ? 1
                                                                     : -1;
  draft.group_reductions = options.find(" group-reductions ") != std::string::npos;
  draft.vector_reduction = options.find(" reduction ") != std::string::npos;
  draft.transformed = tiles && start->winograd;
  now.sections.back() = tiles ? tiles_of(*rule, std::move(draft))
                              : branches_of(*rule, std::move(draft));
  return now;
}

TEST(RulesTest, EveryCaseOfTheTextFiles) {
  expect_cases(LW_SOURCE_DIR "/tests/rules", run_rule);
}

TEST(RulesTest, EveryRuleHasItsFileWhereItAppliesAndWhereItDoesNot) {
  for (const Rule* rule : rules::lw_rule_table()) {
    const std::vector<TextCase> cases =
        read_cases(concat(LW_SOURCE_DIR "/tests/rules/", rule->name, ".test"));
    const auto comes_to = [&](const std::string& act, const std::string& outcome) {
      return std::any_of(cases.begin(), cases.end(), [&](const TextCase& c) {
        return concat(c.sections[0].header, " ").starts_with(concat(act, " ", rule->name, " ")) &&
               (c.sections.back().header == outcome || c.title.starts_with("always"));
      });
    };
    for (const auto& [act, outcome] : {std::pair("branch", "branches"), {"tile", "tiles"}}) {
      if (std::string(act) == "branch" ? rule->branch == nullptr : rule->tile == nullptr) continue;
      EXPECT_TRUE(comes_to(act, outcome)) << rule->name << " " << outcome;
      EXPECT_TRUE(comes_to(act, "declines")) << rule->name;
    }
  }
}

}  // namespace
}  // namespace lw
