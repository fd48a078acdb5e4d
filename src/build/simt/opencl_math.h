// Elementary functions in OpenCL C 1.2. Internal to src/build/simt.
#pragma once

#include <string>

#include "src/build/simt/opencl_prelude.h"
#include "src/expr/expr.h"

namespace lw {

// The name of what computes `op` of one vector of f32 by our own polynomials, or rounds it by an
// instruction; "": there is none. For processors, whose runtimes call functions of several times the
// cost (erf of PoCL 3.1: 16 lanes in 50 ns beside 7); a GPU has units for them. Errors are those of
// src/build/llvm_math.cc.
std::string cl_own_function(ExprOp op, int lanes, Prelude* prelude);

}  // namespace lw
