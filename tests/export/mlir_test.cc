// Schedules through stock MLIR: random schedules of operators become linalg operations and transform
// scripts, mlir-opt-19 and LLVM's tools make objects of them, and what these compute is what the
// reference does. LW_MLIR_SCHEDULES says how many of the random ones, LW_SEED which.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "src/export/mlir.h"
#include "absl/strings/str_join.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "tests/kernels/random_shapes.h"
#include "tests/support/close_results.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

namespace lw {
namespace {

namespace fs = std::filesystem;

constexpr char kNoMlir[] = "no mlir-opt-19 is here";
constexpr int kInModule = 25;
constexpr int kAttempts = 8;
constexpr double kMostFlops = 3e6;
constexpr int64_t kMostElements = 200'000;

bool has_mlir() { return std::system("mlir-opt-19 --version > /dev/null 2>&1") == 0; }

struct Case {
  std::string words;
  std::string trace;
  std::shared_ptr<const Program> program;
  MlirFunction function;
};

Nest start_of(std::shared_ptr<const Program> program) {
  return make_nest(std::move(program), std::make_shared<const Target>(*find_target("x86_avx512")),
                   /*threads=*/1);
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

// A folder with an export of all cases; removed in the end.
class Folder {
 public:
  explicit Folder(const std::vector<Case>& cases) {
    static int number = 0;
    path_ = fs::temp_directory_path() / concat("loopwright_mlir_", getpid(), "_", number++);
    fs::create_directories(path_);
    std::vector<MlirFunction> functions;
    for (const Case& one : cases) functions.push_back(one.function);
    write(path_ / "payload.mlir", payload_module(functions));
    write(path_ / "schedule.mlir", schedule_module(functions));
    write(path_ / "prelude.mlir", mlir_prelude());
    write(path_ / "lower.sh", mlir_lower_script());
  }
  ~Folder() {
    if (std::getenv("LW_KEEP") == nullptr) fs::remove_all(path_);
  }

  // Runs the script and links: whether both went well. A crash of a tool is a failure of the script.
  bool build() {
    const std::string command =
        concat("cd ", path_.string(), " && timeout 300 sh lower.sh > log 2>&1 && "
               "cc -shared -Wl,-z,defs -o kernel.so kernel.o -lm >> log 2>&1");
    return std::system(command.c_str()) == 0;
  }
  std::string log() const { return slurp((path_ / "log").string()).substr(0, 2000); }
  std::string path(const char* name) const { return (path_ / name).string(); }
  std::string library() const { return (path_ / "kernel.so").string(); }

 private:
  fs::path path_;
};

// Calls a function of bare pointers.
void call(void* function, const std::vector<void*>& p) {
  using P = void*;
  switch (p.size()) {
    case 2: return reinterpret_cast<void (*)(P, P)>(function)(p[0], p[1]);
    case 3: return reinterpret_cast<void (*)(P, P, P)>(function)(p[0], p[1], p[2]);
    case 4: return reinterpret_cast<void (*)(P, P, P, P)>(function)(p[0], p[1], p[2], p[3]);
    case 5:
      return reinterpret_cast<void (*)(P, P, P, P, P)>(function)(p[0], p[1], p[2], p[3], p[4]);
    case 6:
      return reinterpret_cast<void (*)(P, P, P, P, P, P)>(function)(p[0], p[1], p[2], p[3], p[4],
                                                                   p[5]);
    case 7:
      return reinterpret_cast<void (*)(P, P, P, P, P, P, P)>(function)(p[0], p[1], p[2], p[3], p[4],
                                                                      p[5], p[6]);
    default: FAIL() << p.size() << " arguments";
  }
}

// Values that reassociation does not change, unless functions make them others.
double tolerance_of(const Program& program) {
  bool rounds = false;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.body == nullptr) continue;
    visit(tensor.body, [&](const ExprNode& e) {
      rounds = rounds || is_function(e.op) || (e.op == ExprOp::kDiv && is_float(e.type));
    });
  }
  return rounds ? tolerance(program) : 0;
}

void expect_values(const Case& one, void* library, Rng& rng) {
  const Program& program = *one.program;
  void* function = dlsym(library, one.function.symbol.c_str());
  ASSERT_NE(function, nullptr) << one.function.symbol;
  std::vector<Data> in;
  for (int tensor : inputs(program))
    in.push_back(random_input(program, tensor, rng.next(), /*integers=*/true));
  const absl::StatusOr<std::vector<Data>> want = interpret(program, in);
  ASSERT_TRUE(want.ok()) << want.status();
  std::vector<Data> buffers = in;
  for (const Data& data : *want)           // a poison: NaN in every float type
    buffers.push_back({std::vector<std::byte>(data.bytes.size(), std::byte{0xff})});
  for (const PackedArgument& packed : one.function.packed) {
    const int64_t elements = std::accumulate(packed.shape.begin(), packed.shape.end(), int64_t{1},
                                             std::multiplies<>());
    buffers.push_back({std::vector<std::byte>(static_cast<size_t>(elements * size_of(packed.type)),
                                              std::byte{0xff})});
  }
  std::vector<void*> pointers;
  for (Data& data : buffers) pointers.push_back(data.bytes.data());
  if (!one.function.packed.empty()) {
    void* prepack = dlsym(library, (one.function.symbol + "_prepack").c_str());
    ASSERT_NE(prepack, nullptr) << one.function.symbol;
    call(prepack, pointers);
  }
  call(function, pointers);
  const std::vector<int> out = outputs(program);
  for (size_t n = 0; n < out.size(); ++n) {
    const Tensor& tensor = program.tensors[out[n]];
    EXPECT_EQ(compare(tensor, buffers[in.size() + n].bytes.data(), (*want)[n].bytes.data(),
                      tolerance_of(program)), "")
        << one.words << "\n" << one.trace;
  }
}

// Builds them in one module; where that fails, each alone, to name who is at fault.
void expect_all(const std::vector<Case>& cases, Rng& rng) {
  Folder folder(cases);
  if (!folder.build()) {
    if (cases.size() == 1) {
      ADD_FAILURE() << cases[0].words << "\n" << cases[0].trace << folder.log();
    } else {
      for (const Case& one : cases) expect_all({one}, rng);
    }
    return;
  }
  void* library = dlopen(folder.library().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const Case& one : cases) expect_values(one, library, rng);
  dlclose(library);
}

// The operators of the suite (bench/workloads/ansor.json), and what else is common.
constexpr const char* kOperators[] = {
    "conv1d", "conv2d", "conv3d", "conv2d_grouped", "conv2d_dilated", "conv2d_depthwise",
    "conv2d_transpose", "conv2d_capsule", "batch_matmul", "norm", "conv2d_bn_relu",
    "transpose_batch_matmul_softmax", "matmul", "dense_relu", "max_pool2d", "column_sum",
    "transpose", "matmul_requant", "elementwise_chain"};

TEST(Mlir, RandomSchedulesComputeWhatTheReferenceDoes) {
  if (!has_mlir()) GTEST_SKIP() << kNoMlir;
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 5)));
  const int64_t wanted = setting("LW_MLIR_SCHEDULES", 500);
  std::map<std::string, int> refused;
  std::map<std::string, std::pair<int, int>> of;  // an operator: accepted, refused
  std::vector<Case> cases;
  int64_t accepted = 0, drawn = 0;
  const auto flush = [&] {
    expect_all(cases, rng);
    cases.clear();
  };
  while (accepted < wanted && !HasFailure()) {
    const std::string name = kOperators[drawn++ % std::size(kOperators)];
    const OpDefinition* op = nullptr;
    for (const OpDefinition& known : builtin_ops()) {
      if (known.name == name) op = &known;
    }
    ASSERT_NE(op, nullptr) << name;
    Case one;
    const int round = static_cast<int>(drawn / std::size(kOperators));
    const RandomShape shape = random_shape(*op, round, kMostFlops, kMostElements, rng);
    one.words = absl::StrJoin(shape.words, " ");
    one.program = std::make_shared<const Program>(shape.program);
    const Nest start = start_of(one.program);
    const std::vector<Sketch> space = make_space(start);
    for (int n = 0; n < kAttempts; ++n) {
      const Sketch& sketch = space[rng.below(static_cast<int64_t>(space.size()))];
      const absl::StatusOr<Sample> sampled = sample(start, sketch, rng);
      if (!sampled.ok()) continue;
      one.trace = to_text(sampled->trace);
      one.function = mlir_function(sampled->nest, sampled->trace, concat(name, "_", drawn));
      EXPECT_EQ(one.function.steps.size(), sampled->trace.size());
      if (!one.function.refused.empty()) {
        ++of[name].second;
        ++refused[one.function.refused];
        continue;
      }
      ++of[name].first;
      ++accepted;
      cases.push_back(one);
      break;
    }
    if (cases.size() == kInModule) flush();
  }
  flush();
  for (const auto& [why, count] : refused) std::printf("refused %d times: %s\n", count, why.c_str());
  for (const auto& [name, counts] : of)
    std::printf("%s: %d accepted, %d refused\n", name.c_str(), counts.first, counts.second);
}

