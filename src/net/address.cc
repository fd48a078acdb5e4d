#include "src/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr std::string_view kUnix = "unix:";

absl::Status bad_address(std::string_view text, std::string_view problem) {
  return absl::InvalidArgumentError(concat("address '", text, "': ", problem));
}

absl::StatusOr<int> parse_port(std::string_view text, std::string_view port) {
  if (port.empty() || port.size() > 5 ||
      !std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return bad_address(text, concat("'", port, "' is no port; want 0 to 65535"));
  }
  const int value = std::stoi(std::string(port));
  if (value > 65535) return bad_address(text, concat("port ", value, " is above 65535"));
  return value;
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) return v6->sin6_addr.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

absl::StatusOr<BindAddress> parse_unix(std::string_view text) {
  BindAddress address;
  address.text = std::string(text);
  std::string_view path = text.substr(kUnix.size());
  if (path.substr(0, 2) == "//") path.remove_prefix(2);    // unix:///run/x is unix:/run/x
  if (path.empty()) return bad_address(text, "no path behind 'unix:'");
  if (path.find('\0') != std::string_view::npos) return bad_address(text, "a NUL byte in the path");
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return bad_address(text, concat("the path has ", path.size(), " bytes; a socket's may have ",
                                    sizeof(sockaddr_un::sun_path) - 1));
  }
  address.unix_path = std::string(path);
  address.numeric = {concat(kUnix, path)};
  address.loopback = true;
  return address;
}

// Splits HOST:PORT; an IPv6 host stands in brackets.
absl::StatusOr<BindAddress> split(std::string_view text) {
  BindAddress address;
  address.text = std::string(text);
  std::string_view port;
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return bad_address(text, "no ']' behind the IPv6 address");
    address.host = std::string(text.substr(1, end - 1));
    if (address.host.empty()) return bad_address(text, "nothing between the brackets");
    if (end + 1 >= text.size() || text[end + 1] != ':') {
      return bad_address(text, "no ':PORT' behind the host");
    }
    port = text.substr(end + 2);
  } else {
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return bad_address(text, "no ':PORT' behind the host");
    address.host = std::string(text.substr(0, colon));
    if (address.host.find(':') != std::string::npos) {
      return bad_address(text, "an IPv6 address has to stand in brackets: [::1]:7070");
    }
    port = text.substr(colon + 1);
  }
  if (address.host.size() > 253) return bad_address(text, "the host is longer than a name can be");
  if (address.host.find('\0') != std::string::npos)
    return bad_address(text, "a NUL byte in the host");
  ASSIGN_OR_RETURN(address.port, parse_port(text, port));
  return address;
}

absl::Status resolve(BindAddress* address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address->host.empty() ? nullptr : address->host.c_str(),
                                std::to_string(address->port).c_str(), &hints, &found);
  if (error != 0) {
    return bad_address(address->text,
                       concat("'", address->host, "' cannot be resolved: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  address->loopback = true;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    address->loopback &= is_loopback(entry->ai_addr);
    char host[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, host, sizeof(host), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    std::string numeric = entry->ai_family == AF_INET6 ? concat("[", host, "]:", address->port)
                                                       : concat(host, ":", address->port);
    if (std::find(address->numeric.begin(), address->numeric.end(), numeric) ==
        address->numeric.end()) {
      address->numeric.push_back(std::move(numeric));
    }
  }
  if (address->numeric.empty()) return bad_address(address->text, "no address to bind");
  if (address->port == 0) address->numeric.resize(1);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BindAddress> parse_bind_address(std::string_view text) {
  if (text.substr(0, kUnix.size()) == kUnix) return parse_unix(text);
  ASSIGN_OR_RETURN(BindAddress address, split(text));
  if (address.host.empty()) {
    // gRPC listens for both families on [::], or on 0.0.0.0 where there is no IPv6.
    address.numeric = {concat("[::]:", address.port)};
    return address;
  }
  RETURN_IF_ERROR(resolve(&address));
  return address;
}

}  // namespace lw
