// Dot products: one instruction where the target has it for these types, multiply-adds elsewhere.
//
// The table says which feature has an instruction for which types. Exact for integers (the sums
// wrap). x86's VDPBF16PS adds the second product of a pair first, each product and sum rounded to
// nearest even in f32, and takes denormals, also those it would produce, as zeros: below 2^-126 it
// differs from the emulation, above by the order of rounding only.
//
// Vectors of other widths than the instruction's are cut, or filled up with lanes that are dropped.
#include <algorithm>

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsAArch64.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/check.h"
#include "src/build/llvm_emit.h"

namespace lw {
namespace {

using llvm::Intrinsic::ID;

struct Instruction {
  Type a, b, acc;
  int group;
  const char* feature;
  ID by_width[3];                          // of 128, 256 and 512 bits; 0: none
  const char* narrow_feature;              // what the first two widths need besides
};

constexpr ID kNone = llvm::Intrinsic::not_intrinsic;

constexpr Instruction kInstructions[] = {
    {Type::kU8, Type::kI8, Type::kI32, 4, "avx512vnni",
     {llvm::Intrinsic::x86_avx512_vpdpbusd_128, llvm::Intrinsic::x86_avx512_vpdpbusd_256,
      llvm::Intrinsic::x86_avx512_vpdpbusd_512}, "avx512vl"},
    {Type::kU8, Type::kI8, Type::kI32, 4, "avxvnni",
     {llvm::Intrinsic::x86_avx512_vpdpbusd_128, llvm::Intrinsic::x86_avx512_vpdpbusd_256, kNone},
     "avx2"},
    {Type::kI16, Type::kI16, Type::kI32, 2, "avx512vnni",
     {llvm::Intrinsic::x86_avx512_vpdpwssd_128, llvm::Intrinsic::x86_avx512_vpdpwssd_256,
      llvm::Intrinsic::x86_avx512_vpdpwssd_512}, "avx512vl"},
    {Type::kI16, Type::kI16, Type::kI32, 2, "avxvnni",
     {llvm::Intrinsic::x86_avx512_vpdpwssd_128, llvm::Intrinsic::x86_avx512_vpdpwssd_256, kNone},
     "avx2"},
    {Type::kBF16, Type::kBF16, Type::kF32, 2, "avx512bf16",
     {llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256,
      llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512}, "avx512vl"},
    {Type::kI8, Type::kI8, Type::kI32, 4, "dotprod",
     {llvm::Intrinsic::aarch64_neon_sdot, kNone, kNone}, "neon"},
    {Type::kU8, Type::kU8, Type::kI32, 4, "dotprod",
     {llvm::Intrinsic::aarch64_neon_udot, kNone, kNone}, "neon"},
};

bool is_x86(const Instruction& instruction) {
  return std::string_view(instruction.narrow_feature).starts_with("avx");
}

// Lanes [from, from + count), those past the end undefined.
llvm::Value* slice(llvm::IRBuilder<>& b, llvm::Value* a, int from, int count) {
  const int lanes = lanes_of(a);
  if (from == 0 && count == lanes) return a;
  if (lanes == 1) {
    llvm::Type* type = llvm::FixedVectorType::get(a->getType(), count);
    return b.CreateInsertElement(llvm::Constant::getNullValue(type), a, uint64_t{0});
  }
  std::vector<int> mask(count, -1);
  for (int i = 0; i < count && from + i < lanes; ++i) mask[i] = from + i;
  return b.CreateShuffleVector(a, mask);
}

llvm::Value* call(llvm::IRBuilder<>& b, const Instruction& instruction, ID id, llvm::Value* x,
                  llvm::Value* y, llvm::Value* sum) {
  const int lanes = lanes_of(sum);
  if (is_x86(instruction)) {
    llvm::Type* operand = instruction.acc == Type::kF32
                              ? llvm::FixedVectorType::get(b.getBFloatTy(), lanes * 2)
                              : llvm::FixedVectorType::get(b.getInt32Ty(), lanes);
    return b.CreateIntrinsic(id, {},
                             {sum, b.CreateBitCast(x, operand), b.CreateBitCast(y, operand)});
  }
  return b.CreateIntrinsic(id, {sum->getType(), x->getType()}, {sum, x, y});
}

}  // namespace

llvm::Value* Ops::dot(Type acc, Type a_type, Type b_type, llvm::Value* a, llvm::Value* b,
                      llvm::Value* c) {
  const int lanes = lanes_of(c), group = lanes_of(a) / lanes;
  for (const Instruction& instruction : kInstructions) {
    const bool same = instruction.a == a_type && instruction.b == b_type;
    const bool reversed = instruction.a == b_type && instruction.b == a_type;
    if (!(same || reversed) || instruction.acc != acc || instruction.group != group) continue;
    if (!has(instruction.feature)) continue;
    // The widest that the lanes fill, else the narrowest there is.
    int width = -1;
    for (int w = 0; w < 3; ++w) {
      if (instruction.by_width[w] == kNone || (16 << w) > cpu(target_).vector_bytes) continue;
      if (w < 2 && !has(instruction.narrow_feature)) continue;
      if (width < 0 || (4 << w) <= lanes) width = w;
    }
    if (width < 0) continue;
    const int part = 4 << width;
    llvm::Value *x = same ? a : b, *y = same ? b : a;
    llvm::Value* all = nullptr;
    for (int at = 0; at < lanes; at += part) {
      llvm::Value* sums = call(b_, instruction, instruction.by_width[width],
                               slice(b_, x, at * group, part * group),
                               slice(b_, y, at * group, part * group), slice(b_, c, at, part));
      if (part == lanes) return sums;
      if (lanes == 1) return b_.CreateExtractElement(sums, uint64_t{0});
      if (all == nullptr) {
        all = slice(b_, sums, 0, lanes);
        continue;
      }
      std::vector<int> mask(lanes);
      for (int l = 0; l < lanes; ++l) mask[l] = l < at ? l : lanes + l - at;
      all = b_.CreateShuffleVector(all, slice(b_, sums, 0, lanes), mask);
    }
    return all;
  }
  for (int i = 0; i < group; ++i) {
    const auto factor = [&](llvm::Value* from, Type type) {
      llvm::Value* part = nullptr;
      if (lanes == 1) {
        part = group == 1 ? from : b_.CreateExtractElement(from, i);
      } else {
        std::vector<int> mask(lanes);
        for (int l = 0; l < lanes; ++l) mask[l] = l * group + i;
        part = b_.CreateShuffleVector(from, mask);
      }
      return cast(acc, type, part);
    };
    llvm::Value* x = factor(a, a_type);
    c = fma(acc, x, factor(b, b_type), c);
  }
  return c;
}

// Pairs of halves of the list interleave to pairs of neighbours; other numbers go lane by lane.
llvm::Value* Ops::interleave(std::vector<llvm::Value*> parts) {
  const int count = static_cast<int>(parts.size()), lanes = lanes_of(parts[0]);
  if (count == 1) return parts[0];
  if (count % 2 != 0 || lanes == 1) {
    llvm::Type* element = parts[0]->getType()->getScalarType();
    llvm::Value* all = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, lanes * count));
    for (int i = 0; i < lanes * count; ++i) {
      llvm::Value* from = parts[i % count];
      if (lanes > 1) from = b_.CreateExtractElement(from, i / count);
      all = b_.CreateInsertElement(all, from, i);
    }
    return all;
  }
  std::vector<llvm::Value*> even, odd;
  for (int i = 0; i < count; i += 2) {
    even.push_back(parts[i]);
    odd.push_back(parts[i + 1]);
  }
  llvm::Value *first = interleave(even), *second = interleave(odd);
  const int half = lanes_of(first);
  std::vector<int> mask(2 * half);
  for (int i = 0; i < half; ++i) mask[2 * i] = i, mask[2 * i + 1] = half + i;
  return b_.CreateShuffleVector(first, second, mask);
}

