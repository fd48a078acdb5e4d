// Ranking by what is known, without learning. Internal to cost_model.
#pragma once

#include <vector>

#include "cost_model/forest/model_file.h"

namespace lw {

// The draft's own ranking, -kLogitsPerDoubling * log2(draft_us), and what each forest adds to it.
// REQUIRES: features of the table that the forests learned from.
float ranked(const std::vector<float>& features, const Forests& forests);

}  // namespace lw
