// A device that runs here, and one in a host process.
//
// A host may die of what it measures: the sandbox charges a candidate that kills its own worker,
// but not one that ends the host itself. When a host dies, what it had reported is kept, and the
// candidates that are left run one at a time on a new host: one that was alone twice with a host
// that died is at fault ("crash"), and nobody else is. A host that says nothing beyond the job's
// timeout is killed with its process group. Starting one takes about 60 ms.
#include "src/agent/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "src/agent/describe.h"
#include "src/agent/host.h"
#include "src/agent/job.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/measure/process/ipc.h"
#include "src/measure/process/sandbox.h"
#include "src/search/retry.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kRunnerPollSeconds = 0.05;
constexpr double kDescribePatience = 120;
constexpr double kGrace = 5;           // beyond a job's timeout, which the host itself keeps
constexpr double kStopPatience = 1.5;  // for a host that was told to stop

// ---- in this process ----------------------------------------------------------------------------

class LocalRunner : public DeviceRunner {
 public:
  explicit LocalRunner(const DeviceSpec& spec) : spec_(spec), bench_(spec) {}

  absl::StatusOr<v1::Device> describe(const std::string& state, bool refresh) override {
    return describe_device(spec_, state, refresh);
  }

  v1::JobResult run(const v1::Job& job, const RunHooks& hooks) override {
    std::map<int, v1::CandidateOutcome> outcomes;
    JobHooks inner;
    inner.phase = hooks.phase;
    inner.stopped = hooks.stopped;
    inner.outcome = [&](const v1::CandidateOutcome& outcome) {
      outcomes[outcome.index()] = outcome;
    };
    v1::JobResult result = bench_.run(job, inner);
    put_outcomes(outcomes, &result);
    return result;
  }

 private:
  const DeviceSpec spec_;
  JobBench bench_;
};

// ---- in a process of its own --------------------------------------------------------------------

// A host process; killed with all its children when destroyed.
class Host {
 public:
  static absl::StatusOr<std::unique_ptr<Host>> start(const DeviceSpec& spec,
                                                     std::vector<std::string> command) {
    std::pair<int, int> ends;
    ASSIGN_OR_RETURN(ends, socket_pair());
    command.insert(command.end(), {"--device", spec.text(), "--parent", std::to_string(getpid())});
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends.second, kHostSocket);
    std::unique_ptr<Host> host = std::make_unique<Host>();
    host->socket_ = ends.first;
    const int error =
        posix_spawn(&host->pid_, words[0], &actions, &attributes, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends.second);
    if (error != 0) {
      host->pid_ = -1;
      return absl::UnavailableError(
          concat("cannot start a device's process: ", std::strerror(error)));
    }
    return host;
  }

  ~Host() { bury(); }

  absl::Status send(HostMessage type, std::string_view payload) {
    return send_message(socket_, static_cast<uint32_t>(type), payload);
  }
  // kDeadlineExceeded: none has begun to arrive. One that has begun is read whole.
  absl::StatusOr<Message> receive(double timeout_s) {
    pollfd wait{socket_, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(timeout_s * 1e3));
    if (ready == 0 || (ready < 0 && errno == EINTR)) return absl::DeadlineExceededError("");
    absl::StatusOr<Message> message = receive_message(socket_, kRestOfMessage);
    if (message.ok()) return message;
    return absl::UnavailableError(std::string(message.status().message()));
  }

  // Ends it now; how it ended.
  std::string bury() {
    if (pid_ > 0) {
      kill(-pid_, SIGKILL);
      while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
      }
      kill(-pid_, SIGKILL);  // whoever was forked in between
    }
    pid_ = -1;
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
    return describe_death(status_, nullptr);
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  int status_ = 0;
};

class HostRunner : public DeviceRunner {
 public:
  HostRunner(const DeviceSpec& spec, std::vector<std::string> command)
      : spec_(spec), command_(std::move(command)) {}

