#include "src/base/check.h"
#include "src/build/npu/unroller.h"
#include "src/kernel/blocks.h"

namespace lw::npu_build {

using npu::Dtype;
using npu::Space;

absl::StatusOr<Dtype> dtype_of(Type type) {
  switch (type) {
    case Type::kI8: return Dtype::kI8;
    case Type::kI32: return Dtype::kI32;
    case Type::kBF16: return Dtype::kBf16;
    case Type::kF32: return Dtype::kF32;
    default:
      return absl::InvalidArgumentError(
          concat("the NPU has no ", type_name(type), ": it computes with i8, bf16, i32 and f32"));
  }
}

absl::Status no_instruction(const std::string& why) {
  return absl::InvalidArgumentError(concat("the NPU has no instruction for this block: ", why));
}

// The positions that have a source; what is padded around them is LD's.
absl::Status Unroller::copy(const Block& block) {
  if (block.variant == kNpuPacker) return pack(block);
  if (block.clips.empty()) return copy(block, dims_of(block));
  const auto value = [this](const Affine& affine) { return this->value(affine); };
  const std::optional<Block> rest = clipped(block, value);
  if (!rest) return block.pads ? no_instruction("a box of nothing but padding") : absl::OkStatus();
  if (!block.pads) return copy(*rest, dims_of(*rest));
  if (block.integer < -128 || block.integer > 127) {
    return no_instruction(concat("padding of ", block.integer, " is no i8"));
  }
  std::vector<Dim> dims;
  size_t next = 0;
  for (size_t d = 0; d < block.extents.size(); ++d) {
    Dim dim = {rest->extents[d], rest->dst.strides[d], rest->srcs[0].strides[d], 0};
    if (next < block.clips.size() && block.clips[next].dim == static_cast<int>(d)) {
      dim.before = std::max<int64_t>(0, -value(block.clips[next++].first));
      dim.after = block.extents[d] - dim.before - dim.extent;
    }
    if (dim.extent > 1 || dim.is_padded()) dims.push_back(dim);
  }
  return copy(*rest, std::move(dims));
}

// LD and ST: runs of contiguous bytes along two loops; further dimensions are instructions of their
// own.
absl::Status Unroller::copy(const Block& block, std::vector<Dim> dims) {
  const bool loads = in_dram(block.srcs[0]);
  if (!loads && !in_dram(block.dst)) return move(block);
  const View &dram = loads ? block.srcs[0] : block.dst, &local = loads ? block.dst : block.srcs[0];
  if (in_dram(local)) return no_instruction("a copy from DRAM to DRAM");
  const Type from = buffer(block.srcs[0]).type, to = buffer(block.dst).type;
  ASSIGN_OR_RETURN(const Dtype dtype, dtype_of(from));
  const bool widens = from != to;
  const bool can_widen =
      loads && in_acc(local) &&
      ((from == Type::kI8 && to == Type::kI32) || (from == Type::kBF16 && to == Type::kF32));
  if (widens && !can_widen) {
    return no_instruction(concat("a copy of ", type_name(from), " as ", type_name(to)));
  }
  if (!loads) {
    for (Dim& dim : dims) std::swap(dim.dst, dim.src0);  // dst: the local one, here and below
  }
  merge(dims);
  int64_t run = 1;
  if (!dims.empty() && dims.back().dst == 1 && dims.back().src0 == 1 && !dims.back().is_padded()) {
    run = dims.back().extent;
    dims.pop_back();
  }
  npu::Copy copy;
  copy.space = in_acc(local) ? Space::kAcc : Space::kSpm;
  copy.convert = widens ? npu::Convert::kWiden : npu::Convert::kNone;
  const bool padded =
      std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_padded(); });
  if (padded) copy.value = static_cast<int8_t>(block.integer);
  Strip strip = {dram, local, dtype, loads, run};
  return strips(strip, dims, copy, address(dram), address(local));
}

