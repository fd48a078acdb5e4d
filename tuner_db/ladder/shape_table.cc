#include "tuner_db/ladder/shape_table.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/base/check.h"

namespace lw {
namespace {

float log_of(int64_t extent) {
  return static_cast<float>(std::log(static_cast<double>(std::max<int64_t>(extent, 1))));
}

float twos_of(int64_t extent) {
  constexpr int kMost = 6;  // 64: beyond it no tile notices
  const uint64_t bits = static_cast<uint64_t>(std::max<int64_t>(extent, 1));
  return static_cast<float>(kDivisibility * std::min(kMost, std::countr_zero(bits)));
}

// Splits every part by the values that its positions have in `shape`.
void refine(std::vector<int>& part, absl::Span<const int64_t> shape) {
  std::vector<int> refined(part.size());
  for (size_t i = 0; i < part.size(); ++i) {
    refined[i] = static_cast<int>(i);
    for (size_t before = 0; before < i; ++before) {
      if (part[before] != part[i] || shape[before] != shape[i]) continue;
      refined[i] = refined[before];
      break;
    }
  }
  part = std::move(refined);
}

}  // namespace

void Dimensions::add(absl::Span<const int64_t> shape) {
  if (!seen_) part_.assign(shape.size(), 0);
  CHECK(shape.size() == part_.size());
  seen_ = true;
  refine(part_, shape);
}

std::vector<int> Dimensions::positions(absl::Span<const int64_t> asked) const {
  std::vector<int> found;
  if (!seen_ || asked.size() != part_.size()) return found;
  std::vector<int> part = part_;
  refine(part, asked);
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == static_cast<int>(i)) found.push_back(static_cast<int>(i));
  }
  return found;
}

void ShapeTable::add(absl::Span<const int64_t> shape) {
  if (size_ == 0) {
    logs_.resize(shape.size());
    twos_.resize(shape.size());
  }
  CHECK(shape.size() == logs_.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    logs_[i].push_back(log_of(shape[i]));
    twos_[i].push_back(twos_of(shape[i]));
  }
  ++size_;
}

size_t ShapeTable::bytes() const { return 2 * logs_.size() * size_ * sizeof(float); }

std::vector<std::pair<double, int>> ShapeTable::nearest(absl::Span<const int64_t> asked,
                                                        absl::Span<const int> positions,
                                                        int count) const {
  std::vector<std::pair<double, int>> found;
  if (size_ == 0 || asked.size() != logs_.size() || count <= 0) return found;
  static thread_local std::vector<float> sums;
  sums.assign(size_, 0);
  float* const sum = sums.data();
  for (const int p : positions) {
    const float* const logs = logs_[p].data();
    const float* const twos = twos_[p].data();
    const float log = log_of(asked[p]), two = twos_of(asked[p]);
    for (size_t row = 0; row < size_; ++row) {
      sum[row] += std::abs(logs[row] - log) + std::abs(twos[row] - two);
    }
  }
  // A sorted list of the few best; most rows fail the first comparison.
  float worst = HUGE_VALF;
  for (size_t row = 0; row < size_; ++row) {
    if (!(sum[row] < worst)) continue;
    const std::pair<double, int> entry(sum[row], static_cast<int>(row));
    found.insert(std::upper_bound(found.begin(), found.end(), entry), entry);
    if (found.size() > static_cast<size_t>(count)) found.pop_back();
    if (found.size() == static_cast<size_t>(count)) worst = static_cast<float>(found.back().first);
  }
  return found;
}

double shape_distance(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  if (a.size() != b.size()) return HUGE_VAL;
  Dimensions dimensions;
  dimensions.add(a);
  ShapeTable table;
  table.add(a);
  const std::vector<std::pair<double, int>> found = table.nearest(b, dimensions.positions(b), 1);
  return found.empty() ? HUGE_VAL : found[0].first;
}

}  // namespace lw
