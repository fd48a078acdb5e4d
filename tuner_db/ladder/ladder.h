// The ladder: what answers a request for a schedule when exactly this one was not tuned.
//
//   exact           the key is stored (by an old name of this machine too: identities.h)
//   loose           all but the code generator's version is; the same generator, same major version
//   nearest-shape   another shape of the structure, same machine and threads (shape_table.h)
//   nearest-target  a machine whose hard features the asking one has, or other threads; the shape's
//                   distance and the machine's (soft features) are added
//   default         nothing: the caller derives a schedule without a measurement
//
// The first rung with a record answers, by its records of the kind of time nearest to the truth
// (time_kind.h), sorted by distance; on the rung nearest-target those of the same workload and
// threads come first, since their times are this workload's and no estimates. Where the records of
// nearest-shape were never measured, one of the same workload that was measured on another target
// answers before them. There is no rung
// "same anchor" (another epilogue): it would need an identity of the anchor in the database.
// Below `exact` a record's trace is a proposal: whoever has the program adapts it, replays it and
// lowers it (src/api/lookup.h). climb() knows records only, so that a server, a snapshot and a
// client share it. Only verified records are ever given out, and none that was withdrawn.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "loopwright/lookup.h"
#include "tuner_db/ladder/shape_table.h"
#include "tuner_db/record.h"

namespace lw {

struct Target;

// All that rungs look at. Without structure, shape or target (null) the rungs that need them are
// passed over.
struct LookupRequest {
  Key key;
  std::string structure;
  std::vector<int64_t> shape;
  std::shared_ptr<const Target> target;
};

// Records of one structure that differ in nothing but the workload.
struct StructureGroup {
  std::string target, backend, cache, objective;
  int threads = 1;
  ShapeTable shapes;
  std::vector<std::string> workloads;          // beside the shapes' rows
  absl::flat_hash_map<std::string, int> rows;  // of a workload
};
struct StructureIndex {
  Dimensions dimensions;
  std::vector<StructureGroup> groups;

  // Nothing happens when it is there already, or has another rank than the structure's others (two
  // structures cannot share a name unless sha256 fails; a damaged database can).
  void add(const Key& key, absl::Span<const int64_t> shape);
  size_t bytes() const;
};

// Where records come from. Thread-safe.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // kNotFound: no record; others as the store says.
  virtual absl::StatusOr<std::shared_ptr<const ScheduleRecord>> record(const Key& key) const = 0;
  // Calls `look` with the structure's index, or not at all when there is none. `look` must not call
  // the source.
  virtual absl::Status with_structure(
      const std::string& structure,
      absl::FunctionRef<void(const StructureIndex&)> look) const = 0;
  virtual absl::StatusOr<std::shared_ptr<const Target>> target(const std::string& id) const = 0;
};

struct Match {
  Rung rung = Rung::kDefault;
  double distance = 0;  // 0 for exact and loose
  bool stale = false;   // the environment differs, or the record is old
  std::shared_ptr<const ScheduleRecord> record;
};

// At most `count` candidates of the first rung that has one, the one that answers first (one for
// exact and loose); empty: default.
absl::StatusOr<std::vector<Match>> climb(const LookupRequest& request, const RecordSource& source,
                                         const LadderOptions& options);

// "llvm 19.1.7 r1" and "llvm 19.2.0 r4": the same generator of the same major version.
bool same_generator(std::string_view a, std::string_view b);

// Over a Store, nothing kept: for one lookup of a command. Lists keys and workloads, reads the
// records of the few that are nearest.
std::unique_ptr<RecordSource> make_store_source(const Store& store);

}  // namespace lw
