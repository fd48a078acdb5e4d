#include "src/measure/cuda/cuda_api.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <type_traits>
#include <utility>

#include "src/base/message.h"

namespace lw::cu {
namespace {

// What an error is taken for. Those of a kernel's are sticky: whatever is asked of the context from
// then on gives the same, and only another process has another one.
enum class Fault { kBuild, kDevice, kLimit, kCrash };

constexpr struct {
  Result error;
  const char* name;
  Fault fault;
} kErrors[] = {
    {1, "INVALID_VALUE", Fault::kBuild},
    {2, "OUT_OF_MEMORY", Fault::kLimit},
    {3, "NOT_INITIALIZED", Fault::kDevice},
    {4, "DEINITIALIZED", Fault::kDevice},
    {34, "STUB_LIBRARY", Fault::kDevice},
    {46, "DEVICE_UNAVAILABLE", Fault::kDevice},
    {100, "NO_DEVICE", Fault::kDevice},
    {101, "INVALID_DEVICE", Fault::kDevice},
    {102, "DEVICE_NOT_LICENSED", Fault::kDevice},
    {200, "INVALID_IMAGE", Fault::kBuild},
    {201, "INVALID_CONTEXT", Fault::kDevice},
    {209, "NO_BINARY_FOR_GPU", Fault::kBuild},
    {214, "ECC_UNCORRECTABLE", Fault::kDevice},
    {216, "CONTEXT_ALREADY_IN_USE", Fault::kDevice},
    {218, "INVALID_PTX", Fault::kBuild},
    {220, "NVLINK_UNCORRECTABLE", Fault::kDevice},
    {221, "JIT_COMPILER_NOT_FOUND", Fault::kBuild},
    {222, "UNSUPPORTED_PTX_VERSION", Fault::kBuild},
    {223, "JIT_COMPILATION_DISABLED", Fault::kBuild},
    {300, "INVALID_SOURCE", Fault::kBuild},
    {304, "OPERATING_SYSTEM", Fault::kDevice},
    {400, "INVALID_HANDLE", Fault::kBuild},
    {500, "NOT_FOUND", Fault::kBuild},
    {700, "ILLEGAL_ADDRESS", Fault::kCrash},
    {701, "LAUNCH_OUT_OF_RESOURCES", Fault::kBuild},
    {702, "LAUNCH_TIMEOUT", Fault::kCrash},
    {709, "CONTEXT_IS_DESTROYED", Fault::kDevice},
    {710, "ASSERT", Fault::kCrash},
    {714, "HARDWARE_STACK_ERROR", Fault::kCrash},
    {715, "ILLEGAL_INSTRUCTION", Fault::kCrash},
    {716, "MISALIGNED_ADDRESS", Fault::kCrash},
    {717, "INVALID_ADDRESS_SPACE", Fault::kCrash},
    {718, "INVALID_PC", Fault::kCrash},
    {719, "LAUNCH_FAILED", Fault::kCrash},
    {720, "COOPERATIVE_LAUNCH_TOO_LARGE", Fault::kBuild},
    {802, "SYSTEM_NOT_READY", Fault::kDevice},
    {803, "SYSTEM_DRIVER_MISMATCH", Fault::kDevice},
    {900, "STREAM_CAPTURE_UNSUPPORTED", Fault::kBuild},
    {901, "STREAM_CAPTURE_INVALIDATED", Fault::kBuild},
    {912, "INVALID_CLUSTER_SIZE", Fault::kBuild},
    {999, "UNKNOWN", Fault::kDevice}};

absl::StatusOr<Api> find_driver_functions() {
  // A kernel's first launch would load its module, and what is timed would be that.
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  const char* given = getenv("LOOPWRIGHT_CUDA");
  const std::string name = given != nullptr && given[0] != 0 ? given : "libcuda.so.1";
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return absl::NotFoundError(
        concat("no CUDA here (", why != nullptr ? why : name.c_str(),
               "): install NVIDIA's driver, whose libcuda.so.1 this is (on Debian nvidia-driver; a "
               "container has to be started with the host's devices and driver), or name a library "
               "by LOOPWRIGHT_CUDA"));
  }
  Api api;
  std::string missing;
  const auto find = [&](const char* function, auto* pointer) {
    void* const found = dlsym(library, function);
    if (found == nullptr && missing.empty()) missing = function;
    *pointer = reinterpret_cast<std::remove_reference_t<decltype(*pointer)>>(found);
  };
  // Under the names by which headers of CUDA 11.4 and later call them.
#define LW_FIND_CUDA(function, version) find("cu" #function version, &api.function)
  LW_FIND_CUDA(Init, "");
  LW_FIND_CUDA(DriverGetVersion, "");
  LW_FIND_CUDA(DeviceGetCount, "");
  LW_FIND_CUDA(DeviceGet, "");
  LW_FIND_CUDA(DeviceGetName, "");
  LW_FIND_CUDA(DeviceGetUuid, "_v2");      // a slice's own, where the device is one
  LW_FIND_CUDA(DeviceGetPCIBusId, "");
  LW_FIND_CUDA(DeviceGetAttribute, "");
  LW_FIND_CUDA(DeviceTotalMem, "_v2");
  LW_FIND_CUDA(DevicePrimaryCtxRetain, "");
  LW_FIND_CUDA(DevicePrimaryCtxRelease, "_v2");
  LW_FIND_CUDA(CtxSetCurrent, "");
  LW_FIND_CUDA(MemAlloc, "_v2");
  LW_FIND_CUDA(MemFree, "_v2");
  LW_FIND_CUDA(MemcpyHtoDAsync, "_v2");
  LW_FIND_CUDA(MemcpyDtoHAsync, "_v2");
  LW_FIND_CUDA(MemsetD8Async, "");
  LW_FIND_CUDA(ModuleLoadDataEx, "");
  LW_FIND_CUDA(ModuleUnload, "");
  LW_FIND_CUDA(ModuleGetFunction, "");
  LW_FIND_CUDA(FuncGetAttribute, "");
  LW_FIND_CUDA(FuncSetAttribute, "");
  LW_FIND_CUDA(LaunchKernel, "");
  LW_FIND_CUDA(StreamCreate, "");
  LW_FIND_CUDA(StreamDestroy, "_v2");
  LW_FIND_CUDA(StreamSynchronize, "");
  LW_FIND_CUDA(StreamBeginCapture, "_v2");
  LW_FIND_CUDA(StreamEndCapture, "");
  LW_FIND_CUDA(EventCreate, "");
  LW_FIND_CUDA(EventDestroy, "_v2");
  LW_FIND_CUDA(EventRecord, "");
  LW_FIND_CUDA(EventElapsedTime, "");
  LW_FIND_CUDA(GraphInstantiate, "WithFlags");
  LW_FIND_CUDA(GraphLaunch, "");
  LW_FIND_CUDA(GraphExecDestroy, "");
  LW_FIND_CUDA(GraphDestroy, "");
  const std::string needed = std::exchange(missing, "");
  LW_FIND_CUDA(TensorMapEncodeTiled, "");
#undef LW_FIND_CUDA
  missing = needed;
  if (missing.empty()) return api;
  return absl::NotFoundError(concat(name, " is no driver of CUDA 11.4 or later: it has no ",
                                    missing, "; install a newer release of NVIDIA's driver"));
}

}  // namespace

absl::StatusOr<const Api*> load_api() {
  static const absl::StatusOr<Api> api = find_driver_functions();
  if (!api.ok()) return api.status();
  return &*api;
}

std::string error_name(Result error) {
  for (const auto& row : kErrors) {
    if (row.error == error) return concat("CUDA_ERROR_", row.name, " (", error, ")");
  }
  return concat("CUDA error (", error, ")");
}

absl::Status error_status(Result error, const char* call) {
  if (error == kSuccess) return absl::OkStatus();
  const std::string text = concat(call, ": ", error_name(error));
  Fault fault = Fault::kBuild;
  for (const auto& row : kErrors) {
    if (row.error == error) fault = row.fault;
  }
  switch (fault) {
    case Fault::kDevice: return absl::UnavailableError(text);
    case Fault::kLimit: return absl::ResourceExhaustedError(text);
    case Fault::kCrash: return absl::AbortedError(text);
    case Fault::kBuild: break;
  }
  return absl::InvalidArgumentError(text);
}

std::string version_text(int version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace lw::cu
