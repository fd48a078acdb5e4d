// docs/walk.md says the truth: each of its blocks is what its commands print.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/files.h"

namespace lw {
namespace {

namespace fs = std::filesystem;

// The document with what follows each "$ command" of its blocks printed anew in `folder`.
std::string walked(const std::string& document, const std::string& folder) {
  std::istringstream lines(document);
  std::string out, exports;
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("    export ", 0) == 0) exports = line.substr(4) + "; ";
    if (line == "```") in_block = !in_block;
    const bool command = in_block && line.rfind("$ ", 0) == 0;
    if (!in_block || command || line == "```") out += line + "\n";
    if (!command) continue;
    const std::string path = folder + "/printed";
    const std::string shell = "cd '" + folder + "' && { " + exports + line.substr(2) + "; } > '" +
                              path + "' 2> '" + path + ".err'";
    EXPECT_EQ(std::system(shell.c_str()), 0) << line << "\n" << slurp(path + ".err");
    out += slurp(path);
    if (!out.ends_with("\n")) out += "\n";
  }
  return out;
}

TEST_F(CliTest, WalkPrintsWhatItsCommandsPrint) {
  const fs::path source = LW_SOURCE_DIR;
  fs::copy(source / "examples", path("examples"), fs::copy_options::recursive);
  fs::create_directory(path("docs"));
  fs::copy(source / "docs/walk", path("docs/walk"), fs::copy_options::recursive);
  setenv("PATH", (std::string(LW_BINARY_DIR ":") + getenv("PATH")).c_str(), 1);
  const std::string file = source / "docs/walk.md";
  const std::string document = slurp(file);
  ASSERT_GT(document.size(), 4000u);
  const std::string printed = walked(document, folder_);
  if (rewrites_expectations()) std::ofstream(file) << printed;
  EXPECT_EQ(slurp(file), printed) << "run with LOOPWRIGHT_UPDATE=1";
}

}  // namespace
}  // namespace lw
