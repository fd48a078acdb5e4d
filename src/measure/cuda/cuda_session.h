// NVIDIA's driver at work in this process: the device's context, a queue in order, modules, buffers
// with zones around them in which a write is noticed. What it throws away is gone when its owner
// is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/build/simt/program.h"
#include "src/measure/cuda/cuda_api.h"
#include "src/measure/cuda/cuda_tensor_map.h"
#include "src/measure/cuda/cuda_devices.h"

namespace lw {

class CudaKernels;

// Statuses of errors are cu::error_status's. Thread-compatible: any thread may call it, one at a
// time.
class CudaSession {
 public:
  // What KernelDevice and KernelCall know drivers by.
  using Memory = cu::Pointer;              // of a buffer's first byte
  using Kernels = CudaKernels;
  static constexpr std::string_view kArchitecture = kNvidiaArchitecture;

  static absl::StatusOr<std::unique_ptr<CudaSession>> open(const CudaDevice& device);
  ~CudaSession();
  CudaSession(const CudaSession&) = delete;

  const CudaDevice& device() const { return device_; }
  // For calls in its context, which becomes this thread's.
  const cu::Api& api() const;
  cu::Stream queue() const { return queue_; }

  // A buffer of so many bytes between two zones, at a multiple of 256. `name` is what messages call
  // it. kResourceExhausted: the device has not so much.
  absl::StatusOr<Memory> allocate(int64_t bytes, const std::string& name);
  void release(Memory memory);
  // All of it, with its zones, as bytes 0xff: NaN in every float type.
  absl::Status poison(Memory memory, int64_t bytes);
  // Whether what lies beside its bytes still is.
  absl::StatusOr<bool> intact(Memory memory, int64_t bytes);
  absl::Status write(Memory memory, const void* data, int64_t bytes);
  absl::Status read(Memory memory, void* data, int64_t bytes);
  absl::Status finish();

  // Seconds, by the device's clock, that it takes what `enqueue` puts behind what is in the queue;
  // that much is done when this returns.
  absl::StatusOr<double> time(absl::FunctionRef<absl::Status()> enqueue);

  // Of its cubin where this device takes it, else of its PTX, which the driver compiles.
  // kInvalidArgument: the device does not run such code, or the driver's log.
  absl::StatusOr<cu::Module> build(const SimtProgram& program);

 private:
  CudaSession(const CudaDevice& device, const cu::Api* api) : device_(device), api_(api) {}
  absl::StatusOr<cu::Module> compile(const SimtProgram& program);

  const CudaDevice device_;
  const cu::Api* const api_;
  cu::DeviceId id_ = 0;
  bool retained_ = false;
  cu::Context context_ = nullptr;
  cu::Stream queue_ = nullptr;
  cu::Event begin_ = nullptr, end_ = nullptr;
  Memory spacer_ = 0;
};

// A loaded program: its launches, with their parameters set. Outlived by the session.
class CudaKernels {
 public:
  // Errors also say which limit of the device a launch exceeds.
  static absl::StatusOr<std::unique_ptr<CudaKernels>> build(CudaSession* session,
                                                            const SimtProgram& program);
  ~CudaKernels();
  CudaKernels(const CudaKernels&) = delete;

  // Which memory is which parameter, from now on.
  struct Buffers {
    std::vector<cu::Pointer> arguments;
    cu::Pointer workspace = 0, packed = 0;
  };
  absl::Status bind(const Buffers& buffers);
  // The launches of a call behind what is in the queue.
  absl::Status enqueue();
  absl::Status enqueue_prepack();
  // Microseconds of one of so many calls, one after the other. Short ones are launched by a graph,
  // since the host may take longer over a launch than the device, and then they are as many as
  // whole graphs have.
  absl::StatusOr<double> time_calls(int64_t calls);

 private:
  struct Launch {
    SimtProgram::Launch what;
    cu::Function function = nullptr;
    std::vector<cu::Pointer> values;       // of parameters; of maps, whose tensors'
    std::vector<cu::TensorMapBytes> maps;  // by parameter
  };
  explicit CudaKernels(CudaSession* session) : session_(session) {}
  absl::Status make(const std::vector<SimtProgram::Launch>& launches, std::vector<Launch>* made);
  absl::Status check_function(const Launch& launch);
  absl::Status bind(std::vector<Launch>* launches, const Buffers& buffers);
  absl::Status enqueue(const std::vector<Launch>& launches);
  absl::Status capture(int64_t calls);
  void drop_graph();

  CudaSession* const session_;
  cu::Module module_ = nullptr;
  std::vector<Launch> prepack_, launches_;
  cu::GraphExec graph_ = nullptr;
  int64_t graph_calls_ = 0;
  double call_us_ = 0;                     // that one took when last timed; 0: not yet
};

}  // namespace lw
