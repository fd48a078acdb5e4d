// A kernel on its way to LLVM IR: the state that the llvm_*.cc files share. Internal to src/build.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "schedules/targets/target.h"
#include "src/build/build.h"
#include "src/kernel/kernel.h"

namespace lw {

// 1 of a scalar.
int lanes_of(const llvm::Type* type);
inline int lanes_of(const llvm::Value* value) { return lanes_of(value->getType()); }

// Emits operations on values: scalars where lanes == 1, else fixed vectors. f16 and bf16 travel as
// i16, booleans as i1. What the target lacks is emulated; nothing ever becomes a library call.
class Ops {
 public:
  Ops(llvm::IRBuilder<>* builder, const Target& target);

  llvm::Type* type(Type type, int lanes) const;
  llvm::Type* memory_type(Type type, int lanes) const;  // booleans are bytes

  llvm::Value* unary(ExprOp op, Type type, llvm::Value* a);
  llvm::Value* binary(ExprOp op, Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* fma(Type type, llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* cast(Type to, Type from, llvm::Value* a);
  // Lane l of c plus the products of a's and b's lanes l * g .. l * g + g - 1 (llvm_dot.cc).
  llvm::Value* dot(Type acc, Type a_type, Type b_type, llvm::Value* a, llvm::Value* b,
                   llvm::Value* c);
  llvm::Value* interleave(std::vector<llvm::Value*> parts);
  llvm::Value* slide(llvm::Value* a, llvm::Value* b, int by);  // lane l is lane l + by of both
  llvm::Value* repeat(llvm::Value* a, int lanes);       // a's lanes again and again
  llvm::Value* opaque(llvm::Value* a);                  // integers: a, made LLVM knows not how
  llvm::Value* combine(Reduce reduce, Type type, llvm::Value* x, llvm::Value* y);
  // The combined lanes of each of the vectors, which are alike; their number is a power of two and
  // at most that of their lanes.
  std::vector<llvm::Value*> horizontal(Reduce reduce, Type type, std::vector<llvm::Value*> vectors);
  void transpose(std::vector<llvm::Value*>* rows);      // square; rows become columns

  bool has(std::string_view feature) const;
  bool has_half_conversions() const { return has("f16c") || has("neon"); }
  bool has_rounding() const { return has("sse4.1") || has("neon"); }
  const Target& target() const { return target_; }
  llvm::IRBuilder<>& builder() { return b_; }
  // Counts `more` instructions of mathematics; how many there were before.
  int count_math(int more) { return std::exchange(math_, math_ + more); }

 private:
  llvm::Value* float_unary(ExprOp op, llvm::Value* a);
  llvm::Value* round(ExprOp op, llvm::Value* a);
  llvm::Value* divide(ExprOp op, Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* compare(ExprOp op, Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* from_narrow(Type from, llvm::Value* a);  // to f32
  llvm::Value* to_narrow(Type to, llvm::Value* a);      // from f32
  llvm::Value* round_to_odd(llvm::Value* a);            // f64 -> f32
  llvm::Value* float_to_i8(llvm::Value* a);             // a vector

  llvm::IRBuilder<>& b_;
  const Target& target_;
  int math_ = 0;
};

// Vector mathematics (llvm_math.cc states every bound): inline, or from a kernel's hundreds on as
// calls of functions of its own module (llvm_calls.cc). `a` is f32 or f64, any lanes; `b`, pow's
// exponent, is like it.
llvm::Value* emit_math(ExprOp op, Ops* ops, llvm::Value* a, llvm::Value* b = nullptr);
llvm::Value* inline_math(ExprOp op, Ops* ops, llvm::Value* a, llvm::Value* b);

// Weaves the chains that lead to the marked values into each other (llvm_interleave.cc), for a
// machine of so many vector registers.
void interleave(llvm::Function& function, llvm::AAResults& aliases, int registers);
void mark_math(llvm::Value* value);

// What LLVM may use of any processor of the triple; the target's features come on top.
std::string_view baseline_cpu(const Target& target);

// The module of a kernel, before any pass.
std::unique_ptr<llvm::Module> emit_module(const Kernel& kernel, const Target& target,
                                          llvm::LLVMContext* context);

// Adds the kernel's table, NAME_kernel (llvm_describe.cc). REQUIRES: emit_module()'s.
void describe(const Kernel& kernel, const Target& target, const KernelFacts& facts,
              llvm::Module* module);

// Runs the passes and emits an object (or assembly) for `target`.
absl::StatusOr<std::string> emit_code(llvm::Module* module, const Target& target, bool assembly);
// Only the passes on IR.
absl::Status optimize(llvm::Module* module, const Target& target);

}  // namespace lw
