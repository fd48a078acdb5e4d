// Each figure is the best of some batches, each of them long beside the way to the device and back.
#include "src/measure/simt/opencl_probe.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_replace.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/measure/process/ipc.h"
#include "src/measure/simt/common/driver_process.h"
#include "src/measure/simt/kernel_cache.h"
#include "src/measure/simt/opencl_clock.h"
#include "src/measure/simt/opencl_session.h"
#include "src/measure/simt/probe_kernels.h"

namespace lw {
namespace {

constexpr double kLongBatch_s = 3e-3, kEnough_s = 0.1;
constexpr int kBatches = 5, kMostRounds = 1 << 24, kMostCalls = 4096;
constexpr int64_t kLeastCopied = int64_t{16} << 20, kMostCopied = int64_t{128} << 20;
constexpr int64_t kVector = 16, kOwnCache = int64_t{32} << 10;
constexpr int kWidths[] = {1, 2, 4, 8, 16};
constexpr int64_t kGroups[] = {256, 64, 32, 16, 1};

class Instruments {
 public:
  Instruments(OpenClSession* session, int64_t items)
      : session_(session), clock_(session), items_(items),
        units_(static_cast<int64_t>(session->device().units)),
        bytes_(kMostCopied) {
    // Drivers of others say less of their caches than there is.
    if (session->device().is_processor()) {
      bytes_ = std::clamp(4 * static_cast<int64_t>(std::min<uint64_t>(
                                  session->device().cache_bytes, kMostCopied)),
                          kLeastCopied, kMostCopied);
    }
    const uint64_t room = std::min(session->device().buffer_bytes, session->device().memory_bytes);
    while (bytes_ > 4 << 20 && static_cast<uint64_t>(4 * bytes_) > room) bytes_ /= 2;
  }
  ~Instruments() {
    for (const cl::Memory memory : buffers_) session_->release(memory);
  }

  absl::Status open() {
    for (const int64_t bytes : {bytes_, bytes_, int64_t{64}}) {
      ASSIGN_OR_RETURN(const cl::Memory memory, session_->allocate(bytes, "a buffer"));
      buffers_.push_back(memory);
    }
    const std::vector<char> zeros(static_cast<size_t>(bytes_));
    return session_->write(buffers_[0], zeros.data(), bytes_);
  }

  absl::Status measure(OpenClProbe* probe) {
    for (const int width : kWidths) {
      const int64_t groups = bytes_ / 16 / width / items_, vectors = 4 * groups * items_;
      ASSIGN_OR_RETURN(const double s,
                       seconds(with(kCopyKernel, width), groups, items_, false));
      probe->copies.push_back({width, 8e-9 * static_cast<double>(vectors * width) / s});
    }
    // Enough items for a device that hides a chain's latency behind others.
    const int64_t groups = 16 * units_;
    for (const int width : {4, 16}) {
      ASSIGN_OR_RETURN(const double s, seconds(with(kFmaKernel, width), groups, items_, true));
      probe->fma_gflops = std::max(
          probe->fma_gflops, 16e-9 * width * static_cast<double>(groups * items_) / s);
    }
    if (!session_->device().is_processor()) RETURN_IF_ERROR(measure_reads(probe));
    ASSIGN_OR_RETURN(const double local_s, seconds(with(kLocalKernel, 4), groups, items_, true));
    probe->local_gbytes = 64e-9 * static_cast<double>(groups * items_) / local_s;
    ASSIGN_OR_RETURN(const double barrier_s, seconds(with(kBarrierKernel, 1), 1, items_, true));
    probe->barrier_items = static_cast<int>(items_);
    probe->barrier_us = 1e6 * barrier_s / 2;
    ASSIGN_OR_RETURN(const double launch_s, seconds(kEmptyKernel, 1, 1, false));
    probe->launch_us = 1e6 * launch_s;
    const int64_t many = 1024 * units_;
    ASSIGN_OR_RETURN(const double many_s, seconds(kEmptyKernel, many, 1, false));
    probe->group_us = 1e6 * std::max(many_s - launch_s, 0.0) * static_cast<double>(units_) /
                      static_cast<double>(many);
    return absl::OkStatus();
  }

 private:
  // From windows that units' own caches do not hold, to all there is.
  absl::Status measure_reads(OpenClProbe* probe) {
    const int64_t items = std::min(32 * units_ * items_, bytes_ / kVector / items_ * items_);
    const int64_t least = static_cast<int64_t>(
        std::bit_ceil(static_cast<uint64_t>(units_ * kOwnCache)));
    for (int64_t window = std::min(least, bytes_); window <= bytes_; window *= 2) {
      window_ = static_cast<int>(window / kVector);
      ASSIGN_OR_RETURN(const double s, seconds(kReadKernel, items / items_, items_, true));
      probe->reads.push_back({window, 4e-9 * kVector * static_cast<double>(items) / s});
    }
    window_ = 1;
    return absl::OkStatus();
  }

