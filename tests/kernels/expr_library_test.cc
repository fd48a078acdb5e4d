// The operator library: parses, infers, prints back, has an identity, counts its operations, and
// agrees with NumPy (tests/numpy/check_ops.py) on random shapes.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "nlohmann/json.hpp"
#include "src/base/rng.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/work/work.h"

namespace lw {
namespace {

const std::string kSuite = std::string(LW_SOURCE_DIR) + "/bench/workloads/ansor.json";

TEST(Library, EveryOpInstantiatesAndPrintsBack) {
  std::set<std::string> ids;
  EXPECT_GE(builtin_ops().size(), 60u);
  for (const OpDefinition& op : builtin_ops()) {
    SCOPED_TRACE(op.name);
    EXPECT_FALSE(op.doc.empty());
    absl::StatusOr<Program> program = instantiate(op, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const std::string text = print(*program);
    absl::StatusOr<Module> module = parse_module(text, "printed");
    ASSERT_TRUE(module.ok()) << text << module.status().message();
    absl::StatusOr<Program> again = instantiate(module->ops[0], {});
    EXPECT_EQ(print(*again), text);
    EXPECT_EQ(workload_id(*again), workload_id(*program));
    ids.insert(workload_id(*program));
  }
  EXPECT_EQ(ids.size(), builtin_ops().size());
}

TEST(Library, DeclaresWeightsConst) {
  auto consts = [](const char* op) {
    std::string names;
    const Program program = *load_workload({op});
    for (const Tensor& tensor : program.tensors) names += tensor.is_const ? tensor.name : "";
    return names;
  };
  for (const char* op :
       {"conv1d", "conv2d", "conv3d", "conv2d_grouped", "conv2d_dilated", "conv2d_depthwise",
        "conv2d_transpose", "conv2d_capsule", "conv2d_bn_relu", "conv1d_requant",
        "conv2d_requant", "conv3d_requant", "conv2d_residual_requant", "conv2d_grouped_requant",
        "conv2d_dilated_requant", "conv2d_depthwise_requant", "conv2d_transpose_requant",
        "conv2d_capsule_requant"}) {
    EXPECT_EQ(consts(op), "F") << op;
  }
  for (const char* op :
       {"dense", "dense_bias", "dense_relu", "dense_gelu", "dense_i8", "dense_u8i8",
        "dense_requant"}) {
    EXPECT_EQ(consts(op), "B") << op;
  }
  EXPECT_EQ(consts("matmul") + consts("batch_matmul") + consts("matmul_requant"), "");
}

TEST(Library, TheExampleIsTheLibrarysOp) {
  absl::StatusOr<Program> example =
      load_workload({std::string(LW_SOURCE_DIR) + "/examples/dense_relu.te", "M=64"});
  ASSERT_TRUE(example.ok()) << example.status().message();
  EXPECT_EQ(workload_id(*example), workload_id(*load_workload({"dense_relu", "M=64"})));
}

TEST(Library, LoadWorkloadAnswersMistakesWithNames) {
  auto error = [](const std::vector<std::string>& words) {
    return std::string(load_workload(words).status().message());
  };
  EXPECT_EQ(error({"matmull"}),
            "there is no op 'matmull' in the operator library; did you mean 'matmul'?");
  EXPECT_NE(error({"matmul", "Q=3"}).find("it has: M=512 N=512 K=512 T=f32"), std::string::npos);
  EXPECT_EQ(error({"matmul", "M"}), "'M' sets no parameter: NAME=VALUE");
  EXPECT_EQ(error({"matmul", "M=1", "M=2"}), "parameter M is given twice");
  EXPECT_EQ(error({"none.te"}), "cannot read the file 'none.te'");
  EXPECT_EQ(error({}), "no workload is named");
  const std::string example = std::string(LW_SOURCE_DIR) + "/examples/dense_relu.te";
  EXPECT_NE(error({example + ":dense"}).find("did you mean 'dense_relu'?"), std::string::npos);
  EXPECT_TRUE(load_workload({example + ":dense_relu M=3"}).ok());
}

TEST(Suite, EveryCaseLoadsAndCountsItsFlops) {
  absl::StatusOr<std::vector<SuiteCase>> cases = load_suite(kSuite, {});
  ASSERT_TRUE(cases.ok()) << cases.status().message();
  EXPECT_EQ(cases->size(), 96u);
  for (const SuiteCase& one : *cases) {
    SCOPED_TRACE(one.name);
    absl::StatusOr<Program> program = load_workload(one.words);
    ASSERT_TRUE(program.ok()) << program.status().message();
    const Flops flops = count_flops(*program);
    EXPECT_LE(flops.useful, flops.counted);
    const Tensor& result = program->tensors[static_cast<size_t>(outputs(*program)[0])];
    const std::string kind = one.name.substr(0, 3);
    double extra = 0;  // what the suite leaves out: it counts multiply-adds alone
    if (kind == "CBR") extra = 3.0 * static_cast<double>(elements(result));
    if (kind == "NRM") extra = static_cast<double>(elements(result));
    if (kind == "TBS") extra = 5.0 * static_cast<double>(elements(result));
    EXPECT_EQ(flops.counted, one.flop_counted + extra);
    const double share = flops.useful / flops.counted;
    EXPECT_TRUE(kind != "T2D" || (share > 0.17 && share <= 0.25)) << share;
    EXPECT_TRUE(kind != "GMM" || share == 1);
  }
}

TEST(Suite, UsefulFlopsSkipPaddingExactly) {
  // 3 x 3 taps on 4 x 4 pixels: 16 * 9 - 4 sides * 3 * 4 + 4 corners = 100 of 144 are inside.
  const Flops flops = count_flops(*load_workload({"conv2d H=4 W=4 CI=2 CO=3"}));
  EXPECT_EQ(flops.counted, 2.0 * 144 * 2 * 3);
  EXPECT_EQ(flops.useful, 2.0 * 100 * 2 * 3);
  // The taps of a transposed convolution: each input pixel meets each tap unless that falls
  // outside.
  const Flops t2d = count_flops(*load_workload({"conv2d_transpose H=4 W=4 CI=1 CO=1 R=4 pad=0"}));
  EXPECT_EQ(t2d.useful, 2.0 * 16 * 16);
  // Half of a causal mask.
  const Flops pool = count_flops(*load_workload({"max_pool2d H=4 W=4 C=1 R=3 S=3 stride=1 pad=1"}));
  EXPECT_EQ(pool.useful, 100);
}

TEST(Suite, MistakesAreNamed) {
  EXPECT_NE(load_suite(kSuite, {"GMM9_b1"}).status().message().find("did you mean 'GMM"),
            std::string::npos);
  EXPECT_FALSE(load_suite("none.json", {}).ok());
  absl::StatusOr<std::vector<SuiteCase>> two = load_suite(kSuite, {"GMM3_b1", "DEP1_b16"});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ((*two)[1].name, "DEP1_b16");
  EXPECT_EQ((*two)[0].words,
            (std::vector<std::string>{"batch_matmul", "B=1", "M=512", "N=512", "K=512"}));
}

TEST(Suite, RefusesCasesByNameAndKeepsTheOthers) {
  const std::string file = ::testing::TempDir() + "suite_" + std::to_string(getpid()) + ".json";
  std::ofstream(file) << R"({"workloads": [
    {"name": "good", "words": "matmul M=3"},
    {"name": "odd", "op": "GMN", "params": {}},
    {"name": "good", "words": "matmul M=4"},
    {"name": "half", "op": "GMM", "params": {"n": 0.5}},
    {"words": "softmax M=2"}, {"words": "softmax M=2"}, {"op": "GMM"}, 7,
    {"name": "odd", "op": "GMM", "params": {"n": 5}}]})";
  const absl::StatusOr<SuiteCases> suite = read_suite(file, {});
  ASSERT_TRUE(suite.ok()) << suite.status();
  std::string kept, refused;
  for (const SuiteCase& one : suite->cases) kept += one.name + ";";
  for (const RefusedCase& one : suite->refused) refused += one.name + ": " + one.why + "\n";
  EXPECT_EQ(kept, "good;softmax M=2;softmax M=2;");
  EXPECT_EQ(refused,
            "odd: unknown op 'GMN'; did you mean 'GMM'?\n"
            "good: an earlier case has this name\n"
            "half: its n is no integer\n"
            "workload 7: a workload needs a name, an op and params\n"
            "workload 8: a workload needs a name, an op and params\n"
            "odd: an earlier case has this name\n");
  EXPECT_EQ(read_suite(file, {"good"})->cases.size(), 1u);
  EXPECT_EQ(read_suite(file, {"good"})->refused.size(), 0u);
  const std::string all(load_suite(file, {}).status().message());
  EXPECT_NE(all.find("\n  odd: unknown op"), std::string::npos) << all;
  EXPECT_NE(all.find("\n  half: "), std::string::npos) << all;
  EXPECT_TRUE(load_suite(file, {"good", "softmax M=2"}).ok());
  std::filesystem::remove(file);
}

