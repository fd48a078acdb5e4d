// What the parent and its workers share: the question (program, target, options), the tensors and
// the oracle's table in shared memory, and who runs on which processor. Made by the parent before
// the zygote is forked, so that every worker inherits it. Read-only but for the shared memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/build.h"
#include "src/measure/judge/verify.h"
#include "src/measure/process/ipc.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/run/guarded.h"
#include "src/measure/workers/device.h"
#include "src/measure/workers/options.h"
#include "src/search/measurer.h"
#include "tuner_db/time_kind.h"

namespace lw {

struct Program;
struct Target;

// The sets of inputs: uniform (timing, first oracle), small integers (second oracle), and the edges
// of numbers (fill_edge_input), which only what is to be believed must pass.
enum InputSet : int { kUniform, kIntegers, kEdges, kInputSets };

struct Argument {
  int tensor = 0;    // in Program::tensors
  std::string name;  // "input A", "output D"
  bool output = false;
  int64_t bytes = 0, element_bytes = 1;
  SharedMemory memory[kInputSets];  // outputs use the first only
};

struct Workbench {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Target> target;
  LocalOptions options;
  const Backend* backend = nullptr;
  DeviceDriver driver;
  std::vector<Argument> arguments;
  std::vector<Point> points[kInputSets];
  SharedMemory values[kInputSets];       // PointValue per point
  int builders = 1;
  SharedMemory control;                  // ControlPages: of the measurer, of each builder, of the reference's
  std::vector<int> measuring, building;  // processors; equal when there are not enough to part

  bool parted() const { return measuring != building; }
  // A computation of others beside a measurement would show in its times.
  bool wants_quiet() const {
    return !parted() && driver.clock != Clock::kExact && !driver.elsewhere;
  }
  ControlPage* control_page(int i) const {
    return reinterpret_cast<ControlPage*>(control.data()) + i;
  }
  PointValue* value_table(int set) const {
    return reinterpret_cast<PointValue*>(values[set].data());
  }
};

absl::StatusOr<std::unique_ptr<Workbench>> make_workbench(const Program& program,
                                                          const Target& target,
                                                          const LocalOptions& options,
                                                          DeviceDriver driver);

// Forks the workers and starts the line (local.cc).
absl::StatusOr<std::unique_ptr<Measurer>> start_measurer(std::unique_ptr<Workbench> bench);

// Where argument `i` lies in a run on this set. Timed runs have it as memory usually comes, with
// poison behind; the others have it against the guard page. (Timed there, a masked access whose
// idle lanes reach over would be charged a fault that the processor suppresses: some 300 ns.)
int64_t argument_offset(const Workbench& bench, int set, int i);

// The inputs of `set`, and the outputs where a run on it writes them, in the parent's mapping.
std::vector<const std::byte*> input_data(const Workbench& bench, int set);
std::vector<const std::byte*> output_data(const Workbench& bench, int set);
// Fills the outputs' pages with poison; whether what lies beside the outputs still is.
void poison_outputs(const Workbench& bench);
bool outputs_intact(const Workbench& bench, int set, std::string* where);

// Descriptors that workers need.
std::vector<int> descriptors(const Workbench& bench);

// The workers' main functions; they return when the parent is gone.
enum WorkerRole : int { kMeasurer, kPreparer, kBuilder };  // kBuilder + i: the i-th of them
void builder_main(Workbench& bench, int page, int socket, const Isolation& isolation);
void device_main(Workbench& bench, int socket, const Isolation& isolation);  // the measurer's
void preparer_main(const Workbench& bench, int socket, const Isolation& isolation);

// No worker burns more of each processor than this, whatever becomes of the parent; long before,
// after kWorkerLife seconds of work, the parent replaces it.
constexpr int64_t kWorkerCpuSeconds = 2 * 3600;
constexpr double kWorkerLife = 3600;

// Requests and answers. Every request gets one answer: kDone with the fields below, or kRefused
// with {int32 status code, string message}.
enum MessageType : uint32_t {
  kRefused = 1,
  kDone,
  kBuild,       // {kernel text} -> {string artifact, bool spent}: the builder is to be replaced
  kCompute,     // {kernel text, double below_us} -> {double us, put_samples()'s, artifact}: exact
  kLoad,        // {int32 slot, artifact} -> {}; replaces what was there
  kCompile,     // {int32 slot} -> {}
  kUnloadAll,   // {} -> {}
  kTime,        // {int32 slot, TimingPlan} -> {put_samples()'s}
  kRunOnce,     // {int32 slot, int32 set} -> {}
  kRunAgain,    // {int32 slot, int32 set} -> {}: with nothing done before or checked after
  kInterleave,  // {int32 n, n slots, int32 rounds, TimingPlan} -> {n times put_samples()'s}
  kFill,        // {int32 set} -> {}: the inputs
  kEvaluate,    // {int32 set, int64 begin, int64 end, double budget_s} -> {}: the points
  kInterpret,   // {int32 set} -> {string per output}: the whole outputs
};
std::string artifact_bytes(const Artifact& artifact);
absl::StatusOr<Artifact> parse_artifact(std::string_view bytes);
std::string refusal(const absl::Status& status);

}  // namespace lw