  std::string with(const char* source, int width) const {
    const std::string wide = width == 1 ? "" : concat(width);  // there is no float1
    return absl::StrReplaceAll(source, {{"WIDTH", wide}, {"ITEMS", concat(items_)}});
  }

  // Of a call or, where it goes in rounds, of a round.
  absl::StatusOr<double> seconds(const std::string& source, int64_t groups, int64_t items,
                                 bool in_rounds) {
    using Kind = SimtProgram::Parameter::Kind;
    SimtProgram program;
    program.source = source;
    program.options = "-cl-std=CL1.2";
    program.launches = {{"probe", groups, items,
                         {{Kind::kArgument, 0}, {Kind::kArgument, 1}, {Kind::kArgument, 2}}}};
    ASSIGN_OR_RETURN(const std::unique_ptr<OpenClKernels> kernels,
                     OpenClKernels::build(session_, program));
    RETURN_IF_ERROR(kernels->bind({buffers_, nullptr, nullptr}));
    int rounds = 1, calls = 1;
    RETURN_IF_ERROR(set_rounds(1));
    RETURN_IF_ERROR(batch(*kernels, 1).status());         // the driver compiles, perhaps
    while (true) {
      ASSIGN_OR_RETURN(const double s, batch(*kernels, calls));
      int& more = in_rounds ? rounds : calls;
      const int most = in_rounds ? kMostRounds : kMostCalls;
      if (s >= kLongBatch_s || more >= most) break;
      // To what will be long enough, by what was seen, and a little more.
      const double times = std::clamp(1.3 * kLongBatch_s / std::max(s, 1e-9), 2.0, 64.0);
      more = static_cast<int>(std::min<double>(most, std::ceil(more * times)));
      if (in_rounds) RETURN_IF_ERROR(set_rounds(rounds));
    }
    double best = HUGE_VAL;
    const double begin = now();
    for (int i = 0; i < kBatches && (i == 0 || now() - begin < kEnough_s); ++i) {
      ASSIGN_OR_RETURN(const double s, batch(*kernels, calls));
      best = std::min(best, s);
    }
    if (!(best > 0)) return absl::UnavailableError("a batch of kernels took no time");
    return best / rounds / calls;
  }

  absl::Status set_rounds(int rounds) {
    const int numbers[] = {rounds, window_ - 1};
    return session_->write(buffers_[2], numbers, sizeof numbers);
  }

  absl::StatusOr<double> batch(OpenClKernels& kernels, int calls) {
    cl::Event first = nullptr, last = nullptr;
    const double begin = now();
    absl::Status status = absl::OkStatus();
    for (int i = 0; i < calls && status.ok(); ++i) {
      status = kernels.enqueue(i == 0 ? &first : nullptr, i + 1 == calls ? &last : nullptr);
    }
    if (status.ok()) status = session_->finish();
    const double s = clock_.take(first, last, now() - begin);
    RETURN_IF_ERROR(status);
    return s;
  }

  OpenClSession* const session_;
  OpenClClock clock_;
  const int64_t items_, units_;
  int64_t bytes_;                          // where windows are read, a power of two
  int window_ = 1;                         // vectors of it that are read, a power of two
  std::vector<cl::Memory> buffers_;
};

}  // namespace

absl::StatusOr<OpenClProbe> probe_opencl(const OpenClDevice& device, double limit_s) {
  const double begin = now();
  const std::shared_ptr<const KernelCache> cache = KernelCache::create();
  std::string last;
  const absl::Status status = in_driver_process(
      limit_s,
      [&](const Say& say) -> absl::Status {
        cache->use();
        ASSIGN_OR_RETURN(const std::unique_ptr<OpenClSession> session, OpenClSession::open(device));
        // Of what a kernel uses of registers its groups may have to be smaller than the device's.
        absl::Status measured;
        for (const int64_t items : kGroups) {
          if (static_cast<uint64_t>(items) > device.group_items) continue;
          Instruments instruments(session.get(), items);
          RETURN_IF_ERROR(instruments.open());
          OpenClProbe probe;
          measured = instruments.measure(&probe);
          if (measured.ok()) say(to_json(probe));
          if (!absl::IsResourceExhausted(measured)) break;
        }
        return measured;
      },
      [&](std::string_view said) { last = said; });
  if (!status.ok()) {
    const std::string why = absl::IsDeadlineExceeded(status)
                                ? concat("it took longer than ", static_cast<int>(limit_s), " s")
                                : std::string(status.message());
    return absl::UnavailableError(concat("measuring '", device.name, "': ", why));
  }
  ASSIGN_OR_RETURN(OpenClProbe probe, parse_probe(last));
  probe.took_s = now() - begin;
  return probe;
}

}  // namespace lw
