// A conversation with an lw_runner (src/runner/protocol.h) behind a command: its program started when
// it is needed, greeted, asked job after job, and started anew after whatever went wrong.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/measure/cpu/emulator.h"
#include "src/measure/exec/program.h"
#include "src/runner/protocol.h"

namespace lw {

// Not thread-safe. kUnavailable and kDeadlineExceeded: the device's own failure, and its program is
// gone then. Seconds below 0: without a limit.
class RunnerSession {
 public:
  // `greeting`: what it has said of itself elsewhere, if it has.
  RunnerSession(std::string command, std::string architecture,
                std::optional<runner::Greeting> greeting = std::nullopt)
      : command_(std::move(command)),
        architecture_(std::move(architecture)),
        greeting_(std::move(greeting)) {}

  // The program's, started where it is not; its texts may stand in any message or object of JSON.
  // kUnavailable also: it runs on another architecture, or another machine than before.
  absl::StatusOr<runner::Greeting> greet(double limit_s);
  // One frame's answer: of a job a result that fits it, a crash or a refusal. REQUIRES: greeted.
  absl::StatusOr<RunnerAnswer> ask(const runner::Job& job, double limit_s);
  absl::StatusOr<RunnerAnswer> ask(runner::Frame type, std::vector<std::string_view> payload,
                                   uint64_t most_bytes, double limit_s);
  ExecProgram* program() const { return program_.get(); }   // null: not started
  void stop() { program_.reset(); }
  static absl::StatusOr<RunnerAnswer> receive(ExecProgram& program, uint64_t most_bytes,
                                              double limit_s);
  static std::string magic();

 private:
  absl::Status fail(absl::Status status);

  const std::string command_, architecture_;
  std::unique_ptr<ExecProgram> program_;
  std::optional<runner::Greeting> greeting_;
};

}  // namespace lw
