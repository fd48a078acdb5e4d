// The Store that forgets: for tests, for --db none, and as the specification of the other one,
// which one conformance suite compares with it.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "tuner_db/best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/ladder/withdrawn_list.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/sql/process.h"
#include "tuner_db/store.h"
#include "tuner_db/tables/withdrawn.h"
#include "tuner_db/workload_row.h"

namespace lw {
namespace {

// The measurements of one key. Traces are kept in order of first arrival; `index` has them in their
// own, as best_of's ties want them.
struct Results {
  std::vector<Measurement> rows;
  std::vector<std::string> traces;
  std::map<std::string, size_t> index;               // of a trace in the vectors beside
  std::vector<std::vector<size_t>> rows_of;          // per trace
  std::vector<Pool> pools;                           // per trace

  std::vector<const Measurement*> of_trace(size_t trace) const {
    std::vector<const Measurement*> found;
    for (size_t row : rows_of[trace]) found.push_back(&rows[row]);
    return found;
  }

  Measurement* find_same(const Measurement& m) {
    const std::string digest = measurement_digest(m);
    const auto found = index.find(m.trace);
    if (found == index.end()) return nullptr;
    for (const size_t row : rows_of[found->second]) {
      if (measurement_digest(rows[row]) == digest) return &rows[row];
    }
    return nullptr;
  }

  void pool_again(const std::string& trace) {
    const size_t at = index.at(trace);
    pools[at] = pool(of_trace(at));
  }

  void add(const std::vector<Measurement>& measurements) {
    std::set<size_t> touched;
    for (const Measurement& m : measurements) {
      const auto [place, is_new] = index.emplace(m.trace, traces.size());
      if (is_new) {
        traces.push_back(m.trace);
        rows_of.emplace_back();
        pools.emplace_back();
      }
      rows_of[place->second].push_back(rows.size());
      rows.push_back(m);
      touched.insert(place->second);
    }
    for (size_t trace : touched) pools[trace] = pool(of_trace(trace));
  }
};

class MemoryStore : public Store {
 public:
  absl::Status put_workload(const WorkloadRow& row) override {
    const std::lock_guard guard(mutex_);
    const auto [place, is_new] = workloads_.emplace(row.id, row);
    if (is_new) return absl::OkStatus();
    WorkloadRow& known = place->second;
    known.flops = row.flops, known.bytes = row.bytes;
    known.shape = row.shape, known.structure = row.structure;
    if (known.program.empty()) known.program = row.program;
    return absl::OkStatus();
  }

  absl::Status put_target(const std::string& id, const Target& target) override {
    const std::lock_guard guard(mutex_);
    targets_.emplace(id, target);
    return absl::OkStatus();
  }

  absl::Status append(const Key& key, std::vector<Measurement>& measurements) override {
    const std::lock_guard guard(mutex_);
    RETURN_IF_ERROR(admit(key, measurements));
    RETURN_IF_ERROR(workload_of(key.workload).status());
    RETURN_IF_ERROR(target_of(key.target).status());
    for (Measurement& m : measurements) m.id = ++last_id_;
    if (!measurements.empty()) results_[key].add(measurements);
    return absl::OkStatus();
  }

