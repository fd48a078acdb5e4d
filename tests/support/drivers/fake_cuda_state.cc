#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iterator>

#include "tests/support/drivers/fake_cuda.h"

namespace fake_cuda {

FakeContext the_context;
bool initialized = false, hanging = false;
int retained = 0;
int sticky = 0;
thread_local FakeContext* current = nullptr;
std::map<uint64_t, size_t> allocations;
std::set<const void*> handles;

std::string setting(const std::string& name) {
  const char* all = std::getenv("FAKE_CUDA_FAULT");
  const std::string text = std::string(",") + (all != nullptr ? all : "") + ",";
  for (size_t at = text.find("," + name); at != std::string::npos;
       at = text.find("," + name, at + 1)) {
    const size_t begin = at + 1 + name.size();
    const std::string rest = text.substr(begin, text.find(',', begin) - begin);
    if (rest.empty()) return "yes";
    if (rest[0] == '=') return rest.substr(1);
  }
  return "";
}
uint64_t limit(const std::string& name, uint64_t usual) {
  const std::string value = setting(name);
  return value.empty() ? usual : std::strtoull(value.c_str(), nullptr, 10);
}
bool does(const std::string& source, const std::string& what) {
  if (!setting(what).empty()) return true;
  const size_t at = source.find("fake:" + what);
  return at != std::string::npos && std::isspace((source + " ")[at + 5 + what.size()]) != 0;
}
int launch_error(const std::string& source) {
  const char* all = std::getenv("FAKE_CUDA_FAULT");
  for (const std::string& text : {std::string(all != nullptr ? all : ""), source}) {
    const size_t at = text.find("launch_");
    if (at != std::string::npos) return std::atoi(text.c_str() + at + 7);
  }
  return 0;
}

// Opened once and written without buffers: what is timed should not be the log.
void record(const char* format, ...) {
  static const int log = [] {
    const char* path = std::getenv("FAKE_CUDA_LOG");
    const bool named = path != nullptr && path[0] != 0;
    return named ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  }();
  if (log < 0) return;
  char line[512];
  va_list words;
  va_start(words, format);
  const int size = std::vsnprintf(line, sizeof line - 1, format, words);
  va_end(words);
  const size_t end = std::min(static_cast<size_t>(std::max(size, 0)), sizeof line - 2);
  line[end] = '\n';
  if (write(log, line, end + 1) < 0) std::abort();
}

void misuse(const char* format, ...) {
  char text[400];
  va_list words;
  va_start(words, format);
  std::vsnprintf(text, sizeof text, format, words);
  va_end(words);
  record("MISUSE %s", text);
  std::fprintf(stderr, "fake CUDA driver misused: %s\n", text);
  std::abort();
}

void hang() {
  while (true) pause();
}

void need_init(const char* call) {
  if (!initialized) misuse("%s before cuInit", call);
}
int in_context(const char* call) {
  need_init(call);
  if (current == nullptr || retained == 0) misuse("%s without a context", call);
  return sticky;
}
void need_handle(const char* call, const void* handle) {
  if (handles.count(handle) == 0) misuse("%s: a handle that is not there (any more)", call);
}
void need_memory(const char* call, uint64_t address, size_t bytes) {
  auto it = allocations.upper_bound(address);
  if (it != allocations.begin()) {
    const auto& [first, size] = *std::prev(it);
    if (address + bytes <= first + size) return;
  }
  misuse("%s: %zu bytes at %#llx, which is no memory (any more)", call, bytes,
         static_cast<unsigned long long>(address));
}

uint64_t device_ns = 1;
std::optional<std::set<std::string>> computed;

uint64_t clock_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

void put(FakeStream* stream, std::function<void()> work) {
  need_handle("a stream", stream);
  if (stream->captured != nullptr) stream->captured->nodes.push_back(std::move(work));
  else work();
}

}  // namespace fake_cuda
