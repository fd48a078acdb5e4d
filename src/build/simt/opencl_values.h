// Values of a kernel's statements as expressions of OpenCL C 1.2, with the meaning that kernel.h
// states: integers wrap, divisions round down, conversions saturate. Internal to src/build/simt.
#pragma once

#include <string>
#include <vector>

#include "src/build/simt/opencl_prelude.h"
#include "src/kernel/kernel.h"

namespace lw {

// An operation on registers, whose names are `names[register]`. "": it is none that OpenCL C has.
std::string cl_value(const Kernel& kernel, const Stmt& s, const std::vector<std::string>& names,
                     Prelude* prelude);

// Lanes `base + l * stride` of an integer type; `base` is an expression.
std::string cl_iota(Type type, int lanes, const std::string& base, int64_t stride);
// Of which lanes that is >= 0.
std::string cl_lane_mask(int lanes, const std::string& base, int64_t stride);

// The function that lays the low halves of two such registers alternately, or the high ones.
std::string cl_zip(const Register& row, bool low, Prelude* prelude);

}  // namespace lw
