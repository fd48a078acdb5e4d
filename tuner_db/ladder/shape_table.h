// Shapes of one structure, and which of them are nearest to another shape.
//
// Distance = over the *named dimensions*, the sum of |log(a / b)| + kDivisibility * |difference of
// the powers of two that divide a and b, up to 64|. Never the product: 1 x 4096 is not 64 x 64. The
// second term is what tiles notice: a schedule of 512 fits 1024 better than it fits 511.
//
// A stored shape is the extents of all tensors in order, so one dimension appears in it many times
// (M of a matmul in A and in C). Positions that are equal in every shape of the structure, the
// asked one included, are one dimension and count once: a partition that every added shape refines.
//
// Shapes lie column by column as floats, so that a scan of all is a few vector instructions a
// shape: 10,000 shapes of 9 positions (3 dimensions) in 22 us on the development machine.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace lw {

constexpr double kDivisibility = 0.1;

// Which positions of a structure's shapes are one dimension.
class Dimensions {
 public:
  // Refines by one shape. REQUIRES: of the structure's rank, but for the first.
  void add(absl::Span<const int64_t> shape);
  // One position for each dimension, `asked` taken into account too. Empty when its rank differs.
  std::vector<int> positions(absl::Span<const int64_t> asked) const;
  size_t rank() const { return part_.size(); }
  bool empty() const { return !seen_; }

 private:
  std::vector<int> part_;  // position -> the first position of its part
  bool seen_ = false;
};

// Thread-compatible.
class ShapeTable {
 public:
  void add(absl::Span<const int64_t> shape);
  size_t size() const { return size_; }
  size_t bytes() const;
  // The `count` nearest rows as (distance, row), nearest first; ties: the earlier row.
  std::vector<std::pair<double, int>> nearest(absl::Span<const int64_t> asked,
                                              absl::Span<const int> positions, int count) const;

 private:
  std::vector<std::vector<float>> logs_, twos_;  // by position, then by row
  size_t size_ = 0;
};

// The distance between two shapes of a structure of just these two; infinite when their ranks
// differ.
double shape_distance(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

}  // namespace lw
