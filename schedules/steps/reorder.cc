// reorder(C, i, j, k; 3)
//   before  i: 8            after  j: 4
//             k: 2                   k: 2
//               j: 4                   i: 8
// The loops named take, in the positions that they occupy now, the order given by permutation
// number `index` of the names as listed, in lexicographic order: 0 is as listed, 3 of (i, j, k) is
// (j, k, i).
#include <algorithm>

#include "schedules/domains.h"
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr int kMaxLoops = 20;  // 20! fits in an i64
constexpr size_t kMostOrders = 1024;

int64_t factorial(int n) { return n <= 1 ? 1 : n * factorial(n - 1); }

using Order = absl::InlinedVector<int, 8>;

absl::StatusOr<Order> positions_of(const Stage& stage, const Step& step) {
  Order positions;
  for (size_t n = 1; n < step.names.size(); ++n) {
    ASSIGN_OR_RETURN(const int position, loop_position(stage, step.names[n]));
    if (std::find(positions.begin(), positions.end(), position) != positions.end()) {
      return infeasible(concat("loop ", step.names[n], " is named twice"));
    }
    positions.push_back(position);
  }
  return positions;
}

bool share_axis(const Loop& a, const Loop& b) {
  for (const LoopPart& part : a.parts) {
    for (const LoopPart& other : b.parts) {
      if (part.axis == other.axis) return true;
    }
  }
  return false;
}

// Puts the loops at `order` (positions now) where these loops stand.
void permute(Stage& stage, const Order& order) {
  Order slots = order;
  std::sort(slots.begin(), slots.end());
  std::vector<Loop> loops = stage.loops;
  for (size_t n = 0; n < order.size(); ++n) stage.loops[slots[n]] = std::move(loops[order[n]]);
}

absl::Status apply_reorder(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, kMaxLoops + 1, 1, 1}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  ASSIGN_OR_RETURN(Order listed, positions_of(s, step));
  int64_t index = step.numbers[0];
  if (index < 0 || index >= factorial(static_cast<int>(listed.size()))) {
    return infeasible(concat("no permutation ", index, " of ", listed.size()));
  }
  Order order;
  while (!listed.empty()) {
    const int64_t block = factorial(static_cast<int>(listed.size()) - 1);
    order.push_back(listed[index / block]);
    listed.erase(listed.begin() + index / block);
    index %= block;
  }
  // A loop keeps its place in the chain of its axis when no two of one axis change sides, whether
  // both are named or one is passed on the way.
  std::vector<int> where(s.loops.size());
  for (size_t l = 0; l < where.size(); ++l) where[l] = static_cast<int>(l);
  Order slots = order;
  std::sort(slots.begin(), slots.end());
  for (size_t n = 0; n < order.size(); ++n) where[order[n]] = slots[n];
  for (size_t a = 0; a < where.size() && nest.checks(Legality::kChainOrder); ++a) {
    for (size_t b = a + 1; b < where.size(); ++b) {
      if (where[a] > where[b] && share_axis(s.loops[a], s.loops[b])) {
        return infeasible(concat(s.loops[b].name, " would leave the chain of its axis"));
      }
    }
  }
  permute(s, order);
  return check_legal(nest, stage);
}

struct Enumeration {
  const Nest& nest;
  const Step& step;
  const Stage& stage;
  Order listed;
  bool simple;  // nothing but chain order can be violated
  std::vector<Decision> domain;

  // Chooses the next loop among listed[n] with used[n] false; `index` is the number so far.
  void choose(Order& chosen, uint32_t used, int64_t index) {
    const int count = static_cast<int>(listed.size()), depth = static_cast<int>(chosen.size());
    if (depth == count) {
      if (!simple) {
        Nest changed = nest;
        Step trial = step;
        trial.numbers = {index};
        if (!apply_reorder(changed, trial).ok()) return;
      }
      domain.push_back({index});
      return;
    }
    int64_t rank = 0;
    for (int n = 0; n < count; ++n) {
      if (used >> n & 1) continue;
      const int64_t next = index + rank++ * factorial(count - 1 - depth);
      // Chosen too early when a loop outside it in its chain is still to come.
      bool early = false;
      for (int m = 0; m < count; ++m) {
        early = early || (!(used >> m & 1) && listed[m] < listed[n] &&
                          share_axis(stage.loops[listed[m]], stage.loops[listed[n]]));
      }
      if (early && nest.checks(Legality::kChainOrder)) continue;
      chosen.push_back(n);
      choose(chosen, used | 1u << n, next);
      chosen.pop_back();
    }
  }
};

std::vector<Decision> reorder_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok() || step.names.size() < 2 || step.names.size() > 8) return {};
  const Stage& s = nest.stages[*stage];
  absl::StatusOr<Order> listed = positions_of(s, step);
  if (!listed.ok()) return {};
  // Loops that are not named but passed, shifted tails, special loops and hosted stages can object.
  const auto [first, last] = std::minmax_element(listed->begin(), listed->end());
  bool simple = *last - *first + 1 == static_cast<int>(listed->size());
  for (const Loop& loop : s.loops) simple = simple && loop.tail != Tail::kShift;
  for (int position : *listed) simple = simple && s.loops[position].kind == LoopKind::kSerial;
  for (const Stage& other : nest.stages) {
    simple = simple && !(other.place == Place::kAt && other.host == *stage);
  }
  Enumeration all{nest, step, s, *std::move(listed), simple, {}};
  Order chosen;
  all.choose(chosen, 0, 0);
  thin(all.domain, kMostOrders);
  return std::move(all.domain);
}

}  // namespace

const StepKind& reorder() {
  static constexpr StepKind kind = {"reorder", 1, apply_reorder, reorder_domain, nullptr};
  return kind;
}

}  // namespace lw
