// Compiled, scheduled kernels of every operator of the library against NumPy, which shares no code
// with the reference: right on shapes that nobody tiles for (random_shapes.h).
//
// Random schedules run on one and on two threads, as code for this host and, taking turns, for
// x86-64 with and without AVX2. One Python process then checks all outputs
// (tests/numpy/check_tuned.py). Schedules that do not fit a shape are redrawn. LW_TUNED: shapes an
// operator.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "nlohmann/json.hpp"
#include "src/base/parallel_pool.h"
#include "tests/kernels/random_shapes.h"
#include "tests/support/program.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

constexpr int kShapes = 12;                // of an operator
constexpr double kTunedFlops = 2e5;
constexpr int64_t kTunedElements = 20000;
constexpr int kTunedThreads = 2;
constexpr int kTunedAttempts = 80;
// LLVM's time grows with the unrolled code: what tails multiply beyond this is another test's
// matter.
constexpr LowerOptions kSmallTuned = {.max_statements = 800};

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
  ParallelPool pool(kTunedThreads);
  nlohmann::json manifest = nlohmann::json::array();
  const int shapes = static_cast<int>(setting("LW_TUNED", kShapes));
  int start = 0;                           // where there are few shapes, neighbours' kinds differ
  for (const OpDefinition& op : builtin_ops()) {
    int wanted = 0, accepted = 0;
    for (int shape = start; shape < start + shapes; ++shape) {
      Rng rng = Rng(2024).split(hash64(op.name)).split(shape);
      const RandomShape drawn_shape = random_shape(op, shape, kTunedFlops, kTunedElements, rng);
      const std::vector<std::string>& words = drawn_shape.words;
      const auto program = std::make_shared<const Program>(drawn_shape.program);
      const std::vector<Data> in = fitting_inputs(*program, rng);
      const int result = outputs(*program)[0];
      nlohmann::json entry = {{"op", op.name}, {"words", words}};
      for (size_t n = 0; n < in.size(); ++n) {
        entry["inputs"].push_back(batch.save(program->tensors[inputs(*program)[n]], in[n]));
      }
      for (const Machine* machine : machines_for(shape)) {
        for (int threads = 1; threads <= kTunedThreads; ++threads) {
          const auto target = std::make_shared<const Target>(machine->target);
          const Nest start = make_nest(program, target, threads);
          ++wanted;
          const std::optional<Scheduled> drawn =
              draw_kernel(start, make_space(start), rng, kTunedAttempts, kSmallTuned);
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
    ++start;
  }
  EXPECT_EQ(batch.check(manifest), 0) << "(needs python3-numpy)";
}

}  // namespace
}  // namespace lw
