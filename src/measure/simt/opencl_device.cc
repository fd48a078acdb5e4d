// Inputs are uploaded anew for each run that is judged, and compared after it: a kernel that has
// written one is noticed, and no other pays for it. Timed runs take what is there.
#include "src/measure/simt/opencl_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/build/simt/program.h"
#include "src/measure/simt/kernel_cache.h"
#include "src/measure/simt/opencl_clock.h"
#include "src/measure/simt/opencl_compiler.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/measure/simt/opencl_session.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

// Written between two cold calls, so that nothing of the kernel's is in any cache.
constexpr int64_t kLeastFlush = int64_t{8} << 20, kMostFlush = int64_t{128} << 20;
// Of kernels in the queue at once: drivers have room for some thousands, and stall at more.
constexpr int64_t kMostQueued = 256;

absl::Status check_opencl_arguments(const Workbench& bench, const SimtProgram& program) {
  if (program.arguments.size() != bench.arguments.size()) {
    return absl::InvalidArgumentError(concat("program of launches: ", program.arguments.size(),
                                             " arguments, of a program that has ",
                                             bench.arguments.size()));
  }
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const SimtProgram::Argument& given = program.arguments[i];
    const Argument& a = bench.arguments[i];
    if (given.bytes != a.bytes) {
      return absl::InvalidArgumentError(concat("program of launches: ", given.bytes, " bytes for ",
                                               a.name, ", which has ", a.bytes));
    }
    if (given.written != a.output) {
      return absl::InvalidArgumentError(concat("program of launches: it says that ", a.name,
                                               given.written ? " is" : " is not", " written"));
    }
  }
  const int64_t limit = bench.options.memory_limit_bytes;
  for (const int64_t bytes : {program.workspace_bytes, program.packed_bytes}) {
    if (bytes <= limit) continue;
    return absl::ResourceExhaustedError(
        concat("the kernel needs ", bytes, " bytes of workspace, the limit is ", limit));
  }
  return absl::OkStatus();
}

class OpenClKernelDevice : public Device {
 public:
  OpenClKernelDevice(Workbench& bench, std::unique_ptr<OpenClSession> session)
      : bench_(bench), session_(std::move(session)), clock_(session_.get()) {}

  // A driver that runs kernels in this process gives them its memory: of that none may be written
  // that is others' to judge by.
  absl::Status protect_tensors() {
    for (Argument& a : bench_.arguments) {
      if (a.output) continue;
      for (SharedMemory& memory : a.memory) {
        if (mprotect(memory.data(), static_cast<size_t>(memory.bytes()), PROT_READ) != 0) {
          return absl::UnavailableError("mprotect of the inputs");
        }
      }
    }
    for (SharedMemory& values : bench_.values) values.unmap();
    return absl::OkStatus();
  }

  ~OpenClKernelDevice() override {
    unload_all();
    for (const auto& memories : inputs_) {
      for (const cl::Memory memory : memories) session_->release(memory);
    }
    for (const cl::Memory memory : outputs_) session_->release(memory);
    session_->release(flush_);
  }

  absl::Status load(int slot, const Artifact& artifact) override {
    unload(slot);
    if (artifact.architecture != kOpenClArchitecture) {
      return absl::InvalidArgumentError(
          concat("an artifact for '", artifact.architecture, "', not for ", kOpenClArchitecture));
    }
    Slot& loaded = slots_[slot];
    const absl::Status status = fill_slot(artifact, &loaded);
    if (!status.ok()) unload(slot);
    return status;
  }

  void unload_all() override {
    while (!slots_.empty()) unload(slots_.begin()->first);
  }

  absl::Status compile(int slot) override {
    ASSIGN_OR_RETURN(Slot* const loaded, ready(slot, kUniform));
    return loaded->kernels->begin();
  }

  absl::Status run(int slot, int set) override {
    ASSIGN_OR_RETURN(Slot* const loaded, ready(slot, set));
    RETURN_IF_ERROR(loaded->kernels->enqueue());
    RETURN_IF_ERROR(session_->finish());
    RETURN_IF_ERROR(fetch_outputs(set));
    return unspoiled(*loaded, set);
  }

  absl::Status run_again(int slot, int set) override {
    const std::map<int, Slot>::iterator it = slots_.find(slot);
    if (it == slots_.end()) return absl::NotFoundError("nothing loaded");
    RETURN_IF_ERROR(it->second.kernels->enqueue());
    return fetch_outputs(set);
  }

