// What an agent holds and owes: jobs under leases, results without a receipt. Pure bookkeeping:
// time is an argument, nothing is sent or run here. Not thread-safe: the agent guards it.
#pragma once

#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "loopwright/v1/agent.pb.h"
#include "src/agent/device.h"

namespace lw {

// A job in hand. The worker that runs it holds it too, and looks at `stop`.
struct HeldJob {
  loopwright::v1::Job job;
  double lease_s = 0;
  double renewed_at = 0;   // when the call was made that did it
  double lease_until = 0;  // on the monotonic clock
  loopwright::v1::JobPhase phase = loopwright::v1::JOB_PHASE_WAITING;
  bool running = false;
  std::atomic<bool> stop = false;
};

struct DeviceBook {
  DeviceSpec spec;
  loopwright::v1::Device description;
  std::deque<std::shared_ptr<HeldJob>> held;  // in order of arrival
  bool draining = false;
  std::string refused;  // why the server takes nothing of it
  bool quiet = false;  // its last job used every processor
  int failures = 0;    // whole jobs in a row
  bool throttled = false;
  std::string failure;  // of the last job
  // The description's number; the last that was sent, and that the server has.
  int revision = 1, sent_revision = 0, known_revision = 0;
};

struct LedgerOptions {
  std::string agent, session, version;  // "agents/ID", UUID
  std::map<std::string, std::string> labels;
  int slots = 2;
  // Keep one job at most on a device that wants quiet: the server computes on the same processors.
  bool quiet_slots = false;
};

class Ledger {
 public:
  Ledger(LedgerOptions options, std::vector<DeviceBook> devices);

  // ---- the conversation ----
  // What to send now; counts as a call. Results beyond about 2 MiB wait for the next one, listed as
  // held until then. `wait_s` 0: answer at once.
  loopwright::v1::SynchronizeRequest request(double wait_s, bool leaving);
  // Takes in the answer to the request that was made at `sent_at`. Jobs that are held, or were
  // finished lately, are not taken twice (an answer may have been lost on its way, or doubled).
  // Whether it brought anything.
  bool apply(const loopwright::v1::SynchronizeResponse& response, double sent_at);
  // The server will never take the last request as it was: the next one brings half of its results,
  // and a result that is refused alone, where a request without it is not, becomes one that says so.
  void refuse(const std::string& why);
  // Drops jobs whose lease could not be renewed, a tenth before its end: their work stops and
  // nothing is reported.
  void expire(double now);

  // ---- the work ----
  std::shared_ptr<HeldJob> next_job(size_t device);  // null: none waits
  // Whether the result is still wanted; it is kept until its receipt comes.
  bool finish(size_t device, const HeldJob& job, loopwright::v1::JobResult result);
  // Gives everything back: what waits at once, what runs as soon as it has stopped.
  void abandon_all();
  void stop_all();  // for good; nothing is reported

  // The device has become another: said in the next request, and until an answer comes.
  void redescribe(size_t device, loopwright::v1::Device description);

  // ---- what to do next ----
  int wanted() const;  // more jobs, over all devices
  bool holds_jobs() const;
  size_t results() const { return results_.size(); }
  bool has_unsent_results() const;  // finished since the last request
  double renew_at() const;          // the earliest third of a lease; infinite: nothing held
  double shortest_lease() const;    // of what is held, in seconds; infinite: nothing held
  // How long an answer may be waited for, in seconds: leases run from their call, so that something
  // has to be left of one that comes last. Infinite: no server has said how long its leases are.
  double longest_wait() const;
  bool draining() const { return draining_; }
  const std::vector<DeviceBook>& devices() const { return devices_; }

 private:
  using Identity = std::pair<std::string, int64_t>;  // job and epoch
  struct Owed {
    loopwright::v1::JobResult result;
    std::string device, study;
    bool sent = false;  // with the last request that was made, or before
  };

  int wanted(const DeviceBook& book) const;
  void complete(DeviceBook* book) const;
  void take_job(const loopwright::v1::Job& job, double sent_at);
  void review_refusal();
  void take_receipt(const loopwright::v1::Receipt& receipt);
  void cancel(const loopwright::v1::CancelOrder& order);
  void owe(const loopwright::v1::Job& job, loopwright::v1::JobResult result);
  bool knows(const Identity& identity) const;

  const LedgerOptions options_;
  std::vector<DeviceBook> devices_;
  std::deque<Owed> results_;
  std::deque<Identity> finished_;  // lately, receipts included
  std::set<Identity> listed_;      // by the last request: what its answer renews
  int64_t sequence_ = 0;
  int64_t session_number_ = 0;     // as the server counts; 0: not said yet
  double lease_s_ = std::numeric_limits<double>::infinity();  // of new jobs, as the server says
  size_t sent_results_ = 0, most_results_;  // of the last request, of the next
  std::string refusal_;            // what the server said last
  bool describe_ = false, draining_ = false;
};

}  // namespace lw
