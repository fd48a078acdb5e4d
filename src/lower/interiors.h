// Interiors without checks: what holds in all but a few iterations is asked once, not by every vector.
#pragma once

#include "src/kernel/kernel.h"

namespace lw::lowering {

// Lane masks and clamped indices come from borders (`pad`, `where`, ends of vectors), which most of a
// tensor is far from. Where they hold for all that an iteration does, in most iterations, the loop's
// body becomes two:
//
//   for v0 < 96 {                       for v0 < 96 {
//     r0 = lanemask v0 - 1                if v0 - 1 {
//     int v1 = max v0 - 1, 0                r9 = const true
//     r1 = load X[64*v1]                    int v1 = v0 - 1
//     r2 = select r0, r1, zero              ... the same, which the compiler folds
//     ...                                 } else { ... as it was }
//   }                                   }
//
// A condition is asked at the outermost loop in which it mostly holds; inner loops are versions of
// the interior alone, so that borders are said once for each level. Conditions that always hold are
// dropped. `kernel` runs on processors: no barriers.
void version_interiors(Kernel& kernel);

}  // namespace lw::lowering
