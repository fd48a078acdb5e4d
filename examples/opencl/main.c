/* Runs the exported softmax on the first OpenCL device and compares it with plain C. Prints "ok"
 * and returns 0; 1 where something is wrong, 77 where there is no device. */
#include "softmax.h"

#include <math.h>
#include <stdio.h>

/* M, N: rows and columns, that it was exported for (CMakeLists.txt). */
static float x[M * N], y[M * N];

static int fail(const char* what, cl_int error) {
  fprintf(stderr, "%s: error %d\n", what, (int)error);
  return 1;
}

static cl_int first_device(cl_device_id* device) {
  cl_platform_id platforms[16];
  cl_uint count = 0, i;
  cl_int error = clGetPlatformIDs(16, platforms, &count);
  if (error != CL_SUCCESS) return error;
  for (i = 0; i < count && i < 16; ++i) {
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, device, NULL) == CL_SUCCESS)
      return CL_SUCCESS;
  }
  return CL_DEVICE_NOT_FOUND;
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

/* One call, in `queue`, on buffers made here; the result is then in y. */
static int run(cl_context context, cl_command_queue queue, softmax_kernel* kernel) {
  cl_mem buffers[SOFTMAX_BUFFERS];         /* inputs, then outputs */
  cl_int error = CL_SUCCESS, failed;
  cl_event done = NULL;
  buffers[0] = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                              SOFTMAX_BUFFER_0_BYTES, x, &error);
  if (error != CL_SUCCESS) return fail("clCreateBuffer", error);
  buffers[1] = clCreateBuffer(context, CL_MEM_WRITE_ONLY, SOFTMAX_BUFFER_1_BYTES, NULL, &error);
  if (error != CL_SUCCESS) {
    clReleaseMemObject(buffers[0]);
    return fail("clCreateBuffer", error);
  }
  error = softmax_prepack(kernel, queue, buffers, 0, NULL);    /* once; here it is nothing */
  if (error == CL_SUCCESS) error = softmax_enqueue(kernel, queue, buffers, 0, NULL, &done);
  if (error == CL_SUCCESS) {
    error = clEnqueueReadBuffer(queue, buffers[1], CL_TRUE, 0, sizeof y, y, 1, &done, NULL);
    clReleaseEvent(done);
  }
  failed = error != CL_SUCCESS && fail("softmax", error);
  clReleaseMemObject(buffers[0]);
  clReleaseMemObject(buffers[1]);
  return failed;
}

int main(void) {
  softmax_kernel* kernel = NULL;
  cl_device_id device = NULL;
  cl_context context;
  cl_command_queue queue;
  char name[256] = "", log[4096] = "";
  cl_int error;
  int failed, i;
  if (first_device(&device) != CL_SUCCESS) {
    puts("no OpenCL device is here");
    return 77;
  }
  clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
  for (i = 0; i < M * N; ++i) x[i] = (float)(i * 37 % 1001) / 100 - 5;

  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  if (error != CL_SUCCESS) return fail("clCreateContext", error);
  queue = clCreateCommandQueue(context, device, 0, &error);
  if (error != CL_SUCCESS) return fail("clCreateCommandQueue", error);
  error = softmax_create(context, device, &kernel, log, sizeof log);
  if (error != CL_SUCCESS) {
    fprintf(stderr, "%s\n", log);
    return fail("softmax_create", error);
  }
  failed = run(context, queue, kernel);
  softmax_release(kernel);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  if (failed) return 1;
  if (!(difference() < 1e-6)) {
    fprintf(stderr, "%s: wrong by %g\n", name, difference());
    return 1;
  }
  printf("ok: %d x %d on %s, wrong by %.1g at most\n", M, N, name, difference());
  return 0;
}
