#include "src/runner/crash.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "src/runner/stream.h"

namespace lw::runner {
namespace {

// The whole frame; the handler fills in three fields.
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
bool was_write(void* context, [[maybe_unused]] uint64_t address) {
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
  return pc != address && stores(*reinterpret_cast<const uint32_t*>(pc));
#elif defined(__x86_64__)
  constexpr int64_t kWrite = 2;            // of a page fault's error code
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
#else
  return false;
#endif
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
  _exit(0);
}

}  // namespace

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

void prepare_crash_frame(Crash crash) {
  const std::string payload = encode_crash(crash);
  Header header;
  header.type = Frame::kCrash;
  header.bytes = payload.size();
  crash_frame = encode_header(header) + payload;
}

void forget_crash_frame() { crash_frame.clear(); }

}  // namespace lw::runner
