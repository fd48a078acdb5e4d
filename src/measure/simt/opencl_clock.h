// A device's own clock, by the events of its commands, as far as it is to be believed.
#pragma once

#include "src/measure/simt/opencl_session.h"

namespace lw {

class OpenClClock {
 public:
  // `session` outlives it.
  explicit OpenClClock(OpenClSession* session) : session_(session) {}

  // Seconds from the first command's start to the last one's end, where all were enqueued and are
  // complete within `wall_s` of the host's clock, which is the answer where the events make no sense.
  // Releases both; either may be null, `first` where one command is both.
  double take(cl::Event first, cl::Event last, double wall_s);

 private:
  double span(cl::Event first, cl::Event last) const;
  bool agrees() const;

  OpenClSession* const session_;
  enum { kUnknown, kSound, kUnsound } state_ = kUnknown;
};

}  // namespace lw
