// Copies of boxes of tensors: their text, what the verifier and the emulator say of those that nobody
// waits for, and the PTX of those that are right, ends of tensors among them.
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "src/lower/simt/barriers.h"
#include "tests/lower/group_kernels.h"
#include "tests/ptx/box_kernels.h"
#include "tests/support/kernel_text.h"

namespace lw {
namespace {

TEST(BoxCopies, WhatIsRight) {
  const Kernel kernel = parse_kernel(kBoxes).value();
  EXPECT_EQ(print(kernel), kBoxes);
  expect_text_says_all(kernel, "boxes");
  for (const auto& [from, to] : {std::pair("clip 1 64*v6 + 64 of 304", "clip 1 64*v6 + 64 of 300"),
                                 std::pair("clip 1 0 of 304", "clip 1 1 of 304"),
                                 std::pair("boxcopy t[1024*v7]", "boxcopy t[0]"),
                                 std::pair("over 16, 64", "over 8, 64")}) {
    EXPECT_NE(hash(parse_kernel(altered(kBoxes, from, to)).value()), hash(kernel)) << to;
  }
  for (const auto order : {ItemOrder::Kind::kAscending, ItemOrder::Kind::kDescending,
                           ItemOrder::Kind::kShuffled}) {
    EXPECT_EQ(told(kBoxes, order), "");
  }
  // No further barrier is needed, and none is placed.
  Kernel placed = kernel;
  ASSERT_TRUE(lowering::place_barriers(placed).ok());
  EXPECT_EQ(print(placed), kBoxes);

  const absl::StatusOr<SimtProgram> program = printed(kBoxes);
  ASSERT_TRUE(program.ok()) << program.status();
  for (const char* part :
       {"mbarrier.init.shared.b64 [", "mbarrier.expect_tx.relaxed.cta.shared.b64 [",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [",
        "mbarrier.try_wait.parity.shared.b64 ", ".param .align 64 .b8 p"}) {
    EXPECT_NE(program->source.find(part), std::string::npos) << part << program->source;
  }
  EXPECT_EQ(program->source.find("cp.async.wait_group"), std::string::npos);
  EXPECT_EQ(ran(*program), "");
  // What says which tensor and which boxes goes where programs go.
  const absl::StatusOr<SimtProgram> read = parse_simt_program(to_text(*program));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->launches[0].parameters, program->launches[0].parameters);
  EXPECT_EQ(ran(*read), "");
}

TEST(BoxCopies, WhatComesTooEarlyIsSeen) {
  struct Case { const char *from, *to, *says; };
  const Case cases[] = {
      {"landed 0", "landed 1", "while it is on its way"},
      {"      landed 0\n", "", "while it is on its way"},
      {"      multiplied 1\n", "", "while a product reads it"},
      {"-v6 + 3 >= 0", "-v6 + 4 >= 0", "stores is on its way where group 0 ends"},
      // Another slot, columns, rows.
      {"mod v6 + 1, 3", "mod v6 + 2, 3", ""},
      {"= A[64*v6 + 64] (304, 1) over 64, 64 clip 0 0 of 64 clip 1 64*v6 + 64 of 304",
       "= A[64*v6] (304, 1) over 64, 64 clip 0 0 of 64 clip 1 64*v6 of 304", "wrong"},
      {"over 16, 64 clip 0 0 of 16 clip 1 64*v6 + 64 of 304",
       "over 8, 64 clip 0 0 of 16 clip 1 64*v6 + 64 of 304", "never written"},
  };
  for (const Case& c : cases) {
    const std::string said = told(altered(kBoxes, c.from, c.to));
    EXPECT_NE(said, "") << c.from << " -> " << c.to;
    EXPECT_NE(said.find(c.says), said.npos) << said << "\nafter " << c.from << " -> " << c.to;
  }
}

TEST(BoxCopies, WhatIsRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {altered(kBoxes, " clip 1 0 of 304 pad 0", " pad 0"), "each of its extents clipped"},
      {altered(kBoxes, " clip 1 0 of 304 pad 0", " clip 1 0 of 304"), "0 elsewhere"},
      {altered(kBoxes, "pad 0", "pad 1"), "0 elsewhere"},
      {altered(kBoxes, "= A[64*v6 + 64]", "= A[128*v6 + 64]"), "begins where it does for all"},
      {altered(kBoxes, "of 304 pad 0", "of 305 pad 0"), "reaches over more than its 19456"},
      {altered(kBoxes, "boxcopy s[4096*v7]", "boxcopy s[4097*v7]"), "may reach element"},
      {altered(kBoxes, "boxcopy s[4096*v7] (64, 1)", "boxcopy s[4096*v7] (32, 1)"),
       "write the same element"},
      {altered(kBoxes, "boxcopy t[0] (64, 1) = B[0]", "boxcopy C[0] (64, 1) = B[0]"),
       "a group's memory, as it is"},
      {altered(kBoxes, "buffer A bf16 19456 argument 0", "buffer A bf16 19456 argument 0 written"),
       "others write the box's tensor"},
      {altered(kBoxes, "if -v6 + 3 >= 0", "if -v1 + 3 >= 0"), "items may part"},
      {altered(kBoxes, "  for v0 < 1 parallel items 128 {",
               "  boxcopy s[0] (64, 1) = A[0] (304, 1) over 64, 64 clip 0 0 of 64 clip 1 0 of 304 "
               "pad 0\n  for v0 < 1 parallel items 128 {"),
       "must stand in a parallel loop"},
  };
  for (const auto& [text, says] : cases) expect_verifier_says(text, says);
}

// Boxes that the emulator takes and the engine does not.
TEST(BoxCopies, BoxesThatTheEngineHasNot) {
  const std::string odd = altered(altered(kBoxes, "(304, 1)", "(302, 1)"), "of 304", "of 302");
  std::string rows = odd;
  for (int i = 0; i < 8; ++i) {
    rows = rows.find("(304, 1)") == rows.npos ? rows : altered(rows, "(304, 1)", "(302, 1)");
    rows = rows.find("of 304") == rows.npos ? rows : altered(rows, "of 304", "of 302");
  }
  const std::pair<std::string, const char*> cases[] = {
      {rows, "no multiple of 16 bytes apart"},
      {altered(kBoxes, "boxcopy s[0] (64, 1)", "boxcopy s[64] (64, 1)"), "not aligned"},
      {altered(kBoxes, "boxcopy t[0] (64, 1) = B[0] (304, 1) over 16, 64",
               "boxcopy t[0] (32, 1) = B[0] (304, 1) over 16, 32"),
       "other rows than of 128 bytes"},
      {altered(kBoxes, "boxcopy t[0] (64, 1)", "boxcopy t[0] (128, 1)"), "is not dense"},
  };
  for (const auto& [text, says] : cases) {
    ASSERT_TRUE(verify(parse_kernel(text).value()).ok()) << verify(parse_kernel(text).value());
    const absl::StatusOr<SimtProgram> program = printed(text);
    ASSERT_FALSE(program.ok()) << says;
    EXPECT_NE(program.status().message().find(says), std::string::npos) << program.status();
  }
}

TEST(BoxCopies, GroupsOfAClusterCopyForEachOther) {
  const Kernel kernel = parse_kernel(clustered()).value();
  EXPECT_EQ(print(kernel), clustered());
  ASSERT_TRUE(verify(kernel).ok()) << verify(kernel);
  EXPECT_NE(hash(parse_kernel(altered(clustered(), " cluster 2", "")).value()), hash(kernel));
  const absl::StatusOr<SimtProgram> program = printed(clustered());
  ASSERT_TRUE(program.ok()) << program.status();
  const std::string& text = program->source;
  EXPECT_EQ(times(text, ".reqnctapercluster 2, 1, 1"), 1);
  EXPECT_EQ(times(text, "cp.async.bulk.tensor"), 4);
  EXPECT_EQ(times(text, ".multicast::cluster"), 2) << text;  // the columns, of which each has half
  EXPECT_EQ(times(text, "bar.sync"), 0);
  const ProductArguments arguments = box_arguments(2);
  EXPECT_EQ(ran(*program, arguments), "");
  // Each of what they wait for is needed.
  int spoiled = 0;
  for (const char* word : {"barrier.cluster.arrive", "mbarrier.expect_tx", "cp.async.bulk.tensor"}) {
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      const size_t begin = text.rfind('\n', at) + 1, wait = text.find("barrier.cluster.wait", at);
      size_t end = text.find('\n', at);
      if (std::string_view(word) == "barrier.cluster.arrive") {
        end = text.find('\n', wait);
        if (text.find("mbarrier", end) == text.npos) continue;  // the last: a courtesy
      }
      ++spoiled;
      expect_seen(*program, arguments, begin, end, word[0] == 'b' ? "  bar.sync 0;" : "");
    }
  }
  EXPECT_GE(spoiled, 9);
}

