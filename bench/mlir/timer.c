/* Times one operator's kernels beside each other: ours, others that are called as ours are, and
 * objects that stock MLIR made.
 *   timer INPUTS BYTES,... WORKSPACE PACKED BYTES,... SYMBOL OURS ours.so ... theirs.so ...
 * The second list is of what theirs make once, arguments behind the others ("": none); OURS
 * libraries are called as ours are. All elements are f32, small whole numbers. Prints the medians in
 * us, in order, and the largest relative difference between the first of ours and any other. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kArguments = 8, kFirst = 8, kLibraries = 6, kRounds = 15 };
static const double kRoundUs = 20000;

/* As an exported header has it. */
typedef struct {
  void (*parallel_for)(void*, int64_t, void (*)(void*, int64_t, int64_t), void*);
  void* pool;
  int64_t workers;
  void *workspace, *packed;
} context_t;
typedef int32_t (*ours_t)(const context_t*, void* const*);

static void call(void* function, int count, void** p) {
  typedef void* P;
  switch (count) {
    case 2: ((void (*)(P, P))function)(p[0], p[1]); return;
    case 3: ((void (*)(P, P, P))function)(p[0], p[1], p[2]); return;
    case 4: ((void (*)(P, P, P, P))function)(p[0], p[1], p[2], p[3]); return;
    case 5: ((void (*)(P, P, P, P, P))function)(p[0], p[1], p[2], p[3], p[4]); return;
    case 6: ((void (*)(P, P, P, P, P, P))function)(p[0], p[1], p[2], p[3], p[4], p[5]); return;
    case 7:
      ((void (*)(P, P, P, P, P, P, P))function)(p[0], p[1], p[2], p[3], p[4], p[5], p[6]);
      return;
    default: fprintf(stderr, "timer: %d arguments\n", count); exit(1);
  }
}

static void* aligned(size_t bytes) {
  void* memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (memory == NULL) exit(1);
  memset(memory, 0, bytes);
  return memory;
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void* symbol(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* function = handle == NULL ? NULL : dlsym(handle, name);
  if (function == NULL) {
    fprintf(stderr, "timer: %s\n", dlerror());
    exit(1);
  }
  return function;
}

/* What makes of constants what a library makes once. */
static void* prepack_of(const char* library, const char* name) {
  char prepack[256];
  snprintf(prepack, sizeof prepack, "%s_prepack", name);
  return symbol(library, prepack);
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  if (argc <= kFirst + 1) return 1;
  const int inputs = atoi(argv[1]), libraries = argc - kFirst, ours = atoi(argv[7]);
  const char* name = argv[6];
  int count = 0;
  size_t bytes[kArguments];
  void* p[kArguments];
  for (char* word = strtok(argv[2], ","); word != NULL && count < kArguments;
       word = strtok(NULL, ",")) {
    bytes[count] = strtoull(word, NULL, 10);
    p[count] = aligned(bytes[count]);
    for (size_t i = 0; count < inputs && i < bytes[count] / 4; ++i)
      ((float*)p[count])[i] = (float)((int)((i * 7 + i / 5) % 5) - 2);
    ++count;
  }
  int with_packed = count;
  for (char* word = strtok(argv[5], ","); word != NULL && with_packed < kArguments;
       word = strtok(NULL, ","))
    p[with_packed++] = aligned(strtoull(word, NULL, 10));
  void* functions[kLibraries];
  if (libraries > kLibraries) return 1;
  for (int n = 0; n < libraries; ++n) functions[n] = symbol(argv[kFirst + n], name);
  const size_t packed = strtoull(argv[4], NULL, 10);
  context_t context = {NULL, NULL, 1, aligned(strtoull(argv[3], NULL, 10)),
                       packed > 0 ? aligned(packed) : NULL};
  if (packed > 0 && ((ours_t)prepack_of(argv[kFirst], name))(&context, p) != 0) return 1;
  if (with_packed > count) call(prepack_of(argv[kFirst + ours], name), with_packed, p);
  double us[kLibraries][kRounds];
  long calls[kLibraries];
  float* first = aligned(bytes[count - 1]);
  float* out = p[count - 1];
  double difference = 0;
  for (int round = -1; round < kRounds; ++round) {
    for (int n = 0; n < libraries; ++n) {
      if (round < 0) calls[n] = 1;
      const double start = now_us();
      for (long c = 0; c < calls[n]; ++c) {
        if (n < ours && ((ours_t)functions[n])(&context, p) != 0) return 1;
        if (n >= ours) call(functions[n], with_packed, p);
      }
      const double each = (now_us() - start) / (double)calls[n];
      if (round >= 0) {
        us[n][round] = each;
        continue;
      }
      calls[n] = (long)fmax(1, fmin(1e6, kRoundUs / fmax(each, 1e-3)));
      if (n == 0) memcpy(first, out, bytes[count - 1]);
      for (size_t i = 0; n > 0 && i < bytes[count - 1] / 4; ++i)
        difference = fmax(difference, fabs(out[i] - first[i]) / fmax(1, fabs(first[i])));
    }
  }
  for (int n = 0; n < libraries; ++n) {
    qsort(us[n], kRounds, sizeof(double), ascending);
    printf("%.2f ", us[n][kRounds / 2]);
  }
  printf("%g\n", difference);
  return 0;
}
