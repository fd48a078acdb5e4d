// Products of rounded operands, for machines that multiply bf16 and not f32: what `allow=bf16` among
// a workload's words makes of a program (load_workload). Arguments stay as they are; the sums are
// still of f32.
//
//   C[i, j] = sum[k](A[i, k] * B[k, j])
//
// becomes
//
//   A_bf16[a0, a1] = cast(bf16, A[a0, a1])               once, however many products read it
//   B_bf16[a0, a1] = cast(bf16, B[a0, a1])
//   C[i, j] = sum[k](cast(f32, A_bf16[i, k]) * cast(f32, B_bf16[k, j]))
//
// Rounding the tensors and not what is read of them leaves it to the space where that happens: a
// stage of its own, or the end of the one that computes the operand. Pure functions.
#pragma once

#include "absl/status/statusor.h"
#include "src/expr/expr.h"

namespace lw {

// Whether the tensor is a sum of products of two elements of f32, perhaps padded, or of zeros where
// a condition does not hold, each of which serves several results: what arrays of multipliers are
// for. Others, such as depthwise convolutions and products of a matrix and a vector, are no faster in
// a narrower type than the operands come.
bool has_operands_to_round(const Tensor& tensor);

// The program with the operands of all such tensors rounded; without one, as it is. Errors as
// verify()'s.
absl::StatusOr<Program> round_operands(const Program& program);

}  // namespace lw
