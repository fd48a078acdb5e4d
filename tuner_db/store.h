// What we learned: workloads, studies' keys, and every measurement ever taken, append-only; `best`
// is a view over them. One conformance suite over SQLite (the embedded default; WAL,
// synchronous=FULL, one writer), PostgreSQL 15 (fleets) and memory.
//
// Errors (every one names the file and what to do): kFailedPrecondition: the file is newer than
// this program, or not ours (application_id, or no database at all); kDataLoss: corrupt;
// kUnavailable: locked by another process beyond the patience, on a network file system, or the
// disk fails; kResourceExhausted: disk full; kPermissionDenied: read-only; kNotFound: nothing to
// read. After any of them what was stored is untouched, and a Store goes on when the cause is gone.
// A Store is thread-safe; one that was opened before a fork must not be used in the child. What
// append() returned OK for survives kill -9 and power loss.
//
// Whatever can change what best() answers of a key (append, put, withdraw, restore, annul, prune)
// moves the key's revision and changed_ms (Database::server_ms) in its own transaction: so other
// daemons on one database find what to read again. What can not (a slower measurement that was not verified,
// a failure of a trace that never led) leaves them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/fields/fields.h"
#include "tuner_db/time_kind.h"
#include "tuner_db/verdict.h"

namespace lw {

struct Target;

// What a result is valid for. Two results are comparable only when their keys are equal and their
// times of the same kind.
struct Key {
  std::string workload;                    // workload id (sha256 of the canonical text)
  std::string target;                      // id of the target's row: sha256 of to_text(target)
  std::string backend;                     // "llvm 19.1.7 r1"
  int threads = 1;
  std::string cache = "warm";              // warm | cold
  std::string objective = "time";
  auto operator<=>(const Key&) const = default;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({1, "workload"}, self.workload);
    visit({2, "target"}, self.target);
    visit({3, "backend"}, self.backend);
    visit({4, "threads"}, self.threads);
    visit({5, "cache"}, self.cache);
    visit({6, "objective"}, self.objective);
  }
};

struct Measurement {
  int64_t id = 0;                          // assigned by append, increasing in order of arrival
  std::string trace;                       // text; empty steps allowed
  uint64_t kernel_hash = 0;                // equal kernels are measured once
  Verdict verdict = Verdict::kOk;
  std::string detail;                      // the error, the signal, the worst wrong element
  std::vector<double> samples_us;          // each the mean of `inner` calls
  int64_t inner = 1;
  double time_us = 0, ci_low_us = 0, ci_high_us = 0;  // median and its 95 % interval
  TimeKind time_kind = TimeKind::kMeasured;
  bool verified = false;                   // passed both oracles
  double max_rel_error = 0;                // largest |error| / admissible one; NaN is stored as inf
  double wall_s = 0;                       // since the study's process started
  double build_s = 0;
  uint64_t seed = 0;
  std::string source;                      // "draft", "evolve", "random", "descent", "warm",
                                           // "zero", "finalist"
  std::string environment;                 // JSON: host facts, clock, load, versions
  int64_t unix_ms = 0;
  // Whether it is pooled. What does not count (a client put it: "unconfirmed") is kept as a hint of
  // what to measure: it is never best and disqualifies nothing.
  bool counts = true;
  std::string actor;                       // who gave it: "agent/NAME"; "": a process of this file
  std::string device;                      // that ran it, where known
  std::string annulled;                    // JSON: actor, reason, time_ms; "": it is not

  // All but the id.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({1, "trace"}, self.trace);
    visit({2, "kernel_hash"}, self.kernel_hash);
    visit({3, "verdict"}, self.verdict);
    visit({4, "detail"}, self.detail);
    visit({5, "samples_us"}, self.samples_us);
    visit({6, "inner"}, self.inner);
    visit({7, "time_us"}, self.time_us);
    visit({8, "ci_low_us"}, self.ci_low_us);
    visit({9, "ci_high_us"}, self.ci_high_us);
    visit({10, "verified"}, self.verified);
    visit({11, "max_rel_error"}, self.max_rel_error);
    visit({12, "wall_s"}, self.wall_s);
    visit({13, "build_s"}, self.build_s);
    visit({14, "seed"}, self.seed);
    visit({15, "source"}, self.source);
    visit({16, "environment"}, self.environment);
    visit({17, "unix_ms"}, self.unix_ms);
    visit({18, "time_kind"}, self.time_kind);
    visit({.number = 19, .name = "counts", .opposite = true, .provenance = true}, self.counts);
    visit({.number = 20, .name = "actor", .provenance = true}, self.actor);
    visit({.number = 21, .name = "device", .provenance = true}, self.device);
    visit({.number = 22, .name = "annulled", .provenance = true}, self.annulled);
  }
};
// Whether it tells anything of its trace: it counts and nobody annulled it.
inline bool is_pooled(const Measurement& m) { return m.counts && m.annulled.empty(); }

