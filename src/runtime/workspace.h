/* Workspaces of kernels, in C: a part of our programs and, as text, of the functions that choose among
 * exported kernels. Calls leave theirs for those that follow, in a few slots, each empty or with a block;
 * who finds all empty asks the system, who finds all full gives back. Lock-free; thread-safe. */
#ifndef LOOPWRIGHT_WORKSPACE_H
#define LOOPWRIGHT_WORKSPACE_H
#include <stdint.h>
#include <stdlib.h>

#include "loopwright/context.h"

enum { LW_LINE = 64, LW_SLOTS = 16 };

static inline int64_t lw_whole_lines(int64_t bytes) {
  return (bytes + LW_LINE - 1) / LW_LINE * LW_LINE;
}

/* What a context with so many workers must have. */
static inline int64_t lw_workspace_bytes(const lw_kernel* kernel, int64_t workers) {
  return lw_whole_lines(kernel->workspace_bytes) + workers * lw_whole_lines(kernel->private_bytes);
}

/* At least so many bytes, 64-byte aligned; null: the system has none. bytes > 0. A line in front of each
 * block says how large it is. */
static inline void* lw_take(void** slots, int64_t bytes) {
  int i;
  char* memory;
  for (i = 0; i < LW_SLOTS; ++i) {
    if (__atomic_load_n(&slots[i], __ATOMIC_RELAXED) == NULL) continue;
    memory = (char*)__atomic_exchange_n(&slots[i], NULL, __ATOMIC_ACQUIRE);
    if (memory == NULL) continue;
    if (*(int64_t*)memory >= bytes) return memory + LW_LINE;
    free(memory); /* of a call with fewer workers */
  }
  memory = (char*)aligned_alloc(LW_LINE, (size_t)(LW_LINE + lw_whole_lines(bytes)));
  if (memory == NULL) return NULL;
  *(int64_t*)memory = lw_whole_lines(bytes);
  return memory + LW_LINE;
}

/* What lw_take() gave. */
static inline void lw_give(void** slots, void* block) {
  int i;
  char* memory = (char*)block - LW_LINE;
  for (i = 0; i < LW_SLOTS; ++i) {
    void* empty = NULL;
    if (__atomic_compare_exchange_n(&slots[i], &empty, (void*)memory, 0, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED)) {
      return;
    }
  }
  free(memory);
}

/* When nobody calls any more. */
static inline void lw_free_all(void** slots) {
  int i;
  for (i = 0; i < LW_SLOTS; ++i) free(slots[i]);
}
#endif
