// Words of OpenCL C 1.2: types, constants, names. Internal to src/build/simt.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "loopwright/type.h"

namespace lw {

// "float16" of 16 lanes in a register; in memory too. 16-bit floats are their bits, booleans bytes:
// in vectors 0 or -1, as comparisons have them, otherwise and in memory 0 or 1.
std::string cl_type(Type type, int lanes = 1);
// The signed and the unsigned integers of as many bits: what masks for values of the type are made
// of, and what arithmetic that wraps is done in.
std::string cl_signed(Type type, int lanes);
std::string cl_unsigned(Type type, int lanes);

// A constant of the type: "1.5f", "INFINITY", "(char)3".
std::string cl_constant(Type type, double number, int64_t integer);

// A vector of these values.
std::string cl_literal(Type type, int lanes, const std::vector<std::string>& values);

// ".s3" of a vector, "" of a single value.
std::string cl_lane(int lane, int lanes);

// A name in C for what `name` names, different from those in `taken`, which it joins, and from all
// that OpenCL C or this printer means by a name.
std::string cl_name(std::string_view name, std::set<std::string>* taken);

}  // namespace lw
