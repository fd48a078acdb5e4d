#include <algorithm>
#include <limits>

#include "schedules/targets/npu/machine.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/npu/operations.h"
#include "src/expr/scalar.h"

namespace lw {

NpuLayout npu_layout(const Kernel& kernel) {
  constexpr int64_t kPage = 4096;
  const auto pages = [](int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
  NpuLayout layout;
  layout.arguments.resize(static_cast<size_t>(kernel.arguments));
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.scope != Scope::kArgument) continue;
    layout.arguments[static_cast<size_t>(buffer.slot)] = layout.bytes;
    layout.bytes += pages(buffer.elements * size_of(buffer.type));
  }
  layout.workspace = layout.bytes;
  layout.bytes += pages(kernel.workspace_bytes);
  return layout;
}

namespace npu_build {
namespace {

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

// An extent of a box and how far apart its positions lie: in dst, in the sources.
struct Dim {
  int64_t extent, dst, src0, src1;
};

class Unroller {
 public:
  Unroller(const Kernel& kernel, const npu::Config& config, int64_t most)
      : kernel_(kernel), config_(config), most_(static_cast<size_t>(most)),
        layout_(npu_layout(kernel)), variables_(static_cast<size_t>(kernel.variables)),
        versions_(kernel.buffers.size()) {
    // Of DRAM only what is both written and read can be touched too early.
    shared_.resize(kernel.buffers.size());
    std::vector<bool> read(shared_.size()), written(shared_.size());
    find_touched(kernel.body, read, written);
    for (size_t b = 0; b < shared_.size(); ++b) shared_[b] = read[b] && written[b];
  }

  absl::StatusOr<std::vector<Operation>> run() {
    RETURN_IF_ERROR(list(kernel_.body));
    return std::move(operations_);
  }

 private:
  static void find_touched(const std::vector<Stmt>& list, std::vector<bool>& read,
                           std::vector<bool>& written) {
    for (const Stmt& s : list) {
      find_touched(s.body, read, written);
      find_touched(s.otherwise, read, written);
      if (s.kind != Stmt::Kind::kBlock) continue;
      written[static_cast<size_t>(s.block->dst.buffer)] = true;
      for (const View& view : s.block->srcs) {
        if (view.buffer >= 0) read[static_cast<size_t>(view.buffer)] = true;
      }
    }
  }

  absl::Status list(const std::vector<Stmt>& list) {
    for (const Stmt& s : list) RETURN_IF_ERROR(statement(s));
    return absl::OkStatus();
  }

  absl::Status statement(const Stmt& s) {
    switch (s.kind) {
      case Stmt::Kind::kFor:
        for (int64_t i = 0; i < s.count; ++i) {
          variables_[static_cast<size_t>(s.var)] = i;
          RETURN_IF_ERROR(list(s.body));
        }
        return absl::OkStatus();
      case Stmt::Kind::kIf: {
        const bool holds = std::all_of(s.conditions.begin(), s.conditions.end(),
                                       [&](const Affine& a) { return value(a) >= 0; });
        return list(holds ? s.body : s.otherwise);
      }
      case Stmt::Kind::kInt: return integer(s);
      case Stmt::Kind::kBlock: return block(*s.block);
      case Stmt::Kind::kOp: break;
    }
    return absl::InvalidArgumentError("the NPU has no registers: its kernels are made of blocks");
  }

  absl::Status integer(const Stmt& s) {
    int64_t& variable = variables_[static_cast<size_t>(s.var)];
    switch (s.int_op) {
      case Stmt::IntOp::kAffine: variable = value(s.a); break;
      case Stmt::IntOp::kDiv: variable = floor_div(value(s.a), s.divisor); break;
      case Stmt::IntOp::kMod: variable = floor_mod(value(s.a), s.divisor); break;
      case Stmt::IntOp::kMin: variable = std::min(value(s.a), value(s.b)); break;
      case Stmt::IntOp::kMax: variable = std::max(value(s.a), value(s.b)); break;
      case Stmt::IntOp::kRegister:
        return absl::InvalidArgumentError("the NPU computes no addresses from data");
    }
    return absl::OkStatus();
  }

  int64_t value(const Affine& a) const {
    int64_t sum = a.constant;
    for (const Affine::Term& term : a.terms) {
      sum += term.coefficient * variables_[static_cast<size_t>(term.var)];
    }
    return sum;
  }

