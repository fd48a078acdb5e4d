// Rates of the arithmetic units: FMA, ex2, shared memory, mma.sync, wgmma.
#pragma once
#include "probe.cuh"

#define TELL(from, ns) \
  __syncthreads();     \
  if (threadIdx.x == 0) told[blockIdx.x] = {clock64() - from, nanoseconds() - ns, 0};

enum class Unit { kFma, kExp2, kShared, kMatrix };

// 1024 threads: 8 chains a thread of fused multiply-adds or of ex2; or 16-byte reads of shared
// memory, or ldmatrix.x4 (512 bytes a warp), both free of bank conflicts.
template <Unit kUnit>
__global__ void __launch_bounds__(1024) rate(int turns, Told* told, float* sink) {
  __shared__ uint4 words[2048];
  float x[8];
  for (int u = 0; u < 8; ++u) x[u] = 1e-3f * static_cast<float>(threadIdx.x + u);
  for (int i = threadIdx.x; i < 2048; i += 1024)
    words[i] = {hash(i), hash(i + 1), hash(i + 2), hash(i + 3)};
  const uint32_t at = shared_address(words + threadIdx.x);
  const uint32_t row = shared_address(words + threadIdx.x % 32);
  uint32_t sum = 0;
  __syncthreads();
  const long long ns = nanoseconds(), from = clock64();
  for (int i = 0; i < turns; ++i)
#pragma unroll
    for (int u = 0; u < 64; ++u) {
      float& v = x[u % 8];
      if (kUnit == Unit::kFma)
        asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(v) : "f"(0.999f), "f"(0.5f));
      if (kUnit == Unit::kExp2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(v));
      if (kUnit == Unit::kShared) {
        uint4 w;
        asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                     : "r"(at + 16384 * (u & 1))
                     : "memory");
        sum ^= w.x ^ w.w;  // two of four: issue slots are not the limit
      }
      if (kUnit == Unit::kMatrix) {  // 64 places, in another order each turn, that none is left out
        uint4 w;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                     : "r"(row + 512 * (u ^ (i & 63)))
                     : "memory");
        sum ^= w.x ^ w.w;
      }
    }
  TELL(from, ns)
  for (int u = 1; u < 8; ++u) x[0] += x[u];
  if (x[0] == 1e30f || sum == 1) *sink = x[0];
}

// Each warp: 8 accumulators of mma.sync in turn, operands in registers.
template <bool kInteger>
__global__ void __launch_bounds__(512) mma_rate(int turns, Told* told, float* sink) {
  uint32_t a[4], b[2], d[8][4];
  for (int i = 0; i < 4; ++i)
    a[i] = 0x3f803f80u ^ (hash(threadIdx.x + i) & 0x807f807fu);  // bf16 in [1, 2), either sign
  for (int i = 0; i < 2; ++i) b[i] = 0x3f803f80u ^ (hash(threadIdx.x + 99 + i) & 0x807f807fu);
  for (auto& row : d)
    for (uint32_t& v : row) v = 0;
  __syncthreads();
  const long long ns = nanoseconds(), from = clock64();
  for (int i = 0; i < turns; ++i)
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      if (kInteger)
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
            "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
            : "+r"(d[u][0]), "+r"(d[u][1]), "+r"(d[u][2]), "+r"(d[u][3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
            : "+r"(d[u][0]), "+r"(d[u][1]), "+r"(d[u][2]), "+r"(d[u][3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  TELL(from, ns)
  for (auto& row : d)
    for (uint32_t v : row)
      if (v == 0x12345678) *sink = 1;
}

inline void rates() {
  const int sms = multiprocessors();
  auto whole = [&](const std::string& name, const char* unit, double per_turn, int turns,
                   auto launch) {
    double mhz = 0;
    report.record(name, unit, [&] {
      launch(turns);
      finish();
      mhz = 1e3 * static_cast<double>(told[0].cycles) / static_cast<double>(told[0].ns);
      return per_turn * turns / static_cast<double>(told[0].cycles);
    });
    report.fact("sm_mhz_" + name, "MHz", mhz);
  };
  whole("fma", "per cycle and SM", 64.0 * 1024, 2000,
        [&](int n) { rate<Unit::kFma><<<sms, 1024>>>(n, told, sink); });
  whole("ex2", "per cycle and SM", 64.0 * 1024, 500,
        [&](int n) { rate<Unit::kExp2><<<sms, 1024>>>(n, told, sink); });
  whole("shared_read", "B per cycle and SM", 64.0 * 1024 * 16, 500,
        [&](int n) { rate<Unit::kShared><<<sms, 1024>>>(n, told, sink); });
  whole("ldmatrix", "B per cycle and SM", 64.0 * 32 * 512, 500,
        [&](int n) { rate<Unit::kMatrix><<<sms, 1024>>>(n, told, sink); });
  for (const int warps : {4, 8, 16}) {
    whole("mma_bf16_" + std::to_string(warps) + "_warps", "MAC per cycle and SM",
          8.0 * warps * 16 * 8 * 16, 4000,
          [&](int n) { mma_rate<false><<<sms, 32 * warps>>>(n, told, sink); });
    whole("mma_s8_" + std::to_string(warps) + "_warps", "MAC per cycle and SM",
          8.0 * warps * 16 * 8 * 32, 4000,
          [&](int n) { mma_rate<true><<<sms, 32 * warps>>>(n, told, sink); });
  }
}
