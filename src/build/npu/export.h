// A program of the simulated NPU as files for a C program. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/build.h"

namespace lw {

// Backend::exported(): the module as a file (.npu) and as an array in C (.c) with an entry that runs
// it through libloopwright_npu, the header that declares the two, and the program as text (.s).
absl::StatusOr<std::vector<ExportedFile>> export_npu(const Artifact& artifact,
                                                     const std::string& about);

}  // namespace lw