Case case_of(const std::vector<std::string>& words, std::string_view trace_text,
             const char* machine = "x86_avx512", int threads = 1) {
  Case one;
  const absl::StatusOr<Program> program = load_workload(words);
  EXPECT_TRUE(program.ok()) << program.status();
  one.program = std::make_shared<const Program>(*program);
  const Nest start = make_nest(one.program, std::make_shared<const Target>(*find_target(machine)),
                               threads);
  const absl::StatusOr<Trace> trace = parse_trace(trace_text);
  EXPECT_TRUE(trace.ok()) << trace.status();
  const absl::StatusOr<Nest> nest = replay(start, *trace);
  EXPECT_TRUE(nest.ok()) << nest.status();
  one.trace = trace_text;
  one.function = mlir_function(*nest, *trace, program->name);
  return one;
}

std::map<std::string, std::string> classes_of(const MlirFunction& function) {
  std::map<std::string, std::string> classes;
  const nlohmann::ordered_json report = mlir_report(function);
  for (const auto& step : report["steps"])
    classes[step["step"].get<std::string>()] = step["class"].get<std::string>();
  return classes;
}

TEST(Mlir, SaysWhatItKeeps) {
  const Case plain = case_of({"dense_relu", "M=100", "N=64", "K=32"},
                             "reverse_inline(D, C)\n"
                             "register_tile(C, k, i, j; 2, 8, 32, 0, 0, 0)\n");
  EXPECT_TRUE(is_exact(plain.function));
  EXPECT_EQ(plain.function.refused, "");
  const Case lossy = case_of({"dense_relu", "M=100", "N=64", "K=32"},
                             "reverse_inline(D, C)\n"
                             "register_tile(C, k, i, j; 2, 8, 32, 0, 1, 0)\n"
                             "prefetch(C, A; 4)\nparallel(C, i.0; 1)\n", "x86_avx512", 2);
  EXPECT_FALSE(is_exact(lossy.function));
  const auto classes = classes_of(lossy.function);
  EXPECT_EQ(classes.at("reverse_inline(D, C)"), "exact");
  EXPECT_EQ(classes.at("register_tile(C, k, i, j; 2, 8, 32, 0, 1, 0)"), "approximate");
  EXPECT_EQ(classes.at("prefetch(C, A; 4)"), "approximate");
  EXPECT_EQ(classes.at("parallel(C, i.0; 1)"), "lost");
}

