// Points and lengths of time as messages carry them, and as we count them. Pure functions.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lw {

inline google::protobuf::Timestamp timestamp(int64_t ms) {
  google::protobuf::Timestamp made;
  made.set_seconds(ms / 1000);
  made.set_nanos(static_cast<int32_t>(ms % 1000) * 1'000'000);
  return made;
}

inline google::protobuf::Duration duration_of_ms(int64_t ms) {
  google::protobuf::Duration made;
  made.set_seconds(ms / 1000);
  made.set_nanos(static_cast<int32_t>(ms % 1000) * 1'000'000);
  return made;
}

inline google::protobuf::Duration duration_of(double seconds) {
  google::protobuf::Duration made;
  made.set_seconds(static_cast<int64_t>(seconds));
  made.set_nanos(static_cast<int32_t>((seconds - std::floor(seconds)) * 1e9));
  return made;
}

// A Duration or a Timestamp. A stranger's may say anything: what no int64_t holds becomes the
// utmost that can still be added to a time of ours.
template <class Time>
int64_t ms_of(const Time& time) {
  constexpr int64_t kMost = INT64_MAX / 2000;
  return std::clamp<int64_t>(time.seconds(), -kMost, kMost) * 1000 + time.nanos() / 1'000'000;
}

inline double seconds_of(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

}  // namespace lw
