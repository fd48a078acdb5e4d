// The facts about a nest that decide its speed, gathered once, in microseconds: what features and
// the draft model read. Internal to cost_model (and to the tests of features).
//
// Every stage that runs has a chain of loops: those of its hosts around it, then its own. For each
// position of the chain (inside the loops before it) the box of the stage's axes is known, hence,
// in closed form, the elements, cache lines and pages of every array that the code inside touches.
//
//   tile      the instances of the register tile (full ones and edges), each with its instruction
//   mix,
//             bound by arithmetic ports, loads, stores, issue width or the latency of its
//             accumulators;
//   traffic   lines that cross each cache boundary: an array is fetched again by a loop when what
//   one
//             iteration touches exceeds the cache, else only its new lines are;
//   parallel  ceil(tasks / threads), the regions entered.
#pragma once

#include <vector>

#include "absl/container/inlined_vector.h"
#include "cost_model/cpu/access.h"
#include "schedules/costs.h"
#include "schedules/nest.h"

namespace lw {

constexpr int kBoundaries = 4;  // L1, L2, L3 (as far as the target has them), and the TLB
constexpr int kTlb = 3;

// An array as one stage touches it, by chain position (0: outside all loops).
struct Array {
  int tensor = -1;
  double element_bytes = 4;
  bool written = false;
  bool read_back = false;  // written: partial sums are read again
  bool local = false;      // a copy or an attached producer's buffer
  bool epilogue = false;   // touched once a finished point
  bool input_or_output = false;
  int from = 0;   // position of a local buffer's stage: it is one place there
  int until = 0;  // innermost position at which memory is touched
  absl::InlinedVector<double, 24> lines, crowded, pages, run_bytes;  // until + 1 entries
  double row_stride_bytes = 0;        // between contiguous runs, at `until`
  bool reused_rows_conflict = false;  // rows a multiple of the page apart
  double moved[kBoundaries] = {};     // lines (pages) that cross each boundary in one call
};

// Instruction mix of register tiles, summed over all that run in one call.
struct Mix {
  double arithmetic = 0, shuffles = 0, loads = 0, stores = 0, issue = 0;
};

struct StageCost {
  int stage = -1;
  int host = -1;                   // index into Analysis::stages
  bool timed = true;               // false: before the timed calls
  int depth = 0;                   // loops of hosts around it
  int run = 0, tile = 0, end = 0;  // chain positions
  int lanes = 1;
  int vector_axis = -1;
  bool vector_reduces = false;
  bool accumulates_in_memory = false;
  cost::Body body;
  absl::InlinedVector<double, 24> trips;  // of each loop of the chain
  std::vector<double> box;                // (end + 1) x axes
  std::vector<double> share;  // the same of one thread, which runs `chunk` of the parallel loop's
                              // iterations: what it reads that the others read too is not shared
  int parallel = -1;          // the parallel loop's place in the chain, -1: none
  double chunk = 1;
  std::vector<Array> arrays;
  absl::InlinedVector<double, 24>
      touched[kBoundaries];  // lines (pages) inside each own position, for each boundary

  // The register tile (full instance).
  double rows = 1, columns = 1, depth_unroll = 1;  // spatial points, vectors, reduction steps
  double registers = 0;                            // wanted
  double full_share = 1;                           // of the updates that run a full tile
  double lanes_used = 1;                           // of the lanes computed
  double body_slots = 0;                           // instructions of one full update
  double instances = 1;                            // code copies for edges
  double updates = 0, finishes = 0;  // register tiles run in one call, and results stored
  Mix mix;
  double update_cycles = 0;                                  // of a full tile, the tightest bound
  double latency_bound = 0, port_bound = 0, load_bound = 0;  // of a full tile
  double arithmetic_cycles = 0, load_cycles = 0, store_cycles = 0,
         issue_cycles = 0;  // all, one call
  double loop_cycles = 0;   // control of the loops outside
  double compute_cycles = 0;
  double memory_cycles[kBoundaries] = {};
  double cycles = 0;              // both together, of one thread
  double tasks = 1, regions = 0;  // of its parallel loop (its own or a host's)
  double wall_cycles = 0;         // with the nest's threads

  int axes() const {
    return static_cast<int>(trips.empty() && box.empty() ? 0 : box.size() / (end + 1));
  }
  const double* box_at(int position) const {
    return box.data() + static_cast<size_t>(position) * axes();
  }
  const double* share_at(int position) const {
    return share.data() + static_cast<size_t>(position) * axes();
  }
  double thread_trips(int loop) const { return loop == parallel ? chunk : trips[loop]; }
};

struct Analysis {
  std::vector<StageCost> stages;  // those that run, hosts before what is attached to them
  std::vector<int> order;         // of the roots, as they run (indices into stages)
  int main = -1;                  // the stage that costs most
  double program_lines = 0, program_pages = 0;  // touched by one call
  double flops = 0;  // arithmetic slots of the program's points, unscheduled
  double us = 0;     // the draft's answer
};

Analysis analyze(const Nest& nest);

namespace cost {
// The passes, in order; each fills its fields of every stage.
void find_chains(const Nest& nest, Analysis& analysis);   // chains and boxes
void find_arrays(const Nest& nest, Analysis& analysis);   // lines, pages, runs
void cost_tiles(const Nest& nest, Analysis& analysis);    // instruction mixes and their bounds
void find_traffic(const Nest& nest, Analysis& analysis);  // lines over boundaries
void combine(const Nest& nest, Analysis& analysis);       // cycles, threads, microseconds

// Axes that a tail of the stage's own loops masks: one instance of code does tiles at the edge too.
AxisMask masked_axes(const Stage& stage, const StageCost& cost);

// Elements of the array's storage between neighbours along `axis` of the stage's axes.
double storage_stride(const Nest& nest, const Analysis& analysis, const StageCost& cost,
                      const Access& access, int axis);
// Where the stage stores its result, or an epilogue's, which `tensor` is: at its own point; and the
// same of the storage there.
Access result_access(const Nest& nest, const StageCost& cost, int tensor);
double result_stride(const Nest& nest, const Analysis& analysis, const StageCost& cost,
                     const Access& result, int axis);
}  // namespace cost

}  // namespace lw
