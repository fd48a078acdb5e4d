// Arithmetic on values: integer semantics without traps, rounding, minima that select to one
// instruction, horizontal reductions and transposes. (Casts: llvm_cast.cc; exp and the like:
// llvm_math.cc.)
#include <algorithm>
#include <numeric>

#include "llvm/IR/InlineAsm.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/check.h"
#include "src/build/llvm_emit.h"
#include "src/expr/scalar.h"

namespace lw {

int lanes_of(const llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector == nullptr ? 1 : static_cast<int>(vector->getNumElements());
}

Ops::Ops(llvm::IRBuilder<>* builder, const Target& target) : b_(*builder), target_(target) {}

bool Ops::has(std::string_view feature) const {
  return std::find(target_.features.begin(), target_.features.end(), feature) !=
         target_.features.end();
}

llvm::Type* Ops::type(Type type, int lanes) const {
  llvm::Type* element = nullptr;
  switch (type) {
    case Type::kF64: element = b_.getDoubleTy(); break;
    case Type::kF32: element = b_.getFloatTy(); break;
    default: element = b_.getIntNTy(static_cast<unsigned>(row_of(type).bits));
  }
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
}

llvm::Type* Ops::memory_type(Type of, int lanes) const {
  return type(of == Type::kBool ? Type::kU8 : of, lanes);
}

// ------------------------------------------------------------------------------ unary

llvm::Value* Ops::unary(ExprOp op, Type type, llvm::Value* a) {
  if (is_float(type)) return float_unary(op, a);
  switch (op) {
    case ExprOp::kNeg: return b_.CreateNeg(a);
    case ExprOp::kNot: return b_.CreateNot(a);
    case ExprOp::kAbs:
      return is_signed(type) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, b_.getFalse())
                             : a;
    case ExprOp::kFloor: case ExprOp::kCeil: case ExprOp::kRound: return a;
    default: CHECK(false && "no such integer operation");
  }
  return nullptr;
}

llvm::Value* Ops::float_unary(ExprOp op, llvm::Value* a) {
  switch (op) {
    case ExprOp::kNeg: return b_.CreateFNeg(a);
    case ExprOp::kAbs: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
    case ExprOp::kFloor: case ExprOp::kCeil: case ExprOp::kRound: return round(op, a);
    default: return emit_math(op, this, a);
  }
}

// SSE2 has no rounding instruction: adding and subtracting 2^23 (2^52) rounds to even in the
// current mode, which is that of the caller (round to nearest by the platform's convention).
llvm::Value* Ops::round(ExprOp op, llvm::Value* a) {
  if (has_rounding()) {
    const llvm::Intrinsic::ID id = op == ExprOp::kFloor  ? llvm::Intrinsic::floor
                                   : op == ExprOp::kCeil ? llvm::Intrinsic::ceil
                                                         : llvm::Intrinsic::roundeven;
    return b_.CreateUnaryIntrinsic(id, a);
  }
  llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  llvm::Type* type = a->getType();
  llvm::Value* big =
      llvm::ConstantFP::get(type, type->getScalarType()->isFloatTy() ? 0x1p23 : 0x1p52);
  llvm::Value* one = llvm::ConstantFP::get(type, 1.0);
  llvm::Value* zero = llvm::ConstantFP::get(type, 0.0);
  llvm::Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
  llvm::Value* even = b_.CreateFSub(b_.CreateFAdd(size, big), big);
  even = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, even, a);
  if (op == ExprOp::kFloor) {
    even = b_.CreateFSub(even, b_.CreateSelect(b_.CreateFCmpOGT(even, a), one, zero));
  } else if (op == ExprOp::kCeil) {
    even = b_.CreateFAdd(even, b_.CreateSelect(b_.CreateFCmpOLT(even, a), one, zero));
    even = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, even, a);  // ceil(-0.5) is -0
  }
  return b_.CreateSelect(b_.CreateFCmpOLT(size, big), even, a);
}

// ------------------------------------------------------------------------------ binary

llvm::Value* Ops::binary(ExprOp op, Type type, llvm::Value* a, llvm::Value* b) {
  const bool floating = is_float(type);
  switch (op) {
    case ExprOp::kAdd: return floating ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case ExprOp::kSub: return floating ? b_.CreateFSub(a, b) : b_.CreateSub(a, b);
    case ExprOp::kMul: return floating ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    case ExprOp::kDiv: case ExprOp::kMod: return divide(op, type, a, b);
    // A comparison and a selection in this order is exactly what minps and maxps do.
    case ExprOp::kMin:
      if (floating) return b_.CreateSelect(b_.CreateFCmpOLT(a, b), a, b);
      return b_.CreateBinaryIntrinsic(
          is_signed(type) ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, b);
    case ExprOp::kMax:
      if (floating) return b_.CreateSelect(b_.CreateFCmpOGT(a, b), a, b);
      return b_.CreateBinaryIntrinsic(
          is_signed(type) ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a, b);
    case ExprOp::kPow:
      CHECK(floating);
      return emit_math(ExprOp::kPow, this, a, b);
    case ExprOp::kAnd: return b_.CreateAnd(a, b);
    case ExprOp::kOr: return b_.CreateOr(a, b);
    default: return compare(op, type, a, b);
  }
}

