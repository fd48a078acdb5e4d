// The story has an order: an include may only point up it. And files and rooms stay small enough to
// be held in mind at once.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace {

namespace fs = std::filesystem;

// The rooms, in the order that data flows; a file belongs to the longest prefix that fits. What
// stands in a folder beside rooms of its own says what all of them work with, or, where it comes
// last, what they are together. A header that is installed stands before the first room that makes
// its words true, and all may be read by whoever stands below it.
const std::vector<std::string> kStory = {
    "proto/", "src/base/", "src/base/fields/", "include/loopwright/context.h", "src/runtime/", "src/exec/",
    "src/npu/", "src/npu/isa/", "src/npu/module.", "src/npu/timing/", "src/npu/function/",
    "src/npu/programs/", "src/npu/compare/", "include/loopwright/npu.h", "src/npu/c/",
    "src/npu/cli/",
    "include/loopwright/type.h", "include/loopwright/program.h", "src/expr/",
    "include/loopwright/builder.h", "src/expr/language/", "src/expr/elaboration/",
    "src/expr/reference/", "include/loopwright/bounds.h", "src/expr/work/",
    "schedules/targets/", "schedules/targets/cpu/", "schedules/targets/npu/",
    "schedules/targets/simt/",
    "schedules/", "schedules/npu/", "schedules/space/", "schedules/steps/", "schedules/steps/npu/",
    "schedules/steps/simt/",
    "schedules/rules/", "schedules/rules/npu/", "schedules/rules/simt/",
    "src/export/", "src/kernel/", "src/lower/", "src/lower/values/", "src/lower/tiles/", "src/lower/cpu/",
    "src/lower/npu/", "src/lower/simt/",
    "cost_model/", "cost_model/cpu/", "cost_model/npu/", "cost_model/simt/", "cost_model/forest/",
    "cost_model/trees/",
    "tuner_db/", "tuner_db/records/", "include/loopwright/lookup.h", "tuner_db/ladder/",
    "tuner_db/messages/", "tuner_db/schema/", "tuner_db/sql/", "tuner_db/tables/",
    "tuner_db/postgres/", "tuner_db/files/",
    "include/loopwright/tuning.h", "src/search/", "src/build/build.h", "src/build/run_program.", "src/build/npu/",
    "src/build/interpreter/interpret_block.", "src/build/interpreter/lanes.",
    "src/build/interpreter/matrix_tile.", "src/build/interpreter/lockstep.",
    "src/build/interpreter/sets.", "src/build/interpreter/execute.h",
    "src/build/interpreter/wide_products.",
    "src/build/interpreter/execute.cc", "src/build/emulator/",
    "src/build/simt/program.", "src/build/simt/launches.", "src/build/simt/limits.",
    "src/build/simt/ranges.", "src/build/simt/export/", "src/build/simt/ptx/ptx_",
    "src/build/simt/ptx/assembler/", "src/build/simt/ptx/interpreter/",
    "src/build/simt/ptx/export/", "src/build/simt/ptx/", "src/build/simt/",
    "src/build/", "src/measure/run/timing.", "src/measure/run/caches.",
    "src/measure/machine/processors.", "src/runner/",
    "src/measure/run/", "src/measure/process/", "src/measure/machine/", "src/measure/judge/",
    "src/measure/workers/", "src/measure/cpu/", "src/measure/npu/",
    "src/measure/simt/common/", "src/measure/simt/", "src/measure/cuda/", "src/measure/exec/",
    "src/measure/",
    "src/peers/", "src/peers/match/", "src/peers/libraries/",
    "include/loopwright/task.h", "include/loopwright/kernel.h", "src/api/", "src/api/run/", "src/figures/",
    "src/learn/",
    "src/learn/npu/",
    "src/net/", "src/agent/",
    "src/serve/messages/", "src/serve/rows/", "src/serve/access/", "src/serve/queue/",
    "src/serve/studies/", "src/serve/core/", "src/serve/service/", "src/serve/page/",
    "src/serve/wire/", "src/serve/",
    "include/loopwright/client.h", "include/loopwright/loopwright.h", "src/client/",
    "src/client/grpc/", "src/embedded/", "src/embedded/remote/",
    "src/cli/", "src/cli/service/", "src/cli/db/", "src/cli/report/", "src/cli/model/",
    "src/cli/remote/", "src/cli/local/",
    "python/kernel/", "python/xla/", "bench/plain/", "bench/", "bench/service/", "bench/npu/"};

// Search sees building and measuring only through src/search/measurer.h, which the order implies:
// both stand below it.

constexpr int kMaxLines = 500;
constexpr int kMaxFiles = 25;
constexpr int kMaxPublicHeaders = 11;

// The headers that are installed, as their includes name them.
bool is_public(const std::string& path) {
  return fs::is_regular_file(fs::path(LW_SOURCE_DIR) / "include" / path);
}

int layer(const std::string& named) {
  const std::string path = is_public(named) ? "include/" + named : named;
  int best = -1;
  size_t length = 0;
  for (size_t i = 0; i < kStory.size(); ++i) {
    const std::string& prefix = kStory[i];
    if (path.rfind(prefix, 0) != 0 || prefix.size() <= length) continue;
    best = static_cast<int>(i);
    length = prefix.size();
  }
  return best;
}

