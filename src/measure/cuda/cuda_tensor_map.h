// Tensor maps, which the driver makes. Thread-safe.
#pragma once

#include "absl/status/status.h"
#include "src/build/simt/program.h"
#include "src/measure/cuda/cuda_api.h"

namespace lw::cu {

// A CUtensorMap, which kernels take by value.
struct alignas(64) TensorMapBytes {
  unsigned char bytes[128];
};

// Of the tensor in the buffer. kInvalidArgument: the driver knows none, or refuses this one.
absl::Status make_tensor_map(const Api& api, const SimtProgram::TensorMap& map, Pointer buffer,
                             TensorMapBytes* made);

}  // namespace lw::cu
