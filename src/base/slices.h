// How long the kernel lets threads compute before others of the machine have their turn.
#pragma once

#include <chrono>

namespace lw {

// Asks for slices of about this length, 0.1 to 100 ms, for the calling thread and those that it starts
// from then on: whoever wakes up beside them waits for no longer, instead of some 3 ms, and each still
// gets its share. False where the kernel does not let us: Linux before 6.12 has no such wishes.
bool prefer_slices(std::chrono::microseconds length);

// Of the calling thread; 0: not known.
std::chrono::microseconds slice_length();

}  // namespace lw
