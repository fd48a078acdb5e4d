// What operations of the kernel make of lanes, in PTX. Each gives the register that holds the result, a
// new one; types are those of the kernel, lanes as ptx_lanes.h has them. Internal to src/build/simt/ptx.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/build/simt/ptx/ptx_code.h"
#include "src/kernel/kernel.h"

namespace lw {

// `type`: the operands'; a comparison gives a predicate. "": there is no such operation.
std::string ptx_unary(PtxCode& code, ExprOp op, Type type, const std::string& a);
std::string ptx_binary(PtxCode& code, ExprOp op, Type type, const std::string& a,
                       const std::string& b);
std::string ptx_fma(PtxCode& code, Type type, const std::string& a, const std::string& b,
                    const std::string& c);
std::string ptx_select(PtxCode& code, Type type, const std::string& condition,
                       const std::string& then, const std::string& otherwise);
std::string ptx_cast(PtxCode& code, Type to, Type from, const std::string& a);
// The sum and the products of two words' bytes. `a_type`, `b_type`: theirs.
std::string ptx_dot(PtxCode& code, Type a_type, Type b_type, const std::string& a,
                    const std::string& b, const std::string& sum);
// Of a word without a sign that is at most `most`, by a constant.
std::string ptx_quotient(PtxCode& code, const std::string& a, int64_t most, int64_t by);
std::string ptx_remainder(PtxCode& code, const std::string& a, int64_t most, int64_t by);
// A constant of the type in a register.
std::string ptx_constant(PtxCode& code, Type type, double number, int64_t integer);

// What the item has whose number differs from this one's by `apart`, a power of two, in that bit. All of
// a warp come to it.
std::string ptx_exchanged(PtxCode& code, Type type, const std::string& value, int64_t apart);

// Of elementary functions, by polynomials and what the processor has (ptx_math.cc). `type`: f32, f64.
std::string ptx_function(PtxCode& code, ExprOp op, Type type, const std::string& a);
std::string ptx_pow(PtxCode& code, Type type, const std::string& a, const std::string& b);

}  // namespace lw
