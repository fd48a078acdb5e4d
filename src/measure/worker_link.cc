#include "src/measure/worker_link.h"

#include <signal.h>
#include <sys/wait.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/measure/sandbox.h"

namespace lw {

Answer WorkerLink::ask(MessageType type, std::string_view payload, double timeout_s,
                       std::string_view doing) {
  const std::string what(doing);
  if (child_.pid <= 0) {
    absl::StatusOr<Child> child = zygote_->spawn(role_);
    if (!child.ok()) {
      return {false, Verdict::kWorkerLost, absl::StrCat("no worker: ", child.status().message()),
              ""};
    }
    child_ = *child;
  }
  if (!send_message(child_.socket, type, payload).ok()) return died(what);
  absl::StatusOr<Message> message = receive_message(child_.socket, timeout_s);
  if (!message.ok()) {
    if (!absl::IsDeadlineExceeded(message.status())) return died(what);
    stop();
    return {false, Verdict::kTimeout,
            absl::StrFormat("%s took longer than %.3g s", what, timeout_s), ""};
  }
  if (message->type == kDone) return {true, Verdict::kOk, "", std::move(message->payload)};
  return refused(message->payload);
}

void WorkerLink::stop() {
  if (child_.pid > 0) zygote_->bury(child_);
  child_ = Child();
}

Answer WorkerLink::refused(std::string_view payload) const {
  Reader reader(payload);
  const absl::StatusCode code = static_cast<absl::StatusCode>(reader.get<int32_t>());
  Answer answer{false, Verdict::kBuildError, reader.get_string(), ""};
  if (code == absl::StatusCode::kResourceExhausted) answer.verdict = Verdict::kDeviceLimit;
  if (code == absl::StatusCode::kDataLoss) answer.verdict = Verdict::kWrongResult;
  return answer;
}

Answer WorkerLink::died(std::string_view doing) {
  const int status = zygote_->bury(child_, 1);
  child_ = Child();
  const ControlPage* page =
      role_ == kMeasurer ? reinterpret_cast<const ControlPage*>(bench_->control.data()) : nullptr;
  const bool reported = page != nullptr && page->signal != 0;
  Answer answer;
  answer.detail = absl::StrCat(describe_death(status, page), " while ", std::string(doing));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !reported) {
    answer.verdict =
        Verdict::kWorkerLost;  // nobody kills itself so: another process did, or the system
  } else {
    answer.verdict = role_ == kBuilder ? Verdict::kBuildError : Verdict::kCrash;
  }
  return answer;
}

}  // namespace lw
