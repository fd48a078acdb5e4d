#include "src/serve/rows/clock.h"


#include <algorithm>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace lw {
namespace {

constexpr int64_t kMostStepMs = 10'000;     // at a synchronization

int64_t monotonic_now_ms() { return static_cast<int64_t>(1e3 * now()); }

}  // namespace

ServiceClock::ServiceClock(std::function<int64_t()> monotonic_ms)
    : monotonic_ms_(monotonic_ms ? std::move(monotonic_ms) : monotonic_now_ms) {}

absl::Status ServiceClock::synchronize(Database& database) {
  ASSIGN_OR_RETURN(int64_t time_ms, database.server_ms());
  if (offset_ms_ != 0 && !database.is_shared()) return absl::OkStatus();
  const bool first = offset_ms_ == 0;
  RETURN_IF_ERROR(database.read(5, [&](Transaction& tx) -> absl::Status {
    // The row is written every few seconds; what a killed daemon stamped since stands in its rows.
    for (const char* latest : {"SELECT time_ms FROM clock", "SELECT max(created_ms) FROM requests",
                               "SELECT max(updated_ms) FROM studies",
                               "SELECT max(seen_ms) FROM agents"}) {
      Query query = tx.query(latest);
      if (query.next()) time_ms = std::max(time_ms, query.integer(0));
      RETURN_IF_ERROR(query.status());
      if (!first) break;
    }
    return absl::OkStatus();
  }));
  int64_t offset = time_ms - monotonic_ms_();
  // A day's jump of the server's clock, for a moment, would end all leases, and time cannot go back.
  if (!first && offset > offset_ms_ + kMostStepMs) {
    log(Level::kWarning, "clock_ahead", {{"database_ahead_ms", offset - offset_ms_},
                                         {"followed_ms", kMostStepMs}});
    offset = offset_ms_ + kMostStepMs;
  }
  offset_ms_ = std::max<int64_t>(offset_ms_, offset);
  return absl::OkStatus();
}

absl::Status ServiceClock::store(WriteTransaction& tx) const {
  return tx.query("INSERT INTO clock (id, time_ms) VALUES (1, ?) ON CONFLICT (id) DO UPDATE "
                  "SET time_ms = excluded.time_ms WHERE clock.time_ms < excluded.time_ms",
                  now_ms()).run();
}

int64_t ServiceClock::now_ms() const { return offset_ms_ + monotonic_ms_(); }

std::string make_id(int64_t now_ms) {
  static constexpr char kDigits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  std::string id(26, '0');
  for (int i = 9; i >= 0; --i, now_ms >>= 5) id[i] = kDigits[now_ms & 31];
  uint64_t random = 0;
  for (int i = 10; i < 26; ++i, random >>= 5) {
    if (i % 8 == 2) random = entropy();    // eight digits' worth
    id[i] = kDigits[random & 31];
  }
  return id;
}

}  // namespace lw
