// The writer's loop; group_commit.h says what it promises. Most groups have no failing body, so a
// group is tried without savepoints first. On SQLite that saves little, on PostgreSQL two
// round trips an operation.
#include "tuner_db/sql/group_commit.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "tuner_db/sql/crash_point.h"

namespace lw {
namespace {

constexpr size_t kMostOperations = 256, kLeastUsual = 16;
constexpr double kUsual_s = 0.02;          // after which a transaction begins no other usual one
constexpr double kPatience_s = 10;
constexpr double kProbePatience_s = 1;
constexpr double kProbePause_s = 1;
constexpr auto kPause = std::chrono::milliseconds(1000);     // idle, before tidying up
constexpr auto kCommit = std::chrono::seconds(30);           // far more than one takes
constexpr size_t kLeastProbe = size_t{64} << 10;
constexpr size_t kMostProbe = size_t{16} << 20;              // bytes; a group's share of them
constexpr auto kSettled = std::chrono::minutes(5);           // without a problem
constexpr int kGroupsApart = 16;           // where one body failed more will

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

GroupCommit::GroupCommit(Database& database, Committed committed, Liveness* liveness)
    : database_(database), committed_(std::move(committed)), liveness_(liveness),
      thread_([this] { loop(); }) {}

GroupCommit::~GroupCommit() { stop(); }

void GroupCommit::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  thread_.join();
}

void GroupCommit::submit(Body body, Done done, Turn turn) {
  {
    const std::lock_guard guard(mutex_);
    (turn == Turn::kFirst ? first_ : usual_)
        .push_back({std::move(body), std::move(done), turn, absl::OkStatus()});
  }
  arrived_.notify_one();
}

absl::Status GroupCommit::run(Body body, Turn turn) {
  // Shared, since the writer may still be inside set_value() when get() returns.
  const auto promise = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> result = promise->get_future();
  submit(std::move(body),
         [promise](absl::Status status) { promise->set_value(std::move(status)); }, turn);
  return result.get();
}

std::string GroupCommit::problem() const {
  const std::lock_guard guard(mutex_);
  return problem_;
}

GroupCommit::Counts GroupCommit::counts() const {
  const std::lock_guard guard(mutex_);
  return counts_;
}

// Whether the next of a group is for another transaction. Those that go first stand first, so that
// the one before tells whether a usual one has run.
bool GroupCommit::waits(const std::deque<Operation>& group, size_t begun,
                        Clock::time_point start) {
  return begun > 0 && group[begun - 1].turn == Turn::kUsual && seconds_since(start) > kUsual_s;
}

void GroupCommit::put_back(std::deque<Operation>& group, size_t begun) {
  const std::lock_guard guard(mutex_);
  for (; group.size() > begun; group.pop_back()) usual_.push_front(std::move(group.back()));
}

// All of a group in one transaction, as if nothing could fail. `in_body`: it failed with what a
// body said on its own account.
absl::Status GroupCommit::run_together(std::deque<Operation>& group, bool* in_body,
                                       size_t* begun) {
  *begun = 0;
  return database_.write(kPatience_s, [&](WriteTransaction& tx) {
    const Clock::time_point start = Clock::now();
    *in_body = false;
    for (*begun = 0; *begun < group.size() && !waits(group, *begun, start);) {
      Operation& operation = group[(*begun)++];
      operation.status = operation.body(tx);
      if (operation.status.ok()) continue;
      *in_body = tx.doomed().ok();
      return operation.status;
    }
    return absl::OkStatus();
  });
}

// All of a group in one transaction, each body for itself. Returns the transaction's own error.
absl::Status GroupCommit::run_apart(std::deque<Operation>& group, size_t* begun) {
  *begun = 0;
  return database_.write(kPatience_s, [&](WriteTransaction& tx) {
    const Clock::time_point start = Clock::now();
    for (*begun = 0; *begun < group.size() && !waits(group, *begun, start);) {
      Operation& operation = group[(*begun)++];
      operation.status = tx.savepoint([&] { return operation.body(tx); });
      // The savepoint could not undo it.
      if (absl::Status doom = tx.doomed(); !doom.ok()) return doom;
    }
    return absl::OkStatus();
  });
}

void GroupCommit::commit(std::deque<Operation>& group) {
  const Clock::time_point start = Clock::now();
  std::optional<Liveness::Task> task;
  if (liveness_ != nullptr) task.emplace(*liveness_, "the writer's commit", start + kCommit);
  bool in_body = false;
  size_t begun = 0;
  absl::Status whole;
  if (apart_ > 0 && group.size() > 1) {
    --apart_;
    whole = run_apart(group, &begun);
  } else {
    whole = run_together(group, &in_body, &begun);
    if (in_body && group.size() > 1) {
      in_body = false;
      apart_ = kGroupsApart;
      whole = run_apart(group, &begun);
    }
  }
  // What was not reached has not failed; where nothing could begin, all has.
  if (begun > 0) put_back(group, begun);
  if (!whole.ok() && !in_body) {
    for (Operation& operation : group) operation.status = whole;
    // A probe fitted where this does not.
    const bool flaps = recovered_ != Clock::time_point() && start - recovered_ < kSettled;
    probe_bytes_ = flaps ? std::min(16 * probe_bytes_, kMostProbe) : kLeastProbe;
    // A lock or a conflict that outlasted our patience is over when the probe succeeds.
    if (whole.code() == absl::StatusCode::kResourceExhausted || !probe().ok()) set_problem(whole);
  } else {
    const double seconds = seconds_since(start);
    const auto operations = static_cast<int64_t>(group.size());
    if (committed_) committed_(seconds, operations);
    const std::lock_guard guard(mutex_);
    ++counts_.groups;
    counts_.operations += operations;
    counts_.commit_s += seconds;
  }
  for (Operation& operation : group) {
    crash_point();
    operation.done(std::move(operation.status));
  }
}

void GroupCommit::set_problem(const absl::Status& status) {
  const std::lock_guard guard(mutex_);
  problem_ = status.ok() ? "" : absl::StrCat("the database is read-only: ", status.message());
}

// Writes and takes away again, each durably: within one transaction nothing would reach the disk. The
// space stays with the database, so what a probe has found others may use.
absl::Status GroupCommit::probe() {
  const std::string bytes(probe_bytes_, 'p');
  RETURN_IF_ERROR(database_.write(kProbePatience_s, [&](WriteTransaction& tx) {
    return tx.query("INSERT INTO probes (id, bytes) VALUES (1, ?) ON CONFLICT (id) DO UPDATE "
                    "SET bytes = excluded.bytes", Blob{bytes}).run();
  }));
  return database_.write(kProbePatience_s,
                         [](WriteTransaction& tx) { return tx.run("DELETE FROM probes"); });
}

// What has arrived, waiting for it: a pause at most, unless `forever`.
std::deque<GroupCommit::Operation> GroupCommit::take(bool forever) {
  std::unique_lock lock(mutex_);
  auto ready = [&] { return stopping_ || !first_.empty() || !usual_.empty(); };
  if (forever) {
    arrived_.wait(lock, ready);
  } else {
    arrived_.wait_for(lock, kPause, ready);
  }
  std::deque<Operation> group;
  const auto fill = [&group](std::deque<Operation>& queue, size_t most) {
    for (; !queue.empty() && group.size() < most; queue.pop_front()) {
      group.push_back(std::move(queue.front()));
    }
  };
  fill(first_, kMostOperations - kLeastUsual);
  fill(usual_, kMostOperations);
  return group;
}

void GroupCommit::loop() {
  bool tidy = true;
  Clock::time_point probed = Clock::now();
  for (;;) {
    std::deque<Operation> group = take(tidy && problem_.empty());
    if (!problem_.empty()) {
      if (seconds_since(probed) >= kProbePause_s) {
        if (probe().ok()) set_problem(absl::OkStatus());
        probed = Clock::now();
        if (problem_.empty()) recovered_ = probed;
      }
      if (!problem_.empty()) {
        const absl::Status refusal = absl::UnavailableError(problem_);
        for (Operation& operation : group) operation.done(refusal);
        group.clear();
      }
    }
    if (!group.empty()) {
      commit(group);
      tidy = false;
      probed = Clock::now();
      continue;
    }
    {
      const std::lock_guard guard(mutex_);
      if (stopping_ && first_.empty() && usual_.empty()) return;
    }
    if (!tidy) tidy = database_.tidy().ok();
  }
}

}  // namespace lw
