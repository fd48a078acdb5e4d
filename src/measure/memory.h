// Memory: what measuring a program takes, and what this process may use.
#pragma once

#include <string>


namespace lw {

struct Program;

// Bytes that a measurement touches whatever its schedule: each input in every set of inputs, each
// output and what it is compared with. A schedule's workspace comes on top, and is bounded
// (src/lower).
double measuring_bytes(const Program& program);

// The machine's memory, or less where a control group of this process, or one above it, is given less.
// `root`: tests, in place of "/". Infinite where nothing can be read.
double memory_limit(const std::string& root = "");

}  // namespace lw
