// Certificates for tests, made by deploy/certificates once per test program.
#pragma once

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "src/net/certificates.h"

namespace lw::tls {

namespace fs = std::filesystem;

// A folder that its destructor removes.
struct TempFolder {
  fs::path path;
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "loopwright-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TempFolder() { fs::remove_all(path); }
};

struct ShellResult {
  int exit = 0;
  std::string output;                      // both streams
};

inline ShellResult shell(const std::string& command) {
  ShellResult result;
  FILE* pipe = popen(("{ " + command + "; } 2>&1 < /dev/null").c_str(), "r");
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof(buffer), pipe))
    result.output.append(buffer, count);
  const int status = pclose(pipe);
  result.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return result;
}

inline ShellResult certificates(const std::string& arguments) {
  return shell(std::string(LW_SOURCE_DIR) + "/deploy/certificates " + arguments);
}

inline TlsFiles files_in(const fs::path& folder) {
  return {folder / "ca.pem", folder / "cert.pem", folder / "key.pem"};
}

inline std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

}  // namespace lw::tls
