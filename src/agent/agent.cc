// The loop of an agent. At most one call is under way. While it has nothing to say it is a long
// one, held by the server until there is work or a job is to be cancelled; a result that becomes
// ready meanwhile cancels it and goes out at once (an answer lost by that is asked for again: the
// server sees that the job is not listed). While jobs are held, calls come at least every third of
// a lease. A call that fails is made again after a pause that doubles, with a spread of 30 % so that
// a fleet does not return in step.
#include "src/agent/agent.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>

#include "absl/strings/str_format.h"
#include "loopwright/v1/agent.grpc.pb.h"
#include "schedules/targets/target.h"
#include "src/agent/describe.h"
#include "src/agent/job.h"
#include "src/agent/ledger.h"
#include "src/agent/runner.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/base/rng.h"
#include "src/net/times.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kTick = 0.1;         // signals and leases are looked at so often
constexpr double kPause = 1;          // after an answer that brought nothing, at once
constexpr double kRest = 10;          // with nothing to ask for
constexpr double kCallPatience = 10;  // of an answer that need not wait
constexpr double kSpread = 0.3;
constexpr int kMostSlots = 16;  // servers refuse to give more at once
constexpr double kRepeatWarning = 60;

std::string make_uuid() {
  const uint64_t high = entropy(), low = entropy();
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%012x", high >> 32, (high >> 16) & 0xFFFF,
                         high & 0xFFF, 0x8000 | ((low >> 48) & 0x3FFF), low & 0xFFFFFFFFFFFF);
}

// One agent a state folder: two of one name would end each other's sessions for ever.
class FolderLock {
 public:
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }
  absl::Status take(const std::string& folder, const std::string& agent) {
    if (folder.empty()) return absl::OkStatus();
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    const std::string path = concat(folder, "/", agent, ".lock");
    fd_ = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (fd_ < 0) {
      log(Level::kWarning, "state_not_kept", {{"path", path}, {"why", std::strerror(errno)}});
      return absl::OkStatus();
    }
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
    return absl::AlreadyExistsError(
        concat("agent ", agent, " is running already (", path, "); another needs --name"));
  }

 private:
  int fd_ = -1;
};

void log_device(std::string_view event, const v1::Device& device) {
  log(Level::kInfo, event,
      {{"device", device.name()},
       {"kind", device.kind()},
       {"target", device.target().name()},
       {"cores", device.target().cores()},
       {"fingerprint", device.fingerprint().substr(0, 16)}});
}

class Agent {
 public:
  Agent(const AgentOptions& options, std::string id, std::vector<DeviceSpec> specs,
        ServerGroup servers)
      : options_(options),
        id_(std::move(id)),
        specs_(std::move(specs)),
        servers_(std::move(servers)),
        stub_(v1::AgentService::NewStub(servers_.channel())),
        rng_(entropy()) {}

