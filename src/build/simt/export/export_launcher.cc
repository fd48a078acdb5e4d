#include "src/build/simt/export/export_launcher.h"

namespace lw {

const char* const kLauncherHeader =
    R"( * Needs <CL/cl.h> and a library of OpenCL 1.2 or later. All functions return CL_SUCCESS or
 * the error of the call of OpenCL that failed. A $name_kernel is used by one thread at a time, since
 * its kernels' arguments are set in each call; different ones by any threads at once. */
#ifndef LOOPWRIGHT_KERNEL_$NAME_H
#define LOOPWRIGHT_KERNEL_$NAME_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <stddef.h>

#define $NAME_BUFFERS $buffers
$sizes
/* Made by $name_create(), beside the buffers. */
#define $NAME_WORKSPACE_BYTES ((size_t)$workspace)
#define $NAME_PACKED_BYTES ((size_t)$packed)
/* Of a group's local memory, the most that a launch needs. */
#define $NAME_LOCAL_BYTES ((size_t)$local)

#ifdef __cplusplus
extern "C" {
#endif
typedef struct $name_kernel $name_kernel;

/* Builds the program for a device of the context, and makes the workspace and what is packed. In
 * `log`, unless it is null, is then why it failed, in at most `log_bytes` with the 0 at its end. On
 * failure *kernel is null and nothing is left behind. */
cl_int $name_create(cl_context context, cl_device_id device, $name_kernel** kernel,
    char* log, size_t log_bytes);

/* Lays out anew what is const of the inputs, where $NAME_PACKED_BYTES is not 0 (else it does
 * nothing): before the first call, and again when those have changed. `buffers` are as below; none
 * but the const inputs is read. */
cl_int $name_prepack($name_kernel* kernel, cl_command_queue queue, const cl_mem* buffers,
    cl_uint events, const cl_event* wait_list);

/* Enqueues a call, in a queue of that device, in order or out of order, behind the `events` events
 * of `wait_list` (null if there are none) and behind all earlier calls with this kernel, in
 * whatever queue. `buffers`: $NAME_BUFFERS of them, inputs, then outputs, each of as many bytes as
 * above; outputs share no bytes with others. `done`, unless it is null, is the event of its end,
 * for clReleaseEvent(). CL_INVALID_OPERATION: $name_prepack() is yet to be called. */
cl_int $name_enqueue($name_kernel* kernel, cl_command_queue queue, const cl_mem* buffers,
    cl_uint events, const cl_event* wait_list, cl_event* done);

/* Null is nothing. What is enqueued still ends as it would have. */
void $name_release($name_kernel* kernel);
#ifdef __cplusplus
}
#endif
#endif
)";

const char* const kLauncherCode = R"(
struct $name_kernel {
  cl_program program;
  cl_kernel kernels[LAUNCHES];
  cl_mem workspace, packed;
  cl_event last;                           /* of what was enqueued last */
  int is_packed;
};

static void say(char* log, size_t log_bytes, const char* text) {
  size_t size = strlen(text);
  if (log == NULL || log_bytes == 0) return;
  if (size >= log_bytes) size = log_bytes - 1;
  memcpy(log, text, size);
  log[size] = '\0';
}

static void say_build_log(cl_program program, cl_device_id device, char* log, size_t log_bytes) {
  size_t size = 0;
  char* all;
  if (log == NULL || log_bytes == 0) return;
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != CL_SUCCESS ||
      (all = (char*)calloc(size + 1, 1)) == NULL)
    return;
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, all, NULL) == CL_SUCCESS)
    say(log, log_bytes, all);
  free(all);
}

static cl_int make_kernel($name_kernel* kernel, int i, cl_device_id device, char* log,
    size_t log_bytes) {
  cl_int error = CL_SUCCESS;
  size_t most = 0;
  kernel->kernels[i] = clCreateKernel(kernel->program, launches[i].kernel, &error);
  if (error != CL_SUCCESS) {
    kernel->kernels[i] = NULL;
    say(log, log_bytes, "clCreateKernel failed");
    return error;
  }
  error = clGetKernelWorkGroupInfo(kernel->kernels[i], device, CL_KERNEL_WORK_GROUP_SIZE,
                                   sizeof most, &most, NULL);
  if (error != CL_SUCCESS) {
    say(log, log_bytes, "clGetKernelWorkGroupInfo failed");
  } else if (most < launches[i].items) {
    say(log, log_bytes, "the device has no groups of as many items");
    error = CL_INVALID_WORK_GROUP_SIZE;
  }
  return error;
}

static cl_int make_buffer(cl_context context, size_t bytes, cl_mem* buffer, char* log,
    size_t log_bytes) {
  cl_int error = CL_SUCCESS;
  if (bytes == 0) return CL_SUCCESS;
  *buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS, bytes, NULL, &error);
  if (error == CL_SUCCESS) return error;
  *buffer = NULL;
  say(log, log_bytes, "clCreateBuffer failed");
  return error;
}

