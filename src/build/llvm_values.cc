// Integer variables, addresses and registers of the function being emitted (llvm_module.cc has the
// story).
#include <algorithm>

#include "src/base/check.h"
#include "src/build/llvm_module.h"

namespace lw {

void Emitter::define(int var, llvm::Value* value) {
  frame->variables[var] = value;
  frame->order.resize(kernel.variables);
  frame->order[var] = ++frame->defined;
}

// Terms from the outermost variable inwards, so that the part that an inner loop does not change is
// one value outside of it.
llvm::Value* Emitter::terms(const Affine& a) {
  absl::InlinedVector<Affine::Term, 4> sorted = a.terms;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Affine::Term& x, const Affine::Term& y) {
    return frame->order[x.var] < frame->order[y.var];
  });
  llvm::Value* sum = nullptr;
  for (const Affine::Term& term : sorted) {
    CHECK(frame->variables[term.var] != nullptr);
    llvm::Value* product = b.CreateNSWMul(frame->variables[term.var], b.getInt64(term.coefficient));
    sum = sum == nullptr ? product : b.CreateNSWAdd(sum, product);
  }
  return sum;
}

llvm::Value* Emitter::address(const Affine& a) {
  llvm::Value* sum = terms(a);
  if (sum == nullptr) return b.getInt64(a.constant);
  return a.constant == 0 ? sum : b.CreateNSWAdd(sum, b.getInt64(a.constant));
}

// The constant last and apart: it becomes the displacement of the instruction.
llvm::Value* Emitter::pointer(int buffer, const Affine& index) {
  const int64_t size = size_of(kernel.buffers[buffer].type);
  llvm::Value* place = frame->bases[buffer];
  if (llvm::Value* sum = terms(index)) {
    place = b.CreateGEP(ops.memory_type(kernel.buffers[buffer].type, 1), place, sum);
  }
  if (index.constant == 0) return place;
  return b.CreateConstGEP1_64(b.getInt8Ty(), place, index.constant * size);
}

llvm::AllocaInst* Emitter::slot(int reg) {
  llvm::AllocaInst*& found = frame->registers[reg];
  if (found == nullptr) {
    llvm::BasicBlock& entry = frame->function->getEntryBlock();
    llvm::IRBuilder<> start(&entry, entry.begin());
    found = start.CreateAlloca(ops.type(kernel.registers[reg].type, kernel.registers[reg].lanes));
  }
  return found;
}

llvm::Value* Emitter::get(int reg) {
  llvm::AllocaInst* from = slot(reg);
  return b.CreateLoad(from->getAllocatedType(), from);
}

void Emitter::set(int reg, llvm::Value* value) { b.CreateStore(value, slot(reg)); }

}  // namespace lw
