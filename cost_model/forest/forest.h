// A forest of regression trees, as XGBoost has grown it: what a model file holds and what scores
// candidates. Reading and scoring it needs no library, and one forest serves many searches at once.
// Internal to cost_model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

// Immutable once made; thread-safe.
class Forest {
 public:
  // From a model that XGBoost saved as JSON. kInternal: of another shape than it is known to be.
  static absl::StatusOr<Forest> from_xgboost(std::string_view json);
  // kDataLoss: damaged. `width`: of the rows it will score.
  static absl::StatusOr<Forest> parse(std::string_view bytes, size_t width);
  std::string bytes() const;

  // Sum of the leaves that the row comes to. REQUIRES: the width that was promised, no NaN.
  float score(const float* row) const;
  int trees() const { return static_cast<int>(roots_.size()); }

 private:
  // Go to `child` where row[feature] < value, else to the next. A leaf has no child, and its value
  // is what it adds.
  struct Node {
    float value;
    int16_t feature;
    uint16_t child;                        // from the tree's root; 0: a leaf
  };
  static_assert(sizeof(Node) == 8);

  std::vector<uint32_t> roots_;
  std::vector<Node> nodes_;
};

}  // namespace lw
