// Loads an object into this process with JITLink: one mapping, its segments made executable or
// read-only before anything runs. Objects have no undefined symbols, so there is nothing to look
// up.
#include <unistd.h>

#include "llvm/ExecutionEngine/JITLink/ELF.h"
#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "src/base/check.h"
#include "src/build/llvm_backend.h"

namespace lw {
namespace {

#if defined(__aarch64__)
constexpr std::string_view kArchitecture = "aarch64";
#else
constexpr std::string_view kArchitecture = "x86_64";
#endif

using Entry = int32_t (*)(const lw_context*, void* const*);
using llvm::jitlink::JITLinkMemoryManager;

// Never destroyed: loaded code may be unmapped by destructors of other statics.
JITLinkMemoryManager& memory() {
  static JITLinkMemoryManager* manager =
      new llvm::jitlink::InProcessMemoryManager(static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  return *manager;
}

class LoadedObject : public Loaded {
 public:
  ~LoadedObject() override {
    if (allocation) llvm::cantFail(memory().deallocate(std::move(allocation)));
  }
  int run(const lw_context* context, void* const* buffers) const override {
    return entry(context, buffers);
  }
  int prepack(const lw_context* context, void* const* buffers) const override {
    return prepack_entry == nullptr ? 0 : prepack_entry(context, buffers);
  }

  const lw_kernel* described() const override { return kernel; }

  JITLinkMemoryManager::FinalizedAlloc allocation;
  Entry entry = nullptr, prepack_entry = nullptr;
  const lw_kernel* kernel = nullptr;
};

// What JITLink asks while it links; everything happens before link() returns.
class LoadLinking : public llvm::jitlink::JITLinkContext {
 public:
  LoadLinking(const Artifact& artifact, LoadedObject* object, std::string* error)
      : JITLinkContext(nullptr), artifact_(artifact), object_(object), error_(error) {}

  JITLinkMemoryManager& getMemoryManager() override { return memory(); }
  void notifyFailed(llvm::Error error) override { *error_ = llvm::toString(std::move(error)); }
  void lookup(const LookupMap& symbols,
              std::unique_ptr<llvm::jitlink::JITLinkAsyncLookupContinuation> next) override {
    if (symbols.empty()) return next->run(llvm::jitlink::AsyncLookupResult());
    next->run(llvm::createStringError("undefined symbol " + symbols.begin()->first.str()));
  }
  llvm::Error notifyResolved(llvm::jitlink::LinkGraph& graph) override {
    for (llvm::jitlink::Symbol* symbol : graph.defined_symbols()) {
      if (!symbol->hasName() || symbol->getScope() == llvm::jitlink::Scope::Local) continue;
      if (symbol->getName() == artifact_.entry)
        object_->entry = symbol->getAddress().toPtr<Entry>();
      if (symbol->getName() == artifact_.entry + "_prepack") {
        object_->prepack_entry = symbol->getAddress().toPtr<Entry>();
      }
      if (symbol->getName() == artifact_.entry + "_kernel") {
        object_->kernel = symbol->getAddress().toPtr<const lw_kernel*>();
      }
    }
    return llvm::Error::success();
  }
  void notifyFinalized(JITLinkMemoryManager::FinalizedAlloc allocation) override {
    object_->allocation = std::move(allocation);
  }
  llvm::Error modifyPassConfig(llvm::jitlink::LinkGraph& graph,
                               llvm::jitlink::PassConfiguration& config) override {
    config.PrePrunePasses.push_back([](llvm::jitlink::LinkGraph& graph) {
      for (llvm::jitlink::Symbol* symbol : graph.defined_symbols()) {
        if (symbol->getScope() != llvm::jitlink::Scope::Local) symbol->setLive(true);
      }
      return llvm::Error::success();
    });
    return llvm::Error::success();
  }

 private:
  const Artifact& artifact_;
  LoadedObject* object_;
  std::string* error_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Loaded>> load_object(const Artifact& artifact) {
  if (artifact.architecture != kArchitecture) {
    return absl::FailedPreconditionError("code for " + artifact.architecture +
                                         " does not run in this process");
  }
  llvm::Expected<std::unique_ptr<llvm::jitlink::LinkGraph>> graph =
      llvm::jitlink::createLinkGraphFromELFObject(
          llvm::MemoryBufferRef(artifact.bytes, artifact.entry));
  if (!graph)
    return absl::InvalidArgumentError("not an object: " + llvm::toString(graph.takeError()));
  std::unique_ptr<LoadedObject> object = std::make_unique<LoadedObject>();
  std::string error;
  llvm::jitlink::link(std::move(*graph),
                      std::make_unique<LoadLinking>(artifact, object.get(), &error));
  if (!error.empty()) return absl::InternalError("loading " + artifact.entry + ": " + error);
  if (object->entry == nullptr || (artifact.packed_bytes > 0 && object->prepack_entry == nullptr)) {
    return absl::InvalidArgumentError("the object has no symbol " + artifact.entry);
  }
  return std::unique_ptr<Loaded>(std::move(object));
}

}  // namespace lw
