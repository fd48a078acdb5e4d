// What the detector of races says, and what it must not say.
#include "tests/npu/function_programs.h"
#include "tests/npu/random_program.h"

namespace lw::npu {
namespace {

class RacesTest : public ::testing::Test {
 protected:
  RacesTest() : config(machine("mid32")), dram(1 << 20) {}

  FunctionReport run(const std::string& text) {
    const absl::StatusOr<Program> program = parse_program(text, "test", &config);
    EXPECT_TRUE(program.ok()) << program.status();
    Memory memory = *make_memory(config, {{0, dram, true}});
    absl::StatusOr<FunctionReport> report = execute(config, *program, &memory);
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }

  Config config;
  std::vector<uint8_t> dram;
};

TEST_F(RacesTest, AMissingTokenIsNamedWithBothInstructions) {
  const FunctionReport report = run(
      "ld dram=0 loc=0x40 n0=64 n1=2 dstr1=64 lstr1=64\n"
      "st dram=4096 loc=0x80 n0=64\n");
  ASSERT_EQ(report.status, FunctionStatus::kRace);
  ASSERT_EQ(report.races.size(), 1u);
  EXPECT_EQ(report.races[0].first, 0u);
  EXPECT_EQ(report.races[0].second, 1u);
  EXPECT_EQ(report.races[0].begin, 0x80);
  EXPECT_EQ(report.races[0].end, 0xC0);
  EXPECT_NE(report.errors[0].find("instruction 1 (st dram=0x1000 loc=0x80 n0=64) reads SPM"),
            std::string::npos) << report.errors[0];
  EXPECT_NE(report.errors[0].find("let instruction 0 of LD"), std::string::npos);
}

TEST_F(RacesTest, ATokenOrdersWhatIsBeforeAndBehind) {
  EXPECT_EQ(run("ld dram=0 loc=0 n0=64\n"
                "ld dram=64 loc=64 n0=64 signal=0\n"
                "st dram=4096 loc=0x100 n0=64 wait=0\n"
                "st dram=8192 loc=0 n0=128\n").status,
            FunctionStatus::kOk);
}

// What is shadowed is what is touched: these bytes lie 2 GiB apart, none of them aligned.
TEST_F(RacesTest, AreFoundFarApart) {
  const std::string text = "ld dram=0x1 n0=3 n1=2 dstr1=0x80000001 lstr1=32 signal=0\n"
                           "st dram=0x80000004 loc=64 n0=1\n"
                           "st dram=0x80000005 loc=64 n0=1\n";
  const Program program = *parse_program(text, "test", &config);
  std::vector<uint8_t> low(16), high(16);
  Memory memory = *make_memory(config, {{0, low}, {0x80000000, high}});
  const absl::StatusOr<FunctionReport> report = execute(config, program, &memory);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->races.size(), 1u);
  EXPECT_EQ(report->races[0].second, 1u);
  EXPECT_EQ(report->races[0].begin, 0x80000004);
  EXPECT_EQ(report->races[0].end, 0x80000005);
}

TEST(Shadow, IsWhatAListOfAllGranulesWouldBe) {
  constexpr int64_t kGranules = 40000;
  Rng rng(17);
  Shadow shadow(kGranules);
  std::vector<uint32_t> list(kGranules);
  for (uint32_t i = 1; i <= 3000; ++i) {
    const int64_t most = rng.below(4) == 0 ? kGranules : 300;
    const int64_t begin = rng.below(kGranules);
    const int64_t end = std::min(kGranules, begin + 1 + rng.below(most));
    ASSERT_EQ(shadow.latest(begin, end),
              *std::max_element(list.begin() + begin, list.begin() + end));
    ASSERT_EQ(shadow.at(begin), list[begin]);
    if (rng.below(2) == 0) continue;
    shadow.fill(begin, end, i);
    std::fill(list.begin() + begin, list.begin() + end, i);
  }
}

// Nothing overlaps in this run: the order is luck.
TEST_F(RacesTest, AnOrderByLuckIsARace) {
  std::string text = "ld dram=0 loc=0 n0=64\n";
  for (int i = 0; i < 200; ++i) text += "stamp id=1\n";
  EXPECT_EQ(run(text + "st dram=4096 loc=0 n0=64\n").status, FunctionStatus::kRace);
  EXPECT_EQ(run(text + "sync mask=1\nst dram=4096 loc=0 n0=64\n").status, FunctionStatus::kOk);
  EXPECT_EQ(run(text + "sync mask=6\nst dram=4096 loc=0 n0=64\n").status, FunctionStatus::kRace);
}

// A token of the first load says nothing of the second.
TEST_F(RacesTest, ATokenThatComesTooEarlyOrdersNothing) {
  EXPECT_EQ(run("ld dram=0 loc=0 n0=64 signal=0\n"
                "ld dram=64 loc=64 n0=64\n"
                "st dram=8192 loc=64 n0=64 wait=0\n").status,
            FunctionStatus::kRace);
}

// Rows of two tiles take turns, and share no byte; one of 80 bytes would reach into the next.
TEST_F(RacesTest, InterleavedTilesThatShareNothingAreNone) {
  EXPECT_EQ(run("ld dram=0 loc=0 n0=64 n1=16 dstr1=64 lstr1=128\n"
                "st dram=8192 loc=64 n0=64 n1=16 dstr1=64 lstr1=128\n").status,
            FunctionStatus::kOk);
  EXPECT_EQ(run("ld dram=0 loc=0 n0=65 n1=16 dstr1=65 lstr1=128\n"
                "st dram=8192 loc=64 n0=64 n1=16 dstr1=64 lstr1=128\n").status,
            FunctionStatus::kRace);
  EXPECT_EQ(run("ld dram=0 loc=0 n0=1 n1=16 n2=3 dstr1=5 dstr2=77 lstr1=64 lstr2=32\n"
                "st dram=8192 loc=0x800 n0=7\n"
                "st dram=1 loc=0x900 n0=4 n1=3 dstr1=5 lstr1=32\n").status,
            FunctionStatus::kOk);
}

TEST_F(RacesTest, DramHasRacesToo) {
  EXPECT_EQ(run("st dram=100 loc=0 n0=10\nld dram=109 loc=0x100 n0=1\n").status,
            FunctionStatus::kRace);
  EXPECT_EQ(run("st dram=100 loc=0 n0=10\nld dram=110 loc=0x100 n0=1\n").status,
            FunctionStatus::kOk);
  EXPECT_EQ(run("st dram=100 loc=0 n0=10 signal=1\nld dram=109 loc=0x100 n0=1 wait=1\n").status,
            FunctionStatus::kOk);
}

// Reads race with nothing but writes.
TEST_F(RacesTest, ReadersShare) {
  EXPECT_EQ(run("mx.ldw k=32 n=32 wstr=32\nst dram=8192 loc=0 n0=64\n").status,
            FunctionStatus::kOk);
}

// What comes behind in time may be the one that should have waited.
TEST_F(RacesTest, AWriteOverWhatIsStillReadIsARace) {
  const std::string head =
      "ld dram=0 loc=0 n0=1024 signal=0\n"
      "mx.ldw k=32 n=32 wstr=32 wait=0 signal=1\n";
  EXPECT_EQ(run(head + "ld dram=0 loc=0 n0=32\n").status, FunctionStatus::kRace);
  EXPECT_EQ(run(head + "ld dram=0 loc=0 n0=32 wait=1\n").status, FunctionStatus::kOk);
}

// An LDW may be done before an older MM: its token is not the MM's.
TEST_F(RacesTest, WeightsOvertakeFolds) {
  const std::string mm =
      "mx.ldw k=32 n=32 wstr=32\n"
      "mx.mm a=0x1000 m=64 astr1=32 accstr=32 k=32 n=32 swap=1";
  const std::string rest = "\nmx.ldw w=0x4000 k=32 n=32 wstr=32";
  const std::string store = "\nst space=acc loc=0 dram=8192 n0=128 wait=0\n";
  EXPECT_EQ(run(mm + " signal=0" + rest + store).status, FunctionStatus::kOk);
  EXPECT_EQ(run(mm + rest + " signal=0" + store).status, FunctionStatus::kRace);
}

TEST_F(RacesTest, DeadlocksAndBoundsAreNamed) {
  FunctionReport report = run("ld dram=0 loc=0 n0=64 wait=0\nst dram=0 loc=0 n0=1 signal=0 wait=1\n"
                              "ld dram=0 loc=0 n0=64 signal=1\n");
  EXPECT_EQ(report.status, FunctionStatus::kDeadlock);
  EXPECT_NE(report.errors[0].find("semaphore 0"), std::string::npos);
  report = run("ld dram=1048570 loc=0 n0=7\n");
  EXPECT_EQ(report.status, FunctionStatus::kBounds);
  EXPECT_NE(report.errors[0].find("instruction 0 (ld dram=0xffffa n0=7) reads DRAM"),
            std::string::npos) << report.errors[0];
}

TEST_F(RacesTest, WhatMustNotBeWrittenIsOutOfBounds) {
  const Program program = *parse_program("st dram=8 loc=0 n0=8\n", "test", &config);
  Memory memory = *make_memory(config, {{0, dram, false}});
  EXPECT_EQ(execute(config, program, &memory)->status, FunctionStatus::kBounds);
  EXPECT_FALSE(make_memory(config, {{0, dram, false}, {8, dram, true}}).ok());
}

// Nothing that random programs do goes unseen: those without a race leave the same memory whatever
// anything takes. LW_NPU_PROGRAMS: how many.
TEST(RandomPrograms, WithoutARaceComputeTheSameInAnyTime) {
  constexpr int64_t kDram = 1 << 20;
  const char* const machines[] = {"edge16", "mid32", "big128"};
  const int64_t count = setting("LW_NPU_PROGRAMS", 400);
  int64_t clean = 0, racy = 0, showed = 0;
  for (int64_t i = 0; i < count; ++i) {
    Rng rng = Rng(77).split(i);
    const Config config = machine(machines[i % 3]);
    Program program = RandomProgram(config, &rng).make(static_cast<int>(2 + rng.below(14)));
    for (Instruction& one : program) {
      if (Ld* const ld = std::get_if<Ld>(&one.body)) ld->dram %= kDram / 8;
      if (St* const st = std::get_if<St>(&one.body)) st->dram %= kDram / 8;
    }
    FunctionStatus status = FunctionStatus::kOk;
    std::vector<uint8_t> dram_before;
    Memory before;
    bool same = true;
    for (int t = 0; t < 5; ++t) {
      const Config times = t == 0 ? config : other_times(config, &rng);
      std::vector<uint8_t> dram(kDram, 17);
      Memory memory = *make_memory(times, {{0, dram, true}}, 5);
      const absl::StatusOr<FunctionReport> report = execute(times, program, &memory);
      ASSERT_TRUE(report.ok()) << i << " " << report.status();
      if (t == 0) {
        status = report->status;
        ASSERT_TRUE(status == FunctionStatus::kOk || status == FunctionStatus::kRace)
            << i << " " << report->errors[0];
        dram_before = dram;
        before = memory;
        continue;
      }
      ASSERT_EQ(report->status, status) << "program " << i << " under other times";
      same &= dram == dram_before && memory.spm == before.spm && memory.acc == before.acc;
    }
    (status == FunctionStatus::kOk ? clean : racy) += 1;
    showed += !same;
    ASSERT_TRUE(same || status == FunctionStatus::kRace) << "program " << i;
  }
  EXPECT_GT(clean, count / 10);
  EXPECT_GT(racy, count / 10);
  EXPECT_GT(showed, 0);
}

}  // namespace
}  // namespace lw::npu
