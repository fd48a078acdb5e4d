// Copies on an OpenCL device: what moving a program's bytes takes there, at the least.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/opencl/device_side.h"

namespace lw {

// The fastest of copies of vectors of 4 and of 16 words, by an item each and by items with long
// ranges, that read half of `bytes` and write the other half; bytes >= 512.
absl::StatusOr<std::unique_ptr<OpenClCall>> fastest_copy(OpenClSession* session, int64_t bytes);

}  // namespace lw