llvm::Value* Ops::compare(ExprOp op, Type type, llvm::Value* a, llvm::Value* b) {
  using Predicate = llvm::CmpInst::Predicate;
  const bool low = !is_signed(type);
  Predicate predicate = Predicate::ICMP_EQ;
  if (is_float(type)) {
    switch (op) {
      case ExprOp::kEq: predicate = Predicate::FCMP_OEQ; break;
      case ExprOp::kNe: predicate = Predicate::FCMP_UNE; break;
      case ExprOp::kLt: predicate = Predicate::FCMP_OLT; break;
      case ExprOp::kLe: predicate = Predicate::FCMP_OLE; break;
      case ExprOp::kGt: predicate = Predicate::FCMP_OGT; break;
      case ExprOp::kGe: predicate = Predicate::FCMP_OGE; break;
      default: CHECK(false && "not a comparison");
    }
    return b_.CreateFCmp(predicate, a, b);
  }
  switch (op) {
    case ExprOp::kEq: predicate = Predicate::ICMP_EQ; break;
    case ExprOp::kNe: predicate = Predicate::ICMP_NE; break;
    case ExprOp::kLt: predicate = low ? Predicate::ICMP_ULT : Predicate::ICMP_SLT; break;
    case ExprOp::kLe: predicate = low ? Predicate::ICMP_ULE : Predicate::ICMP_SLE; break;
    case ExprOp::kGt: predicate = low ? Predicate::ICMP_UGT : Predicate::ICMP_SGT; break;
    case ExprOp::kGe: predicate = low ? Predicate::ICMP_UGE : Predicate::ICMP_SGE; break;
    default: CHECK(false && "not a comparison");
  }
  return b_.CreateICmp(predicate, a, b);
}

// Floor division and its remainder; by zero both are 0. The hardware traps on x / 0 and on
// lowest / -1, so both divide by 1 instead and are put right afterwards.
llvm::Value* Ops::divide(ExprOp op, Type type, llvm::Value* a, llvm::Value* b) {
  const bool quotient_wanted = op == ExprOp::kDiv;
  if (is_float(type)) {
    CHECK(quotient_wanted);
    return b_.CreateFDiv(a, b);
  }
  llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
  llvm::Value* one = llvm::ConstantInt::get(a->getType(), 1);
  llvm::Value* by_zero = b_.CreateICmpEQ(b, zero);
  if (!is_signed(type)) {
    llvm::Value* divisor = b_.CreateSelect(by_zero, one, b);
    llvm::Value* value = quotient_wanted ? b_.CreateUDiv(a, divisor) : b_.CreateURem(a, divisor);
    return b_.CreateSelect(by_zero, zero, value);
  }
  llvm::Value* minus_one = llvm::Constant::getAllOnesValue(a->getType());
  llvm::Value* negate = b_.CreateICmpEQ(b, minus_one);
  llvm::Value* divisor = b_.CreateSelect(b_.CreateOr(by_zero, negate), one, b);
  llvm::Value* quotient = b_.CreateSDiv(a, divisor);
  llvm::Value* rest = b_.CreateSub(a, b_.CreateMul(quotient, divisor));
  llvm::Value* up = b_.CreateAnd(b_.CreateICmpNE(rest, zero),
                                 b_.CreateICmpSLT(b_.CreateXor(rest, divisor), zero));
  llvm::Value* value = nullptr;
  if (quotient_wanted) {
    value = b_.CreateAdd(quotient, b_.CreateSelect(up, minus_one, zero));
    value = b_.CreateSelect(negate, b_.CreateNeg(a), value);
  } else {
    value = b_.CreateAdd(rest, b_.CreateSelect(up, divisor, zero));  // 0 where the divisor became 1
  }
  return b_.CreateSelect(by_zero, zero, value);
}

