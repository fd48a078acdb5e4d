#include "src/serve/study_turns.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

namespace lw {
namespace {

constexpr double kMostWeight = 10;         // of a second of who is slow
constexpr double kStay_s = 0.5;            // about what a device needs for another workload

}  // namespace

std::vector<size_t> StudyTurns::order(const std::string& name,
                                      const std::vector<Contender>& contenders,
                                      const std::string& prepared) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  Queue& queue = queues_[name];
  double least_s = kInfinite, behind_s = kInfinite;
  for (const Contender& one : contenders) {
    if (one.candidate_s > 0) least_s = std::min(least_s, one.candidate_s);
  }
  std::set<std::string> present;
  std::vector<double> charged;
  for (const Contender& one : contenders) {
    Turn& turn = queue.turns.try_emplace(one.study, Turn{queue.now_s, one.busy_s}).first->second;
    const double weight = one.candidate_s > 0 ? std::min(kMostWeight, one.candidate_s / least_s) : 1;
    turn.charged_s += weight * (one.busy_s - turn.busy_s);
    turn.busy_s = one.busy_s;
    behind_s = std::min(behind_s, turn.charged_s);
    charged.push_back(turn.charged_s - (one.study == prepared ? kStay_s : 0));
    present.insert(one.study);
  }
  if (!contenders.empty()) queue.now_s = std::max(queue.now_s, behind_s);
  std::erase_if(queue.turns, [&](const auto& turn) {
    return turn.second.charged_s <= queue.now_s && !present.contains(turn.first);
  });
  std::vector<size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(charged[a], a) < std::tuple(charged[b], b);
  });
  return order;
}

}  // namespace lw
