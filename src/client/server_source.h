// The source behind ClientOptions::server.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/client/source.h"

namespace lw {

// As ClientOptions has them.
struct NamedServer {
  std::string address;
  std::string tls_ca, tls_certificate, tls_key;
  bool insecure = false;
};

// As make_grpc_source() (grpc/grpc_source.h). Defined by lw_grpc_source, or by lw_embedded, whose
// users link no gRPC: it loads a library that does, and says kUnavailable where there is none.
// Thread-safe.
absl::StatusOr<std::shared_ptr<ScheduleSource>> open_server_source(const NamedServer& server);

}  // namespace lw
