// Chains beside each other. An exponential is some twenty operations, each of which waits for the
// one before: 80 cycles, of which two or three fit what a processor looks ahead over. The results
// of a tile do not depend on each other, but their code stands one after the other. Here several
// are woven into one: what is furthest from its end comes first. Of a sigmoid 1.2 to 1.5 times as
// many in a second come out.
//
// Only results that elementary functions lead to (`mark_math`): products of matrices are in the
// order that their registers want. Accesses that may touch the same element keep their order.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/MemoryLocation.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "src/build/llvm_emit.h"

namespace lw {
namespace {

constexpr int kRegisters = 4;              // vectors that a chain wants at a time
constexpr size_t kMostAccesses = 256;      // of a block, of which every two are compared
constexpr const char* kMath = "lw.math";

// About, in cycles: in what order things come, not how long they take.
int latency(const llvm::Instruction& i) {
  switch (i.getOpcode()) {
    case llvm::Instruction::FDiv: return 11;
    case llvm::Instruction::FAdd:
    case llvm::Instruction::FSub:
    case llvm::Instruction::FMul: return 4;
    case llvm::Instruction::Load: return 5;
    case llvm::Instruction::Call: return 4;  // multiply-adds, roots, minima
    default: return 1;
  }
}

bool is_prefetch(const llvm::Instruction& i) {
  const auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  return intrinsic != nullptr && intrinsic->getIntrinsicID() == llvm::Intrinsic::prefetch;
}

// The instructions of a block between two that nothing may pass.
class Segment {
 public:
  // Of which at most so many results are woven into each other.
  Segment(std::vector<llvm::Instruction*> instructions, llvm::AAResults& aliases, size_t most)
      : instructions_(std::move(instructions)), aliases_(aliases), most_(most) {
    for (size_t n = 0; n < instructions_.size(); ++n) number_[instructions_[n]] = n;
    before_.resize(instructions_.size());
    done_.resize(instructions_.size());
  }

  // In a new order, where some results are woven; else empty.
  std::vector<llvm::Instruction*> woven() {
    const bool math = std::any_of(instructions_.begin(), instructions_.end(),
                                  [](auto* i) { return i->getMetadata(kMath) != nullptr; });
    if (!math || !find_dependences()) return {};
    std::vector<std::vector<size_t>> together;
    bool several = false;
    for (size_t n = 0; n < instructions_.size(); ++n) {
      if (!is_result(*instructions_[n])) continue;
      const std::vector<size_t> slice = slice_of({n});
      for (size_t i : slice) done_[i] = true;
      const bool long_chain = std::any_of(slice.begin(), slice.end(), [&](size_t i) {
        return instructions_[i]->getMetadata(kMath) != nullptr;
      });
      const bool joins = long_chain && last_is_long_ && together.back().size() < most_;
      if (joins) together.back().push_back(n);
      else together.push_back({n});
      several = several || joins;
      last_is_long_ = long_chain;
    }
    if (!several) return {};
    done_.assign(instructions_.size(), false);
    std::vector<llvm::Instruction*> order;
    for (const std::vector<size_t>& results : together) append(results, order);
    // What nothing needs here.
    for (size_t n = 0; n < instructions_.size(); ++n)
      if (!done_[n]) append({n}, order);
    return order;
  }

 private:
  bool is_result(const llvm::Instruction& i) const {
    if (i.mayHaveSideEffects()) return true;
    return std::any_of(i.user_begin(), i.user_end(), [&](const llvm::User* user) {
      return !number_.contains(llvm::cast<llvm::Instruction>(user));
    });
  }

