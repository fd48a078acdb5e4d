/* Runs the exported softmax on the first GPU and compares it with plain C. Prints "ok" and returns
 * 0; 1 where something is wrong, 77 where there is no GPU. Programs that have <cuda.h> include that
 * instead of the declarations here. */
#include "softmax.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* M, N: rows and columns, that it was exported for (CMakeLists.txt). */
static float x[M * N], y[M * N];

/* Of the driver's API, in the order of `names`. */
static struct {
  int (*init)(unsigned flags);
  int (*get_device)(int* device, int number);
  int (*get_name)(char* name, int size, int device);
  int (*retain_context)(void** context, int device);
  int (*release_context)(int device);
  int (*set_context)(void* context);
  int (*create_stream)(void** stream, unsigned flags);
  int (*wait_for_stream)(void* stream);
  int (*destroy_stream)(void* stream);
  int (*allocate)(unsigned long long* memory, size_t bytes);
  int (*release)(unsigned long long memory);
  int (*copy_to)(unsigned long long to, const void* from, size_t bytes, void* stream);
  int (*copy_from)(void* to, unsigned long long from, size_t bytes, void* stream);
} cuda;
static const char* const names[] = {
    "cuInit", "cuDeviceGet", "cuDeviceGetName", "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent", "cuStreamCreate", "cuStreamSynchronize",
    "cuStreamDestroy_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2"};

static int load_cuda(void) {
  size_t i;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return 0;
  for (i = 0; i < sizeof names / sizeof names[0]; ++i) {
    void* symbol = dlsym(library, names[i]);
    if (symbol == NULL) return 0;
    memcpy((char*)&cuda + i * sizeof symbol, &symbol, sizeof symbol);
  }
  return 1;
}

static int fail(const char* what, int error) {
  fprintf(stderr, "%s: error %d\n", what, error);
  return 1;
}

/* The largest difference from what the definition says. */
static double difference(void) {
  double most = 0;
  int i, j;
  for (i = 0; i < M; ++i) {
    double top = -INFINITY, total = 0;
    for (j = 0; j < N; ++j) top = fmax(top, x[i * N + j]);
    for (j = 0; j < N; ++j) total += exp(x[i * N + j] - top);
    for (j = 0; j < N; ++j)
      most = fmax(most, fabs(exp(x[i * N + j] - top) / total - y[i * N + j]));
  }
  return most;
}

/* One call, in `stream`, on buffers made here; the result is then in y. */
static int run(void* stream, softmax_kernel* kernel) {
  unsigned long long in = 0, out = 0;
  uint64_t buffers[SOFTMAX_BUFFERS];       /* inputs, then outputs */
  int error = cuda.allocate(&in, SOFTMAX_BUFFER_0_BYTES);
  if (error == 0) error = cuda.allocate(&out, SOFTMAX_BUFFER_1_BYTES);
  if (error != 0) {
    if (in != 0) cuda.release(in);
    return fail("cuMemAlloc", error);
  }
  buffers[0] = in;
  buffers[1] = out;
  error = cuda.copy_to(in, x, sizeof x, stream);
  if (error != 0) fail("cuMemcpyHtoDAsync", error);
  if (error == 0) {
    error = softmax_prepack(kernel, stream, buffers);          /* once; here it is nothing */
    if (error == 0) error = softmax_enqueue(kernel, stream, buffers);
    if (error != 0) fail(softmax_error(kernel), error);
  }
  if (error == 0) {
    error = cuda.copy_from(y, out, sizeof y, stream);
    if (error == 0) error = cuda.wait_for_stream(stream);
    if (error != 0) fail("cuMemcpyDtoHAsync", error);
  }
  cuda.release(in);
  cuda.release(out);
  return error != 0;
}

/* All that is done in the GPU's context. */
static int run_in_context(void) {
  softmax_kernel* kernel = NULL;
  void* stream = NULL;
  char log[4096] = "";
  int failed, error = softmax_create(&kernel, log, sizeof log);
  if (error != 0) return fail(log, error);
  error = cuda.create_stream(&stream, 0);
  failed = error != 0 ? fail("cuStreamCreate", error) : run(stream, kernel);
  softmax_release(kernel);
  if (stream != NULL) cuda.destroy_stream(stream);
  return failed;
}

int main(void) {
  void* context = NULL;
  char name[256] = "";
  int device = 0, error, failed, i;
  if (!load_cuda() || cuda.init(0) != 0 || cuda.get_device(&device, 0) != 0) {
    puts("no GPU of NVIDIA's is here");
    return 77;
  }
  cuda.get_name(name, sizeof name - 1, device);
  for (i = 0; i < M * N; ++i) x[i] = (float)(i * 37 % 1001) / 100 - 5;
  error = cuda.retain_context(&context, device);
  if (error != 0) return fail("cuDevicePrimaryCtxRetain", error);
  error = cuda.set_context(context);
  failed = error != 0 ? fail("cuCtxSetCurrent", error) : run_in_context();
  cuda.release_context(device);
  if (failed) return 1;
  if (!(difference() < 1e-6)) {
    fprintf(stderr, "%s: wrong by %g\n", name, difference());
    return 1;
  }
  printf("ok: %d x %d on %s, wrong by %.1g at most\n", M, N, name, difference());
  return 0;
}
