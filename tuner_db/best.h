// Which candidate of a key is the fastest, when every sample is noisy. Pure functions, shared by
// both stores so that they cannot disagree.
//
// Measurements that do not count, or are annulled, are passed over everywhere. All other samples of
// one trace and one kind of time are pooled: of a trace that has several kinds,
// those of the one nearest to the truth that was verified. Candidates of a kind compete with each
// other and never with those of another; the kind nearest to the truth answers.
// The lowest median of many lightly sampled candidates is
// mostly luck (the winner's curse), so samples buy trust: candidates are visited from the most
// sampled to the least, and one with fewer samples replaces the incumbent only when the upper end
// of its median's 95 % interval lies below the incumbent's median. Hence an incumbent's median
// never rises along the way, which is what lets a store leave out all candidates above the first
// incumbent's median.
// Exact times are often equal. Pools are handed in by their traces, in order of bytes, so that of
// equals the same wins in every store, whatever came first.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "tuner_db/store.h"

namespace lw {

// The statistics of one trace's measurements.
struct Pool {
  int64_t samples = 0;                     // of its OK measurements of the kind together
  double median_us = 0;
  double high_us = 0;                      // upper end of the 95 % interval, at most 1.5 times the
                                           // slowest sample
  bool eligible = false;                   // verified, and never crashed or gave a wrong result
  TimeKind time_kind = TimeKind::kMeasured;  // of these samples
  uint64_t kernel_hash = 0;                // of the latest measurement that knows it; 0: none does
  bool operator==(const Pool&) const = default;
};

struct MedianInterval {
  double low, median, high;
};
// The median and its 95 % interval: from six samples on by order statistics, which assume nothing
// about the noise; below, where those cannot reach 95 %, by Student's t around the median. One
// sample knows nothing about its noise: (0, infinity). REQUIRES: not empty.
MedianInterval median_interval(std::vector<double> samples);

// Whether its trace may never be best: it is pooled and crashed or gave a wrong result.
bool disqualifies(const Measurement& measurement);

// REQUIRES: all of one trace.
Pool pool(absl::Span<const Measurement* const> measurements);

// Index of the best eligible pool, -1 when there is none. Ties: the earlier in `pools`, which are in
// the order of their traces.
int64_t best_of(absl::Span<const Pool> pools);

// Indices of the `count` eligible pools beside `best` and of its kind, by their medians. Ties: the
// earlier.
std::vector<int64_t> next_best(absl::Span<const Pool> pools, int64_t best, int count);

// What `best` returns for a trace: its measurement with the most samples (the latest of these),
// carrying the pooled samples, median and interval. REQUIRES: all of one trace, eligible.
Measurement represent(absl::Span<const Measurement* const> measurements);

// Whether the withdrawal, of the same key, takes the trace out: it is of this trace, or of another
// that gives the same kernel (0: not known).
bool takes_out(const Withdrawal& withdrawal, std::string_view trace, uint64_t kernel_hash);
bool is_out(absl::Span<const Withdrawal> withdrawn, std::string_view trace, uint64_t kernel_hash);

// What a search of the key may build on, in the same order: what is pooled, results that are out
// by the key's withdrawals as failures (so that they lead nothing and are not tried again).
std::vector<Measurement> trusted(std::vector<Measurement> measurements,
                                 absl::Span<const Withdrawal> withdrawn);
// Of what a store holds of the key. Errors: the store's.
absl::StatusOr<std::vector<Measurement>> trusted_measurements(const Store& store, const Key& key);

// Whether a result leads those before it, of which the best took `best_us` (0: there is none) of
// that kind: it is pooled, OK, verified, and of a kind nearer to the truth or of the same and faster.
bool leads(const Measurement& measurement, double best_us, TimeKind best_kind);

// Ids of what prune() deletes of one key, whose measurements are given by trace, in their order. Traces
// are ranked: the best first, the others by their kind and median, verified or not; one that ever
// crashed or was wrong has no rank. OK measurements go unless their trace ranks among the first `keep`;
// failures go when older than `unix_ms`, unless their trace keeps its OK ones (of which they may be
// the reason for distrust). What is annulled stays.
std::set<int64_t> to_prune(absl::Span<const std::vector<const Measurement*>> traces, int keep,
                           int64_t unix_ms);

}  // namespace lw
