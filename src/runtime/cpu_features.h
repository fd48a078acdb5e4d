/* What this machine's processor has of what kernels may need, in C: a part of our programs and, as
 * text, of the functions that choose among exported kernels. By cpuid and, since the operating system
 * must save the registers too, xgetbv. Names are LLVM's. */
#ifndef LOOPWRIGHT_CPU_FEATURES_H
#define LOOPWRIGHT_CPU_FEATURES_H
#include <stddef.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>

typedef struct lw_cpu_feature {
  const char* name;
  unsigned leaf, subleaf;
  int word, bit;   /* word: eax, ebx, ecx, edx */
  unsigned saved;  /* the register files that must be saved: bits of xcr0 */
} lw_cpu_feature;

enum { LW_SSE_STATE = 0, LW_AVX_STATE = 0x6, LW_AVX512_STATE = 0xe6 };

static const lw_cpu_feature lw_cpu_features[] = {
    {"avx", 1, 0, 2, 28, LW_AVX_STATE},         {"avx2", 7, 0, 1, 5, LW_AVX_STATE},
    {"avx512bf16", 7, 1, 0, 5, LW_AVX512_STATE}, {"avx512bw", 7, 0, 1, 30, LW_AVX512_STATE},
    {"avx512cd", 7, 0, 1, 28, LW_AVX512_STATE}, {"avx512dq", 7, 0, 1, 17, LW_AVX512_STATE},
    {"avx512f", 7, 0, 1, 16, LW_AVX512_STATE},  {"avx512fp16", 7, 0, 3, 23, LW_AVX512_STATE},
    {"avx512vbmi", 7, 0, 2, 1, LW_AVX512_STATE}, {"avx512vl", 7, 0, 1, 31, LW_AVX512_STATE},
    {"avx512vnni", 7, 0, 2, 11, LW_AVX512_STATE}, {"avxvnni", 7, 1, 0, 4, LW_AVX_STATE},
    {"bmi", 7, 0, 1, 3, LW_SSE_STATE},          {"bmi2", 7, 0, 1, 8, LW_SSE_STATE},
    {"cx16", 1, 0, 2, 13, LW_SSE_STATE},        {"f16c", 1, 0, 2, 29, LW_AVX_STATE},
    {"fma", 1, 0, 2, 12, LW_AVX_STATE},         {"lzcnt", 0x80000001u, 0, 2, 5, LW_SSE_STATE},
    {"movbe", 1, 0, 2, 22, LW_SSE_STATE},       {"popcnt", 1, 0, 2, 23, LW_SSE_STATE},
    {"sse2", 1, 0, 3, 26, LW_SSE_STATE},        {"sse3", 1, 0, 2, 0, LW_SSE_STATE},
    {"sse4.1", 1, 0, 2, 19, LW_SSE_STATE},      {"sse4.2", 1, 0, 2, 20, LW_SSE_STATE},
    {"ssse3", 1, 0, 2, 9, LW_SSE_STATE}};

static inline unsigned lw_saved_state(void) {
  unsigned words[4] = {0, 0, 0, 0}, low = 0, high = 0;
  __get_cpuid_count(1, 0, &words[0], &words[1], &words[2], &words[3]);
  if ((words[2] >> 27 & 1) == 0) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

static inline int lw_has(const lw_cpu_feature* feature) {
  unsigned words[4] = {0, 0, 0, 0};
  if (__get_cpuid_count(feature->leaf, feature->subleaf, &words[0], &words[1], &words[2],
                        &words[3]) == 0) {
    return 0;
  }
  if ((words[feature->word] >> feature->bit & 1) == 0) return 0;
  return (lw_saved_state() & feature->saved) == feature->saved;
}

static inline int lw_processor_has(const char* name, size_t length) {
  size_t i;
  for (i = 0; i < sizeof lw_cpu_features / sizeof lw_cpu_features[0]; ++i) {
    const lw_cpu_feature* feature = &lw_cpu_features[i];
    if (strlen(feature->name) != length || memcmp(feature->name, name, length) != 0) continue;
    return lw_has(feature);
  }
  return 0;
}
#else
/* Of AArch64 what every processor has. */
static inline int lw_processor_has(const char* name, size_t length) {
  return (length == 4 && memcmp(name, "neon", 4) == 0) ||
         (length == 8 && memcmp(name, "fp-armv8", 8) == 0);
}
#endif

/* Whether it has all of these names, which stand between spaces. */
static inline int lw_processor_has_all(const char* names) {
  while (*names != 0) {
    const size_t length = strcspn(names, " ");
    if (length > 0 && !lw_processor_has(names, length)) return 0;
    names += length;
    if (*names == ' ') ++names;
  }
  return 1;
}
#endif
