// gRPC 1.51 can watch certificate files by itself, but hands whatever it reads to the handshaker:
// with a new key beside an old certificate it drops the working set and refuses every connection
// until the files fit again (its log: "Update handshaker factory failed"). Its interface for
// providers takes no class of ours, only paths. So our thread reads and checks the user's files,
// and publishes a good set through two memory files whose paths gRPC watches: /proc/self/fd/N of
// one with the authorities, and of one that holds key and chain together, so that one replacement
// changes both. Replacing is dup3 onto N, which is atomic; each version gets a later modification
// time, by which gRPC notices a change between its two reads of the pair. Nothing secret is written
// to a disk.
#include "src/net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr unsigned kGrpcRefreshSeconds = 1;              // the least it takes

absl::Status memory_error(std::string_view what) {
  return absl::ResourceExhaustedError(concat(what, ": ", std::strerror(errno)));
}

// A new memory file with `text`; its modification time is `modified_s`.
absl::StatusOr<int> memory_file(const std::string& text, int64_t modified_s) {
  const int file = memfd_create("loopwright-tls", MFD_CLOEXEC);
  if (file < 0) return memory_error("memfd_create");
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(file, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const absl::Status error = memory_error("a memory file for a certificate");
      close(file);
      return error;
    }
    written += static_cast<size_t>(count);
  }
  fchmod(file, 0400);
  const timespec times[2] = {{static_cast<time_t>(modified_s), 0},
                             {static_cast<time_t>(modified_s), 0}};
  futimens(file, times);
  return file;
}

// `*file` is from now on a memory file with `text`; its number stays.
absl::Status replace_file(const std::string& text, int64_t modified_s, int* file) {
  ASSIGN_OR_RETURN(const int fresh, memory_file(text, modified_s));
  if (*file < 0) {
    *file = fresh;
    return absl::OkStatus();
  }
  const int result = dup3(fresh, *file, O_CLOEXEC);
  const absl::Status status = result < 0 ? memory_error("dup3") : absl::OkStatus();
  close(fresh);
  return status;
}

std::string path_of(int file) { return concat("/proc/self/fd/", file); }

std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider(int ca, int identity) {
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      path_of(identity), path_of(identity), path_of(ca), kGrpcRefreshSeconds);
}

bool all_loopback(const std::vector<BindAddress>& addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](const BindAddress& address) { return address.loopback; });
}

std::string exposed_addresses(const std::vector<BindAddress>& addresses) {
  std::string text;
  for (const BindAddress& address : addresses) {
    if (!address.loopback) text += concat(text.empty() ? "" : ", ", address.text);
  }
  return text;
}

}  // namespace

TlsReloader::TlsReloader(TlsFiles files, TlsSide side, TlsOptions options)
    : files_(std::move(files)), side_(side), options_(std::move(options)) {}

TlsReloader::~TlsReloader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  // The memory files stay open: a reused number would have gRPC's watcher read a stranger's file.
}

absl::StatusOr<std::shared_ptr<TlsReloader>> TlsReloader::start(TlsFiles files, TlsSide side,
                                                                TlsOptions options) {
  if (!options.now_s) options.now_s = [] { return unix_ms() / 1000; };
  std::shared_ptr<TlsReloader> reloader(
      new TlsReloader(std::move(files), side, std::move(options)));
  RETURN_IF_ERROR(reloader->look_now());
  reloader->thread_ = std::thread([raw = reloader.get()] { raw->watch(); });
  return reloader;
}

absl::Status TlsReloader::look_now() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return look();
}

absl::Status TlsReloader::look() {
  absl::StatusOr<TlsMaterial> material = load_tls_material(files_, side_, options_.now_s());
  if (!material.ok()) return state_.last_look = material.status();
  const bool same = material->ca == in_use_.ca && material->certificate == in_use_.certificate &&
                    material->key == in_use_.key;
  if (same) return state_.last_look = absl::OkStatus();
  if (absl::Status status = publish(*material); !status.ok()) return state_.last_look = status;
  state_ = {state_.version + 1, material->subject, material->not_after_s, absl::OkStatus()};
  in_use_ = *std::move(material);
  if (state_.version > 1 && options_.report) {
    options_.report(true, concat(in_use_.subject, " is in use, until ",
                                 utc_text(state_.not_after_s)));
  }
  return absl::OkStatus();
}

absl::Status TlsReloader::publish(const TlsMaterial& material) {
  const int64_t modified_s = unix_ms() / 1000 + state_.version;  // later than all before
  RETURN_IF_ERROR(replace_file(material.ca, modified_s, &ca_file_));
  return replace_file(concat(material.key, "\n", material.certificate), modified_s,
                      &identity_file_);
}

