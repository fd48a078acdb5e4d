// Targets as data, and the detection of this host.
#include "schedules/targets/target.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/family.h"
#include "schedules/targets/identity.h"
#include "schedules/targets/json_fields.h"
#include "src/base/hash.h"
#include "tests/support/affinity.h"

namespace lw {
namespace {

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

std::vector<Target> builtin_cpus() {
  std::vector<Target> cpus = builtin_targets();
  std::erase_if(cpus, [](const Target& t) { return t.part.family() != &kCpuFamily; });
  return cpus;
}

TEST(Targets, BuiltInOnesAreConsistent) {
  for (const Target& target : builtin_targets()) {
    SCOPED_TRACE(target.name);
    EXPECT_EQ(to_text(*parse_target(to_text(target))), to_text(target));
    EXPECT_EQ(to_text(*find_target(target.name)), to_text(target));
    EXPECT_TRUE(std::is_sorted(target.features.begin(), target.features.end()));
  }
}

TEST(Targets, BuiltInCpusAreConsistent) {
  const std::vector<Target> targets = builtin_cpus();
  ASSERT_GE(targets.size(), 3u);
  for (const Target& target : targets) {
    SCOPED_TRACE(target.name);
    EXPECT_EQ(target.caches.back().name, "DRAM");
    EXPECT_EQ(target.caches.back().bytes, 0);
    for (size_t i = 0; i + 1 < target.caches.size(); ++i) {
      EXPECT_GT(target.caches[i].bytes, i == 0 ? 0 : target.caches[i - 1].bytes);
      EXPECT_GE(target.caches[i].read_bytes_per_cycle, target.caches[i + 1].read_bytes_per_cycle);
      EXPECT_LT(target.caches[i].latency_cycles, target.caches[i + 1].latency_cycles);
    }
    EXPECT_EQ(target.atoms[0].acc, Type::kF32);
    EXPECT_EQ(target.atoms[0].lanes, lanes(target, Type::kF32));
  }
}

TEST(Targets, InstructionsAreFoundByTheirTypes) {
  const Target plain = *find_target("x86_avx512"), rich = *find_target("x86_avx512_bf16");
  ASSERT_NE(multiply_add(rich, Type::kF32), nullptr);
  EXPECT_EQ(multiply_add(rich, Type::kF32)->group, 1);
  EXPECT_EQ(multiply_add(rich, Type::kI32), nullptr);
  EXPECT_EQ(dot_product(plain, Type::kU8, Type::kI8, Type::kI32), nullptr);
  for (const auto& [a, b] : {std::pair{Type::kU8, Type::kI8}, {Type::kI8, Type::kU8}}) {
    const Atom* atom = dot_product(rich, a, b, Type::kI32);
    ASSERT_NE(atom, nullptr);
    EXPECT_EQ(atom->group, 4);
    EXPECT_EQ(atom->a, Type::kU8);
  }
  EXPECT_EQ(dot_product(rich, Type::kI8, Type::kI8, Type::kI32), nullptr);
  ASSERT_NE(dot_product(rich, Type::kBF16, Type::kBF16, Type::kF32), nullptr);
  EXPECT_EQ(dot_product(rich, Type::kF32, Type::kF32, Type::kF32), nullptr);
}

TEST(Targets, LanesOfEveryType) {
  const Target target = *find_target("x86_avx512");
  EXPECT_EQ(lanes(target, Type::kF32), 16);
  EXPECT_EQ(lanes(target, Type::kF64), 8);
  EXPECT_EQ(lanes(target, Type::kI8), 64);
  EXPECT_EQ(lanes(*find_target("x86_sse2"), Type::kF64), 2);
}

TEST(Targets, UnknownNamesAnswerWithTheKnownOnes) {
  const absl::Status status = find_target("x86_avx1024").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.ToString(),
              testing::HasSubstr("host, aarch64_neon, nvidia_sm80, nvidia_sm90a, opencl_cpu, "
                                 "opencl_gpu, opencl_intel_gpu, "
                                 "x86_avx2, x86_avx2_vnni, x86_avx512, x86_avx512_bf16, "
                                 "x86_avx512_vnni, x86_sse2"));
}

TEST(Targets, MistakesNameTheirField) {
  const std::string text = to_text(*find_target("x86_avx2"));
  const std::string mistakes[][3] = {
      {"\"ghz\": 3.0,", "", "ghz is missing"},
      {"\"ghz\": 3.0", "\"ghz\": \"fast\"", "ghz must be a number"},
      {"\"ghz\": 3.0", "\"ghz\": -1", "ghz is out of range"},
      {"\"fma\": true", "\"fma\": 1", "fma must be true or false"},
      {"\"vector_bytes\": 32", "\"vector_bytes\": 0", "vector_bytes is out of range"},
      {"\"name\": \"L2\"", "\"nme\": \"L2\"", "caches[1].name is missing"},
      {"\"acc\": \"f32\"", "\"acc\": \"f33\"", "atoms[0].acc is no type: 'f33'"},
      {"\"cores\"", "\"colour\": 3, \"cores\"", "colour is no field"},
      {"\"features\": [", "\"features\": [7,", "features must be a list of strings"},
  };
  for (const auto& [from, to, message] : mistakes) {
    const absl::Status status = parse_target(with(text, from, to)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.ToString(), testing::HasSubstr(message));
  }
  for (const char* text : {"", "{", "[]", "null", "{\"caches\": 3}", "{\"caches\": [3]}"}) {
    EXPECT_FALSE(parse_target(text).ok()) << text;
  }
}

// What a later version stored is read, kept and printed as it came, so that its key stays.
TEST(Targets, FieldsOfLaterVersionsAreKept) {
  const std::string text = to_text(*find_target("x86_avx2"));
  std::string later = with(text, "\"atoms\": [",
                           "\"atoms\": [{\"name\": \"fma_f16\", \"a\": \"f16\", "
                           "\"b\": \"f16\", \"acc\": \"f16\", \"lanes\": 16, \"group\": 1, "
                           "\"per_cycle\": 2.0, \"latency\": 4.0, \"pipes\": [0, 1]},");
  later.insert(later.rfind("\n}"), ",\n  \"banks\": {\"of\": 16}");
  EXPECT_FALSE(parse_target(later).ok());
  const absl::StatusOr<Target> read = read_target(later);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(later_fields(*read), "banks, atoms[0].pipes");
  EXPECT_EQ(OrderedJson::parse(to_text(*read)).dump(), OrderedJson::parse(later).dump());
  EXPECT_EQ(to_text(*read_target(to_text(*read))), to_text(*read));
  EXPECT_EQ(later_fields(*read_target(text)), "");
  EXPECT_EQ(to_text(*read_target(text)), text);
}

// Anybody may send what is kept unread.
TEST(Targets, WhatIsNestedTooDeeplyIsRefused) {
  const int levels = 1'000'000;
  const std::string deep = "{\"a\": " + std::string(levels, '[') + std::string(levels, ']') + "}";
  const std::string text = to_text(*find_target("x86_avx2"));
  const std::string with_deep = with(text, "\"cores\"", "\"a\": " + deep + ", \"cores\"");
  EXPECT_THAT(read_target(with_deep).status().ToString(), testing::HasSubstr("nested too deeply"));
  Target target = *find_target("x86_avx2");
  target.later = deep;
  target.atoms[0].later = "not JSON";
  EXPECT_EQ(to_text(target), text);
  EXPECT_EQ(later_fields(target), "");
}

TEST(Targets, WhatIsAbsentIsTheDefault) {
  const std::string text = with(to_text(*find_target("x86_avx2")), "\"tlb_entries\"", "\"other\"");
  EXPECT_EQ(cpu(*read_target(text)).tlb_entries, CpuTarget().tlb_entries);
  EXPECT_THAT(parse_target(text).status().ToString(),
              testing::HasSubstr("tlb_entries is missing"));
}

// A field as later versions will add it.
struct Grown {
  int64_t old = 7, young = 3;
  std::string later;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({1, "old"}, self.old);
    visit({.number = 2, .name = "young", .added = true}, self.young);
    visit({3, "later"}, self.later);
  }
};

