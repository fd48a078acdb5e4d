// What the service counts and times, in Prometheus's text format. All metrics stand in one table
// (metrics.cc), of which docs/metrics.md is the printed form; tests/serve/metrics_test.cc compares them.
//
// Methods are named after what happened. Seconds are seconds. Label values must come from the
// program (names of states, methods, reasons), never from a request: a metric that meets more than
// 100 sets of values counts the rest as "other", so that nobody can grow the server's memory.
//
// A Metrics is thread-safe and belongs to its server. Counting costs about a microsecond.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lw {

struct MetricInfo {
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

  // ---- the queue
  void queue(int64_t queued, int64_t leased);       // what there is now
  void lease_expired(int64_t count = 1);
  void attempt_ended(std::string_view outcome);     // done | released | lost, or a verdict
  void measurement(std::string_view verdict, int64_t count = 1);  // verdict_name()
  void job_waited(double seconds);                  // from being made to its first lease
  void job_measured(double seconds);                // its run_time
  void discarded(std::string_view reason, int64_t count = 1);  // measurements by hygiene
  void doubted(std::string_view kind, int64_t count = 1);         // impossible | contradicted
  // ---- the fleet: what there is now; states that are missing become 0
  void devices(const std::map<std::string, int64_t>& by_state);
  void agents_online(int64_t count);
  void studies(const std::map<std::string, int64_t>& by_state);
  // ---- the store
  void committed(double seconds, int64_t operations);  // one group commit
  void wal(int64_t bytes);
  void read_only(bool is);
  void hanging(int threads);
  void forgotten(std::string_view what, int64_t rows);  // see retention.h
  // ---- the files that are read again
  void certificate_ends_in(int64_t seconds);
  void handshakes_failed(int64_t count);
  void reload_failed(std::string_view what);           // certificate | config
  // ---- what is asked
  void lookup(std::string_view outcome, double seconds);
  // `seconds`: of a call with one answer; how long a stream was open is nobody's latency.
  void rpc(std::string_view method, std::string_view code, std::optional<double> seconds);
  void stream_opened();
  void stream_closed();
  // ---- the search: what tuning spends its time on
  void tuning_cost(std::string_view phase, double seconds);

  std::string text() const;                // the exposition

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lw
