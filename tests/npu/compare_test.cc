// Gates V4 and V5 as tools: on small tables of our own, since what they are for may not be shipped.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/npu/compare/compare.h"
#include "tests/npu/configs.h"

namespace lw::npu {
namespace {

using testing::HasSubstr;

Table table_of(const std::string& text) {
  absl::StatusOr<Table> table = parse_table(text, "t.csv");
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *std::move(table) : Table();
}
std::string why_not(const std::string& text) {
  return std::string(parse_table(text, "t.csv").status().message());
}

TEST(Tables, AreReadAsSpreadsheetsWriteThem) {
  const Table table = table_of("\xEF\xBB\xBF Layer ,C\r\n\"conv, \"\"first\"\"\", 3\r\n\r\nfc,4");
  EXPECT_EQ(table.names, (std::vector<std::string>{"layer", "c"}));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].fields, (std::vector<std::string>{"conv, \"first\"", "3"}));
  EXPECT_EQ(table.rows[1].fields, (std::vector<std::string>{"fc", "4"}));
  EXPECT_EQ(table.rows[1].line, 4);
  EXPECT_EQ(*find_column(table, "LAYER"), 0u);
}

TEST(Tables, SayWhatIsWrongAndWhere) {
  EXPECT_THAT(why_not(""), HasSubstr("t.csv:1: no header"));
  EXPECT_THAT(why_not("a,b\n"), HasSubstr("t.csv:2: no rows below the header"));
  EXPECT_THAT(why_not("a,A\n1,2\n"), HasSubstr("t.csv:1: two columns are called 'a'"));
  EXPECT_THAT(why_not("a,b\n1,2\n1\n"), HasSubstr("t.csv:3: 1 fields, but the header has 2"));
  EXPECT_THAT(why_not("a,b\n1,\"2\n3\n"), HasSubstr("t.csv:2: a field begins with a '\"'"));
  const Table table = table_of("mac_cycles,on\n12a,maybe\n-1,TRUE\n1.5,0\n1e999,no\n");
  EXPECT_THAT(find_column(table, "mac_cycle").status().message(),
              HasSubstr("t.csv: no column 'mac_cycle'; did you mean 'mac_cycles'? (there are "
                        "mac_cycles, on)"));
  EXPECT_THAT(read_whole(table, table.rows[0], 0, 1, 9).status().message(),
              HasSubstr("t.csv:2: mac_cycles = '12a': a whole number from 1 to 9"));
  EXPECT_THAT(read_number(table, table.rows[1], 0, 0).status().message(),
              HasSubstr("t.csv:3: mac_cycles = '-1': a number, 0 at least"));
  EXPECT_FALSE(read_whole(table, table.rows[2], 0, 1, 9).ok());
  EXPECT_EQ(*read_number(table, table.rows[2], 0, 0), 1.5);
  EXPECT_FALSE(read_number(table, table.rows[3], 0, 0).ok());
  EXPECT_FALSE(read_bool(table, table.rows[0], 1).ok());
  EXPECT_TRUE(*read_bool(table, table.rows[1], 1));
  EXPECT_FALSE(*read_bool(table, table.rows[2], 1));
}

// 2R - 1 for the first weights, max(m, R) a fold, R + C - 2 + mx_lat for the last.
TEST(ArrayCycles, AreThoseOfItsFolds) {
  const Config config = config_of("big128");
  EXPECT_EQ(*array_cycles(config, 256, 128, 128) - *array_cycles(config, 200, 128, 128), 56);
  EXPECT_EQ(*array_cycles(config, 256, 384, 256) - *array_cycles(config, 256, 128, 128), 5 * 256);
  EXPECT_EQ(*array_cycles(config, 64, 256, 128) - *array_cycles(config, 64, 128, 128), 128);
  EXPECT_EQ(*array_cycles(config, 256, 65, 65), *array_cycles(config, 256, 128, 128));
  Config one = config;
  one.mx.rows = one.mx.columns = one.align.k = one.align.n = 1;
  EXPECT_THAT(array_cycles(one, 128, 65535, 65535).status().message(), HasSubstr("of 4194304"));
}

// Products of 128 to 512, with a time that `time` makes of the array's cycles.
template <class Time>
std::string products(const Time& time) {
  std::string text = "N, m, K, us, note\n64, 128, 128, 99, small\n";
  for (const int64_t m : {128, 256, 512}) {
    for (const int64_t n : {128, 384}) {
      for (const int64_t k : {128, 512}) {
        const int64_t cycles = *array_cycles(config_of("big128"), m, n, k);
        text += concat(n, ",", m, ",", k, ",", std::to_string(time(static_cast<double>(cycles))),
                       ",\n");
      }
    }
  }
  return text;
}

