// What share of the schedules that the space of an OpenCL device draws can be made: at the
// operators' own extents, of the library and of fused.te, a schedule is drawn, lowered and printed.
// LW_DRAWS: schedules of each operator and target; LW_SEED; LW_DEVICE: the number of a device that
// is looked at too. What is refused is counted, by its reason.
#include <cctype>
#include <cstdio>
#include <map>

#include "src/build/simt/opencl_kernel.h"
#include "src/measure/simt/opencl_target.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/support/program.h"

namespace lw {
namespace {

constexpr double kLeast = 0.95;            // of the draws

// Without what differs from draw to draw: numbers, places and names.
std::string kind_of_refusal(const absl::Status& status) {
  const std::string message(status.message());
  const size_t place = message.find("barrier: ");
  std::string kind;
  for (char c : place == message.npos ? message : message.substr(place)) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) kind += c;
    else if (kind.empty() || kind.back() != '#') kind += '#';
  }
  return kind.substr(0, 100);
}

absl::Status draw_once(const Nest& start, const Sketch& sketch, Rng& rng) {
  ASSIGN_OR_RETURN(const Sample drawn, sample(start, sketch, rng));
  ASSIGN_OR_RETURN(const Kernel kernel, lower(drawn.nest));
  return opencl_program(kernel, *start.target).status();
}

TEST(OpenClSpace, MostDrawsCanBeMade) {
  const int64_t draws = setting("LW_DRAWS", 6);
  const std::vector<OpDefinition> ops = library_and_fused_ops();
  std::vector<Target> targets = {*find_target("opencl_cpu"), *find_target("opencl_gpu")};
  if (setting("LW_DEVICE", -1) >= 0) {
    targets.push_back(opencl_target(concat(setting("LW_DEVICE", 0))).value());
  }
  for (const Target& given : targets) {
    const std::string name = given.name;
    const auto target = std::make_shared<const Target>(given);
    int64_t made = 0, all = 0;
    std::map<std::string, int64_t> refusals;
    for (size_t o = 0; o < ops.size(); ++o) {
      Rng rng = Rng(static_cast<uint64_t>(setting("LW_SEED", 22))).split(o);
      const auto program = std::make_shared<const Program>(instantiate(ops[o], {}).value());
      const Nest start = make_nest(program, target, 1);
      const std::vector<Sketch> space = make_space(start);
      int64_t own = 0;
      for (int64_t n = 0; n < draws; ++n) {
        const Sketch& sketch = space[static_cast<size_t>(
            rng.below(static_cast<int64_t>(space.size())))];
        const absl::Status status = draw_once(start, sketch, rng);
        own += status.ok();
        if (!status.ok()) ++refusals[kind_of_refusal(status)];
      }
      if (draws >= 6) EXPECT_GT(own, 0) << ops[o].name << " on " << name;
      if (20 * own < 19 * draws) {
        std::printf("%s on %s: %d of %d\n", ops[o].name.c_str(), name.c_str(), int(own),
                    int(draws));
      }
      made += own;
      all += draws;
    }
    for (const auto& [why, count] : refusals) std::printf("  %4d  %s\n", int(count), why.c_str());
    std::printf("%s: %d of %d draws, %.1f %%\n", name.c_str(), int(made), int(all),
                100.0 * static_cast<double>(made) / static_cast<double>(all));
    EXPECT_GE(static_cast<double>(made), kLeast * static_cast<double>(all)) << name;
  }
}

// Tiles of a transpose go through local memory, whose rows may be a word longer.
TEST(OpenClSpace, HasTransposesThroughLocalMemory) {
  const auto target = std::make_shared<const Target>(*find_target("opencl_gpu"));
  const auto program = std::make_shared<const Program>(*load_workload({"transpose"}));
  const Nest start = make_nest(program, target, 1);
  const std::vector<Sketch> space = make_space(start);
  Rng rng(22);
  int plain = 0, padded = 0;
  for (int n = 0; n < 400; ++n) {
    const Sketch& sketch = space[static_cast<size_t>(n) % space.size()];
    const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
    if (!drawn.ok() || !lower(drawn->nest).ok()) continue;
    for (const Stage& stage : drawn->nest.stages) {
      if (stage.copy_of >= 0 && stage.memory >= 0) ++(stage.pad > 0 ? padded : plain);
    }
  }
  EXPECT_GT(plain, 0);
  EXPECT_GT(padded, 0);
}

}  // namespace
}  // namespace lw
