#include "src/cli/failure_text.h"

#include "absl/strings/str_format.h"

namespace lw {

std::string failure_lines(const FailureMessages& failures, bool in_full) {
  std::string text;
  for (const auto& failure : failures) {
    absl::StrAppendFormat(&text, "  %s%d %s, e.g. %s\n", text.empty() ? "failed    " : "          ",
                          failure.count(), failure.name(), failure.detail());
    if (!in_full) continue;
    absl::StrAppendFormat(&text, "            by %s\n            %s\n",
                          trace_as_line(failure.trace()), failure.advice());
  }
  return text;
}

}  // namespace lw
