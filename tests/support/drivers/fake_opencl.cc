// A driver of OpenCL that goes wrong on demand, as a library: LOOPWRIGHT_OPENCL names it. Its device
// computes the product of tests/measure/opencl_programs.h, whatever the source says but for the words
// behind "fake:", which are what the program does, and takes 20 us for it at least; those of the environment's LW_FAKE_OPENCL are what
// the driver or its device does, separated by commas:
//
//   no_platform, no_device, list_hangs, list_dies, gone=FILE (no device while there is such a file)
//   units=N, group=N, buffer=N, memory=N, local=N   limits it says it has
//   extensions=WORD WORD, sub_groups=N:N            that it says it has
//   alloc=N                                         bytes that it gives at most, whatever it says
//   clock_zero, clock_back, clock_slow (in another unit), clock_wild   what its events say
//   doubts          that a kernel's groups are of one item at most, whatever size it was compiled for
//   log=FILE                                        a line for each build: "source PID", "binary PID"
//
//   build_hangs, build_dies, build_lost, enqueue_dies, crowded (does not begin), finish_hangs, wrong,
//   lost: a program's; who loses its context has lost it for this process's life
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace {

using Int = int32_t;
using Uint = uint32_t;

constexpr Int kOutOfResources = -5, kAllocationFailure = -4, kInvalidValue = -30,
              kInvalidBinary = -42, kInvalidQueue = -36, kNotFound = -1, kNoPlatform = -1001;
constexpr uint64_t kLeast_ns = 20'000;     // that a kernel takes
constexpr char kBinary[] = "fake binary of:";

struct Object {};                          // platform, device, context, queue
struct FakeMemory {
  std::vector<char> bytes;
};
struct FakeProgram {
  std::string source;
  bool binary = false;
};
struct FakeKernel {
  const FakeProgram* program;
  FakeMemory* arguments[8] = {};
};
struct FakeEvent {
  uint64_t start = 0, end = 0;
};

Object platform, device, context, queue;
bool lost = false, hanging = false;

std::string setting(const std::string& name) {
  const char* all = std::getenv("LW_FAKE_OPENCL");
  const std::string text = std::string(",") + (all != nullptr ? all : "") + ",";
  const size_t at = text.find("," + name);
  if (at == std::string::npos) return "";
  const size_t begin = at + 1 + name.size();
  const std::string rest = text.substr(begin, text.find(',', begin) - begin);
  return rest.empty() ? "yes" : rest.substr(rest[0] == '=' ? 1 : 0);
}

uint64_t limit(const std::string& name, uint64_t usual) {
  const std::string value = setting(name);
  return value.empty() ? usual : std::strtoull(value.c_str(), nullptr, 10);
}

bool does(const FakeProgram& program, const std::string& what) {
  if (!setting(what).empty()) return true;
  const std::string text = program.source + " ";
  const size_t at = text.find("fake:" + what);
  return at != std::string::npos && std::isspace(text[at + 5 + what.size()]);
}

[[noreturn]] void hang() {
  while (true) pause();
}

void die() {
  // As a driver's own wild access, whatever handlers there are.
  raise(SIGSEGV);
}

uint64_t clock_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

Int answer(const void* value, size_t bytes, size_t room, void* out, size_t* size) {
  if (size != nullptr) *size = bytes;
  if (out == nullptr) return 0;
  if (room < bytes) return kInvalidValue;
  if (bytes > 0) std::memcpy(out, value, bytes);
  return 0;
}
Int answer_text(const std::string& text, size_t room, void* out, size_t* size) {
  return answer(text.c_str(), text.size() + 1, room, out, size);
}
template <class T>
Int answer_number(uint64_t value, size_t room, void* out, size_t* size) {
  const T number = static_cast<T>(value);
  return answer(&number, sizeof number, room, out, size);
}

Int answer_sizes(const std::string& list, size_t room, void* out, size_t* size) {
  std::vector<size_t> sizes;
  for (size_t at = 0; at < list.size(); at = std::min(list.find(':', at), list.size()) + 1) {
    sizes.push_back(std::strtoull(list.c_str() + at, nullptr, 10));
  }
  return answer(sizes.data(), sizes.size() * sizeof(size_t), room, out, size);
}

void compute(const FakeKernel& kernel) {
  constexpr int kRows = 20, kColumns = 24, kInner = 16;
  const float* a = reinterpret_cast<const float*>(kernel.arguments[0]->bytes.data());
  const float* b = reinterpret_cast<const float*>(kernel.arguments[1]->bytes.data());
  float* d = reinterpret_cast<float*>(kernel.arguments[2]->bytes.data());
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      float sum = 0;
      for (int k = 0; k < kInner; ++k) sum += a[kInner * i + k] * b[kColumns * k + j];
      d[kColumns * i + j] = does(*kernel.program, "wrong") ? sum + 1 : sum;
    }
  }
}

