// From a program to its sketches: a draft without steps goes through the rules (schedules/rules/),
// phase by phase (rule.h), and branches at each that offers a choice; then every stage that is left
// at the root, and every stage attached to one, gets a register tile.
//
// The space is in the order of a walk through the choices, each rule's in the rule's own order; a
// draft for which a rule has settled all of them (Draft::chosen) takes no further one. Numbers are
// decisions. What does not apply to a stage is left out, and said (Refusal): later rules find the
// stage as it was, and one whose tile does not apply is tiled plainly, so that none goes without
// vectors because a rule did not fit.
#include <algorithm>

#include "schedules/space/rule.h"

namespace lw {
namespace {

using namespace rules;

const std::vector<const Rule*>& in_order() {
  static const std::vector<const Rule*> ordered = [] {
    std::vector<const Rule*> list = lw_rule_table();
    std::sort(list.begin(), list.end(), [](const Rule* a, const Rule* b) {
      return std::pair(a->phase, std::string_view(a->name)) <
             std::pair(b->phase, std::string_view(b->name));
    });
    return list;
  }();
  return ordered;
}

// Whatever the stage is: vectors along its last axis, the reduction's where it has no other; over a
// few points of another axis where that applies.
void tile_plainly(Draft& d, int stage) {
  const Stage s = d.nest.stages[stage];
  const int count = static_cast<int>(s.axes.size());
  const auto loop = [&](int axis) {
    return s.axes[axis].extent > 1 ? loop_of(s, axis) : std::string();
  };
  bool tiled = false;
  for (const bool reduction : {false, true}) {
    for (int v = count - 1; v >= 0 && !tiled; --v) {
      if (s.axes[v].reduction != reduction || loop(v).empty()) continue;
      for (int rows = count - 1; rows >= -1 && !tiled; --rows) {
        const bool fits = rows < 0 || (rows != v && !s.axes[rows].reduction && !loop(rows).empty());
        if (!fits) continue;
        std::vector<std::string> names = {s.name, loop(v)};
        if (rows >= 0) names.insert(names.begin() + 1, loop(rows));
        tiled = attempt(d, [&](Draft& next) { open(next, "register_tile", names); });
      }
    }
  }
  if (d.nest.threads > 1 && s.place == Place::kRoot) optional(d, "parallel", {s.name}, {0, 0});
}

void tile_all(Draft& d) {
  std::vector<std::string> names;
  for (const Stage& stage : d.nest.stages) {
    const bool runs = stage.place != Place::kInlined && stage.place != Place::kEpilogue;
    if (runs) names.push_back(stage.name);
  }
  for (const std::string& name : names) {
    if (is_over(d)) return;
    const int s = find_stage(d.nest, name);
    if (d.failed || s < 0 || d.nest.stages[s].copy_of >= 0) continue;
    const auto taker = std::find_if(in_order().begin(), in_order().end(), [&](const Rule* rule) {
      return rule->takes != nullptr && rule->takes(d, s);
    });
    const bool tiled = taker != in_order().end() &&
                       attempt(d, [&](Draft& next) { (*taker)->tile(next, s); });
    if (!tiled) tile_plainly(d, s);
  }
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
  for (const Rule* rule : in_order()) {
    if (rule->branch == nullptr) continue;
    std::vector<Draft> next;
    for (Draft& draft : drafts) {
      if (draft.chosen) next.push_back(std::move(draft));
      else rule->branch(std::move(draft), next);
    }
    drafts = std::move(next);
  }
  std::vector<Sketch> space;
  Collector collector(space, refusals);
  for (Draft& draft : drafts) {
    tile_all(draft);
    collector.add(std::move(draft));
  }
  if (space.empty()) space.push_back(last_resort(start));
  return space;
}

Sketch last_resort(const Nest& start) {
  Draft d{start, {}};
  for (size_t s = 0; s < d.nest.stages.size(); ++s) tile_plainly(d, static_cast<int>(s));
  d.sketch.name = "last resort";
  d.sketch.last_resort = true;
  return std::move(d.sketch);
}

}  // namespace lw
