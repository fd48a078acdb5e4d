#include "src/measure/exec/conformance.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/exec/frames.h"
#include "src/measure/exec/checks.h"
#include "src/measure/exec/session.h"
#include "src/measure/npu/npu_device.h"
#include "src/measure/npu/program_facts.h"
#include "src/measure/npu/sample_job.h"
#include "src/measure/npu/simulated.h"
#include "src/measure/process/sandbox.h"

namespace lw {
namespace {

class Checker : private DeviceChecks {
 public:
  Checker(const std::string& command, const Target& target, double limit_s)
      : command_(command), target_(target), limit_s_(limit_s), session_(command, target) {}

  absl::StatusOr<std::vector<DeviceCheck>> run() {
    ASSIGN_OR_RETURN(one_, npu_sample_job(target_, 1));
    ASSIGN_OR_RETURN(other_, npu_sample_job(target_, 2));
    ASSIGN_OR_RETURN(facts_, npu_program_facts(one_.artifact));
    check("greets", "a greeting is answered, in this version", &Checker::greets);
    check("times", "a time that a machine of the target can reach", &Checker::times);
    check("repeats", "where it says exact: the same time again", &Checker::repeats);
    check("computes", "where it says outputs: those of the target, bit for bit",
          &Checker::computes);
    check("once", "one answer to a request, and nothing after it", &Checker::once);
    check("pieces", "requests that arrive byte by byte", &Checker::pieces);
    check("broken-program", "refused with an error; it lives on", &Checker::broken_program);
    check("unknown-request", "refused with an error; it lives on", &Checker::unknown_request);
    check("broken-head", "a head that is no JSON: an error, or its end", &Checker::broken_head);
    check("other-version", "a greeting of version 99: an error, or its end",
          &Checker::other_version);
    check("no-frame", "bytes that are no frame: an error, or its end", &Checker::no_frame);
    check("huge-frame", "a body of 2^60 bytes: an error, or its end", &Checker::huge_frame);
    check("stateless", "killed within a job, the next process does it", &Checker::stateless);
    check("ends", "by itself, with status 0, when its input does", &Checker::ends);
    return take();
  }

 private:
  void check(const char* name, const char* asks, absl::Status (Checker::*body)()) {
    add(name, asks, [&] { return (this->*body)(); });
  }

  exec::Job job_of(const NpuSampleJob& sample) const {
    exec::Job job;
    job.format = "npu_module";
    job.program_bytes = static_cast<int64_t>(sample.artifact.bytes.size());
    const char* const names[] = {"A", "B", "D"};
    for (int i = 0; i < 3; ++i) job.arguments.push_back({names[i], sample.bytes[i], i == 2});
    return job;
  }

  absl::StatusOr<exec::Result> time(const NpuSampleJob& sample) {
    RETURN_IF_ERROR(session_.greet(limit_s_).status());
    exec::Job job = job_of(sample);
    job.time = true;
    ASSIGN_OR_RETURN(ExecReply reply, session_.ask(job, {sample.artifact.bytes}, limit_s_));
    return std::move(reply.result);
  }

  absl::Status greets() {
    ASSIGN_OR_RETURN(greeting_, session_.greet(limit_s_));
    seen_ = concat(greeting_.name, greeting_.release.empty() ? "" : " ", greeting_.release,
                   greeting_.outputs ? ", computes outputs" : ", takes times alone",
                   greeting_.exact ? ", exact" : "");
    return absl::OkStatus();
  }

  double cycles(const exec::Result& result, double value) const {
    return result.in_cycles ? value : value * facts_.clock_mhz / 1000;
  }

