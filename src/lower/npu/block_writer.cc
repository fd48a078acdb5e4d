#include "src/lower/npu/block_writer.h"

#include <algorithm>

namespace lw::lowering {

void BlockWriter::clip(const std::vector<Border>& borders, double number, Block& copy) const {
  constexpr int64_t kMostPadding = 15, kMostRows = 4095, kMostRun = 65535;  // LD's fields
  const int dims = static_cast<int>(copy.extents.size());
  int64_t run = size_of(kernel_.buffers[copy.srcs[0].buffer].type);  // bytes, if all touch
  int outer = 0;  // dimensions outside the runs, from the innermost
  size_t left = borders.size();
  bool pads = number >= -128 && number <= 127 && number == static_cast<int8_t>(number);
  for (int d = dims; d-- > 0;) {
    const int64_t extent = copy.extents[d];
    const Border* border = left > 0 && borders[left - 1].dim == d ? &borders[--left] : nullptr;
    const bool inside =
        border == nullptr || (border->least >= 0 && border->most + extent <= border->size);
    if (d + 1 < dims && (extent > 1 || !inside)) ++outer;
    if (!inside) {
      copy.clips.insert(copy.clips.begin(), {d, border->first, border->size});
      const bool always_some = border->least + extent > 0 && border->most < border->size;
      const int64_t rows = std::max(-border->least, border->most + extent - border->size);
      pads = pads && outer <= 2 && always_some && rows <= kMostPadding && extent <= kMostRows &&
             run <= kMostRun;
    } else if (copy.clips.empty()) {
      run *= extent;
    }
  }
  copy.pads = pads && !copy.clips.empty();
  if (copy.pads) copy.integer = static_cast<int64_t>(number);
}

}  // namespace lw::lowering
