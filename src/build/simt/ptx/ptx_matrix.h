// Products of matrices that a warp computes, and the parts of them that its lanes have: mma.sync and
// ldmatrix (PTX ISA, 9.7.14.5); those that four warps compute together, of matrices in shared memory:
// wgmma (9.7.16). Internal to src/build/simt/ptx.
#pragma once

#include <span>
#include <string>

#include "src/build/simt/ptx/ptx_address.h"
#include "src/build/simt/ptx/ptx_lanes.h"

namespace lw {

// "{%r1, %r2}": the registers' words; "bf16", "s8": what an instruction calls the type.
std::string ptx_matrix_words(PtxLanes& lanes, std::span<const int> registers);
std::string ptx_matrix_type(Type type);
void ptx_matrix_product(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s);
// Of rows that lie in shared memory, each lane's at `row`, at multiples of their 16 bytes.
void ptx_matrix_parts(PtxCode& code, PtxLanes& lanes, const Stmt& s, const PtxPlace& row);

// Op::kWideProduct; `factors`: where those of the warp begin that lie in memory, without what
// swizzling changes. Returns why there is no such instruction, or "".
std::string ptx_wide_product(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s,
                             std::span<const PtxPlace> factors);

}  // namespace lw