void log_build(const char* of) {
  const std::string path = setting("log");
  if (path.empty()) return;
  if (FILE* file = std::fopen(path.c_str(), "a")) {
    std::fprintf(file, "%s %d\n", of, getpid());
    std::fclose(file);
  }
}

}  // namespace

extern "C" {

Int clGetPlatformIDs(Uint room, Object** out, Uint* count) {
  if (!setting("list_hangs").empty()) hang();
  if (!setting("list_dies").empty()) die();
  if (!setting("no_platform").empty()) return kNoPlatform;
  if (room > 0 && out != nullptr) out[0] = &platform;
  if (count != nullptr) *count = 1;
  return 0;
}
Int clGetPlatformInfo(Object*, Uint, size_t room, void* out, size_t* size) {
  return answer_text("Fake", room, out, size);
}
Int clGetDeviceIDs(Object*, uint64_t, Uint room, Object** out, Uint* count) {
  const std::string gone = setting("gone");
  if (!setting("no_device").empty() || (!gone.empty() && access(gone.c_str(), F_OK) == 0)) {
    return kNotFound;
  }
  if (room > 0 && out != nullptr) out[0] = &device;
  if (count != nullptr) *count = 1;
  return 0;
}
Int clGetDeviceInfo(Object*, Uint what, size_t room, void* out, size_t* size) {
  switch (what) {
    case 0x1000: return answer_number<uint64_t>(4, room, out, size);        // a GPU
    case 0x1002: return answer_number<Uint>(limit("units", 4), room, out, size);
    case 0x1004: return answer_number<size_t>(limit("group", 256), room, out, size);
    case 0x1010: return answer_number<uint64_t>(limit("buffer", 1 << 30), room, out, size);
    case 0x101f: return answer_number<uint64_t>(limit("memory", uint64_t{1} << 32), room, out, size);
    case 0x1023: return answer_number<uint64_t>(limit("local", 32768), room, out, size);
    case 0x1022: return answer_number<Uint>(1, room, out, size);
    case 0x1027:
    case 0x1028: return answer_number<Uint>(1, room, out, size);
    case 0x102b: return answer_text("Fake board", room, out, size);
    case 0x102c: return answer_text("Fakes", room, out, size);
    case 0x102d: return answer_text("1.0", room, out, size);
    case 0x102f: return answer_text("OpenCL 1.2 fake", room, out, size);
    case 0x1030: return answer_text(setting("extensions"), room, out, size);
    case 0x4108: return answer_sizes(setting("sub_groups"), room, out, size);
    default: return kInvalidValue;
  }
}
Object* clCreateContext(const intptr_t*, Uint, Object* const*, void*, void*, Int* error) {
  if (error != nullptr) *error = lost ? kOutOfResources : 0;
  return lost ? nullptr : &context;
}
Int clReleaseContext(Object*) { return 0; }
Object* clCreateCommandQueue(Object*, Object*, uint64_t, Int* error) {
  if (error != nullptr) *error = 0;
  return &queue;
}
Int clReleaseCommandQueue(Object*) { return 0; }
FakeMemory* clCreateBuffer(Object*, uint64_t, size_t bytes, void*, Int* error) {
  const bool refused = lost || bytes > limit("alloc", uint64_t{1} << 40);
  if (error != nullptr) *error = refused ? kAllocationFailure : 0;
  if (refused) return nullptr;
  FakeMemory* memory = new FakeMemory;
  memory->bytes.resize(bytes);
  return memory;
}
Int clReleaseMemObject(FakeMemory* memory) {
  delete memory;
  return 0;
}
FakeProgram* clCreateProgramWithSource(Object*, Uint, const char** texts, const size_t* sizes,
                                       Int* error) {
  if (error != nullptr) *error = 0;
  return new FakeProgram{std::string(texts[0], sizes[0]), false};
}
FakeProgram* clCreateProgramWithBinary(Object*, Uint, Object* const*, const size_t* sizes,
                                       const unsigned char** binaries, Int* taken, Int* error) {
  const std::string bytes(reinterpret_cast<const char*>(binaries[0]), sizes[0]);
  const bool good = bytes.rfind(kBinary, 0) == 0;
  *taken = *error = good ? 0 : kInvalidBinary;
  return good ? new FakeProgram{bytes.substr(std::strlen(kBinary)), true} : nullptr;
}
Int clBuildProgram(FakeProgram* program, Uint, Object* const*, const char*, void*, void*) {
  log_build(program->binary ? "binary" : "source");
  if (does(*program, "build_hangs")) hang();
  if (does(*program, "build_dies")) die();
  if (does(*program, "build_lost")) lost = true;
  return lost ? kOutOfResources : 0;
}
Int clGetProgramInfo(FakeProgram* program, Uint what, size_t room, void* out, size_t* size) {
  const std::string bytes = kBinary + program->source;
  if (what == 0x1165) return answer_number<size_t>(bytes.size(), room, out, size);
  if (what != 0x1166) return kInvalidValue;
  std::memcpy(*static_cast<char**>(out), bytes.data(), bytes.size());
  return 0;
}
Int clGetProgramBuildInfo(FakeProgram*, Object*, Uint, size_t room, void* out, size_t* size) {
  return answer_text("", room, out, size);
}
Int clReleaseProgram(FakeProgram* program) {
  delete program;
  return 0;
}
FakeKernel* clCreateKernel(FakeProgram* program, const char*, Int* error) {
  *error = 0;
  return new FakeKernel{program};
}
Int clSetKernelArg(FakeKernel* kernel, Uint index, size_t, const void* value) {
  if (index < 8) std::memcpy(&kernel->arguments[index], value, sizeof(void*));
  return 0;
}
Int clGetKernelWorkGroupInfo(FakeKernel* kernel, Object*, Uint what, size_t room, void* out,
                             size_t* size) {
  if (setting("doubts").empty()) return kInvalidValue;
  if (what == 0x11b0) return answer_number<size_t>(1, room, out, size);
  if (what != 0x11b1 || room < 3 * sizeof(size_t)) return kInvalidValue;
  constexpr char kWord[] = "reqd_work_group_size(";
  const size_t at = kernel->program->source.find(kWord);
  const size_t items = at == std::string::npos
                           ? 0
                           : std::strtoull(kernel->program->source.c_str() + at + sizeof kWord - 1,
                                           nullptr, 10);
  const size_t sizes[] = {items, 1, 1};
  std::memcpy(out, sizes, sizeof sizes);
  return 0;
}
Int clReleaseKernel(FakeKernel* kernel) {
  delete kernel;
  return 0;
}
Int clEnqueueWriteBuffer(Object*, FakeMemory* memory, Uint, size_t at, size_t bytes,
                         const void* data, Uint, const void*, void*) {
  if (lost) return kInvalidQueue;
  std::memcpy(memory->bytes.data() + at, data, bytes);
  return 0;
}
Int clEnqueueReadBuffer(Object*, FakeMemory* memory, Uint, size_t at, size_t bytes, void* data, Uint,
                        const void*, void*) {
  if (lost) return kInvalidQueue;
  std::memcpy(data, memory->bytes.data() + at, bytes);
  return 0;
}
Int clEnqueueFillBuffer(Object*, FakeMemory* memory, const void* pattern, size_t size, size_t at,
                        size_t bytes, Uint, const void*, FakeEvent** event) {
  if (lost) return kInvalidQueue;
  const uint64_t start = clock_ns();
  for (size_t i = 0; i + size <= bytes; i += size) {
    std::memcpy(memory->bytes.data() + at + i, pattern, size);
  }
  if (event != nullptr) *event = new FakeEvent{start, clock_ns()};
  return 0;
}
Int clEnqueueNDRangeKernel(Object*, FakeKernel* kernel, Uint, const size_t*, const size_t*,
                           const size_t*, Uint, const void*, FakeEvent** event) {
  if (lost) return kInvalidQueue;
  const FakeProgram& program = *kernel->program;
  if (does(program, "enqueue_dies")) die();
  if (does(program, "crowded")) return kOutOfResources;
  if (does(program, "finish_hangs")) hanging = true;
  if (does(program, "lost")) {
    lost = true;
    return kOutOfResources;
  }
  const uint64_t start = clock_ns();
  compute(*kernel);
  while (clock_ns() - start < kLeast_ns) {}
  if (event != nullptr) *event = new FakeEvent{start, clock_ns()};
  return 0;
}
Int clFlush(Object*) { return lost ? kInvalidQueue : 0; }
Int clFinish(Object*) {
  if (hanging) hang();
  return lost ? kInvalidQueue : 0;
}
Int clGetEventInfo(FakeEvent*, Uint, size_t room, void* out, size_t* size) {
  return answer_number<Int>(0, room, out, size);
}
Int clGetEventProfilingInfo(FakeEvent* event, Uint what, size_t room, void* out, size_t* size) {
  uint64_t start = event->start, end = event->end;
  if (!setting("clock_zero").empty()) start = end = 0;
  if (!setting("clock_back").empty()) std::swap(start, end);
  if (!setting("clock_slow").empty()) start /= 1000, end /= 1000;
  if (!setting("clock_wild").empty()) end = uint64_t{1} << 63;
  return answer_number<uint64_t>(what == 0x1282 ? start : end, room, out, size);
}
Int clReleaseEvent(FakeEvent* event) {
  delete event;
  return 0;
}

}  // extern "C"
