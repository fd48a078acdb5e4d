#include "src/serve/rows/deletion.h"

#include <algorithm>
#include <vector>

#include "src/base/check.h"
#include "src/serve/rows/rows.h"
#include "tuner_db/tables/usage.h"

namespace lw {
namespace {

// An orphan goes with its job.
absl::StatusOr<int64_t> delete_jobs(WriteTransaction& tx, const std::string& study, int most) {
  std::vector<int64_t> jobs;
  {
    Query query = tx.query("SELECT id FROM jobs WHERE study = ? LIMIT ?", study, most);
    while (query.next()) jobs.push_back(query.integer(0));
    RETURN_IF_ERROR(query.status());
  }
  for (const int64_t job : jobs) {
    RETURN_IF_ERROR(tx.query("DELETE FROM orphans WHERE job = ?", job).run());
    RETURN_IF_ERROR(tx.query("DELETE FROM jobs WHERE id = ?", job).run());
  }
  return static_cast<int64_t>(jobs.size());
}

// A key, another study, and whoever tunes it now hold on to a workload.
absl::Status delete_rest(WriteTransaction& tx, const std::string& study) {
  std::vector<std::string> workloads;
  {
    Query query = tx.query("SELECT DISTINCT workload FROM study_workloads WHERE study = ?", study);
    while (query.next()) workloads.push_back(query.text(0));
    RETURN_IF_ERROR(query.status());
  }
  {
    Query query = tx.query("SELECT CASE WHEN actor = '' THEN 'client/' || client ELSE actor "
                           "END, length(spec) FROM studies WHERE id = ?", study);
    std::string client;
    int64_t bytes = 0;
    if (query.next()) client = query.text(0), bytes = query.integer(1);
    RETURN_IF_ERROR(query.status());
    RETURN_IF_ERROR(add_use(tx, client, {.studies = -1, .spec_bytes = -bytes}));
  }
  RETURN_IF_ERROR(tx.query("DELETE FROM study_workloads WHERE study = ?", study).run());
  RETURN_IF_ERROR(tx.query("DELETE FROM studies WHERE id = ?", study).run());
  for (const std::string& workload : workloads) {
    RETURN_IF_ERROR(tx.query(
        "DELETE FROM workloads WHERE id = ? AND NOT EXISTS (SELECT 1 FROM keys WHERE workload = ?) "
        "AND NOT EXISTS (SELECT 1 FROM study_workloads WHERE workload = ?) "
        "AND NOT EXISTS (SELECT 1 FROM claims WHERE workload = ?)",
        workload, workload, workload, workload).run());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status mark_deleted(WriteTransaction& tx, std::string_view study) {
  return tx.query("UPDATE studies SET state = ? WHERE id = ? AND ended_ms > 0", kDeleted,
                  study).run();
}

absl::StatusOr<bool> delete_piece(WriteTransaction& tx, const std::string& study, int most) {
  {
    Query query = tx.query("SELECT 1 FROM studies WHERE id = ? AND state = ?", study, kDeleted);
    const bool is_there = query.next();
    RETURN_IF_ERROR(query.status());
    if (!is_there) return true;
  }
  ASSIGN_OR_RETURN(const int64_t jobs, delete_jobs(tx, study, most));
  if (jobs > 0) return false;
  ASSIGN_OR_RETURN(const int64_t events, delete_events(tx, study, INT64_MAX, most));
  if (events > 0) return false;
  RETURN_IF_ERROR(delete_rest(tx, study));
  return true;
}

absl::StatusOr<int64_t> delete_events(WriteTransaction& tx, std::string_view study, int64_t until,
                                      int most) {
  int64_t first = 0;
  {
    Query query = tx.query("SELECT first_event FROM studies WHERE id = ?", study);
    if (query.next()) first = query.integer(0);
    RETURN_IF_ERROR(query.status());
  }
  const int64_t end = std::min(until, first + most);
  RETURN_IF_ERROR(tx.query("DELETE FROM events WHERE study = ? AND sequence < ?", study,
                           end).run());
  const int64_t gone = tx.changes();
  if (gone == 0) return 0;
  RETURN_IF_ERROR(tx.query("UPDATE studies SET first_event = ? WHERE id = ?", end, study).run());
  return gone;
}

}  // namespace lw
