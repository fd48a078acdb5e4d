// NVIDIA's driver, and its management library, as one library without a device: LOOPWRIGHT_CUDA
// (and LOOPWRIGHT_NVML) name it. Memory is the host's, whose addresses are the device's; what is
// put into a stream is done at once, or kept where the stream is captured. It aborts, with a
// message, at what a driver would not notice: calls before cuInit or without a context, handles and
// memory that are not there (any more), parameters that are not the kernel's, launches beyond what
// the device has. FAKE_CUDA_LOG=FILE has a line for each call, with its arguments.
//
// What goes wrong is said by words, separated by commas, of the environment's FAKE_CUDA_FAULT, or
// of a program, behind "fake:" in its text:
//
//   list_hangs, list_dies, no_device, gone=FILE (no device while there is such a file), init_N
//   too_old, prohibited, mig, devices=N, capability=N (90: 9.0), units=N, memory=N, threads=N, shared=N
//   oom=N: bytes that an allocation may have; events_zero; refuse_cubin, refuse_ptx
//
//   launch_N: a kernel ends with error N, which is sticky where it is one of a kernel's
//   lost: from then on every call fails; launch_dies; hang: what waits for it waits for ever
//   slow: a kernel takes 200 us, not 5; crowded: it has registers for blocks of 8 threads
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/drivers/fake_cuda.h"

using namespace fake_cuda;  // NOLINT: the driver's functions are in none

namespace {

bool is_gone() {
  const std::string file = setting("gone");
  return !setting("no_device").empty() || (!file.empty() && access(file.c_str(), F_OK) == 0);
}

}  // namespace