  // ---------------------------------------------------------------------------- memories

  const Buffer& buffer(const View& view) const {
    return kernel_.buffers[static_cast<size_t>(view.buffer)];
  }
  bool in_dram(const View& view) const { return buffer(view).scope != Scope::kManaged; }
  bool in_acc(const View& view) const { return !in_dram(view) && buffer(view).memory == kNpuAcc; }
  // Bytes of an element in the units of its memory's addresses: words of ACC.
  int64_t unit(const View& view) const {
    return in_acc(view) ? 1 : size_of(buffer(view).type);
  }
  int64_t address(const View& view) const {
    const Buffer& b = buffer(view);
    const int64_t at = value(view.index) * unit(view);
    if (b.scope == Scope::kArgument) return layout_.arguments[static_cast<size_t>(b.slot)] + at;
    if (b.scope == Scope::kWorkspace) return layout_.workspace + b.offset + at;
    return (in_acc(view) ? b.offset / 4 : b.offset) + at;
  }

  // The bytes (words) from the view's first position to its last, of the extents that are not 1.
  void touch(Operation& operation, const View& view, int64_t begin, int64_t length, bool write) {
    if (write) ++versions_[static_cast<size_t>(view.buffer)];
    if (in_dram(view) && !shared_[static_cast<size_t>(view.buffer)]) return;
    const int place = in_dram(view) ? kDram : buffer(view).memory;
    operation.touches.push_back({place, write, begin, begin + length});
  }

  // All positions of the box, in `view`, whose strides are `of` the dimensions.
  void touch_all(Operation& operation, const View& view, const std::vector<Dim>& dims,
                 int64_t Dim::*of, bool write) {
    int64_t length = unit(view);
    for (const Dim& dim : dims) length += (dim.extent - 1) * dim.*of * unit(view);
    touch(operation, view, address(view), length, write);
  }

  absl::Status emit(Operation operation) {
    if (operations_.size() >= most_) {
      return absl::InvalidArgumentError(
          concat("the program has more than ", most_, " instructions of the NPU"));
    }
    operations_.push_back(std::move(operation));
    return absl::OkStatus();
  }

  // ---------------------------------------------------------------------------- blocks

  std::vector<Dim> dims_of(const Block& block) const {
    std::vector<Dim> dims;
    for (size_t d = 0; d < block.extents.size(); ++d) {
      if (block.extents[d] == 1) continue;
      const auto stride = [&](const View& view) { return view.buffer < 0 ? 0 : view.strides[d]; };
      dims.push_back({block.extents[d], stride(block.dst), stride(block.srcs[0]),
                      stride(block.srcs[1])});
    }
    return dims;
  }

  absl::Status block(const Block& block) {
    switch (block.op) {
      case BlockOp::kCopy: return copy(block);
      case BlockOp::kFill: return fill(block);
      case BlockOp::kProduct: return product(block);
    }
    return no_instruction("an operation of a later version");
  }

  // LD and ST: runs of contiguous bytes along two loops; further dimensions are instructions of their
  // own.
  absl::Status copy(const Block& block) {
    const bool loads = in_dram(block.srcs[0]);
    const View &dram = loads ? block.srcs[0] : block.dst, &local = loads ? block.dst : block.srcs[0];
    if (!in_dram(dram) || in_dram(local)) {
      return no_instruction("a copy is from DRAM into another memory, or back");
    }
    const Type from = buffer(block.srcs[0]).type, to = buffer(block.dst).type;
    ASSIGN_OR_RETURN(const Dtype dtype, dtype_of(from));
    const bool widens = from != to;
    const bool can_widen = loads && in_acc(local) && ((from == Type::kI8 && to == Type::kI32) ||
                                                      (from == Type::kBF16 && to == Type::kF32));
    if (widens && !can_widen) {
      return no_instruction(concat("a copy of ", type_name(from), " as ", type_name(to)));
    }
    std::vector<Dim> dims = dims_of(block);
    if (!loads) {
      for (Dim& dim : dims) std::swap(dim.dst, dim.src0);  // dst: the local one, here and below
    }
    merge(dims);
    int64_t run = 1;
    if (!dims.empty() && dims.back().dst == 1 && dims.back().src0 == 1) {
      run = dims.back().extent;
      dims.pop_back();
    }
    npu::Copy copy;
    copy.space = in_acc(local) ? Space::kAcc : Space::kSpm;
    copy.convert = widens ? npu::Convert::kWiden : npu::Convert::kNone;
    Strip strip = {dram, local, dtype, loads, run};
    return strips(strip, dims, copy, address(dram), address(local));
  }

