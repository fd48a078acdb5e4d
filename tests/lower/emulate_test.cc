// What the emulator of groups reports, each by a kernel that does it, and that it names who did
// what; nothing of kernels that are right, in whatever order their items run.
#include "tests/lower/group_kernels.h"

namespace lw {
namespace {

// A loop of 2 groups of 4 items, in which t is a group's.
std::string with_body(const std::string& body, const std::string& head = "") {
  return R"(kernel k arguments=2 variables=4 workspace=64 private=64 packed=0 managed=64
buffer X f32 8 argument 0
buffer Y f32 8 argument 1 written
buffer t f32 4 managed 0 0
buffer w f32 8 workspace 0
buffer p f32 2 private 0
registers f32x1 2
body {
)" + head + R"(  for v0 < 2 parallel items 4 {
    int v1 = item
    r0 = load X[4*v0 + v1] stride 1
)" + body + R"(  }
}
)";
}

// In every order of the items the words stand in the report.
void expect_report(const std::string& text, const std::vector<std::string>& words) {
  for (const ItemOrder& order : item_orders()) {
    const std::string report = emulated(group_kernel(text), order);
    for (const std::string& word : words) {
      EXPECT_NE(report.find(word), report.npos) << report << "\n" << text;
    }
  }
}

void expect_none(const std::string& text) {
  for (const ItemOrder& order : item_orders()) {
    EXPECT_EQ(emulated(group_kernel(text), order), "") << text;
  }
}

const char* const kNoBarrier = "no barrier is between";
const char* const kAnyOrder = "groups come in any order";

TEST(Emulate, ItemsThatWriteOnePlaceRace) {
  expect_report(with_body("store t[0] = r0 stride 1\n"),
                {"race for t[0]", " writes what item ", "' writes", kNoBarrier});
  // Also where all write the same.
  expect_report(with_body("r0 = const 1\nstore t[2] = r0 stride 1\n"), {"race for t[2]"});
  // And through memory that all groups see.
  expect_report(with_body("store Y[4*v0] = r0 stride 1\n"), {"race for Y[", kNoBarrier});
  // A barrier between makes it right: the last word is one item's.
  expect_none(with_body("store t[v1] = r0 stride 1\nbarrier\nif -v1 >= 0 {\n"
                        "store t[3] = r0 stride 1\n}\n"));
}

TEST(Emulate, WhoReadsRacesWithWhoWrites) {
  const std::string before = "store t[v1] = r0 stride 1\n";
  const std::string after = "r1 = load t[-v1 + 3] stride 1\n";
  expect_report(with_body(before + "barrier\n" + before + after), {"race for t[", kNoBarrier});
  // Whose item comes first finds nothing there yet.
  expect_report(with_body(before + after), {"t[", "which was never written"});
  expect_none(with_body(before + "barrier\n" + after));
  // Overwritten while others still read.
  expect_report(with_body(before + "barrier\n" + after + before), {"race for t[", kNoBarrier});
  expect_none(with_body(before + "barrier\n" + after + "barrier\n" + before));
  // From one round of a loop to the next.
  const std::string round = before + "barrier\n" + after;
  expect_report(with_body("for v2 < 2 {\n" + round + "}\n"), {"race for t[", kNoBarrier});
  expect_none(with_body("for v2 < 2 {\n" + round + "barrier\n}\n"));
}

TEST(Emulate, GroupsRaceWhateverBarriersAreThere) {
  expect_report(with_body("barrier\nif -v1 >= 0 {\nstore Y[0] = r0 stride 1\n}\n"),
                {"race for Y[0]", "of group 0", "of group 1", kAnyOrder});
  expect_report(with_body("store w[4*v0 + v1] = r0 stride 1\nbarrier\n"
                          "r1 = load w[v1] stride 1\n", "r0 = const 0\nfor v3 < 8 {\n"
                          "store w[v3] = r0 stride 1\n}\n"),
                {"race for w[", kAnyOrder});
  // What both write is the same, whoever is first.
  expect_none(with_body("if -v1 >= 0 {\nr0 = const 1\nstore Y[0] = r0 stride 1\n}\n"));
  // A group's own memory is no other's.
  expect_none(with_body("store t[v1] = r0 stride 1\n"));
}

TEST(Emulate, WhatALoopWroteTheNextMayRead) {
  const std::string fill = "for v2 < 2 parallel items 4 {\nint v3 = item\nr0 = const 0\n"
                           "store w[-4*v2 - v3 + 7] = r0 stride 1\n}\n";
  expect_none(with_body("r1 = load w[4*v0 + v1] stride 1\n", fill));
}

TEST(Emulate, AccessesOutOfBoundsAreNamed) {
  expect_report(with_body("store t[v1 + 1] = r0 stride 1\n"),
                {"item 3 of group", "store t[v1 + 1]", "reaches element 4 of t, which has 4"});
  expect_report(with_body("store Y[4*v0 + v1 - 1] = r0 stride 1\n"),
                {"item 0 of group 0", "reaches element -1 of Y, which has 8"});
  expect_report(with_body("r1 = load X[4*v0 + 2*v1 + 2] stride 1\n"),
                {"reaches element ", " of X, which has 8"});
  expect_report(with_body("store p[v1] = r0 stride 1\n"),
                {"reaches element ", " of p, which has 2"});
  expect_report(with_body("store w[2*v0 + 8] = r0 stride 1\n"), {"of w, which has 8"});
}

TEST(Emulate, ReadsOfWhatWasNeverWrittenAreNamed) {
  expect_report(with_body("r1 = load t[v1] stride 1\n"), {"reads t[", "which was never written"});
  expect_report(with_body("r1 = load w[4*v0 + v1] stride 1\n"), {"reads w["});
  expect_report(with_body("r1 = load p[1] stride 1\n"), {"reads p[1]"});
  expect_report(with_body("store p[0] = r0 stride 1\nr1 = load p[1] stride 1\n"), {"reads p[1]"});
  // What another group wrote was to a memory of its own.
  expect_report(with_body("if -v0 >= 0 {\nstore t[v1] = r0 stride 1\n} else {\n"
                          "r1 = load t[v1] stride 1\n}\n"),
                {"reads t[", "which was never written"});
  expect_none(with_body("store p[1] = r0 stride 1\nr1 = load p[1] stride 1\n"));
}

TEST(Emulate, ItemsThatPartAroundABarrierAreNamed) {
  expect_report(with_body("if -v1 + 2 >= 0 {\nbarrier\n}\n"),
                {"items ", " of group ", " part at body", ", around a barrier"});
  expect_report(with_body("if -v1 + 2 >= 0 {\n} else {\nbarrier\n}\n"), {"around a barrier"});
  expect_report(with_body("if -v1 + 2 >= 0 {\nfor v2 < 2 {\nbarrier\n}\n}\n"),
                {"around a barrier"});
  // All of a group go the same way, or they part around no barrier.
  expect_none(with_body("if -v0 >= 0 {\nbarrier\n}\n"));
  expect_none(with_body("if -v1 + 2 >= 0 {\nstore t[v1] = r0 stride 1\n}\nbarrier\n"));
  expect_none(with_body("if -v1 + 9 >= 0 {\nbarrier\n}\n"));
}

TEST(Emulate, ItemsThatMissAnExchangeAreNamed) {
  expect_report(with_body("if -v1 + 2 >= 0 {\nr1 = across sum 4 r0\n}\n"),
                {"items ", " of group ", " part at body", ", around an exchange of registers"});
  expect_report(with_body("for v2 < 2 {\nif v1 - v2 >= 0 {\nr1 = across max 2 r0\n}\n}\n"),
                {"around an exchange of registers"});
  expect_none(with_body("if -v0 >= 0 {\nr1 = across sum 4 r0\n}\n"));
  // It is no barrier: of memory nobody sees more than before.
  expect_report(with_body("store t[v1] = r0 stride 1\nr1 = across sum 4 r0\n"
                          "r1 = load t[-v1 + 3] stride 1\n"),
                {"race for t[", kNoBarrier});
}

TEST(Emulate, BlocksHaveNoItems) {
  const Kernel kernel = group_kernel(
      R"(kernel b arguments=1 variables=0 workspace=0 private=0 packed=0
buffer Y f32 4 argument 0 written
body {
  fill Y[0] (1) = 0 over 4
}
)");
  std::vector<float> y(4);
  void* const arguments[] = {y.data()};
  EXPECT_EQ(emulate(kernel, arguments).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lw
