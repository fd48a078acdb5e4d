// `device check` of a processor's lw_runner, on a kernel that doubles 64 numbers.
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/kernel/kernel.h"
#include "src/measure/exec/checks.h"
#include "src/measure/exec/runner_session.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/run/guarded.h"

namespace lw {
namespace {

constexpr char kDouble[] = R"(kernel twice arguments=2 variables=1 workspace=0 private=0 packed=0
buffer A f32 64 argument 0
buffer D f32 64 argument 1 written
registers f32x16 2
body {
  for v0 < 4 {
    r0 = load A[16*v0] stride 1
    r1 = add r0, r0
    store D[16*v0] = r1 stride 1
  }
}
)";
// Into what may not be written.
constexpr char kWild[] = R"(kernel wild arguments=2 variables=0 workspace=0 private=0 packed=0
buffer A f32 64 argument 0 written
buffer D f32 64 argument 1 written
registers f32x16 1
body {
  r0 = const 0
  store A[0] = r0 stride 1
}
)";
constexpr size_t kNumbers = 64;

class BoardChecker : private DeviceChecks {
 public:
  BoardChecker(const std::string& command, const Target& target, double limit_s)
      : command_(command), target_(target), limit_s_(limit_s), session_(command, target.architecture) {
    std::vector<float> numbers(kNumbers);
    std::iota(numbers.begin(), numbers.end(), -8.5f);
    a_ = bytes_of(numbers);
    for (float& number : numbers) number += number;
    d_ = bytes_of(numbers);
    a_.resize(static_cast<size_t>(pages_for(static_cast<int64_t>(a_.size()))), '\xff');
  }

  absl::StatusOr<std::vector<DeviceCheck>> run() {
    ASSIGN_OR_RETURN(double_, image_of(kDouble));
    ASSIGN_OR_RETURN(wild_, image_of(kWild));
    check("greets", "a greeting is answered, in this version", &BoardChecker::greets);
    check("computes", "twice the numbers that it is given", &BoardChecker::computes);
    check("times", "samples that fit into the time that passes", &BoardChecker::times);
    check("crashes", "who writes into an input is told of; it lives on", &BoardChecker::crashes);
    check("once", "one answer to a request, and nothing after it", &BoardChecker::once);
    check("pieces", "requests that arrive byte by byte", &BoardChecker::pieces);
    check("broken-program", "half a job is refused; it lives on", &BoardChecker::broken_program);
    check("no-frame", "bytes that are no frame: a refusal, or its end", &BoardChecker::no_frame);
    check("stateless", "killed within a job, the next process does it", &BoardChecker::stateless);
    check("ends", "by itself, with status 0, when its input does", &BoardChecker::ends);
    return take();
  }

 private:
  struct Built {
    Artifact artifact;
    FlatImage image;
  };

  void check(const char* name, const char* asks, absl::Status (BoardChecker::*body)()) {
    add(name, asks, [&] { return (this->*body)(); });
  }

  static std::string bytes_of(const std::vector<float>& numbers) {
    return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  }

  absl::StatusOr<Built> image_of(const char* text) const {
    ASSIGN_OR_RETURN(const Kernel kernel, parse_kernel(text));
    ASSIGN_OR_RETURN(const Backend* const backend, find_backend(target_.architecture));
    Built built;
    ASSIGN_OR_RETURN(built.artifact, backend->build(kernel, target_));
    ASSIGN_OR_RETURN(built.image, link_flat(built.artifact, kImageBase));
    return built;
  }

  runner::Job job_of(const Built& built) const {
    runner::Job job;
    job.codes = {make_code(built.artifact, built.image, 1)};
    const uint64_t bytes = kNumbers * sizeof(float);
    job.arguments = {{a_.size(), 0, bytes, false, a_}, {a_.size(), 0, bytes, true, {}}};
    return job;
  }

  absl::StatusOr<RunnerAnswer> ask(const runner::Job& job) {
    RETURN_IF_ERROR(session_.greet(limit_s_).status());
    return session_.ask(job, limit_s_);
  }

  // That these are the sums, and what was sampled on the way.
  absl::Status is_right(const RunnerAnswer& answer, std::vector<runner::Result::Times>* times) const {
    if (answer.type == runner::Frame::kRefusal) return wrong("it refuses: " + answer.payload);
    if (answer.type == runner::Frame::kCrash) return wrong("the kernel crashes");
    const std::optional<runner::Result> result = runner::decode_result(answer.payload);
    if (!result || result->outputs.size() != 1) return wrong("its answer makes no sense");
    if (result->code != 0 || !result->intact) return wrong("the kernel is not run as it is to be");
    if (result->outputs[0].substr(0, d_.size()) != d_) return wrong("the numbers are not those");
    if (times != nullptr) *times = result->times;
    return absl::OkStatus();
  }

  absl::Status greets() {
    ASSIGN_OR_RETURN(greeting_, session_.greet(limit_s_));
    seen_ = concat(greeting_.machine, greeting_.cpu.empty() ? "" : " ", greeting_.cpu, ", ",
                   greeting_.processors, " processors, ", greeting_.system,
                   greeting_.emulator.empty() ? "" : ", emulated by ", greeting_.emulator);
    return absl::OkStatus();
  }

  absl::Status computes() {
    ASSIGN_OR_RETURN(const RunnerAnswer answer, ask(job_of(double_)));
    return is_right(answer, nullptr);
  }

