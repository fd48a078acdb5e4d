// A launch of one group, on bytes that are all ones, has PoCL compile a kernel for its group's size;
// it compiles another where a launch has more than kSmallGrid items. A builder must not be kept by
// what runs for ever: it waits while the driver says that the kernel has not begun, which is the
// compiling, and little longer.
#include "src/measure/simt/opencl_compiler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/build/simt/program.h"
#include "src/measure/simt/opencl_session.h"

namespace lw {
namespace {

constexpr int64_t kSmallGrid = 65535;
constexpr int64_t kMostBytes = int64_t{256} << 20;  // that it is worth to fill for one group
constexpr double kLongRun = 0.5;                    // seconds of one group

class Compilation {
 public:
  Compilation(const OpenClDevice& device, std::shared_ptr<const KernelCache> cache)
      : device_(device), cache_(std::move(cache)) {}

  absl::StatusOr<Compiled> compile(const Artifact& artifact) {
    absl::StatusOr<SimtProgram> program = parse_simt_program(artifact.bytes);
    if (!program.ok()) return program.status();
    if (session_ == nullptr) {
      cache_->use();
      absl::StatusOr<std::unique_ptr<OpenClSession>> opened = OpenClSession::open(device_);
      if (!opened.ok()) return Compiled{artifact, true};
      session_ = *std::move(opened);
    }
    const absl::StatusOr<std::unique_ptr<OpenClKernels>> kernels =
        OpenClKernels::build(session_.get(), *program);
    if (absl::IsUnavailable(kernels.status())) return Compiled{artifact, true};
    if (!kernels.ok()) return kernels.status();
    if (device_.compiles_late()) return Compiled{artifact, !run_briefly(**kernels, *program)};
    absl::StatusOr<std::string> binary = (*kernels)->binary();
    if (!binary.ok()) return Compiled{artifact, absl::IsUnavailable(binary.status())};
    program->binary = {device_.release(), *std::move(binary)};
    Compiled compiled{artifact, false};
    compiled.artifact.bytes = to_text(*program);
    return compiled;
  }

 private:
  // False: the driver has lost its mind over it, or is still at it.
  bool run_briefly(OpenClKernels& kernels, const SimtProgram& program) {
    std::vector<std::pair<cl::Memory, int64_t>> all;
    const auto allocate = [&](int64_t bytes) -> cl::Memory {
      if (bytes == 0) return nullptr;
      const absl::StatusOr<cl::Memory> memory = session_->allocate(bytes, "a buffer");
      if (memory.ok()) all.emplace_back(*memory, bytes);
      return memory.ok() ? *memory : nullptr;
    };
    int64_t sum = program.workspace_bytes + program.packed_bytes;
    for (const SimtProgram::Argument& argument : program.arguments) sum += argument.bytes;
    if (sum > kMostBytes) return true;
    OpenClKernels::Buffers buffers;
    for (const SimtProgram::Argument& argument : program.arguments) {
      buffers.arguments.push_back(allocate(argument.bytes));
    }
    buffers.workspace = allocate(program.workspace_bytes);
    buffers.packed = allocate(program.packed_bytes);
    absl::Status status = absl::OkStatus();
    for (const auto& [memory, bytes] : all) {
      if (status.ok()) status = session_->poison(memory, bytes);
    }
    if (status.ok()) status = kernels.bind(buffers);
    if (status.ok()) status = kernels.run_groups(kSmallGrid, kLongRun);
    for (const auto& [memory, bytes] : all) session_->release(memory);
    return !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status);
  }

  const OpenClDevice device_;
  const std::shared_ptr<const KernelCache> cache_;
  std::unique_ptr<OpenClSession> session_;
};

}  // namespace

Compiler opencl_compiler(const OpenClDevice& device, std::shared_ptr<const KernelCache> cache) {
  const auto compilation = std::make_shared<Compilation>(device, std::move(cache));
  return [compilation](const Artifact& artifact) { return compilation->compile(artifact); };
}

}  // namespace lw
