// When the systolic array takes an instruction and when it is done: R rows of the array are
// reduction channels, C columns outputs, m rows of A stream through. Cycles:
//
// pipelined (ONNXim's SystolicWS, Gemmini, TPU: weights for the next fold load beside this one's
// rows)
//   LDW   takes the weight port for k, ready R later (2R - 1 into an empty array: from the buffer's
//         first row to the array's last). There is one shadow set: since MX takes instructions in
//         order, it loads once the MM that swapped the last one in has started
//   MM    starts max(m, m_min) after the MM before, with `swap` not before its LDW is ready;
//         done = start + max(m, m_min) + R + C - 2 + mx_lat
//   MMOS  interval max(k, R) (R: the drain); done = start + k + R + C - 2 + R
// serial (SCALE-Sim v2; its paper says 2R for the drain of OS, its code R)
//   LDW R, then MM R + C + m - 2: a fold of 2R + C + m - 2; MMOS R + C + k - 2; nothing overlaps
// direct (VTA's GEMM core: no wavefront, weights from SRAM each cycle)
//   LDW 1; MM max(m, m_min), MMOS max(k, m_min); done = start + that + mx_lat
// all     MX.COL bytes that it writes / col_bpc; bf16: m and k are divided by bf16_rate
//
// Not thread-safe; as many as are wanted.
#pragma once

#include "src/npu/isa/isa.h"
#include "src/npu/timing/ticks.h"

namespace lw::npu {

// Cycles of an MX.COL of elements of `dtype`.
int64_t packer_cycles(const ArrayConfig& config, const MxCol& col, Dtype dtype);

class Array {
 public:
  explicit Array(const Config& config);    // which must outlive it

  // The earliest that it takes the instruction, at `ready` or later. REQUIRES: an MX instruction.
  Ticks start(const Instruction& instruction, Ticks ready) const;
  // Takes it at `start`; returns when it is done (LDW: when the weights are in place).
  Ticks take(const Instruction& instruction, Ticks start);

 private:
  int64_t streamed(int64_t count, Dtype dtype) const;

  const ArrayConfig& config_;
  const int64_t rows_, columns_, m_min_, latency_;
  const ArrayMode mode_;
  const double bf16_interval_;
  Ticks next_ = 0;                         // the next MM, MMOS or COL
  Ticks port_ = 0, shadow_ready_ = 0;      // of LDW
  Ticks empty_ = 0;                        // nothing is in the array from here on
};

}  // namespace lw::npu
