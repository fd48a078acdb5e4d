#include "src/cli/service.h"

#include <chrono>

#include "src/serve/errors.h"

namespace lw {

absl::StatusOr<std::shared_ptr<grpc::Channel>> ServiceOptions::connect() const {
  return open_channel(server);
}

absl::Status ServiceOptions::call(
    double deadline_s,
    absl::FunctionRef<grpc::Status(grpc::ClientContext& context)> body) const {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(1000 * deadline_s)));
  const grpc::Status status = body(context);
  if (status.ok()) return absl::OkStatus();
  const absl::Status error(from_grpc(status).code(), describe_error(server, status));
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInternal:      // the server's bug, not this command's
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return environment(absl::UnavailableError(error.message()));
    default:
      return error;
  }
}

void add_service(CLI::App& app, ServiceOptions* options) {
  options->server.address = "127.0.0.1:7070";
  app.add_option("--server", options->server.address, "the service's address: HOST:PORT or unix:PATH")
      ->envname("LOOPWRIGHT_SERVER")->capture_default_str();
  app.add_option("--tls-ca", options->server.tls.ca, "PEM file: whom to trust");
  app.add_option("--tls-cert", options->server.tls.certificate, "PEM file: our certificate");
  app.add_option("--tls-key", options->server.tls.key, "PEM file: its key");
  app.add_flag("--insecure", options->server.insecure,
               "plain text to another machine: anybody on the way may read and write");
}

}  // namespace lw
