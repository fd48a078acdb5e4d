// ScheduleService.BatchLookup as a ScheduleSource.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "src/client/source.h"
#include "src/net/channel.h"

namespace lw {

// Begins to connect, without waiting. What is wrong with the options or the certificates is said at
// once (check_server); a server that is not there is no error.
absl::StatusOr<std::shared_ptr<ScheduleSource>> make_grpc_source(const ServerAddress& server);

}  // namespace lw
