/* Kernel ABI 1: what a compiled kernel receives and what it says of itself, in C; the same in the
 * tuner, in an exported object and in a compiler's output. The kernel is
 *     int32_t NAME(const lw_context* context, void* const* buffers);
 * with one pointer per argument (inputs, then outputs, in order of declaration), contiguous
 * row-major, aligned to their element, inputs and outputs not overlapping. Where the metadata says
 * packed_bytes > 0, run NAME_prepack once (same arguments; it reads the const inputs and writes
 * context->packed) before NAME. Returns 0. Thread-safe: it may run concurrently with itself given
 * separate contexts and outputs, which may share packed memory. It leaves the floating-point
 * environment as it is and calls nothing but parallel_for. */
#ifndef LOOPWRIGHT_CONTEXT_H
#define LOOPWRIGHT_CONTEXT_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Increased when a struct of this file changes other than at its end. */
#define LOOPWRIGHT_ABI 1

typedef struct lw_context {
  /* Runs body(closure, i, worker) for i in [0, count), worker in [0, workers), and returns when all
   * are done. Calls with the same worker never overlap. NULL: the kernel runs them in order. */
  void (*parallel_for)(void* pool, int64_t count,
                       void (*body)(void* closure, int64_t index, int64_t worker), void* closure);
  void* pool;
  int64_t workers;   /* at least 1; any number is right, also fewer than it was tuned for */
  void* workspace;   /* 64-byte aligned; workspace_bytes + workers * private_bytes, each
                         rounded up to 64 */
  void* packed;      /* 64-byte aligned; packed_bytes; NULL when that is 0 */
} lw_context;

enum {
  LW_OUTPUT = 1,      /* else an input */
  LW_CONST = 2,       /* NAME_prepack may read it: pack again when it changes */
  LW_READ_BY_RUN = 4  /* NAME reads it; a const input without may be freed once it is packed */
};

typedef struct lw_argument {
  const char* name;
  const char* type;     /* of an element, by the language's name: "f32", "bf16", "i8", "bool" */
  const int64_t* shape; /* `rank` extents */
  int32_t rank;
  int32_t flags;        /* LW_OUTPUT, ... */
  int64_t bytes;        /* of the whole tensor */
  int64_t alignment;    /* of its first byte: the size of an element. At 64, large outputs may be
                           stored past the caches. */
} lw_argument;

/* What a kernel says of itself: an object that exports NAME has NAME_kernel too. */
typedef struct lw_kernel {
  int32_t abi;          /* LOOPWRIGHT_ABI of who made it; nothing else means anything without it */
  int32_t arguments;    /* how many */
  const lw_argument* argument;
  const char* name;
  int32_t (*run)(const lw_context* context, void* const* buffers);
  int32_t (*prepack)(const lw_context* context, void* const* buffers); /* NULL: nothing to pack */
  int64_t workspace_bytes, private_bytes, packed_bytes; /* as lw_context has them */
  int64_t threads;      /* that it was tuned for */
  const char* features; /* that the processor must have, by LLVM's names: "avx2 fma"; "": none */
  const char* digest;   /* of its key and code, sha256 in hexadecimal: equal code, equal digest */
  const char* facts;    /* JSON: what NAME.json says, without what measuring again would change */
} lw_kernel;

#ifdef __cplusplus
}
#endif
#endif
