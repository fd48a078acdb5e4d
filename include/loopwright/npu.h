/* A simulated NPU, from C: programs for it read, timed and executed. What a machine is, what
 * programs say, how long they take and what they compute: docs/npu.md. It needs nothing else of
 * Loopwright. The C++ interface behind it: src/npu/.
 *
 *   char error[256];
 *   loopwright_npu* npu;
 *   loopwright_npu_program* program;
 *   loopwright_npu_report* report;
 *   uint8_t bytes[128] = {1, 2, 3};
 *   loopwright_npu_buffer dram = {0, bytes, sizeof bytes, 1};
 *   const char* text = "ld n0=64 signal=0\nst dram=64 n0=64 wait=0\n";
 *   if (loopwright_npu_open("mid32", &npu, error, sizeof error) != LOOPWRIGHT_NPU_OK ||
 *       loopwright_npu_assemble(npu, text, &program, error, sizeof error) != LOOPWRIGHT_NPU_OK ||
 *       loopwright_npu_execute(npu, program, &dram, 1, 1, &report, error, sizeof error) !=
 *           LOOPWRIGHT_NPU_OK) {
 *     puts(error);
 *   }
 *   printf("%lld cycles\n", (long long)loopwright_npu_report_cycles(report));
 *
 * Strings are UTF-8 and end with a zero; what a handle gives lives as long as the handle. Handles
 * are read only once they are made, and may be used from several threads; none needs another to
 * stay open. No function ends the process for what its arguments say. `error` (may be null) receives a
 * message cut to `error_size` bytes; where a function fails it makes nothing, and says null, unless
 * it says otherwise here. */
#ifndef LOOPWRIGHT_NPU_H
#define LOOPWRIGHT_NPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are those of npu_sim's exit codes; they never change. */
enum {
  LOOPWRIGHT_NPU_OK = 0,
  LOOPWRIGHT_NPU_BAD_REQUEST = 1, /* the configuration, the program or an argument is wrong */
  LOOPWRIGHT_NPU_NO_END = 3,      /* a deadlock, or a semaphore that overflows */
  LOOPWRIGHT_NPU_RACE = 4,        /* accesses that no token orders */
  LOOPWRIGHT_NPU_ENVIRONMENT = 5, /* a file that cannot be read */
  LOOPWRIGHT_NPU_BOUNDS = 6,      /* DRAM that is in no buffer, or in one that may not be written */
  LOOPWRIGHT_NPU_BUG = 70
};

typedef struct loopwright_npu loopwright_npu;
typedef struct loopwright_npu_program loopwright_npu_program;
typedef struct loopwright_npu_report loopwright_npu_report;
typedef struct loopwright_npu_module loopwright_npu_module;

/* The shipped configurations' names, a line each. */
const char* loopwright_npu_configurations(void);

/* `configuration`: a shipped one's name ("mid32"), a file's path (it has a '/' or ends in ".json"),
 * or JSON itself (it begins with a '{'). */
int32_t loopwright_npu_open(const char* configuration, loopwright_npu** npu, char* error,
                            size_t error_size);
void loopwright_npu_close(loopwright_npu* npu); /* null is allowed, here and below */
const char* loopwright_npu_configuration(const loopwright_npu* npu); /* as JSON */

/* From text, an instruction a line; `error`: a line for each that is wrong, with its place. */
int32_t loopwright_npu_assemble(const loopwright_npu* npu, const char* text,
                                loopwright_npu_program** program, char* error, size_t error_size);
/* From an image, as `npu_sim assemble` and loopwright_npu_program_image write it. */
int32_t loopwright_npu_decode(const loopwright_npu* npu, const void* image, size_t size,
                              loopwright_npu_program** program, char* error, size_t error_size);
void loopwright_npu_program_free(loopwright_npu_program* program);
int64_t loopwright_npu_program_instructions(const loopwright_npu_program* program);
const char* loopwright_npu_program_text(const loopwright_npu_program* program);
const void* loopwright_npu_program_image(const loopwright_npu_program* program, size_t* size);

