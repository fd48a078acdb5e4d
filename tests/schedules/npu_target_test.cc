// Simulated NPUs as targets: configurations of the simulator, whole.
#include "schedules/targets/npu/npu_target.h"

#include <cmath>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/identity.h"
#include "src/base/hash.h"

namespace lw {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

std::vector<std::string> every_name() {
  std::vector<std::string> names = npu::config_names();
  for (const std::string& name : npu::profile_names()) names.push_back(name);
  return names;
}

TEST(NpuTargets, AreTheSimulatorsConfigurations) {
  for (const std::string& name : every_name()) {
    SCOPED_TRACE(name);
    const absl::StatusOr<Target> target = find_target("npu_" + name);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(target->name, "npu_" + name);
    EXPECT_EQ(target->architecture, "npu");
    EXPECT_EQ(npu::print_config(npu_config(*target)), npu::print_config(*npu::find_config(name)));
  }
  for (const char* name : {"npu_", "mid32", "npu_mid64", "npu_./x.json", "npu_/etc/passwd"}) {
    EXPECT_TRUE(absl::IsNotFound(find_target(name).status())) << name;
  }
}

// Profiles are there to be compared with, and in no list.
TEST(NpuTargets, MachinesAreListedAndProfilesAreNot) {
  std::vector<std::string> listed;
  for (const Target& target : builtin_targets()) {
    if (target.part.family() == &kNpuFamily) listed.push_back(target.name);
  }
  EXPECT_THAT(listed, testing::ElementsAre("npu_big128", "npu_edge16", "npu_edge16g", "npu_mid32"));
  EXPECT_THAT(find_target("npu_mid64").status().ToString(), HasSubstr("x86_sse2, npu_big128"));
}

// What all targets say.
TEST(NpuTargets, SayWhatFollowsFromTheConfiguration) {
  for (const std::string& name : every_name()) {
    SCOPED_TRACE(name);
    const Target target = *find_target("npu_" + name);
    const npu::Config& c = npu_config(target);
    EXPECT_EQ(target.ghz, c.clock_mhz / 1000);
    EXPECT_EQ(target.cores, 1);
    ASSERT_EQ(target.atoms.size(), c.mx.dtypes.size());
    for (const Atom& atom : target.atoms) {
      const bool is_integer = atom.a == Type::kI8;
      EXPECT_EQ(atom.acc, is_integer ? Type::kI32 : Type::kF32);
      EXPECT_EQ(atom.lanes * atom.group * atom.per_cycle,
                c.mx.rows * c.mx.columns * (is_integer ? 1 : c.mx.bf16_rate));
      EXPECT_EQ(dot_product(target, atom.a, atom.b, atom.acc), &atom);
    }
  }
  const TargetSummary summary = target_summary(*find_target("npu_mid32"));
  ASSERT_EQ(summary.figures.size(), 1u);
  EXPECT_EQ(summary.figures[0].first, std::string("array"));
  EXPECT_EQ(summary.figures[0].second, "32x32");
  ASSERT_EQ(summary.memories.size(), 3u);
  EXPECT_EQ(summary.memories[0].bytes, 524288);
  EXPECT_EQ(known_as(*find_target("npu_mid32"))[0].second, "mid32");
}

// Its text's fields are the paths that the simulator's errors name.
TEST(NpuTargets, AreStoredWhole) {
  for (const std::string& name : every_name()) {
    SCOPED_TRACE(name);
    const Target target = *find_target("npu_" + name);
    const std::string text = to_text(target);
    for (const absl::StatusOr<Target>& read : {parse_target(text), read_target(text)}) {
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(to_text(*read), text);
      EXPECT_EQ(npu::print_config(npu_config(*read)), npu::print_config(npu_config(target)));
      EXPECT_EQ(later_fields(*read), "");
    }
    EXPECT_EQ(target_id(target), sha256(text));
  }
  const Json json = Json::parse(to_text(*find_target("npu_mid32")));
  EXPECT_EQ(json["family"], "npu");
  EXPECT_EQ(json["config"], "mid32");
  EXPECT_EQ(json["mx.R"], 32);
  EXPECT_EQ(json["mx.mode"], "pipelined");
  EXPECT_EQ(json["mx.dtypes"], "i8,bf16");
  EXPECT_EQ(json["ve.cpi.exp"], 4);
  EXPECT_EQ(json["dram.tCCD"], 2.5);
  EXPECT_EQ(json["requant"], "f32_rne");
}

// What a text says after npu_mid32's field was set (null: removed).
absl::Status status_with(const std::string& field, const Json& value) {
  Json json = Json::parse(to_text(*find_target("npu_mid32")));
  if (value.is_null()) {
    json.erase(field);
  } else {
    json[field] = value;
  }
  return parse_target(json.dump()).status();
}

TEST(NpuTargets, MistakesNameTheirField) {
  EXPECT_TRUE(status_with("mx.m_min", 5).ok());
  EXPECT_TRUE(status_with("mx.dtypes", "bf16").ok());
  const struct {
    const char* field;
    Json value;
    const char* message;
  } rows[] = {
      {"mx.R", nullptr, "target: mx.R is missing"},
      {"mx.R", "32", "target: mx.R must be an integer"},
      {"mx.R", 300, "target: mx.R: a whole number from 1 to 255, not 300"},
      {"mx.mode", "fast", "target: mx.mode is none of 'pipelined, serial or direct folds': 'fast'"},
      {"mx.mode", 3, "target: mx.mode must be a string"},
      {"mx.dtypes", "", "target: mx.dtypes is none of 'of operands: i8, bf16': ''"},
      {"mx.dtypes", "i8,f32", "target: mx.dtypes: i8 and bf16 are allowed, not \"f32\""},
      {"mx.dtypes", "i8,i8", "target: mx.dtypes: \"i8\" stands there twice"},
      {"mx.dtypes", "i4", "target: mx.dtypes is none of 'of operands: i8, bf16': 'i4'"},
      {"dram.page", 1000, "target: dram.page: a power of two, not 1000"},
      {"dram.tCCD", 9, "target: dram.tCCD: at most dram.tCCD_L (2.5), not 9"},
      {"acc.bytes", 1000, "target: acc.bytes: a multiple of 4 x acc.align (128), not 1000"},
      {"config", "", "target: config must be 1 to 64 characters"},
      {"ghz", 2, "target: ghz must be clock_mhz / 1000"},
      {"cores", 4, "target: cores must be 1"},
      {"mx.rows", 32, "target: mx.rows is no field"},
  };
  for (const auto& row : rows) {
    const absl::Status status = status_with(row.field, row.value);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), row.message);
  }
}

