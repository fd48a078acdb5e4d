/* The C interface as a compiler written in C sees it: strict C99, no C++ header. */
#include <stdio.h>
#include <string.h>

#include "loopwright/loopwright.h"


int main(void) {
  loopwright_options options = {.size = sizeof options};
  loopwright_client* client = NULL;
  loopwright_answer* answer = NULL;
  char error[128] = "";
  if (loopwright_open(&options, &client, error, sizeof error) != LOOPWRIGHT_OK) return 1;
  if (loopwright_lookup(client, "matmul M=24 N=40 K=16", "x86_avx2", 1, &answer, error,
                        sizeof error) != LOOPWRIGHT_OK) {
    puts(error);
    return 2;
  }
  if (strcmp(loopwright_answer_outcome(answer), "default") != 0) return 3;
  if (strlen(loopwright_answer_trace(answer)) == 0) return 4;
  printf("%s", loopwright_answer_trace(answer));
  loopwright_answer_free(answer);
  if (loopwright_lookup(client, "no_such_op", NULL, 1, &answer, error, sizeof error) !=
      LOOPWRIGHT_BAD_REQUEST)
    return 5;
  if (answer != NULL || strlen(error) == 0) return 6;
  loopwright_close(client);
  return 0;
}
