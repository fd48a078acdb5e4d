/* The simulated NPU as a program in strict C99 sees it: a product of 16 x 16 by 16 x 16 bytes,
 * timed, computed and compared; what is wrong is told apart. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "loopwright/npu.h"

static const char kProduct[] =
    "ld dram=0x000 loc=0x000 n0=256 signal=0\n"       /* A[m, k] */
    "ld dram=0x100 loc=0x100 n0=256 signal=1\n"       /* B[n, k] */
    "mx.ldw w=0x100 k=16 n=16 wstr=16 trans=1 wait=1\n"
    "mx.mm a=0x000 m=16 astr1=16 acc=0 accstr=16 k=16 n=16 swap=1 wait=0 signal=2\n"
    "st dram=0x200 loc=0 space=acc n0=1024 wait=2\n"
    "halt\n";

static int8_t bytes[512];
static int32_t sums[256];

static int wrong_sums(void) {
  int m, n, k;
  for (m = 0; m < 16; ++m) {
    for (n = 0; n < 16; ++n) {
      int32_t sum = 0;
      for (k = 0; k < 16; ++k) sum += bytes[m * 16 + k] * bytes[256 + n * 16 + k];
      if (sum != sums[m * 16 + n]) return 1;
    }
  }
  return 0;
}

int main(void) {
  loopwright_npu_buffer dram[2] = {{0, bytes, sizeof bytes, 0}, {512, sums, sizeof sums, 1}};
  loopwright_npu* npu = NULL;
  loopwright_npu_program *program = NULL, *again = NULL, *beyond = NULL, *stuck = NULL;
  loopwright_npu_report *timed = NULL, *run = NULL;
  char error[256] = "";
  size_t size = 0, i;
  for (i = 0; i < sizeof bytes; ++i) bytes[i] = (int8_t)(i * 37 % 251 - 125);

  if (strstr(loopwright_npu_configurations(), "edge16\n") == NULL) return 1;
  if (loopwright_npu_open("edge16", &npu, error, sizeof error) != LOOPWRIGHT_NPU_OK) return 2;
  if (loopwright_npu_assemble(npu, kProduct, &program, error, sizeof error) != LOOPWRIGHT_NPU_OK) {
    puts(error);
    return 3;
  }
  const void* image = loopwright_npu_program_image(program, &size);
  if (loopwright_npu_decode(npu, image, size, &again, error, sizeof error) != LOOPWRIGHT_NPU_OK ||
      strcmp(loopwright_npu_program_text(program), loopwright_npu_program_text(again)) != 0)
    return 4;

  if (loopwright_npu_time(npu, again, &timed, error, sizeof error) != LOOPWRIGHT_NPU_OK) return 5;
  if (loopwright_npu_execute(npu, program, dram, 2, 1, &run, error, sizeof error) !=
      LOOPWRIGHT_NPU_OK) {
    puts(error);
    return 6;
  }
  if (wrong_sums()) return 7;
  if (loopwright_npu_report_cycles(run) != loopwright_npu_report_cycles(timed)) return 8;
  if (strstr(loopwright_npu_report_json(run), "\"ending\": \"done\"") == NULL) return 9;
  printf("%s", loopwright_npu_report_text(run));
  loopwright_npu_report_free(timed);
  loopwright_npu_report_free(run);

  if (loopwright_npu_assemble(npu, "st dram=4096 n0=64\n", &beyond, error, sizeof error) !=
          LOOPWRIGHT_NPU_OK ||
      loopwright_npu_execute(npu, beyond, dram, 2, 1, &run, error, sizeof error) !=
          LOOPWRIGHT_NPU_BOUNDS)
    return 10;
  loopwright_npu_report_free(run);
  if (loopwright_npu_assemble(npu, "st n0=64 wait=3\n", &stuck, error, sizeof error) !=
          LOOPWRIGHT_NPU_OK ||
      loopwright_npu_time(npu, stuck, &run, error, sizeof error) != LOOPWRIGHT_NPU_NO_END ||
      strstr(error, "waits for a token") == NULL)
    return 11;
  loopwright_npu_report_free(run);
  loopwright_npu_program_free(program);
  loopwright_npu_program_free(again);
  loopwright_npu_program_free(beyond);
  loopwright_npu_program_free(stuck);
  loopwright_npu_close(npu);
  return 0;
}
