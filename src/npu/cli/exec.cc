#include "src/npu/cli/exec.h"

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/exec/frames.h"
#include "src/exec/heads.h"
#include "src/npu/function/function.h"
#include "src/npu/module.h"
#include "src/npu/timing/report.h"

namespace lw::npu {
namespace {

// The answer to a job, and its outputs.
struct Done {
  exec::Result result;
  std::string outputs;
};

absl::StatusOr<Module> read_program(const exec::Job& job, std::string_view body) {
  if (job.format != "npu_module") {
    return absl::InvalidArgumentError(
        concat("programs of the format npu_module are run here, not of ", job.format));
  }
  const uint64_t bytes = static_cast<uint64_t>(job.program_bytes);
  uint64_t inputs = 0;
  for (const exec::Argument& a : job.arguments) inputs += a.written ? 0 : a.bytes;
  if (body.size() < bytes || body.size() - bytes != (job.outputs ? inputs : 0)) {
    return absl::InvalidArgumentError(
        concat("a body of ", body.size(), " bytes, of which ", bytes, " are the program's and ",
               job.outputs ? inputs : 0, " the inputs'"));
  }
  ASSIGN_OR_RETURN(Module module, read_module(body.substr(0, bytes)));
  if (module.arguments.size() != job.arguments.size()) {
    return absl::InvalidArgumentError(concat("the program has ", module.arguments.size(),
                                             " arguments, not ", job.arguments.size()));
  }
  for (size_t i = 0; i < module.arguments.size(); ++i) {
    const ModuleArgument& own = module.arguments[i];
    const exec::Argument& said = job.arguments[i];
    if (own.range.bytes != static_cast<uint64_t>(said.bytes) || own.written != said.written) {
      return absl::InvalidArgumentError(concat(
          "argument ", i, " of the program has ", own.range.bytes, " bytes and is ",
          own.written ? "" : "not ", "written"));
    }
  }
  return module;
}

absl::StatusOr<std::string> run(const Module& module, const Timing& timing,
                                const std::vector<Span>& timeline, std::string_view inputs) {
  std::vector<std::vector<uint8_t>> contents(module.arguments.size());
  std::vector<uint8_t> workspace(module.workspace.bytes, 0xff);
  std::vector<Buffer> dram;
  if (!workspace.empty()) dram.push_back({module.workspace.address, workspace, true});
  for (size_t i = 0; i < contents.size(); ++i) {
    const ModuleArgument& argument = module.arguments[i];
    if (argument.written) {
      contents[i].assign(argument.range.bytes, 0xff);
    } else {
      contents[i].assign(inputs.begin(), inputs.begin() + argument.range.bytes);
      inputs.remove_prefix(argument.range.bytes);
    }
    dram.push_back({argument.range.address, contents[i], argument.written});
  }
  ASSIGN_OR_RETURN(Memory memory, make_memory(module.config, std::move(dram)));
  ASSIGN_OR_RETURN(const FunctionReport report,
                   execute(module.config, module.program, timing, timeline, &memory));
  if (report.status != FunctionStatus::kOk) {
    const std::string first = report.errors.empty() ? "" : report.errors[0];
    return absl::DataLossError(
        concat(name_of(report.status), ": ", first.substr(0, first.find('\n'))));
  }
  std::string outputs;
  for (size_t i = 0; i < contents.size(); ++i) {
    if (module.arguments[i].written) outputs.append(contents[i].begin(), contents[i].end());
  }
  return outputs;
}

absl::StatusOr<Done> work(const exec::Job& job, std::string_view body) {
  ASSIGN_OR_RETURN(const Module module, read_program(job, body));
  constexpr uint64_t kMostWorkspace = uint64_t{4} << 30;
  if (module.workspace.bytes > kMostWorkspace) {
    return absl::ResourceExhaustedError(concat("the program needs ", module.workspace.bytes,
                                               " bytes of workspace, the limit is ",
                                               kMostWorkspace));
  }
  std::vector<Span> timeline;
  TimingOptions options;
  if (job.outputs) options.timeline = &timeline;
  ASSIGN_OR_RETURN(const Timing timing, simulate(module.config, module.program, options));
  RETURN_IF_ERROR(check_ended(timing));
  Done done;
  if (job.time) {
    done.result.in_cycles = false;         // which are whole ones: the last may have ended within
    done.result.samples = {timing.ns};
    done.result.counters = timing_counters(timing);
  }
  if (job.outputs) {
    ASSIGN_OR_RETURN(done.outputs, run(module, timing, timeline, body.substr(job.program_bytes)));
  }
  return done;
}

exec::Error error_of(const absl::Status& status) {
  exec::ErrorCode code = exec::ErrorCode::kRefused;
  if (absl::IsDataLoss(status)) code = exec::ErrorCode::kWrongResult;
  if (absl::IsResourceExhausted(status)) code = exec::ErrorCode::kDeviceLimit;
  return {code, std::string(status.message())};
}

absl::Status answer(const exec::Frame& frame, int out) {
  exec::Answer answer;
  std::string outputs;
  const absl::StatusOr<exec::Request> request = exec::parse_request(frame.head);
  if (!request.ok()) {
    answer.what = error_of(request.status());
    return exec::write_frame(out, exec::print(answer), "");
  }
  answer.id = request->id;
  if (const exec::Hello* const hello = std::get_if<exec::Hello>(&request->what)) {
    if (hello->version != exec::kVersion) {
      answer.what = error_of(absl::InvalidArgumentError(
          concat("version ", hello->version, "; this device speaks ", exec::kVersion)));
    } else if (hello->architecture != "npu") {
      answer.what = error_of(absl::InvalidArgumentError(
          concat("programs for npu are run here, not for ", hello->architecture)));
    } else {
      answer.what = exec::Greeting{.name = "npu_sim", .release = LOOPWRIGHT_VERSION};
    }
  } else {
    absl::StatusOr<Done> done = work(std::get<exec::Job>(request->what), frame.body);
    if (done.ok()) {
      answer.what = std::move(done->result);
      outputs = std::move(done->outputs);
    } else {
      answer.what = error_of(done.status());
    }
  }
  return exec::write_frame(out, exec::print(answer), outputs);
}

}  // namespace

absl::Status serve_exec(int in, int out) {
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<exec::Frame> frame, exec::read_frame(in));
    if (!frame) return absl::OkStatus();
    RETURN_IF_ERROR(answer(*frame, out));
  }
}

}  // namespace lw::npu
