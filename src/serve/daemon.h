// The daemon: a database, the service over it, its gRPC and HTTP ports; started, run until it shall
// stop, stopped in order.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "src/net/certificates.h"
#include "src/serve/service/service.h"

namespace lw {

struct DaemonOptions {
  std::string listen = "127.0.0.1:7070";   // gRPC
  std::string http = "127.0.0.1:7071";     // page, metrics, health; "" for none
  std::string database = "loopwright.db";  // a file, or postgres://...
  bool insecure_database = false;          // see DatabaseOptions.insecure
  std::string config;                      // of quotas, rates and weights; "" for the defaults
  TlsFiles tls;
  bool insecure_expose = false;
  bool reflection = false;
  double grace_s = 10;                     // for what is in flight when it stops
  ServiceOptions service;                  // config is filled in
};

// `started` is called once with the addresses that were bound; `stop` is asked ten times a second.
// A PostgreSQL that cannot be reached yet is waited for; SQLite's file is there or made. Errors say
// which option is wrong: an address, a certificate, the configuration, the database.
absl::Status run_daemon(DaemonOptions options,
                        const std::function<void(const std::string& grpc, const std::string& http)>&
                            started,
                        const std::function<bool()>& stop);

}  // namespace lw
