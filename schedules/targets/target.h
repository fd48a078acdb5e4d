// Machines, as data. A Target says what its code generator may use and what its memory looks like;
// rules and the cost model read fields, never names. Of what only machines of its family have it
// holds a part that is opaque here (part.h). Values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/type.h"
#include "schedules/targets/part.h"
#include "src/base/fields/fields.h"

namespace lw {

inline std::string_view field_word(Type type) { return type_name(type); }
inline bool parse_field_word(std::string_view word, Type* type) { return parse_type(word, type); }

struct CacheLevel {
  std::string name;                        // "L1", "L2", "L3", "DRAM" (bytes = 0: unbounded)
  int64_t bytes = 0;                       // what one core may use
  bool shared = false;                     // between the cores
  double read_bytes_per_cycle = 0;         // sustained by one core from this level
  double write_bytes_per_cycle = 0;
  double latency_cycles = 0;
  std::string later;                       // fields of later versions, JSON, kept as they came

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({1, "name"}, self.name);
    visit({2, "bytes"}, self.bytes);
    visit({3, "shared"}, self.shared);
    visit({4, "read_bytes_per_cycle"}, self.read_bytes_per_cycle);
    visit({5, "write_bytes_per_cycle"}, self.write_bytes_per_cycle);
    visit({6, "latency_cycles"}, self.latency_cycles);
    visit({7, "later"}, self.later);
  }
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
  int m = 0, n = 0, k = 0;                 // of matrices that a sub-group multiplies, or, of 64
                                           // rows, four of them together; 0: of lanes
  std::string later;                       // fields of later versions, JSON, kept as they came

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({1, "name"}, self.name);
    visit({2, "a"}, self.a);
    visit({3, "b"}, self.b);
    visit({4, "acc"}, self.acc);
    visit({5, "lanes"}, self.lanes);
    visit({6, "group"}, self.group);
    visit({7, "per_cycle"}, self.per_cycle);
    visit({8, "latency"}, self.latency);
    visit({.number = 10, .name = "m", .added = true}, self.m);
    visit({.number = 11, .name = "n", .added = true}, self.n);
    visit({.number = 12, .name = "k", .added = true}, self.k);
    visit({9, "later"}, self.later);
  }
};

// What all code may read of a machine. What only its family reads stands in `part`, of which
// family.h says what others may ask.
struct Target {
  std::string name;                        // "x86_avx512", "x86_avx2", ..., "host"
  std::string architecture;                // "x86_64", "aarch64": picks the family and the backend
  std::vector<std::string> features;       // hard: "sse2", "avx2", "fma", "avx512f", ... sorted
  double ghz = 2.5;                        // measured when known
  int cores = 1;
  std::vector<CacheLevel> caches;          // nearest first, DRAM last
  std::vector<Atom> atoms;
  std::string later;                       // fields of later versions, JSON, kept as they came
  TargetPart part;

  // Texts and messages say "family" for the architecture. A field that is added here or in a part
  // has a default, which is what targets without it meant; it is printed only where it says
  // something else, so that no text, and with it no key, of before moves.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    FieldMerge<Visit, std::is_const_v<Self>> merge(self.part.fields(), visit);
    merge({1, "name"}, self.name);
    merge({2, "family"}, self.architecture);
    merge({5, "features"}, self.features);
    merge({13, "ghz"}, self.ghz);
    merge({14, "cores"}, self.cores);
    merge({18, "caches"}, self.caches);
    merge({19, "atoms"}, self.atoms);
    merge.visit_own(kAllFields);
    visit({20, "later"}, self.later);
  }
};

// A target of the same family that says nothing.
Target defaults_of(const Target& target);

// The instruction that adds products to accumulators of a type, one to a lane; null where the
// target names none. And the one that adds `group` > 1 products of `a` by `b` (in either order).
const Atom* multiply_add(const Target& target, Type acc);
const Atom* dot_product(const Target& target, Type a, Type b, Type acc);
// The instruction by which a sub-group multiplies matrices of these types, a row-major, b not.
const Atom* matrix_product(const Target& target, Type a, Type b, Type acc);
// The same by four sub-groups together, from memory that they share: 64 rows, `n` columns or a
// multiple of that.
const Atom* wide_product(const Target& target, Type a, Type b, Type acc);
// Multiply-adds of one.
double products_of(const Atom& atom);

// Stored form, JSON; its sha256 with cores = 1 is the target's identity (identity.h). Reading
// reports the field that is wrong, after "SOURCE: ". parse_target() is for texts that are written by
// hand: it demands every field and refuses others, which are misspelled; it also takes what another
// program of ours takes for such a machine, as `npu_sim` a configuration. read_target() is for what
// was stored or sent, by whichever version: absent is the default, others are kept.
std::string to_text(const Target& target);
absl::StatusOr<Target> parse_target(std::string_view text, std::string_view source = "target");
absl::StatusOr<Target> read_target(std::string_view text);
// The target as who does not know its family has it: its part's fields are among the later ones.
Target without_part(const Target& target);
// The fields of later versions that the target has, "pipes, caches[0].banks"; "": none. Schedules
// are not made for such a machine here: what the fields say would go unheard.
std::string later_fields(const Target& target);

// Built-in targets by name; "host" detects this machine: cpuid features, caches from sysfs, cores
// allowed by the affinity mask. Unknown names answer with the known ones, which are those of
// schedules/targets/*.json and of families whose machines another program of ours has, as npu_mid32
// (src/npu/configs/mid32.json; its profiles are found too, but not listed).
// The figures of aarch64_neon are those of a Neoverse N1: pipes, latencies, L1, L2 and TLB from
// Arm's Software Optimization Guide and Technical Reference Manual of that core, what lies beyond
// L2 a guess at one core's share; no board was measured.
absl::StatusOr<Target> find_target(std::string_view name);
const std::vector<Target>& builtin_targets();

// "" when code for `code` runs on `machine`, else the first hard feature that is missing.
std::string missing_feature(const Target& code, const Target& machine);

}  // namespace lw
