// Runs the `loopwright` binary as a user does: in a folder of its own, with captured output.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/files.h"

namespace lw {

struct CliRun {
  int code = -1;                           // 128 + signal when it was killed
  std::string out, err;
  // The one document on stdout; a failure of the test when there is none.
  nlohmann::json json() const {
    nlohmann::json document = nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(document.is_discarded()) << "not JSON:\n" << out << err;
    return document;
  }
};

inline constexpr char kTiny[] = "matmul M=24 N=40 K=16 --threads 1";

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "loopwright_cli_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    unsetenv("LOOPWRIGHT_DB");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  // Starts a program in the test's folder, its output going to files there.
  pid_t start(std::vector<std::string> words) const {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder_.c_str());
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path("stdout").c_str(), flags, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, path("stderr").c_str(), flags, 0600);
    pid_t child = -1;
    const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0 || child <= 0) {
      // Tests kill what they start, and kill(-1) reaches every process there is.
      std::fprintf(stderr, "cannot start %s: %s\n", argv[0], std::strerror(error));
      std::abort();
    }
    return child;
  }

  CliRun finish(pid_t child) const {
    int status = 0;
    waitpid(child, &status, 0);
    CliRun run;
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    run.out = slurp(path("stdout"));
    run.err = slurp(path("stderr"));
    return run;
  }

  CliRun program(const std::vector<std::string>& words) const { return finish(start(words)); }

  static std::vector<std::string> command(const std::vector<std::string>& words) {
    std::vector<std::string> all = {LW_BINARY_DIR "/loopwright"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  // loopwright WORDS...; "a b c" is three words.
  CliRun cli(const std::string& words) const {
    std::istringstream pieces(words);
    std::vector<std::string> all;
    for (std::string piece; pieces >> piece;) all.push_back(piece);
    return program(command(all));
  }

  std::string folder_;
};

}  // namespace lw
