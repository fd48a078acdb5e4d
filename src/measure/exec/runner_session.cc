#include "src/measure/exec/runner_session.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr uint64_t kMostGreeting = 4096;
constexpr uint64_t kMostBesides = 1 << 20;  // of an answer, besides its outputs

bool same_machine(const runner::Greeting& a, const runner::Greeting& b) {
  return a.machine == b.machine && a.cpu == b.cpu && a.emulator == b.emulator;
}

absl::Status nonsense() { return absl::UnavailableError("its answer makes no sense"); }

// Whether a result is one of this job.
bool fits(const runner::Result& result, const runner::Job& job) {
  std::vector<uint64_t> outputs;
  for (const runner::Job::Argument& a : job.arguments) {
    if (a.output) outputs.push_back(a.pages);
  }
  return result.code != 0 ||
         (result.times.size() == (job.timed ? job.codes.size() : 0) &&
          std::equal(outputs.begin(), outputs.end(), result.outputs.begin(), result.outputs.end(),
                     [](uint64_t bytes, std::string_view got) { return got.size() == bytes; }));
}

}  // namespace

std::string RunnerSession::magic() { return runner::encode_header({}).substr(0, 4); }

// The device's own failure costs it its program, which may be anywhere then.
absl::Status RunnerSession::fail(absl::Status status) {
  stop();
  return absl::Status(status.code(),
                      concat("exec device '", command_, "': ", std::string(status.message())));
}

absl::StatusOr<RunnerAnswer> RunnerSession::receive(ExecProgram& program, uint64_t most_bytes,
                                                    double limit_s) {
  const double deadline = now() + limit_s;
  ASSIGN_OR_RETURN(const std::string bytes, program.receive_header(limit_s));
  const std::optional<runner::Header> header = runner::decode_header(bytes);
  if (!header) {
    return absl::UnavailableError(
        concat("its frames are of another version: it wants the lw_runner of this one, whose "
               "frames' version is ", runner::kVersion));
  }
  if (header->bytes > most_bytes) {
    return absl::UnavailableError(concat("its answer is no frame: ", header->bytes,
                                         " bytes; there may be ", most_bytes));
  }
  const double left = limit_s < 0 ? -1 : std::max(0.0, deadline - now());
  ASSIGN_OR_RETURN(std::string payload, program.receive(header->bytes, left));
  return RunnerAnswer{header->type, std::move(payload)};
}

absl::StatusOr<RunnerAnswer> RunnerSession::ask(runner::Frame type,
                                                std::vector<std::string_view> payload,
                                                uint64_t most_bytes, double limit_s) {
  CHECK(program_ != nullptr);
  if (program_->has_input()) {
    // What it says unasked, or its end.
    const absl::Status received = receive(*program_, runner::kMaxPayload, 1).status();
    return fail(received.ok() ? absl::UnavailableError("it answers twice, or what nobody asked")
                              : received);
  }
  runner::Header header;
  header.type = type;
  for (const std::string_view part : payload) header.bytes += part.size();
  const std::string head = runner::encode_header(header);
  payload.insert(payload.begin(), head);
  if (absl::Status sent = program_->send(payload, limit_s); !sent.ok()) return fail(sent);
  absl::StatusOr<RunnerAnswer> answer = receive(*program_, most_bytes, limit_s);
  return answer.ok() ? answer : fail(answer.status());
}

absl::StatusOr<runner::Greeting> RunnerSession::greet(double limit_s) {
  if (program_ != nullptr) return *greeting_;
  absl::StatusOr<std::unique_ptr<ExecProgram>> started = ExecProgram::start(command_, magic());
  if (!started.ok()) return fail(started.status());
  program_ = *std::move(started);
  ASSIGN_OR_RETURN(const RunnerAnswer answer,
                   ask(runner::Frame::kHello, {}, kMostGreeting, limit_s));
  std::optional<runner::Greeting> greeting = runner::decode_greeting(answer.payload);
  if (answer.type != runner::Frame::kGreeting || !greeting) return fail(nonsense());
  for (std::string* const text :
       {&greeting->machine, &greeting->cpu, &greeting->system, &greeting->emulator}) {
    for (char& c : *text) c = c < ' ' || c > '~' || c == '"' || c == '\\' ? '_' : c;
  }
  if (greeting->machine != architecture_) {
    return fail(absl::UnavailableError(
        concat("it runs on ", greeting->machine, ", not on ", architecture_)));
  }
  if (greeting_ && !same_machine(*greeting_, *greeting)) {
    return fail(absl::UnavailableError("it is another machine than before"));
  }
  greeting_ = greeting;
  return *greeting_;
}

absl::StatusOr<RunnerAnswer> RunnerSession::ask(const runner::Job& job, double limit_s) {
  uint64_t most = kMostBesides;
  for (const runner::Job::Argument& a : job.arguments) most += a.output ? a.pages : 0;
  const std::string payload = runner::encode_job(job);
  if (payload.size() > runner::kMaxPayload) {
    return RunnerAnswer{runner::Frame::kRefusal,
                        concat("a job of ", payload.size(), " bytes, inputs included; there may be ",
                               runner::kMaxPayload)};
  }
  ASSIGN_OR_RETURN(RunnerAnswer answer, ask(runner::Frame::kJob, {payload}, most, limit_s));
  if (answer.type == runner::Frame::kRefusal) return answer;
  if (answer.type == runner::Frame::kCrash && runner::decode_crash(answer.payload)) return answer;
  if (answer.type == runner::Frame::kResult) {
    const std::optional<runner::Result> result = runner::decode_result(answer.payload);
    if (result && fits(*result, job)) return answer;
  }
  return fail(nonsense());
}

}  // namespace lw
