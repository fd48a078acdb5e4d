// Executes kernels without generating code, lane by lane, with the semantics that kernel.h states:
// the second implementation that the LLVM backend is compared with, and a portable one
// (src/build/interpreter/execute.h does the work).
#include "src/build/interpreter/interpreter.h"

#include "src/base/check.h"
#include "src/build/interpreter/execute.h"

namespace lw {
namespace {

class InterpretedKernel : public Loaded {
 public:
  explicit InterpretedKernel(Kernel kernel) : kernel_(std::move(kernel)) {}
  int run(const lw_context* context, void* const* buffers) const override {
    execute(kernel_, kernel_.body, context, buffers);
    return 0;
  }
  int prepack(const lw_context* context, void* const* buffers) const override {
    execute(kernel_, kernel_.prepack, context, buffers);
    return 0;
  }

 private:
  Kernel kernel_;
};

class InterpreterBackend : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const override {
    Artifact artifact;
    artifact.architecture = "interpreter";
    artifact.bytes = print(kernel);
    artifact.entry = kernel.name;
    artifact.workspace_bytes = kernel.workspace_bytes;
    artifact.private_bytes = kernel.private_bytes;
    artifact.packed_bytes = kernel.packed_bytes;
    return artifact;
  }
  absl::StatusOr<std::string> text(const Kernel& kernel, const Target& target,
                                   std::string_view stage) const override {
    return absl::UnimplementedError("the interpreter has no stage after the kernel");
  }
  std::string version() const override { return "interpreter r1"; }
};

}  // namespace

const Backend& interpreter_backend() {
  static const InterpreterBackend backend;
  return backend;
}

absl::StatusOr<std::unique_ptr<Loaded>> load_interpreted(const Artifact& artifact) {
  ASSIGN_OR_RETURN(Kernel kernel, parse_kernel(artifact.bytes));
  RETURN_IF_ERROR(verify(kernel));
  return std::unique_ptr<Loaded>(std::make_unique<InterpretedKernel>(std::move(kernel)));
}

}  // namespace lw
