// Exported kernels (`loopwright export --shared`) in this process. A library is code: load what you
// trust. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "src/runtime/instance.h"

namespace lw {

// kEnvironment: the file is not there, or no library for this machine; kBadRequest: it holds no
// kernel. The library is closed with the instance.
Failure load_kernel_library(const std::string& path, std::unique_ptr<KernelInstance>* instance);

}  // namespace lw
