// Latencies and bandwidths of shared memory, L1, L2 and DRAM.
#pragma once
#include <numeric>
#include <random>

#include "probe.cuh"

// One thread follows a ring of addresses in shared memory.
__global__ void chase_shared(int hops, Told* told, float* sink) {
  __shared__ uint32_t ring[256];
  for (int i = 0; i < 256; ++i) ring[i] = shared_address(&ring[(i + 37) % 256]);
  uint32_t at = shared_address(ring);
  const long long from = clock64();
  for (int i = 0; i < hops; i += 16)
#pragma unroll
    for (int u = 0; u < 16; ++u) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at)::"memory");
  told->cycles = clock64() - from;
  *sink = static_cast<float>(at);
}

// Thread 0 of block 0 follows a ring of addresses in global memory. The other blocks, if any, read
// `load` (a power of two of vectors) all the while, eight 16-byte loads a thread in flight.
template <bool kL1>
__global__ void __launch_bounds__(512)
    chase_global(uint64_t start, int hops, const uint4* load, size_t vectors, Told* told,
                 volatile int* stop, float* sink) {
  if (blockIdx.x == 0) {
    if (threadIdx.x != 0) return;
    if (gridDim.x > 1)
      for (const long long t = nanoseconds(); nanoseconds() - t < 200000;) {
      }  // until all run
    uint64_t at = start;
    const long long ns = nanoseconds(), from = clock64();
    for (int i = 0; i < hops; i += 8)
#pragma unroll
      for (int u = 0; u < 8; ++u) {
        if (kL1)
          asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(at)::"memory");
        else
          asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
      }
    told->cycles = clock64() - from;
    told->ns = nanoseconds() - ns;
    told->bytes = static_cast<long long>(at);
    *stop = 1;
    return;
  }
  const size_t step = (gridDim.x - 1) * size_t{blockDim.x};
  size_t i = (blockIdx.x - 1) * size_t{blockDim.x} + threadIdx.x;
  uint32_t sum = 0;
  int turn = 0;
  const long long ns = nanoseconds();
  for (; turn < 1 << 15 && !*stop; ++turn) {
    for (int n = 0; n < 4; ++n) {
      uint4 v[8];
#pragma unroll
      for (int u = 0; u < 8; ++u) v[u] = load_l2(load + ((i + u * step) & (vectors - 1)));
#pragma unroll
      for (int u = 0; u < 8; ++u) sum ^= v[u].x ^ v[u].w;
      i += 8 * step;
    }
  }
  if (threadIdx.x == 0) told[blockIdx.x] = {0, nanoseconds() - ns, turn * 32ll * blockDim.x * 16};
  if (sum == 1) *sink = 1;
}

// A ring through every `spacing`-th byte of a window, in random order, written by the host.
inline void make_ring(uint8_t* window, size_t bytes, size_t spacing) {
  std::vector<uint64_t> order(bytes / spacing), image(bytes / 8);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (size_t i = 0; i < order.size(); ++i)
    image[order[i] * spacing / 8] =
        reinterpret_cast<uint64_t>(window) + order[(i + 1) % order.size()] * spacing;
  CHECK(cudaMemcpy(window, image.data(), bytes, cudaMemcpyHostToDevice));
}

