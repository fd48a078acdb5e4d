// The nest as JSON, of every operator of the library on every kind of machine: what it says is whole
// (names are those of something, tiles cover extents) and tells apart what the text of nests does.
// LW_SEED says which schedules are drawn.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/export/nest_json.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/expr/language/text.h"
#include "tests/kernels/random_trace.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMachines[] = {"x86_avx512", "x86_avx512_vnni", "aarch64_neon", "opencl_gpu",
                                     "nvidia_sm90a", "npu_mid32"};
constexpr int kDrawn = 3, kRandomSteps = 12;

const Json* named(const Json& list, const std::string& name) {
  for (const Json& entry : list) {
    if (entry["name"] == name) return &entry;
  }
  return nullptr;
}

// What each loop runs over of an axis, outermost first.
using Chains = std::map<std::string, std::vector<const Json*>>;

void add_part(const Json& part, Chains& chains, int64_t* product) {
  *product *= part["trips"].get<int64_t>();
  chains[part["axis"].get<std::string>()].push_back(&part);
}

void expect_chains(const Json& stage) {
  Chains chains;
  for (const Json& loop : stage["loops"]) {
    int64_t product = 1;
    if (loop.contains("axis")) add_part(loop, chains, &product);
    if (loop.contains("fused")) {
      EXPECT_GT(loop["fused"].size(), 1);
      for (const Json& part : loop["fused"]) add_part(part, chains, &product);
    }
    EXPECT_EQ(loop["trips"], product) << loop;
  }
  for (const Json& axis : stage["axes"]) {
    const std::vector<const Json*> chain = chains[axis["name"].get<std::string>()];
    const bool is_partial = stage.contains("partial") && axis == stage["axes"][0];
    EXPECT_EQ(chain.empty(), is_partial) << stage;
    int64_t range = axis["extent"];
    for (const Json* part : chain) {
      const int64_t tile = (*part)["tile"], trips = (*part)["trips"];
      EXPECT_EQ((*part)["range"], range) << stage;
      EXPECT_GE(trips * tile, range) << stage;
      EXPECT_LT((trips - 1) * tile, range) << stage;
      range = std::min(range, tile);
    }
    if (!chain.empty()) EXPECT_EQ(range, 1) << stage;
    chains.erase(axis["name"].get<std::string>());
  }
  EXPECT_TRUE(chains.empty()) << stage;
}

void expect_place(const Json& stage, const Json& stages) {
  static const std::set<std::string> kKinds = {"root", "at", "inlined", "epilogue", "prepack"};
  const Json& place = stage["place"];
  EXPECT_TRUE(kKinds.contains(place["kind"])) << stage;
  const Json* host = place.contains("host") ? named(stages, place["host"]) : nullptr;
  EXPECT_EQ(place.contains("host"), host != nullptr) << stage;
  const bool stands = place["kind"] == "at" || place["kind"] == "epilogue";
  if (stands) EXPECT_NE(host, nullptr) << stage;
  EXPECT_EQ(place.contains("loop"), place["kind"] == "at") << stage;
  if (place.contains("loop") && host != nullptr)
    EXPECT_NE(named((*host)["loops"], place["loop"]), nullptr) << stage;
  if (place["kind"] == "epilogue" && host != nullptr) {
    const Json& listed = (*host)["epilogues"];
    EXPECT_NE(std::find(listed.begin(), listed.end(), stage["name"]), listed.end()) << stage;
  }
}

void expect_reads(const Json& stage, const Json& nest) {
  EXPECT_NE(stage.contains("copy"), stage.contains("body")) << stage;
  if (stage.contains("copy")) {
    EXPECT_NE(named(nest["tensors"], stage["copy"]["of"]), nullptr) << stage;
    EXPECT_EQ(stage["copy"]["depth"] > 0, stage["place"]["kind"] == "at") << stage;
    return;
  }
  for (const Json& read : stage["reads"]) {
    EXPECT_NE(named(nest["tensors"], read["tensor"]), nullptr) << stage;
    if (!read.contains("from")) continue;
    const Json* copy = named(nest["stages"], read["from"]);
    ASSERT_NE(copy, nullptr) << stage;
    EXPECT_EQ((*copy)["copy"]["of"], read["tensor"]) << stage;
  }
}