  absl::StatusOr<v1::Device> describe(const std::string& state, bool refresh) override {
    host_.reset();  // what it prepared was for the machine as it was
    RETURN_IF_ERROR(ready());
    absl::Status sent =
        host_->send(HostMessage::kDescribe, Writer().put_string(state).put(refresh).bytes());
    absl::StatusOr<Message> answer =
        sent.ok() ? host_->receive(kDescribePatience) : absl::StatusOr<Message>(sent);
    if (!answer.ok()) {
      const std::string death = host_->bury();
      host_.reset();
      return absl::UnavailableError(
          concat("device ", spec_.name, " could not be described: its process ended: ", death));
    }
    v1::Device device;
    if (static_cast<HostMessage>(answer->type) != HostMessage::kDescribed ||
        !device.ParseFromString(answer->payload)) {
      return absl::FailedPreconditionError(concat("device ", spec_.name, ": ", answer->payload));
    }
    return device;
  }

  v1::JobResult run(const v1::Job& job, const RunHooks& hooks) override {
    Progress progress{job, now() + job_timeout(job) + kGrace, {}, {}, 0, {}};
    while (true) {
      const v1::Job part = what_is_left(progress);
      if (part.candidates().empty()) return whole(progress);
      Death death;
      progress.last = v1::JobResult();
      switch (exchange(part, hooks, &progress, &death)) {
        case Ending::kStopped: return given_back(job);
        case Ending::kOverdue:
          if (progress.outcomes.empty()) {
            return failed_job(job, v1::VERDICT_WORKER_LOST,
                              "nothing was measured in the job's time");
          }
          give_up(&progress);
          return whole(progress);
        case Ending::kFinished:
          if (progress.last.refusal() != v1::JOB_REFUSAL_UNSPECIFIED) {
            return refused_job(job, progress.last.refusal(), progress.last.failure_detail());
          }
          if (progress.last.abandoned()) return given_back(job);
          if (progress.last.failure() != v1::VERDICT_UNSPECIFIED) {
            progress.outcomes.clear();  // a job that failed charges nobody
            return whole(progress);
          }
          if (!lacks_any(part, progress)) continue;
          death.how = "it left candidates out";
          break;
        case Ending::kDied: break;
      }
      if (!survive(part, death, &progress)) {
        return failed_job(job, v1::VERDICT_WORKER_LOST,
                          concat("the device's process ended: ", death.how));
      }
    }
  }

 private:
  enum class Ending { kFinished, kDied, kOverdue, kStopped };

  struct Progress {
    const v1::Job& job;
    double deadline = 0;
    std::map<int, v1::CandidateOutcome> outcomes;
    std::map<int, int> deaths_alone;  // of a host with just this candidate
    int deaths = 0;
    v1::JobResult last;  // what the host said in the end
  };
  struct Death {
    std::string how;
    bool measuring = false;  // else no candidate had had its turn
  };

  // Candidates without an outcome; after a death only the first of them, but a comparison stays
  // whole.
  static v1::Job what_is_left(const Progress& progress) {
    v1::Job part = progress.job;
    part.clear_candidates();
    for (const v1::CandidateSpec& spec : progress.job.candidates()) {
      if (progress.outcomes.contains(spec.index())) continue;
      *part.add_candidates() = spec;
      if (progress.deaths > 0 && part.kind() == v1::JOB_KIND_MEASURE) break;
    }
    return part;
  }

  static bool lacks_any(const v1::Job& part, const Progress& progress) {
    for (const v1::CandidateSpec& spec : part.candidates()) {
      if (!progress.outcomes.contains(spec.index())) return true;
    }
    return false;
  }