// L1, L2 (2 MiB, every 128th byte, passed once before) and DRAM (256 MiB, every 256th byte, each
// hop to a line not seen before, all flushed by writing 512 MiB elsewhere): a mean over lines near
// and far. Loaded: the same beside 131 blocks that read 2 GiB (DRAM) or 16 MiB (L2) as fast as they
// can.
inline void latencies() {
  report.record("latency_shared", "cycles", [] {
    chase_shared<<<1, 1>>>(4096, told, sink);
    finish();
    return cycles_per(4096);
  });
  uint8_t* ring;
  int* stop;
  CHECK(cudaMalloc(&ring, 256 * kMiB));
  CHECK(cudaMalloc(&stop, sizeof(int)));
  auto chase = [&](auto kernel, uint64_t start, int hops, int blocks, size_t loaded) {
    CHECK(cudaMemset(stop, 0, sizeof(int)));
    kernel<<<blocks, 512>>>(start, hops, big, loaded / 16, told, stop, sink);
    finish();
    return cycles_per(hops);
  };
  const uint64_t begin = reinterpret_cast<uint64_t>(ring);
  make_ring(ring, 32 << 10, 128);
  report.record("latency_l1", "cycles",
                [&] { return chase(chase_global<true>, begin, 4096, 1, 0); });
  make_ring(ring, 2 * kMiB, 128);
  report.record("latency_l2", "cycles",
                [&] { return chase(chase_global<false>, begin, 16384, 1, 0); });
  report.record("latency_l2_loaded", "cycles", [&] {
    return chase(chase_global<false>, begin, 16384, multiprocessors(), 16 * kMiB);
  });
  // Lines one by one: near and far halves of the L2.
  std::vector<double> lines;
  for (int i = 0; i < 64; ++i) {
    const uint64_t line = begin + 4096 * i + 128 * (i % 32);
    CHECK(cudaMemcpy(reinterpret_cast<void*>(line), &line, 8, cudaMemcpyHostToDevice));
    chase(chase_global<false>, line, 64, 1, 0);
    lines.push_back(chase(chase_global<false>, line, 512, 1, 0));
  }
  std::sort(lines.begin(), lines.end());
  report.fact("latency_l2_nearest_line", "cycles", lines.front());
  report.fact("latency_l2_farthest_line", "cycles", lines.back());
  make_ring(ring, 256 * kMiB, 256);
  uint64_t at = begin;
  for (const bool loaded : {false, true}) {
    std::vector<double> ns, rate;
    report.record(loaded ? "latency_dram_loaded" : "latency_dram", "cycles", [&] {
      CHECK(cudaMemset(other, 1, 512 * kMiB));
      const double cycles =
          chase(chase_global<false>, at, 8192, loaded ? multiprocessors() : 1, 2048 * kMiB);
      at = static_cast<uint64_t>(told->bytes);
      ns.push_back(static_cast<double>(told->ns) / 8192);
      rate.push_back(0);
      for (int b = 1; loaded && b < multiprocessors(); ++b)
        rate.back() += static_cast<double>(told[b].bytes) / static_cast<double>(told[b].ns) / 1e3;
      return cycles;
    });
    std::sort(rate.begin(), rate.end());
    if (loaded) report.fact("latency_dram_loaded_by", "TB/s", rate[rate.size() / 2]);
    std::sort(ns.begin(), ns.end());
    report.fact(loaded ? "latency_dram_loaded_ns" : "latency_dram_ns", "ns", ns[ns.size() / 2]);
  }
  CHECK(cudaFree(ring));
  CHECK(cudaFree(stop));
}

// Each thread reads `count` 16-byte words past L1, kUnroll of them in flight, from a ring of
// `vectors`: all threads of the grid abreast, or (`apart`) each block by itself from a place of its
// own.
template <int kUnroll>
__global__ void read_words(const uint4* from, size_t vectors, int count, bool apart, float* sink) {
  const size_t step = (apart ? blockDim.x : size_t{gridDim.x} * blockDim.x) % vectors;
  size_t at = apart ? vectors / gridDim.x * blockIdx.x + threadIdx.x
                    : blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  at %= vectors;
  uint32_t sum = 0;
  for (int n = 0; n < count; n += kUnroll) {
    uint4 v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      v[u] = load_l2(from + at);
      at += step;
      if (at >= vectors) at -= vectors;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) sum ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
  }
  if (sum == 1) *sink = 1;
}

// Copies, or writes where `from` is null, kUnroll 16-byte words a thread and turn.
template <int kUnroll>
__global__ void move_words(uint4* to, const uint4* from, size_t vectors) {
  const size_t threads = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < vectors;
       i += kUnroll * threads) {
    uint4 v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      v[u] = from != nullptr && i + u * threads < vectors ? __ldcs(from + i + u * threads)
                                                          : uint4{1, 2, 3, 4};
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (i + u * threads < vectors) __stcs(to + i + u * threads, v[u]);
  }
}

// A lane of each warp keeps `slots` bulk copies of `chunk` bytes in flight (sm_90), each waited for
// and issued anew, over a window of `bytes` (a power of two): bandwidth as a function of the bytes
// in flight.
__global__ void ring_read(const uint8_t* from, size_t bytes, int slots, uint32_t chunk, int copies,
                          Told* told) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) uint8_t room[];
  __shared__ uint64_t barriers[64];
  if (threadIdx.x % 32 != 0) return;
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const uint32_t full = shared_address(&barriers[warp * slots]),
                 to = shared_address(room) + warp * slots * chunk;
  for (int s = 0; s < slots; ++s) barrier_init(full + 8 * s, 1);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  size_t at = (size_t{blockIdx.x} * warps + warp) * chunk;
  int slot = 0;
  uint32_t parity = 1;  // of the phase before the first
  const long long start = clock64();
  for (int i = 0; i < copies + slots; ++i) {
    if (i >= slots) barrier_wait(full + 8 * slot, parity);
    if (i < copies) copy_in(to + chunk * slot, from + at, chunk, full + 8 * slot);
    at = (at + size_t{gridDim.x} * warps * chunk) & (bytes - 1);
    if (++slot == slots) slot = 0, parity ^= 1;
  }
  if (warp == 0) told[blockIdx.x].cycles = clock64() - start;
#endif
}