TEST(Mlir, PacksPanels) {
  const auto packed_class = [](const Case& one) {
    for (const auto& [step, word] : classes_of(one.function)) {
      if (step.starts_with("stage(")) return word;
    }
    return std::string("none");
  };
  // Of weights: once, in memory of the caller's. The panels' columns are the epilogue's, too.
  const Case weights = case_of({"dense_relu", "M=37", "N=96", "K=24"},
                               "reverse_inline(D, C)\n"
                               "register_tile(C, k, i, j; 2, 8, 32, 0, 0, 0)\n"
                               "stage(C, B; 0, 1, 32)\n");
  EXPECT_EQ(packed_class(weights), "exact");
  ASSERT_EQ(weights.function.packed.size(), 1u);
  EXPECT_EQ(weights.function.packed[0].tensor, "B");
  EXPECT_EQ(weights.function.packed[0].shape, (std::vector<int64_t>{3, 24, 32}));
  // Of what is not const: in each call.
  const Case columns = case_of({"matmul", "M=10", "N=64", "K=12"},
                               "register_tile(C, k, i, j; 2, 4, 32, 0, 0, 0)\n"
                               "stage(C, B; 0, 1, 32)\n");
  EXPECT_EQ(packed_class(columns), "exact");
  EXPECT_TRUE(columns.function.packed.empty());
  // Rows of the left operand, which lie across the blocks; and in a loop, with what a tile reads.
  const Case rows = case_of({"matmul", "M=32", "N=40", "K=12"},
                      "register_tile(C, k, i, j; 2, 4, 32, 0, 0, 0)\nstage(C, A; 1, 0, 4)\n");
  EXPECT_EQ(packed_class(rows), "exact");
  const Case window = case_of({"conv2d", "H=9", "W=7", "CI=6", "CO=16"},
                              "register_tile(Y, ci, y, x, co; 2, 1, 4, 16, 0, 0, 0, 0)\n"
                              "stage(Y, X; 3, -1, 0)\n");
  EXPECT_EQ(packed_class(window), "exact");
  const Case uneven = case_of({"dense_relu", "M=37", "N=100", "K=24"},
                              "register_tile(C, k, i, j; 2, 8, 32, 0, 0, 0)\n"
                              "stage(C, B; 0, 1, 32)\n");
  EXPECT_EQ(packed_class(uneven), "lost");
  // Half of a block is left over: every vector is a block.
  const Case halves = case_of({"dense_relu", "M=9", "N=80", "K=24"},
                              "register_tile(C, k, i, j; 2, 8, 32, 0, 0, 0)\n"
                              "stage(C, B; 0, 1, 32)\n");
  EXPECT_EQ(packed_class(halves), "approximate");
  EXPECT_EQ(halves.function.packed.at(0).shape, (std::vector<int64_t>{5, 24, 16}));
  const Case wide = case_of({"matmul", "M=8", "N=32", "K=12", "T=bf16"},
                            "register_tile(C, k, i, j; 2, 4, 32, 0, 0, 0)\n"
                            "stage(C, B; 0, -1, 0, 0, -1, 0, 1)\n");
  EXPECT_EQ(packed_class(wide), "lost");
  if (!has_mlir()) GTEST_SKIP() << kNoMlir;
  Rng rng(1);
  expect_all({weights, rows}, rng);
  expect_all({columns}, rng);            // functions of one name are in modules of their own
  expect_all({window, halves}, rng);
}

