// A compiler's client beside a server that does what a test wants.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "loopwright/client.h"
#include "src/api/task.h"
#include "src/base/message.h"
#include "src/client/remote.h"
#include "src/client/source.h"
#include "src/search/search.h"
#include "tests/support/store_fixture.h"

namespace lw {

inline Task task_of(const std::string& words) {
  absl::StatusOr<Task> task = make_client_task(words, {.target = "x86_avx2", .threads = 1});
  CHECK(task.ok());
  return *std::move(task);
}

// A record of the task: its zero-trial schedule, as if measured.
inline ScheduleRecord record_of(const Task& task, double us = 10) {
  Search search(task.start(), SearchOptions(), make_draft_model());
  Measurement m = make_measurement(1, {us, us, us});
  m.trace = search.zero_trial()->text;
  return make_record(task.workload(), {task.key(), m, {}});
}

inline Match match_of(const ScheduleRecord& record, Rung rung = Rung::kExact) {
  return {rung, rung == Rung::kExact ? 0 : 1.0, false,
          std::make_shared<const ScheduleRecord>(record)};
}

// A server as tests want it. Shared with the client's thread, so it outlives both.
class FakeSource : public ScheduleSource {
 public:
  std::atomic<int> calls{0}, delay_ms{0};
  std::atomic<bool> dead{false}, hangs{false};
  std::vector<Match> answer;

  ~FakeSource() override = default;
  void let_go() {
    hangs = false;
    const std::lock_guard guard(mutex_);
    free_.notify_all();
  }
  absl::StatusOr<Replies> batch_lookup(absl::Span<const LookupRequest> queries, int) override {
    ++calls;
    hang();
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    if (dead) return absl::UnavailableError("connection refused");
    Replies replies;
    for (const LookupRequest& query : queries) {
      replies.emplace_back();
      for (const Match& match : answer) {
        if (match.rung != Rung::kExact || match.record->key == query.key) {
          replies.back().push_back(match);
        }
      }
    }
    return replies;
  }

  // What it says is withdrawn, and how often it was asked and had anything to say.
  void withdraw(const std::set<std::string>& digests) {
    const std::lock_guard guard(mutex_);
    withdrawn_ = {WithdrawnList(digests), concat("etag ", ++lists_)};
  }
  std::atomic<int> polls{0}, lists_sent{0};
  absl::StatusOr<std::optional<WithdrawnSaid>> poll_withdrawn(const std::string& etag,
                                                              int) override {
    ++polls;
    hang();
    if (dead) return absl::UnavailableError("connection refused");
    const std::lock_guard guard(mutex_);
    if (etag == withdrawn_.etag) return std::optional<WithdrawnSaid>();
    ++lists_sent;
    return withdrawn_;
  }

 private:
  void hang() {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [this] { return !hangs; });
  }

  std::mutex mutex_;
  std::condition_variable free_;
  WithdrawnSaid withdrawn_{{}, "etag 0"};
  int lists_ = 0;
};

inline void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 2000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(done());
}

inline constexpr char kWords[] = "matmul M=64 N=64 K=64";
inline constexpr int kPatient = 30'000;  // deadline of tests that are not about it

struct ClientPlace {
  Scratch scratch;
  std::shared_ptr<FakeSource> source = std::make_shared<FakeSource>();
  std::string cache() const { return scratch.directory + "/cache"; }
  std::unique_ptr<ScheduleClient> open(ClientOptions options = {}, bool with_server = true) const {
    if (options.cache_folder.empty()) options.cache_folder = cache();
    if (with_server) options.source = source;
    return *ScheduleClient::open(std::move(options));
  }
};

inline ClientOptions patient() {
  ClientOptions options;
  options.deadline_ms = kPatient;
  return options;
}

}  // namespace lw
