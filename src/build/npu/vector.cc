// What the vector engine does: rows of functions, reductions, requantisation, and copies within and
// between the managed memories.
#include <bit>
#include <functional>
#include <numeric>

#include "src/base/check.h"
#include "src/build/npu/unroller.h"

namespace lw::npu_build {

using npu::BinaryFn;
using npu::Broadcast;
using npu::Dtype;
using npu::UnaryFn;

namespace {

// What fields hold.
constexpr int64_t kMostRow = 4095, kMostStride = (1 << 20) - 1;
constexpr int64_t kMostRequantised = 255, kMostSumStride = 4095;

absl::StatusOr<UnaryFn> unary_of(ExprOp op) {
  switch (op) {
    case ExprOp::kExp: return UnaryFn::kExp;
    case ExprOp::kRsqrt: return UnaryFn::kRsqrt;
    case ExprOp::kTanh: return UnaryFn::kTanh;
    case ExprOp::kSigmoid: return UnaryFn::kSigm;
    case ExprOp::kAbs: return UnaryFn::kAbs;
    default: return no_instruction(concat("the vector engine has no ", op_name(op)));
  }
}

absl::StatusOr<BinaryFn> binary_of(ExprOp op) {
  switch (op) {
    case ExprOp::kAdd: return BinaryFn::kAdd;
    case ExprOp::kSub: return BinaryFn::kSub;
    case ExprOp::kMul: return BinaryFn::kMul;
    case ExprOp::kMax: return BinaryFn::kMax;
    case ExprOp::kMin: return BinaryFn::kMin;
    case ExprOp::kGt: return BinaryFn::kCmp;
    default: return no_instruction(concat("the vector engine has no ", op_name(op), " of two"));
  }
}

BinaryFn combining(Reduce reduce) {
  switch (reduce) {
    case Reduce::kMax: return BinaryFn::kMax;
    case Reduce::kMin: return BinaryFn::kMin;
    case Reduce::kProd: return BinaryFn::kMul;
    default: return BinaryFn::kAdd;
  }
}

uint32_t immediate(Type type, double number) {
  return is_float(type) ? std::bit_cast<uint32_t>(static_cast<float>(number))
                        : static_cast<uint32_t>(static_cast<int32_t>(number));
}

}  // namespace

// The memory that the engine wants a type in.
absl::StatusOr<Dtype> Unroller::vector_type(const View& view) const {
  ASSIGN_OR_RETURN(const Dtype dtype, dtype_of(buffer(view).type));
  const bool words = dtype == Dtype::kI32 || dtype == Dtype::kF32;
  if (in_dram(view) || in_acc(view) != words) {
    return no_instruction(concat("the vector engine computes i32 and f32 in ACC, i8 and bf16 in "
                                 "SPM, and ", buffer(view).name, " lies elsewhere"));
  }
  return dtype;
}

absl::Status Unroller::rows(const Block& block, std::vector<Dim> dims, const UseRows& use,
                            bool whole) {
  merge(dims);
  const bool contiguous = !dims.empty() && dims.back().dst <= 1 && dims.back().src0 <= 1 &&
                          dims.back().src1 <= 1 && dims.back().src0 >= 0 && dims.back().src1 >= 0;
  if (!contiguous) return no_instruction("rows of the vector engine are contiguous");
  Dim row = dims.back();
  dims.pop_back();
  const int64_t lanes = config_.ve.lanes;
  if (row.extent % lanes != 0) {
    return no_instruction(concat("rows of ", row.extent, " elements, no multiple of ve.lanes (",
                                 lanes, ")"));
  }
  // Vectors take the same time in rows of their own.
  const int64_t part = std::lcm(lanes, std::lcm(config_.acc.align, config_.spm.align));
  if (!whole && (dims.empty() || row.extent > kMostRow) && row.extent % part == 0) {
    dims.push_back({row.extent / part, row.dst * part, row.src0 * part, row.src1 * part});
    row.extent = part;
  }
  if (row.extent > kMostRow) return no_instruction(concat("rows of ", row.extent, " elements"));
  if (dims.empty()) dims.push_back({1, 0, 0, 0});
  const Dim inner = dims.back();
  dims.pop_back();
  const View* const views[3] = {&block.dst, &block.srcs[0], &block.srcs[1]};
  Rows rows;
  rows.row = row.extent;
  rows.along[0] = row.dst, rows.along[1] = row.src0, rows.along[2] = row.src1;
  const int64_t strides[3] = {inner.dst, inner.src0, inner.src1};
  for (int v = 0; v < 3; ++v) {
    rows.unit[v] = views[v]->buffer < 0 ? 0 : unit(*views[v]);
    rows.stride[v] = strides[v] * rows.unit[v];
    if (rows.stride[v] < 0 || rows.stride[v] > kMostStride) {
      return no_instruction(concat("rows that lie ", rows.stride[v], " apart"));
    }
  }
  // The outer dimensions are instructions of their own.
  std::vector<int64_t> at(dims.size(), 0);
  for (;;) {
    for (int64_t first = 0; first < inner.extent; first += kMostRow) {
      for (int v = 0; v < 3; ++v) {
        if (views[v]->buffer < 0) continue;
        rows.at[v] = address(*views[v]) + first * rows.stride[v];
        for (size_t d = 0; d < dims.size(); ++d) {
          const int64_t by[3] = {dims[d].dst, dims[d].src0, dims[d].src1};
          rows.at[v] += at[d] * by[v] * rows.unit[v];
        }
      }
      rows.rows = std::min(kMostRow, inner.extent - first);
      RETURN_IF_ERROR(use(rows));
    }
    size_t d = dims.size();
    while (d-- > 0 && ++at[d] == dims[d].extent) at[d] = 0;
    if (d > dims.size()) return absl::OkStatus();
  }
}

// All between the first and the last element that the rows have in view `v`.
void Unroller::touch_rows(Operation& operation, const Block& block, const Rows& rows, int v,
                          bool write) {
  const View& view = v == 0 ? block.dst : block.srcs[v - 1];
  const int64_t row = rows.along[v] == 0 ? 1 : rows.row;
  touch(operation, view, rows.at[v], (rows.rows - 1) * rows.stride[v] + row * rows.unit[v], write);
}

absl::Status Unroller::emit_unary(const Block& block, const Rows& rows, Dtype dtype, UnaryFn fn) {
  npu::VeUn un;
  un.fn = fn;
  return emit_of_one(block, rows, dtype, un);
}

template <class Body>
absl::Status Unroller::emit_of_one(const Block& block, const Rows& rows, Dtype dtype, Body body) {
  body.dst = static_cast<uint32_t>(rows.at[0]), body.src0 = static_cast<uint32_t>(rows.at[1]);
  body.dstr = static_cast<uint32_t>(rows.stride[0]);
  body.sstr0 = static_cast<uint32_t>(rows.stride[1]);
  body.n0 = static_cast<uint16_t>(rows.row), body.n1 = static_cast<uint16_t>(rows.rows);
  Operation operation;
  operation.instruction.body = body;
  operation.instruction.dtype = dtype;
  touch_rows(operation, block, rows, 0, true);
  touch_rows(operation, block, rows, 1, false);
  return emit(std::move(operation));
}

// dst = first `fn` second, views by number: 0 is dst itself; `second` < 0: the number.
absl::Status Unroller::emit_binary(const Block& block, const Rows& rows, Dtype dtype, BinaryFn fn,
                                   int first, int second, uint32_t number) {
  npu::VeBin bin;
  bin.fn = fn;
  bin.dst = static_cast<uint32_t>(rows.at[0]), bin.dstr = static_cast<uint32_t>(rows.stride[0]);
  bin.src0 = static_cast<uint32_t>(rows.at[first]);
  bin.sstr0 = static_cast<uint32_t>(rows.stride[first]);
  bin.n0 = static_cast<uint16_t>(rows.row), bin.n1 = static_cast<uint16_t>(rows.rows);
  if (second < 0) {
    bin.broadcast = Broadcast::kImm;
    bin.imm = number;
  } else {
    bin.src1 = static_cast<uint32_t>(rows.at[second]);
    bin.sstr1 = static_cast<uint32_t>(rows.stride[second]);
    if (rows.along[second] == 0) bin.broadcast = Broadcast::kColumn;
  }
  Operation operation;
  operation.instruction.body = bin;
  operation.instruction.dtype = dtype;
  operation.fills = first == 0 && second == 0;  // zeros, of whatever is there
  touch_rows(operation, block, rows, 0, true);
  if (first != 0) touch_rows(operation, block, rows, first, false);
  if (second > 0) touch_rows(operation, block, rows, second, false);
  return emit(std::move(operation));
}

// Zeros, which x > x is of every x.
absl::Status Unroller::emit_zeros(const Block& block, const Rows& rows, Dtype dtype) {
  return emit_binary(block, rows, dtype, BinaryFn::kCmp, 0, 0, 0);
}

absl::Status Unroller::fill(const Block& block) {
  if (block.integer != 0 || in_dram(block.dst)) {
    return no_instruction("only zeros are filled in, and not into DRAM");
  }
  ASSIGN_OR_RETURN(const Dtype dtype, vector_type(block.dst));
  std::vector<Dim> dims = dims_of(block);
  for (Dim& dim : dims) dim.src0 = dim.src1 = dim.dst;
  return rows(block, std::move(dims),
              [&](const Rows& rows) { return emit_zeros(block, rows, dtype); });
}

absl::Status Unroller::compute(const Block& block) {
  ASSIGN_OR_RETURN(const Dtype dtype, vector_type(block.dst));
  for (int i = 0; i < (block.op == BlockOp::kBinary ? 2 : 1); ++i) {
    RETURN_IF_ERROR(vector_type(block.srcs[i]).status());
  }
  const Type type = buffer(block.dst).type;
  const std::vector<Dim> dims = dims_of(block);
  if (block.op == BlockOp::kUnary) {
    ASSIGN_OR_RETURN(const UnaryFn fn, unary_of(block.expr_op));
    return rows(block, dims, [&](const Rows& rows) {
      if (rows.along[1] == 0) return no_instruction("a function of a column alone");
      return emit_unary(block, rows, dtype, fn);
    });
  }
  if (block.op == BlockOp::kBinary) {
    ASSIGN_OR_RETURN(const BinaryFn fn, binary_of(block.expr_op));
    return rows(block, dims, [&](const Rows& rows) {
      if (rows.along[1] == 0) return no_instruction("a column as a first operand");
      return emit_binary(block, rows, dtype, fn, 1, 2, 0);
    });
  }
  // number - x is -1 * x + number; number / x is number * (1 / x).
  const uint32_t number = immediate(type, block.number), minus = immediate(type, -1);
  const bool divides = block.expr_op == ExprOp::kDiv, subtracts = block.expr_op == ExprOp::kSub;
  if (divides && !is_float(type)) return no_instruction("a quotient of integers");
  BinaryFn fn = BinaryFn::kMul;
  if (subtracts) fn = BinaryFn::kAdd;
  if (!divides && !subtracts) {
    ASSIGN_OR_RETURN(fn, binary_of(block.expr_op));
  }
  return rows(block, dims, [&](const Rows& rows) -> absl::Status {
    if (rows.along[1] == 0) return no_instruction("a function of a column alone");
    if (divides) {
      RETURN_IF_ERROR(emit_unary(block, rows, dtype, UnaryFn::kRecip));
      if (block.number == 1) return absl::OkStatus();
    } else if (subtracts) {
      RETURN_IF_ERROR(emit_binary(block, rows, dtype, BinaryFn::kMul, 1, -1, minus));
    }
    return emit_binary(block, rows, dtype, fn, divides || subtracts ? 0 : 1, -1, number);
  });
}

// Along rows by VE.RED; along other dimensions row by row.
absl::Status Unroller::reduce(const Block& block) {
  ASSIGN_OR_RETURN(const Dtype dtype, vector_type(block.dst));
  RETURN_IF_ERROR(vector_type(block.srcs[0]).status());
  std::vector<Dim> kept, reduced;
  for (const Dim& dim : dims_of(block)) (dim.dst == 0 ? reduced : kept).push_back(dim);
  if (reduced.size() == 1 && reduced[0].src0 == 1) {
    if (block.accumulate || reduced[0].extent > kMostRow ||
        (block.reduce != Reduce::kSum && block.reduce != Reduce::kMax)) {
      return no_instruction("a reduction of rows is a new sum or maximum of at most 4095 elements");
    }
    std::vector<Dim> dims = std::move(kept);
    dims.push_back(reduced[0]);
    return rows(block, std::move(dims), [&](const Rows& rows) {
      npu::VeRed red;
      red.fn = block.reduce == Reduce::kSum ? npu::ReduceFn::kSum : npu::ReduceFn::kMax;
      return emit_of_one(block, rows, dtype, red);
    }, true);
  }
  bool begun = block.accumulate;
  std::vector<int64_t> at(reduced.size(), 0);
  for (;;) {
    int64_t offset = 0;
    for (size_t d = 0; d < reduced.size(); ++d) offset += at[d] * reduced[d].src0;
    RETURN_IF_ERROR(rows(block, kept, [&](Rows rows) {
      rows.at[1] += offset * rows.unit[1];
      return begun ? emit_binary(block, rows, dtype, combining(block.reduce), 0, 1, 0)
                   : emit_unary(block, rows, dtype, UnaryFn::kCopy);
    }));
    begun = true;
    size_t d = reduced.size();
    while (d-- > 0 && ++at[d] == reduced[d].extent) at[d] = 0;
    if (d > reduced.size()) return absl::OkStatus();
  }
}

// i32 with scales and biases of columns to i8, or f32 to bf16: as many columns at once as a field
// and all alignments hold.
absl::Status Unroller::requantise(const Block& block) {
  const View &dst = block.dst, &sums = block.srcs[0];
  const bool scaled = block.op == BlockOp::kRequantise;
  if (!in_acc(sums) || in_dram(dst) || in_acc(dst)) {
    return no_instruction("requantisation of what is not in ACC, or to another memory than SPM");
  }
  std::vector<Dim> dims = dims_of(block);  // with the scales' strides, and the biases' alike
  if (scaled) {
    const View &scales = block.srcs[1], &biases = block.srcs[2];
    if (scales.strides != biases.strides || in_dram(scales) || in_acc(scales) || in_dram(biases) ||
        in_acc(biases)) {
      return no_instruction("scales and biases lie alike, both in SPM");
    }
  }
  merge(dims);
  if (dims.empty() || dims.back().dst != 1 || dims.back().src0 != 1 ||
      dims.back().src1 != (scaled ? 1 : 0)) {
    return no_instruction("columns of a requantisation are contiguous");
  }
  Dim columns = dims.back();
  dims.pop_back();
  for (const Dim& dim : dims) {
    if (dim.src1 != 0) return no_instruction("scales and biases are of columns alone");
  }
  const int64_t align = std::lcm(std::lcm(config_.align.n, config_.acc.align),
                                 std::max<int64_t>(1, config_.spm.align / unit(dst)));
  const int64_t most = std::max(align, kMostRequantised / align * align);
  // One long row is several.
  if (dims.empty() && !scaled && columns.extent > most) {
    const int64_t whole = columns.extent / most;
    const std::vector<Dim> outer = {{whole, most, most, 0}};
    RETURN_IF_ERROR(requantised(block, outer, 0, most));
    const int64_t rest = columns.extent % most;
    return rest == 0 ? absl::OkStatus() : requantised(block, {}, whole * most, rest);
  }
  for (int64_t first = 0; first < columns.extent; first += most) {
    RETURN_IF_ERROR(requantised(block, dims, first, std::min(most, columns.extent - first)));
  }
  return absl::OkStatus();
}

absl::Status Unroller::requantised(const Block& block, std::vector<Dim> dims, int64_t first,
                                   int64_t columns) {
  const bool scaled = block.op == BlockOp::kRequantise;
  Dim inner = {1, 0, 0, 0};
  if (!dims.empty() && dims.back().src0 <= kMostSumStride) {
    inner = dims.back();
    dims.pop_back();
  }
  npu::VeReq req;
  req.zp = block.zero, req.lo = block.lo, req.hi = block.hi;
  req.n = static_cast<uint8_t>(columns);
  req.accstr = static_cast<uint16_t>(inner.src0);
  const int64_t size = unit(block.dst);
  if (inner.src0 < 0 || inner.dst < 0 || inner.dst * size > kMostStride) {
    return no_instruction(concat("rows that lie ", inner.dst * size, " apart"));
  }
  req.dstr = static_cast<uint32_t>(inner.dst * size);
  if (scaled) {
    req.scale = static_cast<uint32_t>(address(block.srcs[1]) + 4 * first);
    req.bias = static_cast<uint32_t>(address(block.srcs[2]) + 4 * first);
  }
  std::vector<int64_t> at(dims.size(), 0);
  for (;;) {
    int64_t dst = address(block.dst) + first * size, acc = address(block.srcs[0]) + first;
    for (size_t d = 0; d < dims.size(); ++d) {
      dst += at[d] * dims[d].dst * size;
      acc += at[d] * dims[d].src0;
    }
    for (int64_t row = 0; row < inner.extent; row += kMostRows) {
      req.rows = static_cast<uint16_t>(std::min(kMostRows, inner.extent - row));
      req.dst = static_cast<uint32_t>(dst + row * inner.dst * size);
      req.acc = static_cast<uint32_t>(acc + row * inner.src0);
      Operation operation;
      operation.instruction.body = req;
      operation.instruction.dtype = scaled ? Dtype::kI8 : Dtype::kBf16;
      const int64_t last = req.rows - 1;
      touch(operation, block.dst, req.dst, last * req.dstr + columns * size, true);
      touch(operation, block.srcs[0], req.acc, last * req.accstr + columns, false);
      if (scaled) {
        touch(operation, block.srcs[1], req.scale, 4 * columns, false);
        touch(operation, block.srcs[2], req.bias, 4 * columns, false);
      }
      RETURN_IF_ERROR(emit(std::move(operation)));
    }
    size_t d = dims.size();
    while (d-- > 0 && ++at[d] == dims[d].extent) at[d] = 0;
    if (d > dims.size()) return absl::OkStatus();
  }
}

// Between managed memories: as it is, or a column along rows.
absl::Status Unroller::move(const Block& block) {
  const Type from = buffer(block.srcs[0]).type, to = buffer(block.dst).type;
  if (from == Type::kF32 && to == Type::kBF16) return requantise(block);
  if (from != to) return no_instruction(concat("a copy of ", type_name(from), " as ",
                                               type_name(to), " between memories"));
  ASSIGN_OR_RETURN(const Dtype dtype, vector_type(block.dst));
  RETURN_IF_ERROR(vector_type(block.srcs[0]).status());
  return rows(block, dims_of(block), [&](const Rows& rows) -> absl::Status {
    if (rows.along[1] == 1) return emit_unary(block, rows, dtype, UnaryFn::kCopy);
    RETURN_IF_ERROR(emit_zeros(block, rows, dtype));
    return emit_binary(block, rows, dtype, BinaryFn::kAdd, 0, 1, 0);
  });
}

}  // namespace lw::npu_build
