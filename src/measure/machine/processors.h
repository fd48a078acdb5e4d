// Which processors kernels are timed on, the same wherever that is: by a tuning's workers, `bench`,
// `run`. Figures of one kernel from two processors of a machine need not agree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lw {

// For a kernel of so many threads, of those allowed, which are ascending: the last, since interrupts
// are most often served by the first. All where there are not more.
inline std::vector<int> measuring_processors(const std::vector<int>& allowed, int threads) {
  const size_t count = std::min(allowed.size(), static_cast<size_t>(std::max(threads, 0)));
  return {allowed.end() - static_cast<std::ptrdiff_t>(count), allowed.end()};
}

}  // namespace lw
