// Gates V2a and V2b: ONNXim's GEMMs with ONNXim's tiles.
#include "tests/npu/onnxim.h"

namespace lw::npu {
namespace {

struct Pair {
  const char *theirs, *ours;
};

// With the three scalars that were found once for all of them (docs/npu.md): DRAM's share of its
// peak, its latency, the setup of a descriptor.
Config flat(const std::string& name) {
  Config config = config_of(name);
  config.dram.kind = DramKind::kFlat;
  config.dram.bytes_per_cycle = 0.95 * config.dram.channels * config.dma.port_bytes;
  config.dma.latency = 60;
  config.dma.setup = 4;
  EXPECT_TRUE(check_config(config).ok());
  return config;
}

TEST(Onnxim, WhatTheArrayLimitsIsAsFastWithAFlatMemory) {
  for (const Pair& pair : {Pair{"big128_int8", "onnxim128"}, Pair{"mid32_int8", "onnxim32"},
                           Pair{"edge16_int8", "onnxim16"}}) {
    const Errors errors = replay(pair.theirs, flat(pair.ours));
    EXPECT_GE(errors.count, 16);
    EXPECT_LE(errors.mean(), .02) << pair.theirs;
    EXPECT_LE(errors.worst, .10) << pair.theirs << " " << errors.worst_row;
  }
}

TEST(Onnxim, WhatDramLimitsIsAsFastWithPagesAndBanks) {
  for (const Pair& pair :
       {Pair{"big128_int8_ch1", "onnxim128_ch1"}, Pair{"big128_int8_ch4", "onnxim128_ch4"},
        Pair{"big128_bf16", "onnxim128_bf16"}}) {
    const Errors errors = replay(pair.theirs, config_of(pair.ours));
    EXPECT_GE(errors.count, 17);
    EXPECT_LE(errors.mean(), .06) << pair.theirs;
    EXPECT_LE(errors.worst, .16) << pair.theirs << " " << errors.worst_row;
  }
}

// The same memory also where the array limits: no gate, but nothing may depend on which was chosen.
TEST(Onnxim, PagesAndBanksDoNotChangeWhatTheArrayLimits) {
  for (const Pair& pair : {Pair{"big128_int8", "onnxim128"}, Pair{"mid32_int8", "onnxim32"},
                           Pair{"edge16_int8", "onnxim16"}}) {
    const Errors errors = replay(pair.theirs, config_of(pair.ours));
    EXPECT_LE(errors.mean(), .04) << pair.theirs;
  }
}

// ONNXim counts requests of 32 bytes, each descriptor's own: a little more than the bytes.
TEST(Onnxim, ItsBytesAreTheTilings) {
  for (const Row& row : read_table("onnxim_gemm.csv")) {
    const bool bf16 = row.at("config") == "big128_bf16";
    const Config config = config_of(bf16 ? "onnxim128_bf16" : "onnxim128");
    GemmPlan plan = plan_of(row, config);
    const GemmTraffic traffic = gemm_traffic(plan);
    const double read = whole(row, "onnxim_read_B");
    EXPECT_GE(read, .9 * traffic.read) << row.at("M") << row.at("N") << row.at("K");
    EXPECT_LE(read, 1.15 * traffic.read) << row.at("M") << row.at("N") << row.at("K");
  }
}

}  // namespace
}  // namespace lw::npu
