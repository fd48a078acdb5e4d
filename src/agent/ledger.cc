// The rules of the protocol, as the agent keeps them (proto/loopwright/v1/agent.proto):
//
//   a lease runs from the moment its call was made, and each answered call that listed the job
//   begins it anew; a tenth before its end the agent stops by itself, because a server that has not
//   heard of it gives the job away, and what two agents report nobody can tell apart; a result
//   stays until its receipt, however many connections that takes; a job is known by its name and
//   epoch: the same one, arriving again, is no new work.
#include "src/agent/ledger.h"

#include <algorithm>
#include <limits>
#include <set>

#include "schedules/targets/target.h"
#include "src/agent/job.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/net/times.h"
#include "src/net/words.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kDefaultLease = 30;
constexpr double kMargin = 0.1;  // of the lease
constexpr size_t kMostResultBytes = 2 << 20;
constexpr size_t kMostResults = 64;   // of a request; servers take 256
constexpr size_t kRemembered = 1024;  // finished jobs
constexpr int kUnhealthyAfter = 3;    // failed jobs in a row

void log_job(Level level, std::string_view event, const v1::Job& job, std::string_view why = "") {
  log(level, event,
      {{"device", job.device()},
       {"job", job.name()},
       {"study", job.study()},
       {"epoch", job.epoch()},
       {"why", why}});
}

}  // namespace

Ledger::Ledger(LedgerOptions options, std::vector<DeviceBook> devices)
    : options_(std::move(options)), devices_(std::move(devices)), most_results_(kMostResults) {
  for (DeviceBook& book : devices_) complete(&book);
}

void Ledger::complete(DeviceBook* book) const {
  book->description.set_name(concat("devices/", book->spec.name));
  book->description.set_agent(options_.agent);
  book->description.set_slots(options_.slots);
  book->description.mutable_words()->Assign(known_words().begin(), known_words().end());
}

// ---- the conversation ---------------------------------------------------------------------------

v1::SynchronizeRequest Ledger::request(double wait_s, bool leaving) {
  v1::SynchronizeRequest request;
  request.set_agent(options_.agent);
  request.set_session(options_.session);
  request.set_version(options_.version);
  request.set_sequence(++sequence_);
  request.set_session_number(session_number_);
  request.set_leaving(leaving);
  if (wait_s > 0) *request.mutable_wait() = duration_of(wait_s);
  request.mutable_labels()->insert(options_.labels.begin(), options_.labels.end());
  size_t bytes = 0;
  std::map<Identity, std::string> later;  // and their devices
  for (Owed& owed : results_) {
    const size_t more = owed.result.ByteSizeLong();
    const size_t count = static_cast<size_t>(request.results_size());
    owed.sent = count < most_results_ && (count == 0 || bytes + more <= kMostResultBytes);
    if (!owed.sent) {
      later[{owed.result.job(), owed.result.epoch()}] = owed.device;
      continue;
    }
    bytes += more;
    *request.add_results() = owed.result;
  }
  sent_results_ = static_cast<size_t>(request.results_size());
  listed_.clear();
  for (DeviceBook& book : devices_) {
    v1::DeviceState& state = *request.add_devices();
    state.set_name(book.description.name());
    book.sent_revision = book.known_revision;
    if (describe_ || book.known_revision < book.revision) {
      *state.mutable_description() = book.description;
      book.sent_revision = book.revision;
    }
    for (const std::shared_ptr<HeldJob>& held : book.held) {
      v1::HeldJob& line = *state.add_held();
      line.set_job(held->job.name());
      line.set_epoch(held->job.epoch());
      line.set_phase(held->phase);
      listed_.insert({held->job.name(), held->job.epoch()});
    }
    for (const auto& [identity, device] : later) {
      if (device != book.description.name()) continue;
      v1::HeldJob& line = *state.add_held();
      line.set_job(identity.first);
      line.set_epoch(identity.second);
      line.set_phase(v1::JOB_PHASE_MEASURING);
    }
    state.set_wanted(leaving ? 0 : wanted(book));
    const bool sick = book.failures >= kUnhealthyAfter;
    state.set_health(sick             ? v1::DEVICE_HEALTH_UNHEALTHY
                     : book.throttled ? v1::DEVICE_HEALTH_THROTTLED
                                      : v1::DEVICE_HEALTH_OK);
    if (sick || book.throttled) state.set_health_detail(book.failure);
  }
  return request;
}

void Ledger::refuse(const std::string& why) {
  if (sent_results_ > 0) most_results_ = sent_results_ / 2;
  refusal_ = why;
}

