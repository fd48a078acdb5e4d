// How many candidates a study's search drafts in a test.
#pragma once

#include "src/search/search.h"
#include "tests/support/program.h"

namespace lw {

// Most of the time that a study takes goes into drafts, and how good the schedules are that it finds is
// not what tests of the service ask.
inline int test_drafts() {
  return static_cast<int>(setting("LW_DRAFTS", SearchOptions().drafts));
}

}  // namespace lw
