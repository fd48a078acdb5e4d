// The loss that forests are grown against. Internal to cost_model.
#pragma once

#include <vector>

#include "cost_model/cost_model.h"
#include "src/base/rng.h"

namespace lw {

// RankNet's: for pairs of one workload, log(1 + exp(s_worse - s_better)), weighted by how far apart
// their times are and how near the best; a failure is far slower than all. So failures are learned
// from, and times are only compared within a workload.
class RankLoss {
 public:
  explicit RankLoss(const std::vector<Example>& examples);

  // Of all examples at their scores `margin`. Of large groups pairs are drawn from `rng`.
  void gradients(const std::vector<float>& margin, Rng rng, std::vector<float>& gradient,
                 std::vector<float>& hessian) const;

 private:
  void add(size_t a, size_t b, const std::vector<float>& margin, std::vector<float>& gradient,
           std::vector<float>& hessian) const;

  std::vector<std::vector<size_t>> groups_;
  std::vector<double> label_;
};

}  // namespace lw
