// lw_runner: runs kernels on a device for a host at the other end of stdin and stdout (under an
// emulator, through ssh, behind a serial line). Static, cross-compiled alone, no loader: the host
// has linked the code to its address.
//
// One thread does everything: a frame comes, is decoded, its memory is mapped, the code runs, the
// answer goes back, all is unmapped. Memory is laid out as the host's own measuring does it: every
// argument between two pages that nobody may touch, inputs read-only, the rest poisoned. A kernel
// that crashes costs the process; the handler first tells where. One that loops is the host's to
// kill.
#include "src/runner/protocol.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>

#include "src/build/context.h"

namespace lw::runner {
namespace {

constexpr int kIn = 0, kOut = 1;
constexpr int kPoison = 0xff;

bool read_all(char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = read(kIn, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool write_all(const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(kOut, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool send(Frame type, std::string_view payload) {
  Header header;
  header.type = type;
  header.bytes = payload.size();
  const std::string head = encode_header(header);
  return write_all(head.data(), head.size()) && write_all(payload.data(), payload.size());
}

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// ------------------------------------------------------------------------------ crashes

// The whole frame of a crash, made before anything runs; the handler fills in three fields.
std::string crash_frame;

#if defined(__aarch64__)
// Whether a load or store instruction stores: its L bit, but for sign-extending loads of registers.
bool stores(uint32_t instruction) {
  if ((instruction >> 22 & 1) != 0) return false;
  const bool of_register = (instruction >> 27 & 7) == 7 && (instruction >> 25 & 1) == 0;
  const bool general = (instruction >> 26 & 1) == 0;
  return !(of_register && general && (instruction >> 23 & 1) != 0);
}
#endif

// Whether a data abort was a write: from the syndrome that the system passes on, or, where it
// passes none (qemu 7.2), from the instruction.
bool was_write(void* context, uint64_t address) {
#if defined(__aarch64__)
  const ucontext_t* state = static_cast<const ucontext_t*>(context);
  const unsigned char* at =
      reinterpret_cast<const unsigned char*>(state->uc_mcontext.__reserved);
  const unsigned char* end = at + sizeof state->uc_mcontext.__reserved;
  constexpr uint32_t kEsrMagic = 0x45535201;
  while (at + 16 <= end) {
    uint32_t magic, size;
    memcpy(&magic, at, 4);
    memcpy(&size, at + 4, 4);
    if (magic == kEsrMagic) {
      uint64_t syndrome;
      memcpy(&syndrome, at + 8, 8);
      return (syndrome & 64) != 0;
    }
    if (magic == 0 || size < 8) break;
    at += size;
  }
  const uint64_t pc = state->uc_mcontext.pc;
  if (pc != address) return stores(*reinterpret_cast<const uint32_t*>(pc));
#endif
  return false;
}

void on_crash(int signal_number, siginfo_t* info, void* context) {
  if (!crash_frame.empty()) {
    char* payload = crash_frame.data() + kHeaderBytes;
    const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
    const uint32_t wrote = was_write(context, address);
    memcpy(payload + kCrashSignalAt, &signal_number, 4);
    memcpy(payload + kCrashWroteAt, &wrote, 4);
    memcpy(payload + kCrashAddressAt, &address, 8);
    write_all(crash_frame.data(), crash_frame.size());
  }
  _exit(1);
}

void watch_crashes() {
  // A kernel may overflow its stack: the handler has its own.
  static char stack[64 << 10];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigaction(s, &action, nullptr);
}

// ------------------------------------------------------------------------------ memory

// Whole pages between two that nobody may touch; null data: the system refused.
class Guarded {
 public:
  Guarded() = default;
  explicit Guarded(size_t bytes) : bytes_(round_up(bytes, page_size())) {
    const size_t guard = page_size();
    void* all =
        mmap(nullptr, bytes_ + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return;
    low_ = static_cast<char*>(all);
    // (No bytes are none to protect; qemu 7.2 answers ENOMEM then.)
    if (bytes_ > 0 && mprotect(low_ + guard, bytes_, PROT_READ | PROT_WRITE) != 0) return;
    data_ = low_ + guard;
    memset(data_, kPoison, bytes_);
  }
  Guarded(Guarded&& other) noexcept { *this = static_cast<Guarded&&>(other); }
  Guarded& operator=(Guarded&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(low_, other.low_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Guarded() {
    if (low_ != nullptr) munmap(low_, bytes_ + 2 * page_size());
  }

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  char* end() const { return data_ + bytes_; }
  bool make_read_only() { return mprotect(data_, bytes_, PROT_READ) == 0; }
  // Whether the bytes before the last `size` still hold poison.
  bool intact_before(size_t size) const {
    for (const char* p = data_; p < end() - size; ++p) {
      if (*p != static_cast<char>(kPoison)) return false;
    }
    return true;
  }
  Region region(int32_t argument, const char* begin, size_t size) const {
    Region r;
    r.argument = argument;
    r.low = reinterpret_cast<uint64_t>(low_);
    r.begin = reinterpret_cast<uint64_t>(begin);
    r.end = r.begin + size;
    r.high = reinterpret_cast<uint64_t>(end() + page_size());
    return r;
  }

 private:
  size_t bytes_ = 0;
  char* low_ = nullptr;
  char* data_ = nullptr;
};

// The image at its address; unmapped at the end.
class Image {
 public:
  ~Image() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }
  bool map(const Job& job) {
    // A kernel that does not know the flag takes the address for a hint.
    void* wanted = reinterpret_cast<void*>(job.base);
    void* got = mmap(wanted, job.image_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) return false;
    base_ = static_cast<char*>(got);
    bytes_ = job.image_bytes;
    if (got != wanted) return false;
    for (const Job::Segment& s : job.segments) {
      memcpy(base_ + s.offset, s.content.data(), s.content.size());
      const int protection = PROT_READ | (s.writable ? PROT_WRITE : 0) |
                             (s.executable ? PROT_EXEC : 0);
      if (mprotect(base_ + s.offset, s.bytes, protection) != 0) return false;
    }
    __builtin___clear_cache(base_, base_ + bytes_);
    return true;
  }

 private:
  char* base_ = nullptr;
  size_t bytes_ = 0;
};

// ------------------------------------------------------------------------------ jobs

using Entry = int32_t (*)(const lw_context*, void* const*);

double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

// One thread plays all workers, in turn: each has its own private memory, as with real threads.
void in_turn(void* pool, int64_t count, void (*body)(void*, int64_t, int64_t), void* closure) {
  const int64_t workers = *static_cast<const int64_t*>(pool);
  for (int64_t i = 0; i < count; ++i) body(closure, i, i % workers);
}

struct Memory {
  Image image;
  std::vector<Guarded> arguments;
  std::vector<char*> data;
  Guarded workspace, packed;
};

bool map_arguments(const Job& job, Memory* memory) {
  for (const Job::Argument& a : job.arguments) {
    Guarded map(a.pages);
    if (map.data() == nullptr) return false;
    // Flush with the upper guard whatever the device's pages are.
    char* start = map.end() - a.pages;
    if (!a.output) {
      memcpy(start, a.content.data(), a.content.size());
      if (!map.make_read_only()) return false;
    }
    memory->data.push_back(start + a.offset);
    memory->arguments.push_back(std::move(map));
  }
  return true;
}

void prepare_crash_frame(const Job& job, const Memory& memory) {
  Crash crash;
  for (size_t i = 0; i < job.arguments.size(); ++i) {
    crash.regions.push_back(memory.arguments[i].region(static_cast<int32_t>(i), memory.data[i],
                                                       job.arguments[i].bytes));
  }
  if (job.workspace_bytes > 0) {
    crash.regions.push_back(memory.workspace.region(
        Region::kWorkspace, memory.workspace.end() - job.workspace_bytes, job.workspace_bytes));
  }
  if (job.packed_bytes > 0) {
    crash.regions.push_back(memory.packed.region(
        Region::kPacked, memory.packed.end() - job.packed_bytes, job.packed_bytes));
  }
  const std::string payload = encode_crash(crash);
  Header header;
  header.type = Frame::kCrash;
  header.bytes = payload.size();
  crash_frame = encode_header(header) + payload;
}

bool refuse(std::string_view why) { return send(Frame::kRefusal, why); }

bool run_job(const Job& job) {
  Memory memory;
  if (!memory.image.map(job)) return refuse("the image's address is taken");
  if (!map_arguments(job, &memory)) return refuse("no memory for the arguments");
  memory.workspace = Guarded(job.workspace_bytes);
  memory.packed = Guarded(job.packed_bytes);
  if (memory.workspace.data() == nullptr || memory.packed.data() == nullptr) {
    return refuse("no memory for the workspace");
  }
  int64_t workers = job.workers;
  lw_context context{};
  context.parallel_for = workers > 1 ? in_turn : nullptr;
  context.pool = &workers;
  context.workers = workers;
  context.workspace = memory.workspace.end() - job.workspace_bytes;
  context.packed = memory.packed.end() - job.packed_bytes;
  std::vector<void*> table(memory.data.begin(), memory.data.end());
  const Entry run = reinterpret_cast<Entry>(job.run);

  prepare_crash_frame(job, memory);
  Result result;
  if (job.prepack != 0) {
    result.code = reinterpret_cast<Entry>(job.prepack)(&context, table.data());
  }
  if (result.code == 0) result.code = run(&context, table.data());
  for (uint32_t s = 0; s < job.samples && result.code == 0; ++s) {
    const double begin = now_us();
    for (uint32_t i = 0; i < job.inner; ++i) run(&context, table.data());
    result.samples_us.push_back((now_us() - begin) / job.inner);
  }
  crash_frame.clear();

  result.intact = memory.workspace.intact_before(job.workspace_bytes) &&
                  memory.packed.intact_before(job.packed_bytes);
  for (size_t i = 0; i < job.arguments.size(); ++i) {
    const Job::Argument& a = job.arguments[i];
    if (a.output) result.outputs.emplace_back(memory.arguments[i].end() - a.pages, a.pages);
  }
  return send(Frame::kResult, encode_result(result));
}

bool greet() {
  Greeting greeting;
  greeting.page_bytes = static_cast<uint32_t>(page_size());
  greeting.processors = static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  utsname name;
  if (uname(&name) == 0) greeting.machine = name.machine;
  return send(Frame::kGreeting, encode_greeting(greeting));
}

// Answers one frame; false: the other end is gone or speaks something else.
bool serve() {
  char head[kHeaderBytes];
  if (!read_all(head, sizeof head)) return false;
  const std::optional<Header> header = decode_header({head, sizeof head});
  if (!header) {
    refuse("not a frame of this protocol's version");
    return false;
  }
  // Memory that the device does not have ends the process, which the host sees.
  std::string payload(header->bytes, '\0');
  if (!read_all(payload.data(), payload.size())) return false;
  if (header->type == Frame::kHello) return greet();
  if (header->type != Frame::kJob) return refuse("no request");
  const std::optional<Job> job = decode_job(payload);
  return job ? run_job(*job) : refuse("a malformed job");
}

}  // namespace
}  // namespace lw::runner

int main() {
  lw::runner::watch_crashes();
  while (lw::runner::serve()) {
  }
  return 0;
}