// An exclusive or with a zero that LLVM cannot tell is one. (A `freeze` would not do: it moves up
// through the arithmetic.)
llvm::Value* Ops::opaque(llvm::Value* a) {
  llvm::Type* type = a->getType()->getScalarType();
  llvm::Value* zero = llvm::ConstantInt::get(type, 0);
  llvm::FunctionType* same = llvm::FunctionType::get(type, {type}, false);
  zero = b_.CreateCall(same, llvm::InlineAsm::get(same, "", "=r,0", false), {zero});
  return b_.CreateXor(a, lanes_of(a) == 1 ? zero : b_.CreateVectorSplat(lanes_of(a), zero));
}

llvm::Value* Ops::repeat(llvm::Value* a, int lanes) {
  const int own = lanes_of(a);
  if (own == lanes) return a;
  if (own == 1) return b_.CreateVectorSplat(lanes, a);
  const uint64_t bits = a->getType()->getPrimitiveSizeInBits();
  llvm::Type* type = llvm::FixedVectorType::get(a->getType()->getScalarType(), lanes);
  if (bits == 16 || bits == 32 || bits == 64) {
    llvm::Value* number = b_.CreateBitCast(a, b_.getIntNTy(bits));
    return b_.CreateBitCast(b_.CreateVectorSplat(lanes / own, number), type);
  }
  std::vector<int> mask(lanes);
  for (int i = 0; i < lanes; ++i) mask[i] = i % own;
  return b_.CreateShuffleVector(a, mask);
}

}  // namespace lw
