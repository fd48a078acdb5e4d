// Copies of boxes of tensors: their text, what the verifier and the emulator say of those that nobody
// waits for, and the PTX of those that are right, ends of tensors among them.
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "src/lower/simt/barriers.h"
#include "tests/lower/group_kernels.h"
#include "tests/ptx/printed_program.h"
#include "tests/ptx/wide_kernels.h"
#include "tests/support/kernel_text.h"

namespace lw {
namespace {

// C[64, 16] = A[64, 304] B[16, 304]^T in blocks of 64, of which the last has 48 columns: of three slots
// one is multiplied, one may still be, one is fetched.
const char* const kBoxes =
    R"(kernel boxes arguments=3 variables=9 workspace=0 private=0 packed=0 managed=30720
buffer A bf16 19456 argument 0
buffer B bf16 4864 argument 1
buffer C f32 1024 argument 2 written
buffer s bf16 12288 managed 0 0 swizzled
buffer t bf16 3072 managed 0 24576 swizzled
registers f32x2 4
body {
  for v0 < 1 parallel items 128 {
    int v1 = item
    int v2 = div v1, 32
    int v3 = mod v1, 32
    int v4 = div v3, 4
    int v5 = mod v3, 4
    r0 = const 0
    r1 = const 0
    r2 = const 0
    r3 = const 0
    boxcopy s[0] (64, 1) = A[0] (304, 1) over 64, 64 clip 0 0 of 64 clip 1 0 of 304 pad 0
    boxcopy t[0] (64, 1) = B[0] (304, 1) over 16, 64 clip 0 0 of 16 clip 1 0 of 304 pad 0
    commit
    for v6 < 5 {
      landed 0
      if -v6 + 3 >= 0 {
        int v7 = mod v6 + 1, 3
        boxcopy s[4096*v7] (64, 1) = A[64*v6 + 64] (304, 1) over 64, 64 clip 0 0 of 64 clip 1 64*v6 + 64 of 304 pad 0
        boxcopy t[1024*v7] (64, 1) = B[64*v6 + 64] (304, 1) over 16, 64 clip 0 0 of 16 clip 1 64*v6 + 64 of 304 pad 0
      }
      commit
      int v8 = mod v6, 3
      widemul r0, r1, r2, r3 += s[1024*v2 + 4096*v8] (64, 0, 0, 1), t[1024*v8] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r0, r1, r2, r3 += s[1024*v2 + 4096*v8 + 16] (64, 0, 0, 1), t[1024*v8 + 16] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r0, r1, r2, r3 += s[1024*v2 + 4096*v8 + 32] (64, 0, 0, 1), t[1024*v8 + 32] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r0, r1, r2, r3 += s[1024*v2 + 4096*v8 + 48] (64, 0, 0, 1), t[1024*v8 + 48] (0, 0, 64, 1) over 16, 1, 16, 16
      multiplied 1
    }
    multiplied 0
    store C[256*v2 + 16*v4 + 2*v5] = r0 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 128] = r1 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 8] = r2 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 136] = r3 stride 1
  }
}
)";

constexpr size_t kColumns = 304;

ProductArguments box_arguments(size_t groups = 1) {
  const auto at = [](size_t row, size_t k) { return kColumns * row + k; };
  return product_arguments(64 * groups, 16, kColumns, at, at);
}

std::string told(const std::string& text, ItemOrder::Kind order = ItemOrder::Kind::kShuffled) {
  return emulated_product(text, box_arguments(), order);
}

absl::StatusOr<SimtProgram> printed(const std::string& text) {
  return ptx_program(parse_kernel(text).value(), *find_target("nvidia_sm90a"));
}

// What the interpreter of PTX says of the text, both ways to deliver; "wrong" of another result.
std::string ran(const SimtProgram& program, ProductArguments arguments = box_arguments()) {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    PtxOptions options;
    options.seed = seed;
    options.deliver_early = seed % 2 == 0;
    const absl::Status status = run_printed(program, arguments.pointers().data(), options);
    if (!status.ok()) return std::string(status.message());
    if (arguments.c != arguments.want) return "wrong";
  }
  return "";
}

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

