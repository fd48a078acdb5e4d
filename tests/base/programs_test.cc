// Random programs of the language against a second oracle: tests/programs draws them and computes them
// in NumPy with admissible errors, from the language's page alone, so that neither the generator nor
// the arithmetic shares a mistake with Loopwright.
//
// LW_DRAWN=1000 is a long form, LW_SEED its first seed. check_programs.py has more: --help.
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace {

std::string check(int64_t otherwise) {
  return "check_programs.py --loopwright " LW_BINARY_DIR "/loopwright --limit 300 --count " +
         std::to_string(lw::setting("LW_DRAWN", otherwise)) + " --seed " +
         std::to_string(lw::setting("LW_SEED", 1));
}

int python(const std::string& words) {
  const std::string command =
      "PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 " LW_SOURCE_DIR "/tests/programs/" + words;
  std::fflush(stdout);
  return std::system(command.c_str());
}

TEST(Programs, TheOracleAcceptsWhatIsRightAndSeesMistakes) {
  EXPECT_EQ(python("self_test.py --count 150"), 0) << "(needs python3-numpy)";
}

TEST(Programs, TheInterpreterIsRight) { EXPECT_EQ(python(check(100) + " --reference"), 0); }

// Ended by its trials: with sanitizers on a busy machine few seconds may hold none.
TEST(Programs, TuneAndRunAreRight) {
  EXPECT_EQ(python(check(20) + " --jobs 2 --seconds 120"), 0);
}

}  // namespace