static cl_int make_all($name_kernel* kernel, cl_context context, cl_device_id device, char* log,
    size_t log_bytes) {
  cl_int error = CL_SUCCESS;
  const cl_ulong needed = $NAME_LOCAL_BYTES;
  cl_ulong local = 0;
  int i;
  error = clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
  if (error != CL_SUCCESS) {
    say(log, log_bytes, "clGetDeviceInfo failed");
    return error;
  }
  if (local < needed) {
    say(log, log_bytes, "the device has less local memory than a group needs");
    return CL_OUT_OF_RESOURCES;
  }
  kernel->program = clCreateProgramWithSource(
      context, (cl_uint)(sizeof source / sizeof source[0]), source, NULL, &error);
  if (error != CL_SUCCESS) {
    kernel->program = NULL;
    say(log, log_bytes, "clCreateProgramWithSource failed");
    return error;
  }
  error = clBuildProgram(kernel->program, 1, &device, $options, NULL, NULL);
  if (error != CL_SUCCESS) {
    say(log, log_bytes, "clBuildProgram failed");
    say_build_log(kernel->program, device, log, log_bytes);
    return error;
  }
  for (i = 0; i < LAUNCHES && error == CL_SUCCESS; ++i)
    error = make_kernel(kernel, i, device, log, log_bytes);
  if (error == CL_SUCCESS)
    error = make_buffer(context, $NAME_WORKSPACE_BYTES, &kernel->workspace, log, log_bytes);
  if (error == CL_SUCCESS)
    error = make_buffer(context, $NAME_PACKED_BYTES, &kernel->packed, log, log_bytes);
  return error;
}

cl_int $name_create(cl_context context, cl_device_id device, $name_kernel** kernel,
    char* log, size_t log_bytes) {
  cl_int error;
  $name_kernel* made = ($name_kernel*)calloc(1, sizeof *made);
  say(log, log_bytes, "");
  *kernel = NULL;
  if (made == NULL) {
    say(log, log_bytes, "no memory is left");
    return CL_OUT_OF_HOST_MEMORY;
  }
  error = make_all(made, context, device, log, log_bytes);
  if (error != CL_SUCCESS) {
    $name_release(made);
    return error;
  }
  *kernel = made;
  return CL_SUCCESS;
}

static cl_int set_arguments($name_kernel* kernel, int i, const cl_mem* buffers) {
  cl_int error = CL_SUCCESS;
  int n;
  for (n = 0; n < launches[i].parameters && error == CL_SUCCESS; ++n) {
    const int of = launches[i].of[n];
    const cl_mem* memory = of == WORKSPACE ? &kernel->workspace
                           : of == PACKED  ? &kernel->packed
                                           : &buffers[of];
    error = clSetKernelArg(kernel->kernels[i], (cl_uint)n, sizeof *memory, memory);
  }
  return error;
}

/* Forgets the last event once it is over: whoever waits for one that failed fails too. */
static cl_int forget_ended($name_kernel* kernel) {
  cl_int error, status = CL_QUEUED;
  if (kernel->last == NULL) return CL_SUCCESS;
  error = clGetEventInfo(kernel->last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                         NULL);
  if (error == CL_SUCCESS && status <= CL_COMPLETE) {
    error = clReleaseEvent(kernel->last);
    kernel->last = NULL;
  }
  return error;
}

/* Launches begin .. end - 1, each behind the one before it. */
static cl_int enqueue_range($name_kernel* kernel, cl_command_queue queue, const cl_mem* buffers,
    int begin, int end, cl_uint events, const cl_event* wait_list) {
  cl_event marker = NULL;
  cl_int error = forget_ended(kernel);
  int i;
  for (i = begin; i < end && error == CL_SUCCESS; ++i) error = set_arguments(kernel, i, buffers);
  if (error == CL_SUCCESS && events > 0)
    error = clEnqueueMarkerWithWaitList(queue, events, wait_list, &marker);
  for (i = begin; i < end && error == CL_SUCCESS; ++i) {
    const size_t items = launches[i].items, all = launches[i].groups * items;
    cl_event before[2], next = NULL;
    cl_uint count = 0;
    if (i == begin && events > 0) before[count++] = marker;
    if (kernel->last != NULL) before[count++] = kernel->last;
    error = clEnqueueNDRangeKernel(queue, kernel->kernels[i], 1, NULL, &all, &items, count,
                                   count > 0 ? before : NULL, &next);
    if (error != CL_SUCCESS) break;
    if (kernel->last != NULL) clReleaseEvent(kernel->last);
    kernel->last = next;
  }
  if (marker != NULL) clReleaseEvent(marker);
  return error;
}

cl_int $name_prepack($name_kernel* kernel, cl_command_queue queue, const cl_mem* buffers,
    cl_uint events, const cl_event* wait_list) {
  cl_int error = CL_SUCCESS;
  if (PREPACKS > 0)
    error = enqueue_range(kernel, queue, buffers, 0, PREPACKS, events, wait_list);
  kernel->is_packed = error == CL_SUCCESS;
  return error;
}

cl_int $name_enqueue($name_kernel* kernel, cl_command_queue queue, const cl_mem* buffers,
    cl_uint events, const cl_event* wait_list, cl_event* done) {
  cl_int error;
  if (done != NULL) *done = NULL;
  if (PREPACKS > 0 && !kernel->is_packed) return CL_INVALID_OPERATION;
  error = enqueue_range(kernel, queue, buffers, PREPACKS, LAUNCHES, events, wait_list);
  if (error == CL_SUCCESS && done != NULL) {
    error = clRetainEvent(kernel->last);
    if (error == CL_SUCCESS) *done = kernel->last;
  }
  return error;
}

void $name_release($name_kernel* kernel) {
  int i;
  if (kernel == NULL) return;
  if (kernel->last != NULL) clReleaseEvent(kernel->last);
  if (kernel->packed != NULL) clReleaseMemObject(kernel->packed);
  if (kernel->workspace != NULL) clReleaseMemObject(kernel->workspace);
  for (i = 0; i < LAUNCHES; ++i) {
    if (kernel->kernels[i] != NULL) clReleaseKernel(kernel->kernels[i]);
  }
  if (kernel->program != NULL) clReleaseProgram(kernel->program);
  free(kernel);
}
)";

}  // namespace lw
