// A kernel for NVIDIA's GPUs as files for a C program. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/build.h"

namespace lw {

// Backend::exported(): the kernels in PTX (.ptx), what ptxas made of them where it did (.cubin),
// how they are launched (.json), and a launcher in C99 on the driver's API, which holds both (.c),
// with the header that declares it (.h). kInvalidArgument: it is no such artifact, or launches what
// no GPU can.
absl::StatusOr<std::vector<ExportedFile>> export_nvidia(const Artifact& artifact,
                                                        const std::string& about);

}  // namespace lw
