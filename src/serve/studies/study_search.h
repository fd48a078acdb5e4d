// One study's search in this daemon: what it has measured so far, and what it queues next.
//
// The database is the truth. advance() reads what has changed, shows it to the searches, and puts
// new jobs into the queue, as many as the study's devices can hold; it keeps nothing that could not
// be read again, so a study may move to another daemon, or to this one after a crash, at any
// moment: the searches are rebuilt from the stored measurements and the jobs that are still out.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/liveness.h"
#include "src/search/allocate.h"
#include "src/search/search.h"
#include "src/search/steps.h"
#include "src/serve/queue/leases.h"
#include "tuner_db/store.h"

namespace lw {

// What a search works with; all outlive it.
struct SearchSeat {
  Database* database = nullptr;
  Store* store = nullptr;
  // Runs a transaction, durably, in the daemon's group commit.
  std::function<absl::Status(std::function<absl::Status(WriteTransaction&)>)> commit;
  std::function<int64_t()> now_ms;
  std::function<void(const Changes&)> changed;  // after a commit
  std::string owner;                       // this daemon
  Liveness* liveness = nullptr;
  LeaseRules rules;
  int64_t online_ms = 60'000;              // devices not seen for longer do not count
  int64_t gone_ms = 10'000;                // without any, a study gives its seat up
  int64_t most_waiting_s = 30 * 86'400;
  int drafts = SearchOptions().drafts;
  // How many searches of workloads a study may keep while they wait for their turn; empty: 16.
  std::function<int()> most_kept;
  // Tests: called before a workload's search is built, as a search that takes that long.
  std::function<void(const StudyRow&, const Stop&)> before_search;
};

// Not thread-safe.
class StudySearch {
 public:
  // `stop`: looked at in all that computes; once asked, advance() returns soon and the object is of
  // no more use.
  StudySearch(const SearchSeat& seat, std::string study, int64_t owner_epoch, Stop stop);
  ~StudySearch();

  enum class Next {
    kWait,                                 // for results
    kEnded,                                // by itself or by others; not ours any more
  };
  // Errors: the database's; the study goes on with the next call.
  absl::StatusOr<Next> advance();
  // Ends it as failed, with the reason.
  absl::StatusOr<Next> fail(const std::string& reason);
  // Of any thread: in or before the first step under this owner, which is counted as it begins.
  bool is_first() const { return !has_advanced_; }

 private:
  struct Workload;
  struct Seen;
  absl::StatusOr<Seen> look();
  absl::StatusOr<bool> gives_up(const Seen& seen);
  absl::Status begin_all(const Seen& seen);
  absl::Status begin(Workload& workload, const std::vector<JobRow>& out);
  absl::Status build(Workload& workload, const std::vector<JobRow>& out);
  void let_go();
  absl::Status note_fruitless(int64_t fruitless);
  absl::Status note_stored(Workload& workload);
  absl::StatusOr<std::vector<Measurement>> read_new(Workload& workload);
  absl::Status catch_up(const Seen& seen);
  absl::Status close_hopeless(const Seen& seen);
  std::string why_nothing() const;
  void catch_up(Workload& workload, int64_t job);
  void show(Workload& workload, const std::vector<Measurement>& fresh);
  absl::Status queue_jobs(int slots);
  AllocateOptions allocation() const;
  int next_workload() const;
  absl::StatusOr<bool> queue_batch(Workload& workload, int most);
  absl::Status queue_jobs_of(Workload& workload, const Batch& batch,
                             std::vector<std::string> avoid, bool is_look);
  // study_confirm.cc
  struct Said;
  absl::StatusOr<std::vector<Said>> what_is_said(const Workload& workload);
  absl::StatusOr<std::set<std::string>> who_is_there(const Workload& workload);
  absl::StatusOr<std::vector<std::string>> whom_to_avoid(Workload& workload, const Batch& batch);
  absl::StatusOr<bool> confirm(Workload& workload, std::string* note);
  absl::Status queue_look(Workload& workload, const std::vector<std::string>& traces,
                          std::vector<std::string> avoid);
  absl::Status note_confirmed(const Said& best);
  absl::Status overrule(Workload& workload, const Said& said);
  absl::Status close_workload(Workload& workload, const std::string& note);
  absl::Status end(loopwright::v1::StudyState state, const std::string& error);
  absl::Status fenced(std::function<absl::Status(WriteTransaction&, Changes*)> body);
  void note_in_flight();
  int64_t count_left();
  bool is_over() const;

  const SearchSeat& seat_;
  const std::string id_;
  const int64_t owner_epoch_;
  const Stop stop_;
  StudyRow row_;
  std::vector<std::unique_ptr<Workload>> workloads_;
  std::vector<WorkloadState> states_;      // of workloads_, for the allocation
  uint64_t turns_ = 0;                     // choices of a workload so far
  int current_ = -1;                       // the workload of the latest batch
  int64_t began_ms_ = 0;
  bool first_ = true;                      // look, under this owner
  std::atomic<bool> has_advanced_ = false;
  int64_t gone_since_ms_ = -1;             // its devices; -1: they have not
};

}  // namespace lw
