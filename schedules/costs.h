// What a machine's operations, loops and memory cost beside what its Target says: one table of each
// family of machines, which rules and the cost model read. The figures are of out-of-order CPUs in
// general, not of one: times of one machine are the trained model's to learn.
//
// Slots are those of an arithmetic port for one vector, where an addition takes one. Values,
// constant; thread-safe.
#pragma once

#include <algorithm>
#include <array>

#include "schedules/targets/target.h"

namespace lw {

constexpr double kLineBytes = 64;          // of every cache

struct Costs {
  struct Operation {
    double slots = 1;                      // as the cost model counts it
    double weight = 1;                     // as rules weigh its being computed again
  };
  std::array<Operation, kExprOps> operations;
  const Operation& of(ExprOp op) const { return operations[static_cast<size_t>(op)]; }
  double guard_slots;                      // a bound test and the blend with the fill, a dimension

  // Of loads, in slots of a load port.
  double crossing_loads;                   // more, of one that crosses a line
  double unaligned_loads;                  // more, a vector of a line, where rows start anywhere
  double gather_loads;                     // an element, of a gather instruction

  // Of loops, in cycles.
  double run_start;                        // until the pipeline of a run of reductions is filled
  double loop_slots;                       // increment, compare and branch
  double address_slots;                    // of an operand, an update
  double branch_cycles;                    // of a select or a bound test, a row
  double iteration_cycles;                 // of a loop outside the tile
  double fused_loop_cycles;                // quotients and remainders of a fused counter
  double task_cycles;                      // of an iteration of a parallel loop, beyond its tile's
                                           // (measured on tasks of 0.2 us): quotients, and
                                           // unpredicted branches
  double store_wait;                       // until a store can be read from the cache
  double decoded_slots;                    // longer bodies leave the cache of decoded instructions
  double undecoded_issue;                  // instructions a cycle then
  double port_overlap;                     // share of the cycles of a tile's loads and stores, or of
                                           // its arithmetic, whichever are fewer, that shows
  double serial_region;                    // of parallel_overhead_us, with one thread

  // Of memory.
  double fits_below, lost_above;           // of a cache's capacity: all of it stays, none does
  double kept_ways;                        // lines of a set that stay while others come
  double misses;                           // outstanding at once
  double long_run;                         // lines, from which on prefetchers are ahead of a run
  double asked_for;                        // share of the wait left where software prefetches
  double evicted_wait;                     // share of the latency a line, where rows conflict
  double page_cycles;                      // of a miss in the first-level TLB, mostly hidden
  double overlap;                          // share of the smaller bounds that is not hidden
  double memory_cores;                     // that saturate the shared levels

  // The share of what was touched that a cache has lost, which holds `touched` times its capacity.
  double lost(double touched) const {
    return std::clamp((touched - fits_below) / (lost_above - fits_below), 0.0, 1.0);
  }
};

// Of the target's family.
const Costs& costs(const Target& target);

}  // namespace lw