TEST(Tpu, APerfectLineIsPerfect) {
  const Config config = config_of("big128");
  const Table table = table_of(products([](double cycles) { return 2 + cycles / 1000; }));
  const absl::StatusOr<TpuComparison> c = compare_tpu(config, table, "us");
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->rows, 12);
  EXPECT_EQ(c->small, 1);
  EXPECT_EQ(c->least, 128);
  EXPECT_EQ(c->most, 512);
  EXPECT_NEAR(c->r2, 1, 1e-9);
  EXPECT_NEAR(c->rank, 1, 1e-12);
  EXPECT_NEAR(c->at_zero, 2, 1e-3);
  EXPECT_NEAR(c->per_cycle, .001, 1e-6);
  EXPECT_EQ(c->least_r2, .93);
  EXPECT_TRUE(c->met());
  EXPECT_THAT(comparison_text(config, *c), HasSubstr("(aimed at 0.960): met\n"));
}

TEST(Tpu, WhatFallsOrCurvesIsSeen) {
  const Config config = config_of("big128");
  const auto compared = [&](auto time) {
    return *compare_tpu(config, table_of(products(time)), "us");
  };
  const TpuComparison falling = compared([](double cycles) { return 100 - cycles / 1000; });
  EXPECT_NEAR(falling.r2, 1, 1e-9);
  EXPECT_NEAR(falling.rank, -1, 1e-12);
  EXPECT_FALSE(falling.met());
  const TpuComparison curved = compared([](double cycles) { return cycles * cycles * cycles; });
  EXPECT_LT(curved.r2, .93);
  EXPECT_NEAR(curved.rank, 1, 1e-12);
  EXPECT_THAT(comparison_text(config, curved), HasSubstr(": missed\n"));
  const TpuComparison flat = compared([](double) { return 7.0; });
  EXPECT_EQ(flat.r2, 0);
  EXPECT_FALSE(flat.met());
}

TEST(Tpu, RefusesWhatItCannotFit) {
  const Config config = config_of("big128");
  const auto why = [&](const std::string& text, const std::string& time) {
    return std::string(compare_tpu(config, table_of(text), time).status().message());
  };
  EXPECT_THAT(why("m,n,kk,us\n1,1,1,1\n", "us"), HasSubstr("t.csv: no column 'k'"));
  EXPECT_THAT(why("m,n,k,us\n1,1,1,1\n", "fusion_avg"), HasSubstr("no column 'fusion_avg'"));
  EXPECT_THAT(why("m,n,k,us\n1,1,1,1\n128,128,128,1\n", "us"), HasSubstr("1 rows of extents"));
  EXPECT_THAT(why("m,n,k,us\n1,0,1,1\n", "us"), HasSubstr("t.csv:2: n = '0': a whole number from"));
}

const char* const kHeader = "layer,C,K,R,S,P,Q,Winograd,dram_kb,mac_cycles,dram_cycles\n";

TEST(Nvdla, CountsLayersWhoseCyclesAreEqual) {
  const Config config = config_of("nvdla2048");
  // 3136 pixels x 4 x 2 blocks of channels; 9 positions x 16 / 36.
  const Table table = table_of(concat(kHeader, "a,256,64,1,1,56,56,FALSE,996,25088,99600\n",
                                      "b,64,64,3,3,56,56,TRUE,456,25088,45600\n",
                                      "c,3,64,7,7,112,112,0,408,76832,40800\n"));
  const absl::StatusOr<NvdlaComparison> c = compare_nvdla(config, table);
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->layers, 3);
  EXPECT_EQ(c->equal_mac, 2);
  EXPECT_EQ(c->equal_dram, 3);
  EXPECT_EQ(c->cycles, 99600 + 45600 + 12544 * 49 * 2);
  EXPECT_EQ(c->theirs, 99600 + 45600 + 76832);
  EXPECT_EQ(c->plain_cycles, 99600 + 3136 * 9 * 2 + 12544 * 49 * 2);
  EXPECT_FALSE(c->met());
  EXPECT_EQ(c->others,
            "  c: 1229312 cycles of multipliers (theirs 76832), 40800 of DRAM (40800)\n");
  EXPECT_THAT(comparison_text(config, *c), HasSubstr("in 2 of 3 layers, of DRAM in 3: missed"));
}

TEST(Nvdla, RefusesATableOfOtherColumns) {
  const Config config = config_of("nvdla2048");
  const absl::StatusOr<NvdlaComparison> c =
      compare_nvdla(config, table_of("layer,C,K,R,S,P,Q,win,kb,mac_cycles,dram_cycles\n"
                                     "a,1,1,1,1,1,1,0,1,1,1\n"));
  EXPECT_THAT(c.status().message(), HasSubstr("no column 'winograd'"));
  EXPECT_THAT(compare_nvdla(config, table_of(concat(kHeader, "a,0,1,1,1,1,1,0,1,1,1\n")))
                  .status().message(),
              HasSubstr("t.csv:2: c = '0': a whole number from 1 to 65535"));
}

}  // namespace
}  // namespace lw::npu
