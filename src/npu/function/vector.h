// What VE computes of an element. i8 and i32 are computed as int32, bf16 and f32 as f32 (a
// Broadcast::kImm's `imm` is an int32, or the bits of an f32); an i8 is saturated and a bf16
// rounded when it is written. VE.UN's `imm` has no meaning.
//
//   ADD SUB MUL   int32 wraps (counted); f32 rounds
//   MAX MIN       of f32: NaN if either is; the first of equals
//   SHR           int32: arithmetic, by b mod 32; f32: a . 2^-b, b towards zero, within +-300
//   CMP           1 if a > b, 0 otherwise
//   COPY RELU ABS RELU of NaN is NaN; ABS of -2^31 wraps (counted)
//   EXP TANH SIGM GELU of tables.h; RECIP 1 / x, RSQRT 1 / sqrt(x), each operation rounded
//   the last six of integers: of f32(x), then round half to even into int32
//   RED SUM       ve.lanes partial sums, lane l of elements l, l + lanes, ...; then lane l takes
//                 lane l + h in, h the upper half of the lanes left, until one is left
//   RED MAX       as MAX, elements in order
//
// The caller holds an IeeeArithmetic. Pure; thread-safe.
#pragma once

#include <vector>

#include "src/npu/isa/isa.h"

namespace lw::npu {

int32_t apply(BinaryFn fn, int32_t a, int32_t b, int64_t* overflows);
float apply(BinaryFn fn, float a, float b, int64_t* overflows);
int32_t apply(UnaryFn fn, int32_t x, int64_t* overflows);
float apply(UnaryFn fn, float x, int64_t* overflows);
// Of `count` > 0 elements.
int32_t reduce(ReduceFn fn, const int32_t* row, int64_t count, int64_t lanes, int64_t* overflows);
float reduce(ReduceFn fn, const float* row, int64_t count, int64_t lanes, int64_t* overflows);

}  // namespace lw::npu
