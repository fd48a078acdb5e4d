// The host's clock adds the way to the device and back once a batch, so it is never the shorter one
// by more than clocks drift. Some drivers' events are all zero, some count in another unit, some go
// backwards. What is far off shows in a batch that is long beside the way there, of fills; there the
// two must agree before any event is believed.
#include "src/measure/simt/opencl_clock.h"

#include <utility>

#include "src/base/clock.h"

namespace lw {
namespace {

constexpr double kOver = 1.02;             // of the host's time that a device's may be
constexpr double kUnder = 0.3, kThere_s = 5e-4;     // and must be, but for the way there and back
constexpr double kLong_s = 0.02, kMostOfLong = 0.5;
constexpr int64_t kFilled = int64_t{1} << 20;
constexpr int kMostFills = 4096;

double event_time(const cl::Api& api, cl::Event event, cl::Uint what) {
  uint64_t ns = 0;
  if (event == nullptr ||
      api.GetEventProfilingInfo(event, what, sizeof ns, &ns, nullptr) != cl::kSuccess) {
    return 0;
  }
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

double OpenClClock::span(cl::Event first, cl::Event last) const {
  const cl::Api& api = session_->api();
  if (first == nullptr) std::swap(first, last);
  const double start = event_time(api, first, cl::kProfilingStart);
  const double first_end = event_time(api, first, cl::kProfilingEnd);
  const double last_start = last != nullptr ? event_time(api, last, cl::kProfilingStart) : start;
  const double end = last != nullptr ? event_time(api, last, cl::kProfilingEnd) : first_end;
  for (const cl::Event event : {first, last}) {
    if (event != nullptr) api.ReleaseEvent(event);
  }
  const bool forwards = start > 0 && start <= first_end && last_start <= end;
  return forwards ? end - start : 0;
}

bool OpenClClock::agrees() const {
  const absl::StatusOr<cl::Memory> memory = session_->allocate(kFilled, "a buffer");
  if (!memory.ok()) return false;
  bool sound = false;
  for (int fills = 2; fills <= kMostFills; fills *= 2) {
    cl::Event first = nullptr, last = nullptr;
    const double begin = now();
    bool ok = true;
    for (int i = 0; i < fills && ok; ++i) {
      cl::Event* const event = i == 0 ? &first : i + 1 == fills ? &last : nullptr;
      ok = session_->poison(*memory, kFilled, event).ok();
    }
    ok = ok && session_->finish().ok();
    const double wall_s = now() - begin, device_s = span(first, last);
    if (!ok) break;
    if (wall_s < kLong_s) continue;
    sound = device_s >= kMostOfLong * wall_s && device_s <= kOver * wall_s;
    break;
  }
  session_->release(*memory);
  return sound;
}

double OpenClClock::take(cl::Event first, cl::Event last, double wall_s) {
  const double s = span(first, last);
  if (state_ == kUnknown) state_ = agrees() ? kSound : kUnsound;
  const bool sense = s > 0 && s <= kOver * wall_s && s >= kUnder * wall_s - kThere_s;
  return state_ == kSound && sense ? s : wall_s;
}

}  // namespace lw
