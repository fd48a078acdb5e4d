// Growing forests with XGBoost, through its C API. Internal to cost_model.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/cost_model.h"
#include "cost_model/forest/forest.h"
#include "cost_model/trees/learned.h"

namespace lw {

// Trees that better the scores `margin` of the examples. Deterministic for the seed. Looks at
// `stop` before each tree: kCancelled, kDeadlineExceeded.
absl::StatusOr<Forest> grow(const std::vector<Example>& examples, std::vector<float> margin,
                            const Training& training, uint64_t seed, const Stop& stop = {});

}  // namespace lw
