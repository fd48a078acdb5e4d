#include "src/search/progress.h"

#include <algorithm>
#include <utility>

#include "src/base/hash.h"
#include "tuner_db/best.h"

namespace lw {

std::optional<Origin> origin_of(const Measurement& m) {
  Origin origin = Origin::kZero;
  return parse_origin(m.source, &origin) ? std::optional(origin) : std::nullopt;
}

bool is_trial(const Measurement& m) {
  const std::optional<Origin> origin = origin_of(m);
  return !is_retried(m.verdict) && origin != Origin::kZero && origin != Origin::kFinalist;
}

bool SearchProgress::take(const Measurement& m) {
  count(m);
  return lead(m);
}

void SearchProgress::count(const Measurement& m) {
  if (!is_pooled(m)) return;
  trials += is_trial(m);
  failed += is_candidates_fault(m.verdict);
  if (m.time_kind != time_kind || origin_of(m) != Origin::kZero) return;
  has_zero = true;
  zero_us = m.verdict == Verdict::kOk ? m.time_us : 0;
  zero_verified = m.verified;
}

bool SearchProgress::lead(const Measurement& m) {
  if (!is_pooled(m) || m.time_kind != time_kind) return false;
  const uint64_t trace = hash64(m.trace);
  if (disqualifies(m)) {
    const double led_us = std::exchange(verified_us_[trace], 0);
    if (led_us == 0 || led_us > best_us) return false;
    best_us = 0;
    for (const auto& [other, us] : verified_us_) {
      if (us > 0 && (best_us == 0 || us < best_us)) best_us = us;
    }
    return false;
  }
  if (!leads(m, 0, time_kind)) return false;
  const auto [known, is_new] = verified_us_.try_emplace(trace, m.time_us);
  if (!is_new && known->second == 0) return false;
  known->second = std::min(known->second, m.time_us);
  if (!leads(m, best_us, time_kind)) return false;
  best_us = m.time_us;
  return true;
}

}  // namespace lw
