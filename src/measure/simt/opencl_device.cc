#include "src/measure/simt/opencl_device.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/measure/simt/common/device_target.h"
#include "src/measure/simt/common/kernel_device.h"
#include "src/measure/simt/kernel_cache.h"
#include "src/measure/simt/opencl_clock.h"
#include "src/measure/simt/opencl_compiler.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/measure/simt/opencl_session.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

// What empties caches.
constexpr int64_t kLeastFlush = int64_t{8} << 20, kMostFlush = int64_t{128} << 20;
// Of kernels in the queue at once: drivers have room for some thousands, and stall at more.
constexpr int64_t kMostQueued = 256;

class OpenClKernelDevice : public KernelDevice<OpenClSession> {
 public:
  OpenClKernelDevice(Workbench& bench, std::unique_ptr<OpenClSession> session)
      : KernelDevice(bench, std::move(session)), clock_(&this->session()) {}

  absl::Status compile(int slot) override {
    ASSIGN_OR_RETURN(Slot* const loaded, ready(slot, kUniform));
    return loaded->kernels->begin();
  }

 protected:
  absl::StatusOr<double> sample(OpenClKernels& kernels, int64_t inner) override {
    cl::Event first = nullptr, last = nullptr;
    const double begin = now();
    absl::Status status = absl::OkStatus();
    for (int64_t i = 0; i < inner && status.ok(); ++i) {
      const bool ends = i + 1 == inner;
      status = kernels.enqueue(i == 0 ? &first : nullptr, ends ? &last : nullptr);
      if ((i + 1) % kMostQueued == 0 && status.ok()) {
        status = cl::error_status(session().api().Flush(session().queue()), "clFlush");
      }
    }
    if (status.ok()) status = session().finish();
    const double s = clock_.take(first, last, now() - begin);
    RETURN_IF_ERROR(status);
    return s * 1e6 / static_cast<double>(inner);
  }

  int64_t flush_bytes() const override {
    const OpenClDevice& device = session().device();
    // NVIDIA's driver says 4 MiB of the 60 of an H200's.
    const uint64_t said = device.is_processor()
                              ? device.cache_bytes
                              : std::max(device.cache_bytes, device.memory_bytes / 64);
    return std::clamp(2 * static_cast<int64_t>(std::min(said, uint64_t{kMostFlush})), kLeastFlush,
                      kMostFlush);
  }

  // What is timed begins on an empty queue.
  absl::Status flush() override {
    RETURN_IF_ERROR(KernelDevice::flush());
    return session().finish();
  }

 private:
  OpenClClock clock_;
};

}  // namespace

absl::StatusOr<OpenClDevice> opencl_device_of(const Target& target) {
  return named_opencl_device(device_name_of(target));
}

absl::StatusOr<DeviceDriver> opencl_driver(const Target& target) {
  ASSIGN_OR_RETURN(const OpenClDevice device, opencl_device_of(target));
  DeviceDriver driver;
  driver.stands_in = device.name;
  driver.shut_in = false;                  // compilers run in the driver: files, processes, threads
  driver.all_processors = device.is_processor();
  driver.units = units_of(target);
  driver.weighed = false;                  // what a call costs here says little of a GPU's time
  const std::shared_ptr<const KernelCache> cache = KernelCache::create();
  driver.compiler = [device, cache](Workbench& bench) {
    // Some drivers run kernels in the process that compiles, to compile them: of what others are
    // judged by it has nothing.
    for (Argument& a : bench.arguments) {
      for (SharedMemory& memory : a.memory) memory.unmap();
    }
    for (SharedMemory& values : bench.values) values.unmap();
    return opencl_compiler(device, cache);
  };
  driver.open = [device, cache](Workbench& bench) -> absl::StatusOr<std::unique_ptr<Device>> {
    cache->use();
    pin_to(bench.measuring);               // the driver's threads inherit it
    ASSIGN_OR_RETURN(std::unique_ptr<OpenClSession> session, OpenClSession::open(device));
    RETURN_IF_ERROR(protect_tensors(bench));
    return std::make_unique<OpenClKernelDevice>(bench, std::move(session));
  };
  return driver;
}

}  // namespace lw
