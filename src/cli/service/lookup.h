// Asking a service for schedules of workloads: what `lookup`, `history`, `records withdraw` share.
#pragma once

#include <string>
#include <vector>

#include "loopwright/v1/schedule.pb.h"
#include "src/cli/service/service.h"

namespace lw {

// Whether a rung of the ladder had something.
bool is_there(const loopwright::v1::LookupResult& result);

// One result for each, in their order; all of one snapshot where they fit into one call.
absl::StatusOr<std::vector<loopwright::v1::LookupResult>> look_up_remotely(
    const RemoteService& service, const std::vector<Asked>& asked, const std::string& cache,
    loopwright::v1::LookupOutcome worst);

// The key under which the workload has, or would have, its measurements.
absl::StatusOr<loopwright::v1::Key> key_of_workload(const RemoteService& service,
                                                    const WorkloadOptions& workload,
                                                    const std::string& cache);

}  // namespace lw
