// What building a kernel for NVIDIA's GPUs gives besides its artifact. Pure, but for the assembler,
// which is another program; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "src/build/build.h"
#include "src/build/simt/ptx/assembler/assemble.h"

namespace lw {

struct Target;

struct NvidiaBuild {
  Artifact artifact;
  std::string assembler;                   // ptxas' version; "": there is none, and no cubin
  std::vector<Assembled::Facts> facts;     // of each launch's kernel
};

// Errors as Backend::build's.
absl::StatusOr<NvidiaBuild> build_nvidia(const Kernel& kernel, const Target& target);

// The most that a launch's kernel has.
struct NvidiaFacts {
  std::string assembler;
  int64_t registers = 0;                   // of an item
  int64_t spill_bytes = 0;                 // that an item stores or loads
};
NvidiaFacts facts_of(const NvidiaBuild& built);

}  // namespace lw
