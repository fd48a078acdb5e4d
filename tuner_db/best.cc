#include "tuner_db/best.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "src/base/check.h"

namespace lw {
namespace {

constexpr int64_t kOrderStatisticsFrom = 6;  // min..max of five samples covers only 93.75 %
// What disturbs a sample lengthens it: that a kernel takes this much longer than in each of its few
// samples is not noise. So one sample of a slow kernel beats a candidate that is far slower still.
constexpr double kBeyondNoise = 1.5;
// Student's t, 97.5 % quantile, by degrees of freedom.
constexpr double kStudent[] = {0, 12.706, 4.303, 3.182, 2.776};

// How many samples may lie outside the interval on each side: the largest k with
// P(Binomial(n, 1/2) < k) <= 2.5 %, so that [x(k), x(n + 1 - k)] covers the median at 95 %.
int64_t outside(int64_t n) {
  if (n > 100) return static_cast<int64_t>(n / 2.0 - 0.98 * std::sqrt(static_cast<double>(n)));
  double term = std::pow(0.5, static_cast<double>(n)), below = 0;
  int64_t k = 0;
  while (below + term <= 0.025) {
    below += term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  return k;
}

bool is_ok(const Measurement& m) { return is_pooled(m) && m.verdict == Verdict::kOk; }
bool is_ok(const Measurement& m, TimeKind kind) { return is_ok(m) && m.time_kind == kind; }

// Of the kinds of a trace's OK measurements the nearest to the truth that was verified, else the
// nearest. `verified`: whether it was. Nothing OK: measured.
TimeKind kind_of(absl::Span<const Measurement* const> measurements, bool* verified) {
  bool any = false;
  TimeKind kind = TimeKind::kMeasured;
  *verified = false;
  for (const Measurement* m : measurements) {
    if (!is_ok(*m)) continue;
    const bool nearer = std::pair(!m->verified, m->time_kind) < std::pair(!*verified, kind);
    if (any && !nearer) continue;
    any = true;
    *verified = m->verified;
    kind = m->time_kind;
  }
  return kind;
}

std::vector<double> pooled_samples(absl::Span<const Measurement* const> measurements,
                                   TimeKind kind) {
  std::vector<double> samples;
  for (const Measurement* m : measurements) {
    if (is_ok(*m, kind)) {
      samples.insert(samples.end(), m->samples_us.begin(), m->samples_us.end());
    }
  }
  return samples;
}

}  // namespace

bool disqualifies(const Measurement& m) {
  return is_pooled(m) && (m.verdict == Verdict::kWrongResult || m.verdict == Verdict::kCrash);
}

MedianInterval median_interval(std::vector<double> samples) {
  CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const int64_t n = static_cast<int64_t>(samples.size());
  const double median = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
  if (n == 1) return {0, median, std::numeric_limits<double>::infinity()};
  if (n >= kOrderStatisticsFrom) {
    const int64_t k = outside(n);
    return {samples[k - 1], median, samples[n - k]};
  }
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (double sample : samples) squares += (sample - mean) * (sample - mean);
  const double half = kStudent[n - 1] * std::sqrt(squares / (n - 1) / n);
  return {std::max(0.0, median - half), median, median + half};
}

Pool pool(absl::Span<const Measurement* const> measurements) {
  Pool pool;
  bool verified = false, disqualified = false;
  for (const Measurement* m : measurements) {
    disqualified |= disqualifies(*m);
    if (is_pooled(*m) && m->kernel_hash != 0) pool.kernel_hash = m->kernel_hash;
  }
  pool.time_kind = kind_of(measurements, &verified);
  std::vector<double> samples = pooled_samples(measurements, pool.time_kind);
  if (samples.empty()) return pool;
  pool.samples = static_cast<int64_t>(samples.size());
  const double slowest = *std::max_element(samples.begin(), samples.end());
  const MedianInterval interval = median_interval(std::move(samples));
  pool.median_us = interval.median;
  pool.high_us = std::min(interval.high, kBeyondNoise * slowest);
  pool.eligible = verified && !disqualified;
  return pool;
}

int64_t best_of(absl::Span<const Pool> pools) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (!pools[i].eligible) continue;
    if (!order.empty() && pools[i].time_kind < pools[order[0]].time_kind) order.clear();
    if (!order.empty() && pools[i].time_kind > pools[order[0]].time_kind) continue;
    order.push_back(static_cast<int64_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (pools[a].samples != pools[b].samples) return pools[a].samples > pools[b].samples;
    return pools[a].median_us < pools[b].median_us;
  });
  int64_t best = -1;
  for (int64_t i : order) {
    if (best < 0 || pools[i].high_us < pools[best].median_us) best = i;
  }
  return best;
}

