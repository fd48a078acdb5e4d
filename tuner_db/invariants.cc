#include "tuner_db/invariants.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/hash.h"
#include "tuner_db/key_terms.h"

namespace lw {
namespace {

// A rounded median may leave the range of its samples by a few units in the last place.
constexpr double kSlack = 1e-9;
constexpr size_t kLongestBackend = 200;

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

std::string defect(const Key& key) {
  if (key.workload.empty()) return "the workload is empty";
  if (key.target.empty()) return "the target is empty";
  if (key.backend.empty()) return "the backend is empty";
  if (key.threads < 1) return absl::StrFormat("threads is %d", key.threads);
  if (key.cache.empty()) return "the cache regime is empty";
  if (key.objective.empty()) return "the objective is empty";
  return "";
}

bool is_digest(std::string_view id) {
  return id.size() == 64 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string unknown_word(const Key& key) {
  if (!is_digest(key.workload)) return "the workload is no sha256, 64 hex digits";
  if (!is_digest(key.target)) return "the target is no sha256, 64 hex digits";
  if (key.backend.size() > kLongestBackend) return "the backend is longer than 200 bytes";
  Cache cache = Cache::kWarm;
  if (!parse_cache(key.cache, &cache)) {
    return "the cache regime is neither warm nor cold";
  }
  Objective objective = Objective::kTime;
  if (!parse_objective(key.objective, &objective)) {
    return "the objective is neither time nor time+winograd";
  }
  return "";
}

std::string defect(const Measurement& m) {
  const struct {
    const char* name;
    double value;
  } amounts[] = {{"time_us", m.time_us}, {"ci_low_us", m.ci_low_us}, {"wall_s", m.wall_s},
                 {"build_s", m.build_s}};
  for (const auto& [name, value] : amounts) {
    if (!is_amount(value)) return absl::StrFormat("%s is %g", name, value);
  }
  // The interval of a single sample has no upper end.
  if (std::isnan(m.ci_high_us) || m.ci_high_us < 0) {
    return absl::StrFormat("ci_high_us is %g", m.ci_high_us);
  }
  if (std::isnan(m.max_rel_error) || m.max_rel_error < 0) {
    return absl::StrFormat("max_rel_error is %g", m.max_rel_error);
  }
  if (m.inner < 1) return absl::StrFormat("inner is %d", m.inner);
  for (double sample : m.samples_us) {
    if (!is_amount(sample)) return absl::StrFormat("a sample is %g us", sample);
  }
  if (m.verdict != Verdict::kOk) return m.verified ? "a failure is marked as verified" : "";
  if (m.samples_us.empty()) return "an OK measurement has no samples";
  const auto [least, most] = std::minmax_element(m.samples_us.begin(), m.samples_us.end());
  if (m.time_us < *least * (1 - kSlack) || m.time_us > *most * (1 + kSlack)) {
    return absl::StrFormat("time_us is %g but the samples go from %g to %g", m.time_us, *least,
                           *most);
  }
  if (m.ci_low_us > m.time_us * (1 + kSlack) || m.ci_high_us < m.time_us * (1 - kSlack)) {
    return absl::StrFormat("the interval [%g, %g] does not hold time_us, %g", m.ci_low_us,
                           m.ci_high_us, m.time_us);
  }
  return "";
}

std::string defect(const WorkloadRow& row) {
  if (row.id != sha256(row.canonical_text)) return "the id is not the canonical text's sha256";
  if (!is_amount(row.flops)) return absl::StrFormat("flops is %g", row.flops);
  if (!is_amount(row.bytes)) return absl::StrFormat("bytes is %g", row.bytes);
  return "";
}

std::string defect(const ScheduleRecord& r) {
  if (std::string what = defect(r.key); !what.empty()) return what;
  if (!r.verified) return "it is not verified";
  const std::pair<const char*, double> amounts[] = {
      {"flops", r.flops}, {"bytes", r.bytes}, {"time_us", r.time_us}, {"ci_low_us", r.ci_low_us}};
  for (const auto& [name, value] : amounts) {
    if (!is_amount(value)) return absl::StrFormat("%s is %g", name, value);
  }
  if (std::isnan(r.ci_high_us) || r.ci_high_us < 0) {
    return absl::StrFormat("ci_high_us is %g", r.ci_high_us);
  }
  if (std::isnan(r.max_rel_error) || r.max_rel_error < 0) {
    return absl::StrFormat("max_rel_error is %g", r.max_rel_error);
  }
  if (r.samples < 0) return absl::StrFormat("samples is %d", r.samples);
  for (int64_t extent : r.shape) {
    if (extent < 1) return absl::StrFormat("an extent of its shape is %d", extent);
  }
  for (const RankedTrace& other : r.others) {
    if (!is_amount(other.time_us)) return absl::StrFormat("a time is %g", other.time_us);
  }
  return "";
}

std::string target_defect(const std::string& id, std::string_view text) {
  if (id != sha256(text)) return "the id is not the text's sha256";
  const absl::StatusOr<Target> target = read_target(text);
  return target.ok() ? "" : std::string(target.status().message());
}

std::string trace_defect(const std::string& trace) {
  const absl::StatusOr<Trace> parsed = parse_trace(trace);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

absl::Status admit(const Key& key, std::vector<Measurement>& measurements) {
  if (std::string what = defect(key); !what.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat("key: %s", what));
  }
  for (size_t i = 0; i < measurements.size(); ++i) {
    Measurement& m = measurements[i];
    if (std::isnan(m.max_rel_error)) m.max_rel_error = std::numeric_limits<double>::infinity();
    if (std::string what = defect(m); !what.empty()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("measurement %d of %d: %s", i + 1, measurements.size(), what));
    }
  }
  return absl::OkStatus();
}

std::string describe(const Key& key) {
  return absl::StrFormat("%s @ %s, %s, %d thread%s, %s, %s", key.workload.substr(0, 12),
                         key.target.substr(0, 12), key.backend, key.threads,
                         key.threads == 1 ? "" : "s", key.cache, key.objective);
}

absl::Status unknown(std::string_view what, std::string_view id) {
  return absl::NotFoundError(absl::StrFormat("the database has no %s %s", what, id));
}

absl::Status no_result(const Key& key) {
  return absl::NotFoundError(absl::StrFormat("no verified result for %s", describe(key)));
}

absl::Status claimed(const Key& key, int64_t pid) {
  return absl::AlreadyExistsError(
      absl::StrFormat("process %d is tuning %s; wait for it, or stop it", pid, describe(key)));
}

}  // namespace lw
