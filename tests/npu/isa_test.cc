// Programs as bytes and as text: there and back, and what is refused.
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/npu/isa/check.h"
#include "src/npu/isa/encode.h"
#include "src/npu/isa/text.h"
#include "tests/npu/configs.h"
#include "tests/npu/random_program.h"

namespace lw::npu {
namespace {

using testing::HasSubstr;

Program random_program(uint64_t seed, const std::string& config_name = "mid32") {
  const Config config = config_of(config_name);
  Rng rng(seed);
  return RandomProgram(config, &rng).make(60);
}

TEST(Encoding, GoesThereAndBack) {
  std::set<size_t> kinds;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Program program = random_program(seed, seed % 2 ? "big128" : "edge16");
    for (const Instruction& one : program) kinds.insert(one.body.index());
    const absl::StatusOr<std::string> bytes = encode(program);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const absl::StatusOr<Program> back = decode(*bytes);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(print_program(*back), print_program(program));
    EXPECT_EQ(*encode(*back), *bytes);
    const absl::StatusOr<std::string> image = make_image(program);
    ASSERT_TRUE(read_image(*image).ok());
    EXPECT_EQ(*make_image(*read_image(*image)), *image);
  }
  EXPECT_EQ(kinds.size(), std::size(kOps)) << "each instruction has been drawn";
}

// By hand, from docs/npu.md alone: what is stored does not move.
TEST(Encoding, HasItsBitsWhereTheyAreDocumented) {
  MxLdw ldw;
  ldw.w = 0xABCDE0;
  ldw.k = 32;
  ldw.n = 16;
  ldw.wstr = 0x12345;
  ldw.trans = true;
  Instruction one{ldw};
  one.wait = {5, kNoToken};
  one.signal = {63, kNoToken};
  one.dtype = Dtype::kBf16;
  const std::string bytes = *encode({one});
  ASSERT_EQ(bytes.size(), 32u);
  uint64_t header = 0, body = 0;
  for (int i = 0; i < 8; ++i) {
    header |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    body |= uint64_t{static_cast<unsigned char>(bytes[8 + i])} << (8 * i);
  }
  EXPECT_EQ(header, uint64_t{8} | 1 << 6 | 5 << 8 | 1 << 14 | uint64_t{63} << 22 |
                        uint64_t{1} << 28 | uint64_t{1} << 36);
  EXPECT_EQ(body, uint64_t{0xABCDE0} | uint64_t{32} << 24 | uint64_t{16} << 32 |
                      uint64_t{0x12345} << 40 | uint64_t{1} << 60);
  for (size_t i = 16; i < 32; ++i) EXPECT_EQ(bytes[i], 0);
}

TEST(Encoding, ExtendsOnlyWhatNeedsIt) {
  Ld ld;
  ld.n0 = 64;
  EXPECT_EQ(encode({{ld}})->size(), 32u);
  ld.n1 = 2;
  ld.dstr1 = 100;
  EXPECT_EQ(encode({{ld}})->size(), 64u);
}

TEST(Encoding, RefusesWhatNoEncoderWrites) {
  const std::string good = *encode(random_program(3));
  EXPECT_THAT(decode(good.substr(0, 33)).status().message(), HasSubstr("no whole number of words"));
  std::string bytes = good;
  bytes[0] = 62;
  EXPECT_THAT(decode(bytes).status().message(), HasSubstr("word 0: no instruction has op 62"));
  bytes[0] = 63;
  EXPECT_THAT(decode(bytes).status().message(), HasSubstr("an extension without"));
  bytes = *encode({{Halt()}});
  bytes[7] = 1;
  EXPECT_THAT(decode(bytes).status().message(), HasSubstr("reserved bits"));
  bytes[7] = 0;
  bytes[31] = 1;
  EXPECT_THAT(decode(bytes).status().message(), HasSubstr("bits behind its fields"));
  bytes = *encode({{VeBin()}});
  bytes[8] = 31;
  EXPECT_THAT(decode(bytes).status().message(), HasSubstr("fn cannot be 31"));
  VeReq wide;
  wide.rows = 5000;
  EXPECT_THAT(encode({{wide}}).status().message(), HasSubstr("rows = 5000 has more than 12 bits"));
  EXPECT_THAT(read_image("LWNPU\x01").status().message(), HasSubstr("another version"));
}

// Whatever bits change, decoding says no or gives what encodes to the same bytes.
TEST(Encoding, HasOneFormForEachInstruction) {
  Rng rng(11);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = *encode(random_program(round % 20));
    const int flips = 1 + static_cast<int>(rng.below(3));
    for (int i = 0; i < flips; ++i) bytes[rng.below(bytes.size())] ^= 1 << rng.below(8);
    const absl::StatusOr<Program> program = decode(bytes);
    if (!program.ok()) continue;
    ++accepted;
    ASSERT_EQ(*encode(*program), bytes);
  }
  EXPECT_GT(accepted, 300);
}

