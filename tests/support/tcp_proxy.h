// A TCP address that leads to another one of this machine over a bad network. What happens to a
// connection is drawn from a seed, in the order in which connections come:
//
//   late      each piece waits a little, long ones are cut into small ones
//   reset     RST to both sides after some bytes
//   finish    FIN to both sides after some bytes
//   half_open one direction is swallowed after some bytes, nobody is told; later, RST
//   doubled   what the client says reaches the server twice at once, over two connections; each
//             piece is sent to the original or to the copy first, and the other one waits
//   repeated  what the client said reaches the server again, over a connection of its own, some
//             time after the original has ended
//
// The other connections live until they have carried some more bytes, so that there are new ones.
// Nobody hears the answers to a copy. Without a seed nothing happens, until silence().
//
// All is bounded: bytes, times, connections at once. Thread-safe.
#pragma once

#include <netinet/tcp.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "src/base/rng.h"
#include "tests/support/loopback.h"

namespace lw {

class TcpProxy {
 public:
  enum Fault { kNone, kLate, kReset, kFinish, kHalfOpen, kDoubled, kRepeated, kFaults };
  static constexpr const char* kNames[kFaults] = {"none",      "late",    "reset",   "finish",
                                                  "half_open", "doubled", "repeated"};
  enum Side { kClient, kServer };          // who says something

