#include "src/serve/daemon.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/base/slices.h"
#include "src/net/grpc_log.h"
#include "src/net/tls.h"
#include "src/serve/daemon_lock.h"
#include "src/serve/wire/http.h"
#include "src/serve/wire/server.h"

namespace lw {
namespace {

constexpr int kPageConnections = 8;
// Of the processor, for each thread: a search that computes holds up no look-up for longer.
constexpr std::chrono::microseconds kSlice{300};
constexpr double kStatement_s = 30;       // of a read on PostgreSQL; what we ask takes milliseconds
constexpr std::chrono::milliseconds kFirstPause{500}, kLongestPause{15'000};  // for a database

// The database, waited for where it is a server's: one that starts with this daemon (a machine that
// boots, a failover) is there soon, and a service manager's limit of restarts is not for that.
// kCancelled: told to stop meanwhile.
absl::StatusOr<std::shared_ptr<Database>> open_when_there(const std::string& url,
                                                          const DatabaseOptions& options,
                                                          const std::function<bool()>& stop) {
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    absl::StatusOr<std::shared_ptr<Database>> database = open_database(url, options);
    if (!absl::IsUnavailable(database.status()) || !is_postgres_url(url)) return database;
    log(Level::kWarning, "waiting_for_database",
        {{"why", std::string(database.status().message())}, {"again_in_ms", pause.count()}});
    const auto again = std::chrono::steady_clock::now() + pause;
    while (std::chrono::steady_clock::now() < again) {
      if (stop()) return absl::CancelledError("told to stop before the database was there");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

// `reading`: the page's own look at the database, so that it never waits for the writer nor holds
// it up.
absl::StatusOr<std::unique_ptr<HttpServer>> start_http(const DaemonOptions& options,
                                                       std::shared_ptr<TlsReloader> tls,
                                                       Service& service, Database& reading) {
  if (options.http.empty()) return std::unique_ptr<HttpServer>();
  HttpOptions http;
  ASSIGN_OR_RETURN(http.address, parse_bind_address(options.http));
  http.allow_plain_remote = options.insecure_expose;
  http.version = options.service.version;
  http.online_s = 1e-3 * static_cast<double>(options.service.online_ms);
  if (!http.address.loopback && tls != nullptr) {
    http.tls = [tls] { return tls->material(); };
  } else {
    ASSIGN_OR_RETURN(const std::string exposes,
                     http_exposure(http.address, options.insecure_expose));
    if (!exposes.empty()) log(Level::kWarning, "exposed", {{"what", exposes}});
  }
  HttpHooks hooks;
  Core& core = *service.core;
  hooks.health = [&core] {
    const std::string hang = core.liveness.problem();
    const std::string problem = hang.empty() ? core.problem() : hang;
    return Health{problem.empty(), problem, hang.empty(), hang.empty() && !core.is_stopping};
  };
  hooks.denied = [&core](const Identity& who) { return core.denied.check(who); };
  hooks.now_ms = [&core] { return core.now_ms(); };
  hooks.before_metrics = [&service, tls] {
    service.house.before_metrics();
    if (tls != nullptr) {
      const int64_t left_s = tls->state().not_after_s - unix_ms() / 1000;
      service.core->metrics.set(Metric::kCertificateEnds, static_cast<double>(left_s));
    }
  };
  return HttpServer::start(http, reading, core.metrics, std::move(hooks));
}

// --config, looked at while the daemon runs: whoever is denied there is denied within seconds.
class ConfigFile {
 public:
  ConfigFile(std::string path, ServeConfig config)
      : path_(std::move(path)), config_(std::move(config)) {}

  void look(Core& core) {
    const auto now = std::chrono::steady_clock::now();
    if (path_.empty() || now < next_) return;
    next_ = now + kLookAgain;
    absl::StatusOr<ServeConfig> config = load_serve_config(path_);
    // Of a file that is being written, the next look sees the whole.
    const std::string problem = config.ok() ? "" : std::string(config.status().message());
    const bool is_news = !problem.empty() && problem == previous_ && problem != reported_;
    previous_ = problem;
    if (is_news) {
      reported_ = problem;
      core.metrics.add(Metric::kReloadFailures, 1, {"config"});
      log(Level::kError, "config_not_reloaded", {{"what", problem}});
    }
    if (!config.ok()) return;
    reported_.clear();
    if (*config == config_) return;
    const bool only_denied = [&] {
      ServeConfig same = config_;
      same.denied = config->denied;
      return same == *config;
    }();
    config_ = *std::move(config);
    log(Level::kInfo, "config_reloaded", {{"denied", config_.denied.size()}});
    if (!only_denied) {
      log(Level::kWarning, "config_needs_a_restart",
          {{"what", "quotas, rates, weights and retention are read at the start"}});
    }
    core.deny(config_.denied);
  }

 private:
  static constexpr std::chrono::seconds kLookAgain{2};
  const std::string path_;
  ServeConfig config_;                     // as last read
  std::chrono::steady_clock::time_point next_;
  std::string previous_, reported_;        // what was wrong with the file
};

}  // namespace

absl::Status run_daemon(DaemonOptions options,
                        const std::function<void(const std::string&, const std::string&)>& started,
                        const std::function<bool()>& stop) {
  // gRPC's locks: as Debian builds Abseil, each looks for a cycle whenever it is taken.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  prefer_slices(kSlice);                   // before there are threads
  if (!options.config.empty()) {
    ASSIGN_OR_RETURN(options.service.config, load_serve_config(options.config));
  }
  ServerOptions server_options;
  ASSIGN_OR_RETURN(server_options.address, parse_bind_address(options.listen));
  server_options.reflection = options.reflection;
  TlsOptions tls;
  // The reloader is there before the service, and may outlive it.
  const auto failures = std::make_shared<std::atomic<int>>(0);
  tls.report = [failures](bool taken, std::string_view what) {
    if (!taken) ++*failures;
    log(taken ? Level::kInfo : Level::kError,
        taken ? "certificate_reloaded" : "certificate_not_reloaded", {{"what", what}});
  };
  ASSIGN_OR_RETURN(const ServerSecurity security,
                   server_security({server_options.address}, options.tls, options.insecure_expose,
                                   std::move(tls)));
  if (security.reloader != nullptr) server_options.credentials = security.credentials;
  if (!security.exposes.empty()) {
    log(Level::kWarning, "exposed", {{"what", security.exposes}});
  }
  ASSIGN_OR_RETURN(const DaemonLock lock, DaemonLock::take(options.database));
  DatabaseOptions to_write;
  to_write.insecure = options.insecure_database;
  to_write.statement_s = kStatement_s;
  absl::StatusOr<std::shared_ptr<Database>> opened =
      open_when_there(options.database, to_write, stop);
  if (absl::IsCancelled(opened.status())) return absl::OkStatus();
  RETURN_IF_ERROR(opened.status());
  std::shared_ptr<Database> database = *std::move(opened);
  ASSIGN_OR_RETURN(const std::unique_ptr<Service> service,
                   Service::start(std::move(database), options.service));
  Core& core = *service->core;
  DatabaseOptions to_read;
  to_read.read_only = true;
  to_read.insecure = options.insecure_database;
  to_read.statement_s = kStatement_s;
  to_read.connections = kPageConnections;
  ASSIGN_OR_RETURN(const std::shared_ptr<Database> reading,
                   open_database(options.database, to_read));
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> http,
                   start_http(options, security.reloader, *service, *reading));
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::start(*service, server_options));
  const std::string url = http == nullptr ? "" : http->url();
  log(Level::kInfo, "serving", {{"grpc", server->address()}, {"http", url},
                                {"database", core.database->path()}});
  if (security.reloader != nullptr) name_peers_of(server->port());
  started(server->address(), url);
  std::string problem;
  ConfigFile config(options.config, options.service.config);
  while (!stop()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    core.metrics.add(Metric::kReloadFailures, failures->exchange(0), {"certificate"});
    core.metrics.add(Metric::kHandshakesFailed, static_cast<double>(take_failed_handshakes()));
    config.look(core);
    const std::string now = core.problem();
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
