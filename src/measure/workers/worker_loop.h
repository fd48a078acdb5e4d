// A worker's side of the conversation: one answer to each request, until the parent is gone.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "src/measure/process/ipc.h"

namespace lw {

// Answers kDone with what `answer` returns or kRefused with its status, under the request's tag.
void serve_requests(int socket,
                    const std::function<absl::StatusOr<std::string>(const Message&)>& answer);

}  // namespace lw
