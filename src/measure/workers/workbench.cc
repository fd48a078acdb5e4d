#include "src/measure/workers/workbench.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "loopwright/program.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/parallel_pool.h"
#include "src/measure/machine/processors.h"
#include "src/measure/process/sandbox.h"

namespace lw {
namespace {

// Elements looked at in the second set: they judge the reference kernel.
constexpr int64_t kIntegerPoints = 256;
// In the third: some hundred, spread over those that would be looked at for so many.
constexpr size_t kEdgePoints = 256;

absl::Status share_tensors(Workbench& bench) {
  for (int t : arguments(*bench.program)) {
    const Tensor& tensor = bench.program->tensors[t];
    Argument argument;
    argument.tensor = t;
    argument.output = tensor.role == Role::kOutput;
    argument.name = absl::StrCat(argument.output ? "output " : "input ", tensor.name);
    argument.bytes = bytes(tensor);
    argument.element_bytes = size_of(tensor.type);
    for (int set = 0; set < (argument.output ? 1 : kInputSets); ++set) {
      ASSIGN_OR_RETURN(argument.memory[set],
                       SharedMemory::create(pages_for(argument.bytes), !argument.output));
    }
    bench.arguments.push_back(std::move(argument));
  }
  return absl::OkStatus();
}

void thin(std::vector<Point>* points, size_t most) {
  if (points->size() <= most) return;
  for (size_t i = 0; i < most; ++i) (*points)[i] = (*points)[i * points->size() / most];
  points->resize(most);
}

absl::Status share_points(Workbench& bench) {
  const LocalOptions& options = bench.options;
  for (int set = 0; set < kInputSets; ++set) {
    const bool judges_only = set == kEdges || (set == kIntegers && options.reference != nullptr);
    const int64_t count = judges_only ? std::min(options.points, kIntegerPoints) : options.points;
    bench.points[set] =
        choose_points(*bench.program, count, options.seed + static_cast<uint64_t>(set));
    if (set == kEdges) thin(&bench.points[set], kEdgePoints);
    const int64_t size = static_cast<int64_t>(bench.points[set].size());
    ASSIGN_OR_RETURN(bench.values[set],
                     SharedMemory::create(size * static_cast<int64_t>(sizeof(PointValue)), true));
    std::fill_n(bench.value_table(set), size, PointValue());
  }
  return absl::OkStatus();
}

void assign_processors(Workbench& bench) {
  std::vector<int> cpus = bench.options.cpus.empty() ? allowed_cpus() : bench.options.cpus;
  const bool threaded = bench.driver.clock == Clock::kSampled;
  const size_t threads = bench.driver.all_processors ? cpus.size()
                         : threaded ? static_cast<size_t>(bench.options.threads) : 1;
  // Who builds for an exact clock also measures, beside anybody; elsewhere it is not these.
  const bool here = bench.driver.clock != Clock::kExact && !bench.driver.elsewhere;
  if (here && threads < cpus.size()) {
    bench.measuring = measuring_processors(cpus, static_cast<int>(threads));
    bench.building.assign(cpus.begin(), cpus.end() - static_cast<int64_t>(threads));
  } else {
    bench.measuring = bench.building = cpus;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Workbench>> make_workbench(const Program& program,
                                                          const Target& target,
                                                          const LocalOptions& options,
                                                          DeviceDriver driver) {
  if (options.threads < 1) return absl::InvalidArgumentError("threads must be at least 1");
  std::unique_ptr<Workbench> bench = std::make_unique<Workbench>();
  bench->program = std::make_shared<const Program>(program);
  bench->target = std::make_shared<const Target>(target);
  bench->options = options;
  bench->driver = std::move(driver);
  bench->backend = options.backend;
  if (bench->backend == nullptr) {
    ASSIGN_OR_RETURN(bench->backend, find_backend(target.architecture));
  }
  assign_processors(*bench);
  bench->builders =
      options.builders > 0 ? options.builders : static_cast<int>(bench->building.size());
  RETURN_IF_ERROR(share_tensors(*bench));
  RETURN_IF_ERROR(share_points(*bench));
  const int64_t pages = 2 + bench->builders;
  ASSIGN_OR_RETURN(bench->control,
                   SharedMemory::create(pages * static_cast<int64_t>(sizeof(ControlPage))));
  return bench;
}

int64_t argument_offset(const Workbench& bench, int set, int i) {
  const Argument& a = bench.arguments[i];
  const Placement tight = i % 2 == 0 ? Placement::kUnaligned : Placement::kEnd;
  return offset_for(set == kUniform ? Placement::kStart : tight, a.bytes, a.element_bytes);
}

std::vector<const std::byte*> input_data(const Workbench& bench, int set) {
  std::vector<const std::byte*> data;
  for (size_t i = 0; i < bench.arguments.size(); ++i) {
    const Argument& a = bench.arguments[i];
    if (!a.output)
      data.push_back(a.memory[set].data() + argument_offset(bench, set, static_cast<int>(i)));
  }
  return data;
}

std::vector<const std::byte*> output_data(const Workbench& bench, int set) {
  std::vector<const std::byte*> data;
  for (size_t i = 0; i < bench.arguments.size(); ++i) {
    const Argument& a = bench.arguments[i];
    if (a.output)
      data.push_back(a.memory[0].data() + argument_offset(bench, set, static_cast<int>(i)));
  }
  return data;
}

void poison_outputs(const Workbench& bench) {
  for (const Argument& a : bench.arguments) {
    if (a.output)
      std::memset(a.memory[0].data(), kPoison, static_cast<size_t>(a.memory[0].bytes()));
  }
}

bool outputs_intact(const Workbench& bench, int set, std::string* where) {
  for (size_t i = 0; i < bench.arguments.size(); ++i) {
    const Argument& a = bench.arguments[i];
    if (!a.output) continue;
    const int64_t offset = argument_offset(bench, set, static_cast<int>(i));
    if (!outside_intact(a.memory[0].data(), a.memory[0].bytes(), offset, a.bytes)) {
      *where = a.name;
      return false;
    }
  }
  return true;
}

std::vector<int> descriptors(const Workbench& bench) {
  std::vector<int> fds = {bench.control.fd()};
  for (const SharedMemory& values : bench.values) fds.push_back(values.fd());
  for (const Argument& a : bench.arguments) {
    for (const SharedMemory& memory : a.memory) {
      if (memory.fd() >= 0) fds.push_back(memory.fd());
    }
  }
  return fds;
}

std::string artifact_bytes(const Artifact& artifact) {
  return Writer()
      .put_string(artifact.architecture)
      .put_string(artifact.bytes)
      .put_string(artifact.entry)
      .put(artifact.workspace_bytes)
      .put(artifact.private_bytes)
      .put(artifact.packed_bytes)
      .bytes();
}

absl::StatusOr<Artifact> parse_artifact(std::string_view bytes) {
  Reader reader(bytes);
  Artifact artifact;
  artifact.architecture = reader.get_string();
  artifact.bytes = reader.get_string();
  artifact.entry = reader.get_string();
  artifact.workspace_bytes = reader.get<int64_t>();
  artifact.private_bytes = reader.get<int64_t>();
  artifact.packed_bytes = reader.get<int64_t>();
  if (!reader.ok()) return absl::DataLossError("a broken artifact");
  return artifact;
}

std::string refusal(const absl::Status& status) {
  return Writer()
      .put(static_cast<int32_t>(status.code()))
      .put_string(std::string(status.message()))
      .bytes();
}

}  // namespace lw
