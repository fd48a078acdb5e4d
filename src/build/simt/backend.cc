#include "src/build/simt/backend.h"

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/export/export.h"
#include "src/build/simt/opencl_kernel.h"

namespace lw {
namespace {

// Part of every key: increased whenever the code printed for a kernel may change.
constexpr int kRevision = 4;

class OpenClBackend : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const override {
    RETURN_IF_ERROR(verify(kernel, Checked::kMeaning));
    ASSIGN_OR_RETURN(const SimtProgram program, opencl_program(kernel, target));
    Artifact artifact;
    artifact.architecture = std::string(kOpenClArchitecture);
    artifact.bytes = to_text(program);
    artifact.entry = kernel.name;
    artifact.workspace_bytes = program.workspace_bytes;
    artifact.packed_bytes = program.packed_bytes;
    return artifact;
  }

  absl::StatusOr<std::string> text(const Kernel& kernel, const Target& target,
                                   std::string_view stage) const override {
    if (stage != "opencl") {
      return absl::UnimplementedError(
          concat("kernels for OpenCL have no stage '", stage, "', but 'opencl'"));
    }
    RETURN_IF_ERROR(verify(kernel, Checked::kMeaning));
    ASSIGN_OR_RETURN(const SimtProgram program, opencl_program(kernel, target));
    return program.source;
  }

  absl::StatusOr<std::vector<ExportedFile>> exported(const Artifact& artifact,
                                                     const std::string& about) const override {
    return export_opencl(artifact, about);
  }

  std::string version() const override { return concat("opencl r", kRevision); }
};

}  // namespace

const Backend& opencl_backend() {
  static const OpenClBackend backend;
  return backend;
}

absl::StatusOr<std::unique_ptr<Loaded>> load_opencl(const Artifact& artifact) {
  return absl::UnimplementedError("kernels for OpenCL run on a device, not in this process");
}

}  // namespace lw
