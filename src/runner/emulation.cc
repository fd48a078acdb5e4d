#include "src/runner/emulation.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

// The linker's: how this program's file begins.
extern "C" const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

namespace lw::runner {
namespace {

constexpr char kThisProcess[] = "/proc/thread-self/exe";

// At most 4 KiB of a file, as the system answers; "": it cannot be read.
std::string start_of(const char* path) {
  std::string bytes(4096, '\0');
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = file < 0 ? -1 : read(file, bytes.data(), bytes.size());
  if (file >= 0) close(file);
  bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return bytes;
}

std::string name_of_program() {
  char path[512];
  const ssize_t n = readlink(kThisProcess, path, sizeof path);
  const std::string text(path, n < 0 ? 0 : static_cast<size_t>(n));
  const std::string name = text.substr(text.rfind('/') + 1);
  return name.empty() ? "unknown" : name;
}

std::string emulator_of_machine() {
#if defined(__aarch64__)
  // Implementer 0 is reserved for software.
  const std::string id = start_of("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  if (id.size() >= 12 && id.substr(id.size() - 9, 2) == "00") return "qemu-system";
#elif defined(__x86_64__)
  unsigned a, b, c, d;
  constexpr unsigned kHypervisor = 1u << 31, kItsName = 0x40000000;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kHypervisor) != 0) {
    __cpuid(kItsName, a, b, c, d);
    if (memcmp(&b, "TCGT", 4) == 0) return "qemu-system";
  }
#endif
  return "";
}

}  // namespace

std::string emulator() {
  const std::string file = start_of(kThisProcess);
  if (file.size() < sizeof __ehdr_start) return "unknown";
  if (memcmp(file.data(), &__ehdr_start, sizeof __ehdr_start) != 0) return name_of_program();
  return emulator_of_machine();
}

}  // namespace lw::runner