TEST(Text, PrintsWhatItParses) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Program program = random_program(seed);
    const std::string text = print_program(program);
    const absl::StatusOr<Program> back = parse_program(text, "test");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(print_program(*back), text);
    EXPECT_EQ(*encode(*back), *encode(program));
  }
}

TEST(Text, TakesCommentsSpacesAndHexadecimal) {
  const absl::StatusOr<Program> program = parse_program(
      "# rows\n\n  ld  dram=0x10 n0=0x40   wait=1,2 padval=-3 # a comment\r\nhalt", "test");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(print_program(*program), "ld dram=0x10 n0=64 padval=-3 wait=1,2\nhalt\n");
}

std::string text_error(const std::string& text, const Config* config = nullptr) {
  const absl::StatusOr<Program> program = parse_program(text, "p.s", config);
  return program.ok() ? "accepted" : std::string(program.status().message());
}

TEST(Text, SaysWhereWhatAndWhatToDo) {
  EXPECT_EQ(text_error("halt\n  mx.mn k=3"),
            "p.s:2:3: no instruction 'mx.mn'; did you mean 'mx.mm'?");
  EXPECT_EQ(text_error("ld dramm=3"), "p.s:1:4: ld has no field 'dramm'; did you mean 'dram'?");
  EXPECT_EQ(text_error("halt xyz=3"), "p.s:1:6: halt has no field 'xyz'; it has none");
  EXPECT_EQ(text_error("ld n1=5000"),
            "p.s:1:7: n1: write a whole number from 0 to 4095");
  EXPECT_EQ(text_error("ld n1=-1"), "p.s:1:7: n1: write a whole number from 0 to 4095");
  EXPECT_EQ(text_error("ld padval=200"),
            "p.s:1:11: padval: write a whole number from -128 to 127");
  EXPECT_EQ(text_error("ld n1"), "p.s:1:4: 'n1' has no value; write FIELD=VALUE");
  EXPECT_EQ(text_error("ld space=dram"), "p.s:1:10: space: write one of spm, acc");
  EXPECT_EQ(text_error("ld n1=1 n1=2"), "p.s:1:9: 'n1' stands here twice; leave one");
  EXPECT_EQ(text_error("ld wait=1,2,3"),
            "p.s:1:13: two semaphores at most; use another instruction");
  EXPECT_EQ(text_error("ld wait=64"), "p.s:1:9: semaphore: write a whole number from 0 to 63");
  EXPECT_EQ(text_error("ld dtype=i16"), "p.s:1:10: write one of i8, bf16, i32, f32");
  // All at once.
  EXPECT_EQ(text_error("lda\nhalt\nldb"),
            "p.s:1:1: no instruction 'lda'; did you mean 'ld'?\n"
            "p.s:3:1: no instruction 'ldb'; did you mean 'ld'?");
}

