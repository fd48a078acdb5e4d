/* asks_server ADDRESS WORKLOAD TARGET: looks one schedule up at a server, with patience, and prints
 * where the answer came from. Its exit code is loopwright.h's. */
#include <stdio.h>

#include "loopwright/loopwright.h"

int main(int argc, char** argv) {
  loopwright_options options = {.size = sizeof options};
  loopwright_client* client = NULL;
  loopwright_answer* answer = NULL;
  char error[512] = "";
  int32_t code;
  if (argc != 4) return LOOPWRIGHT_BUG;
  options.server = argv[1];
  options.deadline_ms = 20000;
  code = loopwright_open(&options, &client, error, sizeof error);
  if (code == LOOPWRIGHT_OK) {
    code = loopwright_lookup(client, argv[2], argv[3], 1, &answer, error, sizeof error);
  }
  if (code == LOOPWRIGHT_OK) {
    printf("%s %s\n", loopwright_answer_outcome(answer), loopwright_answer_origin(answer));
  } else {
    puts(error);
  }
  loopwright_answer_free(answer);
  loopwright_close(client);
  return code;
}
