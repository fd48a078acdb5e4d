#include "src/build/simt/ptx/backend.h"

#include <algorithm>
#include <cstdlib>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/assembler/assemble.h"
#include "src/build/simt/ptx/build_nvidia.h"
#include "src/build/simt/ptx/export/export.h"
#include "src/build/simt/ptx/ptx_program.h"

namespace lw {
namespace {

// Part of every key: increased whenever the text printed for a kernel may change.
constexpr int kPtxRevision = 1;

class NvidiaBackend : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const override {
    ASSIGN_OR_RETURN(NvidiaBuild built, build_nvidia(kernel, target));
    return std::move(built.artifact);
  }

  absl::StatusOr<std::string> text(const Kernel& kernel, const Target& target,
                                   std::string_view stage) const override {
    if (stage != "ptx" && stage != "sass") {
      return absl::UnimplementedError(
          concat("kernels for NVIDIA's GPUs have no stage '", stage, "', but 'ptx' and 'sass'"));
    }
    RETURN_IF_ERROR(verify(kernel, Checked::kMeaning));
    ASSIGN_OR_RETURN(const SimtProgram program, ptx_program(kernel, target));
    if (stage == "ptx") return program.source;
    ASSIGN_OR_RETURN(const Assembled assembled, assemble(program.source, program.options));
    return disassemble(assembled.cubin);
  }

  absl::StatusOr<std::vector<ExportedFile>> exported(const Artifact& artifact,
                                                     const std::string& about) const override {
    return export_nvidia(artifact, about);
  }

  std::string version() const override {
    const std::string assembler = ptxas_version();
    return concat("ptx r", kPtxRevision, assembler.empty() ? "" : ", ptxas ", assembler);
  }
};

}  // namespace

absl::StatusOr<NvidiaBuild> build_nvidia(const Kernel& kernel, const Target& target) {
  RETURN_IF_ERROR(verify(kernel, Checked::kMeaning));
  ASSIGN_OR_RETURN(SimtProgram program, ptx_program(kernel, target));
  NvidiaBuild built;
  built.assembler = ptxas_version();
  if (built.assembler.empty() && std::getenv("LOOPWRIGHT_PTXAS") != nullptr) {
    RETURN_IF_ERROR(find_ptxas().status());
    return absl::UnavailableError("what LOOPWRIGHT_PTXAS names does not say which release it is");
  }
  if (!built.assembler.empty()) {
    ASSIGN_OR_RETURN(Assembled assembled, assemble(program.source, program.options));
    program.binary = {concat(program.options, " ptxas ", built.assembler),
                      std::move(assembled.cubin)};
    built.facts = std::move(assembled.facts);
  }
  built.artifact.architecture = std::string(kNvidiaArchitecture);
  built.artifact.bytes = to_text(program);
  built.artifact.entry = kernel.name;
  built.artifact.workspace_bytes = program.workspace_bytes;
  built.artifact.packed_bytes = program.packed_bytes;
  return built;
}

NvidiaFacts facts_of(const NvidiaBuild& built) {
  NvidiaFacts most;
  most.assembler = built.assembler;
  for (const Assembled::Facts& facts : built.facts) {
    most.registers = std::max(most.registers, facts.registers);
    most.spill_bytes =
        std::max(most.spill_bytes, facts.spill_store_bytes + facts.spill_load_bytes);
  }
  return most;
}

const Backend& nvidia_backend() {
  static const NvidiaBackend backend;
  return backend;
}

absl::StatusOr<std::unique_ptr<Loaded>> load_nvidia(const Artifact& artifact) {
  return absl::UnimplementedError("kernels for NVIDIA's GPUs run on a device, not in this process");
}

}  // namespace lw
