/* A layer for as many rows as there are kernels for; any other number is refused by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dense.h"

enum { N = 512, K = 512 };

static float* floats(size_t count) {
  return aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
}

/* The largest difference from a plain loop. */
static double difference(int64_t M, const float* A, const float* B, const float* bias,
                         const float* D) {
  double largest = 0;
  for (int64_t i = 0; i < M; i += M > 8 ? 37 : 1) {
    for (int64_t j = 0; j < N; ++j) {
      double sum = bias[j];
      for (int64_t k = 0; k < K; ++k) sum += (double)A[i * K + k] * B[k * N + j];
      largest = fmax(largest, fabs((sum > 0 ? sum : 0) - D[i * N + j]));
    }
  }
  return largest;
}

int main(void) {
  const int64_t shapes[] = {1, 8, 64, 512};
  float *A = floats(512 * K), *B = floats(K * N), *bias = floats(N), *D = floats(512 * N);
  for (int i = 0; i < 512 * K; ++i) A[i] = (float)(rand() % 17 - 8) / 8;
  for (int i = 0; i < K * N; ++i) B[i] = (float)(rand() % 13 - 6) / 8;
  for (int j = 0; j < N; ++j) bias[j] = (float)(j % 5) - 2;
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; ++s) {
    const int64_t M = shapes[s];
    const int64_t bytes = dense_packed_bytes(M);
    void* packed = bytes > 0 ? floats((size_t)bytes / sizeof(float) + 1) : NULL;
    if (bytes < 0 || dense_prepack(M, B, packed) != DENSE_OK) return 1;
    if (dense(M, A, B, bias, D, packed) != DENSE_OK) return 2;
    const double off = difference(M, A, B, bias, D);
    printf("M=%-4d %s, %s: off by %g\n", (int)M, dense_kernel(M)->name, dense_outcome(M), off);
    if (off > 1e-3) return 3;
    free(packed);
  }
  if (dense(7, A, B, bias, D, NULL) != DENSE_NO_SHAPE) return 4;
  if (dense(8, NULL, B, bias, D, NULL) != DENSE_BAD_ARGUMENT) return 5;
  free(A), free(B), free(bias), free(D);
  return 0;
}
