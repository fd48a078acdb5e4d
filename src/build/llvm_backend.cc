// The LLVM backend: emit, optimize, generate, and check that the object needs nothing from outside.
#include "src/build/llvm_backend.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/Object/ELFObjectFile.h"
#include "src/base/check.h"
#include "src/build/llvm_emit.h"
#include "src/kernel/blocks.h"

namespace lw {
namespace {

// Part of version(), and so of every key: increased whenever the code generated for a kernel may
// change. Not for the calls of mathematics (llvm_calls.cc), which came later: kernels so large took
// seconds to build, and their time changed by what a machine's does within minutes.
constexpr int kRevision = 2;

// What LLVM would otherwise print and exit on.
void keep_error(const llvm::DiagnosticInfo* info, void* place) {
  if (info->getSeverity() != llvm::DS_Error) return;
  llvm::raw_string_ostream stream(*static_cast<std::string*>(place));
  llvm::DiagnosticPrinterRawOStream printer(stream);
  info->print(printer);
}

absl::Status check_self_contained(const Kernel& kernel, const std::string& object) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, kernel.name));
  if (!file) return absl::InternalError(llvm::toString(file.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!flags || !name)
      return absl::InternalError("kernel " + kernel.name + ": unreadable symbols");
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) != 0 && !name->empty()) {
      return absl::InternalError("kernel " + kernel.name + " calls " + name->str());
    }
  }
  return absl::OkStatus();
}

class LlvmBackend : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const override {
    Artifact artifact;
    artifact.architecture = target.architecture;
    artifact.entry = kernel.name;
    artifact.workspace_bytes = kernel.workspace_bytes;
    artifact.private_bytes = kernel.private_bytes;
    artifact.packed_bytes = kernel.packed_bytes;
    ASSIGN_OR_RETURN(artifact.bytes, generate(kernel, target, "object"));
    RETURN_IF_ERROR(check_self_contained(kernel, artifact.bytes));
    return artifact;
  }

  absl::StatusOr<std::string> text(const Kernel& kernel, const Target& target,
                                   std::string_view stage) const override {
    if (stage == "llvm" || stage == "asm") return generate(kernel, target, stage);
    return absl::UnimplementedError("the LLVM backend has the stages llvm and asm");
  }

  std::string version() const override {
    return "llvm " LLVM_VERSION_STRING " r" + std::to_string(kRevision);
  }

 private:
  static absl::StatusOr<std::string> generate(const Kernel& kernel, const Target& target,
                                              std::string_view stage) {
    // LLVM would make something of a kernel that means nothing.
    RETURN_IF_ERROR(verify(kernel, Checked::kMeaning));
    if (is_managed(kernel)) {
      return absl::InvalidArgumentError(
          "kernel " + kernel.name + ": blocks are of machines with managed memories, " +
          target.architecture + " has none; build it for the target that it was lowered for");
    }
    llvm::LLVMContext context;
    context.setDiscardValueNames(stage != "llvm");
    std::string error;
    context.setDiagnosticHandlerCallBack(keep_error, &error);
    std::unique_ptr<llvm::Module> module = emit_module(kernel, target, &context);
    RETURN_IF_ERROR(optimize(module.get(), target));
    if (stage == "llvm") {
      std::string text;
      llvm::raw_string_ostream stream(text);
      module->print(stream, nullptr);
      return text;
    }
    absl::StatusOr<std::string> code = emit_code(module.get(), target, stage == "asm");
    if (!error.empty()) return absl::InternalError("kernel " + kernel.name + ": " + error);
    return code;
  }
};

}  // namespace

const Backend& llvm_backend() {
  static const LlvmBackend backend;
  return backend;
}

}  // namespace lw
