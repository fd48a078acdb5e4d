#include "schedules/costs.h"

namespace lw {
namespace {

constexpr Costs with_operations(Costs costs) {
  const auto set = [&](ExprOp op, double slots, double weight) {
    costs.operations[static_cast<size_t>(op)] = {slots, weight};
  };
  set(ExprOp::kConst, 0, 0);
  set(ExprOp::kAxis, 0, 0);
  set(ExprOp::kDiv, 14, 8);
  set(ExprOp::kSqrt, 14, 8);
  set(ExprOp::kRsqrt, 16, 8);
  set(ExprOp::kMod, 18, 8);
  set(ExprOp::kExp, 14, 12);
  set(ExprOp::kLog, 18, 20);
  set(ExprOp::kTanh, 22, 20);
  set(ExprOp::kSigmoid, 22, 12);
  set(ExprOp::kErf, 26, 20);
  set(ExprOp::kPow, 45, 40);
  return costs;
}

constexpr Costs kCpu = with_operations({
    .operations = {},
    .guard_slots = 2,
    .crossing_loads = 1.2,
    .unaligned_loads = 0.7,
    .gather_loads = 4,
    .run_start = 8,
    .loop_slots = 2,
    .address_slots = 0.5,
    .branch_cycles = 0.5,
    .iteration_cycles = 1.5,
    .fused_loop_cycles = 12,
    .task_cycles = 200,
    .store_wait = 15,
    .decoded_slots = 2500,
    .undecoded_issue = 2,
    .port_overlap = 0.15,
    .serial_region = 0.05,
    .fits_below = 0.6,
    .lost_above = 1.2,
    .kept_ways = 4,
    .misses = 12,
    .long_run = 4,
    .asked_for = 0.5,
    .evicted_wait = 0.6,
    .page_cycles = 5,
    .overlap = 0.25,
    .memory_cores = 4,
});

}  // namespace

const Costs& costs(const Target&) { return kCpu; }

}  // namespace lw
