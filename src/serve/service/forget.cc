#include "src/serve/service/forget.h"

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr int kPiece = 300;                // rows: some ten milliseconds of the writer
constexpr int64_t kDayMs = 86'400'000;

}  // namespace

absl::Status Forgetter::step() {
  const int64_t now = core_.now_ms();
  bool is_due = false;
  {
    const std::lock_guard lock(mutex_);
    if (told_ms_ == 0) told_ms_ = now;
    is_due = now - told_ms_ >= kDayMs;
    if (is_busy_ || (now < next_ms_ && !is_due)) return absl::OkStatus();
    next_ms_ = now + core_.options.forget_ms;  // unless there is more
  }
  if (is_due) tell();
  if (!core_.commit.problem().empty()) return absl::OkStatus();
  const Retention& retention = core_.options.config.retention;
  int kind = -1;
  RETURN_IF_ERROR(core_.database->read(5, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(kind, what_to_forget(tx, retention, now));
    return absl::OkStatus();
  }));
  if (kind < 0) return absl::OkStatus();
  {
    const std::lock_guard lock(mutex_);
    is_busy_ = true;
  }
  const auto gone = std::make_shared<Forgotten>();
  core_.commit.submit(
      [this, kind, now, gone](WriteTransaction& tx) {
        gone->clear();
        return forget_piece(tx, core_.options.config.retention, kind, now, kPiece, gone.get());
      },
      [this, gone](const absl::Status& status) {
        const std::lock_guard lock(mutex_);
        is_busy_ = false;
        if (!status.ok()) {
          log(Level::kWarning, "not_forgotten", {{"error", std::string(status.message())}});
          return;
        }
        next_ms_ = 0;
        for (const auto& [what, rows] : *gone) {
          core_.metrics.add(Metric::kForgotten, static_cast<double>(rows), {what});
          since_[what] += rows;
        }
      });
  return absl::OkStatus();
}

void Forgetter::soon() {
  const std::lock_guard lock(mutex_);
  next_ms_ = 0;
}

// Once a day, where something went.
void Forgetter::tell() {
  Forgotten gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(since_);
    told_ms_ = core_.now_ms();
  }
  std::string text;
  for (const auto& [what, rows] : gone) text += concat(text.empty() ? "" : ", ", rows, " ", what);
  if (!text.empty()) log(Level::kInfo, "forgotten", {{"what", text}});
}

}  // namespace lw
