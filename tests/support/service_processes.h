// The service as processes: real daemons, agents and clients, started in a folder of the test's
// own, killed, stopped, continued and started again. Each ends with the test, whichever way that
// ends.
//
//   Processes processes(folder);
//   const std::string address = processes.start_daemon("d0", {"--db", "x.db"});
//   processes.start("a0", agent_words(address, "a0"));
//   processes.kill("d0", SIGKILL);
//
// What a process says on stderr is appended to FOLDER/NAME.log, over all its lives; stdout of the
// latest life is FOLDER/NAME.out. For one thread, the one that started the processes.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "tests/support/loopback.h"

namespace lw {

using Words = std::vector<std::string>;

inline void pause_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Whether `what` came true before the time was over. The bound only ends a test that has failed.
inline bool await(double seconds, const std::function<bool()>& what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!what()) {
    if (std::chrono::steady_clock::now() > end) return false;
    pause_ms(20);
  }
  return true;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Whole lines of a file that grows: what a killed writer left unfinished is no line.
inline std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  const std::string text = read_text(path);
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    lines.push_back(text.substr(at, end - at));
  }
  return lines;
}

// The events of a log, of all lives of the process.
inline std::vector<nlohmann::json> log_events(const std::string& path) {
  std::vector<nlohmann::json> events;
  for (const std::string& line : lines_of(path)) {
    nlohmann::json event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (event.is_object() && event.contains("event")) events.push_back(std::move(event));
  }
  return events;
}

// A port that nobody listens on now. (It is the system's choice: hardly anybody gets it soon.)
inline int free_port() {
  int port = 0;
  close(bind_loopback(&port));
  return port;
}

inline std::string loopback(int port) { return "127.0.0.1:" + std::to_string(port); }

class Processes {
 public:
  explicit Processes(std::string folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }
  ~Processes() {
    for (const auto& [name, process] : running_) ::kill(process, SIGKILL);
    for (const auto& [name, process] : running_) waitpid(process, nullptr, 0);
  }
  Processes(const Processes&) = delete;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string log(const std::string& name) const { return path(name + ".log"); }
  bool runs(const std::string& name) const { return running_.contains(name); }

  // Bytes of all logs, of whoever ran.
  uintmax_t said() const {
    uintmax_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      if (file.path().extension() == ".log") bytes += file.file_size();
    }
    return bytes;
  }

  // REQUIRES: nothing of that name runs.
  void start(const std::string& name, const Words& words) {
    CHECK(!runs(name));
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const std::string out = path(name + ".out"), err = log(name);
    std::ofstream(out, std::ios::trunc);   // before anybody looks for what this life says
    const pid_t parent = getpid();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {                      // only what a fork of a process with threads may call
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int o = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const int e = open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      if (getppid() != parent || o < 0 || e < 0 || chdir(folder_.c_str()) != 0 ||
          dup2(o, 1) < 0 || dup2(e, 2) < 0) {
        _exit(126);
      }
      execv(argv[0], argv.data());
      _exit(127);
    }
    running_[name] = child;
  }

  // A daemon on the port, until it serves; false when it ended instead.
  bool start_daemon(const std::string& name, const Words& words) {
    start(name, words);
    return await_words(name, "serving ");
  }

  // Until stdout holds the words; false when the process ended or 60 s passed without.
  bool await_words(const std::string& name, const std::string& words) {
    bool there = false;
    await(60, [&] {
      there = read_text(path(name + ".out")).find(words) != std::string::npos;
      return there || has_ended(name);
    });
    return there;
  }

  void signal(const std::string& name, int number) { ::kill(running_.at(name), number); }

  // Sends it and waits for the end: the exit code, or 128 + the signal that ended it; -1 when it
  // did not end within `seconds` (it is killed then).
  int end(const std::string& name, int number, double seconds = 60) {
    signal(name, number);
    return wait(name, seconds);
  }
  int wait(const std::string& name, double seconds) {
    const pid_t child = running_.at(name);
    int status = 0;
    const bool ended = await(seconds, [&] { return waitpid(child, &status, WNOHANG) == child; });
    if (!ended) {
      ::kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    running_.erase(name);
    if (!ended) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  bool has_ended(const std::string& name) const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(running_.at(name)), &info,
                  WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }

 private:
  const std::string folder_;
  std::map<std::string, pid_t> running_;
};

inline std::string nth_agent(int i) { return "a" + std::to_string(i); }

inline Words daemon_words(const std::string& address, const std::string& database,
                          const std::string& lease_s = "2", const Words& more = {}) {
  Words words = {LW_BINARY_DIR "/loopwright", "serve", "--listen", address, "--http", "",
                 "--db", database, "--lease-seconds", lease_s, "--owner-seconds", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// An agent whose one device computes its times, the same everywhere.
inline Words agent_words(const std::string& address, const std::string& name, int delay_ms,
                         const std::string& state_folder) {
  return {LW_BINARY_DIR "/loopwright", "agent", "--server", address, "--name", name, "--state",
          state_folder, "--log-level", "debug", "--device",
          "null:" + name + "-dev,target=x86_avx2,delay_ms=" + std::to_string(delay_ms)};
}

}  // namespace lw