  // False: there are too many accesses to compare.
  bool find_dependences() {
    std::vector<size_t> accesses;
    for (size_t n = 0; n < instructions_.size(); ++n) {
      for (llvm::Value* operand : instructions_[n]->operands()) {
        const auto* from = llvm::dyn_cast<llvm::Instruction>(operand);
        if (from == nullptr) continue;
        if (const auto it = number_.find(from); it != number_.end())
          before_[n].push_back(it->second);
      }
      if (!instructions_[n]->mayReadOrWriteMemory() || is_prefetch(*instructions_[n])) continue;
      accesses.push_back(n);
      if (accesses.size() > kMostAccesses) return false;
    }
    for (size_t b = 1; b < accesses.size(); ++b) {
      for (size_t a = 0; a < b; ++a)
        if (conflict(*instructions_[accesses[a]], *instructions_[accesses[b]]))
          before_[accesses[b]].push_back(accesses[a]);
    }
    return true;
  }

  bool conflict(llvm::Instruction& first, llvm::Instruction& second) {
    if (!first.mayWriteToMemory() && !second.mayWriteToMemory()) return false;
    const auto where = llvm::MemoryLocation::getOrNone(&second);
    return !where || isModOrRefSet(aliases_.getModRefInfo(&first, where));
  }

  // What is not done of all that the results need, themselves included, in their order.
  std::vector<size_t> slice_of(std::vector<size_t> results) const {
    absl::flat_hash_set<size_t> seen(results.begin(), results.end());
    std::vector<size_t> open = std::move(results), slice;
    while (!open.empty()) {
      const size_t n = open.back();
      open.pop_back();
      if (done_[n]) continue;
      slice.push_back(n);
      for (size_t m : before_[n])
        if (seen.insert(m).second) open.push_back(m);
    }
    std::sort(slice.begin(), slice.end());
    return slice;
  }

  void append(const std::vector<size_t>& results, std::vector<llvm::Instruction*>& order) {
    std::vector<size_t> slice = slice_of(results);
    if (results.size() > 1) {
      // Cycles from the instruction to the end; its users come later in the old order.
      absl::flat_hash_map<size_t, int> height;
      for (auto n = slice.rbegin(); n != slice.rend(); ++n) {
        const int mine = height[*n] + latency(*instructions_[*n]);
        height[*n] = mine;
        for (size_t m : before_[*n])
          if (!done_[m]) height[m] = std::max(height[m], mine);
      }
      std::stable_sort(slice.begin(), slice.end(),
                       [&](size_t a, size_t b) { return height[a] > height[b]; });
    }
    for (size_t n : slice) {
      done_[n] = true;
      order.push_back(instructions_[n]);
    }
  }

  const std::vector<llvm::Instruction*> instructions_;
  llvm::AAResults& aliases_;
  const size_t most_;
  absl::flat_hash_map<const llvm::Instruction*, size_t> number_;
  std::vector<std::vector<size_t>> before_;  // by instruction: what must stand before it
  std::vector<bool> done_;
  bool last_is_long_ = false;
};

}  // namespace

void mark_math(llvm::Value* value) {
  if (auto* i = llvm::dyn_cast<llvm::Instruction>(value))
    i->setMetadata(kMath, llvm::MDNode::get(i->getContext(), {}));
}

void interleave(llvm::Function& function, llvm::AAResults& aliases, int registers) {
  const size_t most = registers / kRegisters;
  for (llvm::BasicBlock& block : function) {
    std::vector<llvm::Instruction*> instructions;
    for (llvm::Instruction& i : block) {
      if (llvm::isa<llvm::PHINode>(i)) continue;
      const bool known = llvm::isa<llvm::LoadInst>(i) || llvm::isa<llvm::StoreInst>(i) ||
                         llvm::isa<llvm::IntrinsicInst>(i);
      const bool passes = !i.isTerminator() && (known || !(i.mayReadOrWriteMemory() ||
                                                           i.mayHaveSideEffects()));
      if (passes) {
        instructions.push_back(&i);
        continue;
      }
      for (llvm::Instruction* woven : Segment(std::move(instructions), aliases, most).woven())
        woven->moveBefore(&i);
      instructions.clear();
    }
  }
}

}  // namespace lw
