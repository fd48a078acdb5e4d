// Products that the target has instructions for which multiply matrices: sketches with them, beside
// those with multiply-adds.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedules/space/matrix_sides.h"
#include "schedules/space/rule.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/message.h"

namespace lw::rules {
namespace {

// Of a sum so many parts along its reduction, in whole steps of any instruction's, that its tiles keep
// `groups` groups busy; at most as many as leave each several steps. 1: there is nothing to split.
int64_t parts_of(const Nest& nest, int stage, const MatrixSides& sides, int64_t groups) {
  constexpr int64_t kTile = 64, kStep = 128, kLeastSteps = 4;
  const Stage& s = nest.stages[stage];
  int64_t tiles = 1;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (s.axes[a].reduction) continue;
    const int64_t tile = a == sides.m || a == sides.n ? kTile : 1;
    tiles *= (s.axes[a].extent + tile - 1) / tile;
  }
  const int64_t all = s.axes[sides.k].extent, steps = all / kStep;
  if (all % kStep != 0) return 1;
  int64_t parts = std::min(groups / tiles, steps / kLeastSteps);
  while (parts > 1 && steps % parts != 0) --parts;
  return std::max<int64_t>(1, parts);
}

// The first product whose tiles leave half of the machine's units without work is computed in parts,
// side by side, which are added afterwards: sketches of their own.
void split_sums(const Draft& draft, std::vector<Draft>& drafts) {
  constexpr int64_t kMany = 4;             // groups of a unit: larger tiles make fewer
  const int64_t units = simt(*draft.nest.target).units;
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    const Stage& stage = draft.nest.stages[s];
    const std::optional<MatrixSides> sides = matrix_sides(draft.nest, s);
    if (stage.place != Place::kRoot || !sides.has_value()) continue;
    const int64_t few = parts_of(draft.nest, s, *sides, units);
    const int64_t many = parts_of(draft.nest, s, *sides, kMany * units);
    for (const int64_t parts : std::set<int64_t>{few, many}) {
      if (few == 1) break;
      Draft split = draft;
      const std::string name(stage.name), k = loop_of(stage, sides->k);
      fixed(split, "split", {name, k}, {stage.axes[sides->k].extent / parts, 0});
      fixed(split, "rfactor", {name, k + ".0"});
      split.name = concat(draft.name, ", in ", parts, " parts");
      drafts.push_back(std::move(split));
    }
    return;
  }
}

// By four sub-groups, in each of the ways that the product with the most of them has.
void add_wide(const Draft& matrices, std::vector<Draft>& drafts) {
  std::vector<std::string> suffixes;       // of ways
  for (int s = 0; s < static_cast<int>(matrices.nest.stages.size()); ++s) {
    const Stage& stage = matrices.nest.stages[s];
    if (stage.place != Place::kRoot) continue;
    const std::vector<MatrixSides> ways = wide_ways(matrices.nest, s);
    for (size_t way = suffixes.size(); way < ways.size(); ++way) {
      const auto& [m, n, k, over] = ways[way];
      suffixes.push_back(over < 0 ? "" : concat(", rows along ", stage.axes[over].name, " and ",
                                                stage.axes[m].name));
    }
  }
  for (size_t way = 0; way < suffixes.size(); ++way) {
    Draft wide = matrices;
    wide.name = concat("products of matrices by four sub-groups", suffixes[way]);
    wide.wide_way = static_cast<int>(way);
    split_sums(wide, drafts);
    drafts.push_back(std::move(wide));
  }
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  bool any = false;
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    const Place place = draft.nest.stages[s].place;
    any = any || (place == Place::kRoot && matrix_sides(draft.nest, s).has_value());
  }
  if (any && !draft.dot_products) {
    Draft matrices = draft;
    matrices.name = "products of matrices";
    matrices.matrices = matrices.groups = matrices.chosen = true;
    add_wide(matrices, drafts);
    split_sums(matrices, drafts);
    drafts.push_back(std::move(matrices));
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& matrix_products() {
  static constexpr Rule rule = {"matrix_products", Phase::kLanes, branch, nullptr, nullptr,
                                "simt"};
  return rule;
}

}  // namespace lw::rules
