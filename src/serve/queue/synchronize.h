// One Synchronize call as a transaction: the agent's session, its devices' descriptions, results,
// leases (renewed, taken back, cancelled) and new work. Beside the database it only knows what the
// caller says, so that it is tested without a server.
//
// A job that is leased to the agent but that the agent does not list never reached it (an answer
// was lost): it is given to it again, or, when its lease has run for a while, goes back to the
// queue; unless the call is older than one already seen, which knows less than it seems.
#pragma once

#include "src/serve/queue/claims.h"

namespace lw {

struct SyncCall {
  const loopwright::v1::SynchronizeRequest* request = nullptr;
  std::string peer;
  bool is_latest = true;                   // no later call of the session was seen
  bool stopping = false;                   // the daemon gives no more work
  bool new_devices_wait = false;           // for an admin who admits their agent with their target
  std::map<std::string, Claims> prepared;  // by device id: what it has ready; the counts are
                                           // ignored
};

constexpr int kMostDevices = 256;          // of an agent, in a request and in all

// What does not depend on the database: names, sizes. INVALID_ARGUMENT naming the field.
absl::Status check_request(const loopwright::v1::SynchronizeRequest& request);

struct SyncAnswer {
  loopwright::v1::SynchronizeResponse response;
  std::vector<JobRow> claimed;
  std::map<std::string, std::string> queues;  // of the devices that are open, by device id
  std::set<std::string> exhausted;         // queues that had fewer jobs ready than were wanted
  int64_t held_until_ms = 0;               // a device waits till then at most for one job rather than
                                           // another; 0: none does
  bool rests = false;                      // it gets no work till then, nor is woken for any
  bool waits_anew = false;                 // what it leaves may be for another device
  absl::Status refusal;                    // said in place of the response, which is carried out
  Changes changes;
};

// FAILED_PRECONDITION (SESSION_REPLACED): another session of the agent has begun since.
// PERMISSION_DENIED: a device of another agent. Re-runnable.
absl::Status synchronize(WriteTransaction& tx, const SyncCall& call, Shares& shares,
                         const LeaseRules& rules, int64_t now_ms, SyncAnswer* answer);

}  // namespace lw
