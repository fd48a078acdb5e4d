#include "src/base/clock.h"

#include <sys/random.h>
#include <time.h>

#include <chrono>
#include <cstdlib>

namespace lw {

int64_t unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

uint64_t entropy() {
  uint64_t bits = 0;
  // (No CHECK: lw_runner, which has no abseil, reads clocks too.)
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits) std::abort();
  return bits;
}

}  // namespace lw
