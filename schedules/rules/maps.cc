// What becomes of maps: cheap ones, and those with a single reader, disappear into their readers,
// and what reads a reduction at its own point runs on that reduction's register tile. Of those that
// are read often there are sketches that recompute them too, and sketches that keep more of them.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

// Nothing else takes as long, where a program has many stages.
Draft merged(Draft d, Maps maps) {
  d.maps = maps;
  d.suffix = maps == Maps::kInlineAll ? ", recompute" : maps == Maps::kKeep ? ", maps kept" : "";
  fuse_epilogues(d);
  inline_maps(d);
  fuse_epilogues(d);
  return d;
}

bool keeps_a_map(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    if (!is_map(nest, s) || nest.program->tensors[stage.tensor].role == Role::kOutput) continue;
    if (stage.place != Place::kInlined && stage.place != Place::kEpilogue) return true;
  }
  return false;
}

bool reduces(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    if (!is_map(nest, s)) return true;
  }
  return false;
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  Draft usual = merged(draft, Maps::kInlineCheap);
  const std::string steps = to_text(usual.sketch.steps);
  const bool recomputes = keeps_a_map(usual.nest);
  drafts.push_back(std::move(usual));
  if (recomputes) drafts.push_back(merged(draft, Maps::kInlineAll));
  if (!reduces(draft.nest)) return;
  Draft kept = merged(std::move(draft), Maps::kKeep);
  if (to_text(kept.sketch.steps) != steps) drafts.push_back(std::move(kept));
}

}  // namespace

const Rule& maps() {
  static constexpr Rule rule = {"maps", Phase::kMerge, branch};
  return rule;
}

}  // namespace lw::rules
