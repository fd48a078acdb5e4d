// What waiting costs: barriers of a block and of a cluster, mbarriers, bulk copies, launches.
#pragma once
#include <chrono>

#include "probe.cuh"

namespace waiting {

constexpr int kTurns = 256;

// All threads of a block meet kTurns times: at bar.sync, or at an mbarrier where every thread
// arrives and waits, or where one lane of each warp arrives and all threads wait.
enum class Kind { kBlock, kEveryThread, kEveryWarp };
template <Kind kKind>
__global__ void meet(Told* told) {
#if __CUDA_ARCH__ >= 900
  __shared__ uint64_t barrier;
  const uint32_t at = shared_address(&barrier);
  if (threadIdx.x == 0) barrier_init(at, kKind == Kind::kEveryWarp ? blockDim.x / 32 : blockDim.x);
  __syncthreads();
  const long long from = clock64();
  for (int i = 0; i < kTurns; ++i) {
    if (kKind == Kind::kBlock) {
      asm volatile("bar.sync 0;" ::: "memory");
    } else {
      if (kKind == Kind::kEveryThread || threadIdx.x % 32 == 0) barrier_arrive(at);
      barrier_wait(at, i & 1);
      __syncwarp();
    }
  }
  if (threadIdx.x == 0) told->cycles = clock64() - from;
#endif
}

// Two warps hand each other the turn through two mbarriers: one way.
__global__ void hand_over(Told* told) {
#if __CUDA_ARCH__ >= 900
  __shared__ uint64_t barriers[2];
  const int me = threadIdx.x / 32;
  const uint32_t mine = shared_address(&barriers[me]), theirs = shared_address(&barriers[1 - me]);
  if (threadIdx.x % 32 == 0) barrier_init(mine, 1);
  __syncthreads();
  if (threadIdx.x % 32 != 0) return;
  const long long from = clock64();
  for (int i = 0; i < kTurns; ++i) {
    if (me == 0) barrier_arrive(theirs);
    barrier_wait(mine, i & 1);
    if (me == 1) barrier_arrive(theirs);
  }
  if (me == 0) told->cycles = clock64() - from;
#endif
}

__global__ void meet_cluster(Told* told) {
#if __CUDA_ARCH__ >= 900
  const long long from = clock64();
  for (int i = 0; i < kTurns; ++i)
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
  if (blockIdx.x == 0 && threadIdx.x == 0) told->cycles = clock64() - from;
#endif
}

// One bulk copy into shared memory, issued and waited for, again and again `stride` bytes on.
__global__ void copy_once(const uint8_t* from, size_t stride, uint32_t bytes, Told* told) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) uint8_t room[];
  __shared__ uint64_t full;
  barrier_init(shared_address(&full), 1);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  const long long start = clock64();
  for (int i = 0; i < kTurns; ++i) {
    copy_in(shared_address(room), from + stride * i, bytes, shared_address(&full));
    barrier_wait(shared_address(&full), i & 1);
  }
  told->cycles = clock64() - start;
#endif
}

__global__ void nothing() {}
__global__ void nothing_much(float* sink) {  // with shared memory, as a tile kernel
  extern __shared__ __align__(1024) uint8_t room[];
  if (threadIdx.x == 0) room[0] = 1;
  if (sink == nullptr) room[1] = 2;
}
// Work of about 2 us a turn, and what a launch adds to it: twice a kernel of one turn less one of
// two turns.
__global__ void work(int turns) {
  const long long from = clock64();
  while (clock64() - from < 4000ll * turns) {
  }
}
// With programmatic launch the next grid is let in at once and waits for this one's end.
__global__ void nothing_early() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#endif
}

template <class Launch>
cudaGraphExec_t captured(Launch launch, int times) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < times; ++i) launch(stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  return made;
}

inline cudaLaunchConfig_t configured(int blocks, int threads, cudaStream_t stream,
                                     cudaLaunchAttribute* attribute) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = 1;
  return config;
}

