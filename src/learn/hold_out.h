// How well a model ranks schedules of operators that it has never seen.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/trees/learned.h"
#include "src/learn/dataset.h"

namespace lw {

// What a data set is learned with.
Training offline_training();

// Each class of operators is scored by a model that has learned from all the others: a score for
// each example. Deterministic for the seed. kInvalidArgument: there are not two classes.
absl::StatusOr<std::vector<float>> held_out_scores(const LabelledExamples& examples,
                                                   const Training& training, uint64_t seed);

// The metrics of all, or of one class (>= 0), over the programs drawn uniformly.
RankingMetrics evaluate_uniform(const LabelledExamples& examples, const std::vector<float>& scores,
                                int kind = -1);

}  // namespace lw
