#include "src/measure/cuda/cuda_tensor_map.h"

#include <bit>
#include <cstdint>
#include <vector>

namespace lw::cu {
namespace {

// CUtensorMapDataType: nothing is computed, so that numbers of the elements' size will do.
constexpr int kUint8 = 0, kUint16 = 1, kUint32 = 2, kUint64 = 4;
constexpr int kTypes[] = {kUint8, kUint16, kUint32, kUint64};  // by the logarithm of the bytes
// CUtensorMapSwizzle, CUtensorMapL2promotion; the others are 0: not interleaved, zeros outside.
constexpr int kSwizzle128 = 3, kPromote128 = 2;

}  // namespace

absl::Status make_tensor_map(const Api& api, const SimtProgram::TensorMap& map, Pointer buffer,
                             TensorMapBytes* made) {
  if (api.TensorMapEncodeTiled == nullptr) {
    return absl::InvalidArgumentError("the driver has no cuTensorMapEncodeTiled: it is older than "
                                      "CUDA 12.0");
  }
  const std::vector<uint64_t> sizes(map.sizes.begin(), map.sizes.end()),
      strides(map.strides.begin(), map.strides.end());
  const std::vector<uint32_t> box(map.box.begin(), map.box.end()), steps(map.box.size(), 1);
  const int type = kTypes[std::countr_zero(static_cast<unsigned>(map.element_bytes))];
  return error_status(
      api.TensorMapEncodeTiled(made, type, static_cast<uint32_t>(sizes.size()),
                               buffer + static_cast<uint64_t>(map.offset), sizes.data(),
                               strides.data(), box.data(), steps.data(), 0,
                               map.swizzled ? kSwizzle128 : 0, kPromote128, 0),
      "cuTensorMapEncodeTiled");
}

}  // namespace lw::cu
