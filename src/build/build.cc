#include "src/build/build.h"

#include "src/build/interpreter/interpreter.h"
#include "src/build/llvm_backend.h"
#include "src/build/npu/backend.h"
#include "src/build/simt/ptx/backend.h"
#include "src/build/simt/backend.h"

namespace lw {
namespace {

struct Code {
  std::string_view architecture;
  const Backend& (*backend)();
  absl::StatusOr<std::unique_ptr<Loaded>> (*load)(const Artifact& artifact);
};

constexpr Code kCodes[] = {
    {"aarch64", llvm_backend, load_object},
    {"interpreter", interpreter_backend, load_interpreted},
    {"npu", npu_backend, load_npu},
    {"nvidia", nvidia_backend, load_nvidia},
    {"opencl", opencl_backend, load_opencl},
    {"x86_64", llvm_backend, load_object},
};

absl::StatusOr<const Code*> find_code(std::string_view name) {
  std::string known;
  for (const Code& code : kCodes) {
    if (code.architecture == name) return &code;
    known += (known.empty() ? "" : ", ") + std::string(code.architecture);
  }
  return absl::NotFoundError("no backend for '" + std::string(name) + "'; there are " + known);
}

}  // namespace

absl::StatusOr<Artifact> Backend::described(const Kernel& kernel, const Target& target,
                                            const KernelFacts&) const {
  return build(kernel, target);
}

absl::StatusOr<std::vector<ExportedFile>> Backend::exported(const Artifact& artifact,
                                                            const std::string&) const {
  return absl::UnimplementedError("kernels for '" + artifact.architecture +
                                  "' are nothing that C can call");
}

absl::StatusOr<const Backend*> find_backend(std::string_view architecture) {
  absl::StatusOr<const Code*> found = find_code(architecture);
  if (!found.ok()) return found.status();
  return &(*found)->backend();
}

absl::StatusOr<std::unique_ptr<Loaded>> load(const Artifact& artifact) {
  absl::StatusOr<const Code*> found = find_code(artifact.architecture);
  if (!found.ok()) return found.status();
  return (*found)->load(artifact);
}

}  // namespace lw
