#include "bench/opencl/device_side.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"

namespace lw {
namespace {

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// NAME.json says how NAME.cl is launched (docs/opencl.md).
absl::StatusOr<OpenClProgram> read_device_export(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    nlohmann::json json = nlohmann::json::parse(file_text(entry.path()), nullptr, false);
    if (!json.is_object() || !json.contains("opencl")) break;
    nlohmann::json launch = json["opencl"];
    launch["source"] = file_text(folder / launch.value("source_file", ""));
    launch.erase("source_file");
    return parse_opencl_program(launch.dump());
  }
  return absl::NotFoundError(concat("no kernel of OpenCL in ", folder.string()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceKernel>> DeviceKernel::load(OpenClSession* session,
                                                                 OpenClProgram program,
                                                                 void* const* arguments) {
  std::unique_ptr<DeviceKernel> kernel(new DeviceKernel(session, std::move(program)));
  RETURN_IF_ERROR(kernel->open(arguments));
  return kernel;
}

absl::Status DeviceKernel::open(void* const* arguments) {
  ASSIGN_OR_RETURN(kernels_, OpenClKernels::build(session_, program_));
  for (size_t i = 0; i < program_.arguments.size(); ++i) {
    const OpenClProgram::Argument& argument = program_.arguments[i];
    ASSIGN_OR_RETURN(const cl::Memory memory, session_->allocate(argument.bytes, "an argument"));
    buffers_.arguments.push_back(memory);
    if (argument.written) continue;
    RETURN_IF_ERROR(session_->write(memory, arguments[i], argument.bytes));
  }
  if (program_.workspace_bytes > 0) {
    ASSIGN_OR_RETURN(buffers_.workspace,
                     session_->allocate(program_.workspace_bytes, "the workspace"));
  }
  if (program_.packed_bytes > 0) {
    ASSIGN_OR_RETURN(buffers_.packed, session_->allocate(program_.packed_bytes, "packed"));
  }
  RETURN_IF_ERROR(kernels_->bind(buffers_));
  RETURN_IF_ERROR(kernels_->enqueue_prepack());
  return session_->finish();
}

DeviceKernel::~DeviceKernel() {
  kernels_.reset();
  for (const cl::Memory memory : buffers_.arguments) session_->release(memory);
  session_->release(buffers_.workspace);
  session_->release(buffers_.packed);
}

absl::Status DeviceKernel::fetch(void* const* arguments) {
  for (size_t i = 0; i < program_.arguments.size(); ++i) {
    const OpenClProgram::Argument& argument = program_.arguments[i];
    if (!argument.written) continue;
    RETURN_IF_ERROR(session_->read(buffers_.arguments[i], arguments[i], argument.bytes));
  }
  return absl::OkStatus();
}

absl::Status DeviceKernel::spoil() {
  for (size_t i = 0; i < program_.arguments.size(); ++i) {
    const OpenClProgram::Argument& argument = program_.arguments[i];
    if (!argument.written) continue;
    RETURN_IF_ERROR(session_->poison(buffers_.arguments[i], argument.bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceTuned> tune_on_device(const TunerOptions& options, const BenchCase& one) {
  const std::string database = options.folder + "/opencl.db";
  DeviceTuned tuned;
  ASSIGN_OR_RETURN(tuned.tuning, tune(options, one, 1, database));
  std::string words;
  for (const std::string& word : command_words(one)) words += word + " ";
  const std::string folder =
      absl::StrCat(options.folder, "/opencl_", absl::Hex(hash64(words + options.target)));
  RETURN_IF_ERROR(run_export(options, one, 1, database, true, folder).status());
  ASSIGN_OR_RETURN(tuned.program, read_device_export(folder));
  return tuned;
}

}  // namespace lw