// The group of a channel is its quotient: an axis of its own, which panels of half a group cut again.
TEST(Mlir, CutsChannelsIntoGroups) {
  const std::vector<std::string> words = {"conv2d_grouped", "H=6", "W=7", "CI=8", "CO=64",
                                          "groups=2"};
  const Case inside = case_of(words,
                              "split(Y, co; 32, 0)\n"
                              "register_tile(Y, ci, x, co.1; 2, 4, 16, 0, 0, 0)\n"
                              "stage(Y, F; 0, 3, 16)\nprefetch(Y, X; 2)\n");
  EXPECT_EQ(inside.function.refused, "");
  EXPECT_TRUE(inside.function.fetches_ahead);
  ASSERT_EQ(inside.function.packed.size(), 1u);
  EXPECT_EQ(inside.function.packed[0].shape, (std::vector<int64_t>{4, 3, 3, 4, 16}));
  const Case across = case_of(words, "register_tile(Y, ci, x, co; 2, 4, 48, 0, 0, 0)\n");
  EXPECT_EQ(across.function.refused, "Y: it reduces what it reads at computed indices");
  if (!has_mlir()) GTEST_SKIP() << kNoMlir;
  Rng rng(2);
  expect_all({inside}, rng);
}

// A sum for each lane, added up in the end: along an axis of which half a tile is left over, and
// along two that were fused, which are one dimension of what is read.
TEST(Mlir, SumsInLanes) {
  const Case rows = case_of({"matmul", "M=9", "N=5", "K=224"},
                            "register_tile(C, i, j, k; 2, 1, 64, 0, 0, 0)\n");
  const Case fused = case_of({"norm", "B=2", "M=12", "N=40"},
                             "reverse_inline(Y, S)\nfuse(S, i, j)\nregister_tile(S, i*j; 96, 0)\n");
  EXPECT_EQ(classes_of(fused.function).at("register_tile(S, i*j; 96, 0)"), "approximate");
  for (const Case* one : {&rows, &fused}) {
    EXPECT_EQ(one->function.refused, "");
    EXPECT_NE(one->function.payload.find("loopwright.combine"), std::string::npos);
  }
  if (!has_mlir()) GTEST_SKIP() << kNoMlir;
  Rng rng(3);
  expect_all({rows, fused}, rng);
}

