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
  auto known = products_.find(&block);
  if (known == products_.end()) {
    ASSIGN_OR_RETURN(const Product prepared, prepare(block));
    known = products_.emplace(&block, prepared).first;
  }
  return block.variant == kNpuOutputStationary ? streamed(block, known->second)
                                               : stationary(block, known->second);
}

absl::StatusOr<Unroller::Product> Unroller::prepare(const Block& block) const {
  const View &a = block.srcs[0], &b = block.srcs[1];
  if (!in_acc(block.dst) || in_dram(a) || in_dram(b) || in_acc(a) || in_acc(b)) {
    return no_instruction("a product of what is not in SPM, or into another memory than ACC");
  }
  Product product;
  ASSIGN_OR_RETURN(product.dtype, dtype_of(buffer(a).type));
  if (buffer(b).type != buffer(a).type) return no_instruction("a product of two types");
  ASSIGN_OR_RETURN(const Roles roles, roles_of(block));
  if ((roles.k.extent > 1 && roles.k.src0 != 1) || (roles.n.extent > 1 && roles.n.dst != 1)) {
    return no_instruction(
        "a product whose rows are not contiguous along the sum, or whose results "
        "are not along the columns");
  }
  RETURN_IF_ERROR(check_fields(block, roles));
  const int64_t size = size_of(buffer(a).type);
  RETURN_IF_ERROR(block.variant == kNpuOutputStationary ? prepare_streamed(roles, size, product)
                                                        : prepare_stationary(roles, size, product));
  product.stationary.accumulate = product.streamed.accumulate = block.accumulate;
  const std::vector<Dim> dims = dims_of(block);
  product.dst = length_of(block.dst, dims, &Dim::dst);
  product.a = length_of(a, dims, &Dim::src0);
  product.b = length_of(b, dims, &Dim::src1);
  return product;
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

absl::Status Unroller::prepare_stationary(const Roles& roles, int64_t size,
                                          Product& product) const {
  const bool across = roles.n.src1 != 1 && roles.n.extent > 1;
  if (across && roles.k.src1 != 1 && roles.k.extent > 1) {
    return no_instruction(
        "weights that are contiguous neither along the columns nor along the sum");
  }
  npu::MxLdw& weights = product.weights;
  weights.k = static_cast<uint8_t>(roles.k.extent);
  weights.n = static_cast<uint8_t>(roles.n.extent);
  weights.wstr = static_cast<uint32_t>((across ? roles.n.src1 : roles.k.src1) * size);
  weights.trans = across;
  npu::MxMm& mm = product.stationary;
  mm.m = static_cast<uint16_t>(roles.m.extent);
  mm.m2 = static_cast<uint8_t>(roles.m2.extent);
  mm.astr1 = static_cast<uint32_t>(roles.m.src0 * size);
  mm.astr2 = static_cast<uint32_t>(roles.m2.src0 * size);
  mm.accstr = static_cast<uint16_t>(roles.m.dst);
  mm.accstr2 = static_cast<uint32_t>(roles.m2.dst);
  mm.k = weights.k;
  mm.n = weights.n;
  return absl::OkStatus();
}

absl::Status Unroller::prepare_streamed(const Roles& roles, int64_t size, Product& product) const {
  if (roles.m2.extent > 1 || (roles.n.extent > 1 && roles.n.src1 != 1)) {
    return no_instruction("an output-stationary product of such strides");
  }
  npu::MxMmos& mm = product.streamed;
  mm.astr = static_cast<uint32_t>(roles.m.src0 * size);
  mm.bstr = static_cast<uint32_t>(roles.k.src1 * size);
  mm.accstr = static_cast<uint16_t>(roles.m.dst);
  mm.m = static_cast<uint8_t>(roles.m.extent);
  mm.n = static_cast<uint8_t>(roles.n.extent);
  mm.k = static_cast<uint16_t>(roles.k.extent);
  return absl::OkStatus();
}

// MX.LDW and MX.MM. The array keeps the weights of the last product as long as nobody has written
// where they come from.
absl::Status Unroller::stationary(const Block& block, const Product& product) {
  const View &a = block.srcs[0], &b = block.srcs[1];
  const int64_t from = address(a), loaded = address(b), to = address(block.dst);
  npu::MxLdw weights = product.weights;
  weights.w = static_cast<uint32_t>(loaded);
  const Loaded now = {weights, product.dtype, b.buffer, versions_[static_cast<size_t>(b.buffer)]};
  const bool loads = !(loaded_ == now);
  if (loads) {
    Operation operation;
    operation.instruction.body = weights;
    operation.instruction.dtype = product.dtype;
    touch(operation, b, loaded, product.b, false);
    RETURN_IF_ERROR(emit(operation));
    loaded_ = now;
  }
  npu::MxMm mm = product.stationary;
  mm.a = static_cast<uint32_t>(from);
  mm.acc = static_cast<uint32_t>(to);
  mm.swap = loads;
  Operation operation;
  operation.instruction.body = mm;
  operation.instruction.dtype = product.dtype;
  touch(operation, block.dst, to, product.dst, true);
  touch(operation, a, from, product.a, false);
  // Weights may still be on their way when those of the product before are done; not when its own
  // is.
  if (loads) touch(operation, b, loaded, product.b, false);
  return emit(operation);
}

// MX.MMOS.
absl::Status Unroller::streamed(const Block& block, const Product& product) {
  const View &a = block.srcs[0], &b = block.srcs[1];
  const int64_t from = address(a), streams = address(b), to = address(block.dst);
  npu::MxMmos mm = product.streamed;
  mm.a = static_cast<uint32_t>(from);
  mm.b = static_cast<uint32_t>(streams);
  mm.acc = static_cast<uint32_t>(to);
  Operation operation;
  operation.instruction.body = mm;
  operation.instruction.dtype = product.dtype;
  touch(operation, block.dst, to, product.dst, true);
  touch(operation, a, from, product.a, false);
  touch(operation, b, streams, product.b, false);
  return emit(operation);
}

}  // namespace lw::npu_build
