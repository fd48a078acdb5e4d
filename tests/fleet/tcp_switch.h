// A TCP address that leads to the first of several others that answers: what stands before a
// fleet's daemons. It can be cut, which resets all connections through it and refuses new ones.
#pragma once

#include <poll.h>

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/loopback.h"

namespace lw {

class TcpSwitch {
 public:
  // Ports of 127.0.0.1, the preferred one first.
  explicit TcpSwitch(std::vector<int> targets) : targets_(std::move(targets)) {
    listener_ = listen_on_loopback(&port_);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~TcpSwitch() {
    stop_ = true;
    acceptor_.join();
    for (std::thread& pump : pumps_) pump.join();
    close(listener_);
  }
  TcpSwitch(const TcpSwitch&) = delete;

  int port() const { return port_; }
  void set_cut(bool cut) { cut_ = cut; }

 private:
  int connect_any() const {
    for (int port : targets_) {
      if (const int fd = connect_to_loopback(port); fd >= 0) return fd;
    }
    return -1;
  }

  void accept_all() {
    while (!stop_) {
      pollfd poll_fd = {listener_, POLLIN, 0};
      if (poll(&poll_fd, 1, 50) <= 0) continue;
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      const int server = cut_ ? -1 : connect_any();
      if (server < 0) {
        reset_connection(client);
        continue;
      }
      pumps_.emplace_back([this, client, server] { pump(client, server); });
    }
  }

  static bool forward(int from, int to) {
    char bytes[16384];
    const ssize_t count = recv(from, bytes, sizeof bytes, 0);
    for (ssize_t at = 0; at < count;) {
      const ssize_t sent = ::send(to, bytes + at, static_cast<size_t>(count - at), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += sent;
    }
    return count > 0;
  }

  // Both directions until either side ends, or we are cut.
  void pump(int client, int server) const {
    while (!stop_ && !cut_) {
      pollfd both[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      if (poll(both, 2, 50) <= 0) continue;
      if (both[0].revents != 0 && !forward(client, server)) break;
      if (both[1].revents != 0 && !forward(server, client)) break;
    }
    reset_connection(client);
    reset_connection(server);
  }

  const std::vector<int> targets_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stop_ = false, cut_ = false;
  std::list<std::thread> pumps_;           // the acceptor's, then the destructor's
  std::thread acceptor_;
};

}  // namespace lw
