#include "src/measure/exec/session.h"

#include <algorithm>

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/exec/frames.h"

namespace lw {
namespace {

constexpr uint64_t kMostHelloBytes = 0;    // of a greeting's body

absl::Status status_of(const exec::Error& error) {
  switch (error.code) {
    case exec::ErrorCode::kRefused: return absl::InvalidArgumentError(error.message);
    case exec::ErrorCode::kWrongResult: return absl::DataLossError(error.message);
    case exec::ErrorCode::kDeviceLimit: return absl::ResourceExhaustedError(error.message);
    case exec::ErrorCode::kFailed: break;
  }
  return absl::UnavailableError(concat("it says: ", error.message));
}

uint64_t written_bytes(const exec::Job& job) {
  uint64_t bytes = 0;
  for (const exec::Argument& a : job.arguments) {
    if (job.outputs && a.written) bytes += static_cast<uint64_t>(a.bytes);
  }
  return bytes;
}

}  // namespace

absl::StatusOr<exec::Frame> receive_frame(ExecProgram& program, uint64_t most_body_bytes,
                                          double limit_s) {
  const double deadline = now() + limit_s;
  const auto left = [&] { return limit_s < 0 ? -1 : std::max(0.0, deadline - now()); };
  ASSIGN_OR_RETURN(const std::string bytes, program.receive_header(left()));
  const absl::StatusOr<exec::FrameHeader> header =
      exec::decode_frame_header(bytes, most_body_bytes);
  if (!header.ok()) {
    return absl::UnavailableError(
        concat("its answer is no frame: ", std::string(header.status().message())));
  }
  exec::Frame frame;
  ASSIGN_OR_RETURN(frame.head, program.receive(header->head_bytes, left()));
  ASSIGN_OR_RETURN(frame.body, program.receive(header->body_bytes, left()));
  return frame;
}

ExecSession::ExecSession(std::string command, const Target& target)
    : command_(std::move(command)),
      architecture_(target.architecture),
      target_(to_text(target)) {}

exec::Hello ExecSession::hello() const { return {exec::kVersion, architecture_, target_}; }

// The device's own failure costs it its program, which may be anywhere then.
absl::Status ExecSession::fail(absl::Status status) {
  stop();
  return absl::Status(status.code(),
                      concat("exec device '", command_, "': ", std::string(status.message())));
}

absl::StatusOr<ExecSession::Received> ExecSession::exchange(exec::Request request,
                                                            std::vector<std::string_view> body,
                                                            uint64_t most_body_bytes,
                                                            double limit_s) {
  if (program_->has_input()) {
    // What it says unasked, or its end.
    const absl::Status received = receive_frame(*program_, exec::kMostBodyBytes, /*limit_s=*/1).status();
    return received.ok() ? absl::UnavailableError("it answers twice, or what nobody asked")
                         : received;
  }
  request.id = ++last_id_;
  const std::string head = exec::print(request);
  uint64_t body_bytes = 0;
  for (const std::string_view part : body) body_bytes += part.size();
  const std::string header = exec::encode_frame_header({head.size(), body_bytes});
  std::vector<std::string_view> parts = {header, head};
  parts.insert(parts.end(), body.begin(), body.end());
  RETURN_IF_ERROR(program_->send(parts, limit_s));
  ASSIGN_OR_RETURN(exec::Frame frame, receive_frame(*program_, most_body_bytes, limit_s));
  absl::StatusOr<exec::Answer> answer = exec::parse_answer(frame.head);
  if (!answer.ok()) {
    return absl::UnavailableError(
        concat("its answer makes no sense: ", std::string(answer.status().message())));
  }
  if (answer->id != request.id) {
    return absl::UnavailableError(
        concat("it answers request ", answer->id, " where ", request.id, " was asked"));
  }
  return Received{*std::move(answer), std::move(frame.body)};
}

absl::StatusOr<exec::Greeting> ExecSession::greet(double limit_s) {
  if (program_ != nullptr) return greeting_;
  absl::StatusOr<std::unique_ptr<ExecProgram>> started = ExecProgram::start(command_, exec::kMagic);
  if (!started.ok()) return fail(started.status());
  program_ = *std::move(started);
  absl::StatusOr<Received> received = exchange({.what = hello()}, {}, kMostHelloBytes, limit_s);
  if (!received.ok()) return fail(received.status());
  if (const exec::Error* const error = std::get_if<exec::Error>(&received->answer.what)) {
    return fail(absl::UnavailableError(concat("it refuses to serve: ", error->message)));
  }
  const exec::Greeting* const greeting = std::get_if<exec::Greeting>(&received->answer.what);
  if (greeting == nullptr) {
    return fail(absl::UnavailableError("it answers a greeting with a result"));
  }
  if (greeting->version != exec::kVersion) {
    return fail(absl::UnavailableError(concat("it speaks version ", greeting->version,
                                              " of the protocol, not ", exec::kVersion)));
  }
  greeting_ = *greeting;
  return greeting_;
}

absl::StatusOr<ExecReply> ExecSession::ask(const exec::Job& job,
                                           std::vector<std::string_view> body, double limit_s) {
  CHECK(program_ != nullptr);
  const uint64_t bytes = written_bytes(job);
  absl::StatusOr<Received> received = exchange({.what = job}, std::move(body), bytes, limit_s);
  if (!received.ok()) return fail(received.status());
  if (const exec::Error* const error = std::get_if<exec::Error>(&received->answer.what)) {
    const absl::Status status = status_of(*error);
    return absl::IsUnavailable(status) ? fail(status) : status;
  }
  exec::Result* const result = std::get_if<exec::Result>(&received->answer.what);
  if (result == nullptr) return fail(absl::UnavailableError("it answers a job with a greeting"));
  if (received->body.size() != bytes) {
    return fail(absl::UnavailableError(
        concat("it answers with ", received->body.size(), " bytes of outputs, not ", bytes)));
  }
  if (job.time && result->samples.empty()) {
    return fail(absl::UnavailableError("it answers without the time that was asked for"));
  }
  return ExecReply{std::move(*result), std::move(received->body)};
}

}  // namespace lw
