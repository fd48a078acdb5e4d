// From a program to its sketches: a draft without steps goes through the rules (schedules/rules/),
// phase by phase (rule.h), and branches at each that offers a choice; then every stage that is left
// at the root, and every stage attached to one, gets a register tile.
//
// The space is in the order of a walk through the choices, each rule's in the rule's own order; a
// draft for which a rule has settled all of them (Draft::chosen) takes no further one. Where items run
// in step, drafts in which each is alone in its group stay only if there are no others. Numbers are
// decisions. What does not apply to a stage is left out, and said (Refusal): later rules find the
// stage as it was, and one whose tile does not apply is tiled by the rule of the last resort, so that
// none goes without vectors because a rule did not fit.
#include <algorithm>

#include "schedules/space/rule.h"
#include "schedules/targets/family.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"

namespace lw {
namespace {

using namespace rules;

// The rules of the target's family.
std::vector<const Rule*> rules_of(const Nest& nest) {
  static const std::vector<const Rule*> ordered = [] {
    std::vector<const Rule*> list = lw_rule_table();
    std::sort(list.begin(), list.end(), [](const Rule* a, const Rule* b) {
      return std::pair(a->phase, std::string_view(a->name)) <
             std::pair(b->phase, std::string_view(b->name));
    });
    return list;
  }();
  std::vector<const Rule*> own;
  for (const Rule* rule : ordered) {
    if (serves(*nest.target, rule->family)) own.push_back(rule);
  }
  return own;
}

// By the first rule that takes it, or else by the one of the last resort.
void tile_stage(Draft& d, int stage, const std::vector<const Rule*>& rules, bool resort) {
  for (const Rule* rule : rules) {
    const bool last = rule->phase == Phase::kResort;
    if ((resort && !last) || rule->takes == nullptr || !rule->takes(d, stage)) continue;
    if (last) return rule->tile(d, stage);
    if (attempt(d, [&](Draft& next) { rule->tile(next, stage); })) return;
    resort = true;
  }
  d.failed = true;
  d.why = d.left_out.empty() ? concat("no rule for ", d.nest.target->part.family()->name, " takes ",
                                      d.nest.stages[stage].name)
                             : d.left_out.back();
}

void tile_all(Draft& d, const std::vector<const Rule*>& rules) {
  std::vector<std::string> names;
  for (const Stage& stage : d.nest.stages) {
    const bool runs = stage.place != Place::kInlined && stage.place != Place::kEpilogue;
    if (runs) names.push_back(stage.name);
  }
  for (const std::string& name : names) {
    if (is_over(d)) return;
    const int s = find_stage(d.nest, name);
    if (d.failed || s < 0 || d.nest.stages[s].copy_of >= 0) continue;
    tile_stage(d, s, rules, false);
  }
}

// Where items run in step, one that is alone leaves the others of its step idle.
void leave_out_alone(const Nest& start, std::vector<Draft>& drafts) {
  const bool in_step =
      serves(*start.target, kRegisterMachines) && !serves(*start.target, kProcessors);
  const auto is_alone = [](const Draft& draft) { return !draft.groups; };
  if (!in_step || std::all_of(drafts.begin(), drafts.end(), is_alone)) return;
  std::erase_if(drafts, is_alone);
}

// Sketches as they are found, and what became of the others.
class Collector {
 public:
  Collector(std::vector<Sketch>& space, std::vector<Refusal>* refusals)
      : space_(space), refusals_(refusals) {}

  void add(Draft d) {
    const std::string name = d.name + d.suffix;
    // A draft that failed without a reason is a choice that the program does not offer.
    for (std::string& why : d.left_out) note({name, false, std::move(why)});
    if (d.failed && !d.why.empty()) note({name, true, std::move(d.why)});
    if (d.failed) return;
    // Where a choice changes nothing, the space holds what it leads to once.
    for (const Sketch& other : space_) {
      if (to_text(other.steps) == to_text(d.sketch.steps) && other.open == d.sketch.open) return;
    }
    d.sketch.name = name;
    space_.push_back(std::move(d.sketch));
  }

 private:
  void note(Refusal refusal) {
    if (refusals_ != nullptr) refusals_->push_back(std::move(refusal));
  }

  std::vector<Sketch>& space_;
  std::vector<Refusal>* refusals_;
};

}  // namespace

std::vector<Sketch> make_space(const Nest& start, std::vector<Refusal>* refusals) {
  std::vector<Draft> drafts;
  drafts.push_back(Draft{start, {}});
  const std::vector<const Rule*> rules = rules_of(start);
  for (const Rule* rule : rules) {
    if (rule->branch == nullptr) continue;
    std::vector<Draft> next;
    for (Draft& draft : drafts) {
      if (draft.chosen) next.push_back(std::move(draft));
      else rule->branch(std::move(draft), next);
    }
    drafts = std::move(next);
  }
  leave_out_alone(start, drafts);
  std::vector<Sketch> space;
  Collector collector(space, refusals);
  for (Draft& draft : drafts) {
    tile_all(draft, rules);
    collector.add(std::move(draft));
  }
  if (space.empty()) space.push_back(last_resort(start));
  return space;
}

Sketch last_resort(const Nest& start) {
  Draft d{start, {}};
  const std::vector<const Rule*> rules = rules_of(start);
  for (size_t s = 0; s < d.nest.stages.size(); ++s) {
    tile_stage(d, static_cast<int>(s), rules, true);
  }
  d.sketch.name = "last resort";
  d.sketch.last_resort = true;
  return std::move(d.sketch);
}

}  // namespace lw