void TlsReloader::watch() {
  // Files are replaced one by one: that they do not fit each other at one look is no news yet.
  std::string previous, reported;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_changed_.wait_for(lock, std::chrono::milliseconds(options_.poll_ms),
                                 [this] { return stop_; })) {
    const absl::Status status = look();
    const std::string problem = status.ok() ? "" : std::string(status.message());
    if (!problem.empty() && problem == previous && problem != reported && options_.report) {
      reported = problem;
      options_.report(false, concat("the one before stays: ", problem));
    }
    if (problem.empty()) reported.clear();
    previous = problem;
  }
}

TlsState TlsReloader::state() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

TlsMaterial TlsReloader::material() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return in_use_;
}

std::shared_ptr<grpc::ServerCredentials> TlsReloader::server_credentials() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  grpc::experimental::TlsServerCredentialsOptions options(provider(ca_file_, identity_file_));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> TlsReloader::channel_credentials() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider(ca_file_, identity_file_));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);   // the name is checked by gRPC's default verifier
  return grpc::experimental::TlsCredentials(options);
}

absl::StatusOr<ServerSecurity> server_security(const std::vector<BindAddress>& addresses,
                                               const TlsFiles& files, bool insecure_expose,
                                               TlsOptions options) {
  RETURN_IF_ERROR(check_tls_files_complete(files));
  ServerSecurity security;
  if (wants_tls(files)) {
    if (insecure_expose) {
      return absl::InvalidArgumentError("--insecure-expose and --tls-cert contradict each other");
    }
    ASSIGN_OR_RETURN(security.reloader,
                     TlsReloader::start(files, TlsSide::kServer, std::move(options)));
    security.credentials = security.reloader->server_credentials();
    return security;
  }
  security.credentials = grpc::InsecureServerCredentials();
  if (all_loopback(addresses)) return security;
  const std::string exposed = exposed_addresses(addresses);
  if (!insecure_expose) {
    return absl::FailedPreconditionError(
        concat(exposed, " is reached from other machines: give --tls-ca, --tls-cert and --tls-key "
               "(deploy/certificates makes them), listen on 127.0.0.1, or say --insecure-expose"));
  }
  security.exposes = concat(
      "warning: ", exposed, " serves without TLS (--insecure-expose). Whoever can reach it is an "
      "administrator, with no name in the audit log, and can\n"
      "  - have kernels compiled and run on every agent's machine,\n"
      "  - pose as an agent and report false measurements,\n"
      "  - read, add and replace the schedules that compilers use,\n"
      "  - cancel studies, drain devices, back up the database,\n"
      "and whoever is on the way can read and change all of it.");
  return security;
}

absl::StatusOr<std::string> http_exposure(const BindAddress& address, bool insecure_expose) {
  if (address.loopback) return std::string();
  if (!insecure_expose) {
    return absl::FailedPreconditionError(concat(
        "--http ", address.text,
        " is reached from other machines: give --tls-ca, --tls-cert and --tls-key (then it asks "
        "for the certificate of a reader, client or admin), use 127.0.0.1, or say "
        "--insecure-expose"));
  }
  return concat(
      "warning: http://", address.text,
      " serves pages and metrics without TLS "
      "(--insecure-expose). Whoever can reach it can read all studies, devices, schedules "
      "and failures; it changes nothing.");
}

absl::StatusOr<ClientSecurity> client_security(std::string_view server, const TlsFiles& files,
                                               bool insecure, TlsOptions options) {
  RETURN_IF_ERROR(check_tls_files_complete(files));
  ClientSecurity security;
  if (wants_tls(files)) {
    if (insecure)
      return absl::InvalidArgumentError("--insecure and --tls-cert contradict each other");
    ASSIGN_OR_RETURN(security.reloader,
                     TlsReloader::start(files, TlsSide::kClient, std::move(options)));
    security.credentials = security.reloader->channel_credentials();
    return security;
  }
  security.credentials = grpc::InsecureChannelCredentials();
  ASSIGN_OR_RETURN(const BindAddress address, parse_bind_address(server));
  if (address.loopback) return security;
  if (!insecure) {
    return absl::FailedPreconditionError(
        concat(server, " is another machine: give --tls-ca, --tls-cert and --tls-key, or say "
               "--insecure (nothing then proves whose orders are followed)"));
  }
  security.warning = concat("warning: the connection to ", server, " is neither secret nor proved");
  return security;
}

}  // namespace lw
