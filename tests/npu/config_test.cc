// Configurations: those that are shipped, and what is refused of a hand-written one.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/base/files.h"
#include "tests/npu/configs.h"
#include "tests/support/files.h"

namespace lw::npu {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

TEST(Configs, AreReadAndPrintedAlike) {
  std::vector<std::pair<std::string, std::string>> shipped;  // and where their files are
  for (const std::string& name : config_names()) shipped.emplace_back(name, "configs/");
  for (const std::string& name : profile_names()) shipped.emplace_back(name, "configs/profiles/");
  EXPECT_GE(config_names().size(), 4u);
  EXPECT_GE(shipped.size(), 18u);
  for (const auto& [name, folder] : shipped) {
    const absl::StatusOr<Config> config = find_config(name);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->name, name);
    const std::string text = print_config(*config);
    EXPECT_EQ(print_config(*parse_config(text, "printed")), text);
    EXPECT_EQ(Json::parse(text),
              Json::parse(slurp(LW_SOURCE_DIR "/src/npu/" + folder + name + ".json")));
  }
}

// The table of variants: peak bytes a cycle, MACs a byte.
TEST(Configs, HaveTheBalanceTheyWereMadeFor) {
  const struct {
    const char* name;
    double bytes, macs_per_byte;
  } rows[] = {{"edge16", 4, 64}, {"mid32", 12.8, 80}, {"big128", 128, 128}, {"edge16g", 16, 16},
              {"nvdla2048", 10, 204.8}, {"onnxim128_ch4", 128, 128}};
  for (const auto& row : rows) {
    const Config c = config_of(row.name);
    EXPECT_NEAR(peak_bytes_per_cycle(c), row.bytes, 1e-9) << row.name;
    EXPECT_NEAR(c.mx.rows * c.mx.columns / peak_bytes_per_cycle(c), row.macs_per_byte, 1e-9);
  }
  EXPECT_TRUE(std::isinf(peak_bytes_per_cycle(config_of("scalesim32ws"))));
}

