// Sockets of 127.0.0.1, for tests that stand between programs.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/check.h"

namespace lw {

inline sockaddr_in loopback_address(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A socket of a port of the system's choice.
inline int bind_loopback(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback_address(0);
  socklen_t size = sizeof address;
  CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  *port = ntohs(address.sin_port);
  return fd;
}

inline int listen_on_loopback(int* port) {
  const int fd = bind_loopback(port);
  CHECK(listen(fd, 64) == 0);
  return fd;
}

// -1: nobody listens.
inline int connect_to_loopback(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback_address(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

// Ends the connection with RST. Nothing happens to -1.
inline void reset_connection(int fd) {
  if (fd < 0) return;
  const linger now = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(fd);
}

}  // namespace lw
