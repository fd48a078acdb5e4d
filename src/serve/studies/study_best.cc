#include "src/serve/studies/study_best.h"

#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr char kOfKey[] =
    "workload = ? AND backend = ? AND threads = ? AND cache = ? AND study IN (SELECT id FROM "
    "studies WHERE target = ?)";

}  // namespace

// Without an owner a study is taken up again, by whichever daemon has a seat, from what is stored;
// its jobs that are out are adopted. Who had it notices at its next step, and writes nothing more.
absl::Status reconsider_studies(WriteTransaction& tx, const Key& key, Changes* changes) {
  const absl::StatusOr<BestRow> best = store_in(tx)->best(key);
  if (!best.ok() && !absl::IsNotFound(best.status())) return best.status();
  if (best.ok()) {
    const double best_us = best->measurement.time_us;
    RETURN_IF_ERROR(tx.query(
        concat("UPDATE study_workloads SET best_us = ?, corrected = 1 WHERE ", kOfKey,
               " AND time_kind = ? AND best_us > 0 AND best_us < ?"),
        best_us, key.workload, key.backend, key.threads, key.cache, key.target,
        static_cast<int>(best->measurement.time_kind), best_us).run());
  } else {
    RETURN_IF_ERROR(tx.query(concat("UPDATE study_workloads SET best_us = 0, corrected = 1 "
                                    "WHERE ", kOfKey),
                             key.workload, key.backend, key.threads, key.cache,
                             key.target).run());
  }
  std::vector<std::string> studies;
  const std::string running =
      concat("SELECT id FROM studies WHERE state = 'running' AND target = ? AND id IN (SELECT study "
             "FROM study_workloads WHERE ", kOfKey, ")");
  Query query = tx.query(running, key.target, key.workload, key.backend, key.threads,
                         key.cache, key.target);
  while (query.next()) studies.push_back(query.text(0));
  RETURN_IF_ERROR(query.status());
  for (const std::string& study : studies) {
    changes->studies.insert(study);
    RETURN_IF_ERROR(tx.query("UPDATE studies SET owner = '', owner_until = 0 WHERE id = ?",
                             study).run());
  }
  return absl::OkStatus();
}

}  // namespace lw
