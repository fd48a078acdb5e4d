// Machine code: one Backend per architecture. Thread-safe: several threads may use a backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/context.h"
#include "src/kernel/kernel.h"

namespace lw {

struct Target;

// What a backend returns and the wire, the cache and `export` carry.
struct Artifact {
  std::string architecture;                // "x86_64", "aarch64", "interpreter"
  std::string bytes;                       // an ELF relocatable object without undefined symbols;
                                           // for the interpreter: the kernel's text
  std::string entry;                       // symbol; "<entry>_prepack" exists when packed_bytes > 0
  int64_t workspace_bytes = 0, private_bytes = 0, packed_bytes = 0;
};

// What a kernel says of itself to whoever loads it: lw_kernel (loopwright/context.h), as values.
struct KernelFacts {
  struct Argument {
    std::string name, type;
    std::vector<int64_t> shape;
    int32_t flags = 0;                     // LW_OUTPUT, ...
    int64_t bytes = 0, alignment = 1;
  };
  std::vector<Argument> arguments;
  int64_t threads = 1;
  std::string digest, json;
};

// Of those that belong to one kernel, alike but for their endings.
struct ExportedFile {
  std::string ending, bytes;               // ".h"
};

class Backend {
 public:
  virtual ~Backend() = default;
  // kInvalidArgument: the kernel uses what the target lacks. kInternal: the code generator failed.
  virtual absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const = 0;
  // With the facts in it, as the symbol ENTRY_kernel, where the architecture's artifacts are objects.
  virtual absl::StatusOr<Artifact> described(const Kernel& kernel, const Target& target,
                                             const KernelFacts& facts) const;
  // "llvm" | "asm": the text of that stage for `show`; kUnimplemented where there is none.
  virtual absl::StatusOr<std::string> text(const Kernel& kernel, const Target& target,
                                           std::string_view stage) const = 0;
  // What a C program needs to call an artifact of its own. `about`: the beginning of a comment, which
  // says what it computes and what its buffers are. kUnimplemented: nothing but we can call it.
  virtual absl::StatusOr<std::vector<ExportedFile>> exported(const Artifact& artifact,
                                                             const std::string& about) const;
  // Enters results' keys: "llvm 19.1.7 r3"; changes whenever generated code may change.
  virtual std::string version() const = 0;
};

// The backend of an architecture; kNotFound names those there are.
absl::StatusOr<const Backend*> find_backend(std::string_view architecture);

// Machine code in this process (code pages executable and read-only). Destroying it unmaps the
// code.
class Loaded {
 public:
  virtual ~Loaded() = default;
  // 0, or nonzero if the kernel refuses its context. REQUIRES: pointers as loopwright/context.h says.
  virtual int run(const lw_context* context, void* const* buffers) const = 0;
  virtual int prepack(const lw_context* context, void* const* buffers) const = 0;
  // What it says of itself, as long as this lives; null where it was not built described().
  virtual const lw_kernel* described() const { return nullptr; }
};
absl::StatusOr<std::unique_ptr<Loaded>> load(const Artifact& artifact);
using Loader = absl::StatusOr<std::unique_ptr<Loaded>> (*)(const Artifact& artifact);

// Machine code for another process, linked to run at one address: no loader is needed there.
struct FlatImage {
  struct Segment {
    uint64_t offset = 0, bytes = 0;        // from the base, a multiple of 64 KiB; in memory
    bool writable = false, executable = false;
    std::string content;                   // at most `bytes`; zeros follow
  };
  uint64_t base = 0, bytes = 0;
  std::vector<Segment> segments;
  uint64_t run = 0, prepack = 0;           // addresses; prepack 0: there is none
};
// Links a machine-code artifact of any architecture. REQUIRES: base is a multiple of 64 KiB.
// kInvalidArgument: no object, or without its entry.
absl::StatusOr<FlatImage> link_flat(const Artifact& artifact, uint64_t base);

}  // namespace lw
