#include "src/figures/format.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace lw {

std::string number(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  const int before = value == 0 ? 1 : static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  return absl::StrFormat("%.*f", std::clamp(digits - before, 0, 6), value);
}

std::string micros(double us) {
  if (us <= 0 || !std::isfinite(us)) return "-";
  if (us < 1e3) return number(us) + " us";
  if (us < 1e6) return number(us / 1e3) + " ms";
  return number(us / 1e6) + " s";
}

std::string micros(double us, TimeKind kind) {
  if (us <= 0 || kind == TimeKind::kMeasured) return micros(us);
  return absl::StrFormat("%s (%s)", micros(us), time_kind_name(kind));
}

std::string_view how_verified(TimeKind kind) {
  return kind == TimeKind::kSimulated ? "verified" : "verified under emulation";
}

std::string whole(double value) {
  std::string text = absl::StrFormat("%.0f", value);
  for (int at = static_cast<int>(text.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string percent(double fraction) { return absl::StrFormat("%.1f %%", 100 * fraction); }

std::string byte_size(double bytes) {
  constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
  return (bytes == std::floor(bytes) ? absl::StrFormat("%.0f", bytes) : number(bytes, 2)) +
         kUnits[unit];
}

std::string trace_as_line(const std::string& trace) {
  const std::vector<std::string> steps = absl::StrSplit(trace, '\n', absl::SkipEmpty());
  return absl::StrJoin(steps, "; ");
}

}  // namespace lw
