// Rates of wgmma from shared memory and from registers, alone and beside bulk copies into shared
// memory.
//
// The loop is PTX of its own, as the accumulators must not be touched while products are in flight:
// batches of four steps of 32 bytes of k (one 128-byte row of operands), the next batch issued
// before the last is waited for, always on the same 64 x 64 tile of A and N x 64 tile of B.
#pragma once
#include "probe.cuh"

namespace wgmma {

constexpr int kTileA = 8 << 10, kTileB = 32 << 10, kSlot = 16 << 10, kSlots = 4;
constexpr int kShared = 1024 + 2 * kTileA + kTileB + 2 * kSlots * kSlot;

// clang-format off
#define DECADE(t) "d" t "0,d" t "1,d" t "2,d" t "3,d" t "4,d" t "5,d" t "6,d" t "7,d" t "8,d" t "9"
#define D32 DECADE("") "," DECADE("1") "," DECADE("2") ",d30,d31"
#define D64 DECADE("") "," DECADE("1") "," DECADE("2") "," DECADE("3") "," DECADE("4") "," DECADE("5") ",d60,d61,d62,d63"
#define D96 DECADE("") "," DECADE("1") "," DECADE("2") "," DECADE("3") "," DECADE("4") "," DECADE("5") "," \
  DECADE("6") "," DECADE("7") "," DECADE("8") ",d90,d91,d92,d93,d94,d95"
#define D128 DECADE("") "," DECADE("1") "," DECADE("2") "," DECADE("3") "," DECADE("4") "," DECADE("5") "," \
  DECADE("6") "," DECADE("7") "," DECADE("8") "," DECADE("9") "," DECADE("10") "," DECADE("11") \
  ",d120,d121,d122,d123,d124,d125,d126,d127"

#define STEP(SHAPE, LIST, A, TAIL, p)                                                    \
  "wgmma.mma_async.sync.aligned." SHAPE " {" LIST "}, " A ", b, " p TAIL ";\n"           \
  "add.u64 a, a, 2;\nadd.u64 b, b, 2;\n"
#define LOOP(SHAPE, REGISTERS, LIST, A, TAIL)                                                          \
  asm volatile(                                                                                        \
      "{\n.reg .b32 d<" REGISTERS ">;\n.reg .pred p, q;\n.reg .u32 i;\n.reg .u64 a, b;\n"              \
      "setp.eq.u32 q, 0, 0;\nmov.u32 i, 0;\n"                                                          \
      "AGAIN:\n"                                                                                       \
      "setp.ne.u32 p, i, 0;\nmov.u64 a, %1;\nmov.u64 b, %2;\n"                                         \
      "wgmma.fence.sync.aligned;\n"                                                                    \
      STEP(SHAPE, LIST, A, TAIL, "p") STEP(SHAPE, LIST, A, TAIL, "q") STEP(SHAPE, LIST, A, TAIL, "q")  \
      STEP(SHAPE, LIST, A, TAIL, "q")                                                                  \
      "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n"                           \
      "add.u32 i, i, 1;\nsetp.lt.u32 p, i, %3;\n@p bra AGAIN;\n"                                       \
      "wgmma.wait_group.sync.aligned 0;\n"                                                             \
      "add.f32 %0, d0, d31;\n}\n"                                                                      \
      : "=f"(result) : "l"(a), "l"(b), "r"(turns), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory")
// clang-format on

enum class Kind { kBf16, kBf16Registers, kTf32, kE4m3, kS8 };

// 128-byte swizzle, K-major: groups of 8 rows are 1024 bytes apart.
__device__ inline uint64_t descriptor(uint32_t address) {
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t{1} << 16 | uint64_t{64} << 32 |
         uint64_t{1} << 62;
}

// `groups` warpgroups, each with its own A and all with the same B. Further warps, two at most,
// copy 16 KiB at a time from L2, each into four slots that nobody reads, until the warpgroups have
// finished.
template <int kN, Kind kKind>
__global__ void __launch_bounds__(320)
    products(int groups, uint32_t turns, const uint8_t* from, Told* told, float* sink) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ uint8_t raw[];
  __shared__ uint64_t barriers[2 * kSlots];
  __shared__ volatile int finished;
  uint8_t* room = raw + (1024 - shared_address(raw) % 1024) % 1024;
  for (int i = threadIdx.x; i < (2 * kTileA + kTileB) / 4; i += blockDim.x)
    reinterpret_cast<uint32_t*>(room)[i] = 0x3f803f80u ^ (hash(i + 1) & 0x807f807fu);  // bf16 in [1, 2)
  if (threadIdx.x == 0) {
    finished = 0;
    for (uint64_t& barrier : barriers) barrier_init(shared_address(&barrier), 1);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const int group = threadIdx.x / 128;
  const long long ns = nanoseconds(), start = clock64();
  if (group == groups) {
    if (threadIdx.x % 32 != 0) return;
    const int copier = threadIdx.x / 32 - 4 * groups;
    const uint32_t slots = shared_address(room + 2 * kTileA + kTileB + copier * kSlots * kSlot);
    const uint32_t full = shared_address(&barriers[copier * kSlots]);
    from += (size_t{blockIdx.x} * 2 + copier) * kSlots * kSlot;
    long long copies = 0;
    int slot = 0;
    uint32_t parity = 1;
    for (; finished < groups; ++copies) {
      if (copies >= kSlots) barrier_wait(full + 8 * slot, parity);
      copy_in(slots + kSlot * slot, from + kSlot * slot, kSlot, full + 8 * slot);
      if (++slot == kSlots) slot = 0, parity ^= 1;
    }
    told[512 + 2 * blockIdx.x + copier].bytes = copies * kSlot;
    for (int i = 0; i < kSlots && copies >= kSlots; ++i) {  // nothing may land after the exit
      barrier_wait(full + 8 * slot, parity);
      if (++slot == kSlots) slot = 0, parity ^= 1;
    }
    return;
  }
  const uint64_t a = descriptor(shared_address(room + kTileA * group)),
                 b = descriptor(shared_address(room + 2 * kTileA));
  uint32_t r[4];
  for (int i = 0; i < 4; ++i) r[i] = 0x3f803f80u ^ (hash(threadIdx.x * 4 + i) & 0x807f807fu);
  float result = 0;
#define BF16(N) "m64n" #N "k16.f32.bf16.bf16"
  if constexpr (kKind == Kind::kBf16Registers) {
    if constexpr (kN == 64) LOOP(BF16(64), "32", D32, "{%4,%5,%6,%7}", ", 1, 1, 0");
    if constexpr (kN == 128) LOOP(BF16(128), "64", D64, "{%4,%5,%6,%7}", ", 1, 1, 0");
    if constexpr (kN == 256) LOOP(BF16(256), "128", D128, "{%4,%5,%6,%7}", ", 1, 1, 0");
  }
  if constexpr (kKind == Kind::kBf16) {
    if constexpr (kN == 64) LOOP(BF16(64), "32", D32, "a", ", 1, 1, 0, 0");
    if constexpr (kN == 128) LOOP(BF16(128), "64", D64, "a", ", 1, 1, 0, 0");
    if constexpr (kN == 192) LOOP(BF16(192), "96", D96, "a", ", 1, 1, 0, 0");
    if constexpr (kN == 256) LOOP(BF16(256), "128", D128, "a", ", 1, 1, 0, 0");
  }
  if constexpr (kKind == Kind::kTf32) LOOP("m64n256k8.f32.tf32.tf32", "128", D128, "a", ", 1, 1");
  if constexpr (kKind == Kind::kE4m3) LOOP("m64n256k32.f32.e4m3.e4m3", "128", D128, "a", ", 1, 1");
  if constexpr (kKind == Kind::kS8) LOOP("m64n256k32.s32.s8.s8", "128", D128, "a", "");
  if (threadIdx.x % 128 == 0) {
    if (group == 0)
      told[blockIdx.x].cycles = clock64() - start, told[blockIdx.x].ns = nanoseconds() - ns;
    atomicAdd(const_cast<int*>(&finished), 1);
  }
  if (result == 12345) *sink = result;
#endif
}

// Cycles of one instruction of one warpgroup; with two, of one of each.
template <int kN, Kind kKind>
void probe(int groups, int copiers, int blocks) {
  const auto kernel = products<kN, kKind>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  const char* kinds[] = {"bf16", "bf16_a_in_registers", "tf32", "e4m3", "s8"};
  const std::string name = std::string("wgmma_") + kinds[static_cast<int>(kKind)] + "_m64n" +
                           std::to_string(kN) + "_" + std::to_string(groups) + "_warpgroups" +
                           (copiers > 0 ? "_beside_" + std::to_string(copiers) + "_copiers" : "") +
                           (copiers > 0 && blocks == 1 ? "_one_sm" : "");
  const uint32_t turns = 4000;
  double bytes = 0;
  report.record(name, "cycles", [&] {
    kernel<<<blocks, 128 * groups + 32 * copiers, kShared>>>(
        groups, turns, reinterpret_cast<uint8_t*>(big), told, sink);
    finish();
    bytes = 0;
    for (int i = 0; i < copiers; ++i)
      bytes += static_cast<double>(told[512 + i].bytes) / static_cast<double>(told[0].cycles);
    return cycles_per(4.0 * turns);
  });
  if (copiers > 0) report.fact(name + "_copied", "B per cycle and SM", bytes);
}

// All SMs; then beside copies of as much as L2 gives; then one SM alone, which gets more of L2.
inline void rates() {
  const int sms = multiprocessors();
  for (const int groups : {1, 2}) {
    probe<64, Kind::kBf16>(groups, 0, sms);
    probe<128, Kind::kBf16>(groups, 0, sms);
    probe<192, Kind::kBf16>(groups, 0, sms);
    probe<256, Kind::kBf16>(groups, 0, sms);
    probe<64, Kind::kBf16Registers>(groups, 0, sms);
    probe<128, Kind::kBf16Registers>(groups, 0, sms);
    probe<256, Kind::kBf16Registers>(groups, 0, sms);
    probe<256, Kind::kTf32>(groups, 0, sms);
    probe<256, Kind::kE4m3>(groups, 0, sms);
    probe<256, Kind::kS8>(groups, 0, sms);
  }
  for (const int blocks : {sms, 1})
    for (const int copiers : {1, 2}) {
      probe<64, Kind::kBf16>(2, copiers, blocks);
      probe<128, Kind::kBf16>(2, copiers, blocks);
      probe<256, Kind::kBf16>(2, copiers, blocks);
      probe<256, Kind::kBf16Registers>(2, copiers, blocks);
    }
  // A quarter of a second without a pause, two warpgroups of n256: what clock and power leave of
  // the peak when nothing but the tensor cores works.
  const uint32_t turns = 400000;
  double mhz = 0;
  report.record(
      "wgmma_bf16_sustained", "TFLOP/s",
      [&] {
        const double ms = milliseconds([&] {
          products<256, Kind::kBf16><<<sms, 256, kShared>>>(2, turns, nullptr, told, sink);
        });
        mhz = 1e3 * static_cast<double>(told[0].cycles) / static_cast<double>(told[0].ns);
        return 2.0 * 64 * 256 * 16 * 4 * turns * 2 * sms / 1e9 / ms;
      },
      3);
  report.fact("sm_mhz_wgmma_bf16_sustained", "MHz", mhz);
}

}  // namespace wgmma
