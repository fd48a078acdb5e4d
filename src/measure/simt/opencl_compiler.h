// A driver as a compiler, in the processes that build candidates, beside the one that measures them.
#pragma once

#include <memory>

#include "src/measure/simt/kernel_cache.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/measure/workers/device.h"

namespace lw {

// Artifacts with the driver's binary in them; of PoCL, which compiles when a kernel is first run, and
// for which the binary would have to be compiled once more, as they were: what it has compiled is in
// the cache. Whatever fails but the source itself is left to the measuring process to say.
Compiler opencl_compiler(const OpenClDevice& device, std::shared_ptr<const KernelCache> cache);

}  // namespace lw
