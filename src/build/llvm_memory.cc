// Loads, stores, masks and gathers; and the dispatch of one kernel operation.
//
// What an access may assume is written on it: its alias scope (distinct buffers do not overlap),
// that a buffer which nobody writes is invariant, and the alignment that follows from its base and
// its index. Strided accesses of 2..4 elements are whole-vector loads and shuffles, the last vector
// moved back so that it ends with the last element: nothing outside the access is touched.
#include <cstdlib>

#include "llvm/IR/InlineAsm.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/check.h"
#include "src/build/llvm_module.h"

namespace lw {

llvm::Align Emitter::alignment(int buffer, const Affine& index) const {
  const Buffer& of = kernel.buffers[buffer];
  int64_t base = 64;
  if (of.scope == Scope::kArgument) {
    bool aligned = false;
    for (int slot : aligned_slots) aligned |= slot == of.slot;
    if (!aligned) base = size_of(of.type);
  }
  return llvm::Align(std::min(base, byte_alignment(index, size_of(of.type))));
}

// A streaming store pays only as whole vectors; anything else is an ordinary store. (What is left of
// a row would throw its line out of the caches, where the row's other stores have put it.)
bool Emitter::streams(const Stmt& s) const {
  if (s.op != Op::kStore || !s.non_temporal || s.mask >= 0 || s.stride != 1) return false;
  const Buffer& buffer = kernel.buffers[s.buffer];
  const int64_t bytes = int64_t{size_of(buffer.type)} * kernel.registers[s.srcs[0]].lanes;
  return bytes % cpu(target).vector_bytes == 0 && buffer.type != Type::kBool &&
         byte_alignment(s.index, size_of(buffer.type)) >= cpu(target).vector_bytes;
}

template <class Instruction>
Instruction* Emitter::annotate(Instruction* access, int buffer) {
  const Buffer& of = kernel.buffers[buffer];
  int scope = of.slot;
  bool constant = false;
  switch (of.scope) {
    case Scope::kArgument: constant = !argument_written[of.slot]; break;
    case Scope::kWorkspace: scope = kernel.arguments; break;
    case Scope::kPrivate: scope = kernel.arguments + 1; break;
    case Scope::kPacked: scope = kernel.arguments + 2; constant = !in_prepack; break;
    case Scope::kManaged: break;
  }
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, scopes[scope].own);
  access->setMetadata(llvm::LLVMContext::MD_noalias, scopes[scope].others);
  if (constant && !frame->fenced && llvm::isa<llvm::LoadInst>(access)) {
    access->setMetadata(llvm::LLVMContext::MD_invariant_load,
                        llvm::MDNode::get(b.getContext(), {}));
  }
  return access;
}

// index + lane * stride as a vector (or scalar) of an integer type.
llvm::Value* Emitter::ramp(const Affine& index, int64_t stride, Type type, int lanes) {
  llvm::Type* element = ops.type(type, 1);
  llvm::Value* start = b.CreateTrunc(address(index), element);
  if (lanes == 1) return start;
  std::vector<llvm::Constant*> steps;
  for (int i = 0; i < lanes; ++i) {
    steps.push_back(llvm::ConstantInt::getSigned(element, i * stride));
  }
  return b.CreateAdd(b.CreateVectorSplat(lanes, start), llvm::ConstantVector::get(steps));
}

// index + lane * stride >= 0, in 32 bits wherever the lanes' range allows: the index is first cut
// to a range that keeps every lane's sign.
llvm::Value* Emitter::lane_mask(const Stmt& s, int lanes) {
  llvm::Value* index = address(s.index);
  if (lanes == 1) return b.CreateICmpSGE(index, b.getInt64(0));
  const int64_t reach = std::abs(s.stride) * lanes;
  llvm::Type* element = b.getInt64Ty();
  if (reach < (int64_t{1} << 30)) {
    element = b.getInt32Ty();
    index = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, b.getInt64(reach));
    index = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, index, b.getInt64(-reach - 1));
    index = b.CreateTrunc(index, element);
  }
  std::vector<llvm::Constant*> limits;
  for (int i = 0; i < lanes; ++i) {
    limits.push_back(llvm::ConstantInt::getSigned(element, -i * s.stride));
  }
  return b.CreateICmpSGE(b.CreateVectorSplat(lanes, index), llvm::ConstantVector::get(limits));
}

