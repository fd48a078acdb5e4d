// Products of matrices that a warp computes, and the parts of them that its lanes have: mma.sync and
// ldmatrix (PTX ISA, 9.7.14.5). Internal to src/build/simt/ptx.
#pragma once

#include "src/build/simt/ptx/ptx_address.h"
#include "src/build/simt/ptx/ptx_lanes.h"

namespace lw {

void ptx_matrix_product(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s);
// Of rows that lie in shared memory, each lane's at `row`, at multiples of their 16 bytes.
void ptx_matrix_parts(PtxCode& code, PtxLanes& lanes, const Stmt& s, const PtxPlace& row);

}  // namespace lw
