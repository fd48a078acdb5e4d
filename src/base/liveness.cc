#include "src/base/liveness.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lw {

Liveness::Task::Task(Liveness& liveness, std::string what, Clock::time_point due)
    : liveness_(liveness) {
  std::lock_guard lock(liveness_.mutex_);
  entry_ = liveness_.tasks_.insert(liveness_.tasks_.end(), Entry{std::move(what), due});
}

Liveness::Task::~Task() {
  std::lock_guard lock(liveness_.mutex_);
  liveness_.tasks_.erase(entry_);
}

void Liveness::Task::lives_until(Clock::time_point due) {
  std::lock_guard lock(liveness_.mutex_);
  entry_->due = due;
}

int Liveness::hanging(Clock::time_point now) const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(tasks_.begin(), tasks_.end(), [&](const auto& task) {
    return task.due < now - patience_;
  }));
}

std::string Liveness::problem(Clock::time_point now) const {
  std::lock_guard lock(mutex_);
  const auto worst = std::min_element(tasks_.begin(), tasks_.end(), [](const auto& a, const auto& b) {
    return a.due < b.due;
  });
  if (worst == tasks_.end() || worst->due >= now - patience_) return "";
  const int64_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now - worst->due).count();
  return absl::StrCat("a thread hangs in ", worst->what, ", ", seconds, " s beyond its time");
}

}  // namespace lw
