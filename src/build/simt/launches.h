// A kernel's statements as launches one after the other. Internal to src/build. Pure; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/build/simt/program.h"
#include "src/kernel/kernel.h"

namespace lw {

// One launch: a parallel loop, or statements for one item.
struct LaunchedList {
  std::string ending;                      // of its function's name: "_1", "_2", ...
  std::vector<Stmt> before;                // the integers that the kernel has defined so far
  std::vector<Stmt> statements;
};

// `print` gives each launch its function. `word` stands before its number.
absl::Status each_launch(
    const std::vector<Stmt>& list, const std::string& word,
    const std::function<absl::Status(const LaunchedList&, SimtProgram::Launch*)>& print,
    std::vector<SimtProgram::Launch>* launches);

// What a program says of the kernel's memory; neither source nor launches.
SimtProgram program_of(const Kernel& kernel);

}  // namespace lw
