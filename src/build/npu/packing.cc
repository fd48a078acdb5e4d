// MX.COL: windows of what lies in SPM, each to a row there.
#include "src/base/check.h"
#include "src/build/npu/unroller.h"

namespace lw::npu_build {
namespace {

// What fields hold.
constexpr int64_t kMostLevel = 15, kMostPixel = 255, kMostStep = 15, kMostWindows = 65535,
                  kMostApart = (1 << 20) - 1;
constexpr size_t kLevels = 3;  // of a window: rows, positions of a row, channels of a position

absl::Status check_field(std::string_view what, int64_t value, int64_t most) {
  if (value >= 0 && value <= most) return absl::OkStatus();
  return no_instruction(concat("packing of ", value, " ", what, ", at most ", most));
}

}  // namespace

// The instruction without what differs from row of windows to row.
absl::StatusOr<npu::MxCol> Unroller::window_of(const Block& block) const {
  const View &from = block.srcs[0], &to = block.dst;
  if (in_dram(from) || in_dram(to) || in_acc(from) || in_acc(to)) {
    return no_instruction("packing of what is not in SPM, or into another memory");
  }
  if (buffer(from).type != buffer(to).type) return no_instruction("packing as another type");
  const size_t rank = block.extents.size();
  if (rank < kLevels) return no_instruction("packing of windows of less than three dimensions");
  const int64_t size = size_of(buffer(from).type);
  const size_t rows = rank - 3, positions = rank - 2, channels = rank - 1;
  // One behind the other in what is written, and channels in what is read.
  int64_t unit = 1;
  for (const size_t d : {channels, positions, rows}) {
    if (block.extents[d] > 1 && to.strides[d] != unit) {
      return no_instruction("packing of windows that lie otherwise in a row");
    }
    unit *= block.extents[d];
  }
  if (block.extents[channels] > 1 && from.strides[channels] != 1) {
    return no_instruction("packing of channels that are not contiguous");
  }
  const int64_t row_stride = block.extents[rows] > 1 ? from.strides[rows] * size : 0,
                stride = block.extents[positions] > 1 ? from.strides[positions] * size : 0;
  RETURN_IF_ERROR(check_field("rows of a window", block.extents[rows], kMostLevel));
  RETURN_IF_ERROR(check_field("positions of a row", block.extents[positions], kMostLevel));
  RETURN_IF_ERROR(check_field("channels", block.extents[channels], kMostPixel));
  RETURN_IF_ERROR(check_field("bytes from row to row", row_stride, kMostApart));
  RETURN_IF_ERROR(check_field("bytes from position to position", stride, kMostApart));
  npu::MxCol col;
  col.kh = static_cast<uint8_t>(block.extents[rows]);
  col.kw = static_cast<uint8_t>(block.extents[positions]);
  col.c = static_cast<uint8_t>(block.extents[channels]);
  col.astr1 = static_cast<uint32_t>(stride);
  col.astr2 = static_cast<uint32_t>(row_stride);
  col.m = 1;
  return col;
}

// The windows of one instruction are along the innermost dimension outside them, where that moves
// by a few positions of a window; the others are loops of instructions.
absl::Status Unroller::pack(const Block& block) {
  ASSIGN_OR_RETURN(npu::MxCol col, window_of(block));
  ASSIGN_OR_RETURN(const npu::Dtype dtype, dtype_of(buffer(block.dst).type));
  const int64_t size = size_of(buffer(block.dst).type);
  std::vector<Dim> dims;
  for (size_t d = 0; d + kLevels < block.extents.size(); ++d) {
    if (block.extents[d] == 1) continue;
    dims.push_back({block.extents[d], block.dst.strides[d] * size, block.srcs[0].strides[d] * size,
                    0});
  }
  if (!dims.empty()) {
    const Dim dim = dims.back();
    const bool alone = col.kw == 1;  // nothing else says how far apart positions lie
    const int64_t stride = alone ? dim.src0 : col.astr1;
    const int64_t step = stride > 0 ? dim.src0 / stride : 0;
    if (step >= 1 && step * stride == dim.src0 && step <= kMostStep && stride <= kMostApart &&
        dim.extent <= kMostWindows) {
      dims.pop_back();
      RETURN_IF_ERROR(check_field("bytes from window to window", dim.dst, kMostApart));
      col.astr1 = static_cast<uint32_t>(stride);
      col.step = static_cast<uint8_t>(step);
      col.m = static_cast<uint16_t>(dim.extent);
      col.dstr = static_cast<uint32_t>(dim.dst);
    }
  }
  const int64_t read = size * col.c + (col.kh - 1) * int64_t{col.astr2} +
                       ((col.m - 1) * int64_t{col.step} + col.kw - 1) * col.astr1;
  const int64_t written = size * col.c * col.kw * col.kh + (col.m - 1) * int64_t{col.dstr};
  const int64_t from = address(block.srcs[0]), to = address(block.dst);
  std::vector<int64_t> at(dims.size(), 0);
  for (;;) {
    int64_t a = from, dst = to;
    for (size_t d = 0; d < dims.size(); ++d) a += at[d] * dims[d].src0, dst += at[d] * dims[d].dst;
    col.a = static_cast<uint32_t>(a);
    col.dst = static_cast<uint32_t>(dst);
    Operation operation;
    operation.instruction.body = col;
    operation.instruction.dtype = dtype;
    touch(operation, block.dst, dst, written, true);
    touch(operation, block.srcs[0], a, read, false);
    RETURN_IF_ERROR(emit(operation));
    size_t d = dims.size();
    while (d-- > 0 && ++at[d] == dims[d].extent) at[d] = 0;
    if (d > dims.size()) return absl::OkStatus();
  }
}

}  // namespace lw::npu_build
