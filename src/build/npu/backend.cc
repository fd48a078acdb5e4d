#include "src/build/npu/backend.h"

#include "schedules/targets/npu/npu_target.h"
#include "src/base/check.h"
#include "src/build/npu/encode.h"
#include "src/build/npu/export.h"
#include "src/npu/function/function.h"
#include "src/npu/isa/check.h"
#include "src/npu/isa/text.h"

namespace lw {
namespace {

class NpuBackend : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const override {
    ASSIGN_OR_RETURN(const npu::Module module, make_npu_module(kernel, target));
    return make_npu_artifact(kernel, module);
  }

  // "npu": assembler, as npu_sim reads it.
  absl::StatusOr<std::string> text(const Kernel& kernel, const Target& target,
                                   std::string_view stage) const override {
    if (stage != "npu") {
      return absl::UnimplementedError("programs of the NPU have the stage 'npu' after the kernel");
    }
    ASSIGN_OR_RETURN(const npu::Module module, make_npu_module(kernel, target));
    return npu::print_program(module.program);
  }

  absl::StatusOr<std::vector<ExportedFile>> exported(const Artifact& artifact,
                                                     const std::string& about) const override {
    return export_npu(artifact, about);
  }

  std::string version() const override { return "npu r1"; }
};

// The simulated machine in this process.
class Simulated : public Loaded {
 public:
  explicit Simulated(npu::Module module) : module_(std::move(module)) {}

  int run(const lw_context*, void* const* buffers) const override {
    std::vector<uint8_t> workspace(module_.workspace.bytes);
    std::vector<npu::Buffer> dram;
    if (!workspace.empty()) dram.push_back({module_.workspace.address, workspace, true});
    for (size_t a = 0; a < module_.arguments.size(); ++a) {
      const npu::ModuleArgument& argument = module_.arguments[a];
      dram.push_back({argument.range.address,
                      {static_cast<uint8_t*>(buffers[a]), argument.range.bytes},
                      argument.written});
    }
    absl::StatusOr<npu::Memory> memory = npu::make_memory(module_.config, std::move(dram));
    if (!memory.ok()) return 1;
    const absl::StatusOr<npu::FunctionReport> report =
        npu::execute(module_.config, module_.program, &*memory);
    return report.ok() && report->status == npu::FunctionStatus::kOk ? 0 : 1;
  }
  int prepack(const lw_context*, void* const*) const override { return 0; }

 private:
  const npu::Module module_;
};

}  // namespace

const Backend& npu_backend() {
  static const NpuBackend backend;
  return backend;
}

absl::StatusOr<npu::Module> make_npu_module(const Kernel& kernel, const Target& target) {
  RETURN_IF_ERROR(verify(kernel, Checked::kMeaning));
  npu::Module module;
  module.config = npu_config(target);
  ASSIGN_OR_RETURN(module.program, encode_npu(kernel, module.config));
  const NpuLayout layout = npu_layout(kernel);
  module.dram_bytes = static_cast<uint64_t>(layout.bytes);
  module.workspace = {static_cast<uint64_t>(layout.workspace),
                      static_cast<uint64_t>(kernel.workspace_bytes)};
  module.arguments.resize(layout.arguments.size());
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.scope != Scope::kArgument) continue;
    const size_t slot = static_cast<size_t>(buffer.slot);
    module.arguments[slot].range = {static_cast<uint64_t>(layout.arguments[slot]),
                                    static_cast<uint64_t>(buffer.elements * size_of(buffer.type))};
    module.arguments[slot].written = buffer.written;
  }
  return module;
}

absl::StatusOr<Artifact> make_npu_artifact(const Kernel& kernel, const npu::Module& module) {
  Artifact artifact;
  artifact.architecture = "npu";
  ASSIGN_OR_RETURN(artifact.bytes, npu::make_module(module));
  artifact.entry = kernel.name;
  artifact.workspace_bytes = kernel.workspace_bytes;
  return artifact;
}

absl::StatusOr<std::unique_ptr<Loaded>> load_npu(const Artifact& artifact) {
  ASSIGN_OR_RETURN(npu::Module module, npu::read_module(artifact.bytes));
  RETURN_IF_ERROR(npu::check_program(module.config, module.program));
  return std::unique_ptr<Loaded>(std::make_unique<Simulated>(std::move(module)));
}

}  // namespace lw
