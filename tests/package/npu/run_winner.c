/* An exported winner in a program of strict C99: it computes winner.te, in the cycles that the export
 * says, and what is wrong with a call has a code and a text. Its argument: a file that holds the
 * exported module. */
#include "winner.h"

#include <stdio.h>
#include <string.h>

enum { M = 40, N = 72, K = 100 };
static int8_t A[M * K], B[K * N];
static int32_t C[M * N];

static int wrong_sums(void) {
  int i, j, k;
  for (i = 0; i < M; ++i) {
    for (j = 0; j < N; ++j) {
      int32_t sum = 0;
      for (k = 0; k < K; ++k) sum += A[i * K + k] * B[k * N + j];
      if (sum != C[i * N + j]) return 1;
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  void* buffers[WINNER_BUFFERS] = {A, B, C};
  static unsigned char bytes[WINNER_MODULE_BYTES + 1];
  loopwright_npu_report* report = NULL;
  loopwright_npu_module* module = NULL;
  char error[256] = "";
  int64_t cycles;
  FILE* file;
  int i;
  for (i = 0; i < M * K; ++i) A[i] = (int8_t)(i * 37 % 251 - 125);
  for (i = 0; i < K * N; ++i) B[i] = (int8_t)(i * 73 % 241 - 120);

  if (winner(buffers, &report, error, sizeof error) != LOOPWRIGHT_NPU_OK) {
    puts(error);
    return 1;
  }
  if (wrong_sums()) return 2;
  cycles = loopwright_npu_report_cycles(report);
  loopwright_npu_report_free(report);
  memset(C, 0, sizeof C);
  if (winner(buffers, NULL, NULL, 0) != LOOPWRIGHT_NPU_OK || wrong_sums()) return 3;
  buffers[1] = NULL;
  if (winner(buffers, &report, error, sizeof error) != LOOPWRIGHT_NPU_BAD_REQUEST ||
      report != NULL || strcmp(error, "argument 1 is null") != 0)
    return 4;
  buffers[1] = B;

  if (argc != 2 || (file = fopen(argv[1], "rb")) == NULL) return 5;
  if (fread(bytes, 1, sizeof bytes, file) != WINNER_MODULE_BYTES || fclose(file) != 0) return 6;
  if (memcmp(bytes, winner_module, WINNER_MODULE_BYTES) != 0) return 7;
  if (loopwright_npu_module_open(bytes, WINNER_MODULE_BYTES, &module, error, sizeof error) !=
          LOOPWRIGHT_NPU_OK ||
      loopwright_npu_time(loopwright_npu_module_machine(module),
                          loopwright_npu_module_program(module), &report, error, sizeof error) !=
          LOOPWRIGHT_NPU_OK)
    return 8;
  if (loopwright_npu_report_cycles(report) != cycles) return 9;
  printf("equal, after %lld cycles\n", (long long)cycles);
  loopwright_npu_report_free(report);
  loopwright_npu_module_close(module);
  return 0;
}
