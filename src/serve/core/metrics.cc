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

using enum Metric;

constexpr size_t kMaxMembers = 100;

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

const MetricInfo kTable[] = {
    {kJobsQueued, "loopwright_jobs_queued", "gauge", "", "", "Jobs that wait for a device."},
    {kJobsLeased, "loopwright_jobs_leased", "gauge", "", "", "Jobs that a device holds."},
    {kLeasesExpired, "loopwright_leases_expired_total", "counter", "", "",
     "Leases that ended without a result."},
    {kJobAttempts, "loopwright_job_attempts_total", "counter", "outcome", kAttempts,
     "Attempts at jobs, by how they ended."},
    {kMeasurements, "loopwright_measurements_total", "counter", "verdict", kStored,
     "Measurements stored, by verdict."},
    {kQueueWait, "loopwright_queue_wait_seconds", "histogram", "", "",
     "From a job's creation to its first lease."},
    {kMeasureSeconds, "loopwright_measure_seconds", "histogram", "", "",
     "A job's run time on its device."},
    {kDiscards, "loopwright_discards_total", "counter", "reason", kRetried,
     "Measurements that say nothing of their candidate, and are not stored."},
    {kDevices, "loopwright_devices", "gauge", "state",
     "online, offline, draining, quarantined, pending, unsupported, unhealthy",
     "Devices, each in one state: offline before all others, then what an operator, the failures "
     "or the versions decided, then unhealthy by its own word."},
    {kAgentsOnline, "loopwright_agents_online", "gauge", "", "",
     "Agents heard of within their time limit."},
    {kStudies, "loopwright_studies", "gauge", "state",
     "queued, running, succeeded, failed, cancelled",
     "Studies by state."},
    {kCommitSeconds, "loopwright_commit_seconds", "histogram", "", "",
     "A group commit, with its fsync."},
    {kCommitOperations, "loopwright_commit_operations", "histogram", "", "",
     "Operations that one group commit made durable."},
    {kWalBytes, "loopwright_wal_bytes", "gauge", "", "", "Size of SQLite's write-ahead log."},
    {kDatabaseReadOnly, "loopwright_database_read_only", "gauge", "", "",
     "1 while the database takes no writes (disk full, input/output error)."},
    {kHanging, "loopwright_threads_hanging", "gauge", "", "",
     "Threads more than a minute beyond the time of what they do; /healthz fails while there are."},
    {kForgotten, "loopwright_forgotten_total", "counter", "what",
     "audit, orphans, payloads, events, studies, devices, agents",
     "Rows that retention deleted (of payloads: emptied), and studies that somebody deleted."},
    {kLookups, "loopwright_lookups_total", "counter", "outcome",
     "exact, loose, nearest_shape, nearest_target, default, not_found",
     "Schedule lookups, by the ladder's rung."},
    {kLookupSeconds, "loopwright_lookup_seconds", "histogram", "", "",
     "One lookup; of a batch, its share."},
    {kRpcs, "loopwright_rpc_total", "counter", "method,code", "",
     "Calls answered, by method and status code."},
    {kRpcSeconds, "loopwright_rpc_seconds", "histogram", "method", "",
     "A call with one answer, from its arrival to that; Synchronize and WaitOperation include "
     "what they are held."},
    {kStreamsOpen, "loopwright_streams_open", "gauge", "", "",
     "Streams that are open: WatchStudy, export, import."},
    {kTuningSeconds, "loopwright_tuning_seconds_total", "counter", "phase",
     "build, prepare, measure",
     "Seconds of devices that tuning spent: building candidates, making inputs ready, running."},
    {kTuningCost, "loopwright_tuning_cost_seconds", "gauge", "phase", "build, prepare, measure",
     "The former name of loopwright_tuning_seconds_total; it goes with version 0.2."},
    {kCertificateEnds, "loopwright_certificate_ends_seconds", "gauge", "", "",
     "Seconds until the server's certificate ends; 0 without TLS, negative when it has ended."},
    {kReloadFailures, "loopwright_reload_failures_total", "counter", "what", "certificate, config",
     "Changed files that could not be taken up while running."},
    {kHandshakesFailed, "loopwright_handshakes_failed_total", "counter", "", "",
     "TLS connections that were refused; the log names the peers, once a minute."},
    {kDoubts, "loopwright_doubts_total", "counter", "kind", "impossible, contradicted",
     "Words that do not count: times that no target reaches, and those of devices that another "
     "agent's contradicted. The audit has a line for each."},
    {kBuildInfo, "loopwright_build_info", "gauge", "version", "",
     "Always 1; its label says which version runs."},
};

static_assert(std::size(kTable) == kMetrics);

