#include "tuner_db/time_kind.h"

#include "src/base/check.h"

namespace lw {
namespace {

// Part of the stored format.
constexpr struct {
  TimeKind kind;
  std::string_view name;
} kKinds[] = {{TimeKind::kMeasured, "measured"},
              {TimeKind::kEmulated, "emulated"},
              {TimeKind::kEstimated, "estimated"}};

}  // namespace

std::string_view time_kind_name(TimeKind kind) {
  for (const auto& known : kKinds) {
    if (known.kind == kind) return known.name;
  }
  CHECK(false);
  return "";
}

bool parse_time_kind(std::string_view name, TimeKind* kind) {
  for (const auto& known : kKinds) {
    if (known.name != name) continue;
    *kind = known.kind;
    return true;
  }
  return false;
}

bool parse_time_kind(int64_t number, TimeKind* kind) {
  for (const auto& known : kKinds) {
    if (static_cast<int64_t>(known.kind) != number) continue;
    *kind = known.kind;
    return true;
  }
  return false;
}

}  // namespace lw