llvm::Value* Ops::fma(Type type, llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  if (!is_float(type)) return b_.CreateAdd(b_.CreateMul(a, b), c);
  // Where there is no such instruction llvm.fma would call the C library.
  if (!cpu(target_).fma) return b_.CreateFAdd(b_.CreateFMul(a, b), c);
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

// ------------------------------------------------------------------------------ lanes

llvm::Value* Ops::combine(Reduce reduce, Type type, llvm::Value* x, llvm::Value* y) {
  return binary(combining_op(reduce, type), type, x, y);
}

// Halves are combined until one lane is left (the interpreter adds in the same order); lanes that
// are not a power of two are combined one after the other.
//
// Two vectors become one that holds a half of each: what a vector of its own would spend
// log2(lanes) steps on, n vectors spend n - 1 steps on together. Input i ends in the i-th group of
// lanes, and the groups are folded, in ever narrower vectors, until one lane of each is left.
std::vector<llvm::Value*> Ops::horizontal(Reduce reduce, Type type,
                                          std::vector<llvm::Value*> vectors) {
  const int lanes = lanes_of(vectors[0]);
  const int inputs = static_cast<int>(vectors.size());
  if (lanes == 1) return vectors;
  if ((lanes & (lanes - 1)) != 0) {
    for (llvm::Value*& a : vectors) {
      llvm::Value* value = b_.CreateExtractElement(a, uint64_t{0});
      for (int i = 1; i < lanes; ++i)
        value = combine(reduce, type, value, b_.CreateExtractElement(a, i));
      a = value;
    }
    return vectors;
  }
  int group = lanes;
  for (; vectors.size() > 1; group /= 2) {
    const int half = group / 2;
    std::vector<int> low(lanes), high(lanes);
    for (int l = 0; l < lanes; ++l) {
      const int from = (l & half) == 0 ? l : lanes + (l ^ half);
      low[l] = from;
      high[l] = from + half;
    }
    const size_t pairs = vectors.size() / 2;
    for (size_t i = 0; i < pairs; ++i) {
      llvm::Value *a = vectors[i], *b = vectors[i + pairs];
      vectors[i] = combine(reduce, type, b_.CreateShuffleVector(a, b, low),
                           b_.CreateShuffleVector(a, b, high));
    }
    vectors.resize(pairs);
  }
  llvm::Value* all = vectors[0];
  for (; group > 1; group /= 2) {
    std::vector<int> low, high;
    for (int i = 0; i < inputs; ++i) {
      for (int l = 0; l < group / 2; ++l) {
        low.push_back(i * group + l);
        high.push_back(i * group + group / 2 + l);
      }
    }
    all =
        combine(reduce, type, b_.CreateShuffleVector(all, low), b_.CreateShuffleVector(all, high));
  }
  vectors.clear();
  for (int i = 0; i < inputs; ++i) vectors.push_back(b_.CreateExtractElement(all, i));
  return vectors;
}

// Of floats LLVM would make the shuffle by indices, which take a register and overwrite one, and
// cost more on most processors: the instruction that slides is asked for by name.
llvm::Value* Ops::slide(llvm::Value* a, llvm::Value* b, int by) {
  auto* type = llvm::cast<llvm::FixedVectorType>(a->getType());
  const unsigned bits = type->getScalarSizeInBits(), lanes = type->getNumElements();
  if (has("avx512f") && bits * lanes == 512 && (bits == 32 || bits == 64)) {
    llvm::FunctionType* pair = llvm::FunctionType::get(type, {type, type}, false);
    const std::string name = bits == 32 ? "valignd $$" : "valignq $$";
    return b_.CreateCall(
        pair, llvm::InlineAsm::get(pair, name + std::to_string(by) + ", $1, $2, $0", "=v,v,v", false),
        {a, b});
  }
  std::vector<int> from(lanes);
  std::iota(from.begin(), from.end(), by);
  return b_.CreateShuffleVector(a, b, from);
}

// Inside the 16-byte chunks that x86 shuffles cheaply, interleaving rows (i, i + half) log2 times
// transposes each chunk-sized block; then whole chunks are gathered, even and odd ones apart, log2
// times. Every step is one unpack or one chunk shuffle.
void Ops::transpose(std::vector<llvm::Value*>* rows) {
  const int n = static_cast<int>(rows->size());
  if (n == 1) return;
  const int size = std::max(1u, (*rows)[0]->getType()->getScalarSizeInBits() / 8);
  const int chunk = std::min(n, 16 / size);
  std::vector<llvm::Value*> next(n);
  std::vector<int> low(n), high(n);
  for (int i = 0; i < n; ++i) {
    const int base = i / chunk * chunk, lane = i % chunk;
    low[i] = base + lane / 2 + (lane % 2) * n;
    high[i] = low[i] + chunk / 2;
  }
  for (int rounds = chunk; rounds > 1; rounds /= 2) {
    for (int group = 0; group < n; group += chunk) {
      for (int i = 0; i < chunk / 2; ++i) {
        llvm::Value* a = (*rows)[group + i];
        llvm::Value* b = (*rows)[group + i + chunk / 2];
        next[group + 2 * i] = b_.CreateShuffleVector(a, b, low);
        next[group + 2 * i + 1] = b_.CreateShuffleVector(a, b, high);
      }
    }
    std::swap(*rows, next);
  }
  // Row g * chunk + r now holds, in chunk c, column c * chunk + r of the rows of group g.
  const int chunks = n / chunk;
  for (int i = 0; i < n; ++i) {
    const int place = i / chunk, lane = i % chunk;
    low[i] = (2 * place) * chunk + lane;  // even chunks of both rows, those of the second at n
    high[i] = low[i] + chunk;
  }
  for (int rounds = chunks; rounds > 1; rounds /= 2) {
    for (int lane = 0; lane < chunk; ++lane) {
      for (int i = 0; i < chunks / 2; ++i) {
        llvm::Value* a = (*rows)[2 * i * chunk + lane];
        llvm::Value* b = (*rows)[(2 * i + 1) * chunk + lane];
        next[i * chunk + lane] = b_.CreateShuffleVector(a, b, low);
        next[(i + chunks / 2) * chunk + lane] = b_.CreateShuffleVector(a, b, high);
      }
    }
    std::swap(*rows, next);
  }
}

}  // namespace lw
