#include "tuner_db/sql/crash_point.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace lw {
namespace {

int64_t from_environment() {
  const char* text = getenv("LOOPWRIGHT_CRASH_AT");
  return text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
}

std::atomic<int64_t> wanted{from_environment()};
std::atomic<int64_t> passed{0};

}  // namespace

void crash_point() {
  const int64_t at = wanted.load(std::memory_order_relaxed);
  if (at <= 0) return;
  if (passed.fetch_add(1) + 1 == at) _exit(kCrashed);
}

void set_crash_point(int64_t n) {
  passed = 0;
  wanted = n;
}

int64_t crash_points_passed() { return passed; }

}  // namespace lw