// Past L1 from windows of 4 to 48 MiB, the blocks abreast; 8 MiB by blocks an SM x threads, abreast
// and each block going round by itself (as the tiles of a matrix product do); DRAM read, written,
// copied (bytes read and written) over 4 GiB, the best of four ways to launch; the ring's curves.
inline void bandwidths() {
  const int sms = multiprocessors();
  // TB/s of a launch in which each thread reads all but the remainder of its share of `bytes`.
  auto read = [&](int blocks, int threads, size_t window, size_t bytes, bool apart) {
    const int count = static_cast<int>(bytes / 16 / (size_t(blocks) * threads) / 8 * 8);
    return 16.0 * blocks * threads * count / 1e9 / milliseconds([&] {
             read_words<8><<<blocks, threads>>>(big, window / 16, count, apart, sink);
           });
  };
  for (const int mib : {4, 8, 16, 24, 32, 40, 48})
    report.record("l2_read_" + std::to_string(mib) + "MiB", "TB/s",
                  [&] { return read(4 * sms, 512, mib * kMiB, 4096 * kMiB, false); });
  for (const bool apart : {false, true})
    for (const int blocks : {1, 2, 8})
      report.record(
          std::string("l2_read_8MiB_") + (apart ? "apart_" : "abreast_") + std::to_string(blocks) +
              "x" + std::to_string(std::min(1024, 2048 / blocks)),
          "TB/s", [&] {
            return read(blocks * sms, std::min(1024, 2048 / blocks), 8 * kMiB, 4096 * kMiB, apart);
          });
  struct Shape {
    int blocks, threads;
  };
  const Shape shapes[] = {{2, 1024}, {8, 512}, {32, 256}, {256, 256}};
  auto best = [&](const char* name, double bytes, auto launch) {
    const Shape* chosen = shapes;
    double least = 1e9;
    for (const Shape& shape : shapes) {
      launch(shape);
      const double ms =
          std::min(milliseconds([&] { launch(shape); }), milliseconds([&] { launch(shape); }));
      if (ms < least) least = ms, chosen = &shape;
    }
    report.record(name, "TB/s",
                  [&] { return bytes / 1e9 / milliseconds([&] { launch(*chosen); }); });
    report.fact(std::string(name) + "_blocks_per_sm", "", chosen->blocks);
  };
  for (const Shape& s : {Shape{2, 1024}, Shape{32, 256}})
    report.record("dram_read_" + std::to_string(s.blocks) + "_blocks_per_sm", "TB/s",
                  [&] { return read(s.blocks * sms, s.threads, kBig, kBig, false); });
  best("dram_write", kBig,
       [&](Shape s) { move_words<4><<<s.blocks * sms, s.threads>>>(other, nullptr, kBig / 16); });
  best("dram_copy", 2.0 * kBig,
       [&](Shape s) { move_words<4><<<s.blocks * sms, s.threads>>>(other, big, kBig / 16); });
  report.record("dram_memcpy", "TB/s", [&] {
    return 2.0 * kBig / 1e9 / milliseconds([&] {
             CHECK(cudaMemcpyAsync(other, big, kBig, cudaMemcpyDeviceToDevice));
           });
  });
  if (device.major < 9) return;
  CHECK(cudaFuncSetAttribute(ring_read, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  struct Ring {
    int warps, slots;
  };
  for (const bool dram : {true, false})
    for (const Ring& r :
         {Ring{1, 1}, {1, 2}, {2, 2}, {3, 2}, {4, 2}, {4, 3}, {4, 4}, {4, 6}, {4, 8}, {4, 12}})
      report.record(
          std::string(dram ? "dram" : "l2") + "_read_with_" +
              std::to_string(4 * r.warps * r.slots) + "KiB_in_flight",
          "TB/s",
          [&] {
            const int copies = r.slots * 500;
            return 4096.0 * copies * r.warps * sms / 1e9 / milliseconds([&] {
                     ring_read<<<sms, 32 * r.warps, r.warps * r.slots * 4096>>>(
                         reinterpret_cast<uint8_t*>(big), dram ? kBig : 16 * kMiB, r.slots, 4096,
                         copies, told);
                   });
          },
          5);
  // 64 and 128 KiB in copies of 16 KiB from L2, all SMs and one alone: what an SM can take in.
  for (const int blocks : {sms, 1})
    for (const int warps : {1, 2})
      report.record(
          "bulk_ring_of_" + std::to_string(64 * warps) + "KiB_" +
              (blocks == 1 ? "one_sm" : "all_sms"),
          "B per cycle and SM",
          [&] {
            ring_read<<<blocks, 32 * warps, warps * 4 * 16384>>>(reinterpret_cast<uint8_t*>(big),
                                                                 (blocks == 1 ? 1 : 16) * kMiB, 4,
                                                                 16384, 2000, told);
            finish();
            return 2000.0 * 16384 * warps / static_cast<double>(told[0].cycles);
          },
          5);
}
