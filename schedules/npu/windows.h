// Windows as rows of an NPU's array: of a convolution in which pack_windows has made one axis of
// several of the sum (the stage's last), a row of the first operand is a window, or a row of one.
//
// Where the positions of a window's row lie one behind the other in the picture, and end where an
// instruction may, the array reads them there. Elsewhere they are packed beside the picture, once
// for each box of it that is copied.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "schedules/npu/product.h"

namespace lw {

// Makes of a product whose steps are by the tensor's axes one with windows, by the stage's. False:
// they do not lie so, or the weights do not lie in the same order.
bool take_windows(const Nest& nest, int stage, NpuProduct& product);

// Extents of the stage's axes and then of the window's, as picture_steps are by.
std::vector<int64_t> with_window(const NpuProduct& product, std::vector<int64_t> extents);

// What one instruction packs: rows of a window, positions of a row, channels of a position, which
// are the last of the window's axes.
inline constexpr int kWindowLevels = 3;
inline constexpr std::array<int64_t, kWindowLevels> kMostWindow = {15, 15, 255};
// The number in `window` that stands for each of these; -1: none, of which there is one.
std::array<int, kWindowLevels> levels_of(const NpuProduct& product);
// Why no instruction packs the windows, in words; "": one does.
std::string no_packing(const NpuProduct& product);

// What is copied of the tensor for operand `b` (or a) in a box of these extents of the stage's
// axes, in dimensions of the shape beside it.
struct SourceBox {
  std::vector<int64_t> extents, shape;
};
SourceBox source_box(const Nest& nest, const NpuProduct& product, bool b,
                     const std::vector<int64_t>& extents);

// Of the axes of a computed tensor, then of its reductions.
std::vector<int64_t> axis_extents(const Tensor& tensor);

}  // namespace lw
