// What only machines of one family have is read by that family's own code: files in a folder of its
// name. Everybody else asks schedules/targets/family.h.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace {

namespace fs = std::filesystem;

struct Family {
  std::string name;
  std::vector<std::string> hints;          // one of which is in every line that `part` finds, and
                                           // found a hundred times sooner
  std::regex part;                         // what its header declares, and the header
  // Of the layers that serve this family alone so far and have no folders of families yet. No other
  // file may join; one that moves into such a folder, or reads the part no more, goes.
  std::set<std::string> before_folders;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"cpu",
       {"cpu", "Cpu"},
       std::regex(R"(\bcpu\([a-z*]|\bCpuTarget\b|\bset_cpu\b|\bkCpuFamily\b)"
                  R"(|#include "schedules/targets/cpu/)"),
       {// LLVM's backend.
        "src/build/llvm_calls.cc", "src/build/llvm_dot.cc", "src/build/llvm_math.cc",
        "src/build/llvm_memory.cc", "src/build/llvm_module.cc", "src/build/llvm_ops.cc",
        "src/build/llvm_pipeline.cc",
        // Rates of processors and their memory, measured in vectors.
        "src/measure/machine/bandwidth.cc", "src/measure/machine/instructions.cc",
        "src/measure/machine/limits.cc", "src/measure/machine/peak.cc"}},
      {"npu",
       {"npu", "Npu"},
       std::regex(R"(\bnpu_config\(|\bnpu_target\(|\bkNpuFamily\b)"
                  R"(|#include "schedules/targets/npu/)"),
       {}},
      {"simt",
       {"simt", "Simt"},
       std::regex(R"(\bsimt\([a-z*]|\bSimtTarget\b|\bset_simt\b|\bkSimtFamily\b)"
                  R"(|#include "schedules/targets/simt/)"),
       {}}};
  return all;
}

std::vector<std::string> names_of_sources() {
  std::vector<std::string> files;
  for (const char* folder : {"include", "src", "schedules", "cost_model", "tuner_db", "bench"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(LW_SOURCE_DIR) / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cc" && extension != ".h") continue;
      files.push_back(fs::relative(entry.path(), LW_SOURCE_DIR).generic_string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "FILE:LINE: TEXT" of every line that reads the family's part.
std::vector<std::string> reads(const Family& family, const std::string& file) {
  std::vector<std::string> found;
  std::ifstream in(fs::path(LW_SOURCE_DIR) / file);
  int number = 1;
  for (std::string line; std::getline(in, line); ++number) {
    const std::string code = line.substr(0, line.find("//"));
    const auto holds = [&](const std::string& hint) { return code.find(hint) < code.size(); };
    if (std::none_of(family.hints.begin(), family.hints.end(), holds)) continue;
    if (!std::regex_search(code, family.part)) continue;
    found.push_back(file + ":" + std::to_string(number) + ": " + line);
  }
  return found;
}

TEST(Families, OnlyTheirOwnCodeReadsTheirPartOfATarget) {
  for (const Family& family : families()) {
    std::set<std::string> awaited = family.before_folders;
    int own = 0;
    for (const std::string& file : names_of_sources()) {
      const std::vector<std::string> found = reads(family, file);
      if (file.find("/" + family.name + "/") != std::string::npos) {
        own += !found.empty();
      } else if (awaited.count(file) > 0) {
        EXPECT_FALSE(found.empty()) << file << " reads nothing of it: strike it out above";
        awaited.erase(file);
      } else {
        for (const std::string& line : found) ADD_FAILURE() << line;
      }
    }
    EXPECT_GT(own, 0) << family.name;
    for (const std::string& file : awaited) ADD_FAILURE() << file << " is not there";
  }
}

// Every folder of a family among the targets is looked for above.
TEST(Families, AreAllKnownHere) {
  std::set<std::string> folders, names;
  for (const auto& entry : fs::directory_iterator(fs::path(LW_SOURCE_DIR) / "schedules/targets")) {
    if (entry.is_directory()) folders.insert(entry.path().filename());
  }
  for (const Family& family : families()) names.insert(family.name);
  EXPECT_EQ(folders, names);
}

}  // namespace
