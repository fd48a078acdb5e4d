#include "src/measure/cuda/cuda_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/measure/run/guarded.h"
#include "src/measure/simt/common/device_target.h"

namespace lw {
namespace {

constexpr int64_t kCudaZone = int64_t{64} << 10;    // before a buffer's bytes, and behind them
constexpr size_t kMostJitLog = 1500;
// What the device is kept busy with while what is timed is put into the queue: it would wait for
// the host between the event and the first kernel. Four of these take it some 8 us.
constexpr int64_t kSpacerBytes = int64_t{64} << 10;
constexpr int kSpacers = 4;
// Events resolve half a microsecond, and a host takes some 2 us a launch: calls below the first are
// launched by graphs that take at least the second, and are made for the third, since calls turn
// out to be shorter than the first of them.
constexpr double kShortCall_us = 50, kLeastGraph_us = 200, kGraph_us = 300;
constexpr int64_t kMostGraphLaunches = 2000;
constexpr double kOverHost = 1.02;         // of the host's time that a device's may be
// Shared memory that a block has without asking.
constexpr int64_t kSharedUnasked = 48 << 10;

absl::Status of_kernel(const std::string& kernel, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      concat("kernel ", kernel, ": ", std::string(status.message())));
}

absl::Status exceeds(const SimtProgram::Launch& launch, const std::string& what, int64_t most) {
  return absl::ResourceExhaustedError(
      concat("kernel ", launch.kernel, ": ", what, ", the device's limit is ", most));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaSession>> CudaSession::open(const CudaDevice& device) {
  ASSIGN_OR_RETURN(const cu::Api* api, cu::load_api());
  std::unique_ptr<CudaSession> session(new CudaSession(device, api));
  ASSIGN_OR_RETURN(session->id_, open_cuda_device(*api, device));
  // Whatever fails here, no kernel has run: it is the device's failure.
  const auto check = [&](cu::Result result, const char* call) -> absl::Status {
    if (result == cu::kSuccess) return absl::OkStatus();
    return absl::UnavailableError(concat("CUDA device '", device.name, "' cannot be opened: ", call,
                                         ": ", cu::error_name(result)));
  };
  RETURN_IF_ERROR(check(api->DevicePrimaryCtxRetain(&session->context_, session->id_),
                        "cuDevicePrimaryCtxRetain"));
  session->retained_ = true;
  RETURN_IF_ERROR(check(api->CtxSetCurrent(session->context_), "cuCtxSetCurrent"));
  RETURN_IF_ERROR(
      check(api->StreamCreate(&session->queue_, cu::kStreamNonBlocking), "cuStreamCreate"));
  for (cu::Event* event : {&session->begin_, &session->end_}) {
    RETURN_IF_ERROR(check(api->EventCreate(event, cu::kEventDefault), "cuEventCreate"));
  }
  RETURN_IF_ERROR(check(api->MemAlloc(&session->spacer_, kSpacerBytes), "cuMemAlloc"));
  return session;
}

CudaSession::~CudaSession() {
  if (!retained_) return;
  const cu::Api& a = api();
  if (spacer_ != 0) a.MemFree(spacer_);
  for (const cu::Event event : {begin_, end_}) {
    if (event != nullptr) a.EventDestroy(event);
  }
  if (queue_ != nullptr) a.StreamDestroy(queue_);
  a.CtxSetCurrent(nullptr);
  a.DevicePrimaryCtxRelease(id_);
}

// (What is wrong with it the call itself will say.)
const cu::Api& CudaSession::api() const {
  (void)api_->CtxSetCurrent(context_);
  return *api_;
}

absl::StatusOr<cu::Pointer> CudaSession::allocate(int64_t bytes, const std::string& name) {
  const int64_t most = std::min(static_cast<int64_t>(kMostBufferBytes),
                                static_cast<int64_t>(device_.memory_bytes) - 2 * kCudaZone);
  if (bytes > most) {
    return absl::ResourceExhaustedError(
        concat(name, ": ", bytes, " bytes, the device's limit for a buffer is ", most));
  }
  cu::Pointer base = 0;
  const cu::Result result = api().MemAlloc(&base, static_cast<size_t>(bytes + 2 * kCudaZone));
  if (result == cu::kSuccess) return base + kCudaZone;
  const absl::Status status = cu::error_status(result, "cuMemAlloc");
  return absl::Status(status.code(),
                      concat(name, ": ", bytes, " bytes: ", std::string(status.message())));
}

void CudaSession::release(cu::Pointer memory) {
  if (memory != 0) (void)api().MemFree(memory - kCudaZone);
}

absl::Status CudaSession::poison(cu::Pointer memory, int64_t bytes) {
  return cu::error_status(api().MemsetD8Async(memory - kCudaZone, kPoison,
                                              static_cast<size_t>(bytes + 2 * kCudaZone), queue_),
                          "cuMemsetD8Async");
}

absl::StatusOr<bool> CudaSession::intact(cu::Pointer memory, int64_t bytes) {
  std::vector<uint8_t> zone(kCudaZone);
  for (const cu::Pointer at : {memory - kCudaZone, memory + static_cast<uint64_t>(bytes)}) {
    RETURN_IF_ERROR(read(at, zone.data(), kCudaZone));
    if (!std::all_of(zone.begin(), zone.end(), [](uint8_t byte) { return byte == kPoison; })) {
      return false;
    }
  }
  return true;
}

absl::Status CudaSession::write(cu::Pointer memory, const void* data, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(cu::error_status(
      api().MemcpyHtoDAsync(memory, data, static_cast<size_t>(bytes), queue_), "cuMemcpyHtoD"));
  return finish();
}

absl::Status CudaSession::read(cu::Pointer memory, void* data, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  RETURN_IF_ERROR(cu::error_status(
      api().MemcpyDtoHAsync(data, memory, static_cast<size_t>(bytes), queue_), "cuMemcpyDtoH"));
  return finish();
}

absl::Status CudaSession::finish() {
  return cu::error_status(api().StreamSynchronize(queue_), "cuStreamSynchronize");
}

absl::StatusOr<double> CudaSession::time(absl::FunctionRef<absl::Status()> enqueue) {
  const cu::Api& a = api();
  const double start_s = now();
  for (int i = 0; i < kSpacers; ++i) {
    RETURN_IF_ERROR(cu::error_status(a.MemsetD8Async(spacer_, 0, kSpacerBytes, queue_),
                                     "cuMemsetD8Async"));
  }
  RETURN_IF_ERROR(cu::error_status(a.EventRecord(begin_, queue_), "cuEventRecord"));
  RETURN_IF_ERROR(enqueue());
  RETURN_IF_ERROR(cu::error_status(a.EventRecord(end_, queue_), "cuEventRecord"));
  RETURN_IF_ERROR(finish());
  const double host_s = now() - start_s;
  float ms = 0;
  RETURN_IF_ERROR(cu::error_status(a.EventElapsedTime(&ms, begin_, end_), "cuEventElapsedTime"));
  const double device_s = static_cast<double>(ms) * 1e-3;
  // The host's adds the way to the device and back: what is longer, or nothing, is no time.
  const bool sense = std::isfinite(device_s) && device_s > 0 && device_s <= kOverHost * host_s;
  return sense ? std::min(device_s, host_s) : host_s;
}

absl::StatusOr<cu::Module> CudaSession::build(const SimtProgram& program) {
  const SimtProgram::Binary& binary = program.binary;
  const std::string made_for = binary.made_for.substr(0, binary.made_for.find(' '));
  if (binary.bytes.empty() || !device_.runs_binary(made_for)) return compile(program);
  cu::Module module = nullptr;
  const cu::Result result =
      api().ModuleLoadDataEx(&module, binary.bytes.data(), 0, nullptr, nullptr);
  if (result == cu::kSuccess) return module;
  const absl::Status refused = cu::error_status(result, "cuModuleLoadData");
  if (!absl::IsInvalidArgument(refused)) return refused;
  // One of a later ptxas than the driver knows, say.
  absl::StatusOr<cu::Module> compiled = compile(program);
  if (compiled.ok()) return compiled;
  return absl::Status(compiled.status().code(),
                      concat(std::string(compiled.status().message()), " (and of the binary, '",
                             binary.made_for, "': ", std::string(refused.message()), ")"));
}

absl::StatusOr<cu::Module> CudaSession::compile(const SimtProgram& program) {
  if (!device_.runs_ptx(program.options)) {
    return absl::InvalidArgumentError(concat("kernels for '", program.options,
                                             "' do not run on compute capability ",
                                             device_.capability(), " (", device_.name, ")"));
  }
  std::string log(size_t{1} << 16, '\0');
  int options[] = {cu::kJitErrorLog, cu::kJitErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  cu::Module module = nullptr;
  const cu::Result result =
      api().ModuleLoadDataEx(&module, program.source.c_str(), 2, options, values);
  if (result == cu::kSuccess) return module;
  const absl::Status status = cu::error_status(result, "cuModuleLoadData");
  log.resize(std::min(log.find('\0'), kMostJitLog));
  if (log.empty()) log = "no log";
  return absl::Status(status.code(), concat(std::string(status.message()), ": ", log));
}

absl::StatusOr<std::unique_ptr<CudaKernels>> CudaKernels::build(CudaSession* session,
                                                                const SimtProgram& program) {
  const CudaDevice& device = session->device();
  for (const auto* launches : {&program.prepack, &program.launches}) {
    for (const SimtProgram::Launch& launch : *launches) {
      if (launch.items > static_cast<int64_t>(device.group_items)) {
        return exceeds(launch, concat("blocks of ", launch.items, " threads"),
                       static_cast<int64_t>(device.group_items));
      }
      if (launch.local_bytes > static_cast<int64_t>(device.shared_bytes)) {
        return exceeds(launch, concat(launch.local_bytes, " bytes of shared memory of a block"),
                       static_cast<int64_t>(device.shared_bytes));
      }
      if (launch.groups > static_cast<int64_t>(device.grid_groups)) {
        return exceeds(launch, concat("a grid of ", launch.groups, " blocks"),
                       static_cast<int64_t>(device.grid_groups));
      }
    }
  }
  std::unique_ptr<CudaKernels> kernels(new CudaKernels(session));
  ASSIGN_OR_RETURN(kernels->module_, session->build(program));
  RETURN_IF_ERROR(kernels->make(program.prepack, &kernels->prepack_));
  RETURN_IF_ERROR(kernels->make(program.launches, &kernels->launches_));
  return kernels;
}

CudaKernels::~CudaKernels() {
  drop_graph();
  if (module_ != nullptr) (void)session_->api().ModuleUnload(module_);
}

absl::Status CudaKernels::make(const std::vector<SimtProgram::Launch>& launches,
                               std::vector<Launch>* made) {
  for (const SimtProgram::Launch& what : launches) {
    Launch& launch = made->emplace_back();
    launch.what = what;
    RETURN_IF_ERROR(of_kernel(
        what.kernel,
        cu::error_status(
            session_->api().ModuleGetFunction(&launch.function, module_, what.kernel.c_str()),
            "cuModuleGetFunction")));
    RETURN_IF_ERROR(of_kernel(what.kernel, check_function(launch)));
  }
  return absl::OkStatus();
}

// What it uses of registers and shared memory may leave a block smaller yet.
absl::Status CudaKernels::check_function(const Launch& launch) {
  const cu::Api& api = session_->api();
  const auto attribute = [&](int which) {
    int value = 0;
    return api.FuncGetAttribute(&value, which, launch.function) == cu::kSuccess ? value : 0;
  };
  const int most = attribute(cu::kFunctionMaxThreads);
  if (most > 0 && launch.what.items > most) {
    return absl::ResourceExhaustedError(concat("blocks of ", launch.what.items,
                                               " threads, for which its registers leave ", most));
  }
  const int64_t own = attribute(cu::kFunctionSharedBytes);
  const int64_t limit = static_cast<int64_t>(session_->device().shared_bytes);
  if (own + launch.what.local_bytes > limit) {
    return absl::ResourceExhaustedError(concat(own + launch.what.local_bytes,
                                               " bytes of shared memory of a block, the device's "
                                               "limit is ", limit));
  }
  if (own + launch.what.local_bytes <= kSharedUnasked) return absl::OkStatus();
  return cu::error_status(api.FuncSetAttribute(launch.function, cu::kFunctionMaxDynamicShared,
                                               static_cast<int>(launch.what.local_bytes)),
                          "cuFuncSetAttribute");
}

absl::Status CudaKernels::bind(const Buffers& buffers) {
  drop_graph();                            // which has the parameters of before
  RETURN_IF_ERROR(bind(&prepack_, buffers));
  return bind(&launches_, buffers);
}

absl::Status CudaKernels::bind(std::vector<Launch>* launches, const Buffers& buffers) {
  using Kind = SimtProgram::Parameter::Kind;
  for (Launch& launch : *launches) {
    launch.values.clear();
    launch.maps.assign(launch.what.parameters.size(), {});
    for (const SimtProgram::Parameter& p : launch.what.parameters) {
      const cu::Pointer memory = p.kind == Kind::kWorkspace ? buffers.workspace
                                 : p.kind == Kind::kPacked
                                     ? buffers.packed
                                     : buffers.arguments[static_cast<size_t>(p.slot)];
      if (memory == 0) {
        return absl::InvalidArgumentError(concat("kernel ", launch.what.kernel, ": parameter ",
                                                 launch.values.size(), " has no bytes"));
      }
      if (p.map.has_value()) {
        RETURN_IF_ERROR(of_kernel(launch.what.kernel,
                                  cu::make_tensor_map(session_->api(), *p.map, memory,
                                                      &launch.maps[launch.values.size()])));
      }
      launch.values.push_back(memory);
    }
  }
  return absl::OkStatus();
}

absl::Status CudaKernels::enqueue(const std::vector<Launch>& launches) {
  const cu::Api& api = session_->api();
  for (const Launch& launch : launches) {
    std::vector<void*> parameters;
    for (size_t i = 0; i < launch.values.size(); ++i) {
      const void* const value = launch.what.parameters[i].map.has_value()
                                    ? static_cast<const void*>(&launch.maps[i])
                                    : &launch.values[i];
      parameters.push_back(const_cast<void*>(value));
    }
    parameters.push_back(nullptr);         // (where drivers do not look)
    const SimtProgram::Launch& what = launch.what;
    RETURN_IF_ERROR(of_kernel(
        what.kernel,
        cu::error_status(
            api.LaunchKernel(launch.function, static_cast<unsigned>(what.groups), 1, 1,
                             static_cast<unsigned>(what.items), 1, 1,
                             static_cast<unsigned>(what.local_bytes), session_->queue(),
                             parameters.data(), nullptr),
            "cuLaunchKernel")));
  }
  return absl::OkStatus();
}

absl::Status CudaKernels::enqueue() { return enqueue(launches_); }
absl::Status CudaKernels::enqueue_prepack() { return enqueue(prepack_); }

void CudaKernels::drop_graph() {
  if (graph_ != nullptr) (void)session_->api().GraphExecDestroy(graph_);
  graph_ = nullptr;
  graph_calls_ = 0;
}

absl::Status CudaKernels::capture(int64_t calls) {
  drop_graph();
  const cu::Api& api = session_->api();
  const cu::Stream queue = session_->queue();
  RETURN_IF_ERROR(cu::error_status(api.StreamBeginCapture(queue, cu::kCaptureThreadLocal),
                                   "cuStreamBeginCapture"));
  absl::Status status = absl::OkStatus();
  for (int64_t i = 0; i < calls && status.ok(); ++i) status = enqueue();
  cu::Graph graph = nullptr;
  status.Update(cu::error_status(api.StreamEndCapture(queue, &graph), "cuStreamEndCapture"));
  if (status.ok()) {
    status = cu::error_status(api.GraphInstantiate(&graph_, graph, 0), "cuGraphInstantiate");
  }
  if (graph != nullptr) (void)api.GraphDestroy(graph);
  RETURN_IF_ERROR(status);
  graph_calls_ = calls;
  // The first launch carries it there.
  RETURN_IF_ERROR(cu::error_status(api.GraphLaunch(graph_, queue), "cuGraphLaunch"));
  return session_->finish();
}

absl::StatusOr<double> CudaKernels::time_calls(int64_t calls) {
  const bool by_graph = calls > 1 && call_us_ > 0 && call_us_ < kShortCall_us;
  if (by_graph) {
    const int64_t most = std::max<int64_t>(
        1, kMostGraphLaunches / std::max<int64_t>(1, static_cast<int64_t>(launches_.size())));
    const bool lasts = static_cast<double>(graph_calls_) * call_us_ >= kLeastGraph_us;
    const int64_t wanted =
        std::clamp(static_cast<int64_t>(std::ceil(kGraph_us / call_us_)), int64_t{1}, most);
    if (graph_calls_ < wanted && !lasts) RETURN_IF_ERROR(capture(wanted));
  }
  const int64_t graphs = by_graph ? (calls + graph_calls_ - 1) / graph_calls_ : 0;
  ASSIGN_OR_RETURN(const double s, session_->time([&]() -> absl::Status {
    const cu::Api& api = session_->api();
    for (int64_t i = 0; i < graphs; ++i) {
      RETURN_IF_ERROR(
          cu::error_status(api.GraphLaunch(graph_, session_->queue()), "cuGraphLaunch"));
    }
    for (int64_t i = 0; i < calls && !by_graph; ++i) RETURN_IF_ERROR(enqueue());
    return absl::OkStatus();
  }));
  call_us_ = s * 1e6 / static_cast<double>(by_graph ? graphs * graph_calls_ : calls);
  return call_us_;
}

}  // namespace lw
