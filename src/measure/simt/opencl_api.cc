#include "src/measure/simt/opencl_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <vector>

#include "src/base/message.h"
#include "src/base/parallel_pool.h"

namespace lw::cl {
namespace {

constexpr struct {
  Int error;
  const char* name;
} kErrorNames[] = {
    {-1, "DEVICE_NOT_FOUND"}, {-2, "DEVICE_NOT_AVAILABLE"}, {-3, "COMPILER_NOT_AVAILABLE"},
    {-4, "MEM_OBJECT_ALLOCATION_FAILURE"}, {-5, "OUT_OF_RESOURCES"}, {-6, "OUT_OF_HOST_MEMORY"},
    {-7, "PROFILING_INFO_NOT_AVAILABLE"}, {-8, "MEM_COPY_OVERLAP"}, {-11, "BUILD_PROGRAM_FAILURE"},
    {-12, "MAP_FAILURE"}, {-13, "MISALIGNED_SUB_BUFFER_OFFSET"},
    {-14, "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"}, {-15, "COMPILE_PROGRAM_FAILURE"},
    {-16, "LINKER_NOT_AVAILABLE"}, {-17, "LINK_PROGRAM_FAILURE"},
    {-19, "KERNEL_ARG_INFO_NOT_AVAILABLE"}, {-30, "INVALID_VALUE"}, {-31, "INVALID_DEVICE_TYPE"},
    {-32, "INVALID_PLATFORM"}, {-33, "INVALID_DEVICE"}, {-34, "INVALID_CONTEXT"},
    {-35, "INVALID_QUEUE_PROPERTIES"}, {-36, "INVALID_COMMAND_QUEUE"}, {-37, "INVALID_HOST_PTR"},
    {-38, "INVALID_MEM_OBJECT"}, {-42, "INVALID_BINARY"}, {-43, "INVALID_BUILD_OPTIONS"},
    {-44, "INVALID_PROGRAM"}, {-45, "INVALID_PROGRAM_EXECUTABLE"}, {-46, "INVALID_KERNEL_NAME"},
    {-47, "INVALID_KERNEL_DEFINITION"}, {-48, "INVALID_KERNEL"}, {-49, "INVALID_ARG_INDEX"},
    {-50, "INVALID_ARG_VALUE"}, {-51, "INVALID_ARG_SIZE"}, {-52, "INVALID_KERNEL_ARGS"},
    {-53, "INVALID_WORK_DIMENSION"}, {-54, "INVALID_WORK_GROUP_SIZE"},
    {-55, "INVALID_WORK_ITEM_SIZE"}, {-56, "INVALID_GLOBAL_OFFSET"},
    {-57, "INVALID_EVENT_WAIT_LIST"}, {-58, "INVALID_EVENT"}, {-59, "INVALID_OPERATION"},
    {-61, "INVALID_BUFFER_SIZE"}, {-63, "INVALID_GLOBAL_WORK_SIZE"}, {-64, "INVALID_PROPERTY"},
    {-1001, "PLATFORM_NOT_FOUND_KHR"}};

// The threads of PoCL, one a processor, are the scheduler's to place, which has two of them on one
// processor every other time (Linux 6.18): what one launch takes is bimodal then, by a factor of 2.
// PoCL binds them where it is asked to, each to the processor of its number, which is not for a
// process that is confined to some.
void bind_threads_of_processors() {
  const std::vector<int> cpus = allowed_cpus();
  const long all = sysconf(_SC_NPROCESSORS_ONLN);
  if (cpus.empty() || static_cast<long>(cpus.size()) != all || cpus.back() != all - 1) return;
  setenv("POCL_AFFINITY", "1", /*overwrite=*/0);
}

absl::StatusOr<Api> find_functions() {
  bind_threads_of_processors();
  const char* given = getenv("LOOPWRIGHT_OPENCL");
  const std::string name = given != nullptr && given[0] != 0 ? given : "libOpenCL.so.1";
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return absl::NotFoundError(
        concat("no OpenCL here (", why != nullptr ? why : name.c_str(),
               "): install a loader and a driver (on Debian ocl-icd-libopencl1 and, for processors, "
               "pocl-opencl-icd), or name a library by LOOPWRIGHT_OPENCL"));
  }
  Api api;
  std::string missing;
  const auto find = [&](const char* function, auto* pointer) {
    void* const found = dlsym(library, function);
    if (found == nullptr && missing.empty()) missing = function;
    *pointer = reinterpret_cast<std::remove_reference_t<decltype(*pointer)>>(found);
  };
#define LW_FIND(function) find("cl" #function, &api.function)
  LW_FIND(GetPlatformIDs);
  LW_FIND(GetPlatformInfo);
  LW_FIND(GetDeviceIDs);
  LW_FIND(GetDeviceInfo);
  LW_FIND(CreateContext);
  LW_FIND(ReleaseContext);
  LW_FIND(CreateCommandQueue);
  LW_FIND(ReleaseCommandQueue);
  LW_FIND(CreateBuffer);
  LW_FIND(ReleaseMemObject);
  LW_FIND(CreateProgramWithSource);
  LW_FIND(CreateProgramWithBinary);
  LW_FIND(BuildProgram);
  LW_FIND(GetProgramInfo);
  LW_FIND(GetProgramBuildInfo);
  LW_FIND(ReleaseProgram);
  LW_FIND(CreateKernel);
  LW_FIND(SetKernelArg);
  LW_FIND(GetKernelWorkGroupInfo);
  LW_FIND(ReleaseKernel);
  LW_FIND(EnqueueWriteBuffer);
  LW_FIND(EnqueueReadBuffer);
  LW_FIND(EnqueueFillBuffer);
  LW_FIND(EnqueueNDRangeKernel);
  LW_FIND(Flush);
  LW_FIND(Finish);
  LW_FIND(GetEventInfo);
  LW_FIND(GetEventProfilingInfo);
  LW_FIND(ReleaseEvent);
#undef LW_FIND
  if (missing.empty()) return api;
  return absl::NotFoundError(concat(name, " is no OpenCL 1.2: it has no ", missing));
}

}  // namespace

absl::StatusOr<const Api*> load_api() {
  static const absl::StatusOr<Api> api = find_functions();
  if (!api.ok()) return api.status();
  return &*api;
}

std::string error_name(Int error) {
  for (const auto& row : kErrorNames) {
    if (row.error == error) return concat("CL_", row.name);
  }
  return concat("OpenCL error ", error);
}

absl::Status error_status(Int error, const char* call) {
  if (error == kSuccess) return absl::OkStatus();
  const std::string text = concat(call, ": ", error_name(error));
  switch (error) {
    case kMemObjectAllocationFailure:
    case kInvalidWorkGroupSize:
    case kInvalidWorkItemSize:
    case kInvalidBufferSize: return absl::ResourceExhaustedError(text);
    // A context that a fault has ended answers so to whatever it is asked from then on.
    case kOutOfResources:
    case kOutOfHostMemory:
    case kDeviceNotAvailable:
    case kInvalidDevice:
    case kInvalidContext:
    case kInvalidCommandQueue: return absl::UnavailableError(text);
    default: return absl::InvalidArgumentError(text);
  }
}

}  // namespace lw::cl
