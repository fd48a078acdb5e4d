#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/npu/compare/compare.h"
#include "src/npu/timing/timing.h"

namespace lw::npu {
namespace {

constexpr int64_t kLeastExtent = 128;      // below, neither products nor folds explain a time
constexpr int64_t kMostStreamed = 65535;     // rows of an MM
constexpr int64_t kMostFolds = 1 << 22;

// What a TPU v4 and the pipelined array give for extents of these.
constexpr struct {
  int64_t least, most;
  double r2, rank;
} kBars[] = {{128, 512, .93, .96}, {128, 1024, .95, .988}, {1024, 4096, .98, .988}};

int64_t up(int64_t value, int64_t of) { return (value + of - 1) / of; }

struct Line {
  double r2, slope, at_zero;
};

// By least squares; where all of x or all of y are the same, nothing is explained.
Line fit(const std::vector<double>& x, const std::vector<double>& y) {
  const double count = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (xx == 0 || yy == 0) return {0, 0, mean_y};
  return {xy * xy / (xx * yy), xy / xx, mean_y - xy / xx * mean_x};
}

// Places in order; equals share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t j = i; j < end; ++j) ranks[order[j]] = (i + end - 1) / 2.0;
    i = end;
  }
  return ranks;
}

}  // namespace

absl::StatusOr<int64_t> array_cycles(const Config& config, int64_t m, int64_t n, int64_t k) {
  const int64_t rows = config.mx.rows, columns = config.mx.columns;
  const int64_t folds = up(k, rows) * up(n, columns);
  if (folds > kMostFolds) {
    return absl::InvalidArgumentError(concat(m, " x ", n, " x ", k, " takes ", folds,
                                             " folds on ", config.name, ", of ", kMostFolds));
  }
  // All folds in the same bytes: time does not depend on where they lie.
  Program program;
  program.reserve(2 * folds);
  const auto fold = [&](int64_t depth, int64_t width) {
    MxLdw ldw;
    ldw.k = static_cast<uint8_t>(up(depth, config.align.k) * config.align.k);
    ldw.n = static_cast<uint8_t>(up(width, config.align.n) * config.align.n);
    MxMm mm;
    mm.m = static_cast<uint16_t>(m);
    mm.k = ldw.k;
    mm.n = ldw.n;
    mm.swap = true;
    program.push_back({ldw});
    program.push_back({mm});
  };
  for (int64_t at = 0; at < n; at += columns) {
    for (int64_t depth = 0; depth < k; depth += rows) {
      fold(std::min(rows, k - depth), std::min(columns, n - at));
    }
  }
  ASSIGN_OR_RETURN(const Timing timing, simulate(config, program));
  return timing.cycles;
}

absl::StatusOr<TpuComparison> compare_tpu(const Config& config, const Table& table,
                                          const std::string& time) {
  size_t columns[3], time_column;
  for (int i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(columns[i], find_column(table, std::string_view("mnk").substr(i, 1)));
  }
  ASSIGN_OR_RETURN(time_column, find_column(table, time));
  TpuComparison c;
  c.least = kMostStreamed;
  std::vector<double> cycles, times;
  for (const Table::Row& row : table.rows) {
    int64_t extents[3];
    for (int i = 0; i < 3; ++i) {
      ASSIGN_OR_RETURN(extents[i], read_whole(table, row, columns[i], 1, kMostStreamed));
    }
    ASSIGN_OR_RETURN(const double measured, read_number(table, row, time_column, 0));
    const auto [least, most] = std::minmax({extents[0], extents[1], extents[2]});
    if (least < kLeastExtent) {
      ++c.small;
      continue;
    }
    c.least = std::min(c.least, least);
    c.most = std::max(c.most, most);
    ASSIGN_OR_RETURN(const int64_t ours, array_cycles(config, extents[0], extents[1], extents[2]));
    cycles.push_back(static_cast<double>(ours));
    times.push_back(measured);
  }
  c.rows = static_cast<int64_t>(cycles.size());
  if (c.rows < 3) {
    return absl::InvalidArgumentError(concat(table.source, ": ", c.rows, " rows of extents from ",
                                             kLeastExtent, " on: a line needs 3 at least"));
  }
  const Line line = fit(cycles, times);
  c.r2 = line.r2;
  c.per_cycle = line.slope;
  c.at_zero = line.at_zero;
  const Line by_rank = fit(ranks(cycles), ranks(times));
  c.rank = std::copysign(std::sqrt(by_rank.r2), by_rank.slope);
  for (const auto& bar : kBars) {
    if (c.least < bar.least || c.most > bar.most) continue;
    c.least_r2 = bar.r2;
    c.least_rank = bar.rank;
    break;
  }
  return c;
}

std::string comparison_text(const Config& config, const TpuComparison& c) {
  std::string text = absl::StrFormat(
      "%s beside a TPU: %d products of extents %d to %d (%d with one below %d left out)\n",
      config.name, c.rows, c.least, c.most, c.small, kLeastExtent);
  text += absl::StrFormat("time = %.4g + %.4g x cycles of the array\n", c.at_zero,
                          c.per_cycle);
  if (c.least_r2 == 0) {
    return text + absl::StrFormat("R^2 %.3f, rank %.3f; nothing is aimed at for such extents\n",
                                  c.r2, c.rank);
  }
  return text + absl::StrFormat("R^2 %.3f (aimed at %.3f), rank %.3f (aimed at %.3f): %s\n", c.r2,
                                c.least_r2, c.rank, c.least_rank, c.met() ? "met" : "missed");
}

}  // namespace lw::npu
