#include "bench/tuner.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/measure/run/runner.h"

namespace lw {
namespace {

using Json = nlohmann::json;

// Proportional set sizes of `root` and its descendants, summed.
int64_t tree_bytes(int root) {
  std::map<int, int> parents;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream stat(entry.path() / "stat");
    const std::string text((std::istreambuf_iterator<char>(stat)), {});
    const size_t end = text.rfind(')');    // the name may hold anything
    char state = 0;
    int parent = 0;
    if (end != std::string::npos) std::istringstream(text.substr(end + 1)) >> state >> parent;
    parents[pid] = parent;
  }
  int64_t total = 0;
  for (const auto& [pid, parent] : parents) {
    int ancestor = pid;
    while (ancestor > 1 && ancestor != root)
      ancestor = parents.count(ancestor) ? parents[ancestor] : 0;
    if (ancestor != root) continue;
    std::ifstream rollup(absl::StrCat("/proc/", pid, "/smaps_rollup"));
    for (std::string key; rollup >> key;) {
      if (key != "Pss:") continue;
      int64_t kib = 0;
      rollup >> kib;
      total += kib * 1024;
      break;
    }
  }
  return total;
}

class MemoryWatch {
 public:
  MemoryWatch(int root, bool enabled) {
    if (!enabled) return;
    thread_ = std::thread([this, root] {
      while (!stop_) {
        peak_ = std::max(peak_, tree_bytes(root));
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
      }
    });
  }
  int64_t finish() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return peak_;
  }

 private:
  std::atomic<bool> stop_{false};
  int64_t peak_ = 0;
  std::thread thread_;
};

std::string common_words(const BenchCase& bench_case) {
  return absl::StrJoin(command_words(bench_case), " ");
}

// The exported kernel: DIR holds one object and its JSON metadata.
absl::StatusOr<Artifact> read_export(const std::filesystem::path& folder) {
  Artifact artifact;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (entry.path().extension() == ".o") artifact.bytes = text;
    if (entry.path().extension() != ".json") continue;
    const Json metadata = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!metadata.is_object())
      return absl::DataLossError(absl::StrCat(entry.path().string(), " is no JSON object"));
    artifact.architecture = metadata.value("family", "x86_64");
    artifact.entry = metadata.value("entry", "");
    artifact.workspace_bytes = metadata.value("workspace_bytes", int64_t{0});
    artifact.private_bytes = metadata.value("private_bytes", int64_t{0});
    artifact.packed_bytes = metadata.value("packed_bytes", int64_t{0});
  }
  if (artifact.bytes.empty() || artifact.entry.empty())
    return absl::NotFoundError(absl::StrCat("no object and metadata in ", folder.string()));
  return artifact;
}

void add_target(const TunerOptions& options, std::vector<std::string>* command) {
  if (options.target.empty()) return;
  command->push_back("--target");
  command->push_back(options.target);
}

// A loaded kernel with the pool that it runs on.
struct Running {
  std::unique_ptr<ParallelPool> pool;
  std::unique_ptr<Runner> runner;
};

absl::StatusOr<std::function<void()>> load_export(const std::filesystem::path& folder,
                                                  void* const* arguments, int threads,
                                                  const std::vector<int>& cpus) {
  ASSIGN_OR_RETURN(const Artifact artifact, read_export(folder));
  auto running = std::make_shared<Running>();
  if (threads > 1) running->pool = std::make_unique<ParallelPool>(threads, cpus);
  ASSIGN_OR_RETURN(running->runner, Runner::create(artifact, running->pool.get()));
  if (running->runner->prepack(arguments) != 0) return absl::InternalError("prepack refused");
  return std::function<void()>(
      [running, arguments] { CHECK(running->runner->run(arguments) == 0); });
}

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  return variables;
}

absl::StatusOr<ProcessRun> run_process(const std::vector<std::string>& command,
                                       const std::vector<std::string>& environment,
                                       bool watch_memory) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return absl::InternalError("pipe: out of descriptors");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (const std::string& variable : environment)
    envp.push_back(const_cast<char*>(variable.c_str()));
  envp.push_back(nullptr);
  ProcessRun run;
  pid_t child = 0;
  const double begin = now();
  const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  if (error != 0) {
    close(pipe_ends[0]);
    return absl::NotFoundError(absl::StrCat(command[0], ": ", std::strerror(error)));
  }
  MemoryWatch memory(child, watch_memory);
  char buffer[65536];
  for (ssize_t got; (got = read(pipe_ends[0], buffer, sizeof(buffer))) > 0;)
    run.output.append(buffer, got);
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  run.wall_s = now() - begin;
  run.peak_bytes = memory.finish();
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

