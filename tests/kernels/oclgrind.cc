#include "tests/kernels/oclgrind.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/simt/opencl_api.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

namespace lw {
namespace {

namespace fs = std::filesystem;

constexpr char kSimulator[] = "/usr/lib/oclgrind/liboclgrind-rt.so";

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// The process in which the simulator is. Buffers have as many bytes as the program says, and begin
// with bytes 0xff: NaN in every float type.
class Simulator {
 public:
  explicit Simulator(const cl::Api& api) : api_(api) {}

  absl::Status open() {
    cl::Platform platform = nullptr;
    cl::Int error = api_.GetPlatformIDs(1, &platform, nullptr);
    if (error == cl::kSuccess) {
      error = api_.GetDeviceIDs(platform, cl::kDeviceTypeAll, 1, &device_, nullptr);
    }
    if (error != cl::kSuccess) return cl::error_status(error, "clGetDeviceIDs");
    context_ = api_.CreateContext(nullptr, 1, &device_, nullptr, nullptr, &error);
    if (error != cl::kSuccess) return cl::error_status(error, "clCreateContext");
    queue_ = api_.CreateCommandQueue(context_, device_, 0, &error);
    return cl::error_status(error, "clCreateCommandQueue");
  }

  ~Simulator() {
    for (const cl::Memory memory : all_) api_.ReleaseMemObject(memory);
    if (program_ != nullptr) api_.ReleaseProgram(program_);
    if (queue_ != nullptr) api_.ReleaseCommandQueue(queue_);
    if (context_ != nullptr) api_.ReleaseContext(context_);
  }

  // `in`: the inputs one after the other; the answer is the same of the outputs.
  absl::StatusOr<std::string> run(const SimtProgram& code, const std::string& in) {
    RETURN_IF_ERROR(build(code));
    std::vector<cl::Memory> arguments;
    size_t begin = 0;
    for (const SimtProgram::Argument& argument : code.arguments) {
      std::string bytes(static_cast<size_t>(argument.bytes), '\xff');
      if (!argument.written) {
        bytes = in.substr(begin, bytes.size());
        begin += bytes.size();
      }
      ASSIGN_OR_RETURN(const cl::Memory memory, buffer(bytes));
      arguments.push_back(memory);
    }
    cl::Memory workspace = nullptr, packed = nullptr;
    const auto filled = [](int64_t bytes) {
      return std::string(static_cast<size_t>(bytes), '\xff');
    };
    if (code.workspace_bytes > 0) {
      ASSIGN_OR_RETURN(workspace, buffer(filled(code.workspace_bytes)));
    }
    if (code.packed_bytes > 0) {
      ASSIGN_OR_RETURN(packed, buffer(filled(code.packed_bytes)));
    }
    for (const auto* launches : {&code.prepack, &code.launches}) {
      for (const SimtProgram::Launch& launch : *launches) {
        RETURN_IF_ERROR(run(launch, arguments, workspace, packed));
      }
    }
    std::string out;
    for (size_t a = 0; a < arguments.size(); ++a) {
      if (!code.arguments[a].written) continue;
      std::string bytes = filled(code.arguments[a].bytes);
      RETURN_IF_ERROR(cl::error_status(
          api_.EnqueueReadBuffer(queue_, arguments[a], 1, 0, bytes.size(), bytes.data(), 0, nullptr,
                                 nullptr),
          "clEnqueueReadBuffer"));
      out += bytes;
    }
    return out;
  }

 private:
  absl::Status build(const SimtProgram& code) {
    const char* text = code.source.c_str();
    const size_t size = code.source.size();
    cl::Int error = 0;
    program_ = api_.CreateProgramWithSource(context_, 1, &text, &size, &error);
    if (error != cl::kSuccess) return cl::error_status(error, "clCreateProgramWithSource");
    error = api_.BuildProgram(program_, 1, &device_, code.options.c_str(), nullptr, nullptr);
    if (error == cl::kSuccess) return absl::OkStatus();
    std::string log(10000, '\0');
    api_.GetProgramBuildInfo(program_, device_, cl::kProgramBuildLog, log.size(), log.data(),
                             nullptr);
    return absl::InvalidArgumentError(concat("it does not build: ", log.c_str()));
  }

  absl::StatusOr<cl::Memory> buffer(const std::string& bytes) {
    cl::Int error = 0;
    const cl::Memory memory =
        api_.CreateBuffer(context_, cl::kMemReadWrite, bytes.size(), nullptr, &error);
    if (error != cl::kSuccess) return cl::error_status(error, "clCreateBuffer");
    all_.push_back(memory);
    RETURN_IF_ERROR(cl::error_status(
        api_.EnqueueWriteBuffer(queue_, memory, 1, 0, bytes.size(), bytes.data(), 0, nullptr,
                                nullptr),
        "clEnqueueWriteBuffer"));
    return memory;
  }

