// For compilers: schedules from what is at hand, never waiting for a server beyond the deadline.
//
//   ASSIGN_OR_RETURN(auto client, ScheduleClient::open({.snapshot = "kernels.lws"}));
//   ASSIGN_OR_RETURN(Task task, make_task({"matmul", "M=512"}, {}));
//   ASSIGN_OR_RETURN(ClientAnswer answer, client->lookup(task));
//
// Order: the local cache (a fresh, exact entry), the snapshot (exact), the server (all that is left
// in one call), then the nearest of what the three know, then the default. A server's answers and
// misses are cached. Below `exact` the answer is adapted to the task here: a few milliseconds, not
// counted against the server's deadline, nor is the zero-trial schedule (up to 0.4 s for a large
// program), which can be turned off; `most_ms` bounds all of it.
//
// What was withdrawn, because it computes wrong, say, is not given out of the cache or of the
// snapshot either, however fresh and also with `frozen`. A client that has a server asks it every
// minute, behind; others know what the last one on the same cache was told, and what the snapshot
// says of the day when it was made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "loopwright/lookup.h"
#include "loopwright/task.h"

namespace lw {

class ScheduleSource;
struct LookupRequest;
struct Match;

enum class OnMiss : uint8_t { kZeroTrial, kNothing };

struct RemoteOptions {
  int deadline_ms = 50;
  int failures = 3;     // in a row, that open the circuit
  int pause_ms = 1000;  // first; at most 64 times that
};

struct RemoteStats {
  int64_t calls = 0, failures = 0, late = 0, skipped = 0;
  bool open = false;  // nobody waits
};

struct ClientOptions {
  std::string snapshot;                    // file; "": none
  std::string cache_folder;                // "": none
  std::string server;                      // host:port; "": none
  // PEM files for a server beyond this machine: who signed its certificate, ours, and our key; all
  // three. Or plain text to it, which anybody may change.
  std::string tls_ca, tls_certificate, tls_key;
  bool insecure = false;
  std::shared_ptr<ScheduleSource> source;  // instead of `server`
  int deadline_ms = 50;                    // that a lookup waits for the server
  // That a lookup takes in all, adapting and the zero-trial schedule included; where that is over,
  // the answer is a default without a trace. 0: as long as those take.
  int most_ms = 0;
  // Only what is stored exactly: anything else is kNotFound, and the server is not asked, so that
  // the same files give the same build.
  bool frozen = false;
  OnMiss on_miss = OnMiss::kZeroTrial;
  int fresh_s = 3600;      // a cached exact answer is not asked for again
  int miss_fresh_s = 300;  // nor a cached miss or lower rung
  int withdrawn_fresh_s = 60;  // nor, behind, what is withdrawn: by any client of the cache folder
  LadderOptions ladder;
  RemoteOptions remote;  // its deadline is `deadline_ms`
  // For ages; empty: the wall clock. Called from any thread, also after the client is gone.
  std::function<int64_t()> unix_ms;
};

struct ClientAnswer {
  LookupAnswer answer;
  std::string origin;  // "cache", "snapshot", "server"; "": default
};

struct ClientStats {
  int64_t lookups = 0, cache_hits = 0, snapshot_hits = 0, server_hits = 0, nearest = 0, misses = 0;
  int64_t withdrawn = 0;  // records of the cache that were not given out
  RemoteStats remote;
};

// Thread-safe.
class ScheduleClient {
 public:
  // Errors are the snapshot's (kNotFound, kDataLoss, ...) and those of the server's options. A
  // server that is not there is no error.
  static absl::StatusOr<std::unique_ptr<ScheduleClient>> open(ClientOptions options);
  ~ScheduleClient();

  // kNotFound: a miss with `frozen`.
  absl::StatusOr<ClientAnswer> lookup(const Task& task);
  // One call to the server for all of them. Answer i is of task i.
  std::vector<absl::StatusOr<ClientAnswer>> lookup(absl::Span<const Task> tasks);

  // By key alone, for who keeps no program: the records as stored, no trace adapted; empty: a miss.
  // Our own headers say what is asked and answered (tuner_db/ladder/ladder.h).
  std::vector<std::vector<Match>> candidates(const std::vector<LookupRequest>& queries);

  ClientStats stats() const;

 private:
  class Impl;
  explicit ScheduleClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A task of words ("matmul M=512"), or of a program's text, which has a line break (what
// parse_program takes).
absl::StatusOr<Task> make_client_task(const std::string& workload, const TaskOptions& options);

}  // namespace lw
