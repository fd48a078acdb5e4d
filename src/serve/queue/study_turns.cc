#include "src/serve/queue/study_turns.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace lw {
namespace {

constexpr double kMostWeight = 10;         // of a second of who is slow
constexpr double kStay_s = 0.5;            // about what a device needs for another workload
constexpr double kDear = 2;                // times what another's candidate takes
constexpr int64_t kForgetStudyMs = 600'000;  // who was away for as long as a job may take

}  // namespace

std::vector<size_t> StudyTurns::order(const std::string& name,
                                      const std::vector<Contender>& contenders,
                                      const std::string& prepared, int64_t now_ms) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  Queue& queue = queues_[name];
  double least_s = kInfinite, behind_s = kInfinite;
  bool all_known = true;
  for (const Contender& one : contenders) {
    if (one.candidate_s > 0) least_s = std::min(least_s, one.candidate_s);
    all_known &= one.candidate_s > 0;
  }
  std::set<std::string> present;
  std::vector<double> charged;
  for (const Contender& one : contenders) {
    Turn& turn =
        queue.turns.try_emplace(one.study, Turn{queue.now_s, one.busy_s}).first->second;
    const double weight = one.candidate_s > 0 ? std::min(kMostWeight, one.candidate_s / least_s) : 1;
    double charged_s = turn.charged_s + weight * (one.busy_s - turn.busy_s);
    if (std::exchange(turn.is_away, false)) {
      turn.charged_s += std::max(0.0, queue.now_s - charged_s);
      charged_s = std::max(charged_s, queue.now_s);
    }
    // What a second counts is settled once everybody is known: a job that a new study found running
    // counts in full.
    if (all_known) turn.charged_s = charged_s, turn.busy_s = one.busy_s;
    turn.seen_ms = now_ms;
    behind_s = std::min(behind_s, charged_s);
    const bool goes_on = one.study == prepared || one.candidate_s == 0;
    charged.push_back(charged_s - (goes_on ? kStay_s : 0));
    present.insert(one.study);
  }
  if (!contenders.empty()) queue.now_s = std::max(queue.now_s, behind_s);
  for (auto& [study, turn] : queue.turns) turn.is_away |= !present.contains(study);
  std::erase_if(queue.turns,
                [&](const auto& turn) { return turn.second.seen_ms + kForgetStudyMs < now_ms; });
  std::vector<size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(charged[a], a) < std::tuple(charged[b], b);
  });
  return order;
}

bool StudyTurns::is_dear(const Contender& one, const Contender& awaited) {
  return one.candidate_s > 0 && one.candidate_s >= kDear * awaited.candidate_s;
}

void StudyTurns::charge(const std::string& queue, const std::string& study, double seconds) {
  std::map<std::string, Turn>& turns = queues_[queue].turns;
  if (const auto turn = turns.find(study); turn != turns.end()) turn->second.charged_s += seconds;
}

}  // namespace lw
