// Tests as a user with a mask of processors runs things.
#pragma once

#include <sched.h>

#include "src/base/check.h"

namespace lw {

// The calling thread, and what it starts, on one processor alone, while this lives.
class OnOneProcessor {
 public:
  explicit OnOneProcessor(int cpu) {
    CHECK(sched_getaffinity(0, sizeof before_, &before_) == 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  }
  ~OnOneProcessor() { CHECK(sched_setaffinity(0, sizeof before_, &before_) == 0); }

 private:
  cpu_set_t before_;
};

}  // namespace lw