  absl::StatusOr<Samples> time(int slot, const TimingPlan& plan) override {
    ASSIGN_OR_RETURN(Slot* const loaded, ready(slot, kUniform));
    const TimedUsage before = usage_so_far();
    const double begin = now();
    Timing t = time_call(timed(loaded), plan);
    Samples samples;
    samples.inside_s = now() - begin;
    samples.usage = usage_so_far() - before;
    if (!t.ok) return failure_;
    RETURN_IF_ERROR(fetch_outputs(kUniform));
    RETURN_IF_ERROR(unspoiled(*loaded, kUniform));
    samples.us = std::move(t.samples_us);
    samples.inner = t.inner;
    samples.raced_out = t.raced_out;
    return samples;
  }

  absl::StatusOr<std::vector<Samples>> interleave(const std::vector<int>& slots, int rounds,
                                                  const TimingPlan& plan) override {
    std::vector<Timed> calls;
    std::vector<Slot*> all_loaded;
    for (const int slot : slots) {
      ASSIGN_OR_RETURN(Slot* const loaded, ready(slot, kUniform));
      all_loaded.push_back(loaded);
      calls.push_back(timed(loaded));
    }
    const TimedUsage before = usage_so_far();
    const std::vector<Timing> timings = time_in_turns(calls, rounds, plan, [](size_t) {});
    const TimedUsage usage = usage_so_far() - before;
    std::vector<Samples> all(slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!timings[i].ok) return failure_;
      all[i].us = timings[i].samples_us;
      all[i].inner = timings[i].inner;
      all[i].usage = usage;
    }
    return all;
  }

 private:
  struct Slot {
    SimtProgram program;
    std::unique_ptr<OpenClKernels> kernels;
    cl::Memory workspace = nullptr, packed = nullptr;
  };

  absl::Status fill_slot(const Artifact& artifact, Slot* loaded) {
    ASSIGN_OR_RETURN(loaded->program, parse_simt_program(artifact.bytes));
    const SimtProgram& program = loaded->program;
    RETURN_IF_ERROR(check_opencl_arguments(bench_, program));
    if (program.workspace_bytes > 0) {
      ASSIGN_OR_RETURN(loaded->workspace,
                       session_->allocate(program.workspace_bytes, "the workspace"));
    }
    if (program.packed_bytes > 0) {
      ASSIGN_OR_RETURN(loaded->packed,
                       session_->allocate(program.packed_bytes, "the packed operands"));
    }
    ASSIGN_OR_RETURN(loaded->kernels, OpenClKernels::build(session_.get(), program));
    return absl::OkStatus();
  }

  void unload(int slot) {
    const std::map<int, Slot>::iterator it = slots_.find(slot);
    if (it == slots_.end()) return;
    it->second.kernels.reset();
    session_->release(it->second.workspace);
    session_->release(it->second.packed);
    slots_.erase(it);
  }

  // Buffers of the set, its inputs as the workbench has them, all else poison; packed what is to be.
  absl::StatusOr<Slot*> ready(int slot, int set) {
    const std::map<int, Slot>::iterator it = slots_.find(slot);
    if (it == slots_.end()) return absl::NotFoundError("nothing loaded");
    Slot& loaded = it->second;
    OpenClKernels::Buffers buffers;
    buffers.workspace = loaded.workspace;
    buffers.packed = loaded.packed;
    inputs_[set].resize(bench_.arguments.size());
    outputs_.resize(bench_.arguments.size());
    for (size_t i = 0; i < bench_.arguments.size(); ++i) {
      const Argument& a = bench_.arguments[i];
      cl::Memory& memory = a.output ? outputs_[i] : inputs_[set][i];
      if (memory == nullptr) {
        ASSIGN_OR_RETURN(memory, session_->allocate(a.bytes, a.name));
      }
      RETURN_IF_ERROR(session_->poison(memory, a.bytes));
      if (!a.output) RETURN_IF_ERROR(session_->write(memory, data_of(i, set), a.bytes));
      buffers.arguments.push_back(memory);
    }
    if (loaded.workspace != nullptr) {
      RETURN_IF_ERROR(session_->poison(loaded.workspace, loaded.program.workspace_bytes));
    }
    if (loaded.packed != nullptr) {
      RETURN_IF_ERROR(session_->poison(loaded.packed, loaded.program.packed_bytes));
    }
    RETURN_IF_ERROR(loaded.kernels->bind(buffers));
    RETURN_IF_ERROR(loaded.kernels->enqueue_prepack());
    RETURN_IF_ERROR(session_->finish());
    return &loaded;
  }

  std::byte* data_of(size_t i, int set) const {
    const Argument& a = bench_.arguments[i];
    return a.memory[a.output ? 0 : set].data() +
           argument_offset(bench_, set, static_cast<int>(i));
  }

  absl::Status fetch_outputs(int set) {
    for (size_t i = 0; i < bench_.arguments.size(); ++i) {
      const Argument& a = bench_.arguments[i];
      if (a.output) RETURN_IF_ERROR(session_->read(outputs_[i], data_of(i, set), a.bytes));
    }
    return absl::OkStatus();
  }

  // What a kernel must leave as it was.
  absl::Status unspoiled(const Slot& loaded, int set) {
    std::vector<std::byte> now_there;
    const auto check = [&](cl::Memory memory, int64_t bytes,
                           const std::string& name) -> absl::Status {
      if (memory == nullptr) return absl::OkStatus();
      ASSIGN_OR_RETURN(const bool intact, session_->intact(memory, bytes));
      return intact ? absl::OkStatus() : absl::DataLossError(concat("wrote beside ", name));
    };
    for (size_t i = 0; i < bench_.arguments.size(); ++i) {
      const Argument& a = bench_.arguments[i];
      const cl::Memory memory = a.output ? outputs_[i] : inputs_[set][i];
      RETURN_IF_ERROR(check(memory, a.bytes, a.name));
      if (a.output) continue;
      now_there.resize(static_cast<size_t>(a.bytes));
      RETURN_IF_ERROR(session_->read(memory, now_there.data(), a.bytes));
      if (std::memcmp(now_there.data(), data_of(i, set), now_there.size()) != 0) {
        return absl::DataLossError(concat("wrote into ", a.name));
      }
    }
    RETURN_IF_ERROR(check(loaded.workspace, loaded.program.workspace_bytes, "the workspace"));
    return check(loaded.packed, loaded.program.packed_bytes, "the packed operands");
  }

  Timed timed(Slot* loaded) {
    Timed t;
    t.sample = [this, loaded](int64_t inner) {
      const absl::StatusOr<double> us = sample(*loaded->kernels, inner);
      if (!us.ok()) failure_ = us.status();
      return us.ok() ? *us : -1;
    };
    t.before = [this] { (void)flush(); };
    return t;
  }

  // Calls one after the other, as a consumer's queue has them, with what lies between launches.
  absl::StatusOr<double> sample(OpenClKernels& kernels, int64_t inner) {
    cl::Event first = nullptr, last = nullptr;
    const double begin = now();
    absl::Status status = absl::OkStatus();
    for (int64_t i = 0; i < inner && status.ok(); ++i) {
      const bool ends = i + 1 == inner;
      status = kernels.enqueue(i == 0 ? &first : nullptr, ends ? &last : nullptr);
      if ((i + 1) % kMostQueued == 0 && status.ok()) {
        status = cl::error_status(session_->api().Flush(session_->queue()), "clFlush");
      }
    }
    if (status.ok()) status = session_->finish();
    const double s = clock_.take(first, last, now() - begin);
    RETURN_IF_ERROR(status);
    return s * 1e6 / static_cast<double>(inner);
  }

  absl::Status flush() {
    const OpenClDevice& device = session_->device();
    // NVIDIA's driver says 4 MiB of the 60 of an H200's.
    const uint64_t said = device.is_processor() ? device.cache_bytes
                                                : std::max(device.cache_bytes, device.memory_bytes / 64);
    const int64_t bytes = std::clamp(2 * static_cast<int64_t>(std::min(said, uint64_t{kMostFlush})),
                                     kLeastFlush, kMostFlush);
    if (flush_ == nullptr) {
      ASSIGN_OR_RETURN(flush_, session_->allocate(bytes, "what empties caches"));
    }
    RETURN_IF_ERROR(session_->poison(flush_, bytes));
    return session_->finish();
  }

  Workbench& bench_;
  const std::unique_ptr<OpenClSession> session_;
  OpenClClock clock_;
  std::vector<cl::Memory> inputs_[kInputSets], outputs_;  // by argument; null: none yet, or not that
  cl::Memory flush_ = nullptr;
  std::map<int, Slot> slots_;
  absl::Status failure_ = absl::UnknownError("no call failed");  // of the last sample
};

}  // namespace

absl::StatusOr<OpenClDevice> opencl_device_of(const Target& target) {
  return named_opencl_device(simt(target).device);
}

absl::StatusOr<DeviceDriver> opencl_driver(const Target& target) {
  ASSIGN_OR_RETURN(const OpenClDevice device, opencl_device_of(target));
  DeviceDriver driver;
  driver.stands_in = device.name;
  driver.shut_in = false;                  // compilers run in the driver: files, processes, threads
  driver.all_processors = device.is_processor();
  driver.units = simt(target).units;
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
    std::unique_ptr<OpenClKernelDevice> opened =
        std::make_unique<OpenClKernelDevice>(bench, std::move(session));
    RETURN_IF_ERROR(opened->protect_tensors());
    return opened;
  };
  return driver;
}

}  // namespace lw
