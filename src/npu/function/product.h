// Products of tiles, as the array forms them: weights packed once, rows of A against them.
//
// i8: exact products, chains of int32 that cannot overflow (65,535 products of at most 2^14), then
// one wrapping sum with ACC. bf16: the chain of an output starts at +0 and adds f32(a) . f32(b), k
// ascending, each product and each sum rounded to f32; then ACC = ACC + chain, rounded. i8 runs on
// AVX2 where the processor has it, the same numbers elsewhere. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "src/npu/config.h"

namespace lw::npu {

// k x n numbers. i8: [n / 16][k / 2][16][2], so that a multiply-add of pairs reads what it needs
// from one place; bf16: [k][n]. Rounded up by zeros.
struct Weights {
  Dtype dtype = Dtype::kI8;
  int64_t k = 0, n = 0;
  std::vector<int16_t> pairs;
  std::vector<float> values;
};
// Element (i, j) lies at bytes + i . k_stride + j . n_stride.
Weights pack_weights(Dtype dtype, int64_t k, int64_t n, const uint8_t* bytes, int64_t k_stride,
                     int64_t n_stride);

// Rows of A, k numbers each; i8 with k rounded up to even.
struct Rows {
  int64_t count = 0, k = 0;
  std::vector<int16_t> integers;
  std::vector<float> values;
};
void clear_rows(Dtype dtype, int64_t count, int64_t k, Rows* rows);
void set_row(Dtype dtype, int64_t row, const uint8_t* bytes, Rows* rows);

// Adds (or, unless `accumulate`, sets) `count` rows from `first` on times the first n columns of
// the weights to rows of `acc`, `stride` words apart. Weights beyond those loaded are 0. Returns
// how many sums wrapped. REQUIRES: for bf16, the caller holds an IeeeArithmetic.
int64_t multiply(const Rows& rows, int64_t first, int64_t count, const Weights& weights, int64_t n,
                 bool accumulate, uint32_t* acc, int64_t stride);

}  // namespace lw::npu