// ------------------------------------------------------------------------------ loads

llvm::Value* Emitter::load(const Stmt& s) {
  const Register& dst = kernel.registers[s.dst];
  llvm::Value* value = load_memory(s, dst.lanes);
  return dst.type == Type::kBool ? b.CreateIsNotNull(value) : value;
}

llvm::Value* Emitter::load_memory(const Stmt& s, int lanes) {
  const Type type = kernel.buffers[s.buffer].type;
  llvm::Type* element = ops.memory_type(type, 1);
  llvm::Type* whole = ops.memory_type(type, lanes);
  const llvm::Align align = alignment(s.buffer, s.index);
  if (s.indices >= 0) return gather(s, lanes, get(s.indices));
  if (s.mask >= 0 && lanes > 1) {
    if (s.stride != 1) return gather(s, lanes, nullptr);
    return annotate(b.CreateMaskedLoad(whole, pointer(s.buffer, s.index), align, get(s.mask),
                                       llvm::Constant::getNullValue(whole)), s.buffer);
  }
  if (s.mask >= 0) {  // a scalar: a vector of one lane, which becomes a branch
    llvm::Type* one = llvm::FixedVectorType::get(element, 1);
    llvm::Value* loaded = annotate(
        b.CreateMaskedLoad(one, pointer(s.buffer, s.index), align,
                           b.CreateVectorSplat(1, get(s.mask)), llvm::Constant::getNullValue(one)),
        s.buffer);
    return b.CreateExtractElement(loaded, uint64_t{0});
  }
  if (lanes == 1 || s.stride == 0) {
    llvm::Value* scalar = annotate(
        b.CreateAlignedLoad(element, pointer(s.buffer, s.index), align), s.buffer);
    return lanes == 1 ? scalar : b.CreateVectorSplat(lanes, scalar);
  }
  if (s.stride == 1) {
    // A few bytes that are broadcast together: as one number, which the instruction can repeat.
    const uint64_t bits = whole->getPrimitiveSizeInBits();
    if (size_of(type) <= 2 && (bits == 16 || bits == 32 || bits == 64)) {
      llvm::Value* number = annotate(
          b.CreateAlignedLoad(b.getIntNTy(bits), pointer(s.buffer, s.index), align), s.buffer);
      return b.CreateBitCast(number, whole);
    }
    return annotate(b.CreateAlignedLoad(whole, pointer(s.buffer, s.index), align), s.buffer);
  }
  return load_strided(s, lanes);
}

llvm::Value* Emitter::load_strided(const Stmt& s, int lanes) {
  const Type type = kernel.buffers[s.buffer].type;
  llvm::Type* whole = ops.memory_type(type, lanes);
  const auto at = [&](int64_t offset, llvm::Type* of) {
    const Affine index = s.index + affine(offset);
    return annotate(b.CreateAlignedLoad(of, pointer(s.buffer, index), alignment(s.buffer, index)),
                    s.buffer);
  };
  if (s.stride == -1) return b.CreateVectorReverse(at(1 - lanes, whole));
  if (s.stride < 2 || s.stride > 4) {
    llvm::Value* value = llvm::PoisonValue::get(whole);
    for (int i = 0; i < lanes; ++i) {
      value = b.CreateInsertElement(value, at(i * s.stride, ops.memory_type(type, 1)), i);
    }
    return value;
  }
  llvm::Value* value = nullptr;
  const int64_t last = (lanes - 1) * s.stride + 1 - lanes;  // where the last vector starts
  for (int64_t start = 0; start - lanes < last; start += lanes) {
    const int64_t from = std::min(start, last);
    llvm::Value* part = at(from, whole);
    std::vector<int> mask(lanes);
    for (int i = 0; i < lanes; ++i) {
      const int64_t place = i * s.stride;
      // Earlier parts hold the lanes before `start`; this one adds those that it covers.
      mask[i] = place < start          ? i
                : place - from < lanes ? static_cast<int>(lanes + place - from)
                                       : 0;
    }
    if (value == nullptr) {
      for (int& lane : mask) lane %= lanes;
      value = b.CreateShuffleVector(part, mask);
    } else {
      value = b.CreateShuffleVector(value, part, mask);
    }
  }
  return value;
}