TEST(NpuTargets, FieldsOfLaterVersionsAreKept) {
  Json json = Json::parse(to_text(*find_target("npu_mid32")));
  json["mx.sparsity"] = 2;
  const absl::StatusOr<Target> read = read_target(json.dump());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(later_fields(*read), "mx.sparsity");
  EXPECT_EQ(Json::parse(to_text(*read)), json);
  json["dram.page"] = 1000;                // nothing can compute with it, whoever stored it
  EXPECT_THAT(read_target(json.dump()).status().ToString(), HasSubstr("dram.page: a power of two"));
}

// What `npu_sim` takes is a target too.
TEST(NpuTargets, AUsersConfigurationIsATarget) {
  npu::Config config = *npu::find_config("mid32");
  config.name = "mine";
  config.spm.bytes *= 2;
  const absl::StatusOr<Target> target = parse_target(npu::print_config(config), "mine.json");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->name, "npu_mine");
  EXPECT_EQ(to_text(*target), to_text(npu_target(config)));
  Json json = Json::parse(npu::print_config(config));
  json["spm"]["byte"] = 4;
  EXPECT_EQ(parse_target(json.dump(), "mine.json").status().message(),
            "mine.json: spm.byte: no such field; did you mean 'bytes'?");
  json = Json::parse(npu::print_config(config));
  json.erase("mx");
  EXPECT_EQ(parse_target(json.dump(), "mine.json").status().message(),
            "mine.json: mx: missing (the systolic array)");
}

// How far programs for mid32 are from a machine that differs so, and theirs from mid32.
std::pair<double, double> distances(const std::function<void(npu::Config&)>& change) {
  const Target mid32 = *find_target("npu_mid32");
  npu::Config config = npu_config(mid32);
  change(config);
  const Target other = npu_target(config);
  return {target_distance(mid32, other), target_distance(other, mid32)};
}

TEST(NpuTargets, AreNearWhereProgramsOfOneRunOnTheOther) {
  const std::pair<double, double> same{0, 0}, never{HUGE_VAL, HUGE_VAL};
  EXPECT_EQ(distances([](npu::Config& c) { c.name = "twin"; }), same);
  EXPECT_EQ(distances([](npu::Config& c) { c.mx.columns = 64; }), never);
  EXPECT_EQ(distances([](npu::Config& c) { c.requant = npu::Requant::kTflite; }), never);
  const auto larger = distances([](npu::Config& c) { c.spm.bytes *= 2; });
  EXPECT_GT(larger.first, 0);
  EXPECT_LT(larger.first, 1);
  EXPECT_EQ(larger.second, HUGE_VAL);
  const auto much_larger = distances([](npu::Config& c) { c.spm.bytes *= 8, c.acc.bytes *= 2; });
  EXPECT_GT(much_larger.first, larger.first);
  EXPECT_LT(much_larger.first, HUGE_VAL);
  const auto one_type = distances([](npu::Config& c) { c.mx.dtypes = {npu::Dtype::kI8}; });
  EXPECT_EQ(one_type.first, HUGE_VAL);
  EXPECT_LT(one_type.second, 1);
  const auto slower = distances([](npu::Config& c) { c.dma.setup += 4; });
  const auto narrower = distances([](npu::Config& c) { c.dram.ccd *= 2, c.dram.ccd_long *= 2; });
  EXPECT_GT(slower.first, 0);
  EXPECT_GT(narrower.first, slower.first);
  EXPECT_EQ(narrower.first, narrower.second);
  EXPECT_LT(narrower.first, HUGE_VAL);
  EXPECT_EQ(target_distance(*find_target("npu_mid32"), *find_target("x86_avx2")), HUGE_VAL);
}

TEST(NpuTargets, SchedulesAreMadeForThem) {
  EXPECT_TRUE(check_family(*find_target("npu_mid32")).ok());
}

}  // namespace
}  // namespace lw
