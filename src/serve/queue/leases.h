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
// What takes a transaction is re-runnable; `changes` is only added to.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/search/retry.h"
#include "src/serve/rows/rows.h"

namespace lw {

struct LeaseRules {
  int64_t ttl_ms = 30'000;
  int poison_agents = 2;                   // distinct ones that disappeared with a job
  int most_attempts = kQueueTries;         // of a job, however they end
  int most_refusals = 3;                   // of a job, for what it takes of memory
  int quarantine_failures = 3;             // of a device, in a row, on distinct jobs, and of
                                           // distinct clients where the workload may be to blame
  double slice_s = 1;                      // of a device's time: about what a job of several
                                           // candidates takes at most
  int64_t hold_ms = 200;                   // a device waits at most for the next job of a study before
                                           // it takes a longer one of another
  int unproven_jobs = 1;                   // at once, of a device that never finished one
  int64_t probation_ms = 1000;             // that such a device has for a job at least; 0: its lease
  int free_losses = 3;                     // of jobs by an agent, in a row, before it must rest
  int64_t rest_ms = 2000;                  // then, doubled with each further one
  int64_t longest_rest_ms = 60'000;
  int64_t confirm_ms = 20'000;             // that what another agent's word is wanted for waits for it
  int64_t backoff_ms = kQueuePause_ms;     // before a job that failed on a device runs again,
                                           // doubled with each attempt
};

// That a device's word does not count, and why.
struct Doubt {
  std::string kind;                        // "impossible", "contradicted"
  std::string key, actor, device, detail;
};

// What a transaction did that others wait for; used after it has committed.
struct Changes {
  std::set<std::string> studies;           // have new events or results
  std::set<std::string> ended;             // studies
  std::set<std::string> queued;            // queues (queue_of) with new jobs
  std::set<std::string> agents;            // that hold jobs which are not wanted any more, or whose
                                           // devices may have some now
  bool devices = false;                    // some are open again: studies that wait for one look
  bool deleted = false;                    // a study was: its rows may go at once
  std::vector<Key> keys;                   // have new measurements
  std::map<std::string, int> attempts;     // metrics: by how they ended
  std::map<std::string, int> verdicts;
  std::vector<double> queue_wait_s;
  std::vector<double> run_s;               // of each result, on its device
  std::map<std::string, double> cost_s;    // by phase of tuning
  std::map<std::string, int> discards;     // measurements that tell nothing, by reason
  int expired = 0;
  std::vector<Doubt> doubts;               // for the log, and counted
};

struct Holder {
  std::string agent, session;
  std::string device = "", target = "";    // ids
  std::string backend = "";                // of the device
  int64_t memory = 0;                      // of the device, in bytes; 0: not known
  bool is_proven = true;                   // the device has finished a job, its agent lost none since
  int64_t losses = 0;                      // of the agent, in a row
};

// What a job waits in, and a device takes from: devices of one target whose kernels one code
// generator makes.
std::string queue_of(std::string_view device_target, std::string_view backend);

// Whether so much memory is enough for what takes so much; 0: not known, so it may be.
inline bool may_hold(double memory, double needed) { return memory <= 0 || needed <= memory; }

// The job as an agent gets it.
loopwright::v1::Job job_message(const JobRow& job, const LeaseRules& rules);

// No agent, session or device has it any more.
void clear_holder(JobRow& job);

// Back to the queue, through no fault of its candidates: its agent never got it, gave it back or
// could not run it. After the last attempt it is dead instead, and nothing is charged.
absl::Status release_job(WriteTransaction& tx, JobRow job, std::string_view why,
                         const LeaseRules& rules, int64_t run_after, int64_t now_ms,
                         Changes* changes);
// Ends it without a result; enough of them in a row close their workload (dead_jobs).
absl::Status give_up_job(WriteTransaction& tx, JobRow& job, std::string_view why, int64_t now_ms,
                         Changes* changes);
// The agent lost a job that it had been given, whichever way. Again and again, and it rests, longer each
// time: it would use up the attempts of everybody's jobs.
absl::Status note_loss(WriteTransaction& tx, std::string_view agent, const LeaseRules& rules,
                       int64_t now_ms);
// Until when the agent rests; 0: it does not.
absl::StatusOr<int64_t> rest_of(Transaction& tx, std::string_view agent);
// It finished one.
absl::Status forget_losses(WriteTransaction& tx, std::string_view agent);
// Its agent disappeared with it.
absl::Status lose_job(WriteTransaction& tx, JobRow job, const LeaseRules& rules, int64_t now_ms,
                      Changes* changes);
// Leases that ran out; at most `count`. Returns how many.
absl::StatusOr<int> expire_leases(WriteTransaction& tx, const LeaseRules& rules, int count,
                                  int64_t now_ms, Changes* changes);
// What the agent's earlier sessions held.
absl::Status lose_sessions(WriteTransaction& tx, std::string_view agent,
                           std::string_view current_session, const LeaseRules& rules,
                           int64_t now_ms, Changes* changes);

}  // namespace lw