// All but the labels and the program follows from the canonical text (workload_row.h).
struct WorkloadRow {
  std::string id, name, canonical_text;
  std::string source_words;                // "matmul M=512 ..." as first asked for
  double flops = 0, bytes = 0;
  std::vector<int64_t> shape;              // concatenated extents: for nearest-shape look-ups
  std::string structure;                   // sha256 of the canonical text with extents blanked
  std::string program;                     // text of the language, one spelling of it: traces name
                                           // its tensors and axes; "": nobody has given one

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({1, "id"}, self.id);
    visit({2, "name"}, self.name);
    visit({3, "canonical_text"}, self.canonical_text);
    visit({4, "source_words"}, self.source_words);
    visit({5, "flops"}, self.flops);
    visit({6, "bytes"}, self.bytes);
    visit({7, "shape"}, self.shape);
    visit({8, "family"}, self.structure);
    visit({9, "program"}, self.program);
  }
};

struct RankedTrace {
  std::string trace;
  double time_us = 0;                      // the median of its samples
  bool operator==(const RankedTrace&) const = default;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit({1, "trace"}, self.trace);
    visit({2, "time_us"}, self.time_us);
  }
};

struct BestRow {
  Key key;
  Measurement measurement;
  std::vector<RankedTrace> others;         // the next best traces that could be best, best first
};

// A trace that is not given out for its key any more, and why. With it go the key's other traces
// that give the same kernel.
struct Withdrawal {
  Key key;
  std::string trace;
  std::string reason, evidence;            // evidence: any text, JSON where a program wrote it
  std::string actor;                       // who withdrew it
  int64_t unix_ms = 0;
  uint64_t kernel_hash = 0;                // of the trace's kernel; 0: of its trace alone
};

// The same in short (withdrawn_list.h).
struct WithdrawnDigests {
  Key key;
  std::string record;                      // record_digest()
  std::string kernel;                      // kernel_digest(); "": the kernel is not known
};

// Why a measurement counts for nothing any more.
struct Annulment {
  std::string actor, reason;
  int64_t unix_ms = 0;
};
std::string annulment_text(const Annulment& annulment);   // as Measurement::annulled holds it

// The measurements for which all of it holds.
struct MeasurementFilter {
  std::optional<Key> key;
  std::optional<std::string> trace;
  int64_t first = 0, last = INT64_MAX;     // ids
  std::string actor, device;               // "": whoever, whichever
  bool annulled = false;                   // those that are, or those that are not
};
bool matches(const MeasurementFilter& filter, const Measurement& measurement);  // but for the key

class Store {
 public:
  virtual ~Store() = default;

  // REQUIRES: the row is what its canonical text says (workload_row.h). Of one that is there, what
  // follows from the text is put right, and a program comes to one that has none; labels stay.
  virtual absl::Status put_workload(const WorkloadRow& row) = 0;
  virtual absl::Status put_target(const std::string& id, const Target& target) = 0;  // idempotent
  // Appends durably, all or none, in one transaction; assigns ids into `measurements`.
  // kInvalidArgument for what does not add up (invariants.h: an OK measurement has samples and its
  // time lies among them); kNotFound before the key's workload and target were put.
  virtual absl::Status append(const Key& key, std::vector<Measurement>& measurements) = 0;
  // The same for what may be there already: of measurements equal in all but id and provenance
  // (counts, actor, device, annulled) one is kept, which counts as soon as one of them did. The work
  // does not grow with what the key holds. `stored`: how many were new or count now.
  virtual absl::Status put(const Key& key, std::vector<Measurement>& measurements,
                           int64_t* stored) = 0;
  // Of one key, in order of arrival.
  virtual absl::StatusOr<std::vector<Measurement>> measurements(const Key& key) const = 0;
  // The same of those with an id above `after`; the greatest id of all keys in `newest`. The work grows
  // with what is new, of all keys, and not with what the key holds. With several writers a lesser id
  // may come after a greater one.
  virtual absl::StatusOr<std::vector<Measurement>> measurements_after(const Key& key, int64_t after,
                                                                      int64_t* newest) const = 0;
  // The statistically best verified OK measurement of the kind of time nearest to the truth of
  // which there is one: samples of the same kernel (by trace) and kind are pooled, and a challenger
  // with fewer samples replaces the incumbent only when its interval's upper end is below the
  // incumbent's median (ties: more samples, then earlier); see best.h. A trace that ever crashed or
  // gave a wrong result, or is withdrawn, is never best; only pooled measurements are looked at. What is returned carries the pooled
  // samples. kNotFound when there is none.
  absl::StatusOr<BestRow> best(const Key& key) const { return top(key, 1); }
  // The same with the `count` - 1 next best traces of its kind beside it, by their medians.
  virtual absl::StatusOr<BestRow> top(const Key& key, int count) const = 0;
  // The best of every key whose workload has the structure, with that many threads: candidates for
  // nearest-shape and nearest-target look-ups and warm starts.
  virtual absl::StatusOr<std::vector<BestRow>> best_of_structure(const std::string& structure,
                                                                 int threads) const = 0;

  virtual absl::StatusOr<WorkloadRow> workload(const std::string& id) const = 0;
  virtual absl::StatusOr<std::vector<WorkloadRow>> workloads() const = 0;
  virtual absl::StatusOr<Target> target(const std::string& id) const = 0;
  virtual absl::StatusOr<std::vector<Key>> keys() const = 0;             // with results

