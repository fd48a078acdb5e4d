// The rules of time, each by a few instructions whose cycles are computed by hand.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/npu/isa/text.h"
#include "src/npu/timing/report.h"
#include "tests/npu/configs.h"

namespace lw::npu {
namespace {

using testing::HasSubstr;

// 32 x 32, memory that takes no time, a dispatch that takes none.
Config plain() {
  Config c = config_of("mid32");
  c.dram.kind = DramKind::kIdeal;
  c.queues.dispatch = 0;
  c.queues.depth = 64;
  c.dma.setup = c.dma.latency = 0;
  return c;
}

Timing run(const Config& config, const std::string& text, std::vector<Span>* spans = nullptr) {
  const absl::StatusOr<Program> program = parse_program(text, "test");
  EXPECT_TRUE(program.ok()) << program.status();
  TimingOptions options;
  options.timeline = spans;
  absl::StatusOr<Timing> timing = simulate(config, *program, options);
  EXPECT_TRUE(timing.ok()) << timing.status();
  return timing.ok() ? *std::move(timing) : Timing();
}

std::string times(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

const std::string kLdw = "mx.ldw k=32 n=32 wstr=32\n";
std::string mm(int m) { return concat("mx.mm m=", m, " astr1=32 accstr=32 k=32 n=32 swap=1\n"); }

// 2R - 1 for the first weights, max(m, R) a fold, R + C - 2 + mx_lat for the last.
TEST(Array, PipelinesFolds) {
  for (int m : {1, 4, 16, 32, 33, 100}) {
    for (int folds : {1, 2, 7}) {
      const int64_t last = std::max(m, 4);
      EXPECT_EQ(run(plain(), times(kLdw + mm(m), folds)).cycles,
                63 + (folds - 1) * std::max(m, 32) + last + 62 + 4)
          << m << " " << folds;
    }
  }
}

TEST(Array, KeepsWeightsThatAreNotSwapped) {
  const std::string again = "mx.mm m=8 astr1=32 accstr=32 k=32 n=32\n";
  EXPECT_EQ(run(plain(), kLdw + mm(8) + times(again, 3)).cycles, 63 + 4 * 8 + 62 + 4);
}

TEST(Array, DrainsOutputStationaryFolds) {
  const auto mmos = [](int k) {
    return concat("mx.mmos m=32 n=32 k=", k, " astr=", (k + 31) / 32 * 32, " bstr=32 accstr=32\n");
  };
  EXPECT_EQ(run(plain(), mmos(64)).cycles, 64 + 62 + 32);
  EXPECT_EQ(run(plain(), times(mmos(64), 3)).cycles, 2 * 64 + 64 + 62 + 32);
  // A short reduction waits for the drain of the one before.
  Config short_k = plain();
  short_k.align.k = 1;
  EXPECT_EQ(run(short_k, times(mmos(5), 3)).cycles, 2 * 32 + 5 + 62 + 32);
}

TEST(Array, HasOtherModes) {
  Config serial = plain();
  serial.mx.mode = ArrayMode::kSerial;
  serial.mx.latency = 0;
  EXPECT_EQ(run(serial, times(kLdw + mm(10), 3)).cycles, 3 * (2 * 32 + 32 + 10 - 2));
  Config direct = plain();
  direct.mx.mode = ArrayMode::kDirect;
  direct.mx.latency = 0;
  direct.mx.m_min = 1;
  EXPECT_EQ(run(direct, kLdw + mm(10) + mm(10)).cycles, 1 + 20);
  Config slow = plain();                    // bf16 at a quarter of the rate
  slow.mx.bf16_rate = .25;
  EXPECT_EQ(run(slow, "mx.mm m=10 astr1=64 accstr=32 k=32 n=32 dtype=bf16").cycles, 40 + 62 + 4);
  EXPECT_EQ(run(plain(), "mx.col m=10 kw=3 kh=3 c=16 astr1=16 astr2=512 dstr=160").cycles,
            (10 * 9 * 16 + 31) / 32);
  const std::string wide = "mx.col m=10 kw=3 kh=3 c=16 astr1=32 astr2=1024 dstr=320 dtype=bf16";
  EXPECT_EQ(run(plain(), wide).cycles, 10 * 9 * 16 * 2 / 32);
  EXPECT_EQ(run(plain(), wide).bounds.array, 10 * 9 * 16 * 2 / 32);
}

// Gate V7: the wavefront of SCALE-Sim's Verilog under iverilog: its last element accumulates in
// cycle K + R + C - 1. Its operands pass a register at the array's edge, which a fold does not
// count.
TEST(Array, HasTheWavefrontOfTheRtl) {
  const struct {
    int rows, columns, k, cycles;
  } runs[] = {{4, 4, 4, 11}, {8, 8, 16, 31}, {16, 16, 16, 47}, {8, 16, 32, 55}, {16, 8, 40, 63 }};
  for (const auto& r : runs) {
    Config c = config_of("scalesim32os");
    c.mx.rows = r.rows;
    c.mx.columns = r.columns;
    ASSERT_TRUE(check_config(c).ok());
    const std::string fold =
        concat("mx.mmos m=", r.rows, " n=", r.columns, " k=", r.k, " astr=", r.k,
               " bstr=", r.columns, " accstr=", r.columns);
    EXPECT_EQ(run(c, fold).cycles + 1, r.cycles);
  }
}

TEST(Vector, TakesItsRowsAndItsStartup) {
  EXPECT_EQ(run(plain(), "ve.bin fn=mul n0=64 n1=10 dtype=i32 sstr0=64 sstr1=64 dstr=64").cycles,
            8 + 10 * 2);
  EXPECT_EQ(run(plain(), "ve.un fn=gelu n0=64 n1=10 sstr0=64 dstr=64").cycles, 8 + 10 * 2 * 4);
  EXPECT_EQ(run(plain(), "ve.un fn=rsqrt n0=32 n1=3 sstr0=32 dstr=32").cycles, 8 + 3 * 8);
  EXPECT_EQ(run(plain(), "ve.red fn=max n0=64 n1=10 sstr0=64 dstr=32 dtype=f32").cycles,
            8 + 10 * (2 + 5));
  EXPECT_EQ(run(plain(), "ve.req rows=20 n=32 accstr=32 dstr=32 hi=1").cycles, 8 + 20);
  EXPECT_EQ(run(plain(), "ve.dw c=32 m=7 kw=3 kh=3 astr1=32 astr2=512 accstr=32").cycles,
            8 + 7 * 9);
}

TEST(Tokens, OrderEnginesAndNothingElseDoes) {
  const std::string un = "ve.un n0=32 n1=100 sstr0=32 dstr=32";
  const std::string fold = kLdw + "mx.mm m=8 astr1=32 accstr=32 k=32 n=32 swap=1 ";
  const int64_t array = 63 + 8 + 66, vector = 108;
  EXPECT_EQ(run(plain(), fold + "\n" + un).cycles, std::max(array, vector));
  const Timing t = run(plain(), fold + "signal=3\n" + un + " wait=3");
  EXPECT_EQ(t.cycles, array + vector);
  EXPECT_EQ(t.stalls[static_cast<int>(Engine::kVe)].token, array);
}

TEST(Tokens, AreCounted) {
  const std::string un = "ve.un n0=32 n1=100 sstr0=32 dstr=32 wait=3\n";
  const std::string fold = "mx.mm m=1000 astr1=32 accstr=32 k=32 n=32 signal=3\n";
  // Two products are there before the first is asked for; the third is waited for.
  EXPECT_EQ(run(plain(), times(fold, 3) + times(un, 3)).cycles, 3000 + 66 + 108);
  EXPECT_EQ(run(plain(), times(fold, 3) + times(un, 4)).ending, Ending::kDeadlock);
}

TEST(Tokens, ThatNeverComeAreNamed) {
  const Timing t =
      run(plain(), "mx.mm m=8 astr1=32 accstr=32 k=32 n=32 wait=4\nst n0=32 wait=9\nsync");
  EXPECT_EQ(t.ending, Ending::kDeadlock);
  EXPECT_EQ(t.blocked,
            "MX: instruction 0 (mx.mm) waits for a token of semaphore 4; 0 more behind it\n"
            "ST: instruction 1 (st) waits for a token of semaphore 9; 0 more behind it\n"
            "dispatcher: instruction 2 (sync) waits for engines to be idle\n");
}

TEST(Tokens, OverflowAt256) {
  EXPECT_EQ(run(plain(), times("ld n0=32 signal=1\n", 255)).ending, Ending::kDone);
  const Timing t = run(plain(), times("ld n0=32 signal=1\n", 256));
  EXPECT_EQ(t.ending, Ending::kOverflow);
  EXPECT_THAT(t.blocked, HasSubstr("instruction 255 (ld) signals semaphore 1, which holds 255"));
}

// The order of instructions matters: a full queue holds up what is behind it.
// VTA's core is array and vector engine in one; others have two.
TEST(Vector, TakesTurnsWithADirectArray) {
  const std::string relu = "ve.un fn=relu n0=32 n1=100 sstr0=32 dstr=32 src0=0x1000 dst=0x1000 "
                           "dtype=i32\n";
  Config c = plain();
  const auto cycles = [&](const std::string& text) { return run(c, text).cycles; };
  const int64_t apart = std::max(cycles(kLdw + times(mm(100), 2)), cycles(relu));
  EXPECT_EQ(cycles(kLdw + relu + times(mm(100), 2)), apart);
  c.mx.mode = ArrayMode::kDirect;
  const int64_t array = cycles(kLdw + times(mm(100), 2)), vector = cycles(relu);
  EXPECT_EQ(cycles(kLdw + relu + times(mm(100), 2)), array + vector);
  EXPECT_EQ(cycles(kLdw + times(mm(100), 2) + relu), array + vector);
}

TEST(Dispatch, IsHeldUpByAFullQueue) {
  Config c = plain();
  const std::string un = "ve.un n0=32 n1=92 sstr0=32 dstr=32\n";   // 100 cycles
  const std::string fold = "mx.mm m=1000 astr1=32 accstr=32 k=32 n=32\n";
  c.queues.depth = 2;
  // One at work, two in the queue; the fold is dispatched when the second begins.
  EXPECT_EQ(run(c, times(un, 4) + fold).cycles, 100 + 1000 + 66);
  EXPECT_EQ(run(c, times(un, 4) + fold).queue_full, 100);
  c.queues.depth = 3;
  EXPECT_EQ(run(c, times(un, 4) + fold).cycles, 1000 + 66);
  c.queues.dispatch = 7;
  EXPECT_EQ(run(c, "stamp id=1\nstamp id=2\nhalt\nstamp id=3").stamps,
            (std::vector<std::pair<int, int64_t>>{{1, 7}, {2, 14}}));
  EXPECT_EQ(run(c, un + "sync mask=4\nstamp id=1\n").stamps[0].second, 7 + 100 + 14);
}

// Setup beside the transfer before it, as far as descriptors may be at work at once.
TEST(Dma, OverlapsSetups) {
  Config c = plain();
  c.dram.kind = DramKind::kFlat;
  c.dram.bytes_per_cycle = 32;
  c.dma.setup = 24;
  c.dma.latency = 40;
  const std::string ld = "ld n0=3200\n";
  EXPECT_EQ(run(c, ld).cycles, 24 + 100 + 40);
  c.queues.loads_in_flight = 1;
  EXPECT_EQ(run(c, times(ld, 3)).cycles, 3 * 164);
  c.queues.loads_in_flight = 3;
  EXPECT_EQ(run(c, times(ld, 3)).cycles, 24 + 300 + 40);
  // LD and ST share what there is.
  EXPECT_EQ(run(c, ld + "st n0=3200\n").cycles, 24 + 200 + 40);
}

// `window` requests of 512 bytes, answered after 40 cycles.
TEST(Dma, WaitsForAnswers) {
  Config c = plain();
  c.dram.kind = DramKind::kFlat;
  c.dram.bytes_per_cycle = 512;
  c.dma.latency = 40;
  c.dma.window = 4;
  EXPECT_EQ(run(c, "ld n0=10240").cycles, 4 * 41 + 41 + 3);
}

TEST(Timeline, HasEachInstructionOnce) {
  std::vector<Span> spans;
  const Config config = config_of("mid32");
  const std::string text = "ld n0=64 signal=1\n" + kLdw + "sync\nhalt\n";
  run(config, text, &spans);
  ASSERT_EQ(spans.size(), 2u);
  const std::string json = timeline_json(config, *parse_program(text, ""), spans);
  EXPECT_THAT(json, HasSubstr("\"name\":\"mx.ldw\",\"pid\":0,\"tid\":1"));
  EXPECT_THAT(json, HasSubstr("\"text\":\"ld n0=64 signal=1\""));
}

// Gate V5's calculator, by hand: ResNet-50's 3x3 on 64 channels; a 1x1 with both ceilings; a tail.
TEST(Bounds, OfConvolutionsAreNvdlas) {
  const Config nvdla = config_of("nvdla2048");
  EXPECT_EQ(conv_mac_cycles(nvdla, {56, 56, 64, 64, 3, 3}), 56 * 56 * 9 * 1 * 2);
  EXPECT_EQ(conv_mac_cycles(nvdla, {14, 14, 1024, 256, 1, 1}), 14 * 14 * 16 * 8);
  EXPECT_EQ(conv_mac_cycles(nvdla, {7, 7, 65, 33, 1, 1}), 7 * 7 * 2 * 2);
  EXPECT_DOUBLE_EQ(compulsory_cycles(nvdla, 100352), 10035.2);
}

}  // namespace
}  // namespace lw::npu
