// The program of an exec device, as a process: a shell's command line, with frames
// (src/exec/frames.h) on its standard input and output. What it writes on its standard error is
// kept for messages.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/exec/frames.h"

namespace lw {

// Not thread-safe. Dies, with whatever it has started, with this object, and by itself with the
// thread that started it. Seconds below 0: without a limit.
class ExecProgram {
 public:
  // kUnavailable: no process can be made. (A command that is none dies at once.)
  static absl::StatusOr<std::unique_ptr<ExecProgram>> start(const std::string& command);
  ~ExecProgram();
  ExecProgram(const ExecProgram&) = delete;

  // `parts` one after the other, in pieces of at most `piece` bytes. kUnavailable: it has ended, or
  // answers meanwhile; kDeadlineExceeded: it does not read them in time.
  absl::Status send(const std::vector<std::string_view>& parts, double limit_s,
                    size_t piece = size_t{1} << 30);
  // The next frame. kUnavailable: what comes is none, is larger than may be, or it has ended;
  // kDeadlineExceeded: no whole one comes in time.
  absl::StatusOr<exec::Frame> receive(uint64_t most_body_bytes, double limit_s);
  // Whether something comes, within a time.
  bool has_input(double limit_s = 0);
  // Its input ends. Whether it then ends by itself, with what status of wait(2).
  bool ends(double limit_s, int* status);
  pid_t pid() const { return pid_; }

 private:
  ExecProgram() = default;
  absl::Status receive_all(char* data, size_t size, double deadline);
  absl::Status ended();                    // how, and what it said last
  std::string last_words();

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;                 // sockets: its input, its output
  int errors_ = -1;                        // a file of what it says on its standard error
};

}  // namespace lw
