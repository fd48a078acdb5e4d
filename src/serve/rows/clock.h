// The service's time, in milliseconds since 1970: what leases, studies and events are stamped with.
//
// It runs on a monotonic clock, so that a jump of the machine's clock neither ends leases nor
// prolongs them, and never falls behind a time that it gave out before a restart (the `clock` row).
// Where several daemons share a database it starts from the database's clock and is led back to it,
// never backwards. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "tuner_db/sql/database.h"

namespace lw {

class ServiceClock {
 public:
  // `monotonic_ms` counts from any origin; tests give their own.
  explicit ServiceClock(std::function<int64_t()> monotonic_ms = {});

  // From the database's clock and the stored time, whichever is later; calls after the first lead
  // the clock on.
  absl::Status synchronize(Database& database);
  // Stores the present, so that the next start does not fall behind it.
  absl::Status store(WriteTransaction& tx) const;

  int64_t now_ms() const;

 private:
  std::function<int64_t()> monotonic_ms_;
  std::atomic<int64_t> offset_ms_{0};
};

// 26 characters of digits and capitals that sort by time: names of studies, requests, sessions. The
// low 80 bits are random. Thread-safe.
std::string make_id(int64_t now_ms);

}  // namespace lw
