// Metrics over prometheus-cpp: the table below makes a family for each row, and a family's members
// are found by the values of its labels in a map of ours, which also bounds their number.
#include "src/serve/core/metrics.h"

#include <array>
#include <mutex>
#include <sstream>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/verdict.h"

namespace lw {
namespace {

constexpr size_t kMaxMembers = 100;

enum Id {
  kJobsQueued, kJobsLeased, kLeasesExpired, kJobAttempts, kMeasurements, kQueueWait,
  kMeasureSeconds, kDiscards, kDevices, kAgentsOnline, kStudies, kCommitSeconds, kCommitOperations,
  kWalBytes, kDatabaseReadOnly, kHanging, kForgotten, kLookups, kLookupSeconds, kRpcs, kRpcSeconds,
  kStreamsOpen, kTuningSeconds, kTuningCost, kCertificateEnds, kReloadFailures,
  kHandshakesFailed, kDoubts, kBuildInfo, kCount,
};

// The names of the verdicts that are retried, or of the others.
std::string verdicts(bool retried) {
  std::vector<std::string> names;
  for (const VerdictRow& row : kVerdicts) {
    if (row.is_retried == retried) names.emplace_back(row.name);
  }
  return absl::StrJoin(names, ", ");
}

const std::string kStored = verdicts(false), kRetried = verdicts(true);
const std::string kAttempts = concat("done, released, refused, lost, ", kRetried);

const std::array<MetricInfo, kCount> kTable = {{
    {"loopwright_jobs_queued", "gauge", "", "", "Jobs that wait for a device."},
    {"loopwright_jobs_leased", "gauge", "", "", "Jobs that a device holds."},
    {"loopwright_leases_expired_total", "counter", "", "",
     "Leases that ended without a result."},
    {"loopwright_job_attempts_total", "counter", "outcome", kAttempts,
     "Attempts at jobs, by how they ended."},
    {"loopwright_measurements_total", "counter", "verdict", kStored,
     "Measurements stored, by verdict."},
    {"loopwright_queue_wait_seconds", "histogram", "", "",
     "From a job's creation to its first lease."},
    {"loopwright_measure_seconds", "histogram", "", "", "A job's run time on its device."},
    {"loopwright_discards_total", "counter", "reason", kRetried,
     "Measurements that say nothing of their candidate, and are not stored."},
    {"loopwright_devices", "gauge", "state", 
     "online, offline, draining, quarantined, pending, unsupported, unhealthy",
     "Devices, each in one state: offline before all others, then what an operator, the failures "
     "or the versions decided, then unhealthy by its own word."},
    {"loopwright_agents_online", "gauge", "", "", "Agents heard of within their time limit."},
    {"loopwright_studies", "gauge", "state", "queued, running, succeeded, failed, cancelled",
     "Studies by state."},
    {"loopwright_commit_seconds", "histogram", "", "", "A group commit, with its fsync."},
    {"loopwright_commit_operations", "histogram", "", "",
     "Operations that one group commit made durable."},
    {"loopwright_wal_bytes", "gauge", "", "", "Size of SQLite's write-ahead log."},
    {"loopwright_database_read_only", "gauge", "", "",
     "1 while the database takes no writes (disk full, input/output error)."},
    {"loopwright_threads_hanging", "gauge", "", "",
     "Threads more than a minute beyond the time of what they do; /healthz fails while there are."},
    {"loopwright_forgotten_total", "counter", "what",
     "audit, orphans, payloads, events, studies, devices, agents",
     "Rows that retention deleted (of payloads: emptied), and studies that somebody deleted."},
    {"loopwright_lookups_total", "counter", "outcome",
     "exact, loose, nearest_shape, nearest_target, default, not_found",
     "Schedule lookups, by the ladder's rung."},
    {"loopwright_lookup_seconds", "histogram", "", "", "One lookup; of a batch, its share."},
    {"loopwright_rpc_total", "counter", "method,code", "",
     "Calls answered, by method and status code."},
    {"loopwright_rpc_seconds", "histogram", "method", "",
     "A call with one answer, from its arrival to that; Synchronize and WaitOperation include "
     "what they are held."},
    {"loopwright_streams_open", "gauge", "", "",
     "Streams that are open: WatchStudy, export, import."},
    {"loopwright_tuning_seconds_total", "counter", "phase", "build, prepare, measure",
     "Seconds of devices that tuning spent: building candidates, making inputs ready, running."},
    {"loopwright_tuning_cost_seconds", "gauge", "phase", "build, prepare, measure",
     "The former name of loopwright_tuning_seconds_total; it goes with version 0.2."},
    {"loopwright_certificate_ends_seconds", "gauge", "", "",
     "Seconds until the server's certificate ends; 0 without TLS, negative when it has ended."},
    {"loopwright_reload_failures_total", "counter", "what", "certificate, config",
     "Changed files that could not be taken up while running."},
    {"loopwright_handshakes_failed_total", "counter", "", "",
     "TLS connections that were refused; the log names the peers, once a minute."},
    {"loopwright_doubts_total", "counter", "kind", "impossible, contradicted",
     "Words that do not count: times that no target reaches, and those of devices that another "
     "agent's contradicted. The audit has a line for each."},
    {"loopwright_build_info", "gauge", "version", "",
     "Always 1; its label says which version runs."},
}};

// Upper bounds: what the table promises lies within, a factor of 2 to 2.5 apart.
prometheus::Histogram::BucketBoundaries buckets(Id id) {
  if (id == kCommitOperations) return {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  if (id == kLookupSeconds) {
    return {2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 3e-2, 0.1, 1};
  }
  if (id == kQueueWait || id == kMeasureSeconds) {
    return {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000};
  }
  return {5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60};
}

}  // namespace

std::span<const MetricInfo> metric_table() { return kTable; }

std::string metrics_document() {
  std::string out =
      "# Metrics of the service\n\n"
      "`GET /metrics` on the daemon's HTTP port, in Prometheus's text format. Names and labels are "
      "stable:\none that goes is announced a version before. Printed from the table in "
      "`src/serve/core/metrics.cc`;\n`tests/serve/metrics_test.cc` compares, and rewrites this "
      "file when LOOPWRIGHT_UPDATE is set.\n\n"
      "A label's values in parentheses are all that it takes; they are there from the first moment, "
      "as 0.\n\n"
      "| name | type | labels | what |\n|---|---|---|---|\n";
  for (const MetricInfo& metric : kTable) {
    out += concat("| `", metric.name, "` | ", metric.type, " | ", metric.labels,
                  metric.values.empty() ? "" : concat(" (", metric.values, ")"), " | ",
                  metric.help, " |\n");
  }
  return out;
}

struct Metrics::State {
  prometheus::Registry registry;
  std::array<prometheus::Family<prometheus::Counter>*, kCount> counters{};
  std::array<prometheus::Family<prometheus::Gauge>*, kCount> gauges{};
  std::array<prometheus::Family<prometheus::Histogram>*, kCount> histograms{};
  std::mutex mutex;                        // of `members`
  std::array<absl::flat_hash_map<std::string, void*>, kCount> members;

