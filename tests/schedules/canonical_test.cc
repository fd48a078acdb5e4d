// The canonical text of a program says all that decides its results and its cost: it reads back, and
// what is stored of a workload follows from it.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/work/work.h"
#include "tests/support/parsed_program.h"
#include "tests/support/random_program.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

void expect_read_back(const Program& program) {
  const std::string text = canonical_text(program);
  SCOPED_TRACE(text);
  const absl::StatusOr<Program> read = parse_canonical(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(canonical_text(*read), text);
  // The text has sums of i64 as linear forms, and parts as equal that were written in two ways; what
  // is counted are lower bounds.
  const double before = count_flops(program).useful, after = count_flops(*read).useful;
  EXPECT_LE(after, 4 * before);
  EXPECT_GE(after, before / 4);
  EXPECT_NEAR(compulsory_bytes(*read), compulsory_bytes(program), 0.1 * compulsory_bytes(program));
  EXPECT_EQ(inputs(*read).size(), inputs(program).size());
  EXPECT_EQ(outputs(*read).size(), outputs(program).size());
}

TEST(Canonical, EveryOperatorOfTheLibraryReadsBack) {
  for (const OpDefinition& op : builtin_ops()) {
    SCOPED_TRACE(op.name);
    const absl::StatusOr<Program> program = instantiate(op, {});
    ASSERT_TRUE(program.ok()) << program.status();
    expect_read_back(*program);
  }
}

TEST(Canonical, RandomProgramsReadBack) {
  Rng rng(5);
  for (int i = 0; i < 400; ++i) {
    ProgramWriter writer(rng);
    const std::string text = i % 8 == 0 ? writer.write_chain()
                             : i % 8 == 1 ? writer.write_convolution() : writer.write();
    const absl::StatusOr<Program> program = parse_program(text, "random");
    ASSERT_TRUE(program.ok()) << program.status() << text;
    expect_read_back(*program);
  }
}

TEST(Canonical, ConstantsConditionsCastsAndGathersReadBack) {
  expect_read_back(parsed("in A: f32[8, 9] const\nin I: i64[8]\nin B: bool[8]\n"
                          "Z[] = cast(f32, 1e-38) * 3 - 1e30\n"
                          "out Y[i: 8, j: 9] = where(B[i] && (j + 2 * i) % 3 == 1 || A[I[i], j] > "
                          "0.1, pad(A[i + j - 3, 8 - j], -inf), cast(f32, i * 3 - j)) + Z[]\n"
                          "out K[i: 8] = I[i] * I[i] * 3 + I[7 - i] - 5\n"
                          "out N[] = sum[i: 8](cast(i32, cast(u8, 200) + cast(u8, I[i])))"));
}

// An output that a temporary reads, or that stands among them: the text has outputs first.
TEST(Canonical, DefinitionsStandInAnOrderOfTheTextAlone) {
  const Program one = parsed("in A: f32[8]\nT[i: 8] = A[i] * 2\nout O[i: 4] = T[i] + 1\n"
                             "U[i: 6] = T[i] * T[i + 1]\nV[i: 4] = U[i] - O[i]\n"
                             "out P[i: 2] = V[i] + A[i]");
  const Program other = parsed("in A: f32[8]\nT[i: 8] = A[i] * 2\nU[i: 6] = T[i] * T[i + 1]\n"
                               "out O[i: 4] = T[i] + 1\nV[i: 4] = U[i] - O[i]\n"
                               "out P[i: 2] = V[i] + A[i]");
  ASSERT_EQ(canonical_text(one), canonical_text(other));
  const auto extents = [](const Program& program) {
    std::vector<int64_t> all;
    const std::vector<int> order = *definition_order(program);
    for (int t : order) all.push_back(program.tensors[static_cast<size_t>(t)].shape[0]);
    return all;
  };
  EXPECT_EQ(extents(one), (std::vector<int64_t>{8, 8, 6, 4, 4, 2}));
  EXPECT_EQ(extents(other), extents(one));
  EXPECT_EQ(extents(*parse_canonical(canonical_text(one))), extents(one));
  expect_read_back(one);
}

TEST(Canonical, WhatIsNoCanonicalTextIsRefused) {
  const std::string head = "loopwright expression 1\n";
  const std::string good = head + "t0 in f32[8]\nt1 out f32[8] = (exp (read t0 a0))\n";
  ASSERT_TRUE(parse_canonical(good).ok());
  const std::pair<const char*, std::string> bads[] = {
      {"version", "loopwright expression 2\nt0 in f32[8]\n"},
      {"no output", head + "t0 in f32[8]\n"},
      {"does not end", good.substr(0, good.size() - 1)},
      {"its lines", head + "t1 in f32[8]\n"},
      {"a role", head + "t0 inn f32[8]\n"},
      {"the type", head + "t0 in f33[8]\n"},
      {"the type", head + "t0 in f32[8\n"},
      {"extent", head + "t0 in f32[0]\nt1 out f32[] = f32:1\n"},
      {"an operation", head + "t0 out f32[] = (sinus f32:1)\n"},
      {"constant", head + "t0 out f32[] = f32:one\n"},
      {"another way", head + "t0 out f32[] = f32:0.1\n"},  // %.17g has more digits
      {"another way", head + "t0 out i64[] = 1+2\n"},
      {"body of another type", head + "t0 out f32[] = i32:1\n"},
      {"ill-typed", head + "t0 in f32[8]\nt1 out f32[8] = (add (read t0 a0) i32:1)\n"},
      {"ill-typed", head + "t0 in f32[8]\nt1 out f32[8] = (pad f32:1 f32:2)\n"},
      {"without arguments", head + "t0 out f32[] = (select (lt 1 2))\n"},
      {"a sum", head + "t0 in f32[8]\nt1 out f32[8] = (read t0 a0)+(read t0 a0)\n"},
      {"a factor", head + "t0 in f32[8]\nt1 out f32[8] = (read t0 a0)*2\n"},
      {"an axis", head + "t0 in f32[8]\nt1 out f32[8] = (read t0 b0)\n"},
      {"a read", head + "t0 in f32[8]\nt1 out f32[8] = (read t7 a0)\n"},
      {"ranges over", head + "t0 in f32[7]\nt1 out f32[8] = (exp (read t0 a0))\n"},
      {"after it", head + "t0 out f32[8] = (exp (read t1 a0))\nt1 temp f32[8] = (exp (read t0 a0))\n"},
      {"after it", head + "t0 out f32[8] = (exp (read t0 a0))\n"},
  };
  for (const auto& [what, text] : bads) {
    const absl::StatusOr<Program> read = parse_canonical(text);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(what)) << text;
  }
  std::string deep = "t0 out f32[] = ";
  for (int i = 0; i < 100'000; ++i) deep += "(neg ";
  EXPECT_FALSE(parse_canonical(head + deep).ok());
  std::string wide = "t0 in i64[8]\nt1 out i64[] = (read t0 0)";
  for (int i = 0; i < 50'000; ++i) wide += "+(read t0 1)";
  EXPECT_FALSE(parse_canonical(head + wide + "\n").ok());
  EXPECT_FALSE(parse_canonical(std::string(2 << 20, 'x')).ok());
}

// Whatever one writes over a text of ours, it is refused or it is the text of what is read.
TEST(Canonical, SpoiltTextsNeverPassForOthers) {
  Rng rng(11);
  std::vector<std::string> texts;
  for (const OpDefinition& op : builtin_ops()) texts.push_back(canonical_text(*instantiate(op, {})));
  int read_back = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = texts[static_cast<size_t>(rng.below(static_cast<int64_t>(texts.size())))];
    for (int64_t n = 1 + rng.below(3); n > 0; --n) {
      const auto at = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())));
      const auto from = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())));
      switch (rng.below(4)) {
        case 0: text.erase(at, static_cast<size_t>(rng.below(6))); break;
        case 1: text.insert(at, text.substr(from, static_cast<size_t>(rng.below(12)))); break;
        case 2: text[at] = text[from]; break;
        default: text[at] = static_cast<char>(rng.below(256)); break;
      }
    }
    const absl::StatusOr<Program> read = parse_canonical(text);
    if (!read.ok()) continue;
    ++read_back;
    EXPECT_EQ(canonical_text(*read), text);
    EXPECT_TRUE(std::isfinite(count_flops(*read).useful)) << text;
  }
  EXPECT_GT(read_back, 100);               // other extents, say
}

}  // namespace
}  // namespace lw
