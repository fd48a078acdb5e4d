// Small helpers that the peers share: pointers of views, loops over batches.
#pragma once

#include <cstdint>
#include <vector>

#include "src/peers/peer.h"

namespace lw {

inline float* data_of(const PeerView& view, void* const* arguments) {
  return view.argument < 0 ? nullptr : static_cast<float*>(arguments[view.argument]);
}

// A row-major or column-major matrix for a BLAS-like interface: `leading` is the stride between its
// contiguous lines; `transposed` when the rows are not the contiguous direction.
struct MatrixLayout {
  bool valid = false, transposed = false;
  int64_t leading = 1;
};
inline MatrixLayout matrix_layout(int64_t rows, int64_t columns, int64_t row_stride,
                                  int64_t column_stride) {
  if (column_stride == 1 || columns == 1) {
    const int64_t leading = rows == 1 ? columns : row_stride;
    if (columns > 1 || row_stride != 1 || rows == 1) return {leading >= columns, false, leading};
  }
  if (row_stride == 1 || rows == 1) {
    const int64_t leading = columns == 1 ? rows : column_stride;
    return {leading >= rows, true, leading};
  }
  return {};
}

// Offsets of one operand for every index of the batch, in row-major order.
inline std::vector<int64_t> batch_offsets(const std::vector<int64_t>& batch,
                                          const std::vector<int64_t>& strides) {
  std::vector<int64_t> offsets = {0};
  for (size_t d = 0; d < batch.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < batch[d]; ++i) next.push_back(offset + i * strides[d]);
    offsets = std::move(next);
  }
  return offsets;
}

}  // namespace lw
