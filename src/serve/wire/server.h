// The Service on the wire: gRPC, with health and reflection. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/net/address.h"
#include "src/net/channel.h"
#include "src/serve/service/service.h"

namespace grpc {
class ServerCredentials;
}

namespace lw {

struct ServerOptions {
  BindAddress address;
  // null: none, for loopbacks; others get the processor that denies by default (auth.h).
  std::shared_ptr<grpc::ServerCredentials> credentials;
  int lookup_threads = 4;
  int read_threads = 8;                    // for calls that read the database
  int write_threads = 16;                  // for calls that wait for a commit
  int adapting_threads = 4;                // for look-ups that compute schedules
  int bulk_threads = 8;                    // for records by the thousand, and backups
  bool reflection = false;
  Keepalive keepalive = {.time_ms = 60'000, .timeout_ms = 10'000};
  int64_t handshake_ms = 10'000;           // TLS and HTTP/2, whatever arrives meanwhile
  int64_t least_ping_ms = 5'000;           // between a client's pings; who asks more often is cut
                                           // off
};

class Server {
 public:
  // kUnavailable: the address is taken, or not of this machine. `service` outlives it.
  static absl::StatusOr<std::unique_ptr<Server>> start(Service& service,
                                                       const ServerOptions& options);
  ~Server();
  // "127.0.0.1:7070", with the port that was found for port 0.
  const std::string& address() const;
  int port() const;                        // 0: a unix socket
  // What health checks say of it: serving, or not (draining, a database that cannot be written).
  void set_serving(bool reads, bool writes);
  // Gives no more work, answers what is in flight, for at most `grace_s`; then cuts.
  void stop(double grace_s);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lw