// buffer[index + lane * stride + offsets[lane]]; `offsets` may be null.
llvm::Value* Emitter::gather(const Stmt& s, int lanes, llvm::Value* offsets) {
  const Type type = kernel.buffers[s.buffer].type;
  llvm::Type* element = ops.memory_type(type, 1);
  llvm::Type* whole = ops.memory_type(type, lanes);
  const llvm::Align align(size_of(type));
  llvm::Value* base = pointer(s.buffer, s.index);
  if (lanes == 1) {
    llvm::Value* place = offsets == nullptr ? base : b.CreateGEP(element, base, offsets);
    if (s.mask < 0) return annotate(b.CreateAlignedLoad(element, place, align), s.buffer);
    llvm::Type* one = llvm::FixedVectorType::get(element, 1);
    llvm::Value* mask = b.CreateVectorSplat(1, get(s.mask));
    return b.CreateExtractElement(
        b.CreateMaskedLoad(one, place, align, mask, llvm::Constant::getNullValue(one)),
        uint64_t{0});
  }
  if (offsets == nullptr) offsets = ramp(affine(0), s.stride, Type::kI64, lanes);
  llvm::Value* places = b.CreateGEP(element, base, offsets);
  llvm::Value* mask = s.mask >= 0 ? get(s.mask)
                                  : llvm::Constant::getAllOnesValue(ops.type(Type::kBool, lanes));
  return annotate(
      b.CreateMaskedGather(whole, places, align, mask, llvm::Constant::getNullValue(whole)),
      s.buffer);
}

// ------------------------------------------------------------------------------ stores

void Emitter::store(const Stmt& s) {
  const Type type = kernel.buffers[s.buffer].type;
  const int lanes = kernel.registers[s.srcs[0]].lanes;
  llvm::Value* value = get(s.srcs[0]);
  if (type == Type::kBool) value = b.CreateZExt(value, ops.memory_type(type, lanes));
  llvm::Value* place = pointer(s.buffer, s.index);
  const llvm::Align align = alignment(s.buffer, s.index);
  if (s.mask >= 0) {
    llvm::Value* mask = get(s.mask);
    if (lanes == 1) {
      annotate(b.CreateMaskedStore(b.CreateVectorSplat(1, value), place, align,
                                   b.CreateVectorSplat(1, mask)), s.buffer);
    } else if (s.stride == 1) {
      annotate(b.CreateMaskedStore(value, place, align, mask), s.buffer);
    } else {
      llvm::Value* places = b.CreateGEP(ops.memory_type(type, 1), place,
                                        ramp(affine(0), s.stride, Type::kI64, lanes));
      annotate(b.CreateMaskedScatter(value, places, llvm::Align(size_of(type)), mask), s.buffer);
    }
    return;
  }
  if (lanes == 1 || s.stride == 1) {
    llvm::StoreInst* stored = annotate(b.CreateAlignedStore(value, place, align), s.buffer);
    const bool aligned =
        kernel.buffers[s.buffer].scope != Scope::kArgument || !aligned_slots.empty();
    if (aligned && streams(s)) {
      stored->setMetadata(llvm::LLVMContext::MD_nontemporal,
                          llvm::MDNode::get(b.getContext(),
                                            llvm::ConstantAsMetadata::get(b.getInt32(1))));
      frame->streamed = true;
    }
    return;
  }
  for (int i = 0; i < lanes; ++i) {
    const Affine index = s.index + affine(i * s.stride);
    annotate(b.CreateAlignedStore(b.CreateExtractElement(value, i), pointer(s.buffer, index),
                                  alignment(s.buffer, index)), s.buffer);
  }
}

// ------------------------------------------------------------------------------ operations