  State();
  // The member with these label values, joined by '\n'.
  template <class Metric, class Make>
  Metric& member(Id id, const std::string& values, const Make& make);
  static prometheus::Labels labels(Id id, const std::string& values);

  prometheus::Counter& counter(Id id, const std::string& values = "");
  prometheus::Gauge& gauge(Id id, const std::string& values = "");
  prometheus::Histogram& histogram(Id id, const std::string& values = "");
  void set_states(Id id, const std::map<std::string, int64_t>& by_state);
};

Metrics::State::State() {
  for (int i = 0; i < kCount; ++i) {
    const std::string name(kTable[i].name), help(kTable[i].help);
    const Id id = static_cast<Id>(i);
    // A rate over what appears with its first event would miss that.
    std::vector<std::string> begun =
        absl::StrSplit(std::string(kTable[i].values), ", ", absl::SkipEmpty());
    if (kTable[i].labels.empty()) begun.push_back("");
    if (kTable[i].type == "counter") {
      counters[i] = &prometheus::BuildCounter().Name(name).Help(help).Register(registry);
      for (const std::string& value : begun) counter(id, value);
    } else if (kTable[i].type == "gauge") {
      gauges[i] = &prometheus::BuildGauge().Name(name).Help(help).Register(registry);
      for (const std::string& value : begun) gauge(id, value);
    } else {
      histograms[i] = &prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
      for (const std::string& value : begun) histogram(id, value);
    }
  }
}

prometheus::Labels Metrics::State::labels(Id id, const std::string& values) {
  prometheus::Labels labels;
  if (kTable[id].labels.empty()) return labels;
  const std::vector<std::string> names = absl::StrSplit(std::string(kTable[id].labels), ',');
  const std::vector<std::string> parts = absl::StrSplit(values, '\n');
  CHECK(names.size() == parts.size());
  for (size_t i = 0; i < names.size(); ++i) labels[names[i]] = parts[i];
  return labels;
}

template <class Metric, class Make>
Metric& Metrics::State::member(Id id, const std::string& values, const Make& make) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto& known = members[id];
  auto found = known.find(values);
  if (found == known.end() && known.size() >= kMaxMembers) {
    std::string other = "other";
    for (char c : kTable[id].labels) other += c == ',' ? "\nother" : "";
    found = known.find(other);
    if (found == known.end()) found = known.emplace(other, &make(labels(id, other))).first;
  } else if (found == known.end()) {
    found = known.emplace(values, &make(labels(id, values))).first;
  }
  return *static_cast<Metric*>(found->second);
}

prometheus::Counter& Metrics::State::counter(Id id, const std::string& values) {
  return member<prometheus::Counter>(id, values, [&](const prometheus::Labels& labels) -> auto& {
    return counters[id]->Add(labels);
  });
}
prometheus::Gauge& Metrics::State::gauge(Id id, const std::string& values) {
  return member<prometheus::Gauge>(id, values, [&](const prometheus::Labels& labels) -> auto& {
    return gauges[id]->Add(labels);
  });
}
prometheus::Histogram& Metrics::State::histogram(Id id, const std::string& values) {
  return member<prometheus::Histogram>(id, values, [&](const prometheus::Labels& labels) -> auto& {
    return histograms[id]->Add(labels, buckets(id));
  });
}

void Metrics::State::set_states(Id id, const std::map<std::string, int64_t>& by_state) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto& [state, gauge] : members[id]) {
      if (by_state.count(state) == 0) static_cast<prometheus::Gauge*>(gauge)->Set(0);
    }
  }
  for (const auto& [state, count] : by_state) gauge(id, state).Set(static_cast<double>(count));
}