// A row of a vector and one element more, in tiles of which the first dimensions are short: MLIR 19
// would take the vector for all of the tile (lower.sh).
TEST(Mlir, KeepsWhatIsBesideVectors) {
  if (!has_mlir()) GTEST_SKIP() << kNoMlir;
  const Case one = case_of({"conv2d_grouped", "N=3", "H=11", "W=13", "CI=23", "CO=17", "groups=1",
                            "stride=2", "pad=0"},
                           "register_tile(Y, ci, y, x, co; 8, 4, 3, 17, 0, 0, 0, 0)\n"
                           "split(Y, n; 2, 0)\nsplit(Y, y.0; 2, 0)\nsplit(Y, x.0; 1, 0)\n"
                           "split(Y, co.0; 1, 0)\nsplit(Y, ci.0; 1, 0)\n"
                           "reorder(Y, n.0, y.0.0, x.0.0, co.0.0, ci.0.0, n.1, y.0.1, x.0.1, "
                           "co.0.1, r, s, ci.0.1; 0)\n"
                           "reorder(Y, n.0, y.0.0, x.0.0, co.0.0, ci.0.0; 51)\n"
                           "reorder(Y, n.1, y.0.1, x.0.1, co.0.1; 2)\n");
  Rng rng(4);
  expect_all({one}, rng);
}

TEST(Mlir, RefusesWhatItCannotSay) {
  const Case fused = case_of({"relu", "N=64"}, "");
  EXPECT_EQ(fused.function.refused, "");
  const Case phases = case_of({"conv2d_transpose"}, "phase(Y, x; 2)\n");
  EXPECT_EQ(phases.function.refused, "Y: an axis of it was cut into phases");
  EXPECT_FALSE(is_exact(phases.function));
  EXPECT_EQ(classes_of(phases.function).at("phase(Y, x; 2)"), "refused");
  const Case elsewhere = case_of({"matmul"}, "", "opencl_gpu");
  EXPECT_NE(elsewhere.function.refused.find("opencl_gpu"), std::string::npos);
}

// Stock MLIR's own way to run what was lowered, once: it is not for timing.
TEST(Mlir, RunsInMlirsOwnRunner) {
  if (!has_mlir()) GTEST_SKIP() << kNoMlir;
  const Case one = case_of({"matmul", "M=10", "N=20", "K=30"},
                           "register_tile(C, k, i, j; 2, 4, 16, 0, 0, 0)\n");
  Folder folder({one});
  std::string payload = slurp(folder.path("payload.mlir"));
  payload.insert(payload.rfind('}'), R"(
func.func @main() -> i32 {
  %a = arith.constant dense<2.0> : tensor<10x30xf32>
  %b = arith.constant dense<3.0> : tensor<30x20xf32>
  %c = memref.alloca() : memref<10x20xf32>
  func.call @matmul(%a, %b, %c)
      : (tensor<10x30xf32>, tensor<30x20xf32>, memref<10x20xf32>) -> ()
  %i = arith.constant 9 : index
  %j = arith.constant 19 : index
  %x = memref.load %c[%i, %j] : memref<10x20xf32>
  %y = arith.fptosi %x : f32 to i32
  return %y : i32
}
)");
  write(folder.path("payload.mlir"), payload);
  const std::string command =
      concat("cd ", folder.path(""), " && sh lower.sh --keep > log 2>&1 && mlir-cpu-runner-19 "
             "kernel.llvm.mlir -e main -entry-point-result=i32 > answer 2>> log");
  ASSERT_EQ(std::system(command.c_str()), 0) << folder.log();
  EXPECT_EQ(slurp(folder.path("answer")), "180\n");
}

}  // namespace
}  // namespace lw
