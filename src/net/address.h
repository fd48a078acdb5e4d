// Addresses to listen on: HOST:PORT, [V6]:PORT, :PORT (every address), unix:PATH.
//
// Who can reach an address is decided by what its host resolves to, never by how it is written: a
// name is a loopback only if each of its addresses is one, and the addresses found are those that
// are then bound, so that a second look-up cannot answer differently.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

struct BindAddress {
  std::string text;                        // as given
  std::string host;  // without brackets; empty: every address, or a unix socket
  int port = 0;                            // 0: the system chooses
  std::string unix_path;                   // of a unix socket, else empty
  std::vector<std::string> numeric;  // what to bind: "127.0.0.1:7070", "[::1]:7070", "unix:/run/x"
  bool loopback = false;                   // reached from this machine alone
};

// Errors: kInvalidArgument, saying what is wrong with which part. A name is looked up, which may
// take as long as the system's resolver does. With port 0 only the first address of a name is bound
// (two would get different ports).
absl::StatusOr<BindAddress> parse_bind_address(std::string_view text);

}  // namespace lw
