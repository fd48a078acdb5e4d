#include "src/serve/messages/failure_messages.h"

#include "tuner_db/messages/messages.h"

namespace lw {

FailureMessages failure_messages(const std::vector<FailureClass>& failures) {
  FailureMessages messages;
  for (const FailureClass& failure : failures) messages.push_back(to_proto(failure));
  return messages;
}

nlohmann::ordered_json failures_json(const FailureMessages& failures) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (const auto& failure : failures) {
    classes.push_back({{"class", failure.name()},
                       {"count", failure.count()},
                       {"detail", failure.detail()},
                       {"trace", failure.trace()},
                       {"advice", failure.advice()}});
  }
  return classes;
}

}  // namespace lw
