// flock(2) with patience.
#pragma once

#include <chrono>

namespace lw {

// Takes the exclusive lock of the open file, which it keeps until it is unlocked or closed, and
// waits for whoever holds it as long as that. False: not taken, and errno says why; EWOULDBLOCK:
// still held. Thread-safe.
bool lock_within(int descriptor, std::chrono::duration<double> patience);

}  // namespace lw
