// Kernels on a machine of many threads, whichever driver it has: all of a Device but what its
// driver alone can do. A Session is a driver at work in this process: OpenClSession says what it
// must have.
//
// Inputs are uploaded anew for each run that is judged, and compared after it: a kernel that has
// written one is noticed, and no other pays for it. Timed runs take what is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/build/build.h"
#include "src/build/simt/program.h"
#include "src/measure/machine/hygiene.h"
#include "src/measure/run/timing.h"
#include "src/measure/workers/device.h"
#include "src/measure/workers/workbench.h"

namespace lw {

// Whether the program is one of the workbench's: kInvalidArgument says what is another's,
// kResourceExhausted that it wants more memory than it may have.
absl::Status check_program_arguments(const Workbench& bench, const SimtProgram& program);
// A driver that runs kernels in this process gives them its memory: of that none may be written
// that is others' to judge by.
absl::Status protect_tensors(Workbench& bench);

// Thread-compatible, as Devices are.
template <class Session>
class KernelDevice : public Device {
 public:
  using Memory = typename Session::Memory;
  using Kernels = typename Session::Kernels;

  KernelDevice(Workbench& bench, std::unique_ptr<Session> session)
      : bench_(bench), session_(std::move(session)) {}

  ~KernelDevice() override {
    KernelDevice::unload_all();
    for (const std::vector<Memory>& memories : inputs_) {
      for (const Memory memory : memories) session_->release(memory);
    }
    for (const Memory memory : outputs_) session_->release(memory);
    session_->release(flush_);
  }

  absl::Status load(int slot, const Artifact& artifact) override {
    unload(slot);
    if (artifact.architecture != Session::kArchitecture) {
      return absl::InvalidArgumentError(concat("an artifact for '", artifact.architecture,
                                               "', not for ", Session::kArchitecture));
    }
    Slot& loaded = slots_[slot];
    const absl::Status status = fill_slot(artifact, &loaded);
    if (!status.ok()) unload(slot);
    return status;
  }

  void unload_all() override {
    while (!slots_.empty()) unload(slots_.begin()->first);
  }

  absl::Status run(int slot, int set) override {
    ASSIGN_OR_RETURN(Slot* const loaded, ready(slot, set));
    RETURN_IF_ERROR(loaded->kernels->enqueue());
    RETURN_IF_ERROR(session_->finish());
    RETURN_IF_ERROR(fetch_outputs(set));
    return unspoiled(*loaded, set);
  }

  absl::Status run_again(int slot, int set) override {
    const typename std::map<int, Slot>::iterator it = slots_.find(slot);
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
    note(&samples);
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
    std::vector<const Slot*> all_loaded;
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
      note(&all[i]);
      RETURN_IF_ERROR(unspoiled(*all_loaded[i], kUniform));
    }
    return all;
  }

 protected:
  struct Slot {
    SimtProgram program;
    std::unique_ptr<Kernels> kernels;
    Memory workspace = Memory(), packed = Memory();
  };

  // Calls one after the other, as a consumer's queue has them, with what lies between launches:
  // microseconds of one.
  virtual absl::StatusOr<double> sample(Kernels& kernels, int64_t inner) = 0;
  // Written between two cold calls, so that nothing of the kernel's is in any cache.
  virtual int64_t flush_bytes() const = 0;
  virtual absl::Status flush() {
    if (flush_ == Memory()) {
      ASSIGN_OR_RETURN(flush_, session_->allocate(flush_bytes(), "what empties caches"));
    }
    return session_->poison(flush_, flush_bytes());
  }
  // What the device says of itself when samples were just taken.
  virtual void note(Samples*) {}

  Session& session() const { return *session_; }

