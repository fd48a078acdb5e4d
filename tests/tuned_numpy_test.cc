// Compiled, scheduled kernels against NumPy, for every operator that has a performance bar: what
// the tuner hands out is right on shapes that nobody tiles for (one, primes, one more than a
// vector).
//
// Random schedules of random shapes run on one and on two threads, as code for this host and,
// taking turns, for x86-64 with and without AVX2. One Python process then checks all outputs
// (tests/numpy/check_tuned.py). Schedules that do not fit a shape are redrawn.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "nlohmann/json.hpp"
#include "src/base/parallel_pool.h"
#include "tests/scheduled_kernels.h"

namespace lw {
namespace {

constexpr int kShapes = 21;
constexpr int kThreads = 2;
constexpr int kAttempts = 40;
// LLVM's time grows with the unrolled code: what tails multiply beyond this is another test's
// matter.
constexpr LowerOptions kSmallKernels = {.max_statements = 500};

struct Operator {
  const char* name;
  std::vector<std::string> extents;        // parameters that are drawn
  int64_t max_points;                      // of their product
  bool typed = false;                      // has a parameter T
};
const std::vector<Operator>& operators() {
  static const std::vector<Operator>* all = new std::vector<Operator>{
      {"matmul", {"M", "N", "K"}, 40000, true},
      {"batch_matmul", {"B", "M", "N", "K"}, 40000, true},
      {"dense", {"M", "N", "K"}, 40000, true},
      {"dense_bias", {"M", "N", "K"}, 40000},
      {"dense_relu", {"M", "N", "K"}, 40000},
      {"dense_gelu", {"M", "N", "K"}, 40000},
      {"dense_i8", {"M", "N", "K"}, 40000},
      {"norm", {"B", "M", "N"}, 9000},
      {"row_sum", {"M", "N"}, 9000},
      {"column_sum", {"M", "N"}, 9000},
      {"row_max", {"M", "N"}, 9000},
      {"softmax", {"M", "N"}, 9000},
      {"layer_norm", {"M", "N"}, 9000},
      {"rms_norm", {"M", "N"}, 9000},
      {"transpose", {"M", "N"}, 9000, true},
      {"elementwise_chain", {"N"}, 9000},
  };
  return *all;
}

// Ones, primes, and the neighbours of powers of two; the first shape is a single point, and every
// fourth has an extent of 1 in one axis or another.
std::vector<std::string> random_workload(const Operator& op, int shape, Rng& rng) {
  static constexpr int64_t kExtents[] = {1,  2,  3,  5,  7,  8,  13, 15, 16, 17, 19, 23,  31, 32,
                                         33, 37, 41, 47, 48, 61, 64, 65, 67, 83, 97, 101, 127, 131};
  static constexpr const char* kTypes[] = {"f32", "f64", "f32", "f16", "i8", "f32", "bf16", "i32"};
  std::vector<std::string> words = {op.name};
  int64_t points;
  do {
    words.resize(1);
    points = 1;
    for (size_t axis = 0; axis < op.extents.size(); ++axis) {
      int64_t extent = kExtents[rng.below(std::size(kExtents))];
      // A single axis is long, or nothing but its tail would be seen.
      if (op.extents.size() == 1) extent *= kExtents[rng.below(std::size(kExtents))];
      const bool one = shape == 0 || (shape % 4 == 1 && op.extents.size() > 1 &&
                                      axis == shape / 4 % op.extents.size());
      if (one) extent = 1;
      points *= extent;
      words.push_back(op.extents[axis] + "=" + std::to_string(extent));
    }
  } while (points > op.max_points);
  if (op.typed) words.push_back(std::string("T=") + kTypes[shape % std::size(kTypes)]);
  // Rows of equal elements are divided by sqrt(eps): keep that from magnifying rounding errors.
  if (std::string_view(op.name).ends_with("_norm")) words.push_back("eps=1e-3");
  return words;
}

// Files for check_tuned.py: data in raw, described in a manifest.
class Batch {
 public:
  Batch() : folder_(::testing::TempDir() + "loopwright_tuned_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Batch() { std::filesystem::remove_all(folder_); }

  nlohmann::json save(const Tensor& tensor, const Data& data) {
    const std::string file = folder_ + "/" + std::to_string(files_++);
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(data.bytes.data()),
               static_cast<long>(data.bytes.size()));
    return {{"type", std::string(type_name(tensor.type))}, {"shape", tensor.shape}, {"file", file}};
  }
  int check(const nlohmann::json& manifest) {
    std::ofstream(folder_ + "/manifest.json") << manifest.dump();
    const std::string command = "/usr/bin/python3 " + std::string(LW_SOURCE_DIR) +
                                "/tests/numpy/check_tuned.py " + folder_ + "/manifest.json";
    std::fflush(stdout);
    return std::system(command.c_str());
  }

