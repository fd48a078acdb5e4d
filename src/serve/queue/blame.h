// What speaks against a device: jobs that failed through it, and words of it that do not hold. All is
// kept with it as evidence; enough of it closes the device.
#pragma once

#include <string>

#include "src/serve/queue/leases.h"

namespace lw {

// A line of the audit, and of the log once it is committed.
absl::Status note_doubt(WriteTransaction& tx, const Doubt& doubt, int64_t now_ms, Changes* changes);

// Notes that the job failed through its device; enough of them in a row close it.
absl::Status blame_device(WriteTransaction& tx, const JobRow& job, const std::string& verdict,
                          const std::string& detail, const LeaseRules& rules, int64_t now_ms,
                          Changes* changes);

// The job's device says what its target cannot do (src/measure/judge/plausible.h). That is false,
// or the target's description is: which, shows when another agent does the job, which is wanted
// soon. Then, or never, it counts against the device (settle_suspicions). `job` is told to avoid
// the agent.
absl::Status suspect_device(WriteTransaction& tx, JobRow& job, const std::string& detail,
                            const LeaseRules& rules, int64_t now_ms);
// The job was done by its device, at possible times: those who said otherwise were wrong. Three such
// jobs close a device.
absl::Status settle_suspicions(WriteTransaction& tx, const JobRow& job, const LeaseRules& rules,
                               int64_t now_ms, Changes* changes);

// Others do not find what the device has said of a schedule that led. Three times by a majority, and more
// often than they found it, and it is closed.
absl::Status contradict_device(WriteTransaction& tx, std::string_view device,
                               const std::string& detail, bool by_majority,
                               const LeaseRules& rules, int64_t now_ms, Changes* changes);

}  // namespace lw
