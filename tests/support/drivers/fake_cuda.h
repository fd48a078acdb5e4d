// What the files of the fake driver (fake_cuda.cc) share: its state, the words that say what goes
// wrong, its log, and what it aborts at. Of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fake_cuda {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200,
              kNoBinary = 209, kInvalidPtx = 218, kNotFound = 500, kLost = 999;
constexpr unsigned kUnaskedShared = 48 << 10;

struct FakeEntry {
  std::vector<bool> is_map;                // by parameter: a tensor map, not an address
  unsigned most_threads = 1024;            // .maxntid
};
struct FakeModule {
  std::string source;
  std::map<std::string, FakeEntry> entries;
};
struct FakeFunction {
  const FakeModule* module = nullptr;
  std::string name;
  FakeEntry entry;
  int dynamic_shared = kUnaskedShared;
};
struct FakeGraph {
  std::vector<std::function<void()>> nodes;
};
struct FakeStream {
  FakeGraph* captured = nullptr;
};
struct FakeEvent {
  uint64_t ns = 0;                         // 0: not recorded
};
struct FakeContext {};

extern FakeContext the_context;
extern bool initialized, hanging;
extern int retained;
extern int sticky;                         // what every call gives from now on; 0: what it is to
extern thread_local FakeContext* current;
extern std::map<uint64_t, size_t> allocations;
extern std::set<const void*> handles;

// The word's value, "yes" where it has none; "": it is not there. And as a number.
std::string setting(const std::string& name);
uint64_t limit(const std::string& name, uint64_t usual);
// Whether the surroundings or the program say so.
bool does(const std::string& source, const std::string& what);
// N of "launch_N"; 0: neither says so.
int launch_error(const std::string& source);

__attribute__((format(printf, 1, 2))) void record(const char* format, ...);
[[noreturn]] __attribute__((format(printf, 1, 2))) void misuse(const char* format, ...);
[[noreturn]] void hang();

// What `call` needs, or it is misuse. In a context there may be an error that every call gives.
void need_init(const char* call);
int in_context(const char* call);
void need_handle(const char* call, const void* handle);
void need_memory(const char* call, uint64_t address, size_t bytes);

template <class T>
T* made(T* handle) {
  handles.insert(handle);
  return handle;
}
template <class T>
void gone(const char* call, T* handle) {
  need_handle(call, handle);
  handles.erase(handle);
  delete handle;
}

uint64_t clock_ns();
// The device's clock, of which kernels take the same time always, and the host no less; nothing else
// takes any.
extern uint64_t device_ns;
// While a graph runs: the kernels that it has run, with their parameters. What it launches again, to
// take time, computes the same again, and is not interpreted.
extern std::optional<std::set<std::string>> computed;
// At once, or when the graph is launched for which the stream is captured.
void put(FakeStream* stream, std::function<void()> work);

}  // namespace fake_cuda
