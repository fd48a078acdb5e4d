// The least time of a program on a machine, by what limits it. Pure functions.
#pragma once

#include <cstdint>

#include "src/npu/isa/isa.h"

namespace lw::npu {

// Cycles. Each holds whatever the order in time:
//   mac       MACs / (R . C), those of valid rows and columns
//   array     what the array's port takes one after the other: max(m, m_min) of each MM, R where
//             the next one's weights load meanwhile, max(k, R) of MMOS (array.h); serial folds whole
//   dma       bytes / peak_bytes_per_cycle
//   vector    ve.startup + rows . ceil(n0 / lanes) . cpi
//   dispatch  instructions . dispatch_cyc
struct Bounds {
  double mac = 0, array = 0, dma = 0, vector = 0, dispatch = 0;
  double largest() const;
};
Bounds find_bounds(const Config& config, const Program& program);

// Products of an MX or VE.DW instruction; 0 of others.
int64_t macs(const Instruction& instruction);
// Bytes that LD or ST moves to or from DRAM; 0 of others.
int64_t dram_bytes(const Instruction& instruction);
// Cycles of a VE instruction: ve.startup + n1 . ceil(n0 / lanes) . cpi(fn), plus log2(lanes) a row
// for VE.RED; VE.DW is a MUL per product of a window. REQUIRES: a VE instruction.
double vector_cycles(const Config& config, const Instruction& instruction);

// A convolution on an array that takes `rows` input and `columns` output channels a cycle, as
// NVDLA's engine does: out_h . out_w . k_h . k_w . ceil(c / rows) . ceil(k / columns) cycles.
struct ConvShape {
  int64_t out_h = 1, out_w = 1, channels = 1, outputs = 1, k_h = 1, k_w = 1;
};
int64_t conv_mac_cycles(const Config& config, const ConvShape& shape);
// What every schedule moves: each operand once. Cycles.
double compulsory_cycles(const Config& config, int64_t bytes);

}  // namespace lw::npu