// A random small value for a parameter of a library op.
std::string random_value(const OpDefinition& op, const Parameter& parameter, Rng* rng) {
  const std::string& name = parameter.name;
  auto between = [&](int64_t lo, int64_t hi) {
    return std::to_string(lo + rng->below(hi - lo + 1));
  };
  if (Type type; parse_type(parameter.default_text, &type)) {
    const char* kTypes[] = {"i8", "u8", "f32", "f64", "f16", "bf16", "i32", "i64", "i16"};
    return kTypes[rng->below(type == Type::kI8 ? 2 : 9)];
  }
  if (name == "eps") return "1e-3";
  if (name == "zp") return between(-9, 9);
  if (name == "lo") return rng->below(2) == 0 ? "-128" : "0";
  if (name == "hi") return rng->below(2) == 0 ? "127" : "255";
  if (name == "stride" || name == "dilation") return between(1, 3);
  if (name == "pad") return between(0, 2);
  if (name == "R") return between(1, 4);
  return between(1, op.name.find("conv") == 0 ? 7 : 11);
}

// Channels must divide into groups; padding must leave a result. Redrawn until the op takes them.
std::map<std::string, std::string> random_parameters(const OpDefinition& op, Rng* rng) {
  while (true) {
    std::map<std::string, std::string> values;
    for (const Parameter& parameter : op.parameters)
      values[parameter.name] = random_value(op, parameter, rng);
    if (values.count("groups")) {
      const int64_t groups = 1 + rng->below(3);
      values["groups"] = std::to_string(groups);
      values["CI"] = std::to_string(groups * (1 + rng->below(3)));
      values["CO"] = std::to_string(groups * (1 + rng->below(3)));
    }
    if (instantiate(op, values).ok()) return values;
  }
}

