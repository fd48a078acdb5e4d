// The handles' functions, but for those of modules (module.cc).
#include "src/npu/c/handles.h"

#include <algorithm>
#include <cstring>

#include "src/base/message.h"
#include "src/npu/isa/check.h"
#include "src/npu/isa/encode.h"
#include "src/npu/isa/text.h"
#include "src/npu/timing/report.h"

namespace lw::npu {
namespace {

int32_t code_of(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return LOOPWRIGHT_NPU_OK;
    case absl::StatusCode::kInvalidArgument: return LOOPWRIGHT_NPU_BAD_REQUEST;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnavailable: return LOOPWRIGHT_NPU_ENVIRONMENT;
    default: return LOOPWRIGHT_NPU_BUG;
  }
}

int32_t code_of(FunctionStatus status) {
  switch (status) {
    case FunctionStatus::kOk: return LOOPWRIGHT_NPU_OK;
    case FunctionStatus::kRace: return LOOPWRIGHT_NPU_RACE;
    case FunctionStatus::kDeadlock:
    case FunctionStatus::kOverflow: return LOOPWRIGHT_NPU_NO_END;
    case FunctionStatus::kBounds: return LOOPWRIGHT_NPU_BOUNDS;
  }
  return LOOPWRIGHT_NPU_BUG;
}

absl::StatusOr<Config> read_config(const std::string& words) {
  const size_t first = words.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && words[first] == '{';
  return is_json ? parse_config(words, "the configuration") : find_config(words);
}

int32_t keep(absl::StatusOr<Program> program, loopwright_npu_program** to, const Reply& reply) {
  if (!program.ok()) return reply.say(program.status());
  *to = new loopwright_npu_program{std::make_shared<const Program>(*std::move(program)), {}, {}};
  return LOOPWRIGHT_NPU_OK;
}

// A report with its times alone.
absl::StatusOr<std::unique_ptr<loopwright_npu_report>> timed(
    const loopwright_npu& npu, const loopwright_npu_program& program) {
  auto report = std::make_unique<loopwright_npu_report>();
  report->config = npu.config;
  report->program = program.program;
  TimingOptions options;
  options.timeline = &report->spans;
  absl::StatusOr<Timing> timing = simulate(*npu.config, *program.program, options);
  if (!timing.ok()) return timing.status();
  report->timing = *std::move(timing);
  return report;
}

int32_t finish(std::unique_ptr<loopwright_npu_report> report, int32_t code, std::string errors,
               loopwright_npu_report** to, const Reply& reply) {
  report->errors = std::move(errors);
  if (code != LOOPWRIGHT_NPU_OK) reply.say(code, report->errors);
  if (to != nullptr) *to = report.release();
  return code;
}

std::string lines(const std::vector<std::string>& errors) {
  std::string text;
  for (const std::string& error : errors) {
    text += error;
    if (!text.ends_with('\n')) text += '\n';
  }
  return text;
}

}  // namespace

int32_t Reply::say(int32_t code, std::string_view text) const {
  if (error == nullptr || size == 0) return code;
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(error, text.data(), length);
  error[length] = 0;
  return code;
}

int32_t Reply::say(const absl::Status& status) const {
  return say(code_of(status), std::string(status.message()));
}

int32_t Reply::lacks(const char* what) const {
  return say(LOOPWRIGHT_NPU_BAD_REQUEST, concat(what, " is null"));
}

int32_t execute_on(const loopwright_npu& npu, const loopwright_npu_program& program,
                   std::vector<Buffer> dram, bool races, loopwright_npu_report** report,
                   const Reply& reply) {
  absl::StatusOr<Memory> memory = make_memory(*npu.config, std::move(dram));
  if (!memory.ok()) return reply.say(memory.status());
  absl::StatusOr<std::unique_ptr<loopwright_npu_report>> made = timed(npu, program);
  if (!made.ok()) return reply.say(made.status());
  loopwright_npu_report& one = **made;
  FunctionOptions options;
  options.races = races;
  absl::StatusOr<FunctionReport> function =
      execute(*one.config, *one.program, one.timing, one.spans, &*memory, options);
  if (!function.ok()) return reply.say(function.status());
  one.function = *std::move(function);
  return finish(*std::move(made), code_of(one.function.status), lines(one.function.errors), report,
                reply);
}

}  // namespace lw::npu

using namespace lw::npu;  // NOLINT: all that follows is of it

const char* loopwright_npu_configurations(void) {
  static const std::string names = lines(config_names());
  return names.c_str();
}

int32_t loopwright_npu_open(const char* configuration, loopwright_npu** npu, char* error,
                            size_t error_size) {
  const Reply reply = {error, error_size};
  if (npu == nullptr) return reply.lacks("npu");
  *npu = nullptr;
  if (configuration == nullptr) return reply.lacks("configuration");
  absl::StatusOr<Config> config = read_config(configuration);
  if (!config.ok()) return reply.say(config.status());
  *npu = new loopwright_npu{std::make_shared<const Config>(*std::move(config)), {}};
  return LOOPWRIGHT_NPU_OK;
}

void loopwright_npu_close(loopwright_npu* npu) { delete npu; }

