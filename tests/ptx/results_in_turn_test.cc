// Results that functions are applied to wait for each other (src/build/simt/ptx/ptx_turns.h), and are what
// they are without that.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "src/kernel/kernel.h"
#include "tests/ptx/printed_program.h"

namespace lw {
namespace {

constexpr int kResults = 12;               // of an item, four lanes each

// Each item adds up its row of X ten times, and stores `function` of each result.
std::string results_kernel(const std::string& function) {
  std::string first, sums, results;
  for (int r = 0; r < kResults; ++r) {
    const std::string sum = concat("r", r), value = concat("r", 2 * kResults + r);
    const std::string place = concat("[48*v1 + ", 4 * r, "]");
    first += concat("    ", sum, " = const 0\n");
    sums += concat("      r", kResults + r, " = load X", place, " stride 1\n      ", sum, " = add ",
                   sum, ", r", kResults + r, "\n");
    results += concat("    ", value, " = ", function, " ", sum, "\n    store Y", place, " = ",
                      value, " stride 1\n");
  }
  return concat("kernel results arguments=2 variables=3 workspace=0 private=0 packed=0\n"
                "buffer X f32 1536 argument 0\nbuffer Y f32 1536 argument 1 written\n"
                "registers f32x4 36\nbody {\n  for v0 < 1 parallel items 32 {\n"
                "    int v1 = item\n", first, "    for v2 < 10 {\n", sums, "    }\n", results,
                "  }\n}\n");
}

int64_t occurrences(const std::string& text, const std::string& what) {
  return static_cast<int64_t>(std::vector<std::string>(absl::StrSplit(text, what)).size()) - 1;
}

std::string printed(const std::string& function, std::vector<float>* y) {
  const Kernel kernel = parse_kernel(results_kernel(function)).value();
  EXPECT_TRUE(verify(kernel).ok()) << verify(kernel);
  const absl::StatusOr<SimtProgram> program = ptx_program(kernel, *find_target("nvidia_sm80"));
  EXPECT_TRUE(program.ok()) << program.status();
  std::vector<float> x(32 * 4 * kResults);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) / 100 - 0.5f;
  y->resize(x.size());
  void* const arguments[] = {x.data(), y->data()};
  const absl::Status ran = run_printed(*program, arguments);
  EXPECT_TRUE(ran.ok()) << ran << program->source;
  return program->source;
}

// All words of all results but the first: 16 lanes are under way when four more begin.
TEST(ResultsInTurn, FunctionsOfManyResults) {
  std::vector<float> y;
  const std::string text = printed("tanh", &y);
  EXPECT_EQ(occurrences(text, "lop3.b32"), 4 * kResults - 16 - 4);
  EXPECT_EQ(occurrences(text, "%ctaid.z"), 1);
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y[i], std::tanh(10 * (static_cast<float>(i % 97) / 100 - 0.5f)), 1e-5) << i;
  }
}

TEST(ResultsInTurn, NothingWaitsForWhatIsShort) {
  std::vector<float> y;
  EXPECT_EQ(occurrences(printed("neg", &y), "lop3.b32"), 0);
}

}  // namespace
}  // namespace lw
