// What the documents show is true: programs parse, links lead somewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "tests/support/files.h"

namespace lw {
namespace {

const std::filesystem::path kSource = LW_SOURCE_DIR;

std::vector<std::filesystem::path> documents() {
  std::vector<std::filesystem::path> files = {kSource / "README.md", kSource / "deploy/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "docs")) {
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  }
  return files;
}

std::string without_code(const std::string& text) {
  return std::regex_replace(text, std::regex("```[^`]*```|`[^`\n]*`"), "");
}

TEST(Documents, TheirProgramsParse) {
  int programs = 0;
  for (const std::filesystem::path& file : documents()) {
    const std::string text = slurp(file.string());
    const std::regex block("```\n([^`]*)```");
    for (std::sregex_iterator at(text.begin(), text.end(), block), end; at != end; ++at) {
      const std::string program = (*at)[1];
      if (program.rfind("$ ", 0) == 0) continue;  // what a command prints
      if (!std::regex_search(program, std::regex("(^|\n)op "))) continue;
      const absl::StatusOr<Module> module = parse_module(program, file.filename().string());
      EXPECT_TRUE(module.ok()) << program << module.status().message();
      ++programs;
    }
  }
  EXPECT_GE(programs, 3);
}

TEST(Documents, TheirLinksLeadToFiles) {
  int links = 0;
  for (const std::filesystem::path& file : documents()) {
    const std::string text = without_code(slurp(file.string()));
    const std::regex link(R"(\]\(([^)#:]+)\))");
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
      EXPECT_TRUE(std::filesystem::exists(file.parent_path() / (*at)[1].str()))
          << file << ": " << (*at)[1];
      ++links;
    }
  }
  EXPECT_GE(links, 10);
}

TEST(Documents, TheirPathsExist) {
  int paths = 0;
  for (const std::filesystem::path& file : documents()) {
    const std::string text = slurp(file.string());
    const std::regex path("`((src|schedules|cost_model|tuner_db|bench|tests|fuzz|proto|include|cmake|docs|"
                          "examples|deploy)/[a-z0-9_/]+\\.[a-z]+)`");
    for (std::sregex_iterator at(text.begin(), text.end(), path), end; at != end; ++at) {
      EXPECT_TRUE(std::filesystem::exists(kSource / (*at)[1].str())) << file << ": " << (*at)[1];
      ++paths;
    }
  }
  EXPECT_GE(paths, 40);
}

// Who writes a client from the .proto files alone has to know what every call needs.
TEST(Documents, EachServiceSaysThatItsCallsNeedDeadlines) {
  int services = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(kSource / "proto/loopwright/v1")) {
    const std::string text = slurp(entry.path().string());
    if (text.find("\nservice ") == std::string::npos) continue;
    EXPECT_NE(text.substr(0, text.find("\nservice ")).find("deadline"), std::string::npos)
        << entry.path();
    ++services;
  }
  EXPECT_GE(services, 4);
}

}  // namespace
}  // namespace lw
