// The main function of every test program: PROGRAM [FILE] [OPTIONS]. FILE is a source file's name
// ("serve_queue_test"); without one the tests of all files run, in one process.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using Words = std::vector<std::string>;

Words& options() {
  static Words words;
  return words;
}

std::map<std::string, int (*)(int, char**), std::less<>>& entry_points() {
  static std::map<std::string, int (*)(int, char**), std::less<>> map;
  return map;
}

// Leaves out the tests of all other files. Returns how many stay.
int select(const std::string& file) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string own, others;
  int found = 0;
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const bool is_own = std::filesystem::path(test.file()).stem() == file;
      (is_own ? own : others) += ":" + std::string(suite.name()) + "." + test.name();
      found += is_own;
    }
  }
  std::string& filter = testing::GTEST_FLAG(filter);
  if (filter == "*" && found > 0) {
    filter = own.substr(1);                // short: GoogleTest prints it
  } else if (!others.empty()) {
    if (filter.find('-') == std::string::npos) others[0] = '-';
    filter += others;
  }
  return found;
}

// Adds why each test that was skipped was, a line each, to the file that LOOPWRIGHT_SKIPS names:
// .ci/run compares them with tests/skips.txt.
class SkipReasons : public testing::EmptyTestEventListener {
 public:
  explicit SkipReasons(const char* file) : file_(file) {}
  // Not as it happens: GoogleTest holds a lock then that current_test_info() wants.
  void OnTestEnd(const testing::TestInfo& test) override {
    for (int i = 0; i < test.result()->total_part_count(); ++i) {
      const testing::TestPartResult& part = test.result()->GetTestPartResult(i);
      if (!part.skipped()) continue;
      std::string reason = part.message();
      std::replace(reason.begin(), reason.end(), '\n', ' ');
      std::ofstream(file_, std::ios::app)
          << std::string(test.test_suite_name()) + "." + test.name() + ": " + reason + "\n";
    }
  }

 private:
  const char* file_;
};

}  // namespace

std::optional<std::string> test_option(std::string_view name) {
  const std::string start = "--" + std::string(name) + "=";
  for (const std::string& word : options()) {
    if (word.rfind(start, 0) == 0) return word.substr(start.size());
  }
  return std::nullopt;
}

int64_t setting(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

int rounds_of(int usual) {
  return static_cast<int>(std::max<int64_t>(1, usual * setting("LW_ROUNDS", 100) / 100));
}

bool eventually(const std::function<bool()>& holds, double patience_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

EntryPoint::EntryPoint(std::string_view word, int (*main)(int, char**)) {
  entry_points().emplace(word, main);
}

}  // namespace lw

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (const auto entry = lw::entry_points().find(first); entry != lw::entry_points().end()) {
    lw::options().assign(argv + 2, argv + argc);
    return entry->second(argc, argv);
  }
  testing::InitGoogleMock(&argc, argv);
  lw::options().assign(argv + 1, argv + argc);
  if (argc > 1 && argv[1][0] != '-' && lw::select(argv[1]) == 0) {
    std::fprintf(stderr, "%s: no tests in a file %s.cc\n", argv[0], argv[1]);
    return 2;
  }
  if (const char* file = std::getenv("LOOPWRIGHT_SKIPS")) {
    testing::UnitTest::GetInstance()->listeners().Append(new lw::SkipReasons(file));
  }
  return RUN_ALL_TESTS();
}