TEST(Targets, AddedFieldsArePrintedWhereTheySaySomething) {
  EXPECT_EQ(to_json_object(Grown{}).dump(), R"({"old":7})");
  EXPECT_EQ(to_json_object(Grown{7, 4, ""}).dump(), R"({"old":7,"young":4})");
  Grown read{0, 0, ""};
  std::string error;
  const OrderedJson json = OrderedJson::parse(R"({"old": 8})");
  JsonFieldReader reader(json, "", /*stored=*/false, &error);
  Grown::fields(read, reader);
  EXPECT_EQ(error, "");
  EXPECT_EQ(read.old, 8);
}

// A family as later versions will have one; its own fields stand below those of all targets.
struct Toy {
  int units = 8;
  double setup_us = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({101, "units"}, self.units);
    visit({.number = 102, .name = "setup_us", .added = true}, self.setup_us);
  }
};

const TargetFamily kToys = {.name = "toy",
                            .architectures = {},
                            .mark = "units",
                            .has_schedules = false,
                            .has_threads = false,
                            .copy = copy_part<Toy>,
                            .fields = fields_of_part<Toy>,
                            .omission = nullptr,
                            .defect = nullptr,
                            .distance = nullptr,
                            .summary = nullptr,
                            .known_as = nullptr,
                            .host = nullptr,
                            .configurations = nullptr};

