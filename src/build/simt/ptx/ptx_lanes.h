// How the kernel's registers lie in PTX's. Internal to src/build/simt/ptx.
//
//   f32, i32              a word a lane
//   f64, i64              64 bits a lane
//   bool                  a predicate a lane
//   i8, u8, i16, f16, bf16  packed into words, the first lane lowest; a single one is a word of its
//                         own, extended by its sign, or by zeros
//
// What is computed with is a lane by itself: integers extended to words, 16-bit floats their bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/build/simt/ptx/ptx_code.h"
#include "src/kernel/kernel.h"

namespace lw {

// Of a lane while it is computed with: 1 of a predicate.
int ptx_bits(Type type);
// A new register for one.
std::string ptx_register(PtxCode& code, Type type);
// "mov.b32 A, B;".
void ptx_move(PtxCode& code, Type type, const std::string& to, const std::string& from);

class PtxLanes {
 public:
  PtxLanes(const Kernel& kernel, PtxCode* code)
      : kernel_(kernel), code_(*code), words_(kernel.registers.size()) {}

  // Those of a register, in order.
  const std::vector<std::string>& words(int reg);
  // One lane, to compute with.
  std::string get(int reg, int lane);
  std::vector<std::string> all(int reg);
  // All lanes; what they name may be the register's own.
  void set(int reg, std::vector<std::string> lanes);

 private:
  const Kernel& kernel_;
  PtxCode& code_;
  std::vector<std::vector<std::string>> words_;
};

// What an operation of lanes computes: nothing of memory, matrices or sub-groups but kAcross. `index`: of
// kIota and kLaneMask, `s.index`. `sub_group`: the device's. Returns why there are no words for it, or "".
std::string ptx_operation(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s,
                          const std::string& index, int64_t sub_group);
// Op::kTranspose.
void ptx_transpose(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s);

}  // namespace lw
