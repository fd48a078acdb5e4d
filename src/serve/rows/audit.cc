#include "src/serve/rows/audit.h"

#include "src/base/check.h"

namespace lw {
namespace {

constexpr int64_t kMinuteMs = 60'000;

}  // namespace

absl::Status write_audit(WriteTransaction& tx, const AuditLine& line, int64_t* id) {
  Query query = tx.query("INSERT INTO audit (time_ms, actor, peer, method, subject, outcome) "
                         "VALUES (?,?,?,?,?,?) RETURNING id",
                         line.time_ms, line.actor, line.peer, line.method, line.subject,
                         line.outcome);
  if (query.next() && id != nullptr) *id = query.integer(0);
  return query.run();
}

bool Refusals::note(const AuditLine& line, std::shared_ptr<int64_t>* id) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = kinds_.try_emplace({line.actor, line.method, line.outcome});
  Kind& kind = place->second;
  // A clock that went back begins a minute too.
  const int64_t age_ms = line.time_ms - kind.begun_ms;
  if (!is_new && age_ms >= 0 && age_ms < kMinuteMs) {
    ++kind.line.more;
    return false;
  }
  if (kind.line.more > 0) over_.push_back(kind.line);
  kind = {line.time_ms, {std::make_shared<int64_t>(0), 0}};
  *id = kind.line.id;
  return true;
}

std::vector<Refusals::Line> Refusals::take(int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  std::vector<Line> taken = std::move(over_);
  over_.clear();
  std::erase_if(kinds_, [&](const auto& entry) {
    const auto& [begun_ms, line] = entry.second;
    if (now_ms - kMinuteMs < begun_ms) return false;
    if (line.more > 0) taken.push_back(line);
    return true;
  });
  return taken;
}

}  // namespace lw
