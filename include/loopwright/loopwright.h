/* Tuned schedules for compilers, from C. The C++ interface behind it: client.h.
 *
 *   loopwright_options options = {sizeof options};
 *   options.snapshot = "kernels.lws";
 *   loopwright_client* client;
 *   char error[256];
 *   if (loopwright_open(&options, &client, error, sizeof error) != LOOPWRIGHT_OK) puts(error);
 *   loopwright_answer* answer;
 *   if (loopwright_lookup(client, "matmul M=512", "host", 1, &answer, error, sizeof error) == 0) {
 *     puts(loopwright_answer_trace(answer));
 *   }
 *   loopwright_answer_free(answer);
 *   loopwright_close(client);
 *
 * Strings are UTF-8 and end with a zero; what an answer gives lives as long as the answer. No
 * function throws, or ends the process for what its arguments say. `error` (may be null) receives a
 * message cut to `error_size` bytes. Clients may be used from several threads; answers are read
 * only. */
#ifndef LOOPWRIGHT_CLIENT_H
#define LOOPWRIGHT_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are those of the commands' exit codes; they never change. */
enum {
  LOOPWRIGHT_OK = 0,
  LOOPWRIGHT_BAD_REQUEST = 1, /* a workload that is none, an unknown target, a null argument */
  LOOPWRIGHT_NOT_FOUND = 2,   /* a miss with `frozen` */
  LOOPWRIGHT_ENVIRONMENT = 5, /* a snapshot that is missing or damaged */
  LOOPWRIGHT_BUG = 70
};

typedef struct loopwright_client loopwright_client;
typedef struct loopwright_answer loopwright_answer;

/* Zero or null stands for the default of each. */
typedef struct loopwright_options {
  size_t size;              /* sizeof(loopwright_options) of the caller */
  const char* snapshot;     /* file of `loopwright db snapshot`; none */
  const char* cache_folder; /* none */
  const char* server;       /* host:port; none */
  int32_t deadline_ms;      /* that a lookup waits for the server; 50 */
  int32_t frozen;           /* nonzero: only what is stored exactly, and nothing from the server */
  int32_t no_default;       /* nonzero: a miss has no trace, instead of the zero-trial one */
  const char* tls_ca;       /* PEM files for a server beyond this machine: all three, or none */
  const char* tls_cert;
  const char* tls_key;
  int32_t insecure;         /* nonzero: plain text to another machine, which anybody may change */
} loopwright_options;

int32_t loopwright_open(const loopwright_options* options, loopwright_client** client, char* error,
                        size_t error_size);
void loopwright_close(loopwright_client* client); /* null is allowed */

/* `workload`: words ("matmul M=512 N=512 K=512") or a program's text. `target`: null for "host".
 * `threads`: 0 for all that this process may use. */
int32_t loopwright_lookup(loopwright_client* client, const char* workload, const char* target,
                          int32_t threads, loopwright_answer** answer, char* error,
                          size_t error_size);
/* All at once, one call to the server. answers[i] is null where workload i is a miss with `frozen`
 * (the result is then LOOPWRIGHT_NOT_FOUND) or is none; the other answers are there nevertheless
 * and must be freed. */
int32_t loopwright_lookup_batch(loopwright_client* client, const char* const* workloads,
                                size_t count, const char* target, int32_t threads,
                                loopwright_answer** answers, char* error, size_t error_size);
void loopwright_answer_free(loopwright_answer* answer); /* null is allowed */

/* "exact", "loose", "nearest-shape", "nearest-target" or "default". */
const char* loopwright_answer_outcome(const loopwright_answer* answer);
/* One step a line; "" for a default that was not asked for, and for the unscheduled program. */
const char* loopwright_answer_trace(const loopwright_answer* answer);
/* "cache", "snapshot", "server"; "" for the default. */
const char* loopwright_answer_origin(const loopwright_answer* answer);
double loopwright_answer_time_us(const loopwright_answer* answer); /* of the record; 0: none */
/* Where that time comes from: "measured", "emulated", "simulated", "estimated"; "": there is
   none. */
const char* loopwright_answer_time_kind(const loopwright_answer* answer);
double loopwright_answer_distance(const loopwright_answer* answer);
double loopwright_answer_predicted_loss(const loopwright_answer* answer); /* -1: unknown */
int32_t loopwright_answer_stale(const loopwright_answer* answer);
/* All of it: what `loopwright best --json` prints. */
const char* loopwright_answer_json(const loopwright_answer* answer);

#ifdef __cplusplus
}
#endif
#endif