  // Never lets the trace be best for its key again, until it is restored; nor any trace that gives
  // the same kernel, measured now or later. Which kernel that is the trace's measurements say
  // unless the withdrawal does. What was measured stays. Repeated, it takes the new reason.
  // kNotFound: the key has no such trace.
  virtual absl::Status withdraw(const Withdrawal& withdrawal) = 0;
  // What only this withdrawal took out may be best again. kNotFound: the trace is not withdrawn
  // (one that is out by its kernel alone comes back with the trace that was withdrawn).
  virtual absl::Status restore(const Key& key, const std::string& trace) = 0;
  virtual absl::StatusOr<std::vector<Withdrawal>> withdrawn() const = 0;  // the latest first
  virtual absl::StatusOr<std::vector<Withdrawal>> withdrawn(const Key& key) const = 0;
  // Of all of them, in no order, without traces, reasons and evidence.
  virtual absl::StatusOr<std::vector<WithdrawnDigests>> withdrawn_digests() const = 0;
  // Moves with whatever is withdrawn or restored, by whichever process.
  virtual absl::StatusOr<int64_t> withdrawn_revision() const = 0;

  // Keys of which what is given out may have changed at `since_ms` or later, by the database's clock
  // (Database::server_ms), whichever process changed it. A transaction may commit some time after
  // the moment it notes: who follows the changes looks back a while, and tells what it knows by
  // revision. Since a moment that the clock has yet to reach (it was set back): since a minute ago.
  // Nothing where only this process writes.
  struct Change {
    Key key;
    int64_t revision = 0;                  // of the key; only grows
    int64_t changed_ms = 0;
  };
  virtual absl::StatusOr<std::vector<Change>> changes(int64_t since_ms) const {
    return std::vector<Change>();
  }
  virtual absl::StatusOr<int64_t> latest_change_ms() const { return 0; }

  // Ids greater than `after`, increasing, at most `most`.
  virtual absl::StatusOr<std::vector<int64_t>> find(const MeasurementFilter& filter, int64_t after,
                                                    int most) const = 0;
  // Annuls these measurements: they are kept, marked, and counted for nothing. An empty `mark`
  // brings them back. What is so already is passed over. `changed`: how many were not.
  // Returns the keys of these.
  virtual absl::StatusOr<std::vector<Key>> annul(const std::vector<int64_t>& ids,
                                                 const std::string& mark, int64_t* changed) = 0;

  // Claims a key for this process while a Tuning lives; kAlreadyExists names the other process's
  // id. Claims of dead processes are taken over; a Store gives its own back when destroyed.
  virtual absl::Status claim(const Key& key) = 0;
  virtual void release(const Key& key) = 0;

  struct Stats {
    int64_t workloads = 0, targets = 0, keys = 0, measurements = 0, failed = 0, bytes = 0;
    int schema_version = 0;
    std::vector<std::pair<std::string, int64_t>> service;  // rows of the service's tables
  };
  virtual absl::StatusOr<Stats> stats() const = 0;
  // Of each key, deletes the OK measurements of all but the best `keep` traces, and failures older
  // than `unix_ms` (but those of the traces kept); nothing of withdrawn traces, which are evidence,
  // nor of workloads of studies under way. Returns how many.
  virtual absl::StatusOr<int64_t> prune(int keep, int64_t unix_ms) = 0;
  // Every invariant: SQLite's integrity, foreign keys, traces that parse, samples that add up. One
  // line a defect.
  virtual absl::StatusOr<std::vector<std::string>> check() const = 0;
};

std::unique_ptr<Store> make_memory_store();
struct DatabaseOptions {
  bool read_only = false;
  double patience_s = 10;                  // how long a locked database is waited for
  // At once: readers of SQLite, all of PostgreSQL; and three more for writers and housekeeping.
  int connections = 16;
  double statement_s = 0;                  // that PostgreSQL lets one of a read take; 0: any time
  // A PostgreSQL on another machine is spoken to though nothing proves that it is the one.
  bool insecure = false;
};
absl::StatusOr<std::unique_ptr<Store>> open_sqlite_store(const std::string& path,
                                                         const DatabaseOptions& options = {});
// A file's path, or "postgres://USER@HOST:PORT/NAME" (see database.h).
absl::StatusOr<std::unique_ptr<Store>> open_store(const std::string& url,
                                                  const DatabaseOptions& options = {});

// One JSON line a record ("db export" and "db import"): the Record message's JSON form. Import is
// idempotent: a measurement equal in every field but its id is stored once. Nothing is stored when
// a line is damaged (kInvalidArgument names it); what another version wrote and this one cannot
// read is left out into `skipped`, or, without that, is as good as damaged (record_lines.h).
struct Skipped;
absl::StatusOr<std::string> export_records(const Store& store);
absl::Status import_records(Store& store, std::string_view lines, int64_t* imported,
                            Skipped* skipped = nullptr);

}  // namespace lw
