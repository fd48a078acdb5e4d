#include "src/measure/workers/worker_loop.h"

#include "src/measure/workers/workbench.h"

namespace lw {

void serve_requests(int socket,
                    const std::function<absl::StatusOr<std::string>(const Message&)>& answer) {
  while (true) {
    const absl::StatusOr<Message> request = receive_message(socket);
    if (!request.ok()) return;
    const absl::StatusOr<std::string> result = answer(*request);
    const absl::Status sent =
        result.ok() ? send_message(socket, kDone, *result, -1, request->tag)
                    : send_message(socket, kRefused, refusal(result.status()), -1, request->tag);
    if (!sent.ok()) return;
  }
}

}  // namespace lw