// Of `dims` the last two are the instruction's; what does not fit into one is cut.
absl::Status Unroller::strips(const Strip& strip, const std::vector<Dim>& dims,
                              const npu::Copy& copy, int64_t dram, int64_t local) {
  const int64_t size = size_of(buffer(strip.dram).type), unit = this->unit(strip.local);
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool fits = d + 2 >= dims.size() && strip.run * size <= kMostRun &&
                      dims[d].extent <= kMostRows &&
                      std::max(dims[d].before, dims[d].after) <= kMostPadding;
    if (dims[d].is_padded() && !fits) {
      return no_instruction(concat("a copy with ", dims[d].before, " and ", dims[d].after,
                                   " rows of padding"));
    }
  }
  if (dims.size() > 2) {
    const std::vector<Dim> inner(dims.begin() + 1, dims.end());
    for (int64_t i = 0; i < dims[0].extent; ++i) {
      RETURN_IF_ERROR(strips(strip, inner, copy, dram + i * dims[0].src0 * size,
                             local + i * dims[0].dst * unit));
    }
    return absl::OkStatus();
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    for (int64_t i = 0; dims[d].extent > kMostRows && i < dims[d].extent; i += kMostRows) {
      std::vector<Dim> part = dims;
      part[d].extent = std::min(kMostRows, dims[d].extent - i);
      RETURN_IF_ERROR(strips(strip, part, copy, dram + i * dims[d].src0 * size,
                             local + i * dims[d].dst * unit));
    }
    if (dims[d].extent > kMostRows) return absl::OkStatus();
  }
  const int64_t most = kMostPart / size;
  if (strip.run * size <= kMostRun) return transfer(strip, dims, copy, dram, local);
  for (int64_t i = 0; i < strip.run; i += most) {
    Strip part = strip;
    part.run = std::min(most, strip.run - i);
    RETURN_IF_ERROR(transfer(part, dims, copy, dram + i * size, local + i * unit));
  }
  return absl::OkStatus();
}

absl::Status Unroller::transfer(const Strip& strip, const std::vector<Dim>& dims, npu::Copy copy,
                                int64_t dram, int64_t local) {
  const int64_t size = size_of(buffer(strip.dram).type), unit = this->unit(strip.local);
  for (const Dim& dim : dims) local -= dim.before * dim.dst * unit;
  copy.dram = static_cast<uint64_t>(dram);
  copy.loc = static_cast<uint32_t>(local);
  copy.n0 = static_cast<uint16_t>(strip.run * size);
  int64_t dram_end = strip.run * size, local_end = strip.run * unit;
  for (size_t d = 0; d < dims.size(); ++d) {
    const Dim& dim = dims[dims.size() - 1 - d];
    const int64_t dram_stride = dim.src0 * size, local_stride = dim.dst * unit;
    if (dram_stride < 0 || local_stride < 0 || dram_stride >> 32 != 0 || local_stride >> 20 != 0) {
      return no_instruction(concat("a copy with strides of ", dram_stride, " and ", local_stride));
    }
    (d == 0 ? copy.n1 : copy.n2) = static_cast<uint16_t>(dim.extent);
    (d == 0 ? copy.dstr1 : copy.dstr2) = static_cast<uint32_t>(dram_stride);
    (d == 0 ? copy.lstr1 : copy.lstr2) = static_cast<uint32_t>(local_stride);
    (d == 0 ? copy.left : copy.top) = static_cast<uint8_t>(dim.before);
    (d == 0 ? copy.right : copy.bottom) = static_cast<uint8_t>(dim.after);
    dram_end += (dim.extent - 1) * dram_stride;
    local_end += (dim.before + dim.extent - 1 + dim.after) * local_stride;
  }
  Operation operation;
  if (strip.loads)
    operation.instruction.body = npu::Ld{copy};
  else
    operation.instruction.body = npu::St{copy};
  operation.instruction.dtype = strip.dtype;
  operation.fills = strip.loads;
  touch(operation, strip.dram, dram, dram_end, !strip.loads);
  touch(operation, strip.local, local, local_end, strip.loads);
  return emit(operation);
}

// Neighbours of which one's positions follow the other's in all views become one dimension.
void Unroller::merge(std::vector<Dim>& dims) {
  for (size_t d = dims.size(); d-- > 1;) {
    Dim &outer = dims[d - 1], &inner = dims[d];
    if (outer.is_padded() || inner.is_padded()) continue;
    if (outer.dst != inner.extent * inner.dst || outer.src0 != inner.extent * inner.src0 ||
        outer.src1 != inner.extent * inner.src1) {
      continue;
    }
    outer = {outer.extent * inner.extent, inner.dst, inner.src0, inner.src1};
    dims.erase(dims.begin() + static_cast<int64_t>(d));
  }
}

}  // namespace lw::npu_build