TEST(Configs, AreFoundByNameOrPath) {
  const std::string path = testing::TempDir() + "/npu_" + std::to_string(getpid()) + ".json";
  ASSERT_TRUE(write_file(path, print_config(config_of("edge16"))).ok());
  EXPECT_EQ(find_config(path)->name, "edge16");
  std::filesystem::remove(path);
  EXPECT_EQ(find_config(path).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(find_config("mid23").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(find_config("mid23").status().message(), HasSubstr("did you mean 'mid32'?"));
}

// mid32 with one value changed (null: without it).
std::string config_refusal(const std::string& pointer, const Json& value) {
  Json json = Json::parse(print_config(config_of("mid32")));
  const Json::json_pointer at(pointer);
  if (value.is_null()) {
    json[at.parent_pointer()].erase(at.back());
  } else {
    json[at] = value;
  }
  const absl::StatusOr<Config> config = parse_config(json.dump(), "my.json");
  return config.ok() ? "accepted" : std::string(config.status().message());
}

TEST(Configs, SayWhichFieldIsWrongWhatItSaysAndWhatIsAllowed) {
  EXPECT_EQ(config_refusal("/mx/m_min", 5), "accepted");
  const struct {
    const char* pointer;
    Json value;
    const char* message;
  } rows[] = {
      {"/spm/bytes", 0, "spm.bytes: a whole number from 1024 to 16777216, not 0"},
      {"/spm/bytes", -4, "spm.bytes: a whole number from 1024 to 16777216, not -4"},
      {"/ve/lanes", 1000000, "ve.lanes: a whole number from 1 to 1024, not 1000000"},
      {"/ve/lanes", 1.5, "ve.lanes: a whole number from 1 to 1024, not 1.5"},
      {"/ve/lanes", "32", "ve.lanes: a whole number from 1 to 1024, not \"32\""},
      {"/ve/lanes", nullptr, "ve.lanes: missing (32-bit lanes)"},
      {"/ve/cpi/exp", -1, "ve.cpi.exp: a number from 0 to 1000, not -1"},
      {"/ve/cpi/exp", 1e300, "ve.cpi.exp: a number from 0 to 1000, not 1e+300"},
      {"/ve", nullptr, "ve: missing (the vector engine)"},
      {"/ve", 3, "ve: an object, not 3"},
      {"/dram/page", 16, "dram.page: a whole number from 64 to 65536, not 16"},
      {"/dram/page", 1000, "dram.page: a power of two, not 1000"},
      {"/dram/beat_bytes", 1024, "dram.beat_bytes: at most dram.page (512), not 1024"},
      {"/dma/interleave", 48, "dma.interleave: a power of two, not 48"},
      {"/dram/channels", 3, "dram.channels: a power of two, not 3"},
      {"/dram/tCCD", 9, "dram.tCCD: at most dram.tCCD_L (2.5), not 9"},
      {"/dram/tRFC", 5000, "dram.tRFC: at most dram.tREFI (4680), not 5000"},
      {"/align/k", 64, "align.k: at most mx.R (32), not 64"},
      {"/mx/R", 300, "mx.R: a whole number from 1 to 255, not 300"},
      {"/mx/mode", "fast",
       "mx.mode: 'pipelined, serial or direct folds' are allowed, not \"fast\""},
      {"/mx/os", 1, "mx.os: true or false, not 1"},
      {"/mx/dtypes", Json::array(), "mx.dtypes: a list of types, not []"},
      {"/mx/dtypes", {"i8", "i8"}, "mx.dtypes: \"i8\" stands there twice"},
      {"/mx/dtypes", {"f32"}, "mx.dtypes: i8 and bf16 are allowed, not \"f32\""},
      {"/mx/row", 4, "mx.row: no such field"},
      {"/dram/tRDC", 4, "dram.tRDC: no such field; did you mean 'tRCD'?"},
      {"/queue", 4, "queue: no such field; did you mean 'queues'?"},
      {"/acc/bytes", 1000, "acc.bytes: a multiple of 4 x acc.align (128), not 1000"},
      {"/name", "", "name: a text of 1 to 64 characters, not \"\""},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(config_refusal(row.pointer, row.value), HasSubstr(row.message)) << row.pointer;
    EXPECT_THAT(config_refusal(row.pointer, row.value), testing::StartsWith("my.json: "));
  }
}

// One that nobody read from a file, but made or changed.
TEST(Configs, AreCheckedAsValuesToo) {
  const auto refusal_of = [](auto change) {
    Config config = config_of("mid32");
    change(config);
    return std::string(check_config(config).message());
  };
  EXPECT_EQ(refusal_of([](Config&) {}), "");
  EXPECT_EQ(refusal_of([](Config& c) { c.mx.rows = 300; }),
            "mx.R: a whole number from 1 to 255, not 300");
  EXPECT_EQ(refusal_of([](Config& c) { c.dram.ccd = std::nan(""); }),
            "dram.tCCD: a number from 0.0625 to 1000, not nan");
  EXPECT_EQ(refusal_of([](Config& c) { c.name = ""; }),
            "name: a text of 1 to 64 characters, not \"\"");
  EXPECT_EQ(refusal_of([](Config& c) { c.mx.dtypes = {}; }), "mx.dtypes: a list of types, not []");
  EXPECT_EQ(refusal_of([](Config& c) { c.mx.dtypes.push_back(Dtype::kI8); }),
            "mx.dtypes: \"i8\" stands there twice");
}

TEST(Configs, RefuseWhatIsNotJsonOrSaysTwice) {
  EXPECT_THAT(parse_config("{\"name\":", "f").status().message(), HasSubstr("f: not JSON"));
  EXPECT_THAT(parse_config("[]", "f").status().message(), HasSubstr("an object, not []"));
  std::string text = print_config(config_of("mid32"));
  text.insert(text.find("\"spm\""), "\"spm\": {\"bytes\": 1024, \"align\": 32},");
  EXPECT_THAT(parse_config(text, "f").status().message(), HasSubstr("spm: stands there twice"));
  EXPECT_FALSE(parse_config(std::string(100000, '['), "f").ok());
}

// No field is read that is not described, and each has its line.
TEST(Configs, DescribeEachField) {
  const std::string text = describe_fields();
  EXPECT_THAT(text, HasSubstr("ve.lanes               1 .. 1024          32-bit lanes\n"));
  size_t leaves = 0;
  const Json flat = Json::parse(print_config(config_of("mid32"))).flatten();
  for (const auto& [pointer, value] : flat.items()) {
    leaves += pointer.find("dtypes/1") == std::string::npos;
  }
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), leaves);
}

}  // namespace
}  // namespace lw::npu
