#include "src/base/message.h"

#include <algorithm>

namespace lw {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), previous, before;
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = previous;
    previous = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  if (name.size() > 64) return best;
  size_t best_distance = name.size() <= 2 ? 1 : std::max<size_t>(1, name.size() / 3 + 1);
  ++best_distance;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 64) continue;
    // A longer name that begins with this one was probably cut short.
    const bool begins = name.size() >= 3 && candidate.compare(0, name.size(), name) == 0;
    const size_t distance = begins ? 1 : edit_distance(name, candidate);
    // A hint that shares nothing with the name is noise.
    if (distance >= best_distance || distance >= std::max(name.size(), candidate.size())) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

}  // namespace lw