std::vector<fs::path> sources() {
  std::vector<fs::path> files;
  for (const char* folder : {"include", "proto", "src", "schedules", "cost_model", "tuner_db",
                             "bench", "tests", "fuzz", "python"}) {
    const fs::path root = fs::path(LW_SOURCE_DIR) / folder;
    if (!fs::is_directory(root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string extension = entry.path().extension();
      if (extension == ".cc" || extension == ".h") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string path_in_repository(const fs::path& file) {
  return fs::relative(file, LW_SOURCE_DIR).generic_string();
}

TEST(Layers, IncludesPointUpTheStory) {
  for (const fs::path& file : sources()) {
    const int own = layer(path_in_repository(file));
    if (own < 0) continue;                 // tests may include anything
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      const std::string start = "#include \"";
      if (line.rfind(start, 0) != 0) continue;
      const std::string included = line.substr(start.size(), line.rfind('"') - start.size());
      const int other = layer(included);
      if (other < 0) continue;
      EXPECT_LE(other, own) << path_in_repository(file) << " includes " << included;
    }
  }
}

// A program that links Loopwright reads these headers and no other of ours; one that links the
// simulated NPU alone reads the one that is that library's.
TEST(Layers, InstalledHeadersIncludeEachOtherAlone) {
  const std::regex line_of(R"(#include ["<]([^">]+)[">])");
  int count = 0;
  for (const fs::path& file : sources()) {
    if (path_in_repository(file).rfind("include/", 0) != 0) continue;
    count += path_in_repository(file) != "include/loopwright/npu.h";
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      std::smatch found;
      if (!std::regex_match(line, found, line_of)) continue;
      const std::string included = found[1];
      const bool is_standard = line.find('<') != std::string::npos &&
                               included.find('/') == std::string::npos;
      EXPECT_TRUE(is_standard || included.rfind("absl/", 0) == 0 || is_public(included))
          << path_in_repository(file) << " includes " << included;
    }
  }
  EXPECT_GT(count, 0);
  EXPECT_LE(count, kMaxPublicHeaders);
}

TEST(Layers, EveryFolderOfCodeHasItsPlace) {
  for (const fs::path& file : sources()) {
    const std::string path = path_in_repository(file);
    if (path.rfind("tests/", 0) == 0 || path.rfind("fuzz/", 0) == 0) continue;
    EXPECT_GE(layer(path), 0) << path << " stands in no folder of the story";
  }
}

TEST(Layers, FilesStaySmall) {
  for (const fs::path& file : sources()) {
    std::ifstream in(file);
    int lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    EXPECT_LE(lines, kMaxLines) << path_in_repository(file);
  }
}

// Of everything that stands in a folder with code, whatever it is.
TEST(Layers, RoomsStaySmall) {
  std::set<fs::path> rooms;
  for (const fs::path& file : sources()) rooms.insert(file.parent_path());
  for (const fs::path& room : rooms) {
    const auto files = std::count_if(fs::directory_iterator(room), fs::directory_iterator(),
                                     [](const fs::directory_entry& e) { return e.is_regular_file(); });
    EXPECT_LE(files, kMaxFiles) << path_in_repository(room);
  }
}

// An older program's statements run on the tables of the next version while it is being replaced
// (docs/service.md, "Upgrades"): they name the columns that they mean.
TEST(Layers, StatementsNameTheirColumns) {
  const std::regex joints(R"("\s*")");      // of a literal over several lines
  const std::regex unnamed(R"(INSERT INTO \w+ (VALUES|SELECT|DEFAULT)|SELECT \*)");
  ASSERT_TRUE(std::regex_search("INSERT INTO t VALUES (1)", unnamed));
  for (const fs::path& file : sources()) {
    const std::string path = path_in_repository(file);
    if (path.rfind("tuner_db/", 0) != 0 && path.rfind("src/", 0) != 0) continue;
    std::ifstream in(file);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const std::string joined = std::regex_replace(text, joints, "");
    std::smatch found;
    EXPECT_FALSE(std::regex_search(joined, found, unnamed)) << path << ": " << found.str();
  }
}

TEST(Layers, HeadersAreIncludedOnce) {
  for (const fs::path& file : sources()) {
    if (file.extension() != ".h") continue;
    std::ifstream in(file);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const bool guarded = text.find("#pragma once") != std::string::npos ||
                         text.find("#ifndef LOOPWRIGHT_") != std::string::npos;
    EXPECT_TRUE(guarded) << path_in_repository(file);
  }
}

// The name that a line defines a type by, at the left margin; "" for any other line.
std::string defined_type(const std::string& line) {
  static const std::regex definition(
      R"((?:struct|class|enum|enum class) (\w+)(?: final)? ?[:{](?!:).*)");
  std::smatch found;
  return std::regex_match(line, found, definition) ? found[1].str() : "";
}

// Two types of one name, both outside unnamed namespaces, are one type to the linker: it keeps the
// inline functions of either, and the other's objects are made by them.
TEST(Layers, ATypeIsDefinedOnce) {
  ASSERT_EQ(defined_type("class Peer final : public Base {"), "Peer");
  ASSERT_EQ(defined_type("struct Service::Call {"), "");
  std::map<std::string, std::string> where;
  for (const fs::path& file : sources()) {
    std::ifstream in(file);
    std::vector<std::string> scope;      // the namespaces, as they are opened
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("namespace", 0) == 0 && line.back() == '{') scope.push_back(line);
      if (line.rfind("}  // namespace", 0) == 0) scope.pop_back();
      std::string name = defined_type(line);
      if (name.empty() || std::count(scope.begin(), scope.end(), "namespace {") > 0) continue;
      for (const std::string& one : scope) name.insert(0, one);
      const auto [first, is_new] = where.emplace(name, path_in_repository(file));
      EXPECT_TRUE(is_new) << name << ": " << first->second << ", " << path_in_repository(file);
    }
  }
}

}  // namespace
