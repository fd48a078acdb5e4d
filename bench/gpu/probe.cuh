// What the probes of calibrate.cu share: errors, samples, JSON, and the PTX that CUDA C++ has no
// word for.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

constexpr size_t kMiB = size_t{1} << 20;

#define CHECK(call)                                                                        \
  do {                                                                                     \
    const cudaError_t error_ = (call);                                                     \
    if (error_ != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_)); \
      std::exit(1);                                                                        \
    }                                                                                      \
  } while (0)

// Prints `"name": {...}` members, one per constant: median and quartiles over rounds.
class Report {
 public:
  // `sample` returns one value; the first call does not count.
  template <class Sample>
  double record(const std::string& name, const char* unit, Sample sample, int rounds = 7) {
    sample();
    std::vector<double> values;
    for (int i = 0; i < rounds; ++i) values.push_back(sample());
    std::sort(values.begin(), values.end());
    const double middle = values[rounds / 2];
    std::printf("%s\n  \"%s\": {\"value\": %.5g, \"q1\": %.5g, \"q3\": %.5g, \"unit\": \"%s\"}",
                first_ ? "" : ",", name.c_str(), middle, values[rounds / 4],
                values[rounds - 1 - rounds / 4], unit);
    std::fflush(stdout);
    first_ = false;
    return middle;
  }
  void fact(const std::string& name, const char* unit, double value) {
    record(
        name, unit, [&] { return value; }, 1);
  }

 private:
  bool first_ = true;
};

// Milliseconds of what `work` puts on stream 0.
template <class Work>
double milliseconds(Work work) {
  static cudaEvent_t from = nullptr, to = nullptr;
  if (from == nullptr) {
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
  }
  CHECK(cudaEventRecord(from));
  work();
  CHECK(cudaEventRecord(to));
  CHECK(cudaEventSynchronize(to));
  CHECK(cudaGetLastError());
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, from, to));
  return ms;
}

// What a kernel says of itself: cycles of one SM, nanoseconds, bytes it moved.
struct Told {
  long long cycles, ns, bytes;
};

__device__ inline long long nanoseconds() {
  long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline uint4 load_l2(const uint4* p) {  // past L1
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__device__ inline uint32_t hash(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// What all probes use; calibrate.cu fills it in.
constexpr size_t kBig = 4096 * kMiB;
inline Report report;
inline cudaDeviceProp device;
inline Told* told;          // one per block, in host memory that the device writes
inline float* sink;         // what keeps results alive
inline uint4 *big, *other;  // kBig bytes each, of random bits

inline int multiprocessors() { return device.multiProcessorCount; }
inline double cycles_per(double count) { return static_cast<double>(told[0].cycles) / count; }
inline void finish() {
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

// mbarriers and bulk copies (sm_90). A wait that lasts traps.
__device__ inline void barrier_init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ inline void barrier_arrive(uint32_t barrier) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(barrier) : "memory");
}
#if __CUDA_ARCH__ >= 900
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  for (int i = 0; i < 1 << 20; ++i) {
    uint32_t done;
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    if (done) return;
  }
  __trap();
}
__device__ inline void copy_in(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1; }" ::"r"(barrier),
               "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
#endif
