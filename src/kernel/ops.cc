#include "src/kernel/ops.h"

#include <algorithm>

#include "src/expr/scalar.h"
#include "src/kernel/blocks.h"

namespace lw {
namespace {

using enum Field;
using O = const Operands&;

const char* unless(bool holds, const char* what) { return holds ? nullptr : what; }

const char* first(std::initializer_list<const char*> defects) {
  for (const char* defect : defects) {
    if (defect != nullptr) return defect;
  }
  return nullptr;
}

const char* same_lanes(const Register& a, const Register& b) {
  return unless(a.lanes == b.lanes, "lanes differ");
}
const char* same_type(const Register& a, const Register& b) {
  return unless(a.type == b.type, "types differ");
}
const char* alike(const Register& a, const Register& b) {
  return first({same_lanes(a, b), same_type(a, b)});
}

// Arithmetic happens in f32: the 16-bit floats only move.
const char* computes(Type type) {
  return unless(!is_narrow(type), "16-bit floats only move and convert");
}
const char* computes(ExprOp op, Type type) {
  return first({computes(type), unless(accepts(domain_of(op), type), "not for this type")});
}

const char* binary(O o) {
  const bool gives_bool = is_comparison(o.s.expr_op);
  return first({unless(is_binary(o.s.expr_op), "no binary operation"), alike(o.src(0), o.src(1)),
                computes(o.s.expr_op, o.src(0).type), same_lanes(o.dst(), o.src(0)),
                gives_bool ? unless(o.dst().type == Type::kBool, "a comparison gives bool")
                           : same_type(o.dst(), o.src(0))});
}

const char* transpose(O o) {
  const std::vector<int>& many = o.s.many;
  const size_t half = many.size() / 2;
  if (half < 1 || many.size() != 2 * half || (half & (half - 1)) != 0) {
    return "needs a power of two of sources and as many destinations";
  }
  const Register row = {o.reg(many[0]).type, static_cast<int>(half)};
  const auto fits = [&](int r) { return alike(o.reg(r), row) == nullptr; };
  const auto once = [&](int r) { return std::count(many.begin() + half, many.end(), r) == 1; };
  return unless(std::all_of(many.begin(), many.end(), fits) &&
                    std::all_of(many.begin() + half, many.end(), once),
                "must be a square of one type; destinations must differ");
}

const char* interleave(O o) {
  const int count = static_cast<int>(o.s.many.size());
  const auto fits = [&](int r) {
    return o.reg(r).type == o.dst().type && o.reg(r).lanes * count == o.dst().lanes;
  };
  return unless(count >= 2 && std::all_of(o.s.many.begin(), o.s.many.end(), fits),
                "the sources make no such vector");
}

// What the registers make: acc, a, b.
bool is_shape(const Kernel& kernel, const std::vector<int>& many, const MatrixShape& shape) {
  if (static_cast<int>(many.size()) != shape.registers()) return false;
  for (int i = 0; i < shape.registers(); ++i) {
    const int of_a = i - shape.acc_registers(), of_b = of_a - shape.a_registers();
    const Register& r = kernel.registers[many[i]];
    const Register wanted = of_a < 0   ? Register{shape.acc, 2}
                            : of_b < 0 ? Register{shape.a, shape.pack}
                                       : Register{shape.b, shape.pack};
    if (r.type != wanted.type || r.lanes != wanted.lanes) return false;
  }
  // What is written is written once.
  for (int i = 0; i < shape.acc_registers(); ++i) {
    if (std::count(many.begin(), many.end(), many[i]) != 1) return false;
  }
  return true;
}

// The shape of which acc has several side by side.
const MatrixShape* wide_shape(const Kernel& kernel, const Stmt& s) {
  const std::span<const int> sums = written_of_many(s), a = factor_registers(s);
  const std::span<const View> factors = factors_of(s);
  if (sums.empty()) return nullptr;
  const Register& acc = kernel.registers[sums[0]];
  const Type of_a =
      a.empty() ? kernel.buffers[factors[0].buffer].type : kernel.registers[a[0]].type;
  const MatrixShape* shape =
      find_matrix_shape(of_a, kernel.buffers[factors.back().buffer].type, acc.type);
  if (shape == nullptr || shape->m != kWideRows / kWideSubGroups || acc.lanes != 2 ||
      sums.size() % static_cast<size_t>(shape->acc_registers()) != 0) {
    return nullptr;
  }
  const auto like = [&](std::span<const int> registers, const Register& wanted) {
    return std::all_of(registers.begin(), registers.end(), [&](int r) {
      return alike(kernel.registers[r], wanted) == nullptr;
    });
  };
  const bool differ = std::all_of(sums.begin(), sums.end(), [&](int r) {
    return std::count(s.many.begin(), s.many.end(), r) == 1;
  });
  return differ && like(sums, acc) && like(a, {of_a, shape->pack}) ? shape : nullptr;
}

const char* matrix_parts(O o) {
  const std::vector<int>& many = o.s.many;
  const int size = size_of(o.src(0).type);
  const Register part = {o.src(0).type, static_cast<int>(kMatrixPartBytes) / size};
  const bool fits = std::all_of(many.begin(), many.end(), [&](int r) {
    return alike(o.reg(r), part) == nullptr && std::count(many.begin(), many.end(), r) == 1;
  });
  const bool row = o.src(0).type != Type::kBool && size <= 2 &&
                   o.src(0).lanes * size == kMatrixRowBytes;
  return first({unless(row, "the row has other than 16 bytes, of elements of one or two"),
                unless(many.size() == kMatrixItems / kMatrixRows && fits,
                       "needs four registers of 4 bytes, which differ"),
                unless(o.s.integer == 0 || (o.s.integer == 1 && size == 2),
                       "is transposed (1) of elements of two bytes, or not (0)")});
}

// Of the box (rows, panels of columns, columns of one, k): so much is asked of factors' layouts; what
// else a machine wants of them is its printer's to refuse.
const char* wide_product(O o) {
  if (o.s.block == nullptr || o.s.block->op != BlockOp::kProduct) return "has no factors";
  const Block& block = *o.s.block;
  const MatrixShape* shape = matrix_shape(o.kernel, o.s);
  if (shape == nullptr) return "no product of matrices like these";
  const auto& box = block.extents;
  const int64_t columns =
      static_cast<int64_t>(written_of_many(o.s).size()) / shape->acc_registers() * shape->n;
  const bool fits = box.size() == 4 && box[0] == shape->m && box[3] == shape->k && box[1] >= 1 &&
                    box[1] <= columns && box[2] == columns / box[1] && columns % box[1] == 0;
  if (!fits) return "registers and box differ";
  for (const View& view : factors_of(o.s)) {
    const Buffer& b = o.kernel.buffers[view.buffer];
    if (view.strides.size() != box.size()) return "a factor has a stride for each extent";
    if (b.scope != Scope::kManaged || !b.swizzled) {
      return "factors lie in swizzled memory of a group";
    }
    const auto inside = [&](int64_t stride) { return stride >= 0 && stride <= b.elements; };
    if (!std::all_of(view.strides.begin(), view.strides.end(), inside)) {
      return "a factor's strides reach out of its buffer";
    }
  }
  return nullptr;
}

// What a machine's engine asks of sizes, strides and alignment is its printer's to refuse.
const char* box_copy(O o) {
  if (o.s.block == nullptr || o.s.block->op != BlockOp::kCopy) return "copies no box";
  const Block& box = *o.s.block;           // sound, as blocks are
  const Buffer &to = o.kernel.buffers[box.dst.buffer], &from = o.kernel.buffers[box.srcs[0].buffer];
  const bool tensor = box.clips.size() == box.extents.size() && box.pads && box.integer == 0 &&
                      unclipped_source(box).index.is_constant();
  return first({unless(to.scope == Scope::kManaged && to.type == from.type,
                       "a box goes to a group's memory, as it is"),
                unless(is_constant(from), "others write the box's tensor"),
                unless(tensor, "a box is of a tensor that begins where it does for all, each of its "
                               "extents clipped, and 0 elsewhere")});
}

const char* dot(O o) {
  const Register &dst = o.dst(), &a = o.src(0), &b = o.src(1);
  const auto fits = [&](Type type) {
    return type != Type::kBool && is_float(type) == is_float(dst.type);
  };
  return first({computes(dst.type),
                unless(a.lanes == b.lanes && a.lanes % dst.lanes == 0 && fits(dst.type) &&
                           alike(dst, o.src(2)) == nullptr && fits(a.type) && fits(b.type),
                       "no groups of such types and lanes")});
}

// What loads and stores of a register have in common.
const char* access(O o, const Register& value) {
  if (value.type != o.kernel.buffers[o.s.buffer].type) return "register and buffer differ in type";
  if (o.s.mask < 0) return nullptr;
  return first({same_lanes(o.reg(o.s.mask), value),
                unless(o.reg(o.s.mask).type == Type::kBool, "the mask must be bool")});
}

const char* load(O o) {
  const char* defect = access(o, o.dst());
  if (defect != nullptr || o.s.indices < 0) return defect;
  return first({same_lanes(o.reg(o.s.indices), o.dst()),
                unless(o.reg(o.s.indices).type == Type::kI64, "indices must be i64"),
                unless(o.s.stride == 0, "a gather has stride 0")});
}

bool goes_whole(O o) {
  return o.s.mask < 0 && (o.s.stride == 1 || o.src(0).lanes == 1) &&
         o.kernel.buffers[o.s.buffer].scope == Scope::kManaged;
}

const char* store(O o) {
  const bool apart = o.s.stride != 0 || o.src(0).lanes == 1;
  return first({access(o, o.src(0)), unless(o.s.indices < 0, "there are no scattered stores"),
                unless(apart, "lanes write the same element"),
                unless(!o.s.on_its_way || goes_whole(o),
                       "only whole vectors go on their way, to a group's memory")});
}

}  // namespace

std::span<const View> factors_of(const Stmt& s) {
  if (!is_op(s, Op::kWideProduct) || s.block == nullptr) return {};
  const bool in_registers = s.block->srcs[0].buffer < 0;
  return {s.block->srcs + in_registers, 2 - size_t{in_registers}};
}

std::span<const int> factor_registers(const Stmt& s) {
  const std::span<const int> many = s.many;
  return factors_of(s).size() == 1 ? many.last(std::min(many.size(), kWideRegisters))
                                   : many.first(0);
}

const MatrixShape* matrix_shape(const Kernel& kernel, const Stmt& s) {
  if (!factors_of(s).empty()) return wide_shape(kernel, s);
  for (const MatrixShape& shape : kMatrixShapes) {
    if (is_shape(kernel, s.many, shape)) return &shape;
  }
  return nullptr;
}

std::span<const int> written_of_many(const Stmt& s) {
  const std::span<const int> many = s.many;
  switch (s.op) {
    case Op::kTranspose: return many.subspan(many.size() / 2);
    case Op::kMatrixProduct: case Op::kMatrixParts: return many;
    case Op::kWideProduct: return many.first(many.size() - factor_registers(s).size());
    default: return {};
  }
}

constexpr OpRow kOpRows[kOps] = {
    {Op::kImmediate, "const", true, 0, {kConstant}, nullptr},
    {Op::kMove, "move", true, 1, {kSources}, [](O o) { return alike(o.dst(), o.src(0)); }},
    {Op::kBroadcast, "broadcast", true, 1, {kSources}, [](O o) {
      return first({unless(o.dst().lanes % o.src(0).lanes == 0, "broadcasts no part of the lanes"),
                    same_type(o.dst(), o.src(0))});
    }},
    {Op::kUnary, "", true, 1, {kSources}, [](O o) {
      return first({unless(is_unary(o.s.expr_op), "no unary operation"),
                    alike(o.dst(), o.src(0)), computes(o.s.expr_op, o.dst().type)});
    }},
    {Op::kBinary, "", true, 2, {kSources}, binary},
    {Op::kFma, "fma", true, 3, {kSources}, [](O o) {
      return first({alike(o.dst(), o.src(0)), alike(o.dst(), o.src(1)), alike(o.dst(), o.src(2)),
                    computes(o.dst().type),
                    unless(o.dst().type != Type::kBool, "not for booleans")});
    }},
    {Op::kSelect, "select", true, 3, {kSources}, [](O o) {
      return first({same_lanes(o.dst(), o.src(0)),
                    unless(o.src(0).type == Type::kBool, "the condition must be bool"),
                    alike(o.dst(), o.src(1)), alike(o.dst(), o.src(2))});
    }},
    {Op::kCast, "cast", true, 1, {kSources}, [](O o) { return same_lanes(o.dst(), o.src(0)); }},
    {Op::kIota, "iota", true, 0, {kIndex, kStride}, [](O o) {
      return unless(!is_float(o.dst().type) && o.dst().type != Type::kBool,
                    "needs an integer register");
    }},
    {Op::kLaneMask, "lanemask", true, 0, {kIndex, kStride}, [](O o) {
      return unless(o.dst().type == Type::kBool, "needs a bool register");
    }},
    {Op::kHorizontal, "reduce", true, 1, {kReduce, kSources}, [](O o) {
      return first({unless(o.s.reduce != Reduce::kNone, "needs a reduction"),
                    unless(o.dst().lanes == 1, "types differ"), same_type(o.dst(), o.src(0)),
                    computes(o.dst().type)});
    }},
    {Op::kTranspose, "transpose", false, 0, {kBlock}, transpose},
    {Op::kInterleave, "interleave", true, 0, {kMany}, interleave},
    {Op::kDot, "dot", true, 3, {kSources}, dot},
    {Op::kLoad, "load", true, 0, {kPlace, kStride, kMask, kIndices}, load},
    {Op::kStore, "store", false, 0, {kPlace, kStored, kStride, kMask, kNonTemporal, kOnItsWay},
     store},
    {Op::kPrefetch, "prefetch", false, 0, {kPlace, kLocality}, [](O o) {
      return unless(o.s.integer >= 1 && o.s.integer <= 3, "the locality must be 1, 2 or 3");
    }},
    {Op::kFence, "fence", false, 0, {kSources}, nullptr},
    {Op::kSlide, "slide", true, 2, {kSlid}, [](O o) {
      return unless(o.s.integer > 0 && o.s.integer < o.dst().lanes &&
                        !alike(o.dst(), o.src(0)) && !alike(o.dst(), o.src(1)),
                    "no lanes in between");
    }},
    {Op::kBarrier, "barrier", false, 0, {}, nullptr},
    {Op::kAcross, "across", true, 1, {kReduce, kSlid}, [](O o) {
      const Reduce reduce = o.s.reduce;
      const bool exchanged = size_of(o.dst().type) >= 4;
      return first({unless(o.s.integer >= 1, "a sub-group needs items"), alike(o.dst(), o.src(0)),
                    unless(reduce != Reduce::kNone && reduce != Reduce::kProd && exchanged,
                           "items exchange sums, maxima and minima of 32 and 64 bits")});
    }},
    {Op::kMatrixProduct, "matmul", false, 0, {kMany}, [](O o) {
      return unless(matrix_shape(o.kernel, o.s) != nullptr, "no product of matrices like these");
    }},
    {Op::kMatrixParts, "matparts", false, 1, {kSlid, kGiven}, matrix_parts},
    {Op::kWideProduct, "widemul", false, 0, {kMany, kFactors}, wide_product},
    {Op::kMultiplied, "multiplied", false, 0, {kSlid}, [](O o) {
      return unless(o.s.integer >= 0 && o.s.integer <= kMostOnTheirWay, "sets that cannot be");
    }},
    {Op::kCommit, "commit", false, 0, {}, nullptr},
    {Op::kLanded, "landed", false, 0, {kSlid}, [](O o) {
      return unless(o.s.integer >= 0 && o.s.integer <= kMostOnTheirWay, "sets that cannot be");
    }},
    {Op::kBoxCopy, "boxcopy", false, 0, {kBox}, box_copy},
};
static_assert(in_order(kOpRows));

}  // namespace lw
