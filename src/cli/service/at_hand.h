// `lookup` as a compiler does it (loopwright/client.h): from what is at hand, and from a server that is
// waited for no longer than the deadline.
#pragma once

#include <string>
#include <vector>

#include "loopwright/client.h"
#include "src/cli/service/service.h"

namespace lw {

struct AtHand {
  std::string snapshot;                    // file; "": none
  std::string cache_folder;                // of servers' answers; "": none
  int deadline_ms = 0;                     // 0: not said, the client's own

  bool is_named() const { return !snapshot.empty() || !cache_folder.empty() || deadline_ms > 0; }
};
void add_at_hand(CliArguments app, AtHand* options);

struct FoundAtHand {
  std::vector<ClientAnswer> answers;       // of each workload
  std::string away;                        // "": the server answered, or was not needed
  std::string places;                      // where it was looked for, for messages
};
// Answers below `worst` are to be taken for misses: they have no schedule, unless it was adapted
// anyway. Errors are the options' and the snapshot's.
absl::StatusOr<FoundAtHand> look_up_at_hand(const AtHand& options, const RemoteService& service,
                                            const std::vector<Asked>& asked, Rung worst);

}  // namespace lw