Target toy() {
  Target target;
  target.name = "toy4";
  target.architecture = "toy";
  target.cores = 4;
  target.part = TargetPart(kToys);
  return target;
}

TEST(Families, APartIsPrintedWithTheRest) {
  const std::string begin =
      R"({"name":"toy4","family":"toy","features":[],"ghz":2.5,"cores":4,"caches":[],"atoms":[])";
  EXPECT_EQ(to_json_object(toy()).dump(), begin + R"(,"units":8})");
  Target target = toy();
  target.part = TargetPart(kToys, std::make_shared<const Toy>(Toy{16, 0.5}));
  EXPECT_EQ(to_json_object(target).dump(), begin + R"(,"units":16,"setup_us":0.5})");
}

TEST(Families, WhoChangesAPartChangesItsOwn) {
  const Target first = toy();
  Target second = first;
  std::string error;
  const OrderedJson json = OrderedJson::parse(R"({"units": 2})");
  JsonFieldReader reader(json, "", /*stored=*/true, &error);
  Target::fields(second, reader);
  EXPECT_EQ(error, "");
  EXPECT_EQ(to_json_object(first)["units"], 8);
  EXPECT_EQ(to_json_object(second)["units"], 2);
}

// What a later version's family says is kept where nobody here knows the family, so that its key
// stays, and is refused where it would have to be understood.
TEST(Families, UnknownOnesAreKept) {
  const std::string text = to_text(toy());
  const absl::StatusOr<Target> read = read_target(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->part.family(), nullptr);
  EXPECT_EQ(read->cores, 4);
  EXPECT_EQ(to_text(*read), text);
  EXPECT_EQ(later_fields(*read), "units");
  EXPECT_EQ(target_id(*read), target_id(toy()));
  EXPECT_EQ(target_distance(*read, *read), HUGE_VAL);
  EXPECT_TRUE(target_summary(*read).figures.empty());
  EXPECT_TRUE(known_as(*read).empty());
  EXPECT_EQ(missing_feature(*read, *find_target("x86_avx2")), "toy");
  EXPECT_THAT(parse_target(text).status().ToString(),
              testing::HasSubstr("family 'toy' is none of aarch64, npu, nvidia, opencl, x86_64"));
}

