// Measures the constants of the analytic model of a GPU and prints them as JSON.
//
//   nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a -o calibrate calibrate.cu &&
//   ./calibrate
//
// Each probe's comment says how. Cycles are the SM's own (clock64), so they hold at any clock;
// rates in TB/s and TFLOP/s hold at the clocks of the run (sm_mhz_*). A value is the median of 7
// rounds, with the quartiles. What needs sm_90 is left out on older devices (-gencode
// arch=compute_80,code=sm_80). Takes about 20 s and 9 GB of the device's memory.
#include "arithmetic.cuh"
#include "memory.cuh"
#include "probe.cuh"
#include "waiting.cuh"
#include "wgmma.cuh"

namespace {

__global__ void scatter_bits(uint32_t* to, size_t words) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < words;
       i += size_t{gridDim.x} * blockDim.x)
    to[i] = hash(static_cast<uint32_t>(i));
}

}  // namespace

int main() {
  CHECK(cudaGetDeviceProperties(&device, 0));
  CHECK(cudaHostAlloc(&told, 1024 * sizeof(Told), cudaHostAllocMapped));
  CHECK(cudaMalloc(&sink, sizeof(float)));
  CHECK(cudaMalloc(&big, kBig));
  CHECK(cudaMalloc(&other, kBig));
  scatter_bits<<<1024, 256>>>(reinterpret_cast<uint32_t*>(big), kBig / 4);
  finish();
  std::printf(
      "{\"card\": \"%s\", \"sm\": \"%d.%d\", \"multiprocessors\": %d, \"l2_bytes\": %d, "
      "\"constants\": {",
      device.name, device.major, device.minor, device.multiProcessorCount, device.l2CacheSize);
  latencies();
  waiting::barriers();
  waiting::launches();
  bandwidths();
  waiting::bulk_copies();
  rates();
  if (device.major == 9) wgmma::rates();
  std::printf("\n}}\n");
  return 0;
}
