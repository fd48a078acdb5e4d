// What the arithmetic ports need where few operations are multiply-adds.
#pragma once

#include "src/expr/expr.h"

namespace lw {

// Microseconds of a program's useful work: an instruction for each operation, one for a
// multiplication and the addition that takes it. `peak_gflops`: of multiply-adds, 2 each.
double ports_us(const Program& program, double peak_gflops);

}  // namespace lw