// Upper bounds: what the table promises lies within, a factor of 2 to 2.5 apart.
prometheus::Histogram::BucketBoundaries buckets(Metric metric) {
  if (metric == kCommitOperations) return {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  if (metric == kLookupSeconds) {
    return {2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 3e-2, 0.1, 1};
  }
  if (metric == kQueueWait || metric == kMeasureSeconds) {
    return {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000};
  }
  return {5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60};
}

std::string joined(Metrics::Labels labels) {
  std::string values;
  for (const std::string_view& label : labels) {
    if (&label != labels.begin()) values += '\n';
    values += label;
  }
  return values;
}

// Such values apart again, by the names of the labels.
prometheus::Labels labels_of(int id, const std::string& values) {
  prometheus::Labels labels;
  if (kTable[id].labels.empty()) return labels;
  const std::vector<std::string> names = absl::StrSplit(std::string(kTable[id].labels), ',');
  const std::vector<std::string> parts = absl::StrSplit(values, '\n');
  CHECK(names.size() == parts.size());
  for (size_t i = 0; i < names.size(); ++i) labels[names[i]] = parts[i];
  return labels;
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
  std::array<prometheus::Family<prometheus::Counter>*, kMetrics> counters{};
  std::array<prometheus::Family<prometheus::Gauge>*, kMetrics> gauges{};
  std::array<prometheus::Family<prometheus::Histogram>*, kMetrics> histograms{};
  std::mutex mutex;                        // of `members`
  std::array<absl::flat_hash_map<std::string, void*>, kMetrics> members;

  State();
  // The member with these label values, joined by '\n'.
  template <class Kind, class Make>
  Kind& member(int id, const std::string& values, const Make& make);

  prometheus::Counter& counter(int id, const std::string& values);
  prometheus::Gauge& gauge(int id, const std::string& values);
  prometheus::Histogram& histogram(int id, const std::string& values);
};

Metrics::State::State() {
  for (int i = 0; i < kMetrics; ++i) {
    CHECK(static_cast<int>(kTable[i].metric) == i);
    const std::string name(kTable[i].name), help(kTable[i].help);
    // A rate over what appears with its first event would miss that.
    std::vector<std::string> begun =
        absl::StrSplit(std::string(kTable[i].values), ", ", absl::SkipEmpty());
    if (kTable[i].labels.empty()) begun.push_back("");
    if (kTable[i].type == "counter") {
      counters[i] = &prometheus::BuildCounter().Name(name).Help(help).Register(registry);
      for (const std::string& value : begun) counter(i, value);
    } else if (kTable[i].type == "gauge") {
      gauges[i] = &prometheus::BuildGauge().Name(name).Help(help).Register(registry);
      for (const std::string& value : begun) gauge(i, value);
    } else {
      histograms[i] = &prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
      for (const std::string& value : begun) histogram(i, value);
    }
  }
}

template <class Kind, class Make>
Kind& Metrics::State::member(int id, const std::string& values, const Make& make) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto& known = members[id];
  auto found = known.find(values);
  if (found == known.end() && known.size() >= kMaxMembers) {
    std::string other = "other";
    for (char c : kTable[id].labels) other += c == ',' ? "\nother" : "";
    found = known.find(other);
    if (found == known.end()) found = known.emplace(other, &make(labels_of(id, other))).first;
  } else if (found == known.end()) {
    found = known.emplace(values, &make(labels_of(id, values))).first;
  }
  return *static_cast<Kind*>(found->second);
}

prometheus::Counter& Metrics::State::counter(int id, const std::string& values) {
  CHECK(counters[id] != nullptr);
  return member<prometheus::Counter>(id, values, [&](const prometheus::Labels& labels) -> auto& {
    return counters[id]->Add(labels);
  });
}
prometheus::Gauge& Metrics::State::gauge(int id, const std::string& values) {
  CHECK(gauges[id] != nullptr);
  return member<prometheus::Gauge>(id, values, [&](const prometheus::Labels& labels) -> auto& {
    return gauges[id]->Add(labels);
  });
}
prometheus::Histogram& Metrics::State::histogram(int id, const std::string& values) {
  CHECK(histograms[id] != nullptr);
  return member<prometheus::Histogram>(id, values, [&](const prometheus::Labels& labels) -> auto& {
    return histograms[id]->Add(labels, buckets(static_cast<Metric>(id)));
  });
}

Metrics::Metrics(const std::string& version) : state_(new State) {
  set(kBuildInfo, 1, {version});
}
Metrics::~Metrics() = default;

void Metrics::add(Metric metric, double amount, Labels labels) {
  const int id = static_cast<int>(metric);
  const std::string values = joined(labels);
  if (state_->gauges[id] != nullptr) {
    state_->gauge(id, values).Increment(amount);
  } else {
    state_->counter(id, values).Increment(amount);
  }
}

void Metrics::set(Metric metric, double value, Labels labels) {
  state_->gauge(static_cast<int>(metric), joined(labels)).Set(value);
}

void Metrics::set_all(Metric metric, const std::map<std::string, int64_t>& by_label) {
  const int id = static_cast<int>(metric);
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    for (const auto& [label, gauge] : state_->members[id]) {
      if (by_label.count(label) == 0) static_cast<prometheus::Gauge*>(gauge)->Set(0);
    }
  }
  for (const auto& [label, count] : by_label) set(metric, static_cast<double>(count), {label});
}

void Metrics::observe(Metric metric, double value, Labels labels) {
  state_->histogram(static_cast<int>(metric), joined(labels)).Observe(value);
}

std::string Metrics::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, state_->registry.Collect());
  return out.str();
}

void count_call(Metrics& metrics, std::string_view method, std::string_view code,
                std::optional<double> seconds) {
  metrics.add(kRpcs, 1, {method, code});
  if (seconds) metrics.observe(kRpcSeconds, *seconds, {method});
}

}  // namespace lw
