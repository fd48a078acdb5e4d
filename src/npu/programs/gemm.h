// Tiled matrix products as programs: C[m, n] = requantised A[m, k] . B, tile after tile, with
// operands of the next tile on their way while one computes. For the gates against other
// simulators, whose tilings it replays, for benches, and as an example of placing tokens. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "src/npu/isa/isa.h"

namespace lw::npu {

struct GemmPlan {
  int64_t m = 0, n = 0, k = 0;
  int64_t tile_m = 0, tile_n = 0, tile_k = 0;    // of one tile in SPM and ACC
  int64_t fold_m = 0;                            // rows of one MM; of MMOS mx.R at most
  bool output_stationary = false;
  Dtype dtype = Dtype::kI8;
};

// Loops: m outermost, then n, then k. In DRAM, from address 0 on, 4 KiB apart: A[m, k], B as [n, k]
// ([k, n] if output stationary), scales and biases of VE.REQ (never loaded: time alone), C[m, n] as
// i8 or bf16. Semaphores 0 to 6. kInvalidArgument: a tile does not fit into what the machine has,
// or a number into its field.
absl::StatusOr<Program> make_gemm(const Config& config, const GemmPlan& plan);

// Bytes that such a program reads and writes, in closed form.
struct GemmTraffic {
  int64_t read = 0, written = 0;
};
GemmTraffic gemm_traffic(const GemmPlan& plan);

}  // namespace lw::npu
