// What we call of OpenCL 1.2, declared here and found at run time: to build, nothing of OpenCL has to
// be installed. Names and numbers are the specification's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace lw::cl {

// Handles are pointers to what only the driver knows.
using Platform = struct PlatformTag*;
using DeviceId = struct DeviceTag*;
using Context = struct ContextTag*;
using Queue = struct QueueTag*;
using Memory = struct MemoryTag*;
using Program = struct ProgramTag*;
using KernelId = struct KernelTag*;
using Event = struct EventTag*;
using Int = int32_t;
using Uint = uint32_t;
using Bits = uint64_t;                     // of flags; booleans are Uint

// Errors.
constexpr Int kSuccess = 0, kDeviceNotFound = -1, kDeviceNotAvailable = -2,
              kMemObjectAllocationFailure = -4, kOutOfResources = -5, kOutOfHostMemory = -6,
              kProfilingInfoNotAvailable = -7, kBuildProgramFailure = -11, kInvalidDevice = -33,
              kInvalidContext = -34, kInvalidCommandQueue = -36, kInvalidWorkGroupSize = -54,
              kInvalidWorkItemSize = -55, kInvalidBufferSize = -61, kPlatformNotFoundKhr = -1001;

constexpr Bits kDeviceTypeCpu = 2, kDeviceTypeGpu = 4, kDeviceTypeAll = 0xffffffff;
constexpr Bits kMemReadWrite = 1, kQueueProfiling = 2;
constexpr Uint kLocalMemory = 1;           // CL_LOCAL, of kLocalMemType

// What is asked for.
constexpr Uint kPlatformName = 0x0902, kProgramBinarySizes = 0x1165, kProgramBinaries = 0x1166,
               kProgramBuildLog = 0x1183, kKernelWorkGroupSize = 0x11b0,
               kKernelCompileWorkGroupSize = 0x11b1, kKernelLocalMemSize = 0x11b2, kEventExecutionStatus = 0x11d3,
               kProfilingStart = 0x1282, kProfilingEnd = 0x1283;
constexpr Int kComplete = 0, kRunning = 1;  // of kEventExecutionStatus; more: not yet; less: an error
constexpr Uint kDeviceType = 0x1000, kMaxComputeUnits = 0x1002, kMaxWorkGroupSize = 0x1004,
               kMaxClockFrequency = 0x100c, kAddressBits = 0x100d, kMaxMemAllocSize = 0x1010,
               kGlobalMemCachelineSize = 0x101d, kGlobalMemCacheSize = 0x101e,
               kGlobalMemSize = 0x101f, kLocalMemType = 0x1022, kLocalMemSize = 0x1023,
               kEndianLittle = 0x1026, kDeviceAvailable = 0x1027, kCompilerAvailable = 0x1028,
               kDeviceName = 0x102b, kDeviceVendor = 0x102c, kDriverVersion = 0x102d,
               kDeviceVersion = 0x102f, kDeviceExtensions = 0x1030,
               kNativeVectorWidthFloat = 0x103a, kSubGroupSizesIntel = 0x4108,
               kComputeCapabilityMajorNv = 0x4000, kComputeCapabilityMinorNv = 0x4001,
               kWarpSizeNv = 0x4003;

struct Api {
  Int (*GetPlatformIDs)(Uint, Platform*, Uint*);
  Int (*GetPlatformInfo)(Platform, Uint, size_t, void*, size_t*);
  Int (*GetDeviceIDs)(Platform, Bits, Uint, DeviceId*, Uint*);
  Int (*GetDeviceInfo)(DeviceId, Uint, size_t, void*, size_t*);
  Context (*CreateContext)(const intptr_t*, Uint, const DeviceId*,
                           void (*)(const char*, const void*, size_t, void*), void*, Int*);
  Int (*ReleaseContext)(Context);
  Queue (*CreateCommandQueue)(Context, DeviceId, Bits, Int*);
  Int (*ReleaseCommandQueue)(Queue);
  Memory (*CreateBuffer)(Context, Bits, size_t, void*, Int*);
  Int (*ReleaseMemObject)(Memory);
  Program (*CreateProgramWithSource)(Context, Uint, const char**, const size_t*, Int*);
  Program (*CreateProgramWithBinary)(Context, Uint, const DeviceId*, const size_t*,
                                     const unsigned char**, Int*, Int*);
  Int (*BuildProgram)(Program, Uint, const DeviceId*, const char*, void (*)(Program, void*), void*);
  Int (*GetProgramInfo)(Program, Uint, size_t, void*, size_t*);
  Int (*GetProgramBuildInfo)(Program, DeviceId, Uint, size_t, void*, size_t*);
  Int (*ReleaseProgram)(Program);
  KernelId (*CreateKernel)(Program, const char*, Int*);
  Int (*SetKernelArg)(KernelId, Uint, size_t, const void*);
  Int (*GetKernelWorkGroupInfo)(KernelId, DeviceId, Uint, size_t, void*, size_t*);
  Int (*ReleaseKernel)(KernelId);
  Int (*EnqueueWriteBuffer)(Queue, Memory, Uint, size_t, size_t, const void*, Uint, const Event*,
                            Event*);
  Int (*EnqueueReadBuffer)(Queue, Memory, Uint, size_t, size_t, void*, Uint, const Event*, Event*);
  Int (*EnqueueFillBuffer)(Queue, Memory, const void*, size_t, size_t, size_t, Uint, const Event*,
                           Event*);
  Int (*EnqueueNDRangeKernel)(Queue, KernelId, Uint, const size_t*, const size_t*, const size_t*,
                              Uint, const Event*, Event*);
  Int (*Flush)(Queue);
  Int (*Finish)(Queue);
  Int (*GetEventInfo)(Event, Uint, size_t, void*, size_t*);
  Int (*GetEventProfilingInfo)(Event, Uint, size_t, void*, size_t*);
  Int (*ReleaseEvent)(Event);
};

// Of libOpenCL.so.1, or of the library that the environment's LOOPWRIGHT_OPENCL names. Loading it
// runs its code: in a process that may be lost. kNotFound says what is missing and how it is had.
absl::StatusOr<const Api*> load_api();

// "CL_OUT_OF_RESOURCES"; "OpenCL error -9999".
std::string error_name(Int error);
// What the error of `call` means for the kernel under way: what exceeds the device is
// kResourceExhausted, what no later call survives kUnavailable, else kInvalidArgument.
absl::Status error_status(Int error, const char* call);

}  // namespace lw::cl