// Without results the server takes what it refused with a single one: that one is at fault, and
// nothing else would ever get through. Its job is given back.
void Ledger::review_refusal() {
  if (most_results_ > 0 || results_.empty()) {
    most_results_ = std::min(kMostResults, 2 * std::max<size_t>(1, most_results_));
    return;
  }
  most_results_ = 1;
  Owed& owed = results_.front();
  log(Level::kError, "result_refused",
      {{"device", owed.device},
       {"job", owed.result.job()},
       {"bytes", static_cast<int64_t>(owed.result.ByteSizeLong())},
       {"why", refusal_}});
  if (owed.result.refusal() != v1::JOB_REFUSAL_UNSPECIFIED) {
    results_.pop_front();                  // not even that
    return;
  }
  v1::Job job;
  job.set_name(owed.result.job());
  job.set_epoch(owed.result.epoch());
  owed.result = refused_job(job, v1::JOB_REFUSAL_VERSION,
                            concat("the server refused its result of ", owed.result.ByteSizeLong(),
                                   " bytes: ", refusal_));
}

bool Ledger::apply(const v1::SynchronizeResponse& response, double sent_at) {
  describe_ = response.describe();
  if (response.has_lease()) lease_s_ = seconds_of(response.lease());
  if (response.session_number() > 0) session_number_ = response.session_number();
  review_refusal();
  for (const v1::Receipt& receipt : response.receipts()) take_receipt(receipt);
  for (DeviceBook& book : devices_) {
    book.known_revision = book.sent_revision;
    for (const std::shared_ptr<HeldJob>& held : book.held) {
      if (!listed_.contains({held->job.name(), held->job.epoch()})) continue;
      if (response.has_lease()) held->lease_s = seconds_of(response.lease());
      held->lease_until = std::max(held->lease_until, sent_at + held->lease_s);
      held->renewed_at = sent_at;
    }
    book.draining =
        std::find(response.draining_devices().begin(), response.draining_devices().end(),
                  book.description.name()) != response.draining_devices().end();
    const auto refused = response.refused_devices().find(book.description.name());
    const std::string why = refused == response.refused_devices().end() ? "" : refused->second;
    if (!why.empty() && why != book.refused) {
      log(Level::kError, "device_refused", {{"device", book.description.name()}, {"why", why}});
    }
    if (!why.empty()) book.refused = why;  // answers in between say nothing of it
  }
  for (const v1::CancelOrder& order : response.cancels()) cancel(order);
  for (const v1::Job& job : response.jobs()) take_job(job, sent_at);
  if (response.drain() != draining_) {
    draining_ = response.drain();
    log(Level::kInfo, draining_ ? "draining" : "undrained", {{"agent", options_.agent}});
  }
  return !response.receipts().empty() || !response.jobs().empty() || !response.cancels().empty() ||
         response.describe();
}

void Ledger::take_receipt(const v1::Receipt& receipt) {
  const auto it = std::find_if(results_.begin(), results_.end(), [&](const Owed& owed) {
    return owed.result.job() == receipt.job() && owed.result.epoch() == receipt.epoch();
  });
  if (it == results_.end()) return;
  const bool well =
      receipt.kind() == v1::RECEIPT_KIND_STORED || receipt.kind() == v1::RECEIPT_KIND_DUPLICATE;
  log(well ? Level::kDebug : Level::kWarning, well ? "result_stored" : "result_not_counted",
      {{"device", it->device},
       {"job", receipt.job()},
       {"study", it->study},
       {"epoch", receipt.epoch()},
       {"kind", v1::ReceiptKind_Name(receipt.kind())},
       {"why", receipt.detail()}});
  if (receipt.kind() != v1::RECEIPT_KIND_UNSPECIFIED) results_.erase(it);
}

void Ledger::take_job(const v1::Job& job, double sent_at) {
  const auto book = std::find_if(devices_.begin(), devices_.end(), [&](const DeviceBook& b) {
    return b.description.name() == job.device();
  });
  if (book == devices_.end()) {
    log_job(Level::kError, "job_for_another_device", job);
    return;
  }
  book->refused.clear();
  if (knows({job.name(), job.epoch()})) return;
  // A newer epoch of a job in hand: the older lease is over.
  std::erase_if(book->held, [&](const std::shared_ptr<HeldJob>& held) {
    if (held->job.name() != job.name()) return false;
    held->stop = true;
    return true;
  });
  std::shared_ptr<HeldJob> held = std::make_shared<HeldJob>();
  held->job = job;
  held->lease_s = job.has_lease() ? seconds_of(job.lease()) : kDefaultLease;
  held->lease_until = sent_at + held->lease_s;
  held->renewed_at = sent_at;
  const int cores = book->description.target().cores();
  book->quiet = book->spec.kind->takes_processors && job.threads() >= cores;
  book->held.push_back(std::move(held));
  log_job(Level::kInfo, "job_taken", job);
}

void Ledger::cancel(const v1::CancelOrder& order) {
  const auto is_it = [&](const std::string& job, int64_t epoch) {
    return job == order.job() && epoch == order.epoch();
  };
  for (DeviceBook& book : devices_) {
    std::erase_if(book.held, [&](const std::shared_ptr<HeldJob>& held) {
      if (!is_it(held->job.name(), held->job.epoch())) return false;
      held->stop = true;
      log_job(Level::kInfo, "job_cancelled", held->job, order.reason());
      return true;
    });
  }
  std::erase_if(results_,
                [&](const Owed& owed) { return is_it(owed.result.job(), owed.result.epoch()); });
}

