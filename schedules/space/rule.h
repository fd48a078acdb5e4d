// A rule: one thing to do to a program, or one choice between ways to do it. Internal to schedules.
//
// Presence of schedules/rules/NAME.cc, or of schedules/rules/FAMILY/NAME.cc for machines that are no
// CPUs, is registration (function lw::rules::NAME()); helpers that several rules share stand in
// draft.h.
#pragma once

#include <vector>

#include "schedules/space/draft.h"

namespace lw::rules {

// When a rule has its turn; the rules of one phase in the order of their names.
enum class Phase {
  kRewrite,                                // the program is computed by another algorithm
  kMerge,                                  // stages disappear into others
  kAttach,                                 // stages are computed at the loops of others
  kLanes,                                  // what the vectors run along, and how they multiply
  kThreads,                                // work is split, so that every thread has some
  kAxes,                                   // loops become one, or do not
  kTile,                                   // every stage gets its tile and its loops
  kResort,                                 // what no rule of kTile takes is tiled whatever it is
};

struct Rule {
  const char* name;
  Phase phase;
  // Adds to `drafts` what the draft becomes: one or several, in the order that their sketches have
  // in the space. Where the rule does not apply, the draft as it is. Those that failed are left out
  // of the space, with their reasons. Null: the rule only tiles.
  void (*branch)(Draft draft, std::vector<Draft>& drafts) = nullptr;
  // At the end each stage that runs is scheduled by the first rule that takes it: whose tile()
  // appends the steps. Where one of them does not apply the rule of kResort tiles the stage. Null:
  // none.
  bool (*takes)(const Draft& draft, int stage) = nullptr;
  void (*tile)(Draft& draft, int stage) = nullptr;
  const char* family = kRegisterMachines;  // of the targets for which it has its turn
};

// All rules, sorted by name (generated table).
const std::vector<const Rule*>& lw_rule_table();

}  // namespace lw::rules
