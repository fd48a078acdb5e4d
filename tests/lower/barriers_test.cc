// Where the items of a group meet: barriers are placed in kernels by hand that have none, or some
// anywhere. The emulator says that none is missing and that none is superfluous.
#include "src/lower/simt/barriers.h"

#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "tests/lower/group_kernels.h"

namespace lw {
namespace {

// The kernel's text with barriers placed, or why there is no place for them.
std::string placed(const std::string& text) {
  Kernel kernel = group_kernel(text);
  const absl::Status status = lowering::place_barriers(kernel);
  return status.ok() ? print(kernel) : std::string(status.message());
}

// That barriers stand just where `text` has them, wherever they stood before, that they are enough,
// and that with any of them left out they are not.
void expect_placed(const std::string& text) {
  const std::string expected = print(group_kernel(text));
  EXPECT_EQ(placed(without_barriers(text)), expected);
  std::string everywhere;                  // where it parts no item from others
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    const std::string line = text.substr(at, end - at);
    if (line.find(" store ") != line.npos) everywhere += "barrier\n";
    everywhere += line;
    at = end;
  }
  EXPECT_EQ(placed(everywhere), expected);
  const absl::Status status = verify(group_kernel(text));
  EXPECT_TRUE(status.ok()) << status;
  for (const ItemOrder& order : item_orders()) {
    EXPECT_EQ(emulated(group_kernel(text), order), "") << text;
  }
  size_t barriers = 0;
  for (size_t at = 0; (at = text.find("barrier\n", at)) != text.npos; ++at) ++barriers;
  for (size_t n = 0; n < barriers; ++n) {
    const Kernel without = group_kernel(replaced(text, "barrier\n", "\n", static_cast<int>(n)));
    EXPECT_NE(emulated(without), "") << n << " of " << text;  // a race, or what is not there yet
  }
}

// A group of 8 items with 32 elements t in common and 4 of each item's own results; `body`: what
// they do, as statements of a list.
std::string of_eight(const std::string& body) {
  std::string text =
      R"(kernel eight arguments=2 variables=8 workspace=0 private=0 packed=0 managed=128
buffer X f32 256 argument 0
buffer Y f32 64 argument 1 written
buffer t f32 32 managed 0 0
registers f32x1 2
registers boolx1 1
registers i64x1 1
body {
  for v0 < 2 parallel items 8 {
    int v1 = item
)";
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at) + 1;
    text += "    " + body.substr(at, end - at);
    at = end;
  }
  return text + "  }\n}\n";
}

TEST(Barriers, StandWherePeopleWouldPutThem) {
  // As late as possible.
  expect_placed(replaced(kGroupGemm, "barrier\n      int v7 = mod v6, 2\n",
                         "int v7 = mod v6, 2\n      barrier\n"));
  for (const char* text : {kGroupHalves, kGroupTranspose}) expect_placed(text);
}

TEST(Barriers, OneSlotIsReadBeforeItIsOverwritten) {
  expect_placed(of_eight(R"(for v2 < 4 {
  r0 = load X[8*v2 + v1] stride 1
  barrier
  store t[v1] = r0 stride 1
  barrier
  r1 = load t[-v1 + 7] stride 1
  store Y[8*v2 + v1 + 32*v0] = r1 stride 1
}
)"));
}

