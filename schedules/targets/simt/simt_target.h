// What a target says of a machine of many threads beside what every machine has, as OpenCL's devices
// are: the part of the family `simt` (family.cc), read by the code of that family alone
// (tests/base/families_test.cc). A kernel's launch is a grid of groups; a group's items run on one
// compute unit, meet at barriers and share local memory. Values; thread-safe.
#pragma once

#include <algorithm>
#include <string>

#include "schedules/targets/target.h"
#include "src/base/check.h"

namespace lw {

// The memory that a group's items share (Stage::memory, Buffer::memory).
inline constexpr int kLocalMemory = 0;

// Of memory an item in company may have for itself, times what it has in registers: all of a group
// have theirs at once, on processors on one thread's stack.
inline constexpr int64_t kPrivateRegisters = 4;

struct SimtTarget {
  std::string device;                      // as its driver calls it: which one, of several, it is
  int units = 1;                           // compute units
  int simd = 1;                            // items that a unit runs in step: neighbours in a group
  int sub_group = 1;                       // items that exchange registers; 1: none do
  int64_t group_items = 256;               // most items of a group
  int64_t unit_items = 1024;               // most items of groups that a unit holds at once
  int64_t local_bytes = 32768;             // of a group
  bool local_real = true;                  // false: memory like any other, behind the caches
  int vector_bytes = 16;                   // of an item's widest arithmetic that is one instruction,
                                           // or load that is one access
  int64_t register_bytes = 512;            // that an item may have
  int64_t access_bytes = 64;               // of memory, moved together
  int64_t buffer_bytes = int64_t{1} << 30; // most of one buffer
  bool half = false;                       // arithmetic of f16
  bool fp64 = false;
  double loads_per_cycle = 1;              // of vectors, by an item
  double group_us = 0.1;                   // to begin a group
  double barrier_us = 0.05;                // for a group to meet
  double launch_us = 5;                    // to begin a kernel
  // Of a unit's groups together; 0: nobody says, and it is a group's, or a quarter of what its items
  // may have at most.
  int64_t unit_local_bytes = 0, unit_register_bytes = 0;
  double issue_per_cycle = 1;              // instructions that a unit begins, each of items in step
  bool async_copies = false;               // into local memory, while the items that ask go on
  bool box_copies = false;                 // of boxes of tensors, by an engine that one item asks
  int cluster_groups = 1;                  // most groups that run at once and share such copies
  double cluster_barrier_us = 0;           // for these to meet
  int cluster_units = 0;                   // units that groups run on where more than two run at
                                           // once; 0: all

  // As of Target::fields, below whose common fields these stand in texts.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({101, "device"}, self.device);
    visit({102, "units"}, self.units);
    visit({103, "simd"}, self.simd);
    visit({104, "sub_group"}, self.sub_group);
    visit({105, "group_items"}, self.group_items);
    visit({106, "unit_items"}, self.unit_items);
    visit({107, "local_bytes"}, self.local_bytes);
    visit({108, "local_real"}, self.local_real);
    visit({109, "vector_bytes"}, self.vector_bytes);
    visit({110, "register_bytes"}, self.register_bytes);
    visit({111, "access_bytes"}, self.access_bytes);
    visit({112, "buffer_bytes"}, self.buffer_bytes);
    visit({113, "half"}, self.half);
    visit({114, "fp64"}, self.fp64);
    visit({115, "loads_per_cycle"}, self.loads_per_cycle);
    visit({116, "group_us"}, self.group_us);
    visit({117, "barrier_us"}, self.barrier_us);
    visit({118, "launch_us"}, self.launch_us);
    visit({.number = 119, .name = "unit_local_bytes", .added = true}, self.unit_local_bytes);
    visit({.number = 120, .name = "unit_register_bytes", .added = true}, self.unit_register_bytes);
    visit({.number = 121, .name = "issue_per_cycle", .added = true}, self.issue_per_cycle);
    visit({.number = 122, .name = "async_copies", .added = true}, self.async_copies);
    visit({.number = 123, .name = "box_copies", .added = true}, self.box_copies);
    visit({.number = 124, .name = "cluster_groups", .added = true}, self.cluster_groups);
    visit({.number = 125, .name = "cluster_barrier_us", .added = true}, self.cluster_barrier_us);
    visit({.number = 126, .name = "cluster_units", .added = true}, self.cluster_units);
  }
};

// Units that groups run on which are in clusters of so many.
inline int units_for(const SimtTarget& target, int64_t cluster) {
  return cluster > 2 && target.cluster_units > 0 ? target.cluster_units : target.units;
}

// Each of its units runs one item at a time: a processor's core, of an OpenCL runtime on processors.
inline bool is_processor(const SimtTarget& target) { return target.simd == 1; }

// Of those of a group that a unit has registers for: its registers are in as many parts as it begins
// instructions a cycle, each of items in step of its own, and all parts are as full as the fullest.
inline int64_t register_items(const SimtTarget& target, int64_t items) {
  if (target.unit_register_bytes == 0) return items;
  const int64_t parts = std::max<int64_t>(1, static_cast<int64_t>(target.issue_per_cycle));
  const int64_t row = parts * target.simd;
  return (items + row - 1) / row * row;
}

extern const TargetFamily kSimtFamily;

// REQUIRES: target is of the family. The reference is good until the target is changed.
inline const SimtTarget& simt(const Target& target) {
  CHECK(target.part.family() == &kSimtFamily);
  return *static_cast<const SimtTarget*>(target.part.value());
}
void set_simt(Target* target, SimtTarget part);

}  // namespace lw
