// Last resort, for what no other rule tiles.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

bool takes(const Draft&, int) { return true; }

// Whatever the stage is: vectors along its last axis, the reduction's where it has no other; over a
// few points of another axis where that applies.
void tile(Draft& d, int stage) {
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

}  // namespace

const Rule& plain() {
  static constexpr Rule rule = {"plain", Phase::kResort, nullptr, takes, tile};
  return rule;
}

}  // namespace lw::rules
