// Features come from cpuid and xgetbv: the operating system must save the registers too.
#include "src/runtime/processor.h"

#include <algorithm>

#include "src/runtime/cpuid.h"

namespace lw {
namespace {

#if defined(__x86_64__)

// Which register files the operating system saves; 0 where it saves none.
unsigned saved_state(const Cpuid& one) {
  if (!bit(one.ecx, 27)) return 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

std::vector<std::string> detect() {
  const Cpuid one(1), seven(7), seven1(7, 1), extended(0x80000001u);
  const unsigned saved = saved_state(one);
  const bool avx = (saved & 0x6) == 0x6;
  const bool avx512 = avx && (saved & 0xe6) == 0xe6 && bit(seven.ebx, 16);
  std::vector<std::string> features = {"sse2"};
  const auto add = [&](bool present, const char* name) {
    if (present) features.push_back(name);
  };
  add(bit(one.ecx, 0), "sse3");
  add(bit(one.ecx, 9), "ssse3");
  add(bit(one.ecx, 13), "cx16");
  add(bit(one.ecx, 19), "sse4.1");
  add(bit(one.ecx, 20), "sse4.2");
  add(bit(one.ecx, 22), "movbe");
  add(bit(one.ecx, 23), "popcnt");
  add(avx && bit(one.ecx, 28), "avx");
  add(avx && bit(one.ecx, 29), "f16c");
  add(avx && bit(one.ecx, 12), "fma");
  add(bit(seven.ebx, 3), "bmi");
  add(avx && bit(seven.ebx, 5), "avx2");
  add(bit(seven.ebx, 8), "bmi2");
  add(bit(extended.ecx, 5), "lzcnt");
  add(avx && bit(seven1.eax, 4), "avxvnni");
  add(avx512, "avx512f");
  add(avx512 && bit(seven.ebx, 17), "avx512dq");
  add(avx512 && bit(seven.ebx, 28), "avx512cd");
  add(avx512 && bit(seven.ebx, 30), "avx512bw");
  add(avx512 && bit(seven.ebx, 31), "avx512vl");
  add(avx512 && bit(seven.ecx, 1), "avx512vbmi");
  add(avx512 && bit(seven.ecx, 11), "avx512vnni");
  add(avx512 && bit(seven1.eax, 5), "avx512bf16");
  add(avx512 && bit(seven.edx, 23), "avx512fp16");
  std::sort(features.begin(), features.end());
  return features;
}

#else

std::vector<std::string> detect() { return {"fp-armv8", "neon"}; }

#endif

}  // namespace

const std::vector<std::string>& processor_features() {
  static const std::vector<std::string>* features = new std::vector<std::string>(detect());
  return *features;
}

std::string missing_of(std::string_view wanted) {
  const std::vector<std::string>& present = processor_features();
  while (!wanted.empty()) {
    const size_t end = std::min(wanted.find(' '), wanted.size());
    const std::string name(wanted.substr(0, end));
    wanted.remove_prefix(std::min(end + 1, wanted.size()));
    if (!name.empty() && !std::binary_search(present.begin(), present.end(), name)) return name;
  }
  return "";
}

}  // namespace lw
