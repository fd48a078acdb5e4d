#include "src/cli/failure_text.h"

#include "absl/strings/str_format.h"
#include "tuner_db/messages.h"

namespace lw {

FailureMessages failure_messages(const std::vector<FailureClass>& failures) {
  FailureMessages messages;
  for (const FailureClass& failure : failures) messages.push_back(to_proto(failure));
  return messages;
}

Json failures_json(const FailureMessages& failures) {
  Json classes = Json::array();
  for (const auto& failure : failures) {
    classes.push_back({{"class", failure.name()},
                       {"count", failure.count()},
                       {"detail", failure.detail()},
                       {"trace", failure.trace()},
                       {"advice", failure.advice()}});
  }
  return classes;
}

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
