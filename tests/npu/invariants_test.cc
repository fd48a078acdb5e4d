// Gate V10: what holds for every program on every machine. LW_NPU_PROGRAMS=100000 is the long form,
// LW_SEED its first seed; a failure prints the seed that repeats it.
#include "src/npu/isa/encode.h"
#include "tests/npu/onnxim.h"
#include "tests/npu/random_program.h"
#include "tests/support/program.h"

namespace lw::npu {
namespace {

// A product target or a profile, with other sizes of what only time depends on.
Config random_config(Rng* rng) {
  const char* const names[] = {"edge16", "edge16g", "mid32", "big128", "onnxim16", "vta16",
                               "nvdla2048", "scalesim32ws", "ramulator_ddr4"};
  Config c = config_of(names[rng->below(std::size(names))]);
  c.queues.depth = 1 + rng->below(20);
  c.queues.dispatch = rng->below(5);
  c.queues.loads_in_flight = 1 + rng->below(4);
  c.queues.stores_in_flight = 1 + rng->below(4);
  c.dma.setup = rng->below(60);
  c.dma.latency = rng->below(100);
  c.dma.window = 1 + rng->below(64);
  c.dma.interleave = int64_t{64} << rng->below(6);
  c.dram.channels = int64_t{1} << rng->below(3);
  c.dram.hash = rng->below(2) ? ChannelHash::kXor : ChannelHash::kNone;
  c.ve.startup = rng->below(20);
  CHECK(check_config(c).ok());
  return c;
}

Config with_bandwidth(Config c, double factor) {
  c.dram.bytes_per_cycle *= factor;
  c.dram.ccd /= factor;
  c.dram.ccd_long /= factor;
  c.dram.command /= factor;
  c.dma.port_bytes *= factor;
  return c;
}

TEST(Invariants, HoldForRandomPrograms) {
  const int64_t count = setting("LW_NPU_PROGRAMS", 1500), first = setting("LW_SEED", 1);
  int64_t slower = 0;
  double worst = 0;
  for (int64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("LW_NPU_PROGRAMS=1 LW_SEED=" + std::to_string(seed));
    Rng rng(seed);
    const Config config = random_config(&rng);
    const Program program = RandomProgram(config, &rng).make(1 + static_cast<int>(rng.below(120)));
    std::vector<Span> spans;
    TimingOptions options;
    options.timeline = &spans;
    std::vector<Stall> stalls;
    options.stalls = &stalls;
    const absl::StatusOr<Timing> result = simulate(config, program, options);
    ASSERT_TRUE(result.ok()) << result.status();
    const Timing& t = *result;
    ASSERT_EQ(t.ending, Ending::kDone) << t.blocked;

    for (double bound : {t.bounds.mac, t.bounds.array, t.bounds.dma, t.bounds.vector,
                         t.bounds.dispatch}) {
      EXPECT_LE(bound, t.cycles);
    }
    for (int e = 0; e < kEngines; ++e) EXPECT_LE(t.busy[e], t.cycles);
    int64_t read = 0, written = 0, products = 0, engine_instructions = 0;
    for (const Instruction& one : program) {
      if (std::holds_alternative<Ld>(one.body)) read += dram_bytes(one);
      if (std::holds_alternative<St>(one.body)) written += dram_bytes(one);
      products += macs(one);
      engine_instructions += !one.op().dispatcher;
    }
    EXPECT_EQ(t.bytes_read, read);
    EXPECT_EQ(t.bytes_written, written);
    EXPECT_EQ(t.macs, products);
    EXPECT_GE(t.dram_bytes, read + written);
    if (config.dram.kind == DramKind::kPaged) EXPECT_EQ(t.row_hits + t.activates, t.chunks);
    EXPECT_EQ(t.instructions, static_cast<int64_t>(program.size()));

    // Each instruction once, after those of its engine that came before it in the program.
    EXPECT_EQ(static_cast<int64_t>(spans.size()), engine_instructions);
    std::vector<Span> ordered = spans;
    std::sort(ordered.begin(), ordered.end(),
              [](const Span& a, const Span& b) { return a.instruction < b.instruction; });
    std::array<Ticks, kEngines> last = {};
    for (size_t i = 0; i < ordered.size(); ++i) {
      const Span& span = ordered[i];
      Ticks& before = last[static_cast<int>(span.engine)];
      if (i > 0) EXPECT_LT(ordered[i - 1].instruction, span.instruction);
      EXPECT_LE(before, span.begin);
      EXPECT_LE(span.begin, span.end);
      EXPECT_LE(cycles_until(span.end), t.cycles);
      before = span.begin;
    }

    // What the stalls add up to; those of an engine's instructions come one after the other.
    std::array<Stalls, kEngines> sums = {};
    std::array<Ticks, kEngines> until = {};
    double queue_full = 0;
    for (const Stall& stall : stalls) {
      const int e = static_cast<int>(stall.engine);
      Stalls& sum = sums[e];
      (stall.cause == Cause::kToken      ? sum.token
       : stall.cause == Cause::kDispatch ? sum.dispatch
       : stall.cause == Cause::kEngine   ? sum.engine
       : stall.cause == Cause::kBus      ? sum.bus
                                         : queue_full) += to_cycles(stall.end - stall.begin);
      EXPECT_LT(stall.begin, stall.end);
      EXPECT_LE(cycles_until(stall.end), t.cycles);
      if (stall.cause == Cause::kBus || stall.cause == Cause::kQueueFull) continue;
      EXPECT_LE(until[e], stall.begin);
      until[e] = stall.end;
    }
    EXPECT_EQ(queue_full, t.queue_full);
    for (int e = 0; e < kEngines; ++e) {
      EXPECT_EQ(sums[e].token, t.stalls[e].token);
      EXPECT_EQ(sums[e].dispatch, t.stalls[e].dispatch);
      EXPECT_EQ(sums[e].engine, t.stalls[e].engine);
      EXPECT_EQ(sums[e].bus, t.stalls[e].bus);
    }

    const absl::StatusOr<Timing> again = simulate(config, program);
    EXPECT_EQ(again->cycles, t.cycles);
    EXPECT_EQ(again->row_hits, t.row_hits);

    const absl::StatusOr<Timing> faster = simulate(with_bandwidth(config, 2), program);
    ASSERT_EQ(faster->ending, Ending::kDone);
    EXPECT_EQ(faster->bytes_written, t.bytes_written);
    const double share = static_cast<double>(faster->cycles) / t.cycles - 1;
    slower += share > .01;
    worst = std::max(worst, share);
    if (config.dram.kind != DramKind::kPaged) EXPECT_LE(share, .01) << "with twice the bandwidth";
  }
  // Graham's anomalies: LD's and ST's requests interleave otherwise, and banks open rows in another
  // order. Seen in 15 of 100,000 programs, each of few descriptors (docs/npu.md).
  EXPECT_LE(slower, 1 + count / 1000);
  EXPECT_LE(worst, .15);
  std::printf("%d programs; %d more than 1 %% slower with twice the bandwidth, at most %.2f %%\n",
              int(count), int(slower), 100 * worst);
}

// Whatever bits of a program change: it is refused, or it ends in one of the ways there are.
TEST(Invariants, MutantsAreRefusedOrEnd) {
  Rng rng(17);
  int refused = 0, done = 0, stuck = 0;
  for (int round = 0; round < 2000; ++round) {
    const Config config = config_of(rng.below(2) ? "mid32" : "edge16");
    std::string bytes = *encode(RandomProgram(config, &rng).make(40));
    const int flips = 1 + static_cast<int>(rng.below(3));
    for (int i = 0; i < flips; ++i) bytes[rng.below(bytes.size())] ^= 1 << rng.below(8);
    const absl::StatusOr<Program> program = decode(bytes);
    if (!program.ok()) continue;
    const absl::StatusOr<Timing> timing = simulate(config, *program);
    refused += !timing.ok();
    if (!timing.ok()) continue;
    done += timing->ending == Ending::kDone;
    stuck += timing->ending == Ending::kDeadlock;
    EXPECT_EQ(timing->ending == Ending::kDone, timing->blocked.empty());
    if (timing->ending == Ending::kDone) EXPECT_LE(timing->bounds.largest(), timing->cycles);
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(done, 50);
  EXPECT_GT(stuck, 5);
}

}  // namespace
}  // namespace lw::npu