 private:
  std::string folder_;
  int files_ = 0;
};

// This host, and what stands in for smaller ones in turn.
std::vector<const Machine*> machines_for(int shape) {
  std::map<std::string, const Machine*> by_name;
  for (const Machine& machine : machines()) by_name[machine.name] = &machine;
  std::vector<const Machine*> list = {by_name.at("host")};
  const auto other = by_name.find(shape % 2 == 0 ? "x86_avx2" : "x86_sse2");
  if (other != by_name.end()) list.push_back(other->second);
  return list;
}

TEST(Tuned, KernelsAgreeWithNumPy) {
  Batch batch;
  ParallelPool pool(kThreads);
  nlohmann::json manifest = nlohmann::json::array();
  for (size_t o = 0; o < operators().size(); ++o) {
    const Operator& op = operators()[o];
    int wanted = 0, accepted = 0;
    for (int shape = 0; shape < kShapes; ++shape) {
      Rng rng = Rng(2024).split(o * kShapes + shape);
      const std::vector<std::string> words = random_workload(op, shape, rng);
      const absl::StatusOr<Program> loaded_program = load_workload(words);
      ASSERT_TRUE(loaded_program.ok()) << loaded_program.status();
      const auto program = std::make_shared<const Program>(*loaded_program);
      const std::vector<Data> in = random_inputs(*program, rng, /*integers=*/false);
      const int result = outputs(*program)[0];
      nlohmann::json entry = {{"op", op.name}, {"words", words}};
      for (size_t n = 0; n < in.size(); ++n) {
        entry["inputs"].push_back(batch.save(program->tensors[inputs(*program)[n]], in[n]));
      }
      for (const Machine* machine : machines_for(shape)) {
        for (int threads = 1; threads <= kThreads; ++threads) {
          const auto target = std::make_shared<const Target>(machine->target);
          const Nest start = make_nest(program, target, threads);
          ++wanted;
          const std::optional<Scheduled> drawn =
              draw_kernel(start, make_space(start), rng, kAttempts, kSmallKernels);
          if (!drawn) continue;
          ++accepted;
          const std::unique_ptr<Loaded> code = load_on(*machine, drawn->kernel);
          ASSERT_NE(code, nullptr) << testing::PrintToString(words) << "\n" << drawn->schedule;
          lw_context context = {};
          if (threads > 1) {
            context.parallel_for = ParallelPool::parallel_for;
            context.pool = &pool;
            context.workers = pool.workers();
          }
          const bool at_end = (shape + threads) % 3 > 0;
          const std::vector<Data> out =
              run_guarded(*code, drawn->kernel, *program, in, context, at_end);
          entry["runs"].push_back({{"target", machine->name}, {"threads", threads},
                                   {"schedule", drawn->schedule},
                                   {"output", batch.save(program->tensors[result], out[0])}});
        }
      }
      manifest.push_back(entry);
    }
    EXPECT_GE(accepted, wanted * 9 / 10) << op.name;
    EXPECT_GE(accepted, 2 * 20) << op.name;
  }
  EXPECT_EQ(batch.check(manifest), 0) << "(needs python3-numpy)";
}

}  // namespace
}  // namespace lw
