// EXP, TANH, SIGM and GELU of VE.UN: tables of 1,024 intervals, a line in each. All arithmetic is
// f32, round to nearest even, in the order written here:
//   TANH, GELU on [-8, 8), SIGM on [-16, 16): p = (x - low) . (1024 / width), i = floor(p),
//       y = T[i] + (p - i) . D[i], T[i] the function at low + i . width / 1024,
//       D[i] = T[i+1] - T[i].
//       Below: -1, -0, 0. Above: 1, x, 1.
//   EXP: t = x . log2(e), e = floor(t), p = (t - e) . 1024, i = floor(p),
//       y = (T[i] + (p - i) . D[i]) . 2^e, T[i] = 2^(i / 1024). Below -104: 0; above 89: infinity.
// NaN is NaN. The entries are made by sums and products of doubles alone (series whose terms have
// one sign), rounded once to f32, so that no library's last bit is in them. Errors: below 2e-7
// relative for EXP of |x| < 1, 1e-4 absolute for the others. Pure; thread-safe.
#pragma once

#include "src/npu/isa/isa.h"

namespace lw::npu {

// REQUIRES: one of those four. The caller holds an IeeeArithmetic.
float look_up(UnaryFn fn, float x);

}  // namespace lw::npu