// Two groups, each with rows of A of its own: what they have of B is alike.
std::string clustered() {
  std::string text = kBoxes;
  for (const auto& [from, to] :
       {std::pair("A bf16 19456", "A bf16 38912"), std::pair("C f32 1024", "C f32 2048"),
        std::pair("v0 < 1 parallel items 128", "v0 < 2 parallel items 128 cluster 2"),
        std::pair("= A[0] (304, 1) over 64, 64 clip 0 0 of 64",
                  "= A[19456*v0] (304, 1) over 64, 64 clip 0 64*v0 of 128"),
        std::pair("= A[64*v6 + 64] (304, 1) over 64, 64 clip 0 0 of 64",
                  "= A[19456*v0 + 64*v6 + 64] (304, 1) over 64, 64 clip 0 64*v0 of 128"),
        std::pair("C[256*v2 + 16*v4 + 2*v5]", "C[1024*v0 + 256*v2 + 16*v4 + 2*v5]"),
        std::pair("C[256*v2 + 16*v4 + 2*v5 + 128]", "C[1024*v0 + 256*v2 + 16*v4 + 2*v5 + 128]"),
        std::pair("C[256*v2 + 16*v4 + 2*v5 + 8]", "C[1024*v0 + 256*v2 + 16*v4 + 2*v5 + 8]"),
        std::pair("C[256*v2 + 16*v4 + 2*v5 + 136]", "C[1024*v0 + 256*v2 + 16*v4 + 2*v5 + 136]")}) {
    text = altered(text, from, to);
  }
  return text;
}

TEST(BoxCopies, GroupsOfAClusterCopyForEachOther) {
  const Kernel kernel = parse_kernel(clustered()).value();
  EXPECT_EQ(print(kernel), clustered());
  ASSERT_TRUE(verify(kernel).ok()) << verify(kernel);
  EXPECT_NE(hash(parse_kernel(altered(clustered(), " cluster 2", "")).value()), hash(kernel));
  const absl::StatusOr<SimtProgram> program = printed(clustered());
  ASSERT_TRUE(program.ok()) << program.status();
  const std::string& text = program->source;
  const auto times = [&](std::string_view word) {
    int count = 0;
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(times(".reqnctapercluster 2, 1, 1"), 1);
  EXPECT_EQ(times("cp.async.bulk.tensor"), 4);
  EXPECT_EQ(times(".multicast::cluster"), 2) << text;  // the columns, of which each has half
  EXPECT_EQ(times("bar.sync"), 0);
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
      SimtProgram wrong = *program;
      wrong.source.replace(begin, end - begin, word[0] == 'b' ? "  bar.sync 0;" : "");
      ++spoiled;
      EXPECT_NE(ran(wrong, arguments), "") << text.substr(begin, end - begin);
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
  const auto expect_seen = [&](size_t begin, size_t end, const std::string& other) {
    SimtProgram wrong = *program;
    wrong.source.replace(begin, end - begin, other);
    ++spoiled;
    EXPECT_NE(ran(wrong), "") << text.substr(begin, end - begin) << " -> " << other;
  };
  for (const char* word : {"mbarrier.init", "mbarrier.expect_tx", "mbarrier.arrive",
                           "cp.async.bulk.tensor", "bra L"}) {
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      const size_t begin = text.rfind('\n', at) + 1, end = text.find('\n', at);
      // (A loop's end is another matter, and a wait after all has come waits for nothing.)
      const bool waits = text.compare(begin, 4, "  @!") == 0;
      if (std::string_view(word) == "bra L" && !waits) continue;
      if (std::string_view(word) == "bra L" && text.find("mbarrier.try_wait", at) == text.npos) break;
      expect_seen(begin, end, "");
    }
  }
  for (const auto& [from, to] : {std::pair(", 8192", ", 4096"), std::pair(", 8192", ", 16384"),
                                 std::pair(", 2048", ", 1024"), std::pair(", 2048", ", 4096")}) {
    for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + 1)) {
      if (text.compare(at + std::strlen(from), 1, ";") != 0) continue;
      if (text.find("expect_tx", text.rfind('\n', at)) > at) continue;
      expect_seen(at, at + std::strlen(from), to);
    }
  }
  std::printf("%d texts\n", spoiled);
  EXPECT_GE(spoiled, 12);
}

}  // namespace
}  // namespace lw
