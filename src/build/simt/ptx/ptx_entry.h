// One launch of a program in PTX. Internal to src/build/simt/ptx. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/simt/program.h"
#include "src/kernel/kernel.h"

namespace lw {

struct Target;

// Of a group's memory, as a module has it; entries that use it say so by its name.
inline constexpr std::string_view kPtxShared = "shared";

// The entry `name`, and how it is launched. `statements`: one parallel loop, or what one item does.
// `before`: the integers that the kernel has defined so far, outside of all loops.
absl::StatusOr<std::string> ptx_entry(const Kernel& kernel, const Target& target,
                                      const std::string& name, const std::vector<Stmt>& before,
                                      const std::vector<Stmt>& statements,
                                      SimtProgram::Launch* launch);

}  // namespace lw