  ~Agent() {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      stop_ = true;
      if (ledger_ != nullptr) ledger_->stop_all();
      changed_.notify_all();
      if (call_ != nullptr) call_->context.TryCancel();
      changed_.wait(lock, [&] { return call_ == nullptr || call_->done; });
    }
    queue_.Shutdown();
    answers_.join();
    for (std::thread& worker : workers_) worker.join();
  }

  absl::Status run() {
    RETURN_IF_ERROR(start());
    std::unique_lock<std::mutex> lock(mutex_);
    idle_since_ = now();
    while (true) {
      look_at_signals();
      ledger_->expire(now());
      if (call_ != nullptr && call_->done) RETURN_IF_ERROR(take_answer());
      if (said_goodbye_) return absl::OkStatus();
      RETURN_IF_ERROR(look_at_the_clock());
      if (call_ == nullptr && (now() >= call_at_ || (urgent() && failures_ == 0))) begin_call();
      if (call_ != nullptr && call_->waits && !call_->cancelled && urgent()) {
        call_->cancelled = true;
        call_->context.TryCancel();
      }
      changed_.wait_for(lock, std::chrono::duration<double>(kTick));
    }
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::SynchronizeRequest request;
    v1::SynchronizeResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::SynchronizeResponse>> reader;
    double sent_at = 0, wait_s = 0;
    bool waits = false, cancelled = false, done = false;
  };

  // ---- devices ----

  // Starts every device's thread and waits until each has described its device, one after the
  // other: they would disturb each other's measurements.
  absl::Status start() {
    std::unique_lock<std::mutex> lock(mutex_);
    books_.resize(specs_.size());
    for (size_t i = 0; i < specs_.size(); ++i) workers_.emplace_back([this, i] { work(i); });
    changed_.wait(lock, [&] { return described_ == specs_.size() || !trouble_.ok(); });
    RETURN_IF_ERROR(trouble_);
    LedgerOptions ledger;
    ledger.agent = concat("agents/", id_);
    ledger.session = make_uuid();
    ledger.version = options_.version;
    ledger.labels = options_.labels;
    ledger.slots = options_.slots;
    ledger.quiet_slots = is_loopback(options_.server.address);
    log(Level::kInfo, "agent_started",
        {{"agent", ledger.agent},
         {"session", ledger.session},
         {"version", options_.version},
         {"server", options_.server.address},
         {"devices", specs_.size()}});
    ledger_ = std::make_unique<Ledger>(std::move(ledger), std::move(books_));
    changed_.notify_all();
    return absl::OkStatus();
  }

  // A device's thread. Its process is started by it and ends with it.
  void work(size_t device) {
    const std::unique_ptr<DeviceRunner> runner =
        make_device_runner(specs_[device], options_.host_command);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || described_ == device; });
    if (stop_) return;
    lock.unlock();
    absl::StatusOr<v1::Device> description =
        runner->describe(options_.state, options_.describe_anew);
    lock.lock();
    std::string known;
    if (description.ok()) {
      log_device("device_described", *description);
      known = fingerprint(specs_[device]);  // as this process sees it
      books_[device].spec = specs_[device];
      books_[device].description = *std::move(description);
      ++described_;
    } else {
      trouble_ = description.status();
    }
    changed_.notify_all();
    double looked_at = now();
    while (true) {
      std::shared_ptr<HeldJob> job;
      changed_.wait(lock, [&] {
        return stop_ || (ledger_ != nullptr && (job = ledger_->next_job(device)) != nullptr);
      });
      if (stop_) return;
      lock.unlock();
      if (now() >= looked_at + options_.look_s) {
        looked_at = now();
        look_again(device, *runner, &known);
      }
      v1::JobResult result = runner->run(job->job, hooks_of(job));
      lock.lock();
      ledger_->finish(device, *job, std::move(result));
      changed_.notify_all();
    }
  }

  // A machine that has changed under us (microcode, processors) is another device in all but name:
  // it is described again, and the server hears of it before it gets what was measured there.
  // REQUIRES: the lock is not held.
  void look_again(size_t device, DeviceRunner& runner, std::string* known) {
    std::string seen = fingerprint(specs_[device]);
    if (seen == *known) return;
    absl::StatusOr<v1::Device> description = runner.describe(options_.state, /*refresh=*/false);
    if (!description.ok()) {
      log(Level::kWarning, "device_not_described",
          {{"device", specs_[device].name}, {"why", std::string(description.status().message())}});
      return;
    }
    *known = std::move(seen);
    log_device("device_epoch", *description);
    std::lock_guard<std::mutex> lock(mutex_);
    ledger_->redescribe(device, *std::move(description));
  }

  RunHooks hooks_of(const std::shared_ptr<HeldJob>& job) {
    RunHooks hooks;
    hooks.stopped = [job] { return job->stop.load(); };
    hooks.phase = [this, job](v1::JobPhase phase) {
      std::lock_guard<std::mutex> lock(mutex_);
      job->phase = phase;
    };
    return hooks;
  }

  // ---- what is going on; REQUIRES: the lock is held ----

  void look_at_signals() {
    const int interrupts = options_.interrupts();
    if (interrupts >= 1 && !leaving_) leave("asked to");
    if (interrupts >= 2 && !gave_back_) {
      gave_back_ = true;
      ledger_->abandon_all();
      changed_.notify_all();
    }
  }

  void leave(std::string_view why) {
    leaving_ = true;
    news_ = true;
    log(Level::kInfo, "leaving", {{"agent", concat("agents/", id_)}, {"why", why}});
  }

  absl::Status look_at_the_clock() {
    if (ledger_->holds_jobs() || ledger_->results() > 0) idle_since_ = now();
    if (options_.once_s > 0 && !leaving_ && now() - idle_since_ > options_.once_s) {
      leave("no work");
    }
    if (!leaving_ || ledger_->holds_jobs()) {
      leaving_since_ = std::numeric_limits<double>::infinity();
      return absl::OkStatus();
    }
    leaving_since_ = std::min(leaving_since_, now());
    if (now() - leaving_since_ < options_.leave_s) return absl::OkStatus();
    return absl::UnavailableError(
        concat("left without a word to the server: ", last_error_,
               ledger_->results() > 0 ? "; results are lost: " : "",
               ledger_->results() > 0 ? std::to_string(ledger_->results()) : ""));
  }

  // Whether the server may have something to say at any time: work, or that work is not wanted any
  // more.
  bool listens() const { return ledger_->wanted() > 0 || ledger_->holds_jobs(); }

  // Whether something should be said now rather than at the next occasion.
  bool urgent() const { return news_ || ledger_->has_unsent_results(); }

  // ---- calls; REQUIRES: the lock is held ----

  void begin_call() {
    // What is owed wants its receipt now.
    const bool heard = failures_ == 0;     // else that the server answers is the news
    const bool may_wait =
        heard && !leaving_ && !urgent() && ledger_->results() == 0 && listens();
    const double lease = ledger_->shortest_lease();
    call_ = std::make_shared<Call>();
    call_->wait_s = may_wait ? std::min(options_.wait_s, ledger_->longest_wait()) : 0;
    call_->waits = may_wait;
    call_->request = ledger_->request(call_->wait_s, leaving_);
    call_->sent_at = now();
    news_ = false;
    // An answer later than two thirds of the lease renews nothing in time.
    const double patience = std::clamp(lease / 3, 0.5, kCallPatience);
    call_->context.set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::milliseconds(static_cast<int64_t>((call_->wait_s + patience) * 1e3)));
    call_->reader = stub_->AsyncSynchronize(&call_->context, call_->request, &queue_);
    call_->reader->Finish(&call_->response, &call_->status, new std::shared_ptr<Call>(call_));
  }

  // A thread of its own. (gRPC 1.51's callbacks would do, but its threads for them now and then
  // abort when the last channel goes: "nexting_thread", assertion prior > 0.)
  void await_answers() {
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) {
      const std::unique_ptr<std::shared_ptr<Call>> call(static_cast<std::shared_ptr<Call>*>(tag));
      std::lock_guard<std::mutex> lock(mutex_);
      (*call)->done = true;
      changed_.notify_all();
    }
  }

  absl::Status take_answer() {
    const std::shared_ptr<Call> call = std::exchange(call_, nullptr);
    if (!call->status.ok()) return take_failure(*call);
    if (failures_ > 0 || !connected_) {
      log(Level::kInfo, "connected", {{"server", servers_.server().address}});
    }
    connected_ = true;
    failures_ = 0;
    const bool brought = ledger_->apply(call->response, call->sent_at);
    changed_.notify_all();  // jobs for the workers
    if (leaving_ && call->request.leaving() && !ledger_->holds_jobs() && ledger_->results() == 0) {
      said_goodbye_ = true;
      return absl::OkStatus();
    }
    // A server's word is not taken for years.
    const double next =
        std::clamp(seconds_of(call->response.next()), 0.0, options_.most_asked_s);
    const double took = now() - call->sent_at;
    double pause = next > 0 ? next : kPause;
    if (listens() && !leaving_) {
      // The server held the call, or had work: it may have more.
      if (brought || (call->waits && took > call->wait_s / 2)) pause = 0;
    } else {
      pause = next > 0 ? next : kRest;
      if (leaving_ && !ledger_->holds_jobs()) pause = std::min(pause, kPause);
    }
    call_at_ = std::min(now() + pause, ledger_->renew_at());
    return absl::OkStatus();
  }

  // Ends the agent only where trying again cannot help.
  absl::Status take_failure(const Call& call) {
    const grpc::Status& status = call.status;
    if (call.cancelled && status.error_code() == grpc::StatusCode::CANCELLED) {
      call_at_ = 0;
      return absl::OkStatus();
    }
    const CallError error = explain(status);
    last_error_ = describe_error(servers_.server(), status);
    if (error.reason == "SESSION_REPLACED") {
      return absl::AbortedError(
          concat("another run of agents/", id_, " has taken over: ", status.error_message(),
                 "; two agents at once need names of their own (--name)"));
    }
    const bool hopeless = status.error_code() == grpc::StatusCode::UNIMPLEMENTED ||
                          status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                          status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
                          (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT &&
                           error.reason != "TOO_LARGE");
    if (hopeless && !connected_) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()), last_error_);
    }
    // gRPC itself says the latter, without a reason, of a message above the server's limit.
    const bool never = status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
                       (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
                        error.reason.empty());
    if (never) ledger_->refuse(status.error_message());
    ++failures_;
    const double doubled =
        options_.backoff_s * static_cast<double>(int64_t{1} << std::min(failures_ - 1, 30));
    double pause = std::min(doubled, options_.most_backoff_s);
    pause = std::max(pause * (1 + kSpread * (2 * rng_.uniform() - 1)),
                     std::clamp(error.retry_after_s, 0.0, options_.most_asked_s));
    call_at_ = now() + pause;
    if (last_error_ != warned_of_ || now() - warned_at_ > kRepeatWarning) {
      log(Level::kWarning, "call_failed",
          {{"server", servers_.server().address},
           {"code", static_cast<int>(status.error_code())},
           {"reason", error.reason},
           {"retry_s", pause},
           {"why", last_error_}});
      warned_of_ = last_error_;
      warned_at_ = now();
    }
    // Another server may be of the version that fits.
    const bool elsewhere = is_away(status) || error.reason == "VERSION_UNSUPPORTED";
    if (elsewhere && servers_.size() > 1) {
      servers_.next();
      stub_ = v1::AgentService::NewStub(servers_.channel());
    }
    return absl::OkStatus();
  }

  const AgentOptions& options_;
  const std::string id_;
  const std::vector<DeviceSpec> specs_;
  ServerGroup servers_;
  std::unique_ptr<v1::AgentService::Stub> stub_;  // of the one that is spoken to

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stop_ = false;
  size_t described_ = 0;
  absl::Status trouble_ = absl::OkStatus();
  std::vector<DeviceBook> books_;  // until the ledger has them
  std::unique_ptr<Ledger> ledger_;
  std::shared_ptr<Call> call_;
  double call_at_ = 0, idle_since_ = 0;
  double leaving_since_ = std::numeric_limits<double>::infinity();
  bool news_ = false, leaving_ = false, gave_back_ = false, said_goodbye_ = false;
  bool connected_ = false;
  int failures_ = 0;
  std::string last_error_ = "no answer yet", warned_of_;
  double warned_at_ = 0;
  Rng rng_;
  grpc::CompletionQueue queue_;
  std::vector<std::thread> workers_;
  std::thread answers_ = std::thread([this] { await_answers(); });  // last: it uses all above
};

}  // namespace

