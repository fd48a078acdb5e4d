// The client's end of a connection to a server: credentials, keepalive, and what its errors say.
// Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lw {

struct ServerAddress {
  std::string address;  // HOST:PORT, [V6]:PORT or unix:PATH
  // PEM files: whom to trust, who we are. All three or none; without, only a loopback address is
  // spoken to unless `insecure` says that anybody on the way may read and write.
  std::string tls_ca, tls_cert, tls_key;
  bool insecure = false;
};

// Does not connect yet. kInvalidArgument: the address or the options do not add up; kNotFound: a
// file cannot be read.
absl::StatusOr<std::shared_ptr<grpc::Channel>> open_channel(const ServerAddress& server);

// Whether only this machine can be behind it, by how it is written: 127.0.0.0/8, ::1, localhost,
// unix.
bool is_loopback(std::string_view address);

// What the details of an error say (google.rpc.Status).
struct CallError {
  std::string reason;        // ErrorInfo's: "SESSION_REPLACED"; empty: none
  double retry_after_s = 0;  // RetryInfo's; 0: none
};
CallError explain(const grpc::Status& status);

// The error in a person's words, with what to do about it where that is known.
std::string describe_error(const ServerAddress& server, const grpc::Status& status);

}  // namespace lw
