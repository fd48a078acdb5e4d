// Where a process may die: a test's way of killing it between any two steps that could be seen
// apart.
//
// LOOPWRIGHT_CRASH_AT=N in the environment ends the process, as SIGKILL would (nothing is flushed,
// no destructor runs, exit code kCrashed), when it comes to the N-th point, counted from 1. Points
// stand before each write transaction, after each statement that writes, after each COMMIT, and
// before each acknowledgement of a group commit. Unset, a point costs a load and a branch.
#pragma once

#include <cstdint>

namespace lw {

inline constexpr int kCrashed = 86;

void crash_point();
// Instead of the environment, for a forked child; counts from here. 0: never.
void set_crash_point(int64_t n);
// How many points there have been since set_crash_point(); only counted while one is set.
int64_t crash_points_passed();

}  // namespace lw
