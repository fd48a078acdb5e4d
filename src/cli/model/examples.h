// What the database holds as something to learn from.
#pragma once

#include <vector>

#include "cost_model/cost_model.h"
#include "tuner_db/store.h"

namespace lw {

// One example per measured trace of every key, grouped by key; emulated and estimated times teach
// nothing. Failures of the machine are left
// out; so are workloads whose program cannot be had again and traces that no longer apply
// (`skipped`).
struct Examples {
  std::vector<Example> examples;
  int64_t skipped = 0;
};
absl::StatusOr<Examples> load_examples(const Store& store);

// Held-out scores: the groups are dealt into `folds`, each fold is scored by a model that has
// learned from the others. scores[i] for examples[i]; deterministic for the seed. REQUIRES: at
// least two groups.
absl::StatusOr<std::vector<float>> held_out_scores(const std::vector<Example>& examples, int folds,
                                                   uint64_t seed);

}  // namespace lw
