// Who searches for which study: this daemon's share of all studies that run, each driven by a thread
// of its own. They compute in turns (turns.h): a study whose search is slow, or never ends, holds up
// no other, and is itself stopped when it ends, when the daemon does, and when one step is hopeless.
//
// Seats are for studies that have a device to run on. Whether a search is what ends daemons (it takes
// all memory, say) is noted before its first step and taken back after it; studies that were in their
// first step when a daemon ended have it one after the other, so that it is soon known which it was.
//
// A study belongs to the daemon that holds its owner lease: taken when nobody does (or the holder
// stopped renewing it), renewed while it is worked on, given back when the daemon stops. On an
// embedded database there is only this daemon, which takes all at once after a crash.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/base/turns.h"
#include "src/serve/studies/study_queue.h"
#include "src/serve/studies/study_search.h"

namespace lw {

struct SearcherOptions {
  int threads = 1;                         // that compute at once
  double step_limit_s = 120;               // of computing in one step; then the study fails
  int most_studies = 64;                   // seats: studies with a device that are searched for at
                                           // once; others wait (study_queue.h)
  int most_searches = 128;                 // of workloads, kept while they wait for their turn, of all
                                           // studies together: a megabyte each, and more
  int64_t gone_ms = 10'000;                // without any device, a study gives its seat up
  int64_t owner_ttl_ms = 20'000;
  int64_t adopt_ms = 1000;                 // how often new and orphaned studies are looked for
  int drafts = SearchOptions().drafts;     // tests: of a search, fewer
};

// Thread-safe.
class Searcher {
 public:
  Searcher(SearchSeat seat, SearcherOptions options);
  ~Searcher();
  void start();                            // once; before it nothing happens
  void stop();                             // what it owns is given back; idempotent
  // Something has changed for the study: results, or that it is new. Cheap.
  void wake(const std::string& study);
  // It has ended: whatever is computed for it ends soon.
  void drop(const std::string& study);
  // Devices came or changed: studies that wait for one look again.
  void wake_all();
  int owned() const;

 private:
  struct Owned;
  void adopt();                            // the housekeeping thread
  void drive(const std::shared_ptr<Owned>& owned);
  bool advance(Owned& owned);
  bool look_up_from(Owned& owned);
  void join_ended();
  absl::Status note_long_steps();
  absl::Status adopt_once();
  absl::Status adopt_running(int room);
  absl::Status fill_seats();
  absl::Status sit_down(const std::string& id, const std::string& client, int64_t epoch,
                        int64_t fruitless);
  absl::Status renew();

  const SearchSeat seat_;
  const SearcherOptions options_;
  Turns turns_;
  StudyQueue queue_;                       // the housekeeping thread's
  std::mutex suspects_;                    // held in the first step of a study that may end daemons
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool look_ = true;                       // for new studies, now
  std::map<std::string, std::shared_ptr<Owned>> owned_;
  std::vector<std::pair<std::string, int64_t>> spared_;  // whose first step we ended, and its epoch
  int running_ = 0;                        // threads of studies, the last breath included
  std::vector<std::thread> ended_;         // to be joined
  std::thread housekeeper_;
};

}  // namespace lw
