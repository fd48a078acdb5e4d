// Who may connect: credentials of the server and of its clients.
//
// A loopback address needs nothing. Any other address needs mutual TLS (1.2 or newer; both sides
// show a certificate of the same authority), or an explicit wish to be exposed, which is answered
// by a text of what that exposes.
//
// Certificates are read again while running: `TlsReloader` looks at the files every `poll_ms`, and
// only a set that passes load_tls_material (key fits certificate, signed, in date) replaces the one
// in use. So files may be written in any order and halves of files are never used. Connections keep
// the certificate they began with; new ones use the new one within poll_ms + 1 s.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/net/address.h"
#include "src/net/certificates.h"

namespace lw {

struct TlsOptions {
  int poll_ms = 2000;
  std::function<int64_t()> now_s;          // Unix seconds; unset: the system's clock
  // `taken`: new files are in use; else a set stays unusable over two looks, and why. Unset: nobody
  // is told. Called on the reloader's thread.
  std::function<void(bool taken, std::string_view what)> report;
};

// How the certificate in use stands: for metrics, /readyz and `doctor`.
struct TlsState {
  int64_t version = 0;                     // counts the sets used so far, from 1
  std::string subject;
  int64_t not_after_s = 0;
  absl::Status last_look;                  // why the files as they are now are not in use
};

// Thread-safe. Its destructor ends the looking; credentials made from it stay valid with the last
// set. Each holds two memory files until the process ends: gRPC's own watcher may read them as
// long.
class TlsReloader {
 public:
  static absl::StatusOr<std::shared_ptr<TlsReloader>> start(TlsFiles files, TlsSide side,
                                                            TlsOptions options);
  ~TlsReloader();
  TlsReloader(const TlsReloader&) = delete;
  TlsReloader& operator=(const TlsReloader&) = delete;

  absl::Status look_now();                 // what the thread does every poll_ms (SIGHUP, tests)
  TlsState state() const;
  TlsMaterial material() const;            // in use: for servers that are not gRPC's
  std::shared_ptr<grpc::ServerCredentials> server_credentials() const;
  std::shared_ptr<grpc::ChannelCredentials> channel_credentials() const;

 private:
  TlsReloader(TlsFiles files, TlsSide side, TlsOptions options);
  absl::Status look() /* REQUIRES: mutex_ held */;
  absl::Status publish(const TlsMaterial& material);
  void watch();

  const TlsFiles files_;
  const TlsSide side_;
  const TlsOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  TlsMaterial in_use_;
  TlsState state_;
  int ca_file_ = -1;
  int identity_file_ = -1;
  std::thread thread_;
};

struct ServerSecurity {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  std::shared_ptr<TlsReloader> reloader;   // null: no TLS
  std::string exposes;                     // to be printed, or empty
};

// Errors: kInvalidArgument for incomplete or contradicting options, kFailedPrecondition for an
// address that others reach without TLS and without `insecure_expose`; those of load_tls_material.
absl::StatusOr<ServerSecurity> server_security(const std::vector<BindAddress>& addresses,
                                               const TlsFiles& files, bool insecure_expose,
                                               TlsOptions options = {});

// The HTTP port (pages, metrics, health) without TLS: loopback, or `insecure_expose`. Answers the
// text to print, or empty.
absl::StatusOr<std::string> http_exposure(const BindAddress& address, bool insecure_expose);

struct ClientSecurity {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  std::shared_ptr<TlsReloader> reloader;   // null: no TLS
  std::string warning;                     // to be printed, or empty
};

// Of a client or agent that connects to `server` (HOST:PORT or unix:PATH). Without TLS files
// another machine's server is refused unless `insecure`: an agent runs what its server sends.
absl::StatusOr<ClientSecurity> client_security(std::string_view server, const TlsFiles& files,
                                               bool insecure, TlsOptions options = {});

}  // namespace lw
