// What a stage is to an NPU: which of its reductions its array computes, and how what they read and
// give lies in its memories. Thread-safe, deterministic.
//
// Windows. A convolution's sum runs over the positions of a window and their channels, an
// instruction along one axis: few channels would use few rows of the array. Where pack_windows
// (steps/npu) has made one axis of several, windows are rows of the first operand, as the picture
// lies or packed by MX.COL: see windows.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedules/nest.h"
#include "src/npu/config.h"

namespace lw {

// A sum of products of two tensors' elements. Which role an axis of the stage has follows from who
// is read along it: both operands and the result (batch), the first and the result (rows), the
// second and the result (columns), both operands (sums).
enum class AxisRole : uint8_t { kBatch, kRow, kColumn, kSum };
struct NpuProduct {
  const ExprNode *a = nullptr, *b = nullptr;  // the reads; b's are the weights
  std::vector<AxisRole> roles;                // of each axis of the stage
  // What an instruction runs along, -1 where there is none: the longest axis of each role, the last
  // of equals, of rows the second longest too; of sums one along which a is contiguous, and of
  // columns one along which the result is.
  int row = -1, outer_row = -1, column = -1, sum = -1;
  // By how much each axis moves each dimension of a, of b, and of the result.
  std::vector<std::vector<int64_t>> a_steps, b_steps, dst_steps;
  std::vector<int64_t> a_begin, b_begin, dst_begin;  // where all axes are 0
  bool a_padded = false, b_padded = false;  // what is outside of the tensor is 0
  // Of what b_steps and dst_steps are steps: the tensor's shape, windows one dimension, of phases
  // two, quotients and remainders (phases.h); elements of DRAM from a position to the next. Which
  // of the tensor's dimensions each of the result's is of.
  std::vector<int64_t> b_shape, b_strides, dst_shape, dst_strides;
  std::vector<int> dst_dims;

  // Windows as rows; else empty: the axes of a window that the sum's axis runs through, outermost
  // first. The last dimension of a_steps is that axis. What is copied of the tensor is its picture,
  // moved by the stage's axes and then by the window's.
  struct WindowAxis {
    int64_t extent;
    int64_t unit;  // steps along the sum's axis
  };
  std::vector<WindowAxis> window;
  std::vector<std::vector<int64_t>> picture_steps;
  bool packs = false;          // into rows beside the picture; else rows are those of the picture
  std::vector<int64_t> pitch;  // of a's dimensions but the last: the picture's steps in one

  // Points that are left out: an axis of the tensor, moved by the stage's, is outside of `size`.
  struct Limit {
    std::vector<int64_t> steps;
    int64_t begin, size;
    bool sum;
  };
  std::vector<Limit> limits;
};
// Where the target's array computes the stage: types that it has, and reads at sums of multiples of
// the axes, perhaps padded with zeros but for the last dimension, whose rows lie as its instructions
// read them. Of the two operands b is the one along whose columns the result is contiguous; what is
// read backwards along a sum is b.
std::optional<NpuProduct> product_of(const Nest& nest, int stage);

// Whether it is rows by columns: without one of these, as depthwise convolutions and products of a
// matrix and a vector, each operand is used but once, and vectors do it as fast as it is fetched.
inline bool is_for_array(const NpuProduct& product) {
  return product.row >= 0 && product.column >= 0 && product.sum >= 0;
}

// Of a sum that is none, in words, with the typed forms that the library has of it.
std::string no_product(const Nest& nest, int stage);

// Of positions p of an axis those at which 0 <= begin + step * p < size.
struct Positions {
  int64_t first, count;
};
Positions inside(const Positions& positions, int64_t begin, int64_t step, int64_t size);

// How a box of a tensor lies in a managed memory: row-major, the last dimension padded.
struct BoxLayout {
  std::vector<int64_t> extents;  // of the box, padded to what instructions read
  std::vector<int64_t> strides;  // elements
  int64_t elements = 0;          // of a slot
  int64_t bytes = 0;             // of a slot
};
// Of what the product reads of operand `b` (or a), or gives, in a box of these extents of the
// stage's axes.
BoxLayout operand_layout(const npu::Config& config, const NpuProduct& product, bool b,
                         const std::vector<int64_t>& extents);
BoxLayout result_layout(const npu::Config& config, const NpuProduct& product,
                        const std::vector<int64_t>& extents);
// Of the picture that a's windows are cut of.
BoxLayout picture_layout(const npu::Config& config, const NpuProduct& product,
                         const std::vector<int64_t>& extents);

// Their bytes alone, of a's windows with those of the picture: domains ask for those of thousands.
int64_t operand_bytes(const npu::Config& config, const NpuProduct& product, bool b,
                      const std::vector<int64_t>& extents);
int64_t result_bytes(const npu::Config& config, const NpuProduct& product,
                     const std::vector<int64_t>& extents);

// Extent of the box that a dimension's steps give.
int64_t box_extent(const std::vector<int64_t>& steps, const std::vector<int64_t>& extents);

// Of a box of the stage's axes, that of the tensor's dimensions; and whether all in that is in the
// box, as it is where no dimension runs along several axes of which an outer one is cut, and of one
// phase.
std::vector<int64_t> result_box(const NpuProduct& product, const std::vector<int64_t>& extents);
bool is_dense(const NpuProduct& product, const std::vector<int64_t>& extents);

// Elements from a position of each dimension to the next.
std::vector<int64_t> row_major(const std::vector<int64_t>& shape);

// The value of `extent` elements along sums or columns of one instruction.
int64_t padded_to(int64_t extent, int64_t align);

}  // namespace lw