absl::StatusOr<Json> tune(const TunerOptions& options, const BenchCase& bench_case, int threads,
                          const std::string& database, ProcessRun* run, bool watch_memory) {
  std::vector<std::string> command = {options.binary, "tune"};
  for (const std::string& word : command_words(bench_case)) command.push_back(word);
  const double seconds = std::min(options.seconds_cap, bench_case.seconds);
  for (const std::string& word :
       {std::string("--threads"), absl::StrCat(threads), std::string("--trials"),
        absl::StrCat(bench_case.trials), std::string("--seconds"), absl::StrCat(seconds),
        std::string("--db"), database, std::string("--json"), std::string("-q")})
    command.push_back(word);
  add_target(options, &command);
  ASSIGN_OR_RETURN(ProcessRun finished, run_process(command, options.environment, watch_memory));
  Json json = Json::parse(finished.output, nullptr, /*allow_exceptions=*/false);
  if (finished.exit_code != 0 || !json.is_object())
    return absl::InternalError(absl::StrCat("tune ", common_words(bench_case), " ended with ",
                                            finished.exit_code));
  json["process_wall_s"] = finished.wall_s;
  if (run != nullptr) *run = std::move(finished);
  return json;
}

absl::StatusOr<ProcessRun> run_export(const TunerOptions& options, const BenchCase& bench_case,
                                      int threads, const std::string& database, bool frozen,
                                      const std::string& folder) {
  std::vector<std::string> command = {options.binary, "export"};
  for (const std::string& word : command_words(bench_case)) command.push_back(word);
  for (const std::string& word :
       {std::string("--threads"), absl::StrCat(threads), std::string("--db"), database,
        std::string("-q"), std::string("-o"), folder})
    command.push_back(word);
  add_target(options, &command);
  command.push_back(frozen ? "--frozen" : "--unverified");
  ASSIGN_OR_RETURN(const ProcessRun exported, run_process(command, options.environment));
  if (exported.exit_code != 0)
    return absl::InternalError(absl::StrCat("export ended with ", exported.exit_code));
  return exported;
}

OurSide our_side(const TunerOptions& options) {
  return [options](const BenchCase& bench_case, const Program&, void* const* arguments,
                   int threads) -> absl::StatusOr<OurKernel> {
    const std::string key = absl::StrCat(
        absl::Hex(hash64(absl::StrCat(common_words(bench_case), " ", threads))));
    const std::string database = absl::StrCat(options.folder, "/bench.db");
    const std::string scratch = absl::StrCat(options.folder, "/zero_", key, ".db");
    BenchCase untuned = bench_case;
    untuned.trials = 0;
    const std::string answer = absl::StrCat(options.folder, "/answer_", key);
    ASSIGN_OR_RETURN(const ProcessRun answered,
                     run_export(options, bench_case, threads, scratch, false, answer));
    std::filesystem::remove_all(answer);
    // A first answer that turns out to be wrong is no answer.
    const absl::StatusOr<Json> zero = tune(options, untuned, threads, scratch);
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(scratch + suffix);
    OurKernel kernel;
    ProcessRun tuned;
    ASSIGN_OR_RETURN(kernel.tuning, tune(options, bench_case, threads, database, &tuned, true));
    kernel.tuning["peak_bytes"] = tuned.peak_bytes;
    kernel.tuning["first_answer_s"] = answered.wall_s;
    if (zero.ok()) kernel.tuning["zero_trial_process_wall_s"] = (*zero)["process_wall_s"];

    const std::string folder = absl::StrCat(options.folder, "/kernel_", key);
    RETURN_IF_ERROR(run_export(options, bench_case, threads, database, true, folder).status());
    ASSIGN_OR_RETURN(kernel.run, load_export(folder, arguments, threads, options.cpus));
    kernel.implementation = kernel.tuning.value(Json::json_pointer("/best/trace"), std::string());
    return kernel;
  };
}

}  // namespace lw
