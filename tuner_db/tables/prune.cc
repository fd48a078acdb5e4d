// Old measurements go; what of each key goes says to_prune() in best.h.
#include <set>

#include "src/base/check.h"
#include "tuner_db/best.h"
#include "tuner_db/tables/pools.h"
#include "tuner_db/tables/rows.h"
#include "tuner_db/tables/usage.h"
#include "tuner_db/tables/withdrawn.h"

namespace lw {

absl::Status prune_measurements(WriteTransaction& tx, int keep, int64_t unix_ms, int64_t* deleted) {
  *deleted = 0;
  std::vector<int64_t> keys;
  // Not of studies under way, which a daemon beside us searches: it begins anew from what is there.
  Query all = tx.query(
      "SELECT id FROM keys WHERE workload NOT IN (SELECT w.workload FROM study_workloads w "
      "JOIN studies s ON s.id = w.study WHERE s.state IN ('queued', 'running'))");
  while (all.next()) keys.push_back(all.integer(0));
  RETURN_IF_ERROR(all.status());
  std::set<int64_t> changed;
  for (int64_t key : keys) {
    std::vector<std::vector<Measurement>> rows;
    Query candidates =
        tx.query("SELECT id, kernel_hash FROM candidates WHERE key = ? ORDER BY trace", key);
    while (candidates.next()) {
      ASSIGN_OR_RETURN(const bool out,
                       is_withdrawn(tx, candidates.integer(0),
                                    static_cast<uint64_t>(candidates.integer(1))));
      if (out) continue;
      RETURN_IF_ERROR(read_candidate(tx, candidates.integer(0), &rows.emplace_back()));
    }
    RETURN_IF_ERROR(candidates.status());
    std::vector<std::vector<const Measurement*>> traces;
    for (const std::vector<Measurement>& of_trace : rows) traces.push_back(pointers(of_trace));
    const std::set<int64_t> gone = to_prune(traces, keep, unix_ms);
    for (const std::vector<Measurement>& of_trace : rows) {
      for (const Measurement& m : of_trace) {
        if (!gone.contains(m.id)) continue;
        RETURN_IF_ERROR(tx.query("DELETE FROM measurements WHERE id = ?", m.id).run());
        if (!m.counts) RETURN_IF_ERROR(add_use(tx, m.actor, {.unconfirmed = -1}));
        ++*deleted;
        changed.insert(key);
      }
    }
  }
  for (const char* sql : {"DELETE FROM candidates WHERE id NOT IN"
                          " (SELECT candidate FROM measurements)",
                          "DELETE FROM keys WHERE id NOT IN (SELECT key FROM candidates)"}) {
    RETURN_IF_ERROR(tx.run(sql));
  }
  for (int64_t key : changed) {
    std::vector<int64_t> left;
    Query rest = tx.query("SELECT id FROM candidates WHERE key = ?", key);
    while (rest.next()) left.push_back(rest.integer(0));
    RETURN_IF_ERROR(rest.status());
    for (int64_t candidate : left) RETURN_IF_ERROR(update_pool(tx, candidate).status());
    RETURN_IF_ERROR(note_change(tx, key));
  }
  return absl::OkStatus();
}

}  // namespace lw