  // Buffers of the set, its inputs as the workbench has them, all else poison; packed what is to
  // be.
  absl::StatusOr<Slot*> ready(int slot, int set) {
    const typename std::map<int, Slot>::iterator it = slots_.find(slot);
    if (it == slots_.end()) return absl::NotFoundError("nothing loaded");
    Slot& loaded = it->second;
    typename Kernels::Buffers buffers;
    buffers.workspace = loaded.workspace;
    buffers.packed = loaded.packed;
    inputs_[set].resize(bench_.arguments.size());
    outputs_.resize(bench_.arguments.size());
    for (size_t i = 0; i < bench_.arguments.size(); ++i) {
      const Argument& a = bench_.arguments[i];
      Memory& memory = a.output ? outputs_[i] : inputs_[set][i];
      if (memory == Memory()) {
        ASSIGN_OR_RETURN(memory, session_->allocate(a.bytes, a.name));
      }
      RETURN_IF_ERROR(session_->poison(memory, a.bytes));
      if (!a.output) RETURN_IF_ERROR(session_->write(memory, data_of(i, set), a.bytes));
      buffers.arguments.push_back(memory);
    }
    if (loaded.workspace != Memory()) {
      RETURN_IF_ERROR(session_->poison(loaded.workspace, loaded.program.workspace_bytes));
    }
    if (loaded.packed != Memory()) {
      RETURN_IF_ERROR(session_->poison(loaded.packed, loaded.program.packed_bytes));
    }
    RETURN_IF_ERROR(loaded.kernels->bind(buffers));
    RETURN_IF_ERROR(loaded.kernels->enqueue_prepack());
    RETURN_IF_ERROR(session_->finish());
    return &loaded;
  }

 private:
  absl::Status fill_slot(const Artifact& artifact, Slot* loaded) {
    ASSIGN_OR_RETURN(loaded->program, parse_simt_program(artifact.bytes));
    const SimtProgram& program = loaded->program;
    RETURN_IF_ERROR(check_program_arguments(bench_, program));
    if (program.workspace_bytes > 0) {
      ASSIGN_OR_RETURN(loaded->workspace,
                       session_->allocate(program.workspace_bytes, "the workspace"));
    }
    if (program.packed_bytes > 0) {
      ASSIGN_OR_RETURN(loaded->packed,
                       session_->allocate(program.packed_bytes, "the packed operands"));
    }
    ASSIGN_OR_RETURN(loaded->kernels, Kernels::build(session_.get(), program));
    return absl::OkStatus();
  }

  void unload(int slot) {
    const typename std::map<int, Slot>::iterator it = slots_.find(slot);
    if (it == slots_.end()) return;
    it->second.kernels.reset();
    session_->release(it->second.workspace);
    session_->release(it->second.packed);
    slots_.erase(it);
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

  absl::Status check_intact(Memory memory, int64_t bytes, const std::string& name) {
    if (memory == Memory()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const bool intact, session_->intact(memory, bytes));
    return intact ? absl::OkStatus() : absl::DataLossError(concat("wrote beside ", name));
  }

  // What a kernel must leave as it was.
  absl::Status unspoiled(const Slot& loaded, int set) {
    std::vector<std::byte> now_there;
    for (size_t i = 0; i < bench_.arguments.size(); ++i) {
      const Argument& a = bench_.arguments[i];
      const Memory memory = a.output ? outputs_[i] : inputs_[set][i];
      RETURN_IF_ERROR(check_intact(memory, a.bytes, a.name));
      if (a.output) continue;
      now_there.resize(static_cast<size_t>(a.bytes));
      RETURN_IF_ERROR(session_->read(memory, now_there.data(), a.bytes));
      if (std::memcmp(now_there.data(), data_of(i, set), now_there.size()) != 0) {
        return absl::DataLossError(concat("wrote into ", a.name));
      }
    }
    RETURN_IF_ERROR(
        check_intact(loaded.workspace, loaded.program.workspace_bytes, "the workspace"));
    return check_intact(loaded.packed, loaded.program.packed_bytes, "the packed operands");
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

  Workbench& bench_;
  const std::unique_ptr<Session> session_;
  // By argument; Memory(): none yet, or not that.
  std::vector<Memory> inputs_[kInputSets], outputs_;
  Memory flush_ = Memory();
  std::map<int, Slot> slots_;
  absl::Status failure_ = absl::UnknownError("no call failed");  // of the last sample
};

}  // namespace lw
