// Who works on which job: queued -> leased -> done | dead | cancelled.
//
// A claim counts the attempt and moves the epoch in the claiming transaction, so that a crash
// cannot make an attempt free; the epoch is the fence: whatever comes with another one changes
// nothing. A job whose agents disappeared (a lease ran out, an agent came back as another session)
// goes back to the queue; after two distinct agents, or one too often, it is poison: with several
// candidates it is split into jobs of one, so that the guilty one is found, and a single one is
// charged with a crash. Attempts that ended otherwise (given back, failed through a device) make
// nothing poison; after too many of any kind a job is given up, and nothing is charged.
//
// Claims are fair between clients: the next job is of the client with the smallest
// (running + 1) / weight x 2^(-priority / 100), the score of Buildbarn's queue (service.md section
// 6), then of the highest priority, then the oldest. Among equals a device stays with the workload
// that it has prepared.
//
// All REQUIRE: inside a write(). Each is re-runnable; `changes` is only added to.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/serve/rows.h"

namespace lw {

struct LeaseRules {
  int64_t ttl_ms = 30'000;
  int poison_agents = 2;                   // distinct ones that disappeared with a job
  int most_attempts = 8;                   // of a job, however they end
  int quarantine_failures = 3;             // of a device, in a row, on distinct jobs
  int64_t backoff_ms = 500;                // before a job that failed on a device runs again,
                                           // doubled with each attempt
};

// What a transaction did that others wait for; used after it has committed.
struct Changes {
  std::set<std::string> studies;           // have new events or results
  std::set<std::string> ended;             // studies
  std::set<std::string> queued;            // targets with newly queued jobs
  std::vector<Key> keys;                   // have new measurements
  std::map<std::string, int> attempts;     // metrics: by how they ended
  std::map<std::string, int> verdicts;
  std::vector<double> queue_wait_s;
  std::vector<double> run_s;               // of each result, on its device
  std::map<std::string, double> cost_s;    // by phase of tuning
  std::map<std::string, int> discards;     // measurements that tell nothing, by reason
  int expired = 0;
};

// How much of the fleet each client uses now, and may; made of the database every now and then,
// kept up in between by its user.
struct Shares {
  std::map<std::string, int> running;      // leased jobs by client
  std::map<std::string, double> weights;
  double usual_weight = 1;                 // of those that are not there
};
absl::StatusOr<Shares> read_shares(Database& database);
// Of which there are queued jobs, ready or not.
absl::StatusOr<std::vector<std::string>> queued_targets(Database& database);

struct Holder {
  std::string agent, session;
  std::string device, target;              // ids
};

// Leases up to `count` jobs to the device. `last_study` and `last_position`: what it has prepared.
struct Claims {
  std::string last_study;
  int last_position = -1;
  int count = 1;
};
absl::StatusOr<std::vector<JobRow>> claim_jobs(Database& database, const Holder& holder,
                                               const Claims& claims, Shares& shares,
                                               const LeaseRules& rules, int64_t now_ms,
                                               Changes* changes);

// The job as an agent gets it.
loopwright::v1::Job job_message(const JobRow& job, const LeaseRules& rules);

// No agent, session or device has it any more.
void clear_holder(JobRow& job);

// Back to the queue, through no fault of its candidates: its agent never got it, gave it back or
// could not run it. After the last attempt it is dead instead, and nothing is charged.
absl::Status release_job(Database& database, JobRow job, std::string_view why,
                         const LeaseRules& rules, int64_t run_after, int64_t now_ms,
                         Changes* changes);
// Its agent disappeared with it.
absl::Status lose_job(Database& database, JobRow job, Store& store, const LeaseRules& rules,
                      int64_t now_ms, Changes* changes);
// Leases that ran out; at most `count`. Returns how many.
absl::StatusOr<int> expire_leases(Database& database, Store& store, const LeaseRules& rules,
                                  int count, int64_t now_ms, Changes* changes);
// What the agent's earlier sessions held.
absl::Status lose_sessions(Database& database, Store& store, std::string_view agent,
                           std::string_view current_session, const LeaseRules& rules,
                           int64_t now_ms, Changes* changes);

}  // namespace lw