  absl::Status put(const Key& key, std::vector<Measurement>& measurements,
                   int64_t* stored) override {
    const std::lock_guard guard(mutex_);
    RETURN_IF_ERROR(admit(key, measurements));
    RETURN_IF_ERROR(workload_of(key.workload).status());
    RETURN_IF_ERROR(target_of(key.target).status());
    *stored = 0;
    if (measurements.empty()) return absl::OkStatus();
    Results& results = results_[key];
    for (Measurement& m : measurements) {
      Measurement* same = results.find_same(m);
      if (same == nullptr) {
        m.id = ++last_id_;
        results.add({m});
        ++*stored;
        continue;
      }
      m.id = same->id;
      if (!m.counts || (same->counts && (m.annulled.empty() || !same->annulled.empty()))) continue;
      if (!same->counts) same->actor = m.actor, same->device = m.device;
      same->counts = true;
      if (same->annulled.empty()) same->annulled = m.annulled;
      results.pool_again(m.trace);
      ++*stored;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Measurement>> measurements(const Key& key) const override {
    const std::lock_guard guard(mutex_);
    const auto found = results_.find(key);
    return found == results_.end() ? std::vector<Measurement>() : found->second.rows;
  }

  absl::StatusOr<std::vector<Measurement>> measurements_after(const Key& key, int64_t after,
                                                              int64_t* newest) const override {
    const std::lock_guard guard(mutex_);
    std::vector<Measurement> rows;
    const auto found = results_.find(key);
    if (found != results_.end()) {
      for (const Measurement& m : found->second.rows) {
        if (m.id > after) rows.push_back(m);
      }
    }
    *newest = last_id_;
    return rows;
  }

  absl::StatusOr<BestRow> top(const Key& key, int count) const override {
    const std::lock_guard guard(mutex_);
    return best_of_key(key, count);
  }

  absl::StatusOr<std::vector<BestRow>> best_of_structure(const std::string& structure,
                                                         int threads) const override {
    const std::lock_guard guard(mutex_);
    std::vector<BestRow> rows;
    for (const auto& [key, results] : results_) {
      if (key.threads != threads || workloads_.at(key.workload).structure != structure) continue;
      if (absl::StatusOr<BestRow> row = best_of_key(key, 1); row.ok()) rows.push_back(*std::move(row));
    }
    return rows;
  }

  absl::StatusOr<WorkloadRow> workload(const std::string& id) const override {
    const std::lock_guard guard(mutex_);
    return workload_of(id);
  }

  absl::StatusOr<std::vector<WorkloadRow>> workloads() const override {
    const std::lock_guard guard(mutex_);
    std::vector<WorkloadRow> rows;
    for (const auto& [id, row] : workloads_) rows.push_back(row);
    return rows;
  }

  absl::StatusOr<Target> target(const std::string& id) const override {
    const std::lock_guard guard(mutex_);
    return target_of(id);
  }

  absl::StatusOr<std::vector<Key>> keys() const override {
    const std::lock_guard guard(mutex_);
    std::vector<Key> keys;
    for (const auto& [key, results] : results_) keys.push_back(key);
    return keys;
  }

  absl::Status withdraw(const Withdrawal& withdrawal) override {
    const std::lock_guard guard(mutex_);
    const auto found = results_.find(withdrawal.key);
    if (found == results_.end() || !found->second.index.contains(withdrawal.trace)) {
      return no_such_trace(withdrawal.key);
    }
    Withdrawal row = withdrawal;
    const Results& results = found->second;
    const Pool& pool = results.pools[results.index.at(row.trace)];
    if (row.kernel_hash == 0) row.kernel_hash = pool.kernel_hash;
    const auto old = std::find_if(withdrawn_.begin(), withdrawn_.end(), [&](const Withdrawal& w) {
      return w.key == row.key && w.trace == row.trace;
    });
    if (old != withdrawn_.end()) {
      if (row.kernel_hash == 0) row.kernel_hash = old->kernel_hash;
      withdrawn_.erase(old);
    }
    withdrawn_.insert(withdrawn_.begin(), std::move(row));
    ++withdrawn_revision_;
    return absl::OkStatus();
  }

  absl::Status restore(const Key& key, const std::string& trace) override {
    const std::lock_guard guard(mutex_);
    const auto is_it = [&](const Withdrawal& w) { return w.key == key && w.trace == trace; };
    if (std::erase_if(withdrawn_, is_it) == 0) return not_withdrawn(key);
    ++withdrawn_revision_;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Withdrawal>> withdrawn() const override {
    const std::lock_guard guard(mutex_);
    return withdrawn_;
  }

  absl::StatusOr<std::vector<Withdrawal>> withdrawn(const Key& key) const override {
    const std::lock_guard guard(mutex_);
    std::vector<Withdrawal> rows = withdrawn_;
    std::erase_if(rows, [&](const Withdrawal& w) { return !(w.key == key); });
    return rows;
  }

  absl::StatusOr<std::vector<WithdrawnDigests>> withdrawn_digests() const override {
    const std::lock_guard guard(mutex_);
    std::vector<WithdrawnDigests> rows;
    for (const Withdrawal& w : withdrawn_) {
      rows.push_back({w.key, record_digest(w.key, w.trace), kernel_digest(w.key, w.kernel_hash)});
    }
    return rows;
  }

  absl::StatusOr<int64_t> withdrawn_revision() const override {
    const std::lock_guard guard(mutex_);
    return withdrawn_revision_;
  }

  absl::StatusOr<std::vector<int64_t>> find(const MeasurementFilter& filter, int64_t after,
                                            int most) const override {
    const std::lock_guard guard(mutex_);
    std::vector<int64_t> ids;
    for (const auto& [key, results] : results_) {
      if (filter.key && !(*filter.key == key)) continue;
      for (const Measurement& m : results.rows) {
        if (m.id > after && matches(filter, m)) ids.push_back(m.id);
      }
    }
    std::sort(ids.begin(), ids.end());
    ids.resize(std::min(ids.size(), static_cast<size_t>(most)));
    return ids;
  }

  absl::StatusOr<std::vector<Key>> annul(const std::vector<int64_t>& ids, const std::string& mark,
                                         int64_t* changed) override {
    const std::lock_guard guard(mutex_);
    const std::set<int64_t> wanted(ids.begin(), ids.end());
    std::vector<Key> keys;
    *changed = 0;
    for (auto& [key, results] : results_) {
      std::set<std::string> traces;
      for (Measurement& m : results.rows) {
        if (!wanted.contains(m.id) || m.annulled.empty() == mark.empty()) continue;
        m.annulled = mark;
        traces.insert(m.trace);
        ++*changed;
      }
      for (const std::string& trace : traces) results.pool_again(trace);
      if (!traces.empty()) keys.push_back(key);
    }
    return keys;
  }

  absl::Status claim(const Key& key) override {
    const std::lock_guard guard(mutex_);
    if (!claims_.insert(key).second) return claimed(key, this_process().pid);
    return absl::OkStatus();
  }

  void release(const Key& key) override {
    const std::lock_guard guard(mutex_);
    claims_.erase(key);
  }

  absl::StatusOr<Stats> stats() const override {
    const std::lock_guard guard(mutex_);
    Stats stats;
    stats.workloads = static_cast<int64_t>(workloads_.size());
    stats.targets = static_cast<int64_t>(targets_.size());
    stats.keys = static_cast<int64_t>(results_.size());
    for (const auto& [key, results] : results_) {
      stats.measurements += static_cast<int64_t>(results.rows.size());
      for (const Measurement& m : results.rows) stats.failed += m.verdict != Verdict::kOk;
    }
    return stats;
  }

  absl::StatusOr<int64_t> prune(int keep, int64_t unix_ms) override {
    const std::lock_guard guard(mutex_);
    int64_t deleted = 0;
    for (auto it = results_.begin(); it != results_.end();) {
      std::vector<std::vector<const Measurement*>> traces;
      for (const auto& [trace, place] : it->second.index) {
        if (is_out(it->first, it->second, place)) continue;
        traces.push_back(it->second.of_trace(place));
      }
      const std::set<int64_t> dropped = to_prune(traces, keep, unix_ms);
      std::vector<Measurement> kept;
      for (Measurement& m : it->second.rows) {
        if (!dropped.contains(m.id)) kept.push_back(std::move(m));
      }
      deleted += static_cast<int64_t>(dropped.size());
      it->second = Results();
      it->second.add(kept);
      it = kept.empty() ? results_.erase(it) : std::next(it);
    }
    return deleted;
  }

  absl::StatusOr<std::vector<std::string>> check() const override {
    const std::lock_guard guard(mutex_);
    std::vector<std::string> lines;
    auto report = [&](const std::string& what, const std::string& problem) {
      if (!problem.empty()) lines.push_back(absl::StrCat(what, ": ", problem));
    };
    for (const auto& [id, row] : workloads_) {
      const std::string problem = defect(row);
      report(absl::StrCat("workload ", id), problem.empty() ? contradiction(row) : problem);
    }
    for (const auto& [id, target] : targets_) {
      report(absl::StrCat("target ", id), target_defect(id, to_text(target)));
    }
    for (const auto& [key, results] : results_) {
      for (const std::string& trace : results.traces) {
        report(absl::StrCat("key ", describe(key)), trace_defect(trace));
      }
    }
    return lines;
  }

 private:
  absl::StatusOr<WorkloadRow> workload_of(const std::string& id) const {
    const auto found = workloads_.find(id);
    if (found == workloads_.end()) return unknown("workload", id);
    return found->second;
  }

  absl::StatusOr<Target> target_of(const std::string& id) const {
    const auto found = targets_.find(id);
    if (found == targets_.end()) return unknown("target", id);
    return found->second;
  }

  absl::StatusOr<BestRow> best_of_key(const Key& key, int count) const {
    const auto found = results_.find(key);
    if (found == results_.end()) return no_result(key);
    const Results& results = found->second;
    std::vector<size_t> places;
    std::vector<Pool> pools;
    for (const auto& [trace, place] : results.index) {
      places.push_back(place);
      pools.push_back(results.pools[place]);
      if (is_out(key, results, place)) pools.back().eligible = false;
    }
    const int64_t best = best_of(pools);
    if (best < 0) return no_result(key);
    BestRow row{key, represent(results.of_trace(places[static_cast<size_t>(best)])), {}};
    for (int64_t next : next_best(pools, best, count - 1)) {
      row.others.push_back({results.traces[places[static_cast<size_t>(next)]], pools[next].median_us});
    }
    return row;
  }

  bool is_out(const Key& key, const Results& results, size_t trace) const {
    return std::any_of(withdrawn_.begin(), withdrawn_.end(), [&](const Withdrawal& w) {
      return w.key == key &&
             takes_out(w, results.traces[trace], results.pools[trace].kernel_hash);
    });
  }

  mutable std::mutex mutex_;
  int64_t last_id_ = 0;
  std::map<std::string, WorkloadRow> workloads_;
  std::map<std::string, Target> targets_;
  std::map<Key, Results> results_;
  std::set<Key> claims_;
  std::vector<Withdrawal> withdrawn_;              // the latest first
  int64_t withdrawn_revision_ = 0;
};

}  // namespace

std::unique_ptr<Store> make_memory_store() { return std::make_unique<MemoryStore>(); }

}  // namespace lw
