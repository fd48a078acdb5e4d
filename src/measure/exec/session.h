// A conversation with an exec device (docs/exec.md): its program started when it is needed,
// greeted, asked job after job, and started anew after whatever went wrong.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/exec/frames.h"
#include "src/exec/heads.h"
#include "src/measure/exec/program.h"

namespace lw {

struct Target;

struct ExecReply {
  exec::Result result;
  std::string body;
};

// Not thread-safe. Errors: kUnavailable and kDeadlineExceeded are the device's own, and its program
// is gone then; others are what it says of a program, as exec::ErrorCode (kInvalidArgument,
// kDataLoss, kResourceExhausted).
class ExecSession {
 public:
  ExecSession(std::string command, const Target& target);

  // The program's, started where it is not. Seconds below 0: without a limit.
  absl::StatusOr<exec::Greeting> greet(double limit_s);
  // One job: its program, and the inputs where outputs are wanted. REQUIRES: greeted.
  absl::StatusOr<ExecReply> ask(const exec::Job& job, std::vector<std::string_view> body,
                                double limit_s);
  ExecProgram* program() const { return program_.get(); }   // null: not started
  void stop() { program_.reset(); }
  exec::Hello hello() const;

 private:
  struct Received {
    exec::Answer answer;
    std::string body;
  };
  absl::StatusOr<Received> exchange(exec::Request request, std::vector<std::string_view> body,
                                    uint64_t most_body_bytes, double limit_s);
  absl::Status fail(absl::Status status);

  const std::string command_, architecture_, target_;
  std::unique_ptr<ExecProgram> program_;
  exec::Greeting greeting_;                // of `program_`
  int64_t last_id_ = 0;
};

// The program's next frame. kUnavailable: what comes is none, is larger than may be, or it has ended;
// kDeadlineExceeded: no whole one comes in time.
absl::StatusOr<exec::Frame> receive_frame(ExecProgram& program, uint64_t most_body_bytes,
                                          double limit_s);

}  // namespace lw