const char* loopwright_npu_configuration(const loopwright_npu* npu) {
  return npu->json.get([npu] { return print_config(*npu->config); }).c_str();
}

int32_t loopwright_npu_assemble(const loopwright_npu* npu, const char* text,
                                loopwright_npu_program** program, char* error, size_t error_size) {
  const Reply reply = {error, error_size};
  if (program == nullptr) return reply.lacks("program");
  *program = nullptr;
  if (npu == nullptr || text == nullptr) return reply.lacks(npu == nullptr ? "npu" : "text");
  return keep(parse_program(text, "text", npu->config.get()), program, reply);
}

int32_t loopwright_npu_decode(const loopwright_npu* npu, const void* image, size_t size,
                              loopwright_npu_program** program, char* error, size_t error_size) {
  const Reply reply = {error, error_size};
  if (program == nullptr) return reply.lacks("program");
  *program = nullptr;
  if (npu == nullptr || image == nullptr) return reply.lacks(npu == nullptr ? "npu" : "image");
  absl::StatusOr<Program> read = read_image({static_cast<const char*>(image), size});
  if (read.ok()) {
    if (const absl::Status status = check_program(*npu->config, *read); !status.ok()) read = status;
  }
  return keep(std::move(read), program, reply);
}

void loopwright_npu_program_free(loopwright_npu_program* program) { delete program; }

int64_t loopwright_npu_program_instructions(const loopwright_npu_program* program) {
  return static_cast<int64_t>(program->program->size());
}
const char* loopwright_npu_program_text(const loopwright_npu_program* program) {
  return program->text.get([program] { return print_program(*program->program); }).c_str();
}
const void* loopwright_npu_program_image(const loopwright_npu_program* program, size_t* size) {
  const std::string& image = program->image.get([program] {
    return make_image(*program->program).value();   // of fields that were read from text or image
  });
  if (size != nullptr) *size = image.size();
  return image.data();
}

int32_t loopwright_npu_time(const loopwright_npu* npu, const loopwright_npu_program* program,
                            loopwright_npu_report** report, char* error, size_t error_size) {
  const Reply reply = {error, error_size};
  if (report == nullptr) return reply.lacks("report");
  *report = nullptr;
  if (npu == nullptr || program == nullptr) return reply.lacks(npu == nullptr ? "npu" : "program");
  absl::StatusOr<std::unique_ptr<loopwright_npu_report>> made = timed(*npu, *program);
  if (!made.ok()) return reply.say(made.status());
  const Timing& timing = (*made)->timing;
  const int32_t code =
      timing.ending == Ending::kDone ? LOOPWRIGHT_NPU_OK : LOOPWRIGHT_NPU_NO_END;
  return finish(*std::move(made), code, timing.blocked, report, reply);
}

int32_t loopwright_npu_execute(const loopwright_npu* npu, const loopwright_npu_program* program,
                               const loopwright_npu_buffer* dram, size_t count, int32_t races,
                               loopwright_npu_report** report, char* error, size_t error_size) {
  const Reply reply = {error, error_size};
  if (report == nullptr) return reply.lacks("report");
  *report = nullptr;
  if (npu == nullptr || program == nullptr) return reply.lacks(npu == nullptr ? "npu" : "program");
  if (count > 0 && dram == nullptr) return reply.lacks("dram");
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < count; ++i) {
    if (dram[i].size == 0) continue;
    if (dram[i].bytes == nullptr) return reply.lacks("a buffer");
    buffers.push_back({dram[i].address, {static_cast<uint8_t*>(dram[i].bytes), dram[i].size},
                       dram[i].writable != 0});
  }
  return execute_on(*npu, *program, std::move(buffers), races != 0, report, reply);
}

void loopwright_npu_report_free(loopwright_npu_report* report) { delete report; }

int64_t loopwright_npu_report_cycles(const loopwright_npu_report* report) {
  return report->timing.cycles;
}
double loopwright_npu_report_ns(const loopwright_npu_report* report) { return report->timing.ns; }
double loopwright_npu_report_bound(const loopwright_npu_report* report) {
  return report->timing.bounds.largest();
}
const char* loopwright_npu_report_limit(const loopwright_npu_report* report) {
  return limiting_bound(report->timing.bounds).first.data();
}
const char* loopwright_npu_report_errors(const loopwright_npu_report* report) {
  return report->errors.c_str();
}
int64_t loopwright_npu_report_races(const loopwright_npu_report* report) {
  return report->function.races_found;
}
int64_t loopwright_npu_report_overflows(const loopwright_npu_report* report) {
  return report->function.overflows;
}
const char* loopwright_npu_report_json(const loopwright_npu_report* report) {
  return report->json
      .get([report] { return timing_json(*report->config, report->timing); })
      .c_str();
}
const char* loopwright_npu_report_text(const loopwright_npu_report* report) {
  return report->text
      .get([report] { return timing_text(*report->config, report->timing); })
      .c_str();
}
const char* loopwright_npu_report_timeline(const loopwright_npu_report* report) {
  return report->timeline
      .get([report] { return timeline_json(*report->config, *report->program, report->spans); })
      .c_str();
}
