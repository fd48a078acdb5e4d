#include "cost_model/simt/features.h"

#include <algorithm>
#include <cmath>

#include "cost_model/cpu/features.h"
#include "cost_model/cpu/processor.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw::cost::simt {
namespace {

Nest as_processor(const Nest& nest) {
  return cpu::as_on_processors(nest, lw::simt(*nest.target).launch_us);
}

double product_of_trips(const Stage& stage, int begin, int end) {
  double product = 1;
  for (int l = begin; l < end; ++l) product *= static_cast<double>(trips(stage, l));
  return product;
}

// How often a group's items meet: at each loop that has copies which they share, before these are
// read and before they are overwritten, or once where they take turns in slots. `inside`: the first
// loop inside of the items'.
double meetings(const Nest& nest, int stage, int inside) {
  const Stage& s = nest.stages[stage];
  double count = 0;
  for (int l = 0; l < static_cast<int>(s.loops.size()); ++l) {
    double each = 0;
    for (const Stage& copy : nest.stages) {
      const bool here = copy.place == Place::kAt && copy.host == stage && copy.memory >= 0 &&
                        copy.loop == s.loops[l].name;
      if (here) each = std::max(each, copy.slots > 1 ? 1.0 : 2.0);
    }
    count += each * product_of_trips(s, inside, l + 1);
  }
  return count;
}

// What groups cost beyond the work of their items, which the analysis of processors counts: to
// begin them, and for all of their items to meet.
double groups_us(const Nest& nest) {
  const SimtTarget& target = lw::simt(*nest.target);
  double us = 0;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    if (stage.place != Place::kRoot) continue;
    double groups = 1, items = 1;
    int inside = 0;                        // first loop inside of the items'
    for (int l = 0; l < static_cast<int>(stage.loops.size()); ++l) {
      const double count = static_cast<double>(trips(stage, l));
      if (stage.loops[l].kind == LoopKind::kParallel) groups = count;
      if (stage.loops[l].kind == LoopKind::kItem) items = count, inside = l + 1;
    }
    if (stage.items > 0) items = static_cast<double>(stage.items);
    // Items in step meet at once, others one after the other.
    const double each = target.barrier_us * std::ceil(items / target.simd);
    us += groups * (target.group_us + meetings(nest, s, inside) * each) / target.units;
  }
  return us;
}

}  // namespace

const std::vector<Feature>& table() { return cpu::table(); }

std::vector<float> features(const Nest& nest) {
  std::vector<float> values = cpu::features(as_processor(nest));
  float& draft = values[kDraftFeature];
  draft = std::log2(std::exp2(draft) + static_cast<float>(groups_us(nest)));
  return values;
}

double draft_us(const Nest& nest) { return cpu::draft_us(as_processor(nest)) + groups_us(nest); }

}  // namespace lw::cost::simt
