// What we call of CUDA's driver API, declared here and found at run time: to build, nothing of
// NVIDIA's has to be installed. Names and numbers are its manual's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lw::cu {

// Handles are pointers to what only the driver knows; memory is an address of the device's.
using Result = int;
using DeviceId = int;
using Pointer = uint64_t;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
struct Uuid {
  unsigned char bytes[16];
};

// Results.
constexpr Result kSuccess = 0, kNoDevice = 100;

// CUdevice_attribute.
constexpr int kMaxThreadsPerBlock = 1, kMaxGridX = 5, kClockKhz = 13, kMultiprocessors = 16,
              kComputeMode = 20, kEccEnabled = 32, kMemoryClockKhz = 36, kMemoryBusBits = 37,
              kL2Bytes = 38, kMaxThreadsPerMultiprocessor = 39, kCapabilityMajor = 75,
              kCapabilityMinor = 76, kSharedPerMultiprocessor = 81,
              kRegistersPerMultiprocessor = 82, kSharedPerBlockOptIn = 97;
constexpr int kComputeModeProhibited = 2;  // of kComputeMode
// CUfunction_attribute.
constexpr int kFunctionMaxThreads = 0, kFunctionSharedBytes = 1, kFunctionMaxDynamicShared = 8;
// CUjit_option.
constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;
constexpr unsigned kStreamNonBlocking = 1, kEventDefault = 0;
constexpr int kCaptureThreadLocal = 1;

struct Api {
  Result (*Init)(unsigned);
  Result (*DriverGetVersion)(int*);
  Result (*DeviceGetCount)(int*);
  Result (*DeviceGet)(DeviceId*, int);
  Result (*DeviceGetName)(char*, int, DeviceId);
  Result (*DeviceGetUuid)(Uuid*, DeviceId);
  Result (*DeviceGetPCIBusId)(char*, int, DeviceId);
  Result (*DeviceGetAttribute)(int*, int, DeviceId);
  Result (*DeviceTotalMem)(size_t*, DeviceId);
  Result (*DevicePrimaryCtxRetain)(Context*, DeviceId);
  Result (*DevicePrimaryCtxRelease)(DeviceId);
  Result (*CtxSetCurrent)(Context);
  Result (*MemAlloc)(Pointer*, size_t);
  Result (*MemFree)(Pointer);
  Result (*MemcpyHtoDAsync)(Pointer, const void*, size_t, Stream);
  Result (*MemcpyDtoHAsync)(void*, Pointer, size_t, Stream);
  Result (*MemsetD8Async)(Pointer, unsigned char, size_t, Stream);
  Result (*ModuleLoadDataEx)(Module*, const void*, unsigned, int*, void**);
  Result (*ModuleUnload)(Module);
  Result (*ModuleGetFunction)(Function*, Module, const char*);
  Result (*FuncGetAttribute)(int*, int, Function);
  Result (*FuncSetAttribute)(Function, int, int);
  Result (*LaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, Stream, void**, void**);
  // From CUDA 12.0 on; null: the driver is older.
  Result (*TensorMapEncodeTiled)(void*, int, uint32_t, Pointer, const uint64_t*, const uint64_t*,
                                 const uint32_t*, const uint32_t*, int, int, int, int);
  Result (*StreamCreate)(Stream*, unsigned);
  Result (*StreamDestroy)(Stream);
  Result (*StreamSynchronize)(Stream);
  Result (*StreamBeginCapture)(Stream, int);
  Result (*StreamEndCapture)(Stream, Graph*);
  Result (*EventCreate)(Event*, unsigned);
  Result (*EventDestroy)(Event);
  Result (*EventRecord)(Event, Stream);
  Result (*EventElapsedTime)(float*, Event, Event);
  Result (*GraphInstantiate)(GraphExec*, Graph, unsigned long long);
  Result (*GraphLaunch)(GraphExec, Stream);
  Result (*GraphExecDestroy)(GraphExec);
  Result (*GraphDestroy)(Graph);
};

// Of libcuda.so.1, or of the library that the environment's LOOPWRIGHT_CUDA names. Loading it runs
// its code: in a process that may be lost. kNotFound says what is missing and how it is had.
// Thread-safe.
absl::StatusOr<const Api*> load_api();

// "CUDA_ERROR_ILLEGAL_ADDRESS (700)"; "CUDA error (12345)".
std::string error_name(Result error);
// What the error of `call` means for the kernel under way: it has crashed and the driver with it
// (kAborted), it exceeds the device (kResourceExhausted), the device itself failed (kUnavailable),
// else it is badly built (kInvalidArgument). "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS
// (700)".
absl::Status error_status(Result error, const char* call);

// "12.4" of what DriverGetVersion says: 12040.
std::string version_text(int version);

}  // namespace lw::cu
