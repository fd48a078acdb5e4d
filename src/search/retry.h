// Who tries again what failed through no fault of a candidate (is_retried(), tuner_db/verdict.h),
// how often, and what then: the whole policy. The layers are nested and each knows its own row, so
// the tries multiply: a candidate is measured 2 * 4 = 8 times by `tune` and 2 * 2 * 8 = 32 times by
// a service at most, before the search is told that it is lost.
//
//   layer                                tries again         and after the last try
//   measurer, src/measure/local.cc       a build, a timing   says how it failed
//   local search, src/search/            a candidate         it is lost: it may be proposed again
//     local_loop.cc                      finalists           none of them is confirmed
//   agent's job, src/agent/job.cc        a candidate         reports it; nothing is stored, and it
//                                                            may be proposed again
//   device's host, src/agent/runner.cc   a candidate, alone  it is charged with a crash
//                                        a job               the job fails
//   queue, src/serve/queue/leases.h      a job               it is given up, and nobody is charged
//
// Tries count the first one. Only the queue pauses before it tries again.
#pragma once

#include <cstdint>

namespace lw {

inline constexpr int kMeasurerTries = 2;   // of a build whose builder was lost, and of a timing
inline constexpr int kLocalTries = 4;      // of a candidate
inline constexpr int kFinalistsTries = 2;  // of all finalists together
inline constexpr int kJobTries = 2;        // of a candidate, within a job
inline constexpr int kAloneTries = 2;      // of a candidate that ended the process of its device
inline constexpr int kHostTries = 9;       // of a job whose candidates do that one after the other
inline constexpr int kWholeTries = 2;      // of one that ends it else: compared, or making ready
inline constexpr int kQueueTries = 8;      // of a job, however they end
inline constexpr int64_t kQueuePause_ms = 500;  // after a device's failure, doubled with each try

// Outcomes of the local search that told nothing, of whatever candidates: one more in a row, and
// its measurer is given up.
inline constexpr int kLostInARow = 24;

}  // namespace lw