TEST(BoxCopies, ClustersThatAreRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {altered(clustered(), "cluster 2", "cluster 3"), "make no clusters of 3"},
      {altered(clustered(), "cluster 2", "cluster 0"), "make no clusters of 0"},
      {altered(clustered(), "if -v6 + 3 >= 0", "if -v6 + 3 >= 0, -v0 + 1 >= 0"),
       "groups of a cluster may part"},
  };
  for (const auto& [text, says] : cases) expect_verifier_says(text, says);
}

// What the printer says of waiting is needed: of each kind one is taken out of the text.
TEST(BoxCopies, NoSpoiledTextPasses) {
  const absl::StatusOr<SimtProgram> program = printed(kBoxes);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(ran(*program), "");
  const std::string& text = program->source;
  int spoiled = 0;
  const auto spoil = [&](size_t begin, size_t end, const std::string& other) {
    ++spoiled;
    expect_seen(*program, box_arguments(), begin, end, other);
  };
  for (const char* word : {"mbarrier.init", "mbarrier.expect_tx", "mbarrier.arrive",
                           "cp.async.bulk.tensor", "bra L"}) {
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      const size_t begin = text.rfind('\n', at) + 1, end = text.find('\n', at);
      // (A loop's end is another matter, and a wait after all has come waits for nothing.)
      const bool waits = text.compare(begin, 4, "  @!") == 0;
      if (std::string_view(word) == "bra L" && !waits) continue;
      if (std::string_view(word) == "bra L" && text.find("mbarrier.try_wait", at) == text.npos) break;
      spoil(begin, end, "");
    }
  }
  for (const auto& [from, to] : {std::pair(", 8192", ", 4096"), std::pair(", 8192", ", 16384"),
                                 std::pair(", 2048", ", 1024"), std::pair(", 2048", ", 4096")}) {
    for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + 1)) {
      if (text.compare(at + std::strlen(from), 1, ";") != 0) continue;
      if (text.find("expect_tx", text.rfind('\n', at)) > at) continue;
      spoil(at, at + std::strlen(from), to);
    }
  }
  std::printf("%d texts\n", spoiled);
  EXPECT_GE(spoiled, 12);
}

}  // namespace
}  // namespace lw
