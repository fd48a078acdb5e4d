// What a linalg operation computes at a point, in the arith, math and tensor dialects.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "loopwright/type.h"
#include "src/export/operation.h"

namespace lw {

// "f32", "i8" (also of u8: MLIR's integers have no signs), "i1".
std::string_view mlir_type(Type type);

// A constant of that type, as text: "1.5" or "0x7F800000", "3", "true".
std::string mlir_constant(Type type, double number, int64_t integer);

// arith's name of the operation that combines two results of a reduction.
const char* combiner_word(Reduce reduce, Type type);

// The lines between the braces: operand n is the argument %in<n>, what was accumulated so far is
// %out; a gathered tensor t is %t<t>. The last line yields. kFailedPrecondition: "NAME: why".
absl::StatusOr<std::string> linalg_body(const Nest& nest, const Operation& operation);

}  // namespace lw
