// A driver at work in this process: a context, a queue in order, programs, buffers with zones beside
// them in which a write is noticed. What it throws away is gone when its owner is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/simt/program.h"
#include "src/measure/simt/opencl_api.h"
#include "src/measure/simt/opencl_devices.h"

namespace lw {

class OpenClKernels;

class OpenClSession {
 public:
  // What KernelDevice and KernelCall know drivers by.
  using Memory = cl::Memory;
  using Kernels = OpenClKernels;
  static constexpr std::string_view kArchitecture = kOpenClArchitecture;

  static absl::StatusOr<std::unique_ptr<OpenClSession>> open(const OpenClDevice& device);
  ~OpenClSession();
  OpenClSession(const OpenClSession&) = delete;

  const OpenClDevice& device() const { return device_; }
  const cl::Api& api() const { return *api_; }
  cl::Queue queue() const { return queue_; }

  // A buffer of so many bytes and a zone behind them. `name` is what messages call it.
  // kResourceExhausted: the device has not so much.
  absl::StatusOr<cl::Memory> allocate(int64_t bytes, const std::string& name);
  void release(cl::Memory memory);
  // All of it, with its zone, as bytes 0xff: NaN in every float type. `event`: where not null, the
  // command's, the caller's to release.
  absl::Status poison(cl::Memory memory, int64_t bytes, cl::Event* event = nullptr);
  // Whether what lies behind its bytes still is.
  absl::StatusOr<bool> intact(cl::Memory memory, int64_t bytes);
  absl::Status write(cl::Memory memory, const void* data, int64_t bytes);
  absl::Status read(cl::Memory memory, void* data, int64_t bytes);
  absl::Status finish();

  // Of its binary where this device takes it, else of its source. kInvalidArgument has the build
  // log's first lines.
  absl::StatusOr<cl::Program> build(const SimtProgram& program);

 private:
  OpenClSession(const OpenClDevice& device, const cl::Api* api) : device_(device), api_(api) {}
  cl::Program build_binary(const SimtProgram& program);  // null: it is not taken
  std::string build_log(cl::Program program) const;

  const OpenClDevice device_;
  const cl::Api* const api_;
  cl::DeviceId id_ = nullptr;
  cl::Context context_ = nullptr;
  cl::Queue queue_ = nullptr;

  friend class OpenClKernels;
};

// A built program: its launches, with their parameters set. Outlived by the session.
class OpenClKernels {
 public:
  // Errors also say which limit of the device a launch exceeds.
  static absl::StatusOr<std::unique_ptr<OpenClKernels>> build(OpenClSession* session,
                                                              const SimtProgram& program);
  ~OpenClKernels();
  OpenClKernels(const OpenClKernels&) = delete;

  // Which memory is which parameter, from now on.
  struct Buffers {
    std::vector<cl::Memory> arguments;
    cl::Memory workspace = nullptr, packed = nullptr;
  };
  absl::Status bind(const Buffers& buffers);
  // The launches of a call behind what is in the queue; `first` and `last`, where not null, are the
  // events of its first and last kernel, the caller's to release.
  absl::Status enqueue(cl::Event* first = nullptr, cl::Event* last = nullptr);
  absl::Status enqueue_prepack();
  // A call, of which nothing is waited for but that its last kernel has begun: by then the driver has
  // compiled whatever it compiles when a kernel is first run.
  absl::Status begin();
  // The prepack and a call, of each launch one group alone, or so many that it has more items than
  // `small_grid` where it has. kDeadlineExceeded: the groups of one launch run for longer than
  // `limit_s`, and still do; the time until they begin is not counted.
  absl::Status run_groups(int64_t small_grid, double limit_s);
  // What the driver has compiled. Errors: it says nothing of that.
  absl::StatusOr<std::string> binary() const;

 private:
  struct Launch {
    SimtProgram::Launch what;
    cl::KernelId kernel = nullptr;
    // Of a group as the driver says, where that is less and the kernel was still compiled for its
    // size: NVIDIA's says 256 of many that then run. 0: nothing to doubt.
    size_t doubted = 0;
  };
  explicit OpenClKernels(OpenClSession* session) : session_(session) {}
  absl::Status make(const std::vector<SimtProgram::Launch>& launches,
                    std::vector<Launch>* made);
  absl::Status bind(const std::vector<Launch>& launches, const Buffers& buffers);
  absl::Status enqueue(const Launch& launch, cl::Event* event);
  absl::Status enqueue(const Launch& launch, int64_t groups, cl::Event* event);
  // Until the event's command has begun, and then at most so long until it is complete.
  absl::Status await(cl::Event event, double running_s) const;

  OpenClSession* const session_;
  cl::Program program_ = nullptr;
  std::vector<Launch> prepack_, launches_;
};

}  // namespace lw