Metrics::Metrics(const std::string& version) : state_(new State) {
  state_->gauge(kBuildInfo, version).Set(1);
}
Metrics::~Metrics() = default;

void Metrics::queue(int64_t queued, int64_t leased) {
  state_->gauge(kJobsQueued).Set(static_cast<double>(queued));
  state_->gauge(kJobsLeased).Set(static_cast<double>(leased));
}
void Metrics::lease_expired(int64_t count) {
  state_->counter(kLeasesExpired).Increment(static_cast<double>(count));
}
void Metrics::attempt_ended(std::string_view outcome) {
  state_->counter(kJobAttempts, std::string(outcome)).Increment();
}
void Metrics::measurement(std::string_view verdict, int64_t count) {
  state_->counter(kMeasurements, std::string(verdict)).Increment(static_cast<double>(count));
}
void Metrics::job_waited(double seconds) { state_->histogram(kQueueWait).Observe(seconds); }
void Metrics::job_measured(double seconds) { state_->histogram(kMeasureSeconds).Observe(seconds); }
void Metrics::discarded(std::string_view reason, int64_t count) {
  state_->counter(kDiscards, std::string(reason)).Increment(static_cast<double>(count));
}
void Metrics::doubted(std::string_view kind, int64_t count) {
  state_->counter(kDoubts, std::string(kind)).Increment(static_cast<double>(count));
}
void Metrics::devices(const std::map<std::string, int64_t>& by_state) {
  state_->set_states(kDevices, by_state);
}
void Metrics::agents_online(int64_t count) {
  state_->gauge(kAgentsOnline).Set(static_cast<double>(count));
}
void Metrics::studies(const std::map<std::string, int64_t>& by_state) {
  state_->set_states(kStudies, by_state);
}
void Metrics::committed(double seconds, int64_t operations) {
  state_->histogram(kCommitSeconds).Observe(seconds);
  state_->histogram(kCommitOperations).Observe(static_cast<double>(operations));
}
void Metrics::wal(int64_t bytes) { state_->gauge(kWalBytes).Set(static_cast<double>(bytes)); }
void Metrics::hanging(int threads) { state_->gauge(kHanging).Set(threads); }
void Metrics::read_only(bool is) { state_->gauge(kDatabaseReadOnly).Set(is ? 1 : 0); }
void Metrics::forgotten(std::string_view what, int64_t rows) {
  state_->counter(kForgotten, std::string(what)).Increment(static_cast<double>(rows));
}
void Metrics::lookup(std::string_view outcome, double seconds) {
  state_->counter(kLookups, std::string(outcome)).Increment();
  state_->histogram(kLookupSeconds).Observe(seconds);
}
void Metrics::rpc(std::string_view method, std::string_view code, std::optional<double> seconds) {
  state_->counter(kRpcs, concat(method, "\n", code)).Increment();
  if (seconds) state_->histogram(kRpcSeconds, std::string(method)).Observe(*seconds);
}
void Metrics::stream_opened() { state_->gauge(kStreamsOpen).Increment(); }
void Metrics::stream_closed() { state_->gauge(kStreamsOpen).Decrement(); }
void Metrics::tuning_cost(std::string_view phase, double seconds) {
  state_->counter(kTuningSeconds, std::string(phase)).Increment(seconds);
  state_->gauge(kTuningCost, std::string(phase)).Increment(seconds);
}

void Metrics::certificate_ends_in(int64_t seconds) {
  state_->gauge(kCertificateEnds).Set(static_cast<double>(seconds));
}
void Metrics::handshakes_failed(int64_t count) {
  if (count > 0) state_->counter(kHandshakesFailed).Increment(static_cast<double>(count));
}
void Metrics::reload_failed(std::string_view what) {
  state_->counter(kReloadFailures, std::string(what)).Increment();
}

std::string Metrics::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, state_->registry.Collect());
  return out.str();
}

}  // namespace lw
