// Rows of tuner_db/schema/schema_2.sql and later as values, read and written. States are the enums'
// names, see state_name().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/v1/agent.pb.h"
#include "loopwright/v1/fleet.pb.h"
#include "loopwright/v1/study.pb.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/store.h"

namespace lw {

// kDataLoss: `what` ("job 17") is there and cannot be read.
absl::Status damaged(const Transaction& tx, std::string_view what);

// What stands in `column` of the table's rows that fit `where`, in order: one step along an index
// of the columns of `where` and `column` for each value, however many rows have it.
absl::StatusOr<std::vector<std::string>> distinct_values(Transaction& tx, std::string_view table,
                                                         std::string_view column,
                                                         std::string_view where,
                                                         std::vector<Value> values);

// JOB_STATE_QUEUED <-> "queued": the name after the enum's prefix, in lower case.
template <class Enum>
std::string state_name(Enum value);
template <class Enum>
Enum parse_state(std::string_view name);   // the zero value for a name that is not there
template <class Enum>
std::vector<std::string> state_names();    // all but the zero value's

struct StudyRow {
  std::string id, client, actor;
  loopwright::v1::StudySpec spec;
  loopwright::v1::StudyState state = loopwright::v1::STUDY_STATE_QUEUED;
  int priority = 0;
  std::string target, device_target;       // ids; "" until a device was found
  std::string error;
  int trials = 0, failed = 0;
  int64_t created_ms = 0, updated_ms = 0, ended_ms = 0;
  std::string owner;
  int64_t owner_epoch = 0, owner_until = 0;
  std::string asked;                       // where it is to run, a target's id once it had a place;
                                           // "": of an older daemon, see the spec
  int threads = 0;                         // as asked for; once it had a place, those
  std::string waiting;                     // queued: why it has no place; "": none was looked for, or
                                           // it waits for a seat
  int64_t waiting_ms = 0, wait_until = 0;  // since when and until when it may; 0: it does not
  int64_t started_ms = 0;                  // when a device began with it; 0: none did
  int64_t fruitless = 0;                   // daemons in a row that ended in a long step of it
};
bool has_ended(loopwright::v1::StudyState state);
// The column's value while a study's rows are being deleted (deletion.h): it is none of the API's
// states, and nobody sees the study any more.
inline constexpr char kDeleted[] = "deleted";

struct StudyWorkloadRow {
  std::string study;
  int position = 0;
  std::string name, workload, backend;
  int threads = 0;
  std::string cache;
  double weight = 1;
  int trials = 0, failed = 0;
  double best_us = 0, zero_us = 0, busy_s = 0;
  double given_us = 0;                     // the pooled time that look-ups gave out when it was done
  int known = 0;                           // trials of the key that others made
  int64_t measured = 0;                    // candidates, one by one, by this study
  double measured_s = 0;                   // that they took of devices, without preparations
  bool done = false;
  std::string note;
  int dead_jobs = 0;                       // given up in a row
  double memory = 0;                       // bytes that measuring takes at least; 0: not known
  double least_us = 0;                     // no time is shorter; 0: not known
  int looks = 0;                           // comparisons made to settle whose word counts
  std::vector<std::string> doubted;        // agents whose word was found not to
  // Of what its devices give, once they are known, and of best_us.
  TimeKind time_kind = TimeKind::kMeasured;
};
// REQUIRES: the study's target is known.
Key key_of(const StudyRow& study, const StudyWorkloadRow& workload);

absl::StatusOr<std::optional<StudyRow>> find_study(Transaction& tx, std::string_view id);
absl::Status insert_study(WriteTransaction& tx, const StudyRow& row);  // and counts it, usage.h
// The oldest study of the row's client and actor that has not ended and whose spec is the row's.
absl::StatusOr<std::optional<StudyRow>> find_like(Transaction& tx, const StudyRow& row);
// State, target, error, counters and times, not the owner.
absl::Status update_study(WriteTransaction& tx, const StudyRow& row);
// `where` continues "SELECT ... FROM studies ": a condition, an order, a limit. Those that are
// deleted are left out.
absl::StatusOr<std::vector<StudyRow>> select_studies(Transaction& tx, std::string_view where,
                                                     const std::vector<Value>& values);
absl::StatusOr<std::vector<StudyWorkloadRow>> workloads_of(Transaction& tx, std::string_view study);
absl::Status insert_workload(WriteTransaction& tx, const StudyWorkloadRow& row);
absl::Status update_workload(WriteTransaction& tx, const StudyWorkloadRow& row);

struct JobRow {
  int64_t id = 0;
  std::string study;
  int position = 0;
  std::string client, target, backend;     // target and backend: of the devices that may take it
  loopwright::v1::JobState state = loopwright::v1::JOB_STATE_QUEUED;
  int priority = 0;
  int64_t run_after = 0;
  int attempt = 0;
  int64_t epoch = 0;
  std::string device, agent, session;
  int64_t lease_until = 0, leased_ms = 0, created_ms = 0, ended_ms = 0;
  int candidates = 0;
  loopwright::v1::Job payload;
  std::vector<std::string> sources, lost_on;
  std::string digest, detail;
  std::vector<std::pair<int64_t, std::string>> holders;  // epochs and agents of its latest leases
  std::vector<std::string> avoid;          // agents that shall not take it, until then
  int64_t avoid_until = 0;
};
absl::StatusOr<int64_t> insert_job(WriteTransaction& tx, const JobRow& row);  // its id
absl::StatusOr<std::optional<JobRow>> find_job(Transaction& tx, int64_t id);
// All that may change: the lease, the state, times, what was lost, digest and detail, who is avoided.
absl::Status update_job(WriteTransaction& tx, const JobRow& row);
absl::StatusOr<std::vector<JobRow>> select_jobs(Transaction& tx, std::string_view where,
                                                const std::vector<Value>& values);

struct AgentRow {
  std::string id;
  std::vector<std::string> sessions;       // the current one first
  std::string version, labels, peer;       // labels: JSON
  int64_t seen_ms = 0;
  int64_t losses = 0;                      // of jobs, in a row (leases.h); put_agent() leaves it
  int64_t session_number = 0;              // of the current session; 0: older
  int64_t left_ms = 0;                     // when it left in order; 0: it has not
};
absl::StatusOr<std::optional<AgentRow>> find_agent(Transaction& tx, std::string_view id);
absl::Status put_agent(WriteTransaction& tx, const AgentRow& row);
absl::StatusOr<std::vector<AgentRow>> select_agents(Transaction& tx, std::string_view where,
                                                    const std::vector<Value>& values);

struct DeviceRow {
  std::string id, agent;
  loopwright::v1::Device description;
  std::string target;
  loopwright::v1::DeviceAdmission admission = loopwright::v1::DEVICE_ADMISSION_OPEN;
  std::string reason, evidence;            // evidence: a JSON array
  loopwright::v1::DeviceHealth health = loopwright::v1::DEVICE_HEALTH_OK;
  int failures = 0;
  int64_t jobs_done = 0, jobs_failed = 0, seen_ms = 0;
  int64_t left_ms = 0;                     // when its agent left in order; 0: it has not
  int64_t confirmed = 0, contradicted = 0;  // leaders by its word, by another agent's
};
absl::StatusOr<std::optional<DeviceRow>> find_device(Transaction& tx, std::string_view id);
absl::Status put_device(WriteTransaction& tx, const DeviceRow& row);
absl::StatusOr<std::vector<DeviceRow>> select_devices(Transaction& tx, std::string_view where,
                                                      const std::vector<Value>& values);

// Gives the event the study's next number and its time.
absl::Status add_event(WriteTransaction& tx, std::string_view study, int64_t now_ms,
                       loopwright::v1::StudyEvent event);
absl::StatusOr<std::vector<loopwright::v1::StudyEvent>> events_after(Transaction& tx,
                                                                     std::string_view study,
                                                                     int64_t sequence, int count);

}  // namespace lw
