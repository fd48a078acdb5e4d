#include "src/serve/daemon.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "src/base/check.h"
#include "src/base/file_lock.h"
#include "src/base/log.h"
#include "src/expr/message.h"
#include "src/net/tls.h"
#include "src/serve/http.h"
#include "src/serve/server.h"

namespace lw {
namespace {

constexpr int kPageConnections = 8;
constexpr std::chrono::seconds kEndingDaemon{3};

// One daemon for a file: two would each think that they own all studies.
class DaemonLock {
 public:
  static absl::StatusOr<DaemonLock> take(const std::string& database) {
    DaemonLock lock;
    if (is_postgres_url(database)) return lock;
    const std::string path = database + ".serve";
    lock.descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock.descriptor_ < 0) {
      return absl::UnavailableError(concat(path, ": cannot be opened: ", std::strerror(errno)));
    }
    // One that was killed a moment ago holds it until the system has taken its memory back.
    if (!lock_within(lock.descriptor_, kEndingDaemon)) {
      return absl::FailedPreconditionError(concat(database, ": another daemon serves it"));
    }
    return lock;
  }
  DaemonLock() = default;
  DaemonLock(DaemonLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  DaemonLock& operator=(DaemonLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~DaemonLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }

 private:
  int descriptor_ = -1;
};

// `reading`: the page's own look at the database, so that it never waits for the writer nor holds
// it up.
absl::StatusOr<std::unique_ptr<HttpServer>> start_http(const DaemonOptions& options,
                                                       Service& service, Database& reading) {
  if (options.http.empty()) return std::unique_ptr<HttpServer>();
  HttpOptions http;
  ASSIGN_OR_RETURN(http.address, parse_bind_address(options.http));
  http.allow_plain_remote = options.insecure_expose;
  http.version = options.service.version;
  http.online_s = 1e-3 * static_cast<double>(options.service.online_ms);
  if (!http.address.loopback && wants_tls(options.tls)) {
    http.certificate = options.tls.certificate;
    http.key = options.tls.key;
    http.client_ca = options.tls.ca;
  }
  HttpHooks hooks;
  hooks.health = [&service] {
    const std::string hang = service.hang();
    const std::string problem = hang.empty() ? service.problem() : hang;
    return Health{problem.empty(), problem, hang.empty()};
  };
  hooks.now_ms = [&service] { return service.now_ms(); };
  hooks.before_metrics = [&service] { service.before_metrics(); };
  return HttpServer::start(http, reading, service.metrics(), std::move(hooks));
}

}  // namespace

absl::Status run_daemon(DaemonOptions options,
                        const std::function<void(const std::string&, const std::string&)>& started,
                        const std::function<bool()>& stop) {
  // gRPC's locks: as Debian builds Abseil, each looks for a cycle whenever it is taken.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (!options.config.empty()) {
    ASSIGN_OR_RETURN(options.service.config, load_serve_config(options.config));
  }
  ServerOptions server_options;
  ASSIGN_OR_RETURN(server_options.address, parse_bind_address(options.listen));
  server_options.reflection = options.reflection;
  TlsOptions tls;
  tls.report = [](std::string_view line) { log(Level::kInfo, "tls", {{"report", line}}); };
  ASSIGN_OR_RETURN(const ServerSecurity security,
                   server_security({server_options.address}, options.tls, options.insecure_expose,
                                   std::move(tls)));
  if (security.reloader != nullptr) server_options.credentials = security.credentials;
  if (!security.exposes.empty()) {
    log(Level::kWarning, "exposed", {{"what", security.exposes}});
  }
  ASSIGN_OR_RETURN(const DaemonLock lock, DaemonLock::take(options.database));
  ASSIGN_OR_RETURN(std::shared_ptr<Database> database, open_database(options.database));
  ASSIGN_OR_RETURN(const std::unique_ptr<Service> service,
                   Service::start(std::move(database), options.service));
  DatabaseOptions to_read;
  to_read.read_only = true;
  to_read.connections = kPageConnections;
  ASSIGN_OR_RETURN(const std::shared_ptr<Database> reading,
                   open_database(options.database, to_read));
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> http,
                   start_http(options, *service, *reading));
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::start(*service, server_options));
  const std::string url = http == nullptr ? "" : http->url();
  log(Level::kInfo, "serving", {{"grpc", server->address()}, {"http", url},
                                {"database", service->database().path()}});
  started(server->address(), url);
  std::string problem;
  while (!stop()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::string now = service->problem();
    if (now == problem) continue;
    problem = now;
    server->set_serving(true, problem.empty());
    if (problem.empty()) {
      log(Level::kInfo, "well_again");
    } else {
      log(Level::kError, "read_only", {{"problem", problem}});
    }
  }
  log(Level::kInfo, "stopping");
  server->stop(options.grace_s);
  return absl::OkStatus();
}

}  // namespace lw