  struct Strip {
    const View &dram, &local;
    Dtype dtype;
    bool loads;
    int64_t run;                           // elements
  };

  static constexpr int64_t kMostRun = 65535, kMostRows = 4095;
  static constexpr int64_t kMostPart = 32768;  // bytes of a longer run: aligned everywhere

  // Of `dims` the last two are the instruction's; what does not fit into one is cut.
  absl::Status strips(const Strip& strip, const std::vector<Dim>& dims, const npu::Copy& copy,
                      int64_t dram, int64_t local) {
    const int64_t size = size_of(buffer(strip.dram).type), unit = this->unit(strip.local);
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

  absl::Status transfer(const Strip& strip, const std::vector<Dim>& dims, npu::Copy copy,
                        int64_t dram, int64_t local) {
    const int64_t size = size_of(buffer(strip.dram).type), unit = this->unit(strip.local);
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
      dram_end += (dim.extent - 1) * dram_stride;
      local_end += (dim.extent - 1) * local_stride;
    }
    Operation operation;
    if (strip.loads) operation.instruction.body = npu::Ld{copy};
    else operation.instruction.body = npu::St{copy};
    operation.instruction.dtype = strip.dtype;
    operation.fills = strip.loads && copy.space == Space::kSpm;
    touch(operation, strip.dram, dram, dram_end, !strip.loads);
    touch(operation, strip.local, local, local_end, strip.loads);
    return emit(std::move(operation));
  }

  // Neighbours of which one's positions follow the other's on both sides become one dimension.
  static void merge(std::vector<Dim>& dims) {
    for (size_t d = dims.size(); d-- > 1;) {
      Dim &outer = dims[d - 1], &inner = dims[d];
      if (outer.dst != inner.extent * inner.dst || outer.src0 != inner.extent * inner.src0) continue;
      outer = {outer.extent * inner.extent, inner.dst, inner.src0, 0};
      dims.erase(dims.begin() + static_cast<int64_t>(d));
    }
  }

  // Zeros, which x > x is of every x.
  absl::Status fill(const Block& block) {
    if (block.integer != 0 || in_dram(block.dst)) {
      return no_instruction("only zeros are filled in, and not into DRAM");
    }
    ASSIGN_OR_RETURN(const Dtype dtype, dtype_of(buffer(block.dst).type));
    std::vector<Dim> dims = dims_of(block);
    for (Dim& dim : dims) dim.src0 = dim.dst;
    merge(dims);
    if (dims.empty() || dims.back().dst != 1 || dims.size() > 2) {
      return no_instruction("zeros are filled into rows");
    }
    const int64_t lanes = config_.ve.lanes;
    int64_t row = dims.back().extent, rows = dims.size() == 2 ? dims[0].extent : 1;
    int64_t stride = dims.size() == 2 ? dims[0].dst : 0;
    if (row % lanes != 0) {
      return no_instruction(concat("rows of ", row, " elements, no multiple of ve.lanes (", lanes,
                                   ")"));
    }
    if (rows == 1) rows = row / lanes, row = stride = lanes;
    if (row > kMostRows) return no_instruction(concat("rows of ", row, " elements"));
    const int64_t unit = this->unit(block.dst), begin = address(block.dst);
    for (int64_t i = 0; i < rows; i += kMostRows) {
      npu::VeBin zeros;
      zeros.fn = npu::BinaryFn::kCmp;
      zeros.src0 = zeros.src1 = zeros.dst = static_cast<uint32_t>(begin + i * stride * unit);
      zeros.sstr0 = zeros.sstr1 = zeros.dstr = static_cast<uint32_t>(stride * unit);
      zeros.n0 = static_cast<uint16_t>(row);
      zeros.n1 = static_cast<uint16_t>(std::min(kMostRows, rows - i));
      Operation operation;
      operation.instruction.body = zeros;
      operation.instruction.dtype = dtype;
      operation.fills = !in_acc(block.dst);
      touch(operation, block.dst, zeros.dst, ((zeros.n1 - 1) * stride + row) * unit, true);
      RETURN_IF_ERROR(emit(std::move(operation)));
    }
    return absl::OkStatus();
  }

