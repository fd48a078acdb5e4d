// Hermetic builds: which record and which object every kernel of a project is, as a file to commit,
// and a folder that holds them all.
//
//   lock    requests -> lock file: programs, traces, the sha256 of each object and header
//   fetch   lock file -> bundle: objects, headers, JSON, records; refuses what is not as locked
//   locked  a build reads the bundle alone: no database, no server, no code generator; or the lock
//           file alone, and generates the code again
// A lock file holds all that its kernels are made of, so that neither a database nor the file in which
// a program stood is needed any more: only the same version of the code generator, whose objects are
// compared with the locked ones. A record's digest covers its key and trace, so measuring again
// changes no lock; a better schedule does only when `lock` is run again. What was withdrawn since is
// refused, as far as whoever asks knows (WithdrawnReasons): `lock` again.
//
// Every entry has a symbol of its own, so that all kernels of a lock file link into one program. Words
// are for people; those that name a file say where it is from the lock file's folder.
//
// Lock file: JSON, version 2: targets by id, and entries sorted by key, one a kernel. Of version 1,
// which has words instead of programs and no traces, entries are read too: what their words give and
// their records say is then looked up, and the kernels' digests are compared, their files being of
// before kernels described themselves. Bundle: bundle.json (the lock file's text), and for each record
// a folder (its digest's first 16 digits) of NAME.o, NAME.h, NAME.json, record.json.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "loopwright/kernel.h"
#include "src/api/lookup.h"
#include "tuner_db/ladder/withdrawn_list.h"

namespace lw {

class Task;

struct LockEntry {
  std::string words;
  std::string entry;                         // the kernel's symbol; "" in version 1: the op's name
  std::string program;                       // its text; "" in version 1
  Key key;
  std::string record;                        // digest
  std::string kernel;                        // kernel_digest(); "" in older lock files
  std::string trace;                         // its text; means nothing where `program` is ""
  TimeKind time_kind = TimeKind::kMeasured;  // of the record's time when it was locked
  std::map<std::string, std::string> files;  // of the artifact: name -> sha256
  bool operator==(const LockEntry&) const = default;

  bool is_whole() const { return !program.empty(); }
};
struct Lock {
  std::vector<LockEntry> entries;            // sorted by key, no two of one
  std::map<std::string, std::shared_ptr<const Target>> targets;  // by id
};
std::string to_text(const Lock& lock);
// kInvalidArgument names what is wrong: a program that is none, a target that is not what its id
// says, two entries of one symbol; never trusts a file name to stay in its folder.
absl::StatusOr<Lock> parse_lock(std::string_view text);

// Looks the tasks' exact records up, builds them, and says what became of each. Symbols are those
// asked for, else those that `before`, the lock file as it was, has for the same key, else the op's
// name, with digits of the key where it is another's.
struct LockRequest {
  const Task* task = nullptr;
  std::string entry;                         // "": choose one
};
struct Locked {
  Lock lock;
  std::vector<const Task*> missing;          // not tuned
};
absl::StatusOr<Locked> lock_tasks(const std::vector<LockRequest>& requests, const Lock& before,
                                  const RecordSource& source, const std::string& folder);

// kFailedPrecondition says by whom it was withdrawn and why.
absl::Status check_not_withdrawn(const LockEntry& entry, const WithdrawnReasons& withdrawn);

// Traces besides the best of `key`, which the entry's records are stored under, by the entry's
// digest: kNotFound when nobody knows it.
using FindTrace =
    absl::FunctionRef<absl::StatusOr<std::string>(const LockEntry& entry, const Key& key)>;

// Writes the bundle, of the lock file in `lock_folder`; `source` and `other_trace` are asked for what
// an entry of version 1 lacks, and for times. kFailedPrecondition: an entry is withdrawn, or of another
// code generator; kDataLoss: an object is not the one locked; kNotFound: a record is gone.
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
// Generates the task's kernel again, from the lock file alone, and compares it with what is locked.
// Errors as fetch's and take_locked's; kFailedPrecondition also: the entry is of version 1, or has
// another symbol than `options` want.
absl::StatusOr<std::vector<std::string>> build_locked(const Task& task,
                                                      const std::string& lock_file,
                                                      const WithdrawnReasons& withdrawn,
                                                      const std::string& folder,
                                                      const ExportOptions& options);

}  // namespace lw
