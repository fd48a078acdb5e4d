#include "cost_model/trees/rank_loss.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace lw {
namespace {

constexpr int kPartners = 16;      // pairs drawn for each example a tree
constexpr size_t kAllPairs = 64;   // groups up to this size use every pair
constexpr double kFarApart = 1.5;  // doublings of the time, more of which count no more
constexpr double kLeastLabel = 1e-3;

}  // namespace

RankLoss::RankLoss(const std::vector<Example>& examples) : label_(examples.size()) {
  std::map<uint64_t, std::vector<size_t>> groups;
  std::map<uint64_t, double> best;
  for (size_t i = 0; i < examples.size(); ++i) {
    groups[examples[i].group].push_back(i);
    if (examples[i].failed) continue;
    const auto [it, added] = best.emplace(examples[i].group, examples[i].time_us);
    if (!added) it->second = std::min(it->second, examples[i].time_us);
  }
  for (const auto& [id, members] : groups) {
    for (size_t i : members) label_[i] = examples[i].failed ? 0 : best[id] / examples[i].time_us;
    groups_.push_back(members);
  }
}

void RankLoss::gradients(const std::vector<float>& margin, Rng rng, std::vector<float>& gradient,
                         std::vector<float>& hessian) const {
  gradient.assign(margin.size(), 0);
  hessian.assign(margin.size(), 1e-6f);
  for (const std::vector<size_t>& members : groups_) {
    const size_t n = members.size();
    if (n <= kAllPairs) {
      for (size_t a = 0; a < n; ++a) {
        for (size_t b = a + 1; b < n; ++b) add(members[a], members[b], margin, gradient, hessian);
      }
      continue;
    }
    for (size_t a = 0; a < n; ++a) {
      for (int p = 0; p < kPartners; ++p) {
        const size_t b = members[rng.below(static_cast<int64_t>(n))];
        if (b != members[a]) add(members[a], b, margin, gradient, hessian);
      }
    }
  }
}

void RankLoss::add(size_t a, size_t b, const std::vector<float>& margin,
                   std::vector<float>& gradient, std::vector<float>& hessian) const {
  if (label_[a] == label_[b]) return;
  if (label_[a] < label_[b]) std::swap(a, b);
  // By the ratio of their times, up to a point; pairs near the top count more: what matters is the
  // order of the fast ones.
  const double ratio =
      std::log2(std::max(label_[a], kLeastLabel) / std::max(label_[b], kLeastLabel));
  const double weight = std::min(ratio, kFarApart) * (0.3 + label_[a]);
  const double wrong = 1 / (1 + std::exp(static_cast<double>(margin[a]) - margin[b]));
  gradient[a] -= static_cast<float>(weight * wrong);
  gradient[b] += static_cast<float>(weight * wrong);
  const float curvature = static_cast<float>(weight * std::max(wrong * (1 - wrong), 1e-3));
  hessian[a] += curvature;
  hessian[b] += curvature;
}

}  // namespace lw
