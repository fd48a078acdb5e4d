// Where a time comes from: a fact of every measurement and record, like its key. Times of different
// kinds are never compared with each other; where a key has several, those of the kind nearest to
// the truth answer. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace lw {

// In this order: the lower the number, the nearer to the truth. The numbers are stored and sent,
// and leave room.
enum class TimeKind : uint8_t {
  kMeasured = 0,                           // on a machine that runs the target's code
  kEmulated = 10,                          // by the clock of an emulator of the target
  kSimulated = 20,                         // cycles that a simulator of the target counted
  kEstimated = 30,                         // computed by a model; no clock was read
};

// Whether a machine was timed that is the target: itself, or a simulator that it is only there as.
// Two such times of one kind compare, whatever a model says.
constexpr bool is_timed(TimeKind kind) {
  return kind == TimeKind::kMeasured || kind == TimeKind::kSimulated;
}
// Whether no clock was read, so that times repeat to the digit.
constexpr bool is_computed(TimeKind kind) {
  return kind == TimeKind::kSimulated || kind == TimeKind::kEstimated;
}

// "measured", "emulated", "simulated", "estimated": stored.
std::string_view time_kind_name(TimeKind kind);
bool parse_time_kind(std::string_view name, TimeKind* kind);
bool parse_time_kind(int64_t number, TimeKind* kind);
inline int64_t field_number(TimeKind kind) { return static_cast<int64_t>(kind); }
inline bool parse_field_number(int64_t number, TimeKind* kind) {
  return parse_time_kind(number, kind);
}

}  // namespace lw