  // ---------------------------------------------------------------------------- products

  // The roles of the dimensions: of rows at most two, of columns and of the sum at most one.
  struct Roles {
    Dim m = {1, 0, 0, 0}, m2 = {1, 0, 0, 0}, n = {1, 0, 0, 0}, k = {1, 0, 0, 0};
  };

  absl::StatusOr<Roles> roles_of(const Block& block) const {
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

  absl::Status product(const Block& block) {
    const View &a = block.srcs[0], &b = block.srcs[1];
    if (!in_acc(block.dst) || in_dram(a) || in_dram(b) || in_acc(a) || in_acc(b)) {
      return no_instruction("a product of what is not in SPM, or into another memory than ACC");
    }
    ASSIGN_OR_RETURN(const Dtype dtype, dtype_of(buffer(a).type));
    if (buffer(b).type != buffer(a).type) return no_instruction("a product of two types");
    ASSIGN_OR_RETURN(const Roles roles, roles_of(block));
    if ((roles.k.extent > 1 && roles.k.src0 != 1) || (roles.n.extent > 1 && roles.n.dst != 1)) {
      return no_instruction("a product whose rows are not contiguous along the sum, or whose results "
                            "are not along the columns");
    }
    RETURN_IF_ERROR(check_fields(block, roles));
    return block.variant == kNpuOutputStationary ? streamed(block, roles, dtype)
                                                 : stationary(block, roles, dtype);
  }

  // What a field would not hold; the rest is for check_program.
  absl::Status check_fields(const Block& block, const Roles& roles) const {
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
        return no_instruction(concat("a product of ", field.value, " ", field.what, ", at most ",
                                     field.most));
      }
    }
    return absl::OkStatus();
  }

  void touch_product(Operation& operation, const Block& block) {
    const std::vector<Dim> dims = dims_of(block);
    touch_all(operation, block.dst, dims, &Dim::dst, true);
    touch_all(operation, block.srcs[0], dims, &Dim::src0, false);
  }

  // MX.LDW and MX.MM. The array keeps the weights of the last product as long as nobody has written
  // where they come from.
  absl::Status stationary(const Block& block, const Roles& roles, Dtype dtype) {
    const View &a = block.srcs[0], &b = block.srcs[1];
    const int64_t size = size_of(buffer(a).type);
    const bool across = roles.n.src1 != 1 && roles.n.extent > 1;
    if (across && roles.k.src1 != 1 && roles.k.extent > 1) {
      return no_instruction("weights that are contiguous neither along the columns nor along the sum");
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
    // Weights may still be on their way when those of the product before are done; not when its own is.
    if (loads) touch_all(operation, b, dims_of(block), &Dim::src1, false);
    return emit(std::move(operation));
  }

  // MX.MMOS.
  absl::Status streamed(const Block& block, const Roles& roles, Dtype dtype) {
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

  struct Loaded {
    npu::MxLdw weights;
    Dtype dtype = Dtype::kI8;
    int buffer = -1;
    int64_t version = 0;                   // of the buffer
    bool operator==(const Loaded& other) const {
      const npu::MxLdw &a = weights, &b = other.weights;
      return a.w == b.w && a.wstr == b.wstr && a.k == b.k && a.n == b.n && a.trans == b.trans &&
             dtype == other.dtype && buffer == other.buffer && version == other.version;
    }
  };

  const Kernel& kernel_;
  const npu::Config& config_;
  const size_t most_;
  const NpuLayout layout_;
  std::vector<int64_t> variables_;
  std::vector<int64_t> versions_;          // of buffers: writes so far
  std::vector<bool> shared_;               // buffers that are both written and read
  Loaded loaded_;
  std::vector<Operation> operations_;
};

}  // namespace

absl::StatusOr<std::vector<Operation>> unroll(const Kernel& kernel, const npu::Config& config,
                                              int64_t most) {
  return Unroller(kernel, config, most).run();
}

}  // namespace npu_build
}  // namespace lw
