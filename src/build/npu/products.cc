#include "src/base/check.h"
#include "src/build/npu/unroller.h"

namespace lw::npu_build {

using npu::Dtype;

absl::StatusOr<Unroller::Roles> Unroller::roles_of(const Block& block) const {
  Roles roles;
  int rows = 0, columns = 0, sums = 0;
  for (const Dim& dim : dims_of(block)) {
    if (dim.dst != 0 && dim.src0 != 0 && dim.src1 == 0) {
      ++rows;
      roles.m2 = roles.m;
      roles.m = dim;
    } else if (dim.dst != 0 && dim.src0 == 0 && dim.src1 != 0) {
      ++columns;
      roles.n = dim;
    } else if (dim.dst == 0 && dim.src0 != 0 && dim.src1 != 0) {
      ++sums;
      roles.k = dim;
    } else {
      return no_instruction("a dimension of a product that is none of rows, columns and sums");
    }
  }
  if (rows > 2 || columns > 1 || sums > 1) {
    return no_instruction("a product of more than two dimensions of rows and one of each other");
  }
  return roles;
}

absl::Status Unroller::product(const Block& block) {
  const View &a = block.srcs[0], &b = block.srcs[1];
  if (!in_acc(block.dst) || in_dram(a) || in_dram(b) || in_acc(a) || in_acc(b)) {
    return no_instruction("a product of what is not in SPM, or into another memory than ACC");
  }
  ASSIGN_OR_RETURN(const Dtype dtype, dtype_of(buffer(a).type));
  if (buffer(b).type != buffer(a).type) return no_instruction("a product of two types");
  ASSIGN_OR_RETURN(const Roles roles, roles_of(block));
  if ((roles.k.extent > 1 && roles.k.src0 != 1) || (roles.n.extent > 1 && roles.n.dst != 1)) {
    return no_instruction(
        "a product whose rows are not contiguous along the sum, or whose results "
        "are not along the columns");
  }
  RETURN_IF_ERROR(check_fields(block, roles));
  return block.variant == kNpuOutputStationary ? streamed(block, roles, dtype)
                                               : stationary(block, roles, dtype);
}

// What a field would not hold; the rest is for check_program.
absl::Status Unroller::check_fields(const Block& block, const Roles& roles) const {
  const bool streams = block.variant == kNpuOutputStationary;
  const int64_t size = size_of(buffer(block.srcs[0]).type);
  const struct {
    const char* what;
    int64_t value, most;
  } fields[] = {{"rows", roles.m.extent, streams ? 255 : 65535},
                {"blocks of rows", roles.m2.extent, 255},
                {"columns", roles.n.extent, 255},
                {"elements of a sum", roles.k.extent, streams ? 65535 : 255},
                {"words from row to row of results", roles.m.dst, 4095},
                {"words from block to block of results", roles.m2.dst, (1 << 20) - 1},
                {"bytes from row to row", roles.m.src0 * size, (1 << 20) - 1},
                {"bytes from block to block of rows", roles.m2.src0 * size, (1 << 20) - 1},
                {"bytes from row to row of weights", roles.k.src1 * size, (1 << 20) - 1},
                {"bytes from column to column of weights", roles.n.src1 * size, (1 << 20) - 1}};
  for (const auto& field : fields) {
    if (field.value < 0 || field.value > field.most) {
      return no_instruction(
          concat("a product of ", field.value, " ", field.what, ", at most ", field.most));
    }
  }
  return absl::OkStatus();
}

void Unroller::touch_product(Operation& operation, const Block& block) {
  const std::vector<Dim> dims = dims_of(block);
  touch_all(operation, block.dst, dims, &Dim::dst, true);
  touch_all(operation, block.srcs[0], dims, &Dim::src0, false);
}

// MX.LDW and MX.MM. The array keeps the weights of the last product as long as nobody has written
// where they come from.
absl::Status Unroller::stationary(const Block& block, const Roles& roles, Dtype dtype) {
  const View &a = block.srcs[0], &b = block.srcs[1];
  const int64_t size = size_of(buffer(a).type);
  const bool across = roles.n.src1 != 1 && roles.n.extent > 1;
  if (across && roles.k.src1 != 1 && roles.k.extent > 1) {
    return no_instruction(
        "weights that are contiguous neither along the columns nor along the sum");
  }
  npu::MxLdw weights;
  weights.w = static_cast<uint32_t>(address(b));
  weights.k = static_cast<uint8_t>(roles.k.extent);
  weights.n = static_cast<uint8_t>(roles.n.extent);
  weights.wstr = static_cast<uint32_t>((across ? roles.n.src1 : roles.k.src1) * size);
  weights.trans = across;
  const Loaded now = {weights, dtype, b.buffer, versions_[static_cast<size_t>(b.buffer)]};
  const bool loads = !(loaded_ == now);
  if (loads) {
    Operation operation;
    operation.instruction.body = weights;
    operation.instruction.dtype = dtype;
    touch_all(operation, b, dims_of(block), &Dim::src1, false);
    RETURN_IF_ERROR(emit(std::move(operation)));
    loaded_ = now;
  }
  npu::MxMm mm;
  mm.a = static_cast<uint32_t>(address(a));
  mm.m = static_cast<uint16_t>(roles.m.extent);
  mm.m2 = static_cast<uint8_t>(roles.m2.extent);
  mm.astr1 = static_cast<uint32_t>(roles.m.src0 * size);
  mm.astr2 = static_cast<uint32_t>(roles.m2.src0 * size);
  mm.acc = static_cast<uint32_t>(address(block.dst));
  mm.accstr = static_cast<uint16_t>(roles.m.dst);
  mm.accstr2 = static_cast<uint32_t>(roles.m2.dst);
  mm.k = weights.k;
  mm.n = weights.n;
  mm.accumulate = block.accumulate;
  mm.swap = loads;
  Operation operation;
  operation.instruction.body = mm;
  operation.instruction.dtype = dtype;
  touch_product(operation, block);
  // Weights may still be on their way when those of the product before are done; not when its own
  // is.
  if (loads) touch_all(operation, b, dims_of(block), &Dim::src1, false);
  return emit(std::move(operation));
}

// MX.MMOS.
absl::Status Unroller::streamed(const Block& block, const Roles& roles, Dtype dtype) {
  const View &a = block.srcs[0], &b = block.srcs[1];
  const int64_t size = size_of(buffer(a).type);
  if (roles.m2.extent > 1 || (roles.n.extent > 1 && roles.n.src1 != 1)) {
    return no_instruction("an output-stationary product of such strides");
  }
  npu::MxMmos mm;
  mm.a = static_cast<uint32_t>(address(a));
  mm.b = static_cast<uint32_t>(address(b));
  mm.astr = static_cast<uint32_t>(roles.m.src0 * size);
  mm.bstr = static_cast<uint32_t>(roles.k.src1 * size);
  mm.acc = static_cast<uint32_t>(address(block.dst));
  mm.accstr = static_cast<uint16_t>(roles.m.dst);
  mm.m = static_cast<uint8_t>(roles.m.extent);
  mm.n = static_cast<uint8_t>(roles.n.extent);
  mm.k = static_cast<uint16_t>(roles.k.extent);
  mm.accumulate = block.accumulate;
  Operation operation;
  operation.instruction.body = mm;
  operation.instruction.dtype = dtype;
  touch_product(operation, block);
  touch_all(operation, b, dims_of(block), &Dim::src1, false);
  return emit(std::move(operation));
}

}  // namespace lw::npu_build
