// A kernel for OpenCL as files for a C program. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/build.h"

namespace lw {

// Backend::exported(): the source in OpenCL C (.cl), how its kernels are launched (.json), and a
// launcher in C99 for programs of OpenCL 1.2 (.c) with the header that declares it (.h).
absl::StatusOr<std::vector<ExportedFile>> export_opencl(const Artifact& artifact,
                                                        const std::string& about);

}  // namespace lw