void expect_whole(const Nest& nest) {
  const Json json = nest_json(nest);
  EXPECT_EQ(Json::parse(json.dump()), json);
  EXPECT_EQ(json["version"], kNestJsonVersion);
  EXPECT_EQ(json["stages"].size(), nest.stages.size());
  for (const Json& stage : json["stages"]) {
    EXPECT_NE(named(json["tensors"], stage["tensor"]), nullptr) << stage;
    expect_chains(stage);
    expect_place(stage, json["stages"]);
    expect_reads(stage, json);
    for (const Json& epilogue : stage["epilogues"])
      EXPECT_NE(named(json["stages"], epilogue), nullptr) << stage;
    for (const auto& [axis, points] : stage["register_tile"]["points"].items()) {
      EXPECT_NE(named(stage["axes"], axis), nullptr) << stage;
      EXPECT_GE(points, 1) << stage;
    }
  }
}

// Nests of which the text differs do so in JSON.
class Texts {
 public:
  void add(const Nest& nest) {
    const auto [known, is_new] = text_of_.emplace(nest_json(nest)["stages"].dump(), print(nest));
    EXPECT_EQ(known->second, print(nest)) << "the same JSON";
  }
  size_t different() const { return text_of_.size(); }

 private:
  std::map<std::string, std::string> text_of_;
};

TEST(NestJson, SaysAllOfEveryOperatorOnEveryMachine) {
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 3)));
  size_t different = 0;
  for (const char* machine : kMachines) {
    const absl::StatusOr<Target> target = find_target(machine);
    ASSERT_TRUE(target.ok()) << target.status();
    const auto shared = std::make_shared<const Target>(*target);
    for (const OpDefinition& op : builtin_ops()) {
      const absl::StatusOr<Program> program = load_workload({op.name});
      ASSERT_TRUE(program.ok()) << program.status();
      const Nest start = make_nest(std::make_shared<const Program>(*program), shared, 4);
      Texts texts;
      expect_whole(start);
      texts.add(start);
      for (const Sketch& sketch : make_space(start)) {
        for (int n = 0; n < kDrawn; ++n) {
          const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
          if (!drawn.ok()) continue;       // infeasible
          expect_whole(drawn->nest);
          texts.add(drawn->nest);
        }
      }
      if (serves(*target, "cpu")) {
        Nest steps = start;                // what no rule makes: whole axes fused, odd tails
        TraceWriter(rng, {}).write(steps, kRandomSteps);
        expect_whole(steps);
        texts.add(steps);
      }
      different += texts.different();
      if (HasFailure()) FAIL() << op.name << " on " << machine;
    }
  }
  std::printf("%zu different nests\n", different);
}

TEST(NestJson, OfOneSchedule) {
  const absl::StatusOr<Program> program = load_workload({"dense_relu", "M=100", "N=64", "K=32"});
  ASSERT_TRUE(program.ok()) << program.status();
  const Nest start = make_nest(std::make_shared<const Program>(*program),
                               std::make_shared<const Target>(*find_target("x86_avx512")), 2);
  const absl::StatusOr<Trace> trace = parse_trace(
      "split(C, i; 8, 1)\nreorder(C, i.0, k, i.1, j; 0)\nunroll(C, i.1)\nvectorize(C, j)\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const absl::StatusOr<Nest> nest = replay(start, *trace);
  ASSERT_TRUE(nest.ok()) << nest.status();
  const Json json = nest_json(*nest);
  const Json* stage = named(json["stages"], "C");
  ASSERT_NE(stage, nullptr) << json;
  EXPECT_EQ((*stage)["loops"][0], Json::parse(R"({"name": "i.0", "kind": "serial", "trips": 13,
      "tail": "mask", "axis": "i", "tile": 8, "range": 100})")) << json.dump(1);
  EXPECT_EQ((*stage)["register_tile"], Json::parse(R"({"loop": 2, "accumulate_from_loop": 1,
      "points": {"i": 8, "j": 64, "k": 1}})")) << json.dump(1);
  EXPECT_EQ((*stage)["body"], "A[i, k] * B[k, j]");
}

}  // namespace
}  // namespace lw
