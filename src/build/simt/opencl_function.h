// One launch of a program of OpenCL C. Internal to src/build/simt. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/simt/opencl_values.h"
#include "src/build/simt/program.h"
#include "src/kernel/kernel.h"

namespace lw {

struct Target;

// What all launches of a kernel call its buffers and integer variables.
struct OpenClNames {
  const Kernel& kernel;
  const Target& target;
  std::vector<std::string> buffers, variables;
  std::string index_type;                  // that holds the variables, and all on the way to them
};

// The text of the function `name`, and how it is launched. `statements`: one parallel loop, or what
// one item does. `before`: the integers that the kernel has defined so far, outside of all loops.
absl::StatusOr<std::string> opencl_function(const OpenClNames& names, const std::string& name,
                                            const std::vector<Stmt>& before,
                                            const std::vector<Stmt>& statements, bool prepack,
                                            Prelude* prelude, SimtProgram::Launch* launch);

}  // namespace lw
