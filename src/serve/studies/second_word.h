// What agents say of one schedule, and what holds when they do not agree. Pure functions; thread-safe.
//
// Boards of one class differ: their clocks, what cools them, who else uses them. What takes 1.5 times as
// long on one as on another is not the same word any more; nor is a kernel that computes right on one and
// not on another.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tuner_db/store.h"

namespace lw {

// Of one who measured a trace, verified or failed: all its measurements of it together.
struct Word {
  std::string actor;                       // "agent/board-7"
  std::string device;                      // of its latest
  bool failed = false;                     // it crashed, or was wrong, at least once
  double us = 0;                           // the median of its samples; 0: it failed
  int64_t first = 0;                       // the id of its first
};

// Of one trace, in order of arrival; what does not count, or is of another kind of time, says nothing.
std::vector<Word> words_of(absl::Span<const Measurement* const> measurements, TimeKind kind);

bool agree(const Word& a, const Word& b);

// One word alone; nobody is overruled (one between two that differ agrees with both); somebody is.
enum class Accord { kOne, kAgreed, kApart };
Accord accord_of(absl::Span<const Word> words);

// Whose words do not hold: those that do not agree with the word that most agree with, if more than
// half do; else with the most cautious one: that it fails, or the longest time.
std::vector<Word> overruled(absl::Span<const Word> words, bool* by_majority);

// "agent/a on devices/x: 12 us; agent/b on devices/y: it failed".
std::string describe(absl::Span<const Word> words);

}  // namespace lw