absl::Status run_agent(const AgentOptions& options) {
  if (options.slots < 1 || options.slots > kMostSlots) {
    return absl::InvalidArgumentError(
        concat("slots must be 1 to ", kMostSlots, ", not ", options.slots));
  }
  std::string id = options.name;
  if (id.empty()) {
    ASSIGN_OR_RETURN(id, agent_id(options.state));
  } else if (!is_resource_id(id)) {
    return absl::InvalidArgumentError(
        concat("'", id, "' is no name: 1 to 63 of a-z 0-9 . _ -, a letter or digit first"));
  }
  std::vector<DeviceSpec> specs;
  for (const std::string& text : options.devices) {
    ASSIGN_OR_RETURN(DeviceSpec spec, parse_device(text, options.target));
    const IsolationLevel wanted = spec.isolation.value_or(options.isolation);
    if (!spec.kind->shuts_in && wanted > IsolationLevel::kNone) {
      return absl::InvalidArgumentError(
          concat("--device ", text, ": isolation '", isolation_name(wanted), "' is required, and ",
                 spec.kind->name, " runs candidates with all rights of this user; with ",
                 "isolation=none after its name that is meant"));
    }
    if (spec.kind->takes_processors) spec.isolation = wanted;
    specs.push_back(std::move(spec));
  }
  if (specs.empty()) return absl::InvalidArgumentError("an agent needs a device");
  RETURN_IF_ERROR(assign_devices(id, allowed_cpus(), &specs));
  ASSIGN_OR_RETURN(ServerGroup servers, ServerGroup::open(options.server));
  FolderLock lock;
  RETURN_IF_ERROR(lock.take(options.state, id));
  Agent agent(options, id, std::move(specs), std::move(servers));
  return agent.run();
}

}  // namespace lw
