#include "cost_model/simt/wide.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lw::cost::simt {
namespace {

constexpr double kWordBytes = 4;

// The pieces of `size` bytes that they touch, each once, in order.
absl::InlinedVector<int64_t, 128> pieces(const Neighbours& neighbours, double bytes, double size) {
  absl::InlinedVector<int64_t, 128> touched;
  for (int lane = 0; lane < neighbours.lanes; ++lane) {
    double rest = lane, offset = 0;
    for (size_t p = neighbours.parts.size(); p-- > 0;) {
      const Neighbours::Part& part = neighbours.parts[p];
      const double turns = std::floor(rest / part.count);
      offset += (rest - turns * part.count) * part.stride_bytes;
      rest = turns;
    }
    const int64_t first = static_cast<int64_t>(std::floor(offset / size)),
                  last = static_cast<int64_t>(std::floor((offset + bytes - 1) / size));
    for (int64_t n = first; n <= last; ++n) touched.push_back(n);
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  return touched;
}

}  // namespace

double transactions(const Neighbours& neighbours, double bytes, double access_bytes) {
  const double each = std::ceil(bytes / access_bytes);
  if (neighbours.parts.empty() || neighbours.lanes == 1) return each;
  // Most often one part matters, and what it asks for is a run, or lies all apart.
  const Neighbours::Part& part = neighbours.parts.back();
  if (neighbours.parts.size() == 1 || part.count >= neighbours.lanes) {
    const double stride = std::abs(part.stride_bytes);
    if (stride >= access_bytes && bytes <= access_bytes) return neighbours.lanes;
    if (stride <= bytes) {
      return std::ceil(((neighbours.lanes - 1) * stride + bytes) / access_bytes);
    }
  }
  return static_cast<double>(pieces(neighbours, bytes, access_bytes).size());
}

double bank_cycles(const Neighbours& neighbours, double bytes, int banks) {
  if (neighbours.parts.empty() || neighbours.lanes == 1) return 1;
  absl::InlinedVector<int, 64> asked(static_cast<size_t>(banks), 0);
  int most = 1;
  for (const int64_t word : pieces(neighbours, bytes, kWordBytes)) {
    const int64_t bank = (word % banks + banks) % banks;
    most = std::max(most, ++asked[static_cast<size_t>(bank)]);
  }
  return most;
}

}  // namespace lw::cost::simt
