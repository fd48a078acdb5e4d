// The text of an environment: stored, so it stays as it is.
#include "src/measure/environment.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace lw {
namespace {

Environment full() {
  Environment e;
  e.threads = 2;
  e.cache = Cache::kCold;
  e.cpus = {2, 3};
  e.parted = true;
  e.timer_ns = 20.4;
  e.hygiene = "\"load\":0.10,\"cpu\":\"x\"";
  e.isolation = "{\"level\":\"none\"}";
  e.oracle = "3 of \"4\" points";
  e.error = "{\"element\":\"D[3, 4]\",\"of_admissible\":0.5,\"absolute\":0}";
  e.limits = Limits{5, 6, {{"exp f32", 7}}};
  return e;
}

TEST(Environment, OfThisMachine) {
  EXPECT_EQ(to_json(full()),
            "{\"cache\":\"cold\",\"cpus\":[2,3],\"parted\":true,\"threads\":2,\"timer_ns\":20,"
            "\"load\":0.10,\"cpu\":\"x\",\"isolation\":{\"level\":\"none\"},"
            "\"oracle\":\"3 of '4' points\","
            "\"error\":{\"element\":\"D[3, 4]\",\"of_admissible\":0.5,\"absolute\":0},"
            "\"bandwidth_gbytes_per_s\":6.0,\"instructions_g_per_s\":{\"exp f32\":7.0},"
            "\"peak_gflops\":5.0}");
}

TEST(Environment, OfAnEmulator) {
  Environment e;
  e.emulator = "qemu-aarch64";
  EXPECT_EQ(to_json(e),
            "{\"emulated\":true,\"emulator\":\"qemu-aarch64\",\"estimated\":true,\"threads\":1}");
}

TEST(Environment, OfASimulator) {
  Environment e;
  e.simulator = "npu";
  e.isolation = "{\"level\":\"none\"}";
  e.counters = {{"cycles", 1234}, {"busy.mx", 0.5}, {"stall.ld.token", 1e300}};
  const std::string text = to_json(e);
  EXPECT_EQ(text,
            "{\"simulated\":true,\"simulator\":\"npu\",\"isolation\":{\"level\":\"none\"},"
            "\"counters\":{\"busy.mx\":0.5,\"cycles\":1234,\"stall.ld.token\":1e+300}}");
  std::vector<std::pair<std::string, double>> sorted = e.counters;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(parse_environment(text).counters, sorted);
}

// Nothing of this machine, whose load is not the board's.
TEST(Environment, OfABoard) {
  Environment e;
  e.board = "aarch64 0x41 0xd08";
  e.cache = Cache::kCold;
  e.threads = 4;
  e.hygiene = "\"load\":1";
  EXPECT_EQ(to_json(e), "{\"board\":\"aarch64 0x41 0xd08\",\"cache\":\"cold\",\"threads\":4}");
}

TEST(Environment, SaysAgainWhatItIsAskedFor) {
  const Environment back = parse_environment(to_json(full()));
  EXPECT_EQ(back.error, "{\"absolute\":0,\"element\":\"D[3, 4]\",\"of_admissible\":0.5}");
  ASSERT_TRUE(back.limits.has_value());
  EXPECT_EQ(back.limits->peak_gflops, 5);
  EXPECT_EQ(back.limits->bandwidth_gbytes, 6);
  EXPECT_EQ(back.limits->instructions, full().limits->instructions);
}

TEST(Environment, OfAnotherTimeOrNoneSaysNothing) {
  for (const char* text : {"{\"peak_gflops\":5,\"bandwidth_gbytes_per_s\":6}", "{}", "", "[1]",
                           "{\"instructions_g_per_s\":3,\"peak_gflops\":5}"}) {
    EXPECT_FALSE(parse_environment(text).limits.has_value()) << text;
    EXPECT_EQ(parse_environment(text).error, "") << text;
  }
}

}  // namespace
}  // namespace lw
