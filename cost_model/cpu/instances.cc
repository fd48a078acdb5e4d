#include "cost_model/cpu/instances.h"

#include <cmath>

namespace lw::cost {

std::vector<Distribution> tile_sizes(const Stage& stage, const StageCost& cost, double* instances) {
  std::vector<Distribution> of(cost.axes());
  for (int a = 0; a < cost.axes(); ++a) of[a].push_back({cost.box_at(cost.depth)[a], 1});
  for (int l = 0; l < cost.tile - cost.depth; ++l) {
    const Loop& loop = stage.loops[l];
    for (const LoopPart& part : loop.parts) {
      const double tile = static_cast<double>(part.tile);
      Distribution next;
      const auto add = [&](double size, double count) {
        for (Sizes& known : next) {
          if (known.size == size) return void(known.count += count);
        }
        next.push_back({size, count});
      };
      for (const Sizes& s : of[part.axis]) {
        const double full = std::floor(s.size / tile), rest = s.size - full * tile;
        if (full == 0) {
          add(s.size, s.count);
        } else if (rest > 0 && loop.tail == Tail::kCompose) {
          add(tile, s.count * full);
          add(rest, s.count);
        } else {
          add(tile, s.count * (full + (rest > 0 ? 1 : 0)));
        }
      }
      of[part.axis] = std::move(next);
    }
  }
  *instances = 1;
  for (const Distribution& d : of) *instances *= static_cast<double>(d.size());
  return of;
}

double share_of_hosts(const Analysis& analysis, const StageCost& cost) {
  double share = 1;
  int depth = cost.depth;
  for (int at = cost.host; at >= 0; at = analysis.stages[at].host) {
    const StageCost& host = analysis.stages[at];
    const double* box = host.box_at(depth);
    for (const Multiple& multiple : host.body.multiples) {
      bool decided = true;
      for (int a = 0; a < host.axes(); ++a)
        decided = decided && ((multiple.axes >> (a & 63) & 1) == 0 || box[a] <= 1);
      if (decided) share /= multiple.divisor;
    }
    depth = host.depth;
  }
  return share;
}

}  // namespace lw::cost
