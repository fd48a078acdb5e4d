// Child processes of the benches, and what the system says of them.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace lw {

struct Memory {
  double rss_mb = 0, pss_mb = 0;           // MB of 10^6 bytes; pss: shared pages by their share
};

class Process {
 public:
  // `arguments`: the program first. What it writes to stderr is appended to the file `log`. It ends
  // with this process.
  Process(const std::vector<std::string>& arguments, const std::string& log);
  ~Process();                              // asks it to stop, waits
  Process(const Process&) = delete;

  std::string line();                      // the next of its stdout, waits; "" at its end
  std::string rest();                      // of its stdout
  int stop();                              // asks it to, waits; its exit status
  int wait();
  void kill_hard();                        // SIGKILL, waits
  pid_t pid() const { return pid_; }
  double cpu_s() const;                    // user and system, so far
  double written_mb() const;               // to the disk, by /proc/PID/io
  Memory memory() const;

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

struct BenchDaemon {
  std::unique_ptr<Process> process;
  std::string address;
};
// `loopwright serve` on a database, at a port of the system's choice; returns when it listens.
// `more`: further arguments.
BenchDaemon start_daemon(const std::string& loopwright, const std::string& database,
                         const std::vector<std::string>& more = {});

}  // namespace lw