  absl::Status times() {
    ASSIGN_OR_RETURN(const exec::Result result, time(one_));
    if (greeting_.exact && result.samples.size() != 1) {
      return wrong(concat("it says exact, and takes ", result.samples.size(), " samples"));
    }
    const double least =
        cycles(result, *std::min_element(result.samples.begin(), result.samples.end()));
    const std::string bound =
        absl::StrFormat("%.6g (%s)", facts_.least_cycles, std::string(facts_.set_by));
    if (least < (1 - 1e-9) * facts_.least_cycles) {
      return wrong(absl::StrFormat("it says %.6g cycles, but no machine of the target takes fewer "
                                   "than %s", least, bound));
    }
    seen_ = absl::StrFormat("%.6g cycles; the least is %s", least, bound);
    if (const absl::StatusOr<double> us = simulated_us(one_.artifact); us.ok()) {
      absl::StrAppendFormat(&seen_, "; npu_sim takes %.6g", *us * facts_.clock_mhz);
    }
    return absl::OkStatus();
  }

  absl::Status repeats() {
    if (!greeting_.exact) return absl::CancelledError("it does not say exact");
    ASSIGN_OR_RETURN(const exec::Result first, time(one_));
    session_.stop();
    ASSIGN_OR_RETURN(const exec::Result second, time(one_));
    if (first.samples != second.samples) {
      return wrong(absl::StrFormat("%.17g, then %.17g", first.samples[0], second.samples[0]));
    }
    return absl::OkStatus();
  }

