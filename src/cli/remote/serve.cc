// `serve`: the tuning daemon.
#include <iostream>

#include "absl/strings/numbers.h"
#include "src/base/log.h"
#include "src/cli/commands.h"
#include "src/cli/interrupt.h"
#include "src/net/grpc_log.h"
#include "src/serve/daemon.h"

namespace lw {
namespace {

constexpr int kLastResortSeconds = 10;     // to wind up, after the grace

struct ServeOptions {
  DaemonOptions daemon;
  Output output;
  std::string log_level = "info";
};

absl::StatusOr<int> run_serve(ServeOptions& options) {
  Level level = Level::kInfo;
  if (!parse_level(options.log_level, &level)) {
    return absl::InvalidArgumentError("--log-level must be debug, info, warning or error");
  }
  set_log_level(level);
  take_grpc_log();
  watch_interrupts(1, static_cast<int>(options.daemon.grace_s) + kLastResortSeconds);
  options.daemon.service.version = LOOPWRIGHT_VERSION;
  const auto started = [&](const std::string& grpc, const std::string& http) {
    emit(
        options.output, {{"listen", grpc}, {"http", http}},
        {{"listen", "http"}, {{grpc, http}}, {}},
        concat("serving ", grpc, http.empty() ? "" : concat(", page and metrics at ", http), "\n"));
    std::cout.flush();
  };
  RETURN_IF_ERROR(environment(run_daemon(options.daemon, started, interrupted)));
  return kDone;
}

Action declare_serve(CliArguments app) {
  auto options = std::make_shared<ServeOptions>();
  DaemonOptions& daemon = options->daemon;
  app.add_option("--listen", daemon.listen, "gRPC: HOST:PORT, [V6]:PORT or unix:PATH")
      .capture_default_str();
  app.add_option("--http", daemon.http, "page, metrics and health; '' for none")
      .capture_default_str();
  app.add_option("--db", daemon.database, "a file, or postgres://USER@HOST/NAME (password from "
                                          "PGPASSFILE or ~/.pgpass)")
      .envname("LOOPWRIGHT_DB").capture_default_str();
  app.add_flag("--insecure-database", daemon.insecure_database,
               "speak to another machine's PostgreSQL without sslmode=verify-full");
  app.add_option("--config", daemon.config,
                 "JSON: quotas, calls per second, weights, retention, who is denied");
  app.add_option("--tls-ca", daemon.tls.ca, "PEM: who signs clients' certificates");
  app.add_option("--tls-cert", daemon.tls.certificate, "PEM: this server's certificate");
  app.add_option("--tls-key", daemon.tls.key, "PEM: its key");
  app.add_flag("--insecure-expose", daemon.insecure_expose,
               "listen beyond this machine without TLS");
  app.add_flag("--reflection", daemon.reflection, "let clients ask what the API is (v1alpha)");
  app.add_option("--backups", daemon.service.backup_folder, "where BackupDatabase writes");
  app.add_option("--search-threads", daemon.service.searcher.threads, "of the searches")
      .between(1, 256).capture_default_str();
  app.add_flag("!--no-search", daemon.service.search,
               "leave the searches to other daemons of the database; serve agents and clients");
  app.add_option("--lease-seconds", [&daemon](const std::vector<std::string>& words) {
        double seconds = 0;
        if (!absl::SimpleAtod(words[0], &seconds) || !(seconds >= 1)) return false;
        daemon.service.rules.ttl_ms = static_cast<int64_t>(1000 * seconds);
        return true;
      }, "how long an agent may be silent with a job (30)");
  app.add_option("--owner-seconds", [&daemon](const std::vector<std::string>& words) {
        double seconds = 0;
        if (!absl::SimpleAtod(words[0], &seconds) || !(seconds >= 1)) return false;
        daemon.service.searcher.owner_ttl_ms = static_cast<int64_t>(1000 * seconds);
        return true;
      }, "how long a daemon may be silent until others of its database take its studies (20)");
  app.add_option("--grace", daemon.grace_s, "seconds for what is in flight when it stops")
      .capture_default_str();
  app.add_option("--log-level", options->log_level, "debug, info, warning or error")
      .capture_default_str();
  add_output(app, &options->output);
  return [options] { return run_serve(*options); };
}

}  // namespace

const CommandGroup& serve_commands() {
  static const CommandGroup group = {140, {{"serve", "the tuning daemon", declare_serve}}};
  return group;
}

}  // namespace lw
