// The program of an exec device, as a process: a shell's command line, with frames of its protocol
// on its standard input and output: src/exec/frames.h, or src/runner/protocol.h. What it writes on
// its standard error is kept for messages.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

// Seconds that a greeting may take: the first, which may have much to start or to establish; others,
// within the time that loading may take.
constexpr double kFirstGreeting = 60, kGreeting = 9;

// Not thread-safe. Dies, with whatever it has started, with this object, and by itself with the
// thread that started it. Seconds below 0: without a limit.
class ExecProgram {
 public:
  static constexpr size_t kHeaderBytes = 16;  // of either protocol's frames
  // `magic`: four bytes, with which each of its frames begins. kUnavailable: no process can be made.
  // (A command that is none dies at once.)
  static absl::StatusOr<std::unique_ptr<ExecProgram>> start(const std::string& command,
                                                            std::string_view magic);
  ~ExecProgram();
  ExecProgram(const ExecProgram&) = delete;

  // `parts` one after the other, in pieces of at most `piece` bytes. kUnavailable: it has ended, or
  // answers meanwhile; kDeadlineExceeded: it does not read them in time.
  absl::Status send(const std::vector<std::string_view>& parts, double limit_s,
                    size_t piece = size_t{1} << 30);
  // The header of the next frame; the rest of it, so many bytes. kUnavailable: what comes is no frame,
  // or it has ended; kDeadlineExceeded: it does not come in time.
  absl::StatusOr<std::string> receive_header(double limit_s);
  absl::StatusOr<std::string> receive(size_t bytes, double limit_s);
  // Whether something comes, within a time.
  bool has_input(double limit_s = 0);
  // Its input ends. Whether it then ends by itself, with what status of wait(2).
  bool ends(double limit_s, int* status);
  pid_t pid() const { return pid_; }

 private:
  explicit ExecProgram(std::string_view magic) : magic_(magic) {}
  absl::Status receive_all(char* data, size_t size, double deadline);
  absl::Status ended();                    // how, and what it said last
  std::string last_words();

  const std::string magic_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;                 // sockets: its input, its output
  int errors_ = -1;                        // a file of what it says on its standard error
};

}  // namespace lw
