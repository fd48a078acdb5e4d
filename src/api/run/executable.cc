#include "cost_model/cost_model.h"
#include "loopwright/kernel.h"
#include "loopwright/program.h"
#include "src/api/run/devices.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/build/build.h"
#include "src/expr/reference/interpret.h"
#include "src/measure/cpu/emulator.h"
#include "src/measure/local.h"
#include "src/measure/machine/processors.h"
#include "src/measure/npu/simulated.h"
#include "src/measure/run/driven.h"
#include "src/measure/run/guarded.h"
#include "src/measure/run/runner.h"

namespace lw {
namespace {

absl::Status refused(int code) {
  if (code == 0) return absl::OkStatus();
  return absl::InternalError(concat("the kernel refused its arguments with ", code));
}

}  // namespace

absl::StatusOr<Simulation> simulate(const Task& task, const Choice& choice) {
  ASSIGN_OR_RETURN(const Artifact artifact, build(task, choice));
  return simulate(*task.target(), artifact);
}

struct Executable::Emulated {
  Emulator emulator;
  std::shared_ptr<const Program> program;
  Artifact artifact;
  int threads = 1;
};

Executable::Executable() = default;
Executable::~Executable() = default;

absl::StatusOr<std::unique_ptr<Executable>> Executable::create(const Task& task,
                                                               const Choice& choice) {
  ASSIGN_OR_RETURN(const RunsOn device, find_device(task));
  if (device == RunsOn::kEstimate) {
    return absl::NotFoundError(concat("no device for target '", task.target()->name,
                                      "': there is no GPU here that could run the kernel; `tune` ",
                                      "estimates without one, `export` and `show` need none"));
  }
  ASSIGN_OR_RETURN(Artifact artifact, build(task, choice));
  std::unique_ptr<Executable> executable = std::unique_ptr<Executable>(new Executable);
  if (device == RunsOn::kEmulator) {
    ASSIGN_OR_RETURN(Emulator emulator, find_emulator(*task.target()));
    executable->emulated_ = std::make_unique<Emulated>(Emulated{
        std::move(emulator), task.program(), std::move(artifact), task.threads()});
    executable->own_us_ = draft_us(*choice.nest);
    return executable;
  }
  if (device == RunsOn::kDriver) {
    ASSIGN_OR_RETURN(executable->driven_, open_driven(*task.target(), artifact));
    return executable;
  }
  if (device == RunsOn::kSimulator) {
    ASSIGN_OR_RETURN(executable->own_us_, simulated_us(artifact));
  }
  if (task.threads() > 1) {
    executable->pool_ = std::make_unique<ParallelPool>(
        task.threads(), measuring_processors(allowed_cpus(), task.threads()));
  }
  ASSIGN_OR_RETURN(executable->runner_, Runner::create(artifact, executable->pool_.get()));
  return executable;
}

absl::Status Executable::prepack(void* const* arguments) {
  if (emulated_) return absl::OkStatus();  // each emulated run packs for itself
  if (driven_) return driven_->prepack(arguments);
  return refused(runner_->prepack(arguments));
}

absl::Status Executable::run(void* const* arguments) {
  if (emulated_) {
    return run_emulated(emulated_->emulator, *emulated_->program, emulated_->artifact,
                        emulated_->threads, arguments);
  }
  if (driven_) return driven_->run(arguments);
  return refused(runner_->run(arguments));
}

double Executable::last_us() const {
  CHECK(driven_ != nullptr);
  return driven_->last_us();
}

absl::StatusOr<ArgumentMemory> ArgumentMemory::create(const Program& program) {
  ArgumentMemory memory;
  std::vector<GuardedMap> maps;
  for (int t : arguments(program)) {
    ASSIGN_OR_RETURN(GuardedMap map, GuardedMap::create(bytes(program.tensors[t]), -1, true));
    memory.pointers_.push_back(map.data());
    maps.push_back(std::move(map));
  }
  memory.maps_ = std::make_shared<const std::vector<GuardedMap>>(std::move(maps));
  return memory;
}

void ArgumentMemory::fill_inputs(const Program& program, uint64_t seed) {
  const std::vector<int> all = arguments(program);
  for (size_t i = 0; i < all.size(); ++i) {
    if (program.tensors[all[i]].role != Role::kInput) continue;
    fill_random_input(program, all[i], seed, /*integers=*/false, data(static_cast<int>(i)));
  }
}

// Arguments are inputs, then outputs.
std::vector<const std::byte*> ArgumentMemory::inputs(const Program& program) const {
  std::vector<const std::byte*> all;
  for (size_t i = 0; i < lw::inputs(program).size(); ++i) all.push_back(data(static_cast<int>(i)));
  return all;
}

std::vector<const std::byte*> ArgumentMemory::outputs(const Program& program) const {
  std::vector<const std::byte*> all;
  for (size_t i = lw::inputs(program).size(); i < pointers_.size(); ++i) {
    all.push_back(data(static_cast<int>(i)));
  }
  return all;
}

}  // namespace lw
