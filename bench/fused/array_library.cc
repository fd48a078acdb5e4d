#include "bench/fused/array_library.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr int kMostWaitMs = 300'000;       // for a reply: compiling takes a minute at most
// Results are new memory in every call: the system's pages, at some microseconds each, twice the time
// of a filter of a megabyte, would be what is compared.
constexpr const char* kKeepMemory[] = {"MALLOC_MMAP_THRESHOLD_=1073741824",
                                       "MALLOC_TRIM_THRESHOLD_=1073741824",
                                       "MALLOC_TOP_PAD_=67108864"};
constexpr std::string_view kReady = "ready ";

// Of one process, over a socket that is its stdin and stdout.
class Conversation {
 public:
  explicit Conversation(int socket, pid_t child) : socket_(socket), child_(child) {}
  Conversation(const Conversation&) = delete;
  ~Conversation() {
    close(socket_);
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  bool say(const std::string& text) {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  bool hear(void* data, size_t size) {
    for (size_t got = 0; got < size;) {
      pollfd ready = {socket_, POLLIN, 0};
      if (poll(&ready, 1, kMostWaitMs) <= 0) return false;
      const ssize_t n = read(socket_, static_cast<char*>(data) + got, size - got);
      if (n <= 0) return false;
      got += static_cast<size_t>(n);
    }
    return true;
  }
  std::optional<std::string> hear_line() {
    std::string line;
    for (char c = 0;; line += c) {
      if (!hear(&c, 1)) return std::nullopt;
      if (c == '\n') return line;
    }
  }

 private:
  int socket_;
  pid_t child_;
};

absl::StatusOr<std::shared_ptr<Conversation>> start(const std::vector<std::string>& command,
                                                    const std::vector<std::string>& environment,
                                                    const std::string& log) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError("socketpair: out of descriptors");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<char*> argv, envp;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& one : environment) envp.push_back(const_cast<char*>(one.c_str()));
  for (const char* one : kKeepMemory) envp.push_back(const_cast<char*>(one));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return absl::NotFoundError(concat(command[0], ": ", std::strerror(error)));
  }
  return std::make_shared<Conversation>(ends[0], child);
}

std::string last_line(const std::string& file) {
  std::ifstream in(file);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

// As peer.py reads them.
void write_inputs(const Program& program, void* const* arguments, const std::string& folder) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const int t : lw::arguments(program)) {
    const void* data = *arguments++;
    const Tensor& tensor = program.tensors[t];
    if (tensor.role != Role::kInput) continue;
    const std::string name = concat(number++, ".", type_name(tensor.type), ".",
                                    absl::StrJoin(tensor.shape, "x"));
    std::ofstream(folder + "/" + name, std::ios::binary)
        .write(static_cast<const char*>(data), bytes(tensor));
  }
}

}  // namespace

absl::StatusOr<ArrayLibraryContender> array_library(const std::string& library,
                                                    const std::string& name,
                                                    const Program& program,
                                                    void* const* arguments,
                                                    const ArrayLibraryOptions& options) {
  const std::string folder = options.folder + "/arrays", log = options.folder + "/peer.log";
  write_inputs(program, arguments, folder);
  std::vector<std::string> command = {options.python, options.script, library, name, folder};
  if (!options.isa.empty()) command.insert(command.end(), {"--isa", options.isa});
  ASSIGN_OR_RETURN(const std::shared_ptr<Conversation> talk,
                   start(command, options.environment, log));
  const std::optional<std::string> ready = talk->hear_line();
  std::string_view version = ready ? std::string_view(*ready) : "";
  if (!version.starts_with(kReady)) {
    return absl::InternalError(concat(library, " of ", name, ": ", last_line(log)));
  }
  version.remove_prefix(kReady.size());
  std::vector<std::pair<void*, size_t>> results;
  for (const int t : lw::arguments(program)) {
    void* data = *arguments++;
    if (program.tensors[t].role == Role::kInput) continue;
    results.emplace_back(data, static_cast<size_t>(bytes(program.tensors[t])));
  }
  ArrayLibraryContender peer{library, std::string(version), {library, nullptr, {}}};
  peer.contender.run = [talk, results] {
    bool heard = talk->say("results\n");
    for (const auto& [data, size] : results) heard = heard && talk->hear(data, size);
    CHECK(heard);
  };
  peer.contender.seconds = [talk](int64_t calls) {
    CHECK(talk->say(concat("time ", calls, "\n")));
    const std::optional<std::string> reply = talk->hear_line();
    double seconds = 0;
    CHECK(reply && absl::SimpleAtod(*reply, &seconds));
    return seconds;
  };
  return peer;
}

}  // namespace lw
