// Exported files in a folder of their own, and commands that compile and run them there.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "src/base/check.h"
#include "tests/support/files.h"

namespace lw {

// What is exported compiles without a remark.
inline constexpr const char* kStrictC = "cc -std=c99 -Wall -Wextra -Werror -pedantic ";

class ExportedFolder {
 public:
  ExportedFolder() {
    std::string name = testing::TempDir() + "/lw_exported_XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ExportedFolder() { std::filesystem::remove_all(path_); }
  ExportedFolder(const ExportedFolder&) = delete;
  void put(const std::string& name, const std::string& text) {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }
  std::string get(const std::string& name) const { return slurp(path_ + "/" + name); }
  // Its exit status; what it says is then in log().
  int run(const std::string& command) {
    const std::string line = "cd '" + path_ + "' && { " + command + "; } > log 2>&1";
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string log() const { return get("log"); }

 private:
  std::string path_;
};

}  // namespace lw
