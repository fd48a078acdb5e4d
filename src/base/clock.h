// The machine's clocks, and its randomness. What decides by any of them takes it as an argument, so
// that tests give their own; these are what it is given. Thread-safe.
#pragma once

#include <cstdint>

namespace lw {

// Milliseconds since 1970; jumps when the machine's clock is set. For stamps, and ages across
// processes.
int64_t unix_ms();
// Seconds, from any origin, of a clock that never jumps: how long something takes, and deadlines.
double now();
// Never the same twice: for names and for the seeds of what only must differ (rng.h has all else).
uint64_t entropy();

}  // namespace lw
