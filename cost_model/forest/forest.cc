#include "cost_model/forest/forest.h"

#include <cmath>
#include <cstring>

#include "nlohmann/json.hpp"
#include "src/base/check.h"

namespace lw {
namespace {

constexpr size_t kMostNodes = 60000;       // of a tree

absl::Status strange(const char* what) {
  return absl::InternalError(std::string("XGBoost's trees have ") + what);
}

}  // namespace

// Children are renumbered so that the right one follows the left one.
absl::StatusOr<Forest> Forest::from_xgboost(std::string_view text) {
  using Json = nlohmann::json;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer where("/learner/gradient_booster/model/trees");
  if (json.is_discarded() || !json.contains(where)) return strange("no list");
  Forest forest;
  for (const Json& tree : json[where]) {
    const auto left = tree.value("left_children", std::vector<int>()),
               right = tree.value("right_children", std::vector<int>()),
               feature = tree.value("split_indices", std::vector<int>());
    const auto value = tree.value("split_conditions", std::vector<float>());
    const size_t size = left.size();
    if (size == 0 || size > kMostNodes || right.size() != size || feature.size() != size ||
        value.size() != size)
      return strange("another shape");
    const size_t root = forest.nodes_.size();
    forest.roots_.push_back(static_cast<uint32_t>(root));
    std::vector<size_t> order = {0};       // of XGBoost's nodes, as they stand here
    for (size_t n = 0; n < order.size(); ++n) {
      const size_t at = order[n];
      Node node{value[at], static_cast<int16_t>(feature[at]), 0};
      if (left[at] >= 0) {
        if (left[at] >= static_cast<int>(size) || right[at] < 0 ||
            right[at] >= static_cast<int>(size) || order.size() + 2 > size)
          return strange("children elsewhere");
        node.child = static_cast<uint16_t>(order.size());
        order.push_back(static_cast<size_t>(left[at]));
        order.push_back(static_cast<size_t>(right[at]));
      }
      forest.nodes_.push_back(node);
    }
  }
  return forest;
}

std::string Forest::bytes() const {
  std::string out;
  const auto put = [&](const auto& value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(static_cast<uint32_t>(roots_.size()));
  put(static_cast<uint32_t>(nodes_.size()));
  for (uint32_t root : roots_) put(root);
  for (const Node& node : nodes_) put(node);
  return out;
}

absl::StatusOr<Forest> Forest::parse(std::string_view bytes, size_t width) {
  const absl::Status damaged = absl::DataLossError("damaged");
  uint32_t counts[2];
  if (bytes.size() < sizeof counts) return damaged;
  std::memcpy(counts, bytes.data(), sizeof counts);
  const uint64_t roots = uint64_t{counts[0]} * sizeof(uint32_t),
                 nodes = uint64_t{counts[1]} * sizeof(Node);
  if (bytes.size() != sizeof counts + roots + nodes) return damaged;
  Forest forest;
  forest.roots_.resize(counts[0]);
  forest.nodes_.resize(counts[1]);
  std::memcpy(forest.roots_.data(), bytes.data() + sizeof counts, roots);
  std::memcpy(forest.nodes_.data(), bytes.data() + sizeof counts + roots, nodes);
  // A walk ends, and within its tree: children follow their parents.
  for (size_t t = 0; t < forest.roots_.size(); ++t) {
    const size_t begin = forest.roots_[t],
                 end = t + 1 < forest.roots_.size() ? forest.roots_[t + 1] : forest.nodes_.size();
    if (begin >= end || end > forest.nodes_.size() || (t == 0 && begin != 0)) return damaged;
    for (size_t n = begin; n < end; ++n) {
      const Node& node = forest.nodes_[n];
      if (!std::isfinite(node.value)) return damaged;
      if (node.child == 0) continue;
      const bool inside = begin + node.child > n && begin + node.child + 1u < end;
      if (!inside || node.feature < 0 || static_cast<size_t>(node.feature) >= width) return damaged;
    }
  }
  return forest;
}

float Forest::score(const float* row) const {
  float sum = 0;
  for (uint32_t root : roots_) {
    const Node* tree = nodes_.data() + root;
    const Node* node = tree;
    while (node->child != 0) node = tree + node->child + !(row[node->feature] < node->value);
    sum += node->value;
  }
  return sum;
}

}  // namespace lw
