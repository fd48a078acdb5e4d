// i8 in blocks of 4 rows x 16 columns, held in registers along k: 8 multiply-adds of pairs for 2
// loads of weights and 4 of pairs of A. bf16 in rows of 16 columns, which the compiler makes
// vectors of; its order of additions is that of the text above, whatever the width.
#include "src/npu/function/product.h"

#include <algorithm>
#include <cstring>

#include "src/npu/function/numbers.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lw::npu {
namespace {

constexpr int64_t kRows = 4, kColumns = 16;

using Tile = int32_t[kRows][kColumns];

// tile[r][c] = sum over `pairs` of a[r] . w[c].
void tile_portable(const int16_t* const* a, const int16_t* w, int64_t pairs, Tile& tile) {
  for (int64_t r = 0; r < kRows; ++r) {
    int32_t sums[kColumns] = {};
    for (int64_t p = 0; p < pairs; ++p) {
      const int32_t a0 = a[r][2 * p], a1 = a[r][2 * p + 1];
      const int16_t* const pair = w + p * 2 * kColumns;
      for (int64_t c = 0; c < kColumns; ++c) sums[c] += a0 * pair[2 * c] + a1 * pair[2 * c + 1];
    }
    std::copy(sums, sums + kColumns, tile[r]);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void tile_avx2(const int16_t* const* a, const int16_t* w,
                                                int64_t pairs, Tile& tile) {
  __m256i sums[kRows][2];
  for (auto& row : sums) row[0] = row[1] = _mm256_setzero_si256();
  for (int64_t p = 0; p < pairs; ++p) {
    const __m256i* const pair = reinterpret_cast<const __m256i*>(w + p * 2 * kColumns);
    const __m256i w0 = _mm256_loadu_si256(pair), w1 = _mm256_loadu_si256(pair + 1);
    for (int64_t r = 0; r < kRows; ++r) {
      int32_t both;
      std::memcpy(&both, a[r] + 2 * p, sizeof both);
      const __m256i x = _mm256_set1_epi32(both);
      sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(x, w0));
      sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(x, w1));
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile[r]), sums[r][0]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile[r]) + 1, sums[r][1]);
  }
}
#endif

auto fastest_tile() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return tile_avx2;
#endif
  return tile_portable;
}

// acc[c] += sums[c]; returns how many wrapped. `width` is mostly 16, which the compiler is told.
int64_t add_row(const int32_t* sums, int64_t width, uint32_t* acc) {
  const auto add = [&](int64_t columns) {
    int32_t wrapped = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const uint32_t before = acc[c], by = static_cast<uint32_t>(sums[c]), after = before + by;
      wrapped += static_cast<int32_t>(((before ^ after) & (by ^ after)) >> 31);
      acc[c] = after;
    }
    return wrapped;
  };
  return width == kColumns ? add(kColumns) : add(width);
}

int64_t multiply_i8(const Rows& rows, int64_t first, int64_t count, const Weights& weights,
                    int64_t n, bool accumulate, uint32_t* acc, int64_t stride) {
  const auto tile_of = fastest_tile();
  const int64_t row_length = (rows.k + 1) / 2 * 2, block = (weights.k + 1) / 2;
  const int64_t pairs = (std::min(rows.k, weights.k) + 1) / 2;
  int64_t wrapped = 0;
  Tile tile;
  for (int64_t c = 0; c < n; c += kColumns) {
    const int64_t width = std::min(kColumns, n - c);
    const bool loaded = c < weights.n;
    const int16_t* const w = loaded ? weights.pairs.data() + c * block * 2 : nullptr;
    for (int64_t r = 0; r < count; r += kRows) {
      const int16_t* a[kRows];             // rows beyond the last are the last again
      for (int64_t i = 0; i < kRows; ++i) {
        a[i] = rows.integers.data() + (first + std::min(r + i, count - 1)) * row_length;
      }
      tile_of(a, w, loaded ? pairs : 0, tile);
      for (int64_t i = 0; i < std::min(kRows, count - r); ++i) {
        uint32_t* const out = acc + (r + i) * stride + c;
        if (accumulate) {
          wrapped += add_row(tile[i], width, out);
        } else {
          std::memcpy(out, tile[i], width * sizeof *out);
        }
      }
    }
  }
  return wrapped;
}

