/* Tuned schedules and kernels, from C. The C++ interface behind it: client.h, kernel.h.
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
 * A kernel in one line, of what was exported (no code generator is needed to run it):
 *
 *   loopwright_kernel* dense;
 *   loopwright_kernel_load("out/dense.so", &dense, error, sizeof error);
 *   void* buffers[] = {A, B, bias, D};
 *   loopwright_call call = {sizeof call, buffers};
 *   loopwright_kernel_run(dense, &call, error, sizeof error);
 *
 * Strings are UTF-8 and end with a zero; what an answer gives lives as long as the answer. No
 * function throws, or ends the process for what its arguments say. `error` (may be null) receives a
 * message cut to `error_size` bytes. Clients and kernels may be used from several threads;
 * answers are read only. */
#ifndef LOOPWRIGHT_CLIENT_H
#define LOOPWRIGHT_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "loopwright/context.h"

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

/* What a schedule is asked for. Zero or null stands for the default of each. */
typedef struct loopwright_task {
  size_t size;             /* sizeof(loopwright_task) of the caller */
  const char* workload;    /* words ("matmul M=512"), or a program's text, which has a line break */
  const char* target;      /* "host" */
  int32_t threads;         /* all that this process may use */
  const char* const_names; /* inputs known before the timed calls: "B,bias" or "none"; as the op
                              says */
  const char* allow;       /* what is less exact: "winograd", "bf16", "winograd,bf16"; nothing */
} loopwright_task;
int32_t loopwright_lookup_task(loopwright_client* client, const loopwright_task* task,
                               loopwright_answer** answer, char* error, size_t error_size);
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

/* ---- kernels ---------------------------------------------------------------------------------
 *
 * A kernel's code never changes, and any number of threads may run it at once. Arguments are as
 * context.h says; what is wrong with one is said by its name, and nothing is run. */

typedef struct loopwright_kernel loopwright_kernel;

/* Looks the task up and generates its code here. `client` may be null: then, and on a miss, it is
 * the schedule that was derived without a measurement. What is not "exact" (its `outcome` in
 * loopwright_kernel_info) was never run before. LOOPWRIGHT_NOT_FOUND: a miss with `frozen` or
 * `no_default`; LOOPWRIGHT_BAD_REQUEST: also a target whose kernels do not run in a process
 * (loopwright_export makes what launches them). */
int32_t loopwright_kernel_open(loopwright_client* client, const loopwright_task* task,
                               loopwright_kernel** kernel, char* error, size_t error_size);
/* Of `loopwright export --shared`: NAME.so, or NAME.json, whose sha256 of NAME.so must then hold.
 * LOOPWRIGHT_ENVIRONMENT: there is no such file, it is not what it was, or this processor lacks
 * what the kernel uses; LOOPWRIGHT_BAD_REQUEST: no kernel, or one of another ABI. */
int32_t loopwright_kernel_load(const char* path, loopwright_kernel** kernel, char* error,
                               size_t error_size);
/* Of an exported object that is linked into this program: &NAME_kernel. */
int32_t loopwright_kernel_of(const lw_kernel* table, loopwright_kernel** kernel, char* error,
                             size_t error_size);
void loopwright_kernel_close(loopwright_kernel* kernel); /* no call runs any more; null is allowed */

/* What it says of itself, as long as the kernel lives: sizes, arguments, digest. */
const lw_kernel* loopwright_kernel_table(const loopwright_kernel* kernel);
/* The same and more (trace, outcome, target) as JSON. */
const char* loopwright_kernel_info(const loopwright_kernel* kernel);
/* That loopwright_call::workspace must have, with so many workers; 0: for a call that says 0. */
int64_t loopwright_kernel_workspace_bytes(const loopwright_kernel* kernel, int32_t workers);

/* Reads the const inputs of `buffers` and writes the table's packed_bytes at `packed`, which is
 * 64-byte aligned and the caller's, until it is packed anew: when a const input changes. Where
 * packed_bytes is 0 it does nothing. */
int32_t loopwright_kernel_prepack(const loopwright_kernel* kernel, void* const* buffers,
                                  void* packed, char* error, size_t error_size);

typedef struct loopwright_call {
  size_t size;          /* sizeof(loopwright_call) of the caller */
  void* const* buffers; /* one pointer an argument, inputs first; const ones that are packed and not
                           read by the run (LW_READ_BY_RUN) may be null */
  void* packed;         /* null where packed_bytes is 0 */
  void* workspace;      /* 64-byte aligned; null: one that the kernel keeps for its callers */
  int32_t workers;      /* 0: those it was tuned for, of our own pool at most its threads */
  /* Where its workers come from. Neither: this process' one pool, which all kernels share, which is
   * not pinned, and which a child of fork() makes anew. */
  void (*parallel_for)(void* pool, int64_t count,
                       void (*body)(void* closure, int64_t index, int64_t worker),
                       void* closure); /* as lw_context has it */
  /* Makes a foreign pool call task(argument) once, whenever and on whichever thread it likes; the
   * call ends also where it never does. */
  void (*schedule)(void* pool, void (*task)(void* argument), void* argument);
  void* pool;
} loopwright_call;
int32_t loopwright_kernel_run(const loopwright_kernel* kernel, const loopwright_call* call,
                              char* error, size_t error_size);

/* Of our own pool; 0: as many as this process has processors. */
void loopwright_set_num_threads(int32_t threads);

/* What `loopwright export` writes, for any target: an object and its header, or an artifact and the
 * C that launches it, into `folder`, which is made. `entry`: the symbol and the files' name; null
 * for the op's. `shared`: nonzero for NAME.so too. */
int32_t loopwright_export(loopwright_client* client, const loopwright_task* task,
                          const char* folder, const char* entry, int32_t shared, char* error,
                          size_t error_size);

#ifdef __cplusplus
}
#endif
#endif
