// The daemon's HTTP port: metrics, health, and the read-only page with its JSON. GET and HEAD only;
// nothing of a URL reaches the file system (the page is compiled in) or SQL text.
//
//   /metrics           Prometheus's text       /healthz  200 while the process works, 503 and why
//                                                        when one of its threads hangs
//   /                  the page                /readyz   200 while it can serve, else 503 and why;
//                                              /readyz?reads  while it can answer look-ups: also
//                                                        while its database takes no writes
//   /api/overview, /api/studies, /api/studies/ID, /api/studies/ID/curve, /api/studies/ID/failures,
//   /api/devices, /api/agents, /api/queue, /api/timeline, /api/schedules, /api/failures: JSON, see
//   src/serve/page/views.h
//
// Errors of /api are {"error": TEXT} with 400, 403, 404, 503. Who may connect may read: names,
// timings and schedules, not programs and not the audit. So beyond the loopback it speaks HTTPS, to
// certificates of readers, clients and admins (403 for others), unless the caller insists on plain
// HTTP; on loopback a request's Host must be a loopback name, which
// keeps web pages of others (DNS rebinding) out. Slow peers hold a socket each, for seconds, and
// nobody up: http_connections.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/net/address.h"
#include "src/net/https.h"
#include "src/serve/access/auth.h"
#include "src/serve/core/metrics.h"
#include "tuner_db/sql/database.h"

namespace lw {

struct HttpOptions {
  BindAddress address;                     // parse_bind_address("127.0.0.1:9464"); its first one
  // Set: the port speaks HTTPS and asks clients for a certificate of the authority. Asked at each
  // handshake, so that renewed certificates are used as soon as they are in use elsewhere.
  MaterialSource tls;
  bool allow_plain_remote = false;         // plain HTTP beyond loopback
  double online_s = 60;                    // an agent silent for longer is offline
  std::string version;
};

struct Health {
  bool ready = true;
  std::string problem;                     // "the database is read-only: disk full"; empty: well
  bool alive = true;                       // no thread hangs
  bool reads = true;                       // look-ups and lists are answered, whatever writes do
};

// What the server asks its owner. All are called on its threads, at once.
struct HttpHooks {
  std::function<Health()> health;
  std::function<absl::Status(const Identity&)> denied;  // of a revoked certificate; may be absent
  std::function<int64_t()> now_ms = unix_ms;  // the service's clock, where there is one
  std::function<void()> before_metrics;    // sets gauges that count rows; may be absent
};

class HttpServer {
 public:
  // Serves from now on, on threads of its own. `database` is only read, and should be a connection
  // apart from the writer's (DatabaseOptions.read_only), so that a reader never holds a writer up.
  // Both must outlive the server. kInvalidArgument: not loopback, and neither TLS nor allowed;
  // a certificate that cannot be read. kUnavailable: the port is taken.
  static absl::StatusOr<std::unique_ptr<HttpServer>> start(const HttpOptions& options,
                                                           Database& database,
                                                           const Metrics& metrics, HttpHooks hooks);
  ~HttpServer();                           // stops: ends what is being answered, then joins
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  std::string url() const;                 // "http://127.0.0.1:9464/"

 private:
  class Implementation;
  explicit HttpServer(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lw
