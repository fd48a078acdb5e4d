// The client's end of a connection to a server: credentials (tls.h), keepalive, and what its errors
// say. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/net/certificates.h"

namespace lw {

// How an end of a connection notices that the other one is gone without a word: it asks (a ping)
// after so long, and waits so long for the answer.
struct Keepalive {
  int64_t time_ms = 10'000, timeout_ms = 5'000;
};

struct ServerAddress {
  std::string address;  // HOST:PORT, [V6]:PORT or unix:PATH
  // Whom to trust, who we are. All three or none; without, only a loopback address is spoken to
  // unless `insecure` says that anybody on the way may read and write.
  TlsFiles tls;
  bool insecure = false;
  Keepalive keepalive;
};

// What open_channel() would refuse, without making a channel.
absl::Status check_server(const ServerAddress& server);

// Does not connect yet. While the channel lives, its certificates are read again when the files
// change: new connections use the new ones, what exists goes on. kInvalidArgument: the address or
// the options do not add up; for the files as load_tls_material().
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
