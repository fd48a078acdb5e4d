#include "src/measure/simt/opencl_session.h"

#include <unistd.h>

#include <algorithm>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/measure/run/guarded.h"
#include "src/measure/simt/common/device_target.h"

namespace lw {
namespace {

constexpr int64_t kZone = kRoomBehind;     // behind a buffer's bytes
constexpr size_t kMostLog = 1500, kMostBinary = size_t{64} << 20;

int64_t whole_words(int64_t bytes) { return (bytes + 3) / 4 * 4; }

absl::Status too_many_items(const SimtProgram::Launch& launch, size_t most) {
  return absl::ResourceExhaustedError(concat("kernel ", launch.kernel, ": groups of ", launch.items,
                                             " items, for which the device's limit is ", most));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OpenClSession>> OpenClSession::open(const OpenClDevice& device) {
  ASSIGN_OR_RETURN(const cl::Api* api, cl::load_api());
  std::unique_ptr<OpenClSession> session(new OpenClSession(device, api));
  ASSIGN_OR_RETURN(session->id_, open_opencl_device(*api, device));
  cl::Int error = 0;
  session->context_ = api->CreateContext(nullptr, 1, &session->id_, nullptr, nullptr, &error);
  if (error != cl::kSuccess || session->context_ == nullptr) {
    return absl::UnavailableError(concat("clCreateContext: ", cl::error_name(error)));
  }
  session->queue_ = api->CreateCommandQueue(session->context_, session->id_, cl::kQueueProfiling,
                                            &error);
  if (error != cl::kSuccess || session->queue_ == nullptr) {
    return absl::UnavailableError(concat("clCreateCommandQueue: ", cl::error_name(error)));
  }
  return session;
}

OpenClSession::~OpenClSession() {
  if (queue_ != nullptr) api_->ReleaseCommandQueue(queue_);
  if (context_ != nullptr) api_->ReleaseContext(context_);
}

absl::StatusOr<cl::Memory> OpenClSession::allocate(int64_t bytes, const std::string& name) {
  const int64_t most = static_cast<int64_t>(
      std::min({device_.buffer_bytes, device_.memory_bytes, kMostBufferBytes}));
  if (bytes > most - kZone) {
    return absl::ResourceExhaustedError(concat(name, ": ", bytes, " bytes, the device's limit for a "
                                               "buffer is ", most - kZone));
  }
  cl::Int error = 0;
  const size_t size = static_cast<size_t>(whole_words(bytes) + kZone);
  const cl::Memory memory =
      api_->CreateBuffer(context_, cl::kMemReadWrite, size, nullptr, &error);
  if (error == cl::kSuccess && memory != nullptr) return memory;
  const absl::Status status = cl::error_status(error, "clCreateBuffer");
  // Nothing was run yet: what is out is memory.
  return absl::ResourceExhaustedError(concat(name, ": ", bytes, " bytes: ", std::string(status.message())));
}

void OpenClSession::release(cl::Memory memory) {
  if (memory != nullptr) api_->ReleaseMemObject(memory);
}

absl::Status OpenClSession::poison(cl::Memory memory, int64_t bytes, cl::Event* event) {
  const uint32_t word = 0xffffffff;
  return cl::error_status(
      api_->EnqueueFillBuffer(queue_, memory, &word, sizeof word, 0,
                              static_cast<size_t>(whole_words(bytes) + kZone), 0, nullptr, event),
      "clEnqueueFillBuffer");
}

absl::StatusOr<bool> OpenClSession::intact(cl::Memory memory, int64_t bytes) {
  const size_t zone = static_cast<size_t>(whole_words(bytes) + kZone - bytes);
  std::vector<uint8_t> behind(zone);
  RETURN_IF_ERROR(cl::error_status(
      api_->EnqueueReadBuffer(queue_, memory, 1, static_cast<size_t>(bytes), zone, behind.data(), 0,
                              nullptr, nullptr),
      "clEnqueueReadBuffer"));
  return std::all_of(behind.begin(), behind.end(), [](uint8_t byte) { return byte == kPoison; });
}

absl::Status OpenClSession::write(cl::Memory memory, const void* data, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return cl::error_status(
      api_->EnqueueWriteBuffer(queue_, memory, 1, 0, static_cast<size_t>(bytes), data, 0, nullptr,
                               nullptr),
      "clEnqueueWriteBuffer");
}

absl::Status OpenClSession::read(cl::Memory memory, void* data, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return cl::error_status(
      api_->EnqueueReadBuffer(queue_, memory, 1, 0, static_cast<size_t>(bytes), data, 0, nullptr,
                              nullptr),
      "clEnqueueReadBuffer");
}

absl::Status OpenClSession::finish() { return cl::error_status(api_->Finish(queue_), "clFinish"); }

std::string OpenClSession::build_log(cl::Program program) const {
  size_t size = 0;
  api_->GetProgramBuildInfo(program, id_, cl::kProgramBuildLog, 0, nullptr, &size);
  std::string log(std::min(size, size_t{1} << 20), '\0');
  if (log.empty() || api_->GetProgramBuildInfo(program, id_, cl::kProgramBuildLog, log.size(),
                                               log.data(), nullptr) != cl::kSuccess) {
    return "no log";
  }
  log.resize(std::min(log.find('\0'), log.size()));
  return log.substr(0, kMostLog);
}

cl::Program OpenClSession::build_binary(const SimtProgram& program) {
  const SimtProgram::Binary& binary = program.binary;
  if (binary.bytes.empty() || binary.made_for != device_.release()) return nullptr;
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(binary.bytes.data());
  const size_t size = binary.bytes.size();
  cl::Int error = 0, taken = 0;
  const cl::Program built =
      api_->CreateProgramWithBinary(context_, 1, &id_, &size, &bytes, &taken, &error);
  if (built == nullptr) return nullptr;
  if (error == cl::kSuccess && taken == cl::kSuccess &&
      api_->BuildProgram(built, 1, &id_, program.options.c_str(), nullptr, nullptr) ==
          cl::kSuccess) {
    return built;
  }
  api_->ReleaseProgram(built);
  return nullptr;
}

absl::StatusOr<cl::Program> OpenClSession::build(const SimtProgram& source) {
  if (const cl::Program built = build_binary(source); built != nullptr) return built;
  const char* texts[] = {source.source.c_str()};
  const size_t size = source.source.size();
  cl::Int error = 0;
  const cl::Program program =
      api_->CreateProgramWithSource(context_, 1, texts, &size, &error);
  if (error != cl::kSuccess) return cl::error_status(error, "clCreateProgramWithSource");
  error = api_->BuildProgram(program, 1, &id_, source.options.c_str(), nullptr, nullptr);
  if (error == cl::kSuccess) return program;
  const absl::Status status = cl::error_status(error, "clBuildProgram");
  const std::string log = build_log(program);
  api_->ReleaseProgram(program);
  return absl::Status(status.code(), concat(std::string(status.message()), ": ", log));
}

absl::StatusOr<std::unique_ptr<OpenClKernels>> OpenClKernels::build(OpenClSession* session,
                                                                    const SimtProgram& program) {
  const OpenClDevice& device = session->device();
  if (program.local_bytes > static_cast<int64_t>(device.local_bytes)) {
    return absl::ResourceExhaustedError(concat("a group needs ", program.local_bytes,
                                               " bytes of local memory, the device's limit is ",
                                               device.local_bytes));
  }
  for (const auto* launches : {&program.prepack, &program.launches}) {
    for (const SimtProgram::Launch& launch : *launches) {
      if (launch.items <= static_cast<int64_t>(device.group_items)) continue;
      return absl::ResourceExhaustedError(concat("kernel ", launch.kernel, ": groups of ",
                                                 launch.items, " items, the device's limit is ",
                                                 device.group_items));
    }
  }
  std::unique_ptr<OpenClKernels> kernels(new OpenClKernels(session));
  ASSIGN_OR_RETURN(kernels->program_, session->build(program));
  RETURN_IF_ERROR(kernels->make(program.prepack, &kernels->prepack_));
  RETURN_IF_ERROR(kernels->make(program.launches, &kernels->launches_));
  return kernels;
}

OpenClKernels::~OpenClKernels() {
  const cl::Api& api = session_->api();
  for (const std::vector<Launch>* launches : {&prepack_, &launches_}) {
    for (const Launch& launch : *launches) api.ReleaseKernel(launch.kernel);
  }
  if (program_ != nullptr) api.ReleaseProgram(program_);
}

absl::Status OpenClKernels::make(const std::vector<SimtProgram::Launch>& launches,
                                 std::vector<Launch>* made) {
  const cl::Api& api = session_->api();
  for (const SimtProgram::Launch& what : launches) {
    cl::Int error = 0;
    const cl::KernelId kernel = api.CreateKernel(program_, what.kernel.c_str(), &error);
    if (error != cl::kSuccess) {
      const absl::Status status = cl::error_status(error, "clCreateKernel");
      return absl::Status(status.code(), concat("kernel ", what.kernel, ": ",
                                                 std::string(status.message())));
    }
    made->push_back({what, kernel});
    // Of what it uses of registers and local memory a group of this kernel may be smaller yet.
    size_t most = 0, compiled[3] = {};
    uint64_t local = 0;
    const size_t items = static_cast<size_t>(what.items);
    if (api.GetKernelWorkGroupInfo(kernel, session_->id_, cl::kKernelWorkGroupSize, sizeof most,
                                   &most, nullptr) == cl::kSuccess &&
        most > 0 && items > most) {
      const bool accepted =
          api.GetKernelWorkGroupInfo(kernel, session_->id_, cl::kKernelCompileWorkGroupSize,
                                     sizeof compiled, compiled, nullptr) == cl::kSuccess &&
          compiled[0] == items;
      if (!accepted) return too_many_items(what, most);
      made->back().doubted = most;
    }
    if (api.GetKernelWorkGroupInfo(kernel, session_->id_, cl::kKernelLocalMemSize, sizeof local,
                                   &local, nullptr) == cl::kSuccess &&
        local > session_->device().local_bytes) {
      return absl::ResourceExhaustedError(concat("kernel ", what.kernel, " needs ", local,
                                                 " bytes of local memory, the device's limit is ",
                                                 session_->device().local_bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status OpenClKernels::bind(const Buffers& buffers) {
  RETURN_IF_ERROR(bind(prepack_, buffers));
  return bind(launches_, buffers);
}

absl::Status OpenClKernels::bind(const std::vector<Launch>& launches, const Buffers& buffers) {
  using Kind = SimtProgram::Parameter::Kind;
  for (const Launch& launch : launches) {
    for (size_t i = 0; i < launch.what.parameters.size(); ++i) {
      const SimtProgram::Parameter& p = launch.what.parameters[i];
      const cl::Memory memory = p.kind == Kind::kWorkspace ? buffers.workspace
                                : p.kind == Kind::kPacked  ? buffers.packed
                                : buffers.arguments[static_cast<size_t>(p.slot)];
      if (memory == nullptr) {
        return absl::InvalidArgumentError(concat("kernel ", launch.what.kernel, ": parameter ", i,
                                                 " has no bytes"));
      }
      RETURN_IF_ERROR(cl::error_status(
          session_->api().SetKernelArg(launch.kernel, static_cast<cl::Uint>(i), sizeof memory,
                                       &memory),
          "clSetKernelArg"));
    }
  }
  return absl::OkStatus();
}

absl::Status OpenClKernels::enqueue(const Launch& launch, cl::Event* event) {
  return enqueue(launch, launch.what.groups, event);
}

absl::Status OpenClKernels::enqueue(const Launch& launch, int64_t groups, cl::Event* event) {
  const size_t items = static_cast<size_t>(launch.what.items);
  const size_t all = static_cast<size_t>(groups) * items;
  const cl::Int error = session_->api().EnqueueNDRangeKernel(
      session_->queue(), launch.kernel, 1, nullptr, &all, &items, 0, nullptr, event);
  if (error == cl::kSuccess) return absl::OkStatus();
  if (launch.doubted > 0) return too_many_items(launch.what, launch.doubted);
  const absl::Status status = cl::error_status(error, "clEnqueueNDRangeKernel");
  return absl::Status(status.code(), concat("kernel ", launch.what.kernel, ": ",
                                            std::string(status.message())));
}

absl::Status OpenClKernels::enqueue(cl::Event* first, cl::Event* last) {
  for (size_t i = 0; i < launches_.size(); ++i) {
    const bool ends = i + 1 == launches_.size();
    // One launch alone is the last too: its event tells the beginning as well.
    cl::Event* const event = ends && last != nullptr ? last : i == 0 ? first : nullptr;
    RETURN_IF_ERROR(enqueue(launches_[i], event));
  }
  return absl::OkStatus();
}

absl::Status OpenClKernels::enqueue_prepack() {
  for (const Launch& launch : prepack_) RETURN_IF_ERROR(enqueue(launch, nullptr));
  return absl::OkStatus();
}

absl::Status OpenClKernels::begin() {
  cl::Event last = nullptr;
  RETURN_IF_ERROR(enqueue(nullptr, &last));
  return await(last, 0);
}

absl::Status OpenClKernels::run_groups(int64_t small_grid, double limit_s) {
  for (const std::vector<Launch>* launches : {&prepack_, &launches_}) {
    for (const Launch& launch : *launches) {
      const int64_t groups = launch.what.groups, items = launch.what.items;
      cl::Event event = nullptr;
      RETURN_IF_ERROR(enqueue(launch, groups * items > small_grid ? small_grid / items + 1 : 1,
                              &event));
      RETURN_IF_ERROR(await(event, limit_s));
    }
  }
  return session_->finish();
}

absl::Status OpenClKernels::await(cl::Event event, double running_s) const {
  constexpr useconds_t kLookEvery_us = 500;
  const cl::Api& api = session_->api();
  absl::Status status = cl::error_status(api.Flush(session_->queue()), "clFlush");
  double began = 0;
  while (status.ok()) {
    cl::Int state = cl::kComplete;
    status = cl::error_status(api.GetEventInfo(event, cl::kEventExecutionStatus, sizeof state,
                                               &state, nullptr), "clGetEventInfo");
    if (status.ok() && state < cl::kComplete) status = cl::error_status(state, "the kernel");
    if (!status.ok() || state == cl::kComplete) break;
    if (state == cl::kRunning) {
      if (began == 0) began = now();
      if (running_s <= 0) break;
      if (now() - began > running_s) status = absl::DeadlineExceededError("it runs too long");
    }
    usleep(kLookEvery_us);
  }
  api.ReleaseEvent(event);
  return status;
}

absl::StatusOr<std::string> OpenClKernels::binary() const {
  const cl::Api& api = session_->api();
  size_t size = 0;
  RETURN_IF_ERROR(cl::error_status(
      api.GetProgramInfo(program_, cl::kProgramBinarySizes, sizeof size, &size, nullptr),
      "clGetProgramInfo"));
  if (size == 0 || size > kMostBinary) return absl::NotFoundError("no binary");
  std::string bytes(size, '\0');
  unsigned char* where = reinterpret_cast<unsigned char*>(bytes.data());
  RETURN_IF_ERROR(cl::error_status(
      api.GetProgramInfo(program_, cl::kProgramBinaries, sizeof where, &where, nullptr),
      "clGetProgramInfo"));
  return bytes;
}

}  // namespace lw
