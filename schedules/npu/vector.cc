#include "schedules/npu/vector.h"

#include <numeric>

#include "schedules/targets/npu/machine.h"

namespace lw {

int64_t vector_padding(const npu::Config& config) {
  return std::lcm(config.ve.lanes, config.align.n);
}

int64_t tile_padding(const npu::Config& config, const VectorTile& tile) {
  const int64_t size = size_of(tile.type);
  const int64_t align = tile.memory == kNpuAcc ? config.acc.align
                                               : std::max<int64_t>(1, config.spm.align / size);
  return tile.computes ? std::lcm(vector_padding(config), align) : align;
}

BoxLayout tile_layout(const npu::Config& config, const VectorTile& tile,
                      const std::vector<int64_t>& extents) {
  BoxLayout layout;
  for (const std::vector<int64_t>& dim : tile.steps) {
    layout.extents.push_back(box_extent(dim, extents));
  }
  layout.extents.back() = padded_to(layout.extents.back(), tile_padding(config, tile));
  layout.strides.resize(layout.extents.size());
  int64_t stride = 1;
  for (size_t d = layout.extents.size(); d-- > 0;) {
    layout.strides[d] = stride;
    stride *= layout.extents[d];
  }
  layout.elements = stride;
  layout.bytes = stride * size_of(tile.type);
  return layout;
}

VectorBytes vector_bytes(const npu::Config& config, const VectorCode& code,
                         const std::vector<int64_t>& extents, int64_t slots) {
  VectorBytes bytes;
  const auto size = [&](int value) {
    return tile_layout(config, code.values[static_cast<size_t>(value)].tile, extents).bytes;
  };
  const auto add = [&](int value, int64_t count) {
    const bool acc = code.values[static_cast<size_t>(value)].tile.memory == kNpuAcc;
    (acc ? bytes.acc : bytes.spm) += count;
  };
  int64_t longest = 0;                     // row of numbers, which is made in ACC, of zeros
  for (int v = 0; v < static_cast<int>(code.values.size()); ++v) {
    const VectorValue& value = code.values[static_cast<size_t>(v)];
    if (value.kind == VectorValue::Kind::kOperand) add(v, size(v) * slots);
    if (value.kind != VectorValue::Kind::kRow) continue;
    add(v, size(v));
    VectorTile made = value.tile;
    made.memory = kNpuAcc;
    longest = std::max(longest, tile_layout(config, made, extents).bytes);
  }
  if (longest > 0) bytes.acc += 2 * longest + 4 * tile_padding(config, {Type::kF32, kNpuAcc, {}});
  if (code.by_rows) {                      // what rows are filled up with, made of zeros too
    const VectorTile& tile = code.values[static_cast<size_t>(code.rows)].tile;
    add(code.rows, 2 * tile_padding(config, tile) * size_of(tile.type));
  }
  for (const std::vector<int>& place : code.places) {
    int64_t most = 0;
    for (const int value : place) most = std::max(most, size(value));
    const bool kept = place[0] == code.result || place[0] == code.stored;
    add(place[0], most * (kept ? slots : 1));
  }
  return bytes;
}

bool fits(const npu::Config& config, const VectorBytes& bytes) {
  return bytes.spm <= config.spm.bytes && bytes.acc <= config.acc.bytes;
}

}  // namespace lw
