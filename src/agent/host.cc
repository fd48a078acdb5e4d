#include "src/agent/host.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "src/agent/describe.h"
#include "src/agent/job.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/measure/machine/device_lock.h"
#include "src/measure/process/ipc.h"
#include "src/measure/process/sandbox.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kLockTries = 20;         // a host that was killed may still be about to let go
constexpr std::chrono::milliseconds kLockPause(100);

absl::Status send(HostMessage type, std::string_view payload) {
  return send_message(kHostSocket, static_cast<uint32_t>(type), payload);
}

bool readable() {
  pollfd wait{kHostSocket, POLLIN, 0};
  return poll(&wait, 1, 0) > 0;
}

absl::StatusOr<std::vector<DeviceLock>> lock_device(const DeviceSpec& spec) {
  std::vector<DeviceLock> locks;
  if (spec.kind->locks == nullptr) return locks;
  for (const std::string& name : spec.kind->locks(spec)) {
    absl::StatusOr<DeviceLock> lock = absl::UnavailableError("");
    for (int i = 0; i < kLockTries && absl::IsUnavailable(lock.status()); ++i) {
      if (i > 0) std::this_thread::sleep_for(kLockPause);
      lock = DeviceLock::acquire(name);
    }
    if (absl::IsFailedPrecondition(lock.status())) {  // nowhere to lock: as without
      log(Level::kWarning, "device_not_locked",
          {{"device", spec.name}, {"why", std::string(lock.status().message())}});
      continue;
    }
    if (!lock.ok()) return lock.status();
    locks.push_back(*std::move(lock));
  }
  return locks;
}

absl::Status refuse(HostMessage asked, const std::string& request, std::string_view why) {
  if (asked == HostMessage::kDescribe) return send(HostMessage::kFailed, why);
  v1::Job job;
  if (asked != HostMessage::kRun || !job.ParseFromString(request)) return absl::OkStatus();
  const v1::JobResult result = failed_job(job, v1::VERDICT_DEVICE_UNHEALTHY, std::string(why));
  return send(HostMessage::kFinished, result.SerializeAsString());
}

absl::Status describe(const DeviceSpec& spec, const std::string& request) {
  Reader reader(request);
  const std::string state = reader.get_string();
  const bool refresh = reader.get<bool>();
  const absl::StatusOr<v1::Device> device = describe_device(spec, state, refresh);
  if (!device.ok()) {
    return send(HostMessage::kFailed, std::string(device.status().message()));
  }
  return send(HostMessage::kDescribed, device->SerializeAsString());
}

absl::Status run(JobBench& bench, const std::string& request) {
  v1::Job job;
  if (!job.ParseFromString(request)) return absl::InternalError("no job");
  absl::Status talk = absl::OkStatus();
  const auto tell = [&talk](HostMessage type, std::string_view payload) {
    if (talk.ok()) talk = send(type, payload);
  };
  bool stopped = false;
  JobHooks hooks;
  hooks.phase = [&](v1::JobPhase phase) {
    tell(HostMessage::kPhase, Writer().put(static_cast<int32_t>(phase)).bytes());
  };
  hooks.outcome = [&](const v1::CandidateOutcome& outcome) {
    tell(HostMessage::kOutcome, outcome.SerializeAsString());
  };
  // The agent sends nothing but kStop while a job runs; a closed socket stops it as well.
  hooks.stopped = [&] {
    if (!stopped && readable()) {
      stopped = true;
      const absl::StatusOr<Message> message = receive_message(kHostSocket, kRestOfMessage);
      if (!message.ok()) talk = message.status();
    }
    return stopped || !talk.ok();
  };
  const v1::JobResult result = bench.run(job, hooks);
  tell(HostMessage::kFinished, result.SerializeAsString());
  return talk;
}

}  // namespace

int device_host_main(const std::string& device, pid_t parent) {
  die_with_parent(parent);
  prctl(PR_SET_NAME, "lw-device");
  signal(SIGINT, SIG_IGN);  // the agent decides what an interrupt means
  signal(SIGTERM, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  close_descriptors_but({kHostSocket});
  fcntl(kHostSocket, F_SETFD, FD_CLOEXEC);
  const absl::StatusOr<DeviceSpec> spec = parse_device(device);
  if (!spec.ok()) {
    log(Level::kError, "device_host_refused", {{"why", std::string(spec.status().message())}});
    return 1;
  }
  if (!spec->cpus.empty() && !pin_to(spec->cpus)) {
    log(Level::kWarning, "device_not_pinned", {{"device", spec->name}});
  }
  absl::StatusOr<std::vector<DeviceLock>> locks = lock_device(*spec);
  JobBench bench(*spec);
  while (true) {
    const absl::StatusOr<Message> request = receive_message(kHostSocket);
    if (!request.ok()) return 0;
    if (!locks.ok()) locks = lock_device(*spec);
    if (!locks.ok()) {
      const HostMessage asked = static_cast<HostMessage>(request->type);
      const std::string why(locks.status().message());
      if (!refuse(asked, request->payload, why).ok()) return 0;
      continue;
    }
    absl::Status served = absl::OkStatus();  // a late kStop: its job was finished already
    switch (static_cast<HostMessage>(request->type)) {
      case HostMessage::kDescribe: served = describe(*spec, request->payload); break;
      case HostMessage::kRun: served = run(bench, request->payload); break;
      default: break;
    }
    if (!served.ok()) return 0;
  }
}

}  // namespace lw