// Another architecture is no other family: its text and its figures are read.
TEST(Families, AreKnownByTheirMark) {
  const std::string text =
      with(to_text(*find_target("aarch64_neon")), "\"aarch64\"", "\"riscv64\"");
  const absl::StatusOr<Target> read = read_target(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(cpu(*read).vector_bytes, 16);
  EXPECT_EQ(to_text(*read), text);
  EXPECT_EQ(later_fields(*read), "");
}

TEST(Families, EveryArchitectureIsOfOneAlone) {
  std::set<std::string> seen;
  for (const TargetFamily* family : lw_target_family_table()) {
    for (const char* architecture : family->architectures) {
      EXPECT_TRUE(seen.insert(architecture).second) << architecture;
    }
  }
  EXPECT_EQ(known_architectures(), "aarch64, npu, nvidia, opencl, x86_64");
  for (const Target& target : builtin_targets()) EXPECT_NE(target.part.family(), nullptr);
}

TEST(Families, DistancesAreOfTwoAlike) {
  const Target avx2 = *find_target("x86_avx2"), avx512 = *find_target("x86_avx512");
  EXPECT_EQ(target_distance(avx2, avx2), 0);
  EXPECT_GT(target_distance(avx2, avx512), 0);
  EXPECT_LT(target_distance(avx2, avx512), HUGE_VAL);
  EXPECT_EQ(target_distance(avx2, toy()), HUGE_VAL);
}

TEST(Targets, MissingFeaturesDecideWhatRuns) {
  const Target sse2 = *find_target("x86_sse2"), avx2 = *find_target("x86_avx2"),
               avx512 = *find_target("x86_avx512");
  EXPECT_EQ(missing_feature(sse2, avx512), "");
  EXPECT_EQ(missing_feature(avx2, avx512), "");
  EXPECT_EQ(missing_feature(avx512, avx2), "avx512bw");
  EXPECT_NE(missing_feature(avx2, sse2), "");
  Target other = sse2;
  other.architecture = "aarch64";
  EXPECT_EQ(missing_feature(sse2, other), "x86_64");
}

TEST(Host, IsDetectedTheSameTwice) {
  const absl::StatusOr<Target> host = find_target("host");
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(to_text(*host), to_text(*find_target("host")));
  EXPECT_EQ(to_text(*parse_target(to_text(*host))), to_text(*host));
  EXPECT_EQ(host->name, "host");
  EXPECT_EQ(host->architecture, "x86_64");
  EXPECT_EQ(missing_feature(*find_target("x86_sse2"), *host), "");
  // The widest built-in target that runs here.
  for (const Target& target : builtin_targets()) {
    if (missing_feature(target, *host).empty()) {
      EXPECT_GE(cpu(*host).vector_bytes, cpu(target).vector_bytes);
    }
  }
  EXPECT_EQ(host->caches.back().name, "DRAM");
  for (size_t i = 0; i + 1 < host->caches.size(); ++i) EXPECT_GT(host->caches[i].bytes, 4096);
}

TEST(Identity, IsTheTextsHashForATargetOfOneCore) {
  for (const Target& target : builtin_targets()) {
    EXPECT_EQ(target_id(target), sha256(to_text(target))) << target.name;
    Target other = target;
    other.cores = 64;
    EXPECT_EQ(target_id(other), target_id(target));
    EXPECT_EQ(to_text(identity_of(other)), to_text(target));
    other.ghz += 0.1;
    EXPECT_NE(target_id(other), target_id(target));
  }
}

TEST(Identity, OfTheHostIsTheSameOnEachOfItsProcessors) {
  const std::string whole = target_id(*find_target("host"));
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    const OnOneProcessor here(cpu);
    EXPECT_EQ(find_target("host")->cores, 1);
    EXPECT_EQ(target_id(*find_target("host")), whole) << "processor " << cpu;
  }
}

TEST(Host, CountsTheCoresItMayUse) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(find_target("host")->cores, CPU_COUNT(&all));
}

}  // namespace
}  // namespace lw
