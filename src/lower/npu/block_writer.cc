#include "src/lower/npu/block_writer.h"

#include <algorithm>

#include "schedules/targets/npu/machine.h"

namespace lw::lowering {

int BlockWriter::make_numbers(const std::string& owner, Type type, int memory, int64_t elements,
                              double number) {
  const int64_t bytes = elements * size_of(type);
  const std::vector<int64_t> unit = {1};
  const int zeros =
      add_managed(concat(owner, ".zeros"), type, memory, elements, take(memory, bytes));
  add(block_of(BlockOp::kFill, view(zeros, affine(0), unit), {}, {elements}), kernel_.body);
  const int made =
      add_managed(concat(owner, ".numbers"), type, memory, elements, take(memory, bytes));
  Block numbers = block_of(BlockOp::kScalar, view(made, affine(0), unit),
                           {view(zeros, affine(0), unit)}, {elements});
  numbers.number = number;
  add(std::move(numbers), kernel_.body);
  return made;
}

// Of part of a vector copies alone can write: by way of DRAM.
int BlockWriter::make_mask(const std::string& owner, int64_t elements, int64_t ones) {
  const std::vector<int64_t> unit = {1};
  const int made = make_numbers(owner, Type::kI32, kNpuAcc, elements, 1);
  const int mask = add_managed(concat(owner, ".mask"), Type::kI32, kNpuAcc, elements,
                               take(kNpuAcc, 4 * elements));
  add(block_of(BlockOp::kFill, view(mask, affine(0), unit), {}, {elements}), kernel_.body);
  const View there =
      view(add_scratch(concat(owner, ".scratch"), Type::kI32, ones), affine(0), unit);
  add(block_of(BlockOp::kCopy, there, {view(made, affine(0), unit)}, {ones}), kernel_.body);
  add(block_of(BlockOp::kCopy, view(mask, affine(0), unit), {there}, {ones}), kernel_.body);
  return mask;
}

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
