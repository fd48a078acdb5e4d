#include "schedules/npu/vector.h"

#include <algorithm>
#include <numeric>

#include "schedules/targets/npu/machine.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

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

bool reduces_rows(const VectorCode& code, const VectorOp& op) {
  const auto along_rows = [&](int value) {
    return varies(code.values[static_cast<size_t>(value)].tile, code.vector_axis);
  };
  return code.vector_axis >= 0 && along_rows(op.srcs[0]) && !along_rows(op.dst);
}

double identity_of(Reduce reduce, Type type) {
  return is_float(type) ? identity_float(reduce)
                        : static_cast<double>(identity_int(reduce, type));
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

int64_t numbers_at_once(const npu::Config& config, const VectorCode& code) {
  constexpr int64_t kMost = 512;
  return padded_to(std::min(code.numbers, kMost), tile_padding(config, {Type::kI32, kNpuAcc, {}}));
}

bool is_whole(const VectorCode& code, int axis) {
  return std::any_of(code.whole.begin(), code.whole.end(),
                     [&](const auto& whole) { return whole.first == axis; });
}

bool holds_whole(const VectorCode& code, const std::vector<int64_t>& extents) {
  return std::all_of(code.whole.begin(), code.whole.end(), [&](const auto& whole) {
    return extents[static_cast<size_t>(whole.first)] == whole.second;
  });
}

namespace {

// tile_layout()'s bytes: domains ask for those of thousands of boxes.
int64_t tile_bytes(const npu::Config& config, const VectorTile& tile,
                   const std::vector<int64_t>& extents) {
  int64_t elements = 1;
  for (size_t d = 0; d < tile.steps.size(); ++d) {
    const int64_t extent = box_extent(tile.steps[d], extents);
    const bool row = d + 1 == tile.steps.size();
    elements *= row ? padded_to(extent, tile_padding(config, tile)) : extent;
  }
  return elements * size_of(tile.type);
}

}  // namespace

VectorRoom vector_room(const npu::Config& config, const VectorCode& code,
                       const std::vector<int64_t>& extents) {
  VectorRoom room;
  const auto add = [](int memory, int64_t bytes, VectorBytes& to) {
    (memory == kNpuAcc ? to.acc : to.spm) += bytes;
  };
  int64_t made_rows = 0;                   // rows of numbers, made in ACC, of zeros
  for (const VectorValue& value : code.values) {
    const bool row = value.kind == VectorValue::Kind::kRow;
    if (!row && value.kind != VectorValue::Kind::kOperand) continue;
    add(value.tile.memory, tile_bytes(config, value.tile, extents), row ? room.once : room.slot);
    if (!row) {
      // What its borders are filled with, made of zeros.
      const bool numbers = !value.borders.empty() && value.number != 0;
      const int64_t padding = tile_padding(config, value.tile) * size_of(value.tile.type);
      if (numbers) add(value.tile.memory, 2 * padding, room.once);
      continue;
    }
    VectorTile made = value.tile;
    made.memory = kNpuAcc;
    made_rows += 2 * tile_bytes(config, made, extents) +
               4 * tile_padding(config, {Type::kF32, kNpuAcc, {}});
  }
  room.once.acc += made_rows;
  if (code.by_rows) {                      // what rows are filled up with, made of zeros too
    const VectorTile& tile = code.values[static_cast<size_t>(code.rows)].tile;
    add(tile.memory, 2 * tile_padding(config, tile) * size_of(tile.type), room.once);
  }
  if (!code.ragged.empty()) {              // ones, made of zeros, a mask; and identities
    const int64_t vector = 4 * tile_padding(config, {Type::kI32, kNpuAcc, {}});
    room.once.acc += (3 + static_cast<int64_t>(code.ragged.size())) * vector;
  }
  if (code.numbers > 0) room.once.acc += 4 * numbers_at_once(config, code);
  for (const std::vector<int>& place : code.places) {
    int64_t most = 0;
    for (const int v : place) {
      most = std::max(most, tile_bytes(config, code.values[static_cast<size_t>(v)].tile, extents));
    }
    const bool kept = place[0] == code.result || place[0] == code.stored;
    add(code.values[static_cast<size_t>(place[0])].tile.memory, most, kept ? room.slot : room.once);
  }
  return room;
}

absl::StatusOr<std::optional<VectorCode>> epilogue_code(const Nest& nest, int product) {
  const std::vector<int>& epilogue = nest.stages[product].epilogue;
  if (epilogue.empty()) return std::nullopt;
  if (epilogue.size() > 1) {
    return infeasible(concat(nest.stages[product].name, " is finished by more than one map"));
  }
  ASSIGN_OR_RETURN(VectorCode code, vector_code(nest, epilogue[0]));
  return code;
}

bool fits(const npu::Config& config, const VectorBytes& bytes) {
  return bytes.spm <= config.spm.bytes && bytes.acc <= config.acc.bytes;
}

}  // namespace lw