/* How long it takes; no value is computed. LOOPWRIGHT_NPU_NO_END: `error` says which engine waits
 * for what, and the report is there nevertheless, up to then. */
int32_t loopwright_npu_time(const loopwright_npu* npu, const loopwright_npu_program* program,
                            loopwright_npu_report** report, char* error, size_t error_size);

typedef struct loopwright_npu_buffer {
  uint64_t address;         /* of its first byte in DRAM, below 2^40 */
  void* bytes;              /* the caller's */
  uint64_t size;
  int32_t writable;         /* zero: no program may write it */
} loopwright_npu_buffer;

/* The same, and what it computes: reads and writes the buffers, which are all there is of DRAM and
 * must not overlap. SPM and ACC begin with bytes that no program should depend on. `races`: nonzero
 * looks for them. LOOPWRIGHT_NPU_RACE: the buffers are as this order in time leaves them;
 * LOOPWRIGHT_NPU_NO_END, _BOUNDS: they are as they were. The report is there with all three. */
int32_t loopwright_npu_execute(const loopwright_npu* npu, const loopwright_npu_program* program,
                               const loopwright_npu_buffer* dram, size_t count, int32_t races,
                               loopwright_npu_report** report, char* error, size_t error_size);
void loopwright_npu_report_free(loopwright_npu_report* report);

/* A module: a program together with its machine and with where its arguments lie in DRAM, as
 * `loopwright export` writes it (NAME.npu, and in NAME.c as an array). What does not suit its machine
 * is refused. */
int32_t loopwright_npu_module_open(const void* bytes, size_t size, loopwright_npu_module** module,
                                   char* error, size_t error_size);
void loopwright_npu_module_close(loopwright_npu_module* module);
/* Its parts, for the functions above; they live as long as it does and are not to be closed. */
const loopwright_npu* loopwright_npu_module_machine(const loopwright_npu_module* module);
const loopwright_npu_program* loopwright_npu_module_program(const loopwright_npu_module* module);
/* Its arguments, from 0: as many, of so many bytes, and whether the program writes them. Of one that
 * it does not have, 0. */
size_t loopwright_npu_module_arguments(const loopwright_npu_module* module);
uint64_t loopwright_npu_module_argument_bytes(const loopwright_npu_module* module, size_t argument);
int32_t loopwright_npu_module_argument_written(const loopwright_npu_module* module,
                                               size_t argument);

/* loopwright_npu_execute() on the arguments: a pointer for each, in order, `count` of them, to memory
 * that does not overlap. Its workspace is its own and begins with zeros. `report` may be null. */
int32_t loopwright_npu_module_run(const loopwright_npu_module* module, void* const* arguments,
                                  size_t count, int32_t races, loopwright_npu_report** report,
                                  char* error, size_t error_size);

int64_t loopwright_npu_report_cycles(const loopwright_npu_report* report);
double loopwright_npu_report_ns(const loopwright_npu_report* report); /* by the machine's clock */
/* Cycles that no order of its instructions beats, and what sets them: "mac", "array", "dma",
 * "vector" or "dispatch". */
double loopwright_npu_report_bound(const loopwright_npu_report* report);
const char* loopwright_npu_report_limit(const loopwright_npu_report* report);
/* What is wrong, a line each, 20 at most; "": nothing. */
const char* loopwright_npu_report_errors(const loopwright_npu_report* report);
int64_t loopwright_npu_report_races(const loopwright_npu_report* report); /* all of them */
int64_t loopwright_npu_report_overflows(const loopwright_npu_report* report); /* of int32 sums */
/* As `npu_sim run` prints it, with --json and without, and its --timeline. */
const char* loopwright_npu_report_json(const loopwright_npu_report* report);
const char* loopwright_npu_report_text(const loopwright_npu_report* report);
const char* loopwright_npu_report_timeline(const loopwright_npu_report* report);

#ifdef __cplusplus
}
#endif
#endif
