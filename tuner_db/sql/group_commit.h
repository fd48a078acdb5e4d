// One writer for many callers. A commit costs a sync of the disk, whatever it holds; so a thread
// takes what has arrived, up to 256 operations, into one transaction, and acknowledges each after
// its COMMIT. Nothing waits for company: an operation that comes alone commits alone.
//
// Some go first, those that leases and searches depend on. Of the usual ones a transaction runs one
// at least, and begins no other when it has lasted for 20 ms: they wait for the next, in which what
// came first meanwhile goes before them.
//
// Failures stay apart: an operation whose body fails leaves nothing behind and gets its own error;
// when the transaction fails, all of it get that error. A group runs without savepoints first; if a
// body fails, it runs again with one around each. Bodies must be re-runnable (database.h).
//
// A database that cannot be written (the disk is full, a sync failed, the server is gone) makes
// the group commit read-only: operations are refused with kUnavailable, saying why, and once a
// second a write tries whether it works again. It writes as much as the group that failed may have:
// more each time that it promised too much, so that the state does not flap.
//
// Thread-safe. Bodies and acknowledgements run on the writer's thread; neither may wait for an
// operation of the same group commit.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "src/base/liveness.h"
#include "tuner_db/sql/database.h"

namespace lw {

class GroupCommit {
 public:
  using Body = std::function<absl::Status(WriteTransaction&)>;
  using Done = std::function<void(absl::Status)>;

  // Told of each commit that was durable, on the writer's thread: its seconds, its operations.
  using Committed = std::function<void(double, int64_t)>;

  // REQUIRES: the database outlives it.
  // `liveness`, which outlives it, is told of each transaction.
  explicit GroupCommit(Database& database, Committed committed = {}, Liveness* liveness = nullptr);
  ~GroupCommit();                          // stops
  // Commits and acknowledges what was submitted before, then ends the thread. Idempotent.
  void stop();

  enum class Turn { kFirst, kUsual };
  // `done` is called once, with OK when the operation is durable.
  void submit(Body body, Done done, Turn turn = Turn::kUsual);
  // The same, and waits.
  absl::Status run(Body body, Turn turn = Turn::kUsual);

  // Why writes are refused now; "" when all is well.
  std::string problem() const;

  struct Counts {
    int64_t operations = 0, groups = 0;    // acknowledged as durable
    double commit_s = 0;                   // in transactions, altogether
  };
  Counts counts() const;

 private:
  struct Operation {
    Body body;
    Done done;
    Turn turn;
    absl::Status status;
  };

  void loop();
  std::deque<Operation> take(bool forever);
  void commit(std::deque<Operation>& group);
  // `begun`: so many of them, the rest waits for the next transaction.
  absl::Status run_together(std::deque<Operation>& group, bool* in_body, size_t* begun);
  absl::Status run_apart(std::deque<Operation>& group, size_t* begun);
  static bool waits(const std::deque<Operation>& group, size_t begun,
                    std::chrono::steady_clock::time_point start);
  void put_back(std::deque<Operation>& group, size_t begun);
  void set_problem(const absl::Status& status);              // OK: none
  absl::Status probe();

  Database& database_;
  const Committed committed_;
  Liveness* const liveness_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Operation> first_, usual_;
  bool stopping_ = false;
  std::string problem_;                    // changed by the writer's thread only
  size_t probe_bytes_ = 0;                 // what the next probe writes
  std::chrono::steady_clock::time_point recovered_{};      // when a probe last ended a problem
  int apart_ = 0;                          // groups to run with savepoints at once
  Counts counts_;
  std::thread thread_;                     // last: it uses all above
};

}  // namespace lw