inline void barriers() {
  auto per_turn = [](const std::string& name, int threads, auto kernel) {
    report.record(name + "_" + std::to_string(threads) + "_threads", "cycles", [&] {
      kernel<<<1, threads>>>(told);
      finish();
      return cycles_per(kTurns);
    });
  };
  for (const int threads : {64, 128, 256, 384, 512, 1024})
    per_turn("barrier", threads, meet<Kind::kBlock>);
  if (device.major < 9) return;
  for (const int threads : {128, 256, 384}) {
    per_turn("mbarrier_every_thread", threads, meet<Kind::kEveryThread>);
    per_turn("mbarrier_a_lane_of_every_warp", threads, meet<Kind::kEveryWarp>);
  }
  report.record("mbarrier_hand_over", "cycles", [] {
    hand_over<<<1, 64>>>(told);
    finish();
    return cycles_per(2 * kTurns);
  });
  for (const unsigned size : {2u, 4u, 8u}) {
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = size, cluster.val.clusterDim.y = 1, cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = configured(size, 256, nullptr, &cluster);
    report.record("barrier_cluster_of_" + std::to_string(size), "cycles", [&] {
      CHECK(cudaLaunchKernelEx(&config, meet_cluster, told));
      finish();
      return cycles_per(kTurns);
    });
    // Blocks of 200 KiB: one an SM, so this is how many SMs clusters of this size can use.
    int clusters = 0;
    config.gridDim = dim3(size * 132);
    config.dynamicSmemBytes = 200 << 10;
    CHECK(
        cudaFuncSetAttribute(nothing_much, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, nothing_much, &config));
    report.fact("sms_in_clusters_of_" + std::to_string(size), "",
                static_cast<double>(clusters) * size);
  }
}

// From L2 (a window passed before) and from DRAM (lines not seen before, after a flush).
inline void bulk_copies() {
  if (device.major < 9) return;
  CHECK(cudaFuncSetAttribute(copy_once, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
  for (const uint32_t bytes : {128u, 4096u, 16384u, 49152u}) {
    const auto* from = reinterpret_cast<const uint8_t*>(big);
    report.record("bulk_copy_" + std::to_string(bytes) + "B_from_l2", "cycles", [&] {
      copy_once<<<1, 1, 64 << 10>>>(from, 0, bytes, told);
      finish();
      return cycles_per(kTurns);
    });
    size_t begin = 0;
    report.record("bulk_copy_" + std::to_string(bytes) + "B_from_dram", "cycles", [&] {
      CHECK(cudaMemset(other, 1, 256 * kMiB));
      copy_once<<<1, 1, 64 << 10>>>(from + begin, 128 << 10, bytes, told);
      begin += (kTurns * 128) << 10;
      finish();
      return cycles_per(kTurns);
    });
  }
}

// Empty kernels: the host's pace, a launch and its wait, and chains in a graph, where a node waits
// for the one before: what a further launch adds to a captured sequence.
inline void launches() {
  const int times = 1000, sms = multiprocessors();
  report.record("launch_stream", "us", [&] {
    return milliseconds([&] {
             for (int i = 0; i < times; ++i) nothing<<<1, 32>>>();
           }) *
           1e3 / times;
  });
  report.record("launch_and_wait", "us", [&] {
    const auto from = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) {
      nothing<<<1, 32>>>();
      CHECK(cudaStreamSynchronize(nullptr));
    }
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from)
               .count() /
           100;
  });
  report.record("events_around_nothing", "us",
                [&] { return milliseconds([&] { nothing<<<1, 32>>>(); }) * 1e3; });
  auto chain = [&](const std::string& name, auto launch) {
    const cudaGraphExec_t graph = captured(launch, times);
    report.record(name, "us", [&] {
      return milliseconds([&] { CHECK(cudaGraphLaunch(graph, nullptr)); }) * 1e3 / times;
    });
  };
  chain("launch_graph_one_block", [&](cudaStream_t s) { nothing<<<1, 32, 0, s>>>(); });
  chain("launch_graph_all_sms", [&](cudaStream_t s) { nothing<<<sms, 384, 0, s>>>(); });
  CHECK(cudaFuncSetAttribute(nothing_much, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  const int room = device.major >= 9 ? 200 << 10 : 100 << 10;
  chain("launch_graph_all_sms_200KiB",
        [&](cudaStream_t s) { nothing_much<<<sms, 384, room, s>>>(sink); });
  const cudaGraphExec_t one = captured([&](cudaStream_t s) { work<<<sms, 384, 0, s>>>(1); }, times);
  const cudaGraphExec_t two = captured([&](cudaStream_t s) { work<<<sms, 384, 0, s>>>(2); }, times);
  auto replay = [&](cudaGraphExec_t graph) {
    return milliseconds([&] { CHECK(cudaGraphLaunch(graph, nullptr)); }) * 1e3 / times;
  };
  report.record("launch_graph_between_work", "us", [&] { return 2 * replay(one) - replay(two); });
  if (device.major < 9) return;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  chain("launch_graph_all_sms_programmatic", [&](cudaStream_t s) {
    const cudaLaunchConfig_t config = configured(sms, 384, s, &early);
    CHECK(cudaLaunchKernelEx(&config, nothing_early));
  });
}

}  // namespace waiting
