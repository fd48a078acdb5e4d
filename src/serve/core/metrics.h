// What the service counts and times, in Prometheus's text format. All metrics stand in one table
// (metrics.cc), which says what each is; docs/metrics.md is its printed form, and
// tests/serve/metrics_test.cc compares them.
//
// Seconds are seconds. Label values must come from the program (names of states, methods, reasons),
// never from a request: a metric that meets more than 100 sets of values counts the rest as
// "other", so that nobody can grow the server's memory.
//
// A Metrics is thread-safe and belongs to its server. Counting costs about a microsecond.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lw {

// A row of the table for each, in this order.
enum class Metric {
  // the queue
  kJobsQueued, kJobsLeased, kLeasesExpired, kJobAttempts, kMeasurements, kQueueWait,
  kMeasureSeconds, kDiscards,
  // the fleet
  kDevices, kAgentsOnline, kStudies,
  // the store
  kCommitSeconds, kCommitOperations, kWalBytes, kDatabaseReadOnly, kHanging, kForgotten,
  // what is asked
  kLookups, kLookupSeconds, kRpcs, kRpcSeconds, kStreamsOpen,
  // what tuning spends its time on
  kTuningSeconds, kTuningCost,
  // the files that are read again
  kCertificateEnds, kReloadFailures, kHandshakesFailed,
  // the rest
  kDoubts, kBuildInfo,
};
inline constexpr int kMetrics = static_cast<int>(Metric::kBuildInfo) + 1;

struct MetricInfo {
  Metric metric;
  std::string_view name;                   // with the prefix "loopwright_"
  std::string_view type;                   // counter | gauge | histogram
  std::string_view labels;                 // comma-separated; "" for none
  std::string_view values;                 // of the only label, comma-separated: there from the
                                           // first moment, as 0; "" where they are not a list
  std::string_view help;                   // one sentence
};
std::span<const MetricInfo> metric_table();

// docs/metrics.md.
std::string metrics_document();

class Metrics {
 public:
  explicit Metrics(const std::string& version);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // A value for each label of the metric, in order. REQUIRES, of all below: the metric is of that
  // type, and has so many labels.
  using Labels = std::initializer_list<std::string_view>;
  void add(Metric metric, double amount = 1, Labels labels = {});  // a counter, or a gauge
  void set(Metric gauge, double value, Labels labels = {});
  // What there is now, by the values of its one label; those that are missing become 0.
  void set_all(Metric gauge, const std::map<std::string, int64_t>& by_label);
  void observe(Metric histogram, double value, Labels labels = {});

  std::string text() const;                // the exposition

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A call was answered. `seconds`: of one with one answer; how long a stream was open is nobody's
// latency.
void count_call(Metrics& metrics, std::string_view method, std::string_view code,
                std::optional<double> seconds);

}  // namespace lw
