// A program as a child process, from its start to its end. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

// A regular file that this process may run.
bool is_program(const std::string& path);
// The folders of $PATH, in order.
std::vector<std::string> program_folders();
// The program as a shell finds it: a path as it is, else in the first of those folders that has one;
// "": there is none.
std::string find_program(const std::string& name);

struct ProgramEnd {
  int status = 0;                          // of wait(2)
  std::string output, errors;              // what it wrote on its standard output and error

  bool succeeded() const { return status == 0; }
  // "exit status 255", "signal 11"
  std::string how() const;
};

// Runs words[0], a path, with the other words as its arguments, in `folder`; its input is empty. It
// dies with whatever it has started when `limit_s` seconds are over, and by itself with the thread
// that called. kUnavailable: no process can be made, or words[0] is no program; kDeadlineExceeded:
// the time is over.
absl::StatusOr<ProgramEnd> run_program(const std::vector<std::string>& words,
                                       const std::string& folder, double limit_s);

}  // namespace lw
