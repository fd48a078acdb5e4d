// What a program computes: every instruction executed on values, bit for bit, in the order of
// simulated time. An operation reads its operands when it begins and writes its results when it is
// done, so that a token which is missing yields the wrong data that the machine would compute; and
// the detector of races (races.h) says whether another timing could.
//
// Meaning of each instruction: numbers.h (rounding, requantisation), product.h (MX), vector.h (VE),
// tables.h (EXP TANH SIGM GELU), access.h (what is read and written), isa/isa.h (fields). Two
// things beside: MX.LDW's weights are in the shadow set from its beginning on (an MM that swaps
// waits until it is done); MX.MM and MX.MMOS read rows and weights when they begin and add to ACC
// when they are done, where the array has its adders. Weights of another type than an MM's, and
// those that were never loaded, are 0.
//
// Addresses in bytes, of ACC in 32-bit words; times in ticks (timing/ticks.h). No globals: any
// number of runs at once, each with a memory of its own. Deterministic.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/npu/function/memory.h"
#include "src/npu/function/races.h"
#include "src/npu/timing/timing.h"

namespace lw::npu {

// ok; race: an order that nothing guarantees, data as this timing has it; deadlock, overflow: of
// the timing, nothing was executed; bounds: DRAM outside of every buffer (or one that must not be
// written), nothing was executed.
enum class FunctionStatus { kOk, kRace, kDeadlock, kOverflow, kBounds };
std::string_view name_of(FunctionStatus status);

struct FunctionOptions {
  bool races = true;                       // look for them
  int most_errors = 20;                    // that are reported
};

struct FunctionReport {
  FunctionStatus status = FunctionStatus::kOk;
  std::vector<std::string> errors;         // a line each; empty: ok
  std::vector<Race> races;                 // those of `errors`
  int64_t races_found = 0;                 // also beyond those
  int64_t overflows = 0;                   // int32 sums that wrapped
};

// Runs what `timeline` of `simulate(config, program, {&timeline})` says has been done.
// kInvalidArgument: what check_program refuses (SPM and ACC too small, for one), a memory of other
// sizes than the machine's, a timeline of another program. REQUIRES: check_config(config) is OK.
absl::StatusOr<FunctionReport> execute(const Config& config, const Program& program,
                                       const Timing& timing, std::span<const Span> timeline,
                                       Memory* memory, const FunctionOptions& options = {});
// The same, simulating first.
absl::StatusOr<FunctionReport> execute(const Config& config, const Program& program,
                                       Memory* memory, const FunctionOptions& options = {});

}  // namespace lw::npu