// A line each: what is refused, of a program that is otherwise accepted.
TEST(Checks, NameTheFieldTheValueAndWhatIsAllowed) {
  const Config config = config_of("mid32");
  const std::string ld = "ld n0=64 n1=2 dstr1=64 lstr1=64", mm = "mx.mm m=8 astr1=32 accstr=32";
  EXPECT_EQ(text_error(ld + "\n" + mm + " k=32 n=32", &config), "accepted");
  const std::pair<std::string, std::string> rows[] = {
      {ld + " loc=0x8", "loc = 8: a multiple of spm.align (32)"},
      {ld + " loc=0x7ffc0", "loc = 524224: ends at 524352, beyond the 524288 spm.bytes"},
      {"ld n0=64 n1=2 dstr1=64 lstr1=40", "lstr1 = 40: a multiple of spm.align (32)"},
      {"ld", "n0 = 0: 1 to 65535"},
      {"ld n0=64 dram=0xffffffffff", "beyond 2^40"},
      {"ld n0=64 cvt=widen", "cvt = 1: only into ACC"},
      {"ld n0=6 space=acc", "n0 = 6: a multiple of a word's bytes (4)"},
      {"ld n0=64 space=acc loc=0x8", "loc = 8: a multiple of acc.align (32)"},
      {"st n0=64 top=1", "ST pads nothing"},
      {mm + " k=33 n=32", "k = 33: 1 to 32"},
      {mm + " k=16 n=32", "k = 16: a multiple of align.k (32)"},
      {mm + " k=32 n=8", "n = 8: a multiple of align.n (32)"},
      {mm + " k=32 n=32 dtype=f32", "dtype = f32: one of mx.dtypes"},
      {mm + " k=32 n=32 acc=0x8000", "beyond the 32768 words of acc.bytes"},
      {"mx.mmos m=33 n=32 k=32 bstr=32", "m = 33: 1 to 32"},
      {"ve.bin n0=20", "n0 = 20: a multiple of ve.lanes (32)"},
      {"ve.req rows=1 n=32 dtype=i32", "dtype = i32: i8 or bf16"},
      {"ve.req rows=1 n=32 lo=3 hi=2", "lo = 3: at most hi (2)"},
      {"sync mask=0", "mask = 0: 1 to 15"},
  };
  for (const auto& [text, why] : rows) {
    EXPECT_THAT(text_error(text, &config), HasSubstr(why)) << text;
  }
}

TEST(Checks, KeepTheTwoEndsOfASemaphore) {
  const Config config = config_of("mid32");
  const std::string mm = "mx.mm m=8 astr1=32 accstr=32 k=32 n=32";
  EXPECT_THAT(text_error("ld n0=32 signal=3\nst n0=32 signal=3", &config),
              HasSubstr("instruction 1 (st): signal = 3: that end of the semaphore belongs to LD, "
                        "not ST"));
  EXPECT_THAT(text_error(mm + " wait=3\nst n0=32 wait=3", &config),
              HasSubstr("belongs to MX, not ST"));
  EXPECT_THAT(text_error(mm + " wait=3,3", &config), HasSubstr("twice the same semaphore"));
  EXPECT_THAT(text_error("halt wait=3", &config), HasSubstr("the dispatcher takes no tokens"));
  Config few = config;
  few.queues.semaphores = 8;
  EXPECT_THAT(text_error(mm + " wait=8", &few), HasSubstr("wait = 8: 0 to 7"));
}

// An accepted instruction with one of its addresses moved to the end of what it can say, which lies
// beyond SPM and ACC.
TEST(Checks, AcceptNothingThatLeavesAMemory) {
  const Config config = config_of("edge16");
  Rng rng(5);
  RandomProgram random(config, &rng);
  int moved = 0;
  for (int round = 0; round < 4000; ++round) {
    Instruction one = random.instruction(static_cast<Engine>(rng.below(kEngines)));
    ASSERT_TRUE(check_instruction(config, one).ok()) << print_instruction(one) << "\n"
                                                     << check_instruction(config, one);
    // What these forms do not read may be anywhere.
    const auto* const bin = std::get_if<VeBin>(&one.body);
    const bool reads_src1 = bin == nullptr || bin->broadcast != Broadcast::kImm;
    const bool reads_scale = one.dtype != Dtype::kBf16;
    const int64_t chosen = rng.below(4);
    bool changed = false;
    std::visit([&](auto& body) {
      int64_t addresses = 0;
      std::remove_cvref_t<decltype(body)>::fields(body, [&](BitField bits, auto& field) {
        const std::string name = bits.name;
        if (!bits.address || name == "dram" || (name == "src1" && !reads_src1)) return;
        if ((name == "scale" || name == "bias") && !reads_scale) return;
        if (addresses++ != chosen) return;
        if constexpr (std::is_same_v<decltype(field), uint32_t&>) {
          field = (1u << bits.bits) - 64;
          changed = true;
        }
      });
    }, one.body);
    moved += changed;
    EXPECT_EQ(check_instruction(config, one).ok(), !changed) << print_instruction(one);
  }
  EXPECT_GT(moved, 1000);
}

}  // namespace
}  // namespace lw::npu
