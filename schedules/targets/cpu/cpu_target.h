// What a target says of a CPU beside what every machine has: the part of the family `cpu`
// (family.cc), read by the code of that family alone (tests/base/families_test.cc). Values;
// thread-safe.
#pragma once

#include <string>

#include "schedules/targets/target.h"
#include "src/base/check.h"

namespace lw {

struct CpuTarget {
  std::string triple;                      // LLVM's
  std::string cpu;                         // LLVM's -mcpu to schedule for; features decide legality
  int vector_bytes = 16;
  int vector_registers = 16;
  bool fma = false;
  bool masks = false;                      // lane-masked loads and stores are cheap
  double loads_per_cycle = 2, stores_per_cycle = 1;
  double issue_per_cycle = 4;
  int64_t page_bytes = 4096;
  int tlb_entries = 64;
  double parallel_overhead_us = 2;         // one parallel_for

  // As of Target::fields, between whose fields these stand in texts.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({3, "triple"}, self.triple);
    visit({4, "cpu"}, self.cpu);
    visit({6, "vector_bytes"}, self.vector_bytes);
    visit({7, "vector_registers"}, self.vector_registers);
    visit({8, "fma"}, self.fma);
    visit({9, "masks"}, self.masks);
    visit({10, "loads_per_cycle"}, self.loads_per_cycle);
    visit({11, "stores_per_cycle"}, self.stores_per_cycle);
    visit({12, "issue_per_cycle"}, self.issue_per_cycle);
    visit({15, "page_bytes"}, self.page_bytes);
    visit({16, "tlb_entries"}, self.tlb_entries);
    visit({17, "parallel_overhead_us"}, self.parallel_overhead_us);
  }
};

extern const TargetFamily kCpuFamily;

// REQUIRES: target is of the family. The reference is good until the target is changed.
inline const CpuTarget& cpu(const Target& target) {
  CHECK(target.part.family() == &kCpuFamily);
  return *static_cast<const CpuTarget*>(target.part.value());
}
void set_cpu(Target* target, CpuTarget part);

}  // namespace lw
