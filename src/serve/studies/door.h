// What records must be before they are stored, whoever sends them:
//
//   a workload's row is what its canonical text says (tuner_db/workload_row.h);
//   a time is one that the target can reach (src/measure/judge/plausible.h), or is kept annulled;
//   the traces that may lead apply: they replay and lower on their workload and target.
//
// Whether a trace applies nobody can say of a workload whose program nobody has given (traces name
// tensors and axes), nor of a machine of a family that only a later version knows: they are kept
// unconfirmed, until a study has made its own.
//
// All of it is computed on the caller's thread, outside any transaction, and ends in bounded time: 2 s a
// trace, 30 s a message. What was judged is remembered, up to some megabytes.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/base/stop.h"
#include "src/serve/queue/leases.h"

namespace lw {

struct Records;

// The latest values by key, of so many bytes together. Thread-safe.
template <class Value>
class Remembered {
 public:
  explicit Remembered(size_t most_bytes) : most_bytes_(most_bytes) {}

  std::optional<Value> find(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }
  // `bytes`: of the value.
  void put(const std::string& key, Value value, size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes += 2 * key.size() + 100;
    if (!values_.emplace(key, std::move(value)).second) return;
    order_.emplace_back(key, bytes);
    for (bytes_ += bytes; bytes_ > most_bytes_; order_.pop_front()) {
      values_.erase(order_.front().first);
      bytes_ -= order_.front().second;
    }
  }

 private:
  const size_t most_bytes_;
  mutable std::mutex mutex_;
  std::map<std::string, Value> values_;
  std::deque<std::pair<std::string, size_t>> order_;  // of arrival
  size_t bytes_ = 0;
};

// Thread-safe.
class Door {
 public:
  // `store` outlives it.
  explicit Door(const Store& store) : store_(store) {}

  struct Findings {
    int64_t impossible = 0, unchecked = 0;
    std::vector<Doubt> doubts;             // the first few of the impossible times
  };

  // Of one message. INVALID_ARGUMENT names the record by its number, or says that the message takes too
  // long; other errors are the store's, and what `stop` says.
  class Visit {
   public:
    Visit(Door& door, const Stop& stop);
    // Puts the row right that record `number` has brought.
    absl::Status correct_workload(int number, WorkloadRow* row);
    // Judges all measurements by their times, and the leading ones of each key by their traces.
    absl::Status judge(Records* records, Findings* findings);

   private:
    absl::Status is_over() const;

    Door& door_;
    const Stop caller_, message_;
  };

 private:
  struct Asked;                            // a key, with what is known of it
  absl::StatusOr<Asked> ask(const Records& records, const Key& key) const;
  double least_us(const Asked& asked);
  absl::Status apply(const Asked& asked, const std::string& trace, const Stop& stop);

  const Store& store_;
  Remembered<std::shared_ptr<const WorkloadRow>> rows_{16 << 20};
  Remembered<double> least_us_{1 << 20};
  Remembered<bool> applies_{8 << 20};
};

}  // namespace lw
