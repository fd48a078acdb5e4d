// What the cost model knows of NPUs: the functions of cost::Family, and what they are made of. Times
// are closed forms of a nest's loops: each engine by itself, then how they overlap. Internal to
// cost_model.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/cost_model.h"

namespace lw::cost::npu {

// Of a stage, of one call; cycles of the core's clock.
struct StageTimes {
  double instructions = 0;                 // dispatched
  double folds = 0, weight_loads = 0;      // MX.MM or MX.MMOS; MX.LDW
  double array = 0;                        // cycles of MX, or of VE where it computes
  double load_a = 0, load_b = 0, store = 0;  // cycles of DRAM
  double vectors = 0;                      // cycles of VE beside the array
  double bytes_a = 0, bytes_b = 0, bytes_stored = 0;
  double run_a = 0, run_b = 0, run_stored = 0;  // contiguous bytes
  double fill = 0;                         // before the array has its first tile
  double drain = 0;                        // after its last product
  double overlapped = 0;                   // of loads: the share that is beside the array
  double spm_share = 0, acc_share = 0;     // of the memories, in use
  double rows = 0, columns = 0, sums = 0;  // of an instruction
  double tile_rows = 0, tile_columns = 0, tile_sums = 0;
  double macs = 0;
  bool output_stationary = false;
  int slots_a = 1, slots_b = 1, slots_held = 1;
  double cycles = 0;
};
std::vector<StageTimes> stage_times(const Nest& nest);
StageTimes vector_times(const Nest& nest, int stage);  // of one that the vector engine computes

const std::vector<Feature>& table();
std::vector<float> features(const Nest& nest);
double draft_us(const Nest& nest);
uint64_t kind(uint64_t hash, const std::vector<float>& features);

}  // namespace lw::cost::npu