  // Notes a host's death, charges who was alone with it twice; false: enough.
  bool survive(const v1::Job& part, const Death& death, Progress* progress) const {
    const v1::Job& job = progress->job;
    log(Level::kWarning, "device_host_died",
        {{"device", spec_.name},
         {"job", job.name()},
         {"study", job.study()},
         {"epoch", job.epoch()},
         {"how", death.how}});
    const bool apart = job.kind() == v1::JOB_KIND_MEASURE;
    const int tries = apart && death.measuring ? kHostTries : kWholeTries;
    if (++progress->deaths >= tries) return false;
    if (!apart || !death.measuring || part.candidates_size() > 1) return true;
    const int index = part.candidates(0).index();
    if (++progress->deaths_alone[index] < kAloneTries) return true;
    progress->outcomes[index] = failed_candidate(
        index, v1::VERDICT_CRASH, concat("ended the device's process, twice, alone: ", death.how));
    return true;
  }

  static void give_up(Progress* progress) {
    for (const v1::CandidateSpec& spec : progress->job.candidates()) {
      if (progress->outcomes.contains(spec.index())) continue;
      progress->outcomes[spec.index()] =
          failed_candidate(spec.index(), v1::VERDICT_WORKER_LOST,
                           "the device hung in another candidate, or in this one");
    }
  }

  static v1::JobResult given_back(const v1::Job& job) {
    v1::JobResult result = failed_job(job, v1::VERDICT_UNSPECIFIED, "");
    result.set_abandoned(true);
    return result;
  }

  static v1::JobResult whole(const Progress& progress) {
    v1::JobResult result = progress.last;
    result.set_job(progress.job.name());
    result.set_epoch(progress.job.epoch());
    put_outcomes(progress.outcomes, &result);
    return result;
  }

  absl::Status ready() {
    if (host_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(host_, Host::start(spec_, command_));
    return absl::OkStatus();
  }

  // Runs `job` on the host; without one afterwards unless it finished.
  Ending exchange(const v1::Job& job, const RunHooks& hooks, Progress* progress, Death* death) {
    absl::Status talk = ready();
    if (talk.ok()) talk = host_->send(HostMessage::kRun, job.SerializeAsString());
    Ending ending = Ending::kDied;
    double stop_until = 0;
    while (talk.ok()) {
      if (stop_until == 0 && hooks.stopped()) {
        stop_until = now() + kStopPatience;
        talk = host_->send(HostMessage::kStop, "");
        continue;
      }
      if (now() > progress->deadline) ending = Ending::kOverdue;
      if (stop_until > 0 && now() > stop_until) ending = Ending::kStopped;
      if (ending != Ending::kDied) break;
      const absl::StatusOr<Message> message = host_->receive(kRunnerPollSeconds);
      if (message.ok()) {
        if (take(*message, hooks, progress, death)) return Ending::kFinished;
      } else if (message.status().code() != absl::StatusCode::kDeadlineExceeded) {
        talk = message.status();
      }
    }
    death->how = host_ == nullptr ? std::string(talk.message()) : host_->bury();
    host_.reset();
    return stop_until > 0 ? Ending::kStopped : ending;
  }

  // Whether the job is finished.
  static bool take(const Message& message, const RunHooks& hooks, Progress* progress,
                   Death* death) {
    switch (static_cast<HostMessage>(message.type)) {
      case HostMessage::kPhase: {
        const v1::JobPhase phase =
            static_cast<v1::JobPhase>(Reader(message.payload).get<int32_t>());
        death->measuring = phase == v1::JOB_PHASE_MEASURING;
        hooks.phase(phase);
        return false;
      }
      case HostMessage::kOutcome: {
        v1::CandidateOutcome outcome;
        if (outcome.ParseFromString(message.payload)) progress->outcomes[outcome.index()] = outcome;
        return false;
      }
      case HostMessage::kFinished: return progress->last.ParseFromString(message.payload);
      default: return false;
    }
  }

  const DeviceSpec spec_;
  const std::vector<std::string> command_;
  std::unique_ptr<Host> host_;
};

}  // namespace

std::unique_ptr<DeviceRunner> make_device_runner(const DeviceSpec& spec,
                                                 std::vector<std::string> host_command) {
  if (spec.kind->in_process) return std::make_unique<LocalRunner>(spec);
  return std::make_unique<HostRunner>(spec, std::move(host_command));
}

}  // namespace lw