  absl::Status computes() {
    if (!greeting_.outputs) return absl::CancelledError("it does not say outputs");
    for (const NpuSampleJob* const sample : {&one_, &other_}) {
      RETURN_IF_ERROR(session_.greet(limit_s_).status());
      exec::Job job = job_of(*sample);
      job.outputs = true;
      ASSIGN_OR_RETURN(const ExecReply reply,
                       session_.ask(job, {sample->artifact.bytes, sample->a, sample->b}, limit_s_));
      for (size_t i = 0; i < reply.body.size(); ++i) {
        if (reply.body[i] == sample->d[i]) continue;
        return wrong(concat("byte ", i, " of D, a product of ", sample->bytes[0], " by ",
                            sample->bytes[1], " bytes, differs"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status once() {
    for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(time(one_).status());
    if (!session_.program()->has_input(kQuiet)) return absl::OkStatus();
    return wrong("something comes after its last answer");
  }

  // In a process of its own, greeted: what then comes to one frame of `head` and `body`.
  absl::StatusOr<exec::Frame> raw(const std::string& head, std::string_view body, size_t piece) {
    const std::string header = exec::encode_frame_header({head.size(), body.size()});
    RETURN_IF_ERROR(session_.program()->send({header, head, body}, limit_s_, piece));
    return receive_frame(*session_.program(), exec::kMostBodyBytes, limit_s_);
  }

  absl::Status pieces() {
    RETURN_IF_ERROR(session_.greet(limit_s_).status());
    exec::Job job = job_of(one_);
    job.time = true;
    ASSIGN_OR_RETURN(const exec::Frame frame,
                     raw(exec::print(exec::Request{kId, job}), one_.artifact.bytes, 1));
    ASSIGN_OR_RETURN(const exec::Answer answer, exec::parse_answer(frame.head));
    if (answer.id == kId && std::holds_alternative<exec::Result>(answer.what)) {
      return absl::OkStatus();
    }
    return wrong(concat("it answers ", frame.head.substr(0, 200)));
  }

  absl::Status broken_program() {
    NpuSampleJob broken = one_;
    broken.artifact.bytes.resize(broken.artifact.bytes.size() / 2);
    const absl::Status status = time(broken).status();
    if (status.ok()) return wrong("it takes half a program for a whole one");
    if (!absl::IsInvalidArgument(status)) return status;
    seen_ = std::string(status.message());
    return lives();
  }

  absl::Status unknown_request() {
    RETURN_IF_ERROR(session_.greet(limit_s_).status());
    ASSIGN_OR_RETURN(const exec::Frame frame,
                     raw(concat("{\"type\":\"dance\",\"id\":", kId, "}"), "", 1 << 20));
    ASSIGN_OR_RETURN(const exec::Answer answer, exec::parse_answer(frame.head));
    const exec::Error* const error = std::get_if<exec::Error>(&answer.what);
    if (error == nullptr) return wrong(concat("it answers ", frame.head.substr(0, 200)));
    seen_ = error->message;
    return lives();
  }

  // The same process still takes times.
  absl::Status lives() {
    if (session_.program() == nullptr) return wrong("it has ended");
    return time(one_).status();
  }

  // That it answers with an error, or ends, and does not wait for more.
  absl::Status refused_or_ended(const std::vector<std::string_view>& parts) {
    session_.stop();
    absl::StatusOr<std::unique_ptr<ExecProgram>> program = ExecProgram::start(command_, exec::kMagic);
    RETURN_IF_ERROR(program.status());
    absl::Status status = (*program)->send(parts, limit_s_);
    if (status.ok()) {
      const absl::StatusOr<exec::Frame> frame = receive_frame(**program, exec::kMostBodyBytes, limit_s_);
      if (frame.ok()) {
        ASSIGN_OR_RETURN(const exec::Answer answer, exec::parse_answer(frame->head));
        const exec::Error* const error = std::get_if<exec::Error>(&answer.what);
        if (error == nullptr) return wrong(concat("it answers ", frame->head.substr(0, 200)));
        seen_ = error->message;
        return absl::OkStatus();
      }
      status = frame.status();
    }
    int how = 0;
    if (!absl::IsDeadlineExceeded(status) && (*program)->pid() < 0) {
      seen_ = std::string(status.message());
      return absl::OkStatus();
    }
    return (*program)->ends(0, &how) ? absl::OkStatus() : status;
  }

  absl::Status broken_head() {
    const std::string head = "{\"type\":";
    const std::string header = exec::encode_frame_header({head.size(), 0});
    return refused_or_ended({header, head});
  }

  absl::Status other_version() {
    exec::Hello hello = session_.hello();
    hello.version = 99;
    const std::string head = exec::print(exec::Request{1, hello});
    const std::string header = exec::encode_frame_header({head.size(), 0});
    return refused_or_ended({header, head});
  }

  absl::Status no_frame() { return refused_or_ended({"GET / HTTP/1.1\r\nHost: device\r\n\r\n"}); }

  absl::Status huge_frame() {
    const std::string head = exec::print(exec::Request{1, session_.hello()});
    const std::string header = exec::encode_frame_header({head.size(), uint64_t{1} << 60});
    return refused_or_ended({header, head});
  }

  absl::Status stateless() {
    RETURN_IF_ERROR(session_.greet(limit_s_).status());
    exec::Job job = job_of(one_);
    job.time = true;
    const std::string head = exec::print(exec::Request{kId, job});
    const std::string header = exec::encode_frame_header({head.size(), one_.artifact.bytes.size()});
    const std::string_view half = std::string_view(one_.artifact.bytes).substr(0, 100);
    RETURN_IF_ERROR(session_.program()->send({header, head, half}, limit_s_));
    session_.stop();
    return time(one_).status();
  }

  absl::Status ends() {
    RETURN_IF_ERROR(time(one_).status());
    int status = 0;
    if (!session_.program()->ends(limit_s_, &status)) {
      return wrong(absl::StrFormat("it still runs after %.3g s", limit_s_));
    }
    session_.stop();
    return status == 0 ? absl::OkStatus() : wrong(describe_death(status, nullptr));
  }

  static constexpr int64_t kId = 1000;     // beyond those of the session's own

  const std::string command_;
  const Target& target_;
  const double limit_s_;
  ExecSession session_;
  NpuSampleJob one_, other_;
  NpuProgramFacts facts_;
  exec::Greeting greeting_;
};

}  // namespace

absl::StatusOr<std::vector<DeviceCheck>> check_exec_device(const std::string& command,
                                                           const Target& target, double limit_s) {
  if (target.architecture != kNpuArchitecture) return check_board(command, target, limit_s);
  return Checker(command, target, limit_s).run();
}

}  // namespace lw