extern "C" {

int cuInit(unsigned flags) {
  record("cuInit flags=%u", flags);
  if (!setting("list_hangs").empty()) hang();
  if (!setting("list_dies").empty()) raise(SIGSEGV);
  const char* all = std::getenv("FAKE_CUDA_FAULT");
  const char* const at = all != nullptr ? std::strstr(all, "init_") : nullptr;
  if (at != nullptr) return std::atoi(at + 5);
  if (is_gone()) return kNoDevice;
  initialized = true;
  return 0;
}
int cuDriverGetVersion(int* version) {
  record("cuDriverGetVersion");
  *version = setting("too_old").empty() ? 12040 : 11020;
  return 0;
}
int cuDeviceGetCount(int* count) {
  record("cuDeviceGetCount");
  need_init("cuDeviceGetCount");
  *count = is_gone() ? 0 : static_cast<int>(limit("devices", 1));
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  record("cuDeviceGet ordinal=%d", ordinal);
  need_init("cuDeviceGet");
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int room, int device) {
  record("cuDeviceGetName device=%d", device);
  need_init("cuDeviceGetName");
  std::snprintf(name, static_cast<size_t>(room), "NVIDIA Fake%s",
                setting("mig").empty() ? "" : " MIG 1g.10gb");
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  record("cuDeviceGetUuid_v2 device=%d", device);
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<unsigned char>(16 * device + i);
  return 0;
}
int cuDeviceGetPCIBusId(char* text, int room, int device) {
  record("cuDeviceGetPCIBusId device=%d", device);
  std::snprintf(text, static_cast<size_t>(room), "0000:%02x:00.0", 0x65 + device);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  record("cuDeviceTotalMem_v2 device=%d", device);
  *bytes = limit("memory", uint64_t{80} << 30);
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  record("cuDeviceGetAttribute attribute=%d device=%d", attribute, device);
  need_init("cuDeviceGetAttribute");
  const auto say = [value](uint64_t what) { return *value = static_cast<int>(what), 0; };
  switch (attribute) {
    case 1: return say(limit("threads", 1024));
    case 5: return say(2147483647);
    case 13: return say(1'980'000);
    case 16: return say(limit("units", 132));
    case 20: return say(setting("prohibited").empty() ? 0 : 2);
    case 32: return say(1);
    case 36: return say(2'619'000);
    case 37: return say(5120);
    case 38: return say(50 << 20);
    case 39: return say(2048);
    case 75: return say(limit("capability", 90) / 10);
    case 76: return say(limit("capability", 90) % 10);
    case 81: return say(233'472);
    case 82: return say(65536);
    case 97: return say(limit("shared", 232'448));
    default: return kInvalidValue;
  }
}
int cuDevicePrimaryCtxRetain(FakeContext** context, int device) {
  record("cuDevicePrimaryCtxRetain device=%d", device);
  need_init("cuDevicePrimaryCtxRetain");
  ++retained;
  *context = &the_context;
  return sticky;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  record("cuDevicePrimaryCtxRelease_v2 device=%d", device);
  if (--retained < 0) misuse("cuDevicePrimaryCtxRelease: of none that is retained");
  return 0;
}
int cuCtxSetCurrent(FakeContext* context) {
  need_init("cuCtxSetCurrent");
  current = context;
  return 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  record("cuMemAlloc_v2 bytes=%zu", bytes);
  if (const int error = in_context("cuMemAlloc")) return error;
  if (bytes == 0) return kInvalidValue;
  if (bytes > limit("oom", uint64_t{8} << 30)) return kOutOfMemory;
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return kOutOfMemory;
  *address = reinterpret_cast<uint64_t>(memory);
  allocations[*address] = bytes;
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  record("cuMemFree_v2");
  if (const int error = in_context("cuMemFree")) return error;
  if (allocations.erase(address) == 0) misuse("cuMemFree: of what is no memory (any more)");
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, FakeStream* stream) {
  record("cuMemcpyHtoDAsync_v2 bytes=%zu", bytes);
  if (const int error = in_context("cuMemcpyHtoDAsync")) return error;
  need_memory("cuMemcpyHtoDAsync", to, bytes);
  put(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, FakeStream* stream) {
  record("cuMemcpyDtoHAsync_v2 bytes=%zu", bytes);
  if (const int error = in_context("cuMemcpyDtoHAsync")) return error;
  need_memory("cuMemcpyDtoHAsync", from, bytes);
  put(stream, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  return 0;
}
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, FakeStream* stream) {
  record("cuMemsetD8Async byte=%u bytes=%zu", byte, bytes);
  if (const int error = in_context("cuMemsetD8Async")) return error;
  need_memory("cuMemsetD8Async", to, bytes);
  put(stream, [=] { std::memset(reinterpret_cast<void*>(to), byte, bytes); });
  return 0;
}
int cuStreamCreate(FakeStream** stream, unsigned flags) {
  record("cuStreamCreate flags=%u", flags);
  *stream = made(new FakeStream);
  return in_context("cuStreamCreate");
}
int cuStreamDestroy_v2(FakeStream* stream) {
  record("cuStreamDestroy_v2");
  gone("cuStreamDestroy", stream);
  return in_context("cuStreamDestroy");
}
int cuStreamSynchronize(FakeStream* stream) {
  record("cuStreamSynchronize");
  need_handle("cuStreamSynchronize", stream);
  if (stream->captured != nullptr) misuse("cuStreamSynchronize: of a stream that is captured");
  if (const int error = in_context("cuStreamSynchronize")) return error;
  if (hanging) hang();
  return sticky;
}
int cuStreamBeginCapture_v2(FakeStream* stream, int mode) {
  record("cuStreamBeginCapture_v2 mode=%d", mode);
  need_handle("cuStreamBeginCapture", stream);
  if (stream->captured != nullptr) misuse("cuStreamBeginCapture: twice");
  stream->captured = made(new FakeGraph);
  return in_context("cuStreamBeginCapture");
}
int cuStreamEndCapture(FakeStream* stream, FakeGraph** graph) {
  need_handle("cuStreamEndCapture", stream);
  if (stream->captured == nullptr) misuse("cuStreamEndCapture: of what is not captured");
  record("cuStreamEndCapture nodes=%zu", stream->captured->nodes.size());
  *graph = std::exchange(stream->captured, nullptr);
  return in_context("cuStreamEndCapture");
}
int cuEventCreate(FakeEvent** event, unsigned flags) {
  record("cuEventCreate flags=%u", flags);
  *event = made(new FakeEvent);
  return in_context("cuEventCreate");
}
int cuEventDestroy_v2(FakeEvent* event) {
  record("cuEventDestroy_v2");
  gone("cuEventDestroy", event);
  return in_context("cuEventDestroy");
}
int cuEventRecord(FakeEvent* event, FakeStream* stream) {
  record("cuEventRecord");
  need_handle("cuEventRecord", event);
  need_handle("cuEventRecord", stream);
  put(stream, [event] { event->ns = device_ns; });
  return in_context("cuEventRecord");
}
int cuEventElapsedTime(float* ms, FakeEvent* begin, FakeEvent* end) {
  record("cuEventElapsedTime");
  need_handle("cuEventElapsedTime", begin);
  need_handle("cuEventElapsedTime", end);
  if (begin->ns == 0 || end->ns == 0) misuse("cuEventElapsedTime: of what was not recorded");
  *ms = setting("events_zero").empty() ? static_cast<float>(end->ns - begin->ns) * 1e-6f : 0;
  return in_context("cuEventElapsedTime");
}
int cuGraphInstantiateWithFlags(FakeGraph** executable, FakeGraph* graph,
                                unsigned long long flags) {
  record("cuGraphInstantiateWithFlags nodes=%zu flags=%llu", graph->nodes.size(), flags);
  need_handle("cuGraphInstantiate", graph);
  *executable = made(new FakeGraph(*graph));
  return in_context("cuGraphInstantiate");
}
int cuGraphLaunch(FakeGraph* executable, FakeStream* stream) {
  record("cuGraphLaunch nodes=%zu", executable->nodes.size());
  need_handle("cuGraphLaunch", executable);
  if (const int error = in_context("cuGraphLaunch")) return error;
  put(stream, [] { computed = std::set<std::string>(); });
  for (const std::function<void()>& node : executable->nodes) put(stream, node);
  put(stream, [] { computed.reset(); });
  return 0;
}
int cuGraphExecDestroy(FakeGraph* executable) {
  record("cuGraphExecDestroy");
  gone("cuGraphExecDestroy", executable);
  return in_context("cuGraphExecDestroy");
}
int cuGraphDestroy(FakeGraph* graph) {
  record("cuGraphDestroy");
  gone("cuGraphDestroy", graph);
  return in_context("cuGraphDestroy");
}

}  // extern "C"
