// What decides how fast a machine whose items run in step computes a nest: of each launch how its
// groups fill the units, and what memories do for neighbours at once. Internal to cost_model (and
// to the tests of it). Pure; thread-safe.
#pragma once

#include <vector>

#include "cost_model/cpu/analysis.h"
#include "cost_model/simt/wide.h"

namespace lw::cost::simt {

enum class Where { kGlobal, kLocal, kOwn };

// A load or a store of items in step.
struct Wide {
  int stage = -1, tensor = -1;
  bool written = false;
  Where where = Where::kGlobal;
  double bytes = 4;                        // that an item moves at once
  int lanes = 1;                           // items in step that take part
  double count = 0;                        // how often, in a group
  double pieces = 1;                       // transactions; of local memory, cycles of its banks
  double moved_bytes(double access) const { return count * pieces * access; }
  double useful_bytes() const { return count * lanes * bytes; }
};

struct Launch {
  int stage = -1;                          // at the root
  double groups = 1, items = 1;            // items: of a group
  double units = 1;                        // that it can use
  double local_bytes = 0;                  // of a group
  double item_bytes = 0;                   // of an item's registers and own memory
  double registers = 0;                    // of 32 bits, an item's, where the target says what it has
  double resident = 1;                     // groups that a unit holds at once
  double occupancy = 1;                    // share of the items that it could hold
  double tail = 1;                         // busy share of units, until the last group has ended
  std::vector<Wide> accesses;

  // Cycles of a unit for a group, and of a group that is alone with its latencies.
  double issue = 0, global = 0, local = 0, matrices = 0, latency = 0;
  double far_cycles[kBoundaries] = {};     // of the device, for what lies behind each cache
  double us = 0;                           // without what groups and kernels cost to begin
};

// `processor`: the nest on processors alike (cpu/processor.h), of which the analysis is; the target
// is the nest's. REQUIRES: target.simd > 1.
std::vector<Launch> launches(const Nest& nest, const Nest& processor, const Analysis& analysis);
// What that is.
Nest as_processor(const Nest& nest);
// Of a nest that nobody has analysed yet.
std::vector<Launch> launches(const Nest& nest);

}  // namespace lw::cost::simt
