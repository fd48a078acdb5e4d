// Values that no iteration of a loop changes, made before it.
#pragma once

#include "src/kernel/kernel.h"

namespace lw::lowering {

// Takes out of serial loops what is dear to compute (a division, a root, a transcendental function)
// and the same in every iteration, with what it is made of and, of scalars, its broadcast:
//
//   for v0 < 64 {                      r1 = load S[0]
//     r1 = load S[0]                   r2 = rsqrt r1
//     r2 = rsqrt r1                    r3 = broadcast r2
//     r3 = broadcast r2                for v0 < 64 {
//     r4 = load X[64*v0]                 r4 = load X[64*v0]
//     r5 = mul r4, r3                    r5 = mul r4, r3
//     store Y[64*v0] = r5                store Y[64*v0] = r5
//   }                                  }
//
// What is cheap stays: made again it costs less than a register that is held through the loop.
void hoist(Kernel& kernel);

}  // namespace lw::lowering
