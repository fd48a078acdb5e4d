// A driver at work in this process: a context, a queue in order, programs, buffers with zones beside
// them in which a write is noticed. What it throws away is gone when its owner is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/simt/program.h"
#include "src/measure/simt/opencl_api.h"
#include "src/measure/simt/opencl_devices.h"

namespace lw {

class OpenClSession {
 public:
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
  // All of it, with its zone, as bytes 0xff: NaN in every float type.
  absl::Status poison(cl::Memory memory, int64_t bytes);
  // Whether what lies behind its bytes still is.
  absl::StatusOr<bool> intact(cl::Memory memory, int64_t bytes);
  absl::Status write(cl::Memory memory, const void* data, int64_t bytes);
  absl::Status read(cl::Memory memory, void* data, int64_t bytes);
  absl::Status finish();

  // kInvalidArgument has the build log's first lines.
  absl::StatusOr<cl::Program> build(const std::string& source, const std::string& options);

 private:
  OpenClSession(const OpenClDevice& device, const cl::Api* api) : device_(device), api_(api) {}
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
                                                              const OpenClProgram& program);
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

 private:
  struct Launch {
    OpenClProgram::Launch what;
    cl::KernelId kernel = nullptr;
  };
  explicit OpenClKernels(OpenClSession* session) : session_(session) {}
  absl::Status make(const std::vector<OpenClProgram::Launch>& launches,
                    std::vector<Launch>* made);
  absl::Status bind(const std::vector<Launch>& launches, const Buffers& buffers);
  absl::Status enqueue(const Launch& launch, cl::Event* event);

  OpenClSession* const session_;
  cl::Program program_ = nullptr;
  std::vector<Launch> prepack_, launches_;
};

}  // namespace lw
