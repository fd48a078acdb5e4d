// What a search wants measured, as jobs for the queue.
#pragma once

#include <vector>

#include "src/search/steps.h"
#include "src/serve/rows/rows.h"

namespace lw {

struct Target;

// In the batch's order. Each takes about `slice_s` of a device at most, as far as the workload's
// candidates so far tell, so that no study holds a device for long; finalists, which are compared,
// stay together. REQUIRES: the study's device is known, the batch not empty.
std::vector<JobRow> jobs_of(const StudyRow& study, const StudyWorkloadRow& workload,
                            const Target& target, const Batch& batch, double slice_s,
                            int64_t now_ms);

}  // namespace lw
