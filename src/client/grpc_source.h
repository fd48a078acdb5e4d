// ScheduleService.BatchLookup as a ScheduleSource.
#pragma once

#include <memory>
#include <string>

#include "src/client/source.h"

namespace grpc {
class ChannelCredentials;
}

namespace lw {

// The channel is made by the first call. `credentials`: null for an unencrypted channel (a daemon
// on this machine).
std::shared_ptr<ScheduleSource> make_grpc_source(
    const std::string& address, std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr);

}  // namespace lw
