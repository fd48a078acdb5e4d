// A sub-group of its own that copies what the others read: its text, who meets where, and that no
// wait may be missing.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "tests/lower/group_kernels.h"
#include "tests/ptx/box_kernels.h"
#include "tests/support/kernel_text.h"

namespace lw {
namespace {

std::string produced() { return altered(kBoxes, "items 128 {", "items 128 producer {"); }
std::string produced_in_clusters() {
  return altered(clustered(), "cluster 2 {", "cluster 2 producer {");
}

TEST(Producer, WhatIsRight) {
  const Kernel kernel = parse_kernel(produced()).value();
  EXPECT_EQ(print(kernel), produced());
  EXPECT_NE(hash(parse_kernel(kBoxes).value()), hash(kernel));
  EXPECT_EQ(told(produced()), "");
  const absl::StatusOr<SimtProgram> program = printed(produced());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->launches[0].items, 160);
  EXPECT_EQ(times(program->source, "bar.sync"), 1);  // once the rings are there
  EXPECT_EQ(ran(*program), "");
}

TEST(Producer, OfACluster) {
  const absl::StatusOr<SimtProgram> program = printed(produced_in_clusters());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(times(program->source, "barrier.cluster.wait"), 2);  // as they begin and end
  EXPECT_EQ(ran(*program, box_arguments(2)), "");
}

// Where items come to two kLandeds and no set is committed between them, the producer meets them.
TEST(Producer, MeetsItemsWhereNothingIsCommitted) {
  const std::string text = altered(produced(), "    multiplied 0\n", "    multiplied 0\n    landed 0\n"
                                                                     "    landed 0\n");
  EXPECT_EQ(told(text), "");
  const absl::StatusOr<SimtProgram> program = printed(text);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(times(program->source, "bar.sync 0;"), 3);  // the rings, of both sides
  EXPECT_EQ(ran(*program), "");
}

// C's second half is what other items have stored in the first.
std::string handed_on() {
  std::string text = altered(produced(), "C f32 1024", "C f32 2048");
  text = altered(text, "registers f32x2 4", "registers f32x2 5");
  const std::string last = "    store C[256*v2 + 16*v4 + 2*v5 + 136] = r3 stride 1\n";
  std::string more = last + "    commit\n    landed 0\n";
  for (const int part : {0, 8, 128, 136}) {
    const std::string at = "C[-256*v2 + 16*v4 + 2*v5 + ";
    more += concat("    r4 = load ", at, 768 + part, "] stride 1\n    store ", at, 1792 + part,
                   "] = r4 stride 1\n");
  }
  return altered(text, last, more);
}

TEST(Producer, ItemsMeetWhereTheyHaveStored) {
  ProductArguments arguments = box_arguments();
  arguments.c.resize(2048);
  const std::vector<float> first = arguments.want;
  arguments.want.insert(arguments.want.end(), first.begin(), first.end());
  EXPECT_EQ(emulated_product(handed_on(), arguments, ItemOrder::Kind::kShuffled), "");
  const absl::StatusOr<SimtProgram> program = printed(handed_on());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(times(program->source, "bar.sync 1, 128;"), 1);
  EXPECT_EQ(ran(*program, arguments), "");
  SimtProgram wrong = *program;
  wrong.source = altered(wrong.source, "bar.sync 1, 128;", "bar.warp.sync -1;");
  EXPECT_NE(ran(wrong, arguments), "");
}

TEST(Producer, WhatIsRefused) {
  std::string alone = produced();
  for (const char* part : {"boxcopy s[0]", "boxcopy t[0]", "boxcopy s[4096*v7]", "boxcopy t[1024*v7]"}) {
    const size_t at = alone.find(part), begin = alone.rfind('\n', at);
    alone.erase(begin, alone.find('\n', at) - begin);
  }
  const std::pair<std::string, const char*> cases[] = {
      {alone, "a producer copies boxes"},
      {altered(altered(altered(produced(), "managed=30720", "managed=31744"),
                       "buffer t bf16", "buffer w f32 256 managed 0 30720\nbuffer t bf16"),
               "    commit\n", "    store w[2*v1] = r0 stride 1 async\n    commit\n"),
       "no item copies anything beside it"},
  };
  for (const auto& [text, says] : cases) expect_verifier_says(text, says);
  const absl::StatusOr<SimtProgram> program =
      printed(altered(produced(), "items 128 producer", "items 1024 producer"));
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().message().find("a group of 1056 items"), std::string::npos)
      << program.status();
}

// Each wait, each arrival and each number that says how many is needed.
void expect_spoils_are_seen(const SimtProgram& program, const ProductArguments& arguments, int least) {
  const std::string& text = program.source;
  int spoiled = 0;
  const auto spoil = [&](size_t begin, size_t end, const std::string& other) {
    ++spoiled;
    expect_seen(program, arguments, begin, end, other);
  };
  for (size_t at = text.find("mbarrier."); at != text.npos; at = text.find("mbarrier.", at + 1)) {
    const size_t begin = text.rfind('\n', at) + 1, end = text.find('\n', at);
    const std::string line = text.substr(begin, end - begin);
    if (line.find("fence") != line.npos || line.find("cp.async") != line.npos) continue;
    if (line.find("try_wait") == line.npos) {
      spoil(begin, end, "");
    } else {                               // and its branch back
      spoil(begin, text.find('\n', end + 1), "");
    }
    if (line.find("init") != line.npos) {
      const size_t count = text.rfind(' ', end);
      spoil(count, end, concat(" ", std::stoi(text.substr(count)) + 1, ";"));
    }
  }
  std::printf("%d texts\n", spoiled);
  EXPECT_GE(spoiled, least);
}

TEST(Producer, NoSpoiledTextPasses) {
  expect_spoils_are_seen(*printed(produced()), box_arguments(), 14);
  expect_spoils_are_seen(*printed(produced_in_clusters()), box_arguments(2), 14);
}

}  // namespace
}  // namespace lw
