#include "schedules/domains.h"

#include <algorithm>

#include "schedules/dot.h"
#include "schedules/legality.h"
#include "schedules/targets/family.h"

namespace lw {

std::vector<int64_t> ladder(int64_t trips) {
  constexpr int64_t kSmall[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48};
  std::vector<int64_t> values;
  for (int64_t value : kSmall) {
    if (value <= trips) values.push_back(value);
  }
  for (int64_t value = 64; value <= trips; value *= 2) {
    values.push_back(value);
    if (value / 2 * 3 <= trips) values.push_back(value / 2 * 3);
  }
  for (int64_t divisor = 1; divisor <= 64 && divisor <= trips; ++divisor) {
    if (trips % divisor == 0) values.insert(values.end(), {divisor, trips / divisor});
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::vector<int64_t> tails(const Nest& nest, int stage, int position, int64_t range, int64_t tile,
                           int64_t fixed) {
  const Stage& s = nest.stages[stage];
  const bool shifts = tile <= range &&
                      (shift_is_harmless(s, position) || !nest.checks(Legality::kShiftAccumulates));
  if (fixed >= 0) {
    if (fixed == 2 && !shifts) return {};
    return {fixed};
  }
  if (range % tile == 0) return {0};
  std::vector<int64_t> legal = {0};
  if (register_file(*nest.target).masks) legal.push_back(1);
  if (shifts) legal.push_back(2);
  return legal;
}

bool applies(const Nest& nest, const Step& step, const Decision& numbers) {
  Nest next = nest;
  Step drawn = step;
  drawn.numbers = numbers;
  return step.kind->apply(next, drawn).ok();
}

void thin(std::vector<Decision>& decisions, size_t most) {
  const size_t count = decisions.size();
  if (count <= most) return;
  for (size_t n = 0; n < most; ++n) decisions[n] = std::move(decisions[n * count / most]);
  decisions.resize(most);
}

int64_t number_or(const Step& step, size_t index, int64_t absent) {
  return index < step.numbers.size() ? step.numbers[index] : absent;
}

int64_t matrix_words(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const MatrixShape& shape = matrix_shape_of(nest, s);
  const std::vector<int64_t> tile = inner_extents(s, tile_begin(s));
  const int64_t m = (rows_of_box(s, tile) + shape.m - 1) / shape.m,
                n = (tile[s.matrix_axes[1]] + shape.n - 1) / shape.n;
  if (!is_wide(nest, s)) return shape.words(m, n);
  return shape.words_of_results(m, n, !s.epilogue.empty()) + (s.made ? shape.words_of_made() : 0);
}

}  // namespace lw