void Ledger::expire(double now) {
  for (DeviceBook& book : devices_) {
    std::erase_if(book.held, [&](const std::shared_ptr<HeldJob>& held) {
      if (now < held->lease_until - kMargin * held->lease_s) return false;
      held->stop = true;
      log_job(Level::kWarning, "lease_lost", held->job, "it could not be renewed in time");
      return true;
    });
  }
}

// ---- the work -----------------------------------------------------------------------------------

std::shared_ptr<HeldJob> Ledger::next_job(size_t device) {
  for (const std::shared_ptr<HeldJob>& held : devices_[device].held) {
    if (held->running || held->stop) continue;
    held->running = true;
    return held;
  }
  return nullptr;
}

bool Ledger::finish(size_t device, const HeldJob& job, v1::JobResult result) {
  DeviceBook& book = devices_[device];
  const auto it = std::find_if(book.held.begin(), book.held.end(),
                               [&](const auto& held) { return held.get() == &job; });
  if (it == book.held.end()) return false;
  const bool failed = result.failure() != v1::VERDICT_UNSPECIFIED;
  const bool refused = result.refusal() != v1::JOB_REFUSAL_UNSPECIFIED;
  if (!refused) {                          // that tells nothing of the device
    const std::optional<Verdict> failure = from_proto(result.failure());
    book.throttled = failure == Verdict::kThrottled;
    book.failures = failure && blame_of(*failure) == Blame::kDevice ? book.failures + 1 : 0;
    book.failure = result.failure_detail();
  }
  log(failed || refused ? Level::kWarning : Level::kInfo,
      failed               ? "job_failed"
      : refused            ? "job_refused"
      : result.abandoned() ? "job_given_back"
                           : "job_finished",
      {{"device", job.job.device()},
       {"job", job.job.name()},
       {"study", job.job.study()},
       {"epoch", job.job.epoch()},
       {"outcomes", result.outcomes_size()},
       {"run_s", seconds_of(result.run_time())},
       {"why", result.failure_detail()}});
  owe(job.job, std::move(result));
  book.held.erase(it);
  return true;
}

void Ledger::redescribe(size_t device, v1::Device description) {
  DeviceBook& book = devices_[device];
  book.description = std::move(description);
  complete(&book);
  ++book.revision;
}

void Ledger::owe(const v1::Job& job, v1::JobResult result) {
  finished_.push_back({job.name(), job.epoch()});
  if (finished_.size() > kRemembered) finished_.pop_front();
  results_.push_back({std::move(result), job.device(), job.study()});
}

void Ledger::abandon_all() {
  for (DeviceBook& book : devices_) {
    std::erase_if(book.held, [&](const std::shared_ptr<HeldJob>& held) {
      held->stop = true;
      if (held->running) return false;  // its worker gives it back
      v1::JobResult result = failed_job(held->job, v1::VERDICT_UNSPECIFIED, "");
      result.set_abandoned(true);
      owe(held->job, std::move(result));
      return true;
    });
  }
}

void Ledger::stop_all() {
  for (DeviceBook& book : devices_) {
    for (const std::shared_ptr<HeldJob>& held : book.held) held->stop = true;
    book.held.clear();
  }
}

bool Ledger::knows(const Identity& identity) const {
  if (std::find(finished_.begin(), finished_.end(), identity) != finished_.end()) return true;
  for (const DeviceBook& book : devices_) {
    for (const std::shared_ptr<HeldJob>& held : book.held) {
      if (identity == Identity{held->job.name(), held->job.epoch()}) return true;
    }
  }
  return false;
}

// ---- what to do next ----------------------------------------------------------------------------

int Ledger::wanted(const DeviceBook& book) const {
  if (draining_ || book.draining) return 0;
  const int slots = options_.quiet_slots && book.quiet ? 1 : options_.slots;
  return std::max(0, slots - static_cast<int>(book.held.size()));
}

int Ledger::wanted() const {
  int sum = 0;
  for (const DeviceBook& book : devices_) sum += wanted(book);
  return sum;
}

bool Ledger::holds_jobs() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [](const DeviceBook& book) { return !book.held.empty(); });
}

bool Ledger::has_unsent_results() const {
  return std::any_of(results_.begin(), results_.end(), [](const Owed& owed) { return !owed.sent; });
}

double Ledger::renew_at() const {
  double at = std::numeric_limits<double>::infinity();
  for (const DeviceBook& book : devices_) {
    for (const auto& held : book.held) at = std::min(at, held->renewed_at + held->lease_s / 3);
  }
  return at;
}

double Ledger::shortest_lease() const {
  double lease = std::numeric_limits<double>::infinity();
  for (const DeviceBook& book : devices_) {
    for (const auto& held : book.held) lease = std::min(lease, held->lease_s);
  }
  return lease;
}

double Ledger::longest_wait() const { return std::min(shortest_lease() / 3, lease_s_ * 2 / 3); }

}  // namespace lw
