// The real binary's daemon and agents as processes of a test, each with its output in a file.
#pragma once

#include <grp.h>
#include <sys/prctl.h>

#include <map>
#include <thread>

#include "src/base/message.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/program.h"

namespace lw {

class DaemonTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    // Locks and descriptions of this test's devices are its own.
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    setenv("XDG_STATE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, pid] : processes_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    CliTest::TearDown();
  }

  // `loopwright WORDS...`; its output goes to NAME.log. "a b c" is three words. `user`: as whom,
  // for root; the folder has to be that user's.
  void launch(const std::string& name, const std::string& words, uid_t user = 0) {
    std::istringstream pieces(words);
    std::vector<std::string> all = command({});
    for (std::string piece; pieces >> piece;) all.push_back(piece);
    std::filesystem::remove(path(name + ".log"));  // an earlier life's
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      if (chdir(folder_.c_str()) != 0) _exit(127);
      const int fd = open((name + ".log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (user != 0 && (setgroups(0, nullptr) != 0 || setgid(user) != 0 || setuid(user) != 0)) {
        _exit(127);
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);    // a change of user clears it
      if (getppid() != parent) _exit(127);
      dup2(fd, STDOUT_FILENO);
      dup2(fd, STDERR_FILENO);
      std::vector<char*> argv;
      for (std::string& word : all) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    ASSERT_GT(pid, 0);  // kill(-1) reaches every process there is
    processes_[name] = pid;
  }
  std::string log_of(const std::string& name) const { return slurp(path(name + ".log")); }
  bool until_logged(const std::string& name, const std::string& part) const {
    return eventually([&] { return log_of(name).find(part) != std::string::npos; });
  }
  // Waits until it has ended; its exit code. -1: it has not.
  int ended(const std::string& name) {
    if (!processes_.contains(name)) return -1;
    int status = 0;
    const pid_t pid = processes_[name];
    if (!eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; })) return -1;
    processes_.erase(name);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void interrupt(const std::string& name) {
    if (processes_.contains(name)) kill(processes_[name], SIGINT);
  }
  void end_at_once(const std::string& name) {
    if (processes_.contains(name)) kill(processes_[name], SIGKILL);
    ended(name);
  }
  int stop(const std::string& name) {
    if (!processes_.contains(name)) return -1;
    kill(processes_[name], SIGTERM);
    return ended(name);
  }

  // A daemon on a port of the system's choice; its address, "" when it did not come up.
  std::string serve(const std::string& more = "") {
    launch("serve",
           concat("serve --db service.db --listen 127.0.0.1:0 --http 127.0.0.1:0 --json ", more));
    std::string address;
    eventually([&] {
      const std::string text = log_of("serve");
      const size_t at = text.find("\"listen\": \"");
      if (at == std::string::npos) return false;
      const size_t begin = at + 11;
      address = text.substr(begin, text.find('"', begin) - begin);
      return true;
    });
    return address;
  }

 private:
  std::map<std::string, pid_t> processes_;
};

}  // namespace lw
