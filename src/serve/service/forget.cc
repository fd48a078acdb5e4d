// Forgetting, by the housekeeping thread: a look now and then, and while there is something, one
// piece after the other, each behind whatever else waits for the writer, leases first of all. The
// thread does not wait for it: leases that run out are its first duty.
#include "src/serve/service/impl.h"

namespace lw {
namespace {

constexpr int kPiece = 300;                // rows: some ten milliseconds of the writer
constexpr int64_t kDayMs = 86'400'000;

}  // namespace

absl::Status Service::forget() {
  const int64_t now = now_ms();
  bool is_due = false;
  {
    const std::lock_guard lock(forgetting_.mutex);
    if (forgetting_.told_ms == 0) forgetting_.told_ms = now;
    is_due = now - forgetting_.told_ms >= kDayMs;
    if (forgetting_.is_busy || (now < forgetting_.next_ms && !is_due)) return absl::OkStatus();
    forgetting_.next_ms = now + options_.forget_ms;  // unless there is more
  }
  if (is_due) tell_forgotten();
  if (!commit_->problem().empty()) return absl::OkStatus();
  const Retention& retention = options_.config.retention;
  int kind = -1;
  RETURN_IF_ERROR(database_->read(5, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(kind, what_to_forget(*database_, retention, now));
    return absl::OkStatus();
  }));
  if (kind < 0) return absl::OkStatus();
  {
    const std::lock_guard lock(forgetting_.mutex);
    forgetting_.is_busy = true;
  }
  const auto gone = std::make_shared<Forgotten>();
  commit_->submit(
      [this, kind, now, gone](Database& database) {
        gone->clear();
        return forget_piece(database, options_.config.retention, kind, now, kPiece, gone.get());
      },
      [this, gone](const absl::Status& status) {
        const std::lock_guard lock(forgetting_.mutex);
        forgetting_.is_busy = false;
        if (!status.ok()) {
          log(Level::kWarning, "not_forgotten", {{"error", std::string(status.message())}});
          return;
        }
        forgetting_.next_ms = 0;
        for (const auto& [what, rows] : *gone) {
          metrics_.forgotten(what, rows);
          forgetting_.since[what] += rows;
        }
      });
  return absl::OkStatus();
}

// Once a day, where something went.
void Service::tell_forgotten() {
  Forgotten gone;
  {
    const std::lock_guard lock(forgetting_.mutex);
    gone.swap(forgetting_.since);
    forgetting_.told_ms = now_ms();
  }
  std::string text;
  for (const auto& [what, rows] : gone) text += concat(text.empty() ? "" : ", ", rows, " ", what);
  if (!text.empty()) log(Level::kInfo, "forgotten", {{"what", text}});
}

}  // namespace lw
