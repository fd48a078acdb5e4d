// The client's end of a connection to a server: credentials (tls.h), keepalive, and what its errors
// say. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/net/certificates.h"

namespace lw {

// How an end of a connection notices that the other one is gone without a word: it asks (a ping)
// after so long, and waits so long for the answer.
struct Keepalive {
  int64_t time_ms = 10'000, timeout_ms = 5'000;
};

struct ServerAddress {
  // HOST:PORT, [V6]:PORT or unix:PATH; several, comma-separated, where daemons share a database.
  std::string address;
  // Whom to trust, who we are. All three or none; without, only a loopback address is spoken to
  // unless `insecure` says that anybody on the way may read and write.
  TlsFiles tls;
  bool insecure = false;
  Keepalive keepalive = {};
};

// What open_channel() would refuse, without making a channel.
absl::Status check_server(const ServerAddress& server);

// Of one address. Does not connect yet. While the channel lives, its certificates are read again
// when the files change: new connections use the new ones, what exists goes on. kInvalidArgument: the address or
// the options do not add up; for the files as load_tls_material().
absl::StatusOr<std::shared_ptr<grpc::Channel>> open_channel(const ServerAddress& server);

// Servers of one database, of which one is spoken to until it fails: then the next, and after the
// last the first again. Not thread-safe; its channels are.
class ServerGroup {
 public:
  // Errors: of any of the addresses, as open_channel().
  static absl::StatusOr<ServerGroup> open(const ServerAddress& servers);
  const ServerAddress& server() const { return servers_[current_]; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channels_[current_]; }
  size_t size() const { return servers_.size(); }
  void next() { current_ = (current_ + 1) % servers_.size(); }

 private:
  std::vector<ServerAddress> servers_;     // at least one, with one address each
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  size_t current_ = 0;
};
// Whether another server may do better: this one does not answer, or is going.
bool is_away(const grpc::Status& status);

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