std::vector<int64_t> next_best(absl::Span<const Pool> pools, int64_t best, int count) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].eligible && static_cast<int64_t>(i) != best &&
        pools[i].time_kind == pools[best].time_kind) {
      order.push_back(static_cast<int64_t>(i));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return pools[a].median_us < pools[b].median_us;
  });
  order.resize(std::min(order.size(), static_cast<size_t>(std::max(0, count))));
  return order;
}

Measurement represent(absl::Span<const Measurement* const> measurements) {
  const Measurement* chosen = nullptr;
  int64_t ok = 0;
  bool verified = false;
  const TimeKind kind = kind_of(measurements, &verified);
  for (const Measurement* m : measurements) {
    if (!is_ok(*m, kind)) continue;
    ++ok;
    if (chosen == nullptr || m->samples_us.size() >= chosen->samples_us.size()) chosen = m;
  }
  CHECK(chosen != nullptr);
  Measurement result = *chosen;
  if (ok > 1) {
    result.samples_us = pooled_samples(measurements, kind);
    const MedianInterval interval = median_interval(result.samples_us);
    result.time_us = interval.median;
    result.ci_low_us = interval.low;
    result.ci_high_us = interval.high;
  }
  result.verified = true;  // the trace is, whichever of its measurements the checks ran on
  for (const Measurement* m : measurements) {
    if (is_ok(*m, kind)) {
      result.max_rel_error = std::max(result.max_rel_error, m->max_rel_error);
    }
  }
  return result;
}

bool takes_out(const Withdrawal& withdrawal, std::string_view trace, uint64_t kernel_hash) {
  return withdrawal.trace == trace ||
         (kernel_hash != 0 && withdrawal.kernel_hash == kernel_hash);
}

bool is_out(absl::Span<const Withdrawal> withdrawn, std::string_view trace, uint64_t kernel_hash) {
  return std::any_of(withdrawn.begin(), withdrawn.end(), [&](const Withdrawal& row) {
    return takes_out(row, trace, kernel_hash);
  });
}

std::vector<Measurement> trusted(std::vector<Measurement> measurements,
                                 absl::Span<const Withdrawal> withdrawn) {
  std::erase_if(measurements, [](const Measurement& m) { return !is_pooled(m); });
  for (Measurement& m : measurements) {
    if (m.verdict != Verdict::kOk || !is_out(withdrawn, m.trace, m.kernel_hash)) continue;
    m.verdict = Verdict::kWrongResult;
    m.verified = false;
  }
  return measurements;
}

absl::StatusOr<std::vector<Measurement>> trusted_measurements(const Store& store, const Key& key) {
  ASSIGN_OR_RETURN(std::vector<Measurement> all, store.measurements(key));
  ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn, store.withdrawn(key));
  return trusted(std::move(all), withdrawn);
}

bool leads(const Measurement& m, double best_us, TimeKind best_kind) {
  if (!is_pooled(m)) return false;
  if (m.verdict != Verdict::kOk || !m.verified || m.time_us <= 0) return false;
  return best_us == 0 || std::pair(m.time_kind, m.time_us) < std::pair(best_kind, best_us);
}

std::set<int64_t> to_prune(absl::Span<const std::vector<const Measurement*>> traces, int keep,
                           int64_t unix_ms) {
  std::vector<Pool> pools;
  std::vector<size_t> ranked;
  for (size_t t = 0; t < traces.size(); ++t) {
    pools.push_back(pool(traces[t]));
    const bool trusted = std::none_of(traces[t].begin(), traces[t].end(), [](const Measurement* m) {
      return disqualifies(*m);
    });
    if (trusted && pools[t].samples > 0) ranked.push_back(t);
  }
  const int64_t best = best_of(pools);
  std::stable_sort(ranked.begin(), ranked.end(), [&](size_t a, size_t b) {
    if (static_cast<int64_t>(b) == best) return false;
    return static_cast<int64_t>(a) == best ||
           std::pair(pools[a].time_kind, pools[a].median_us) <
               std::pair(pools[b].time_kind, pools[b].median_us);
  });
  ranked.resize(std::min(ranked.size(), static_cast<size_t>(std::max(0, keep))));
  const std::set<size_t> kept(ranked.begin(), ranked.end());
  std::set<int64_t> dropped;
  for (size_t t = 0; t < traces.size(); ++t) {
    if (kept.contains(t)) continue;
    for (const Measurement* m : traces[t]) {
      if (!m->annulled.empty()) continue;  // else the next import brings it back to life
      if (m->verdict == Verdict::kOk || m->unix_ms < unix_ms) dropped.insert(m->id);
    }
  }
  return dropped;
}

}  // namespace lw
