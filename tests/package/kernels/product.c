/* Calls an exported kernel by the ABI's header alone, and compares all that it computes. */
#include <stdio.h>
#include <stdlib.h>

#include "loopwright/context.h"
#include "matmul.h"                        /* after it: what both declare is the same */

enum { M = 4, N = 5, K = 6 };

int main(void) {
  static float a[M * K], b[K * N], c[M * N];
  void* buffers[] = {a, b, c};
  lw_context context = {.workers = 1};
  int i, j, k;
  for (i = 0; i < M * K; ++i) a[i] = (float)(i % 7 - 3);
  for (i = 0; i < K * N; ++i) b[i] = (float)(i % 5 - 2);
  context.workspace = aligned_alloc(64, (MATMUL_WORKSPACE_BYTES(1) / 64 + 1) * 64);
  context.packed = aligned_alloc(64, (MATMUL_PACKED_BYTES / 64 + 1) * 64);
  if (context.workspace == NULL || context.packed == NULL) return 1;
  if (matmul(&context, buffers) != 0) return 3;
  for (i = 0; i < M; ++i) {
    for (j = 0; j < N; ++j) {
      float sum = 0;
      for (k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
      if (c[i * N + j] != sum) return 2;   /* whole numbers: exact in any order */
    }
  }
  free(context.workspace);
  free(context.packed);
  puts("product: as expected");
  return 0;
}