  absl::Status run(const SimtProgram::Launch& launch, const std::vector<cl::Memory>& arguments,
                   cl::Memory workspace, cl::Memory packed) {
    using Kind = SimtProgram::Parameter::Kind;
    cl::Int error = 0;
    const cl::KernelId kernel = api_.CreateKernel(program_, launch.kernel.c_str(), &error);
    if (error != cl::kSuccess) return cl::error_status(error, "clCreateKernel");
    for (size_t i = 0; i < launch.parameters.size() && error == cl::kSuccess; ++i) {
      const SimtProgram::Parameter& p = launch.parameters[i];
      const cl::Memory memory = p.kind == Kind::kWorkspace ? workspace
                                : p.kind == Kind::kPacked  ? packed
                                                           : arguments[static_cast<size_t>(p.slot)];
      error = api_.SetKernelArg(kernel, static_cast<cl::Uint>(i), sizeof memory, &memory);
    }
    const size_t items = static_cast<size_t>(launch.items);
    const size_t all = items * static_cast<size_t>(launch.groups);
    if (error == cl::kSuccess) {
      error = api_.EnqueueNDRangeKernel(queue_, kernel, 1, nullptr, &all, &items, 0, nullptr,
                                        nullptr);
    }
    if (error == cl::kSuccess) error = api_.Finish(queue_);
    api_.ReleaseKernel(kernel);
    return cl::error_status(error, "clEnqueueNDRangeKernel");
  }

  const cl::Api& api_;
  cl::DeviceId device_ = nullptr;
  cl::Context context_ = nullptr;
  cl::Queue queue_ = nullptr;
  cl::Program program_ = nullptr;
  std::vector<cl::Memory> all_;
};

absl::StatusOr<std::string> simulate(const SimtProgram& code, const std::string& in) {
  ASSIGN_OR_RETURN(const cl::Api* api, cl::load_api());
  Simulator simulator(*api);               // and a log of its own
  RETURN_IF_ERROR(simulator.open());
  return simulator.run(code, in);
}

// FOLDER COUNT: of each N below it answers FOLDER/N.cl, N.in with N.out and N.report.
int run_worker(int, char** argv) {
  const std::string folder = argv[2], log = folder + "/log";
  const int64_t count = std::atoll(argv[3]);
  for (int64_t n = 0; n < count; ++n) {
    const std::string stem = concat(folder, "/", n);
    const absl::StatusOr<SimtProgram> code = parse_simt_program(slurp(stem + ".cl"));
    fs::remove(log);
    const absl::StatusOr<std::string> out =
        code.ok() ? simulate(*code, slurp(stem + ".in")) : code.status();
    std::string report = slurp(log);
    if (!out.ok()) report += out.status().ToString();
    else write_file(stem + ".out", *out);
    write_file(stem + ".report", report);
  }
  return 0;
}
const EntryPoint worker("oclgrind_worker", run_worker);

}  // namespace

absl::StatusOr<std::vector<OclgrindResult>> run_oclgrind(const std::vector<OclgrindJob>& jobs,
                                                         bool same_values) {
  if (!fs::exists(kSimulator)) {
    return absl::NotFoundError("no Oclgrind is here (Debian's package oclgrind)");
  }
  std::string folder = testing::TempDir() + "oclgrind-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return absl::InternalError("no temporary folder");
  for (size_t n = 0; n < jobs.size(); ++n) {
    const std::string stem = concat(folder, "/", n);
    write_file(stem + ".cl", to_text(jobs[n].code));
    std::string in;
    for (const Data& data : jobs[n].in) {
      in.append(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size());
    }
    write_file(stem + ".in", in);
  }
  // Limits are opencl_cpu's. What it reports at most is of a process, not of a kernel. Its look-out
  // for values that were never written mistakes parts of vectors; the emulator has one.
  const std::string command =
      concat("LOOPWRIGHT_OPENCL=", kSimulator, " OCLGRIND_LOG=", folder, "/log",
             " OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 OCLGRIND_MAX_ERRORS=1000000000",
             same_values ? "" : " OCLGRIND_UNIFORM_WRITES=1",
             " OCLGRIND_LOCAL_MEM_SIZE=1048576 OCLGRIND_MAX_WGSIZE=4096 OCLGRIND_NUM_THREADS=1 '",
             own_program(), "' oclgrind_worker ", folder, " ", jobs.size());
  const int code = std::system(command.c_str());
  std::vector<OclgrindResult> results;
  for (size_t n = 0; n < jobs.size(); ++n) {
    const std::string stem = concat(folder, "/", n);
    OclgrindResult& result = results.emplace_back();
    if (!fs::exists(stem + ".report")) {
      result.report = concat("Oclgrind gave no answer, and ended with ", code);
      continue;
    }
    result.report = slurp(stem + ".report");
    const std::string out = slurp(stem + ".out");
    size_t begin = 0;
    for (const SimtProgram::Argument& argument : jobs[n].code.arguments) {
      if (!argument.written || out.empty()) continue;
      const std::string bytes = out.substr(begin, static_cast<size_t>(argument.bytes));
      const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
      result.out.push_back({{data, data + bytes.size()}});
      begin += bytes.size();
    }
  }
  fs::remove_all(folder);
  return results;
}

}  // namespace lw
