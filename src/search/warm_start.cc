#include "src/search/warm_start.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "src/base/check.h"

namespace lw {
namespace {

constexpr size_t kWarmTraces = 4;
constexpr size_t kHints = 8;               // that forged ones may cost a study

double shape_distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  double sum = 100.0 * std::abs(static_cast<double>(a.size()) - static_cast<double>(b.size()));
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    sum += std::abs(std::log2(static_cast<double>(std::max<int64_t>(1, a[i])) /
                              static_cast<double>(std::max<int64_t>(1, b[i]))));
  }
  return sum;
}

}  // namespace

std::vector<std::string> unconfirmed_traces(const std::vector<Measurement>& measurements,
                                            TimeKind kind) {
  std::set<std::string> measured;
  for (const Measurement& m : measurements) {
    if (is_pooled(m)) measured.insert(m.trace);
  }
  std::vector<const Measurement*> hints;
  for (const Measurement& m : measurements) {
    const bool hint = !m.counts && m.annulled.empty() && m.verdict == Verdict::kOk;
    if (hint && m.time_kind == kind && !measured.contains(m.trace)) hints.push_back(&m);
  }
  std::stable_sort(hints.begin(), hints.end(), [](const Measurement* a, const Measurement* b) {
    return a->time_us < b->time_us;
  });
  std::vector<std::string> traces;
  for (const Measurement* m : hints) {
    if (traces.size() == kHints) break;
    if (std::count(traces.begin(), traces.end(), m->trace) == 0) traces.push_back(m->trace);
  }
  return traces;
}

absl::StatusOr<std::vector<Trace>> warm_traces(const Store& store, const Key& key) {
  std::vector<Trace> traces;
  const absl::StatusOr<WorkloadRow> mine = store.workload(key.workload);
  if (mine.status().code() == absl::StatusCode::kNotFound) return traces;
  RETURN_IF_ERROR(mine.status());
  ASSIGN_OR_RETURN(const std::vector<BestRow> rows,
                   store.best_of_structure(mine->structure, key.threads));
  std::vector<std::pair<double, Trace>> near;
  for (const BestRow& row : rows) {
    const absl::StatusOr<WorkloadRow> other = store.workload(row.key.workload);
    absl::StatusOr<Trace> trace = parse_trace(row.measurement.trace);
    if (row.key == key || !other.ok() || !trace.ok()) continue;
    near.emplace_back(shape_distance(mine->shape, other->shape), *std::move(trace));
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (near.size() > kWarmTraces) near.resize(kWarmTraces);
  for (auto& [distance, trace] : near) traces.push_back(std::move(trace));
  return traces;
}

}  // namespace lw
