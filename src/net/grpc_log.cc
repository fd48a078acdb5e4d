#include "src/net/grpc_log.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <grpc/support/log.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "src/base/log.h"
#include "src/base/message.h"

namespace lw {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kRepeat{1};
constexpr size_t kMostKinds = 1000;
constexpr uint64_t kHandshakeBytes = 32 << 10;  // what a peer sends until it is let in, at most

std::atomic<int> server_port{0};
std::atomic<int64_t> failed_handshakes{0};

struct Seen {
  Clock::time_point said;
  int64_t more = 0;                        // since then
};
std::mutex seen_mutex;
std::map<std::string, Seen>& seen() {
  static auto& seen = *new std::map<std::string, Seen>;  // gRPC logs until the very end
  return seen;
}

// Whether to say it now, and for how many it stands.
bool shall_say(const std::string& kind, int64_t* times) {
  const std::lock_guard lock(seen_mutex);
  if (seen().size() >= kMostKinds) seen().clear();
  const auto [place, is_new] = seen().try_emplace(kind);
  Seen& one = place->second;
  const Clock::time_point now = Clock::now();
  if (!is_new && now - one.said < kRepeat) {
    ++one.more;
    return false;
  }
  *times = one.more + 1;
  one = {now, 0};
  return true;
}

int port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

std::string text_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
    return concat(text, ":", port_of(address));
  }
  inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  const std::string_view shown = text;
  if (shown.starts_with("::ffff:")) return concat(shown.substr(7), ":", port_of(address));
  return concat("[", shown, "]:", port_of(address));
}

// Of our connections on the server's port, the one that sent something last and not much yet.
std::string latest_peer() {
  const int port = server_port;
  if (port == 0) return "";
  const std::unique_ptr<DIR, decltype(&closedir)> folder(opendir("/proc/self/fd"), closedir);
  std::string peer;
  uint32_t least_ms = UINT32_MAX;
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage ours{}, theirs{};
    socklen_t size = sizeof ours;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&ours), &size) != 0 || port_of(ours) != port) {
      continue;
    }
    size = sizeof theirs;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &size) != 0) continue;
    tcp_info info{};
    size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    const bool let_in = info.tcpi_bytes_received > kHandshakeBytes;
    if (let_in || info.tcpi_last_data_recv >= least_ms) continue;
    least_ms = info.tcpi_last_data_recv;
    peer = text_of(theirs);
  }
  return peer;
}

void take(gpr_log_func_args* args) {
  const std::string_view message = args->message;
  std::string_view file = args->file;
  file.remove_prefix(file.rfind('/') + 1);
  const bool handshake = file == "ssl_transport_security.cc" &&
                         message.find("andshake failed") != std::string_view::npos;
  if (handshake && server_port != 0) ++failed_handshakes;
  int64_t times = 0;
  if (!shall_say(handshake ? "handshake" : concat(file, ":", args->line), &times)) return;
  if (handshake) {
    log(Level::kWarning, "handshake_failed",
        {{"peer", latest_peer()}, {"why", message}, {"times", times}});
    return;
  }
  const Level level = args->severity == GPR_LOG_SEVERITY_ERROR ? Level::kWarning : Level::kDebug;
  log(level, "grpc", {{"what", message}, {"where", concat(file, ":", args->line)},
                      {"times", times}});
}

}  // namespace

void take_grpc_log() { gpr_set_log_function(take); }

void name_peers_of(int port) { server_port = port; }

int64_t take_failed_handshakes() { return failed_handshakes.exchange(0); }

}  // namespace lw
