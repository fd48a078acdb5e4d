#include "tuner_db/time_kind.h"

#include "src/base/named.h"

namespace lw {
namespace {

// Part of the stored format.
constexpr Named<TimeKind> kKinds[] = {{TimeKind::kMeasured, "measured"},
                                      {TimeKind::kEmulated, "emulated"},
                                      {TimeKind::kSimulated, "simulated"},
                                      {TimeKind::kEstimated, "estimated"}};

}  // namespace

std::string_view time_kind_name(TimeKind kind) { return name_in(kKinds, kind); }
bool parse_time_kind(std::string_view name, TimeKind* kind) { return parse_in(kKinds, name, kind); }

bool parse_time_kind(int64_t number, TimeKind* kind) {
  for (const Named<TimeKind>& known : kKinds) {
    if (static_cast<int64_t>(known.value) != number) continue;
    *kind = known.value;
    return true;
  }
  return false;
}

}  // namespace lw