  explicit TcpProxy(int target_port, std::optional<uint64_t> seed = {})
      : target_port_(target_port), kind_(!seed.has_value()), rng_(seed.value_or(0)) {
    listener_ = listen_on_loopback(&port_);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~TcpProxy() {
    stop_ = true;
    acceptor_.join();
    for (Connection& connection : connections_) connection.thread.join();
    close(listener_);
  }
  TcpProxy(const TcpProxy&) = delete;

  int port() const { return port_; }
  // From now on nothing happens to connections; those that were hurt are reset.
  void be_kind() { kind_ = true; }
  int count(Fault fault) const { return counts_[fault]; }
  int faults() const {
    int sum = 0;
    for (int i = kLate; i < kFaults; ++i) sum += counts_[i];
    return sum;
  }

  // What `side` says on the connections that there are now is swallowed from now on, its end
  // included, and neither side is told anything.
  void silence(Side side) { silent_until_[side] = accepted_.load(); }
  // How many of the silenced connections' ends on that side have been given up by their owner.
  int given_up(Side side) const { return given_up_[side]; }

 private:
  struct Connection {
    std::thread thread;
    std::atomic<bool> over = false;
  };
  struct Plan {
    int number = 0;
    Fault fault = kNone;
    int64_t after = 0;                     // bytes that pass before it happens, or before the end
    Side silent = kClient;                 // of a half-open one: who is not heard any more
  };
  static constexpr size_t kMostConnections = 200;
  static constexpr size_t kMostRepeated = 1 << 20;  // bytes
  static constexpr int64_t kSilent_ms = 1500, kTick_ms = 5, kLate_ms = 30;
  static constexpr int64_t kLast = 8'000;   // bytes that pass before it happens, and after
  static constexpr int kCopy = 2;

  int reach_server() const {
    const int fd = connect_to_loopback(target_port_);
    if (fd >= 0) send_at_once(fd);
    return fd;
  }
  static void send_at_once(int fd) {
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  static int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  bool is_silent(const Plan& plan, int side) const { return plan.number <= silent_until_[side]; }
  static void finish(int fd) {
    if (fd >= 0) close(fd);
  }
  // Whether it went out. A reader that does not read ends its connection.
  static bool send_all(int fd, const char* bytes, ssize_t size) {
    while (size > 0) {
      pollfd writable = {fd, POLLOUT, 0};
      if (poll(&writable, 1, 2000) <= 0) return false;
      const ssize_t sent =
          ::send(fd, bytes, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) return false;
      bytes += sent, size -= sent;
    }
    return true;
  }
  void sleep_ms(int64_t ms) const {
    for (; ms > 0 && !stop_; ms -= kTick_ms) usleep(1000 * static_cast<useconds_t>(kTick_ms));
  }

  void accept_all() {
    while (!stop_) {
      pollfd ready = {listener_, POLLIN, 0};
      if (poll(&ready, 1, 20) <= 0) continue;
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      connections_.remove_if([](Connection& connection) {
        if (connection.over) connection.thread.join();
        return connection.over.load();
      });
      if (connections_.size() >= kMostConnections) {
        reset_connection(client);
        continue;
      }
      send_at_once(client);
      const Plan plan = draw();
      Connection& made = connections_.emplace_back();
      made.thread = std::thread([this, client, plan, &made, seed = rng_.next()] {
        carry(client, plan, Rng(seed));
        made.over = true;
      });
    }
  }

  // Some faults happen to the first bytes, while a connection is being made.
  Plan draw() {
    Plan plan;
    plan.number = ++accepted_;
    if (kind_) return plan;
    plan.fault = static_cast<Fault>(rng_.below(kFaults));
    plan.after = rng_.below(3) == 0 ? rng_.below(200) : rng_.below(kLast);
    plan.silent = rng_.below(2) == 0 ? kClient : kServer;
    return plan;
  }

  void carry(int client, const Plan& plan, Rng rng) {
    const int server = reach_server();
    if (server < 0) return reset_connection(client);
    int ends[2] = {client, server};
    int copy = plan.fault == kDoubled ? reach_server() : -1;
    std::string said;                      // by the client, to be repeated
    int64_t passed = 0, happened_ms = -1;
    for (bool open = true; open && !stop_;) {
      if (kind_ && plan.fault != kNone) break;
      const bool happens = !kind_ && passed >= plan.after;
      if (happens && happened_ms < 0) {
        ++counts_[plan.fault];
        happened_ms = now_ms();
      }
      if (happens && (plan.fault == kReset || plan.fault == kFinish)) break;
      if (happens && passed > plan.after + kLast) break;
      const bool half_open = happens && plan.fault == kHalfOpen;
      if (half_open && now_ms() - happened_ms > kSilent_ms) break;
      const bool late = happens && plan.fault == kLate;
      pollfd ready[3] = {{ends[kClient], POLLIN, 0}, {ends[kServer], POLLIN, 0}, {copy, POLLIN, 0}};
      if (poll(ready, 3, kTick_ms) <= 0) continue;
      for (int from = 0; from < 3 && open; ++from) {
        if (ready[from].revents == 0) continue;
        char bytes[16384];
        const ssize_t size = recv(ready[from].fd, bytes, late ? 700 : sizeof bytes, 0);
        if (from == kCopy) {               // nobody hears its answers
          if (size <= 0) reset_connection(std::exchange(copy, -1));
          continue;
        }
        const bool silent = is_silent(plan, from) || (half_open && from == plan.silent);
        if (size <= 0) {
          given_up_[from] += is_silent(plan, kClient) || is_silent(plan, kServer);
          reset_connection(std::exchange(ends[from], -1));
          open = silent && ends[1 - from] >= 0;
          continue;
        }
        if (silent || ends[1 - from] < 0) continue;
        passed += size;
        if (late) sleep_ms(rng.below(kLate_ms));
        if (from == kClient && plan.fault == kRepeated && said.size() < kMostRepeated) {
          said.append(bytes, static_cast<size_t>(size));
        }
        const int to[2] = {ends[1 - from], from == kClient ? copy : -1};
        const int first = to[1] >= 0 ? static_cast<int>(rng.below(2)) : 0;
        const bool sent = send_all(to[first], bytes, size);
        if (to[1] >= 0) {
          sleep_ms(rng.below(kLate_ms));
          open = send_all(to[1 - first], bytes, size);
        }
        if (first == 0) open = sent;
      }
    }
    for (int end : ends) plan.fault == kFinish ? finish(end) : reset_connection(end);
    reset_connection(copy);
    if (plan.fault == kRepeated && happened_ms >= 0) repeat(said, rng);
  }

  void repeat(const std::string& said, Rng& rng) {
    sleep_ms(rng.below(1500));
    const int server = reach_server();
    if (server < 0) return;
    send_all(server, said.data(), static_cast<ssize_t>(said.size()));
    for (int64_t ms = 0; ms < 500 && !stop_; ms += kTick_ms) {
      pollfd ready = {server, POLLIN, 0};
      char bytes[16384];
      if (poll(&ready, 1, kTick_ms) > 0 && recv(server, bytes, sizeof bytes, 0) <= 0) break;
    }
    reset_connection(server);
  }

  const int target_port_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stop_ = false, kind_;
  std::atomic<int> accepted_ = 0;
  std::array<std::atomic<int>, 2> silent_until_{};  // connections up to that number
  std::array<std::atomic<int>, 2> given_up_{};
  std::array<std::atomic<int>, kFaults> counts_{};
  Rng rng_;                                // the acceptor's
  std::list<Connection> connections_;      // the acceptor's, then the destructor's
  std::thread acceptor_;
};

}  // namespace lw
