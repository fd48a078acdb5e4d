#include <array>

#include "src/base/check.h"
#include "tuner_db/store.h"

namespace lw {
namespace {

// Part of the stored format: the names, and (in proto/tuning.proto, plus one) their order.
constexpr std::array<std::string_view, 9> kNames = {
    "ok",           "build_error", "crash",            "timeout",  "wrong_result",
    "device_limit", "worker_lost", "device_unhealthy", "throttled"};

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  CHECK(static_cast<size_t>(verdict) < kNames.size());
  return kNames[static_cast<size_t>(verdict)];
}

bool parse_verdict(std::string_view name, Verdict* verdict) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) {
      *verdict = static_cast<Verdict>(i);
      return true;
    }
  }
  return false;
}

int64_t field_number(Verdict verdict) { return static_cast<int64_t>(verdict) + 1; }

bool parse_field_number(int64_t number, Verdict* verdict) {
  if (number < 1 || number > static_cast<int64_t>(kNames.size())) return false;
  *verdict = static_cast<Verdict>(number - 1);
  return true;
}

bool is_candidates_fault(Verdict verdict) {
  return verdict >= Verdict::kBuildError && verdict <= Verdict::kDeviceLimit;
}

bool is_nobodys_fault(Verdict verdict) {
  return verdict != Verdict::kOk && !is_candidates_fault(verdict);
}

}  // namespace lw
