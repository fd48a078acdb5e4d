// Links an object for a process of another architecture. JITLink lays out the sections and resolves
// the relocations as it does for this process (llvm_load.cc), but into buffers here, for an address
// there: with the address fixed, every relocation is possible, and who runs the code only copies
// segments. (The alternatives: a loader on the device, which then must know ELF, or a linker of the
// device's toolchain, which then must be installed.)
#include "llvm/ExecutionEngine/JITLink/ELF.h"
#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "src/base/check.h"
#include "src/build/build.h"

namespace lw {
namespace {

using llvm::jitlink::BasicLayout;
using llvm::jitlink::JITLinkDylib;
using llvm::jitlink::JITLinkMemoryManager;
using llvm::jitlink::LinkGraph;

constexpr uint64_t kAlign = 64 << 10;  // a page of any AArch64 system

bool allows(llvm::orc::MemProt protection, llvm::orc::MemProt what) {
  return (static_cast<int>(protection) & static_cast<int>(what)) != 0;
}

// Segments in buffers of the image; nothing is ever mapped or freed.
class FlatMemory : public JITLinkMemoryManager {
 public:
  explicit FlatMemory(FlatImage* image) : image_(image) {}

  void allocate(const JITLinkDylib*, LinkGraph& graph, OnAllocatedFunction done) override {
    BasicLayout layout(graph);
    std::vector<BasicLayout::Segment*> segments;
    for (auto& [group, segment] : layout.segments()) {
      const llvm::orc::MemProt protection = group.getMemProt();
      FlatImage::Segment flat;
      flat.offset = image_->bytes;
      flat.bytes = (segment.ContentSize + segment.ZeroFillSize + kAlign - 1) / kAlign * kAlign;
      flat.writable = allows(protection, llvm::orc::MemProt::Write);
      flat.executable = allows(protection, llvm::orc::MemProt::Exec);
      flat.content.resize(segment.ContentSize);
      segment.Addr = llvm::orc::ExecutorAddr(image_->base + flat.offset);
      image_->bytes += flat.bytes;
      image_->segments.push_back(std::move(flat));
      segments.push_back(&segment);
    }
    for (size_t i = 0; i < segments.size(); ++i) {
      segments[i]->WorkingMem = image_->segments[i].content.data();
    }
    if (llvm::Error error = layout.apply()) return done(std::move(error));
    done(std::make_unique<InFlight>());
  }

  void deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction done) override {
    for (FinalizedAlloc& allocation : allocations) allocation.release();
    done(llvm::Error::success());
  }

 private:
  struct InFlight : public InFlightAlloc {
    void abandon(OnAbandonedFunction done) override { done(llvm::Error::success()); }
    void finalize(OnFinalizedFunction done) override {
      done(FinalizedAlloc(llvm::orc::ExecutorAddr(1)));
    }
  };

  FlatImage* image_;
};

// What JITLink asks while it links; everything happens before link() returns.
class FlatLinking : public llvm::jitlink::JITLinkContext {
 public:
  FlatLinking(const Artifact& artifact, FlatImage* image, FlatMemory* memory, std::string* error)
      : JITLinkContext(nullptr), artifact_(artifact), image_(image), memory_(memory),
        error_(error) {}

  JITLinkMemoryManager& getMemoryManager() override { return *memory_; }
  void notifyFailed(llvm::Error error) override { *error_ = llvm::toString(std::move(error)); }
  void lookup(const LookupMap& symbols,
              std::unique_ptr<llvm::jitlink::JITLinkAsyncLookupContinuation> next) override {
    if (symbols.empty()) return next->run(llvm::jitlink::AsyncLookupResult());
    next->run(llvm::createStringError("undefined symbol " + symbols.begin()->first.str()));
  }
  llvm::Error notifyResolved(LinkGraph& graph) override {
    for (llvm::jitlink::Symbol* symbol : graph.defined_symbols()) {
      if (!symbol->hasName() || symbol->getScope() == llvm::jitlink::Scope::Local) continue;
      const uint64_t address = symbol->getAddress().getValue();
      if (symbol->getName() == artifact_.entry) image_->run = address;
      if (symbol->getName() == artifact_.entry + "_prepack") image_->prepack = address;
    }
    return llvm::Error::success();
  }
  void notifyFinalized(JITLinkMemoryManager::FinalizedAlloc allocation) override {
    allocation.release();
  }
  llvm::Error modifyPassConfig(LinkGraph&, llvm::jitlink::PassConfiguration& config) override {
    config.PrePrunePasses.push_back([](LinkGraph& graph) {
      for (llvm::jitlink::Symbol* symbol : graph.defined_symbols()) {
        if (symbol->getScope() != llvm::jitlink::Scope::Local) symbol->setLive(true);
      }
      return llvm::Error::success();
    });
    return llvm::Error::success();
  }

 private:
  const Artifact& artifact_;
  FlatImage* image_;
  FlatMemory* memory_;
  std::string* error_;
};

}  // namespace

absl::StatusOr<FlatImage> link_flat(const Artifact& artifact, uint64_t base) {
  CHECK(base % kAlign == 0);
  llvm::Expected<std::unique_ptr<LinkGraph>> graph = llvm::jitlink::createLinkGraphFromELFObject(
      llvm::MemoryBufferRef(artifact.bytes, artifact.entry));
  if (!graph) {
    return absl::InvalidArgumentError("not an object: " + llvm::toString(graph.takeError()));
  }
  FlatImage image;
  image.base = base;
  FlatMemory memory(&image);
  std::string error;
  llvm::jitlink::link(std::move(*graph),
                      std::make_unique<FlatLinking>(artifact, &image, &memory, &error));
  if (!error.empty()) return absl::InternalError("linking " + artifact.entry + ": " + error);
  if (image.run == 0 || (artifact.packed_bytes > 0 && image.prepack == 0)) {
    return absl::InvalidArgumentError("the object has no symbol " + artifact.entry);
  }
  return image;
}

}  // namespace lw