void multiply_bf16(const Rows& rows, int64_t first, int64_t count, const Weights& weights,
                   int64_t n, bool accumulate, uint32_t* acc, int64_t stride) {
  const int64_t k = std::min(rows.k, weights.k);
  for (int64_t r = 0; r < count; ++r) {
    const float* const a = rows.values.data() + (first + r) * rows.k;
    for (int64_t c = 0; c < n; c += kColumns) {
      const int64_t width = std::min(kColumns, n - c);
      float sums[kColumns] = {};
      const int64_t held = std::clamp<int64_t>(weights.n - c, 0, width);
      for (int64_t i = 0; i < k && held > 0; ++i) {
        const float* const w = weights.values.data() + i * weights.n + c;
        if (held == kColumns) {
          for (int64_t j = 0; j < kColumns; ++j) sums[j] += a[i] * w[j];
        } else {
          for (int64_t j = 0; j < held; ++j) sums[j] += a[i] * w[j];
        }
      }
      uint32_t* const out = acc + r * stride + c;
      for (int64_t j = 0; j < width; ++j) {
        out[j] = to_word(accumulate ? std::bit_cast<float>(out[j]) + sums[j] : sums[j]);
      }
    }
  }
}

uint16_t half_at(const uint8_t* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

Weights pack_weights(Dtype dtype, int64_t k, int64_t n, const uint8_t* bytes, int64_t k_stride,
                     int64_t n_stride) {
  Weights weights = {dtype, k, n, {}, {}};
  if (dtype == Dtype::kBf16) {
    weights.values.resize(k * n);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        weights.values[i * n + j] = from_bf16(half_at(bytes + i * k_stride + j * n_stride));
      }
    }
    return weights;
  }
  const int64_t pairs = (k + 1) / 2, blocks = (n + kColumns - 1) / kColumns;
  weights.pairs.resize(blocks * pairs * 2 * kColumns);
  for (int64_t j = 0; j < n; ++j) {
    int16_t* const column =
        weights.pairs.data() + j / kColumns * pairs * 2 * kColumns + j % kColumns * 2;
    const uint8_t* from = bytes + j * n_stride;
    for (int64_t p = 0; p < k / 2; ++p, from += 2 * k_stride) {
      column[p * 2 * kColumns] = static_cast<int8_t>(from[0]);
      column[p * 2 * kColumns + 1] = static_cast<int8_t>(from[k_stride]);
    }
    if (k % 2 != 0) column[k / 2 * 2 * kColumns] = static_cast<int8_t>(*from);
  }
  return weights;
}

void clear_rows(Dtype dtype, int64_t count, int64_t k, Rows* rows) {
  rows->count = count;
  rows->k = k;
  if (dtype == Dtype::kBf16) {
    rows->values.resize(count * k);
  } else {
    rows->integers.resize(count * ((k + 1) / 2 * 2));
  }
}

void set_row(Dtype dtype, int64_t row, const uint8_t* bytes, Rows* rows) {
  const int64_t k = rows->k;
  if (dtype == Dtype::kBf16) {
    float* const to = rows->values.data() + row * k;
    for (int64_t i = 0; i < k; ++i) to[i] = from_bf16(half_at(bytes + 2 * i));
    return;
  }
  int16_t* const to = rows->integers.data() + row * ((k + 1) / 2 * 2);
  for (int64_t i = 0; i < k; ++i) to[i] = static_cast<int8_t>(bytes[i]);
  if (k % 2 != 0) to[k] = 0;
}

int64_t multiply(const Rows& rows, int64_t first, int64_t count, const Weights& weights, int64_t n,
                 bool accumulate, uint32_t* acc, int64_t stride) {
  if (weights.dtype == Dtype::kI8) {
    return multiply_i8(rows, first, count, weights, n, accumulate, acc, stride);
  }
  multiply_bf16(rows, first, count, weights, n, accumulate, acc, stride);
  return 0;
}

}  // namespace lw::npu