// While one is read the next is written: the items meet once an iteration.
TEST(Barriers, SlotsThatTakeTurnsTakeOne) {
  for (const int slots : {2, 3, 4}) {
    expect_placed(of_eight(concat(R"(for v2 < 4 {
  int v3 = mod v2, )", slots, R"(
  r0 = load X[8*v2 + v1] stride 1
  store t[v1 + 8*v3] = r0 stride 1
  barrier
  r1 = load t[-v1 + 8*v3 + 7] stride 1
  store Y[8*v2 + v1 + 32*v0] = r1 stride 1
}
)")));
  }
}

TEST(Barriers, FetchedAheadTheyMeetOnceToo) {
  expect_placed(of_eight(R"(r0 = load X[v1] stride 1
store t[v1] = r0 stride 1
for v2 < 4 {
  int v3 = mod v2, 2
  barrier
  if -v2 + 2 >= 0 {
    int v4 = mod v2 + 1, 2
    r0 = load X[8*v2 + v1 + 8] stride 1
    store t[v1 + 8*v4] = r0 stride 1
  }
  r1 = load t[-v1 + 8*v3 + 7] stride 1
  store Y[8*v2 + v1 + 32*v0] = r1 stride 1
}
)"));
}

// Of two iterations the second fetches nothing, so that it overwrites nothing that is read.
TEST(Barriers, IterationsWithoutAnAccessCountAsNone) {
  expect_placed(of_eight(R"(for v2 < 2 {
  if -v2 >= 0 {
    r0 = load X[v1] stride 1
    store t[v1] = r0 stride 1
  }
  barrier
  r1 = load t[-v1 + 7] stride 1
  store Y[8*v2 + v1 + 32*v0] = r1 stride 1
}
)"));
}

TEST(Barriers, WhatAnItemWroteItMayRead) {
  expect_placed(of_eight(R"(int v2 = div v1, 2
int v3 = mod v1, 2
for v4 < 4 {
  r0 = load X[v1 + 8*v4] stride 1
  store t[8*v2 + 4*v3 + v4] = r0 stride 1
  r1 = load t[4*v1 + v4] stride 1
  store Y[v1 + 32*v0 + 8*v4] = r1 stride 1
}
)"));
}

// Rows of 4, of which an item reads one of another's only in the last round.
TEST(Barriers, LoopsAreRunElementByElement) {
  expect_placed(of_eight(R"(for v2 < 4 {
  r0 = load X[v1 + 8*v2] stride 1
  store t[v1 + 8*v2] = r0 stride 1
}
for v3 < 4 {
  r1 = load t[v1 + 8*v3] stride 1
  store Y[v1 + 8*v3 + 32*v0] = r1 stride 1
}
)"));
  expect_placed(of_eight(R"(for v2 < 4 {
  r0 = load X[v1 + 8*v2] stride 1
  store t[v1 + 8*v2] = r0 stride 1
}
barrier
for v3 < 4 {
  r1 = load t[v1 + 7*v3] stride 1
  store Y[v1 + 8*v3 + 32*v0] = r1 stride 1
}
)"));
}

TEST(Barriers, MasksAndConditionsSayWhoTouches) {
  expect_placed(of_eight(R"(r0 = load X[v1] stride 1
store t[v1] = r0 stride 1
if -v1 >= 0 {
  store t[8] = r0 stride 1
}
r2 = lanemask -v1 stride 0
r1 = load t[v1 + 8] stride 1 mask r2
store Y[v1 + 32*v0] = r1 stride 1
)"));
}

TEST(Barriers, ResultsInMemoryAreEachItemsOwn) {
  expect_placed(of_eight(R"(r0 = const 0
store Y[v1 + 32*v0] = r0 stride 1
for v2 < 4 {
  r0 = load Y[v1 + 32*v0] stride 1
  r1 = load X[8*v2 + v1] stride 1
  r0 = add r0, r1
  store Y[v1 + 32*v0] = r0 stride 1
}
)"));
  expect_placed(of_eight(R"(r0 = load X[v1] stride 1
store Y[v1 + 32*v0] = r0 stride 1
barrier
r1 = load Y[-v1 + 32*v0 + 7] stride 1
store Y[v1 + 32*v0 + 8] = r1 stride 1
)"));
}

// What is behind a loop that meets has no need to meet again.
TEST(Barriers, NoneIsThereForWhatOthersPart) {
  expect_placed(of_eight(R"(for v2 < 4 {
  r0 = load X[8*v2 + v1] stride 1
  store t[v1] = r0 stride 1
  barrier
  r1 = load t[-v1 + 7] stride 1
  store t[v1 + 8] = r1 stride 1
  barrier
  r1 = load t[-v1 + 15] stride 1
  store Y[8*v2 + v1 + 32*v0] = r1 stride 1
}
)"));
}

// Data may lead anywhere in the buffer.
TEST(Barriers, WhatIsNotKnownMeets) {
  const std::string text = of_eight(R"(r0 = load X[v1] stride 1
store t[v1] = r0 stride 1
r3 = cast r0
int v2 = register r3
int v3 = max v2, 0
int v4 = min v3, 7
barrier
r1 = load t[v4] stride 1
store Y[v1 + 32*v0] = r1 stride 1
)");
  EXPECT_EQ(placed(without_barriers(text)), print(group_kernel(text)));
}

TEST(Barriers, ItemsThatPartCannotMeet) {
  const std::string parts = of_eight(R"(if -v1 + 5 >= 0 {
  r0 = load X[v1] stride 1
  store t[v1] = r0 stride 1
  r1 = load t[-v1 + 5] stride 1
  store Y[v1 + 32*v0] = r1 stride 1
}
)");
  EXPECT_NE(placed(parts).find("infeasible: items would have to meet where they may part"),
            std::string::npos) << placed(parts);
  const std::string sides = of_eight(R"(r0 = load X[v1] stride 1
if -v1 + 3 >= 0 {
  store t[v1] = r0 stride 1
} else {
  r0 = load t[v1 - 4] stride 1
}
)");
  EXPECT_NE(placed(sides).find("may part"), std::string::npos) << placed(sides);
  const std::string same = of_eight(R"(r0 = load X[v1] stride 1
store t[0] = r0 stride 1
r0 = load t[0] stride 1
)");
  EXPECT_NE(placed(same).find("infeasible: several write the same element of t"), std::string::npos)
      << placed(same);
}

// Rows of sub-groups, whose items nobody dealt anything: all would store the same, at once.
TEST(Barriers, ItemsOfASubGroupHaveParts) {
  Program program = parse_program("op p() {\n  in X: f32[2, 47]\n  s[n: 2] = sum[j: 47](X[n, j])\n"
                                  "  out Y[n: 2, j: 47] = X[n, j] * s[n]\n}\n", "").value();
  const Nest start = make_nest(std::make_shared<const Program>(std::move(program)),
                               std::make_shared<const Target>(*find_target("nvidia_sm80")), 1);
  const std::string rows = "compute_at(s, Y; 1)\nsub_groups(Y, n; 2)\nsub_groups(s, n)\n";
  const auto lowered = [&](const std::string& more) {
    const absl::StatusOr<Nest> nest = replay(start, parse_trace(rows + more).value());
    EXPECT_TRUE(nest.ok()) << nest.status();
    return nest.ok() ? std::string(lower(*nest).status().message()) : "";
  };
  EXPECT_EQ(lowered("register_tile(Y, j; 16, 0)\nparallel(Y; 0, 1)\n"),
            "infeasible: the items of a sub-group all compute the same of Y");
  EXPECT_EQ(lowered("register_tile(Y, j; 1, 0)\nparallel(Y; 0, 1)\nitems(Y; 2, 1)\n"), "");
}

}  // namespace
}  // namespace lw
