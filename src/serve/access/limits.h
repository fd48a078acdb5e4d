// What the daemon lets one client take: how many calls a second, how much at once, how much of it
// is kept, and whose share of the devices is how large; and how long it keeps what is over
// (retention.h). All of it can be set in the file of `serve --config`:
//
//   {
//     "quotas": {"active_studies_per_client": 100, "queued_jobs": 20000,
//                "workloads_per_study": 500, "trials_per_study": 1000000,
//                "message_bytes": 4194304, "waiting_seconds": 2592000,
//                "calls_at_once": 200, "streams_at_once": 200, "streams": 2000,
//                "studies_per_client": 100000, "spec_bytes_per_client": 1073741824,
//                "unconfirmed_per_client": 100000},
//     "calls_per_second": {"read": 50, "lookup": {"rate": 10000, "burst": 50000}},
//     "weights": {"ci": 2, "nightly": 0.5},
//     "default_weight": 1,
//     "admission": "pending",
//     "retention": {"audit_days": 400, "orphan_days": 30, "payload_days": 30, "event_days": 400,
//                   "study_days": 0, "device_days": 90},
//     "denied": ["agent/board-7"]
//   }
//
// "denied" is read again while the daemon runs, the others at its start.
// What is left out keeps its default; what is not known is refused with the nearest name.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/serve/access/auth.h"
#include "src/serve/rows/retention.h"
#include "tuner_db/tables/usage.h"

namespace lw {

struct Quotas {
  int64_t active_studies_per_client = 100;   // queued and running
  int64_t queued_jobs = 20'000;              // of all clients
  int64_t workloads_per_study = 500;
  int64_t trials_per_study = 1'000'000;
  int64_t message_bytes = 4 << 20;
  int64_t waiting_seconds = 30 * 86'400;     // of a study, all in one, for a device or a seat
  int64_t calls_at_once = 200;               // of one caller, being answered
  int64_t streams_at_once = 200;             // of one caller: watches, waits, exports, imports
  int64_t streams = 2'000;                   // of all callers
  int64_t studies_per_client = 100'000;      // kept in all, those that ended too
  int64_t spec_bytes_per_client = 1 << 30;   // of these
  int64_t unconfirmed_per_client = 100'000;  // measurements that a client put and that do not count

  bool operator==(const Quotas&) const = default;
};

// `rate` calls a second in the long run, `burst` at once.
struct Rate {
  double rate = 1;
  double burst = 1;

  bool operator==(const Rate&) const = default;
};

struct ServeConfig {
  Quotas quotas;
  // By CallClass; of look-ups the queries count. An agent needs two calls a second at most.
  std::array<Rate, kCallClasses> rates = {
      Rate{50, 200}, Rate{10'000, 50'000}, Rate{10, 100}, Rate{20, 200}, Rate{20, 100}, Rate{5, 20}};
  std::map<std::string, double> weights;     // client's name → share when devices are contended
  double default_weight = 1;
  bool new_devices_wait = false;             // "admission": "pending", not "open": see admission.h
  Retention retention;
  std::set<std::string> denied;              // whose certificates are revoked: "agent/board-7"

  const Rate& rate(CallClass call_class) const { return rates[static_cast<size_t>(call_class)]; }
  double weight(std::string_view client) const;
  bool operator==(const ServeConfig&) const = default;
};

// Errors: kInvalidArgument "FILE: quotas.queued_jobs: ...", for JSON that does not parse with its
// position; load_serve_config also kNotFound and kPermissionDenied.
absl::StatusOr<ServeConfig> parse_serve_config(std::string_view json, std::string_view file);
absl::StatusOr<ServeConfig> load_serve_config(const std::string& path);

// Token buckets by identity and class of call. Time is an argument: monotonic, in ns; a step back
// counts as none. Remembers the `max_buckets` used last; a forgotten one begins full. Thread-safe.
class RateLimiter {
 public:
  explicit RateLimiter(const ServeConfig& config, size_t max_buckets = 20'000);

  // OK and `cost` tokens less, or RESOURCE_EXHAUSTED, RATE_LIMITED, with the delay after which they
  // are there. What costs more than a burst needs a full bucket and leaves a debt. The local admin is
  // not limited: a loopback's many agents share that name.
  absl::Status take(const Identity& identity, CallClass call_class, int64_t now_ns,
                    double cost = 1);
  size_t remembered() const;

 private:
  struct Bucket {
    std::pair<std::string, CallClass> key;
    double tokens = 0;
    int64_t filled_ns = 0;
  };

  const std::array<Rate, kCallClasses> rates_;
  const size_t max_buckets_;
  mutable std::mutex mutex_;
  std::list<Bucket> buckets_;                // the one used last first
  absl::flat_hash_map<std::pair<std::string, CallClass>, std::list<Bucket>::iterator> places_;
};

// How many calls and streams of one caller are being answered, and streams of all. Thread-safe;
// seats may outlive it.
class InFlight {
 public:
  explicit InFlight(const Quotas& quotas);
  // A seat for a call, or for a stream (`held`), until it is destroyed. RESOURCE_EXHAUSTED:
  // QUOTA_EXCEEDED when the caller has as many as it may, OVERLOADED when there are too many
  // streams, both with a delay. Of the local admin, whose name many share, only streams are
  // counted, against those of all.
  absl::StatusOr<std::shared_ptr<void>> enter(const Identity& identity, bool held);

 private:
  struct State;
  const Quotas quotas_;
  const std::shared_ptr<State> state_;
};

// Whether another study fits. The counts are those before it. Errors: INVALID_ARGUMENT TOO_LARGE
// for the study's own size, RESOURCE_EXHAUSTED QUOTA_EXCEEDED for the client's studies, OVERLOADED
// for the queue, both with a delay.
struct Usage {
  int64_t active_studies = 0;                // of this client
  int64_t queued_jobs = 0;                   // of all
  ClientUse kept;                            // of this client
};
struct StudySize {
  int64_t workloads = 0, trials = 0;         // as asked for; trials 0: not said
  int64_t spec_bytes = 0;
};
absl::Status check_new_study(const Quotas& quotas, std::string_view client, const Usage& usage,
                             const StudySize& size);
// Whether a client may have put as much as it has now, with the `fresh` rows of this call.
// RESOURCE_EXHAUSTED QUOTA_EXCEEDED.
absl::Status check_unconfirmed(const Quotas& quotas, std::string_view client, const ClientUse& use,
                               int64_t fresh);

}  // namespace lw
