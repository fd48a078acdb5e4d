// What the commands that ask a service share: its address, credentials, deadlines, its errors.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/functional/function_ref.h"
#include "src/net/channel.h"
#include "src/cli/common.h"

namespace lw {

struct ServiceOptions {
  ServerAddress server;

  // Does not wait for the server: the first call does.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> connect() const;
  // Makes one call with a deadline, `body` with the context that it needs. An error says what to do
  // about it, and has a command's exit code: what is the server's or the network's is marked by
  // environment().
  absl::Status call(double deadline_s,
                    absl::FunctionRef<grpc::Status(grpc::ClientContext& context)> body) const;
};

// --server (or LOOPWRIGHT_SERVER), --tls-ca, --tls-cert, --tls-key, --insecure.
void add_service(CLI::App& app, ServiceOptions* options);

}  // namespace lw
