#include "bench/service/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "src/base/check.h"

namespace lw {

Process::Process(const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int pipe_ends[2];
  CHECK(pipe2(pipe_ends, O_CLOEXEC) == 0);
  const int err = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  CHECK(err >= 0);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(pipe_ends[1], 1);
    dup2(err, 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  close(err);
  out_ = pipe_ends[0];
}

Process::~Process() { stop(); }

std::string Process::line() {
  std::string text;
  char c = 0;
  while (read(out_, &c, 1) == 1 && c != '\n') text += c;
  return text;
}

std::string Process::rest() {
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(out_, buffer, sizeof(buffer))) > 0;) text.append(buffer, n);
  return text;
}

int Process::wait() {
  if (pid_ < 0) return 0;
  int status = 0;
  CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  close(out_);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Process::stop() {
  if (pid_ >= 0) kill(pid_, SIGTERM);
  return wait();
}

void Process::kill_hard() {
  if (pid_ >= 0) kill(pid_, SIGKILL);
  wait();
}

double Process::cpu_s() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

namespace {

// The number after `name` in a file of "name: number" lines; 0 when it is not there.
double field_of(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    double value = 0;
    if (word == name && file >> value) return value;
  }
  return 0;
}

}  // namespace

double Process::written_mb() const {
  return field_of("/proc/" + std::to_string(pid_) + "/io", "write_bytes:") / 1e6;
}

Memory Process::memory() const {
  const std::string path = "/proc/" + std::to_string(pid_) + "/smaps_rollup";
  return {field_of(path, "Rss:") * 1024 / 1e6, field_of(path, "Pss:") * 1024 / 1e6};
}

BenchDaemon start_daemon(const std::string& loopwright, const std::string& database,
                         const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {loopwright, "serve", "--db", database,
                                        "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                                        "--log-level", "warning"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  BenchDaemon daemon;
  daemon.process = std::make_unique<Process>(arguments, database + ".log");
  std::istringstream line(daemon.process->line());  // serving ADDRESS, page and metrics at URL
  std::string serving;
  line >> serving >> daemon.address;
  if (serving != "serving") {
    std::fprintf(stderr, "the daemon did not start; see %s.log\n", database.c_str());
    std::exit(1);
  }
  if (daemon.address.back() == ',') daemon.address.pop_back();
  return daemon;
}

}  // namespace lw
