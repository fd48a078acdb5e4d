#include "src/measure/workers/worker_link.h"

#include <signal.h>
#include <sys/wait.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/clock.h"
#include "src/measure/process/sandbox.h"

namespace lw {
namespace {

// What a worker that has run foreign code may make this process allocate.
uint64_t longest_answer(int role) {
  if (role == kPreparer) return uint64_t{1} << 30;
  return uint64_t{1} << (role == kMeasurer ? 24 : 27);
}

}  // namespace

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
  // Unasked words can only come from a kernel: the harness waits.
  if (has_input(child_.socket)) return out_of_turn(what);
  if (page() != nullptr) page()->signal = 0;
  const double begin = now();
  if (!send_message(child_.socket, type, payload, -1, ++tag_).ok()) return died(what);
  absl::StatusOr<Message> message =
      receive_message(child_.socket, timeout_s, longest_answer(role_));
  worked_s_ += now() - begin;
  if (!message.ok()) {
    if (!absl::IsDeadlineExceeded(message.status())) return died(what);
    stop();
    return {false, Verdict::kTimeout,
            absl::StrFormat("%s took longer than %.3g s", what, timeout_s), ""};
  }
  if (message->tag != tag_) return out_of_turn(what);
  if (message->type == kDone) return {true, Verdict::kOk, "", std::move(message->payload)};
  const Answer answer = refused(message->payload);
  if (answer.verdict == Verdict::kCrash) stop();   // as if it had died of it
  return answer;
}

ControlPage* WorkerLink::page() const {
  if (role_ == kPreparer) return nullptr;
  return bench_->control_page(role_ == kMeasurer ? 0 : 1 + role_ - kBuilder);
}

Answer WorkerLink::out_of_turn(std::string_view doing) {
  stop();
  return {false, Verdict::kDeviceUnhealthy,
          absl::StrCat("the worker answered what nobody had asked, before ", std::string(doing)),
          ""};
}

void WorkerLink::renew() {
  if (worked_s_ > kWorkerLife) stop();
}

void WorkerLink::stop() {
  if (child_.pid > 0) zygote_->bury(child_);
  child_ = Child();
  worked_s_ = 0;
}

Answer WorkerLink::refused(std::string_view payload) const {
  Reader reader(payload);
  const absl::StatusCode code = static_cast<absl::StatusCode>(reader.get<int32_t>());
  Answer answer{false, Verdict::kBuildError, reader.get_string(), ""};
  if (code == absl::StatusCode::kResourceExhausted) answer.verdict = Verdict::kDeviceLimit;
  if (code == absl::StatusCode::kDataLoss) answer.verdict = Verdict::kWrongResult;
  if (role_ != kMeasurer) return answer;
  if (code == absl::StatusCode::kAborted) answer.verdict = Verdict::kCrash;
  if (code == absl::StatusCode::kUnavailable) answer.verdict = Verdict::kDeviceUnhealthy;
  return answer;
}

Answer WorkerLink::died(std::string_view doing) {
  const int status = zygote_->bury(child_, 1);
  child_ = Child();
  worked_s_ = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotIsolated) {
    return {false, Verdict::kWorkerLost, "the worker could not be isolated", ""};
  }
  const bool reported = page() != nullptr && page()->signal != 0;
  Answer answer;
  answer.detail = absl::StrCat(describe_death(status, page()), " while ", std::string(doing));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !reported) {
    answer.verdict =
        Verdict::kWorkerLost;  // nobody kills itself so: another process did, or the system
  } else {
    answer.verdict = role_ >= kBuilder ? Verdict::kBuildError : Verdict::kCrash;
  }
  return answer;
}

}  // namespace lw
