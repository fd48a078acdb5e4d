#include "src/build/ptx/backend.h"

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/ptx/assemble.h"
#include "src/build/ptx/ptx_program.h"

namespace lw {
namespace {

// Part of every key: increased whenever the text printed for a kernel may change.
constexpr int kPtxRevision = 1;

class NvidiaBackend : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const override {
    RETURN_IF_ERROR(verify(kernel, Checked::kMeaning));
    ASSIGN_OR_RETURN(SimtProgram program, ptx_program(kernel, target));
    const std::string assembler = ptxas_version();
    if (!assembler.empty()) {
      ASSIGN_OR_RETURN(Assembled assembled, assemble(program.source, program.options));
      program.binary = {concat(program.options, " ptxas ", assembler), std::move(assembled.cubin)};
    }
    Artifact artifact;
    artifact.architecture = std::string(kNvidiaArchitecture);
    artifact.bytes = to_text(program);
    artifact.entry = kernel.name;
    artifact.workspace_bytes = program.workspace_bytes;
    artifact.packed_bytes = program.packed_bytes;
    return artifact;
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

  std::string version() const override {
    const std::string assembler = ptxas_version();
    return concat("ptx r", kPtxRevision, assembler.empty() ? "" : ", ptxas ", assembler);
  }
};

}  // namespace

const Backend& nvidia_backend() {
  static const NvidiaBackend backend;
  return backend;
}

absl::StatusOr<std::unique_ptr<Loaded>> load_nvidia(const Artifact& artifact) {
  return absl::UnimplementedError("kernels for NVIDIA's GPUs run on a device, not in this process");
}

}  // namespace lw
