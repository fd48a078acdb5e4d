#include "cost_model/simt/together.h"

#include <algorithm>
#include <vector>

namespace lw::cost::simt {
namespace {

int item_loop(const Stage& stage) {
  for (size_t l = 0; l < stage.loops.size(); ++l) {
    if (stage.loops[l].kind == LoopKind::kItem) return static_cast<int>(l);
  }
  return -1;
}

}  // namespace

Analysis together(const Nest& processor, const Analysis& analysis, bool* walks) {
  Nest nest = processor;
  Analysis result;
  std::vector<bool> moved(nest.stages.size(), false);
  for (size_t s = 0; s < nest.stages.size(); ++s) {
    Stage& stage = nest.stages[s];
    const int items = item_loop(stage), tile = tile_begin(stage);
    if (stage.place != Place::kRoot || items < 1 || items + 1 >= tile) continue;
    for (Stage& other : nest.stages) {
      const bool here = other.place == Place::kAt && other.host == static_cast<int>(s);
      if (here && other.loop == stage.loops[items].name) other.loop = stage.loops[items - 1].name;
    }
    std::rotate(stage.loops.begin() + items, stage.loops.begin() + items + 1,
                stage.loops.begin() + tile);
    moved[s] = *walks = true;
  }
  if (!*walks) return result;
  find_chains(nest, result);
  for (size_t c = 0; c < result.stages.size(); ++c) {
    // Accumulators stay in registers.
    StageCost& cost = result.stages[c];
    if (moved[cost.stage]) cost.run = std::min(cost.run, std::max(0, analysis.stages[c].run - 1));
  }
  find_arrays(nest, result);
  find_traffic(nest, result);
  return result;
}

}  // namespace lw::cost::simt