  absl::Status times() {
    if (!greeting_.emulator.empty()) {
      return absl::CancelledError("an emulator runs it, whose clock is not read");
    }
    runner::Job job = job_of(double_);
    job.timed = true;
    const double begin = now();
    ASSIGN_OR_RETURN(const RunnerAnswer answer, ask(job));
    const double wall_us = (now() - begin) * 1e6;
    std::vector<runner::Result::Times> times;
    RETURN_IF_ERROR(is_right(answer, &times));
    if (times.size() != 1 || times[0].samples_us.empty()) return wrong("no samples");
    double sum_us = 0;
    for (const double us : times[0].samples_us) {
      if (!(us > 0)) return wrong(absl::StrFormat("a sample of %.6g us", us));
      sum_us += us * static_cast<double>(times[0].inner);
    }
    if (!(sum_us <= wall_us)) {
      return wrong(absl::StrFormat("samples of %.6g us in a request of %.6g us", sum_us, wall_us));
    }
    seen_ = absl::StrFormat("%d samples of %d calls, %.4g us a call", times[0].samples_us.size(),
                            times[0].inner, times[0].samples_us[0]);
    return absl::OkStatus();
  }

  absl::Status crashes() {
    ASSIGN_OR_RETURN(const RunnerAnswer answer, ask(job_of(wild_)));
    const std::optional<runner::Crash> crash = runner::decode_crash(answer.payload);
    if (answer.type != runner::Frame::kCrash || !crash) return wrong("it is not told of");
    const auto hit = std::find_if(
        crash->regions.begin(), crash->regions.end(), [&](const runner::Region& r) {
          return crash->address >= r.low && crash->address < r.high;
        });
    if (hit == crash->regions.end() || hit->argument != 0) return wrong("nor where");
    seen_ = concat(signal_name(crash->signal), crash->wrote ? ": write" : ": read");
    return lives();
  }

  // The same process still computes.
  absl::Status lives() {
    if (session_.program() == nullptr) return wrong("it has ended");
    return computes();
  }

  absl::Status once() {
    for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(computes());
    if (!session_.program()->has_input(kQuiet)) return absl::OkStatus();
    return wrong("something comes after its last answer");
  }

  static std::string framed(const runner::Job& job) {
    const std::string payload = runner::encode_job(job);
    return runner::encode_header(
               {.type = runner::Frame::kJob, .bytes = payload.size()}) + payload;
  }

  absl::Status pieces() {
    RETURN_IF_ERROR(session_.greet(limit_s_).status());
    RETURN_IF_ERROR(session_.program()->send({framed(job_of(double_))}, limit_s_, /*piece=*/1));
    ASSIGN_OR_RETURN(const RunnerAnswer answer,
                     RunnerSession::receive(*session_.program(), runner::kMaxPayload, limit_s_));
    return is_right(answer, nullptr);
  }

  absl::Status broken_program() {
    RETURN_IF_ERROR(session_.greet(limit_s_).status());
    const std::string payload = runner::encode_job(job_of(double_));
    ASSIGN_OR_RETURN(const RunnerAnswer answer,
                     session_.ask(runner::Frame::kJob,
                                  {std::string_view(payload).substr(0, payload.size() / 2)},
                                  runner::kMaxPayload, limit_s_));
    if (answer.type != runner::Frame::kRefusal) return wrong("it takes half a job for a whole one");
    seen_ = answer.payload;
    return lives();
  }

  absl::Status no_frame() {
    absl::StatusOr<std::unique_ptr<ExecProgram>> program =
        ExecProgram::start(command_, RunnerSession::magic());
    RETURN_IF_ERROR(program.status());
    RETURN_IF_ERROR((*program)->send({"GET / HTTP/1.1\r\nHost: device\r\n\r\n"}, limit_s_));
    const absl::StatusOr<RunnerAnswer> answer =
        RunnerSession::receive(**program, runner::kMaxPayload, limit_s_);
    if (answer.ok() && answer->type != runner::Frame::kRefusal) return wrong("it answers");
    if (!answer.ok() && (*program)->pid() >= 0) return answer.status();
    seen_ = answer.ok() ? answer->payload : std::string(answer.status().message());
    return absl::OkStatus();
  }

  absl::Status stateless() {
    RETURN_IF_ERROR(session_.greet(limit_s_).status());
    const std::string frame = framed(job_of(double_));
    RETURN_IF_ERROR(session_.program()->send({std::string_view(frame).substr(0, 100)}, limit_s_));
    session_.stop();
    return computes();
  }

  absl::Status ends() {
    RETURN_IF_ERROR(computes());
    int status = 0;
    if (!session_.program()->ends(limit_s_, &status)) {
      return wrong(absl::StrFormat("it still runs after %.3g s", limit_s_));
    }
    session_.stop();
    return status == 0 ? absl::OkStatus() : wrong(describe_death(status, nullptr));
  }

  const std::string command_;
  const Target& target_;
  const double limit_s_;
  RunnerSession session_;
  Built double_, wild_;
  std::string a_, d_;                      // an argument's pages; what is to come of it
  runner::Greeting greeting_;
};

}  // namespace

absl::StatusOr<std::vector<DeviceCheck>> check_board(const std::string& command,
                                                     const Target& target, double limit_s) {
  return BoardChecker(command, target, limit_s).run();
}

}  // namespace lw