void write_tensor(const std::string& path, const Data& data) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data.bytes.data()),
             static_cast<long>(data.bytes.size()));
}

TEST(Library, AgreesWithNumPy) {
  constexpr int kShapes = 24;
  const std::string folder = ::testing::TempDir() + "loopwright_numpy_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  nlohmann::json manifest = nlohmann::json::array();
  Rng rng(7);
  for (const OpDefinition& op : builtin_ops()) {
    for (int shape = 0; shape < kShapes; ++shape) {
      const std::map<std::string, std::string> parameters = random_parameters(op, &rng);
      Program program = *instantiate(op, parameters);
      nlohmann::json entry = {{"op", op.name}, {"parameters", parameters}};
      auto save = [&](const char* list, int position, const Data& data) {
        const Tensor& tensor = program.tensors[static_cast<size_t>(position)];
        const std::string file = folder + "/" + std::to_string(manifest.size()) + "_" + tensor.name;
        write_tensor(file, data);
        entry[list].push_back({{"name", tensor.name}, {"type", std::string(type_name(tensor.type))},
                               {"shape", tensor.shape}, {"file", file}});
      };
      std::vector<Data> in;
      for (int input : inputs(program)) {
        in.push_back(random_input(program, input, rng.next(), false));
        const Tensor& tensor = program.tensors[static_cast<size_t>(input)];
        const bool requantizes =
            tensor.name == "scale" && !is_float(program.tensors[outputs(program)[0]].type);
        for (int64_t i = 0; requantizes && i < elements(tensor); ++i) {
          std::byte* bytes = in.back().bytes.data();  // or all results would saturate
          store_element(tensor.type, bytes, i, load_element(tensor.type, bytes, i) / 200);
        }
        save("inputs", input, in.back());
      }
      absl::StatusOr<std::vector<Data>> out = interpret(program, in);
      ASSERT_TRUE(out.ok()) << op.name << ": " << out.status().message();
      for (size_t i = 0; i < out->size(); ++i) save("outputs", outputs(program)[i], (*out)[i]);
      manifest.push_back(entry);
    }
  }
  std::ofstream(folder + "/manifest.json") << manifest.dump();
  const std::string command = "/usr/bin/python3 " + std::string(LW_SOURCE_DIR) +
                              "/tests/numpy/check_ops.py " + folder + "/manifest.json";
  EXPECT_EQ(std::system(command.c_str()), 0) << "(needs python3-numpy)";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lw
