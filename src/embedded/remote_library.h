// The library that speaks to servers for who links no gRPC: what both sides of its loading know.
// They are of one build: C++ objects go from one to the other.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "src/client/server_source.h"

namespace lw {

inline constexpr char kRemoteLibrary[] = "libloopwright_remote.so.0";

using ServerSource = absl::StatusOr<std::shared_ptr<ScheduleSource>>;
using RemoteVersion = const char*();       // LOOPWRIGHT_VERSION of its build
using RemoteOpen = void(const NamedServer& server, ServerSource* source);

}  // namespace lw

extern "C" {
lw::RemoteVersion loopwright_remote_version;
lw::RemoteOpen loopwright_remote_open;     // open_server_source()
}
