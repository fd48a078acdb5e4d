// Families of machines: those whose kernels are lowered, built, measured and judged alike. A table
// of each says here what everybody asks of its targets, so that only the family's own code reads
// their parts. A family is added by its folder beside this file, NAME/, whose family.cc defines
// `const TargetFamily& NAME_family()`; nothing is edited here. Pure functions; thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/targets/part.h"
#include "schedules/targets/target.h"

namespace lw {

// For a line of a list.
struct TargetSummary {
  struct Memory {
    std::string name;
    int64_t bytes;                         // 0: unbounded
  };
  std::vector<std::pair<const char*, std::string>> figures;  // by column: {"vector", "256 bit"}
  std::vector<Memory> memories;            // nearest first
};

// "spm.bytes", "262144".
struct FieldSetting {
  std::string field, value;
};

// What tiles of machines that compute in registers have: of one processor, or one work-item.
struct RegisterFile {
  int vector_bytes = 16;
  int vectors = 16;
  bool fma = false;
  bool masks = false;                      // lane-masked loads and stores are cheap
  int most_lanes = 4096;                   // of a vector, however narrow they are
  double loads_per_cycle = 2;              // of vectors
  bool loads_first = false;                // all that a tile reads, before it computes
  bool processor = false;                  // its caches heed streaming stores and prefetches
  // Most bytes of the copies at a stage's loops: of those that several items of a group have each
  // for itself, and of all others. 0: as many as wanted.
  int64_t own_copies = 0, copies = 0;
};

struct TargetFamily {
  const char* name;                        // "cpu"
  std::span<const char* const> architectures;  // its values of the field "family"
  // A field that all its targets have and those of no other family: by it a target is known to be
  // of the family whose architecture only a later version knows.
  const char* mark;
  // Whether rules, steps and costs know its machines: schedules can be made for them.
  bool has_schedules;
  // Whether a kernel may run on several of a machine's threads; tasks of others are of one.
  bool has_threads;

  // Of its part: a copy (of null: all defaults), and the description, whose names no common field
  // has. Its numbers say where the fields stand in texts: those of CPUs between the common ones, as
  // in the target's message; another family's from 101 on, below them, where they stand too when
  // who does not know the family prints them (Target::later).
  std::shared_ptr<void> (*copy)(const void* part);
  std::vector<PartField> (*fields)(void* part);

  // What every target of the family must say and this one does not, and why nothing can compute
  // with its figures ("vector_bytes must be ..."); "": nothing.
  std::string (*omission)(const Target& target);
  std::string (*defect)(const Target& target);
  // As the functions below. REQUIRES: targets of the family.
  double (*distance)(const Target& a, const Target& b);
  TargetSummary (*summary)(const Target& target);
  // What other programs call the machine: {"triple", "x86_64-unknown-linux-gnu"}.
  std::vector<std::pair<const char*, std::string>> (*known_as)(const Target& target);
  // Of machines on all of whose units a kernel always runs: how many there are for its parallel
  // loops (at least 2). Null: as many threads as a task has.
  int (*units)(const Target& target);
  // Null: its machines compute in no registers.
  RegisterFile (*registers)(const Target& target);
  // Whether it computes in values of the type. Null: in all types.
  bool (*computes_in)(const Target& target, Type type);
  // The machine that this process runs on. Null: it is never one of the family.
  absl::StatusOr<Target> (*host)();

  // Of a family whose machines another program of ours has too, as configurations; null: none has.
  struct Configurations {
    // Its built-in machines that lists show, and those of any name.
    std::vector<Target> (*builtin)();
    absl::StatusOr<Target> (*find)(std::string_view name);  // kNotFound
    // Whether an object with such fields is one of them, and what it says, with errors that begin
    // with `source`.
    bool (*describes)(absl::FunctionRef<bool(const char* field)> has_field);
    absl::StatusOr<Target> (*parse)(std::string_view text, std::string_view source);
    // The machine with other values of some of its fields, by their names in its text.
    // kInvalidArgument: it has no such field, or what is wrong with the values.
    absl::StatusOr<Target> (*with)(const Target& target, std::span<const FieldSetting> settings);
    // What of silicon it takes: figures that grow with it, to compare machines by.
    std::vector<std::pair<const char*, double>> (*area)(const Target& target);
  };
  const Configurations* configurations;
};

// What a family has as `copy` and, where its part is described, as `fields`.
template <class Part>
std::shared_ptr<void> copy_part(const void* part) {
  if (part == nullptr) return std::make_shared<Part>();
  return std::make_shared<Part>(*static_cast<const Part*>(part));
}
template <Described Part>
std::vector<PartField> fields_of_part(void* part) {
  std::vector<PartField> fields;
  Part::fields(*static_cast<Part*>(part),
               [&](FieldId id, auto& value) { fields.push_back({id, &value}); });
  return fields;
}

// All of them, by name (generated table).
const std::vector<const TargetFamily*>& lw_target_family_table();

// The defaults of the family that has the architecture; of an architecture that none has, of the
// one whose mark the target has. Of no family where neither is.
TargetPart make_part(std::string_view architecture,
                     absl::FunctionRef<bool(const char* field)> has_field);
// "aarch64, x86_64".
std::string known_architectures();
// kUnimplemented, by name, where the target is of no family that is known here, or of one for which
// no schedules are made. Whoever has it from a user, a store or others asks before a nest is made
// for it.
absl::Status check_family(const Target& target);

// Of any target, also where its family is not known here: then nothing is said of it, and it is as
// far from every other as machines of two families are, infinitely.
//
// How much slower what was tuned for one may be on the other: soft features, 0 for equal ones.
double target_distance(const Target& a, const Target& b);
TargetSummary target_summary(const Target& target);
std::vector<std::pair<const char*, std::string>> known_as(const Target& target);

// What stands for the families whose machines compute in registers, where one is named.
inline constexpr const char* kRegisterMachines = "registers";
// And for those of them that are processors, whatever family's kernels they run.
inline constexpr const char* kProcessors = "processors";
// Whether what is for machines of the family so named, or of all (null), is for this one (null: of
// an unknown family).
bool serves(const Target& target, const char* named);

// REQUIRES: the target's family has registers.
RegisterFile register_file(const Target& target);
// Lanes of a vector of elements of so many bytes, of `type` (at least 1). REQUIRES: as above.
int lanes_of(const Target& target, int element_bytes);
int lanes(const Target& target, Type type);

// What a figure that is `a` here and `b` there adds to a distance.
double log_ratio(double a, double b);

}  // namespace lw
