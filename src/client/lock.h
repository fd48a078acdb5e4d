// Hermetic builds: which record and which object every kernel of a project is, as a file to commit,
// and a folder that holds them all.
//
//   lock    requests -> lock file: key -> digest of the record -> sha256 of the object and header
//   fetch   lock file -> bundle: objects, headers, JSON, records; refuses what is not as locked
//   locked  a build reads the bundle alone: no database, no server, no code generator
// A record's digest covers its key and trace, so measuring again changes no lock; a better schedule
// does only when `lock` is run again. The locked trace stays in the database, which only appends.
// What was withdrawn since is refused, as far as whoever asks knows (WithdrawnReasons): `lock`
// again. Words that name a file say where it is from the lock file's folder.
//
// Lock file: JSON, entries sorted by key, one a kernel. Bundle: bundle.json (the lock file's text),
// and for each record a folder (its digest's first 16 digits) of NAME.o, NAME.h, NAME.json,
// record.json.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/api/lookup.h"
#include "tuner_db/ladder/withdrawn_list.h"

namespace lw {

class Task;
struct SuiteCase;

// Words of workloads: a suite's JSON, or a line each ('#' starts a comment). kInvalidArgument.
absl::StatusOr<std::vector<SuiteCase>> read_requests(const std::string& path);
// The JSON that `tune --suite` reads, of these workloads' words, with the command line that tunes
// them. threads = 0: all.
std::string request_file(const std::vector<std::string>& words, const std::string& target,
                         int threads);

struct LockEntry {
  std::string words;
  Key key;
  std::string record;                        // digest
  std::string kernel;                        // kernel_digest(); "" in older lock files
  TimeKind time_kind = TimeKind::kMeasured;  // of the record's time when it was locked
  std::map<std::string, std::string> files;  // of the artifact: name -> sha256
  bool operator==(const LockEntry&) const = default;
};
struct Lock {
  std::vector<LockEntry> entries;  // sorted by key, no two of one
};
std::string to_text(const Lock& lock);
// kInvalidArgument names what is wrong; never trusts a file name to stay in its folder.
absl::StatusOr<Lock> parse_lock(std::string_view text);

// Builds the exact record of the task, for a lock file in `folder`; kNotFound when there is none.
absl::StatusOr<LockEntry> lock_task(const Task& task, const RecordSource& source,
                                    const std::string& folder);

// kFailedPrecondition says by whom it was withdrawn and why.
absl::Status check_not_withdrawn(const LockEntry& entry, const WithdrawnReasons& withdrawn);

// Traces besides the best of `key`, which the entry's records are stored under, by the entry's
// digest: kNotFound when nobody knows it.
using FindTrace =
    absl::FunctionRef<absl::StatusOr<std::string>(const LockEntry& entry, const Key& key)>;

// Writes the bundle, of the lock file in `lock_folder`. kFailedPrecondition: an entry is withdrawn,
// or of another code generator; kDataLoss: an object is not the one locked; kNotFound: a record is
// gone.
absl::Status fetch(const Lock& lock, const std::string& lock_folder, const RecordSource& source,
                   FindTrace other_trace, const WithdrawnReasons& withdrawn,
                   const std::string& folder);

// Copies the task's files from a bundle to `folder` and returns their paths. What they must be says
// `lock_file`, or, if that is "", the bundle's own copy of it, which whoever can change the objects
// can change too. kNotFound: not in it; kFailedPrecondition: withdrawn; kDataLoss: a file is not as
// locked.
absl::StatusOr<std::vector<std::string>> take_locked(const Task& task, const std::string& bundle,
                                                     const std::string& lock_file,
                                                     const WithdrawnReasons& withdrawn,
                                                     const std::string& folder);

}  // namespace lw
