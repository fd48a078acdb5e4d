/* What a compiled kernel receives, in C: the same in the tuner, in an exported object and in a
 * compiler's output. The kernel is
 *     int32_t NAME(const lw_context* context, void* const* buffers);
 * with one pointer per argument (inputs, then outputs, in order of declaration), contiguous
 * row-major, aligned to their element, inputs and outputs not overlapping. Where the metadata says
 * packed_bytes > 0, run NAME_prepack once (same arguments; it reads the const inputs and writes
 * context->packed) before NAME. Returns 0. Thread-safe: it may run concurrently with itself given
 * separate contexts and outputs. It leaves the floating-point environment as it is and calls
 * nothing but parallel_for. */
#ifndef LOOPWRIGHT_CONTEXT_H
#define LOOPWRIGHT_CONTEXT_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct lw_context {
  /* Runs body(closure, i, worker) for i in [0, count), worker in [0, workers), and returns when all
   * are done. Calls with the same worker never overlap. NULL: the kernel runs them in order. */
  void (*parallel_for)(void* pool, int64_t count,
                       void (*body)(void* closure, int64_t index, int64_t worker), void* closure);
  void* pool;
  int64_t workers;   /* at least 1 */
  void* workspace;   /* 64-byte aligned; workspace_bytes + workers * private_bytes, each
                         rounded up to 64 */
  void* packed;      /* 64-byte aligned; packed_bytes; NULL when that is 0 */
} lw_context;

#ifdef __cplusplus
}
#endif
#endif
