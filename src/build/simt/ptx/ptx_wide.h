// Products that four warps compute together, of matrices in shared memory: wgmma (PTX ISA, 9.7.16).
// Internal to src/build/simt/ptx.
#pragma once

#include <array>
#include <string>

#include "src/build/simt/ptx/ptx_address.h"
#include "src/build/simt/ptx/ptx_lanes.h"

namespace lw {

// Op::kWideProduct; `factors`: where those of the warp begin, without what swizzling changes. Returns
// why there is no such instruction, or "".
std::string ptx_wide_product(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s,
                             const std::array<PtxPlace, 2>& factors);

}  // namespace lw