// No instruction, but to LLVM it may write any memory.
void Emitter::fence() {
  llvm::FunctionType* nothing = llvm::FunctionType::get(b.getVoidTy(), false);
  b.CreateCall(nothing, llvm::InlineAsm::get(nothing, "", "~{memory}", true), {});
}

void Emitter::op(const Stmt& s) {
  const auto type_of = [&](int reg) { return kernel.registers[reg].type; };
  switch (s.op) {
    case Op::kStore:
      return store(s);
    case Op::kFence:
      return fence();
    case Op::kBarrier: case Op::kCommit: case Op::kLanded:  // of groups of one
      return;
    case Op::kPrefetch:
      b.CreateIntrinsic(llvm::Intrinsic::prefetch, {b.getPtrTy()},
                        {pointer(s.buffer, s.index), b.getInt32(0),
                         b.getInt32(static_cast<uint32_t>(s.integer)), b.getInt32(1)});
      return;
    case Op::kTranspose: {
      const size_t half = s.many.size() / 2;
      std::vector<llvm::Value*> rows;
      for (size_t i = 0; i < half; ++i) rows.push_back(get(s.many[i]));
      ops.transpose(&rows);
      for (size_t i = 0; i < half; ++i) set(s.many[half + i], rows[i]);
      return;
    }
    default:
      break;
  }
  const Register& dst = kernel.registers[s.dst];
  llvm::Type* type = ops.type(dst.type, dst.lanes);
  llvm::Value* src[3] = {};
  for (int i = 0; i < 3; ++i) {
    if (s.srcs[i] >= 0) src[i] = get(s.srcs[i]);
  }
  llvm::Value* value = nullptr;
  switch (s.op) {
    case Op::kImmediate:
      value = type->isFPOrFPVectorTy()
                  ? llvm::ConstantFP::get(type, s.number)
                  : llvm::ConstantInt::get(type, static_cast<uint64_t>(s.integer), true);
      if (is_narrow(dst.type)) {
        value = ops.cast(dst.type, Type::kF64,
                         llvm::ConstantFP::get(ops.type(Type::kF64, dst.lanes), s.number));
      }
      break;
    case Op::kMove: case Op::kAcross: value = src[0]; break;  // of sub-groups of one
    case Op::kBroadcast: value = ops.repeat(src[0], dst.lanes); break;
    case Op::kInterleave: {
      std::vector<llvm::Value*> parts;
      for (int i : s.many) parts.push_back(get(i));
      value = ops.interleave(std::move(parts));
      break;
    }
    case Op::kSlide: value = ops.slide(src[0], src[1], static_cast<int>(s.integer)); break;
    case Op::kDot:
      value = ops.dot(dst.type, type_of(s.srcs[0]), type_of(s.srcs[1]), src[0], src[1], src[2]);
      break;
    case Op::kUnary: value = ops.unary(s.expr_op, type_of(s.srcs[0]), src[0]); break;
    case Op::kBinary: value = ops.binary(s.expr_op, type_of(s.srcs[0]), src[0], src[1]); break;
    case Op::kFma: value = ops.fma(dst.type, src[0], src[1], src[2]); break;
    case Op::kSelect: value = b.CreateSelect(src[0], src[1], src[2]); break;
    case Op::kCast: value = ops.cast(dst.type, type_of(s.srcs[0]), src[0]); break;
    case Op::kIota: value = ramp(s.index, s.stride, dst.type, dst.lanes); break;
    case Op::kLaneMask: value = lane_mask(s, dst.lanes); break;
    case Op::kLoad: value = load(s); break;
    case Op::kHorizontal: case Op::kStore: case Op::kTranspose: case Op::kPrefetch:
    case Op::kFence: case Op::kBarrier: case Op::kCommit: case Op::kLanded: break;
    // Of several items together, which nobody asks of this back-end.
    case Op::kMatrixProduct: case Op::kMatrixParts: case Op::kWideProduct: case Op::kMultiplied:
    case Op::kBoxCopy: break;
  }
  CHECK(value != nullptr);
  set(s.dst, value);
}

}  // namespace lw
