// Machines, as data. A Target says what its code generator may use and what its memory looks like;
// rules and the cost model read fields, never names. Values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/expr/expr.h"

namespace lw {

struct CacheLevel {
  std::string name;                        // "L1", "L2", "L3", "DRAM" (bytes = 0: unbounded)
  int64_t bytes = 0;                       // what one core may use
  bool shared = false;                     // between the cores
  double read_bytes_per_cycle = 0;         // sustained by one core from this level
  double write_bytes_per_cycle = 0;
  double latency_cycles = 0;
};

// The target's innermost instruction: lanes of `a` x `b` accumulated into `acc`, `group` products a
// lane (1: FMA, 4: VNNI, 2: BF16 dot). Throughput in instructions a cycle, latency in cycles.
struct Atom {
  std::string name;
  Type a, b, acc;
  int lanes = 1;
  int group = 1;
  double per_cycle = 1;
  double latency = 4;
};

struct Target {
  std::string name;                        // "x86_avx512", "x86_avx2", ..., "host"
  std::string family;                      // "x86_64", "aarch64": picks the backend
  std::string triple;                      // LLVM's
  std::string cpu;                         // LLVM's -mcpu to schedule for; features decide legality
  std::vector<std::string> features;       // hard: "sse2", "avx2", "fma", "avx512f", ... sorted
  int vector_bytes = 16;
  int vector_registers = 16;
  bool fma = false;
  bool masks = false;                      // lane-masked loads and stores are cheap
  double loads_per_cycle = 2, stores_per_cycle = 1;
  double issue_per_cycle = 4;
  double ghz = 2.5;                        // measured when known
  int cores = 1;
  int64_t page_bytes = 4096;
  int tlb_entries = 64;
  double parallel_overhead_us = 2;         // one parallel_for
  std::vector<CacheLevel> caches;          // nearest first, DRAM last
  std::vector<Atom> atoms;
};

// Lanes of a vector of `type` (at least 1).
int lanes(const Target& target, Type type);

// The instruction that adds products to accumulators of a type, one to a lane; null where the
// target names none. And the one that adds `group` > 1 products of `a` by `b` (in either order).
const Atom* multiply_add(const Target& target, Type acc);
const Atom* dot_product(const Target& target, Type a, Type b, Type acc);

// Stored form, JSON; parse reports the field that is wrong.
std::string to_text(const Target& target);
absl::StatusOr<Target> parse_target(std::string_view text);

// Built-in targets (schedules/targets/*.json) by name; "host" detects this machine: cpuid features,
// caches from sysfs, cores allowed by the affinity mask. Unknown names answer with the known ones.
// The figures of aarch64_neon are those of a Neoverse N1: pipes, latencies, L1, L2 and TLB from
// Arm's Software Optimization Guide and Technical Reference Manual of that core, what lies beyond
// L2 a guess at one core's share; no board was measured.
absl::StatusOr<Target> find_target(std::string_view name);
std::vector<Target> builtin_targets();

// "" when code for `code` runs on `machine`, else the first hard feature that is missing.
std::string missing_feature(const Target& code, const Target& machine);

}  // namespace lw
