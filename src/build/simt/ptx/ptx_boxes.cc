#include "src/build/simt/ptx/ptx_boxes.h"

#include "schedules/targets/matrix_shape.h"
#include "src/base/message.h"
#include "src/kernel/blocks.h"

namespace lw {
namespace {

// What cuTensorMapEncodeTiled asks (the driver API's manual).
constexpr int kMostDimensions = 5;
constexpr int64_t kMostBox = 256, kUnit = 16, kMostStride = int64_t{1} << 40;
constexpr int64_t kMostSize = int64_t{1} << 32;

// A multiple of so many bytes, whatever its variables are.
bool is_multiple(const Affine& index, int64_t size, int64_t more, int64_t bytes) {
  bool whole = (index.constant * size + more) % bytes == 0;
  for (const Affine::Term& term : index.terms) {
    whole = whole && term.coefficient * size % bytes == 0;
  }
  return whole;
}

}  // namespace

absl::StatusOr<SimtProgram::TensorMap> tensor_map_of(const Kernel& kernel, const Block& box) {
  const auto refused = [](std::string_view what) {
    return absl::InvalidArgumentError(concat("PTX: ", what));
  };
  const Buffer &to = kernel.buffers[box.dst.buffer], &from = kernel.buffers[box.srcs[0].buffer];
  const int64_t size = size_of(to.type);
  const int dims = static_cast<int>(box.extents.size());
  if (dims > kMostDimensions) return refused("a box of more than 5 dimensions");
  SimtProgram::TensorMap map;
  map.element_bytes = static_cast<int>(size);
  map.offset = unclipped_source(box).index.constant * size;
  if (from.scope == Scope::kPacked) map.offset += from.offset;
  map.swizzled = to.swizzled;
  int64_t dense = 1;                       // what is before in the group's memory
  for (int d = dims - 1; d >= 0; --d) {
    const int64_t extent = box.extents[d], stride = box.srcs[0].strides[d] * size;
    if (extent > 1 && box.dst.strides[d] != dense) return refused("a box that is not dense");
    dense *= extent;
    if (extent > kMostBox || box.clips[d].size > kMostSize) return refused("too large a box");
    map.sizes.push_back(box.clips[d].size);
    map.box.push_back(extent);
    if (d == dims - 1) {
      if (stride != size) return refused("a box of elements that are apart");
      continue;
    }
    if (stride % kUnit != 0 || stride < 0 || stride >= kMostStride) {
      return refused("a box of rows that are no multiple of 16 bytes apart");
    }
    map.strides.push_back(stride);
  }
  const int64_t row = map.box[0] * size;
  if (row % kUnit != 0 || (map.swizzled && row != kWideRowBytes)) {
    return refused("a box of other rows than of 128 bytes");
  }
  const int64_t begins = map.swizzled ? kSwizzle : 128;
  if (map.offset % kUnit != 0 || !is_multiple(box.dst.index, size, to.offset, begins)) {
    return refused("a box that is not aligned");
  }
  return map;
}

int64_t box_bytes(const SimtProgram::TensorMap& map) {
  int64_t bytes = map.element_bytes;
  for (const int64_t extent : map.box) bytes *= extent;
  return bytes;
}

}  // namespace lw
