// Integer variables of the kernel and the addresses that are affine in them. Internal to src/build/simt/ptx.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/build/simt/ptx/ptx_code.h"
#include "src/kernel/kernel.h"

namespace lw {

// A place in memory: a register of 64 bits, of shared memory of 32, and bytes that are added to it.
struct PtxPlace {
  std::string base;
  int64_t bytes = 0;
  std::string text(int64_t more = 0) const;  // "[%d3+16]"
};

// A part of an address that does not change in an inner scope is computed outside of that, once.
class PtxAddresses {
 public:
  PtxAddresses(const Kernel& kernel, PtxCode* code)
      : code_(*code), variables_(kernel.variables), known_(1) {}

  void enter() {
    code_.enter();
    known_.emplace_back();
  }
  std::string leave() {
    known_.pop_back();
    return code_.leave();
  }

  // A variable is a word from here on, to the end of the innermost scope.
  void define(int var, const std::string& word);
  const std::string& word_of(int var) const { return variables_[var].word; }

  // The number, as a word.
  std::string value(const Affine& a);
  // `start`: a register that the outermost scope has; `wide`: of 64 bits.
  PtxPlace place(const std::string& start, bool wide, const Affine& index, int64_t element_bytes);
  // Of a swizzled buffer (src/kernel/kernel.h), `offset` bytes from `start`, a multiple of kSwizzle.
  PtxPlace swizzled_place(const std::string& start, int64_t offset, const Affine& index,
                          int64_t element_bytes);

 private:
  struct Variable {
    std::string word;
    int depth = 0;
  };
  // start + the sum of the terms times `scale`; the register is known where it was computed.
  std::string sum(const std::string& start, bool wide, const Affine& a, int64_t scale);
  int depth_of(const Affine& a) const;     // of its innermost variable
  // What `make`, given its name, adds in that scope; once.
  std::string once(int depth, const std::string& key, const auto& make);

  PtxCode& code_;
  std::vector<Variable> variables_;
  std::vector<std::map<std::string, std::string>> known_;  // by scope
};

}  // namespace lw
