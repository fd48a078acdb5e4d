// Slow peers of the HTTP port: whoever sends or takes a byte now and then holds a socket for
// seconds, and keeps nobody from the page, the probes and the metrics, nor the server from its end.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "src/base/message.h"
#include "src/runner/protocol.h"
#include "src/serve/service/service.h"
#include "src/serve/wire/http.h"
#include "src/serve/wire/server.h"
#include "tests/serve/service_fixture.h"
#include "tests/support/tls_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(60);

int connect_to(int port, int receive_buffer = 0) {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer > 0) {
    setsockopt(s, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return s;
}

// Whether the other end has ended the connection, which may hold bytes still.
bool has_ended(int socket) {
  pollfd one{socket, POLLIN | POLLRDHUP, 0};
  return poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// Connections that say a byte ten times a second, of `text` and then of a header without end.
class Dribble {
 public:
  Dribble(int port, int count, std::string text) : text_(std::move(text)) {
    for (int i = 0; i < count; ++i) sockets_.push_back(connect_to(port));
    thread_ = std::thread([this] {
      for (size_t at = 0; !stop_; ++at) {
        const char byte = at < text_.size() ? text_[at] : 'x';
        for (int socket : sockets_) {
          if (send(socket, &byte, 1, MSG_NOSIGNAL) < 0) continue;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    });
  }
  ~Dribble() {
    stop_ = true;
    thread_.join();
    for (int socket : sockets_) close(socket);
  }
  bool all_ended() const {
    return std::all_of(sockets_.begin(), sockets_.end(), has_ended);
  }

 private:
  const std::string text_;
  std::vector<int> sockets_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

bool within_patience(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!holds() && std::chrono::steady_clock::now() < until) usleep(20'000);
  return holds();
}

class SlowPeers : public ::testing::Test {
 protected:
  void start(const HttpOptions& options) {
    auto server = HttpServer::start(options, data_.database(), metrics_, HttpHooks());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void start() {
    HttpOptions options;
    options.address = *parse_bind_address("127.0.0.1:0");
    start(options);
  }
  // Whoever asks now is answered.
  void expect_answers() {
    for (const char* path : {"/healthz", "/readyz", "/metrics", "/", "/api/overview"}) {
      httplib::Client client("127.0.0.1", server_->port());
      const httplib::Result result = client.Get(path);
      ASSERT_TRUE(result) << path << ": " << httplib::to_string(result.error());
      EXPECT_EQ(result->status, 200) << path;
    }
  }

  Scratch scratch_;
  ServiceData data_{scratch_.file};
  const Metrics metrics_{"9.9"};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(SlowPeers, HoldNobodyUp) {
  start();
  const Dribble dribble(server_->port(), 100, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
  for (int i = 0; i < 5; ++i) expect_answers();
}

TEST_F(SlowPeers, EndAfterSecondsHoweverOftenTheySaySomething) {
  start();
  const Dribble dribble(server_->port(), 3, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
  EXPECT_TRUE(within_patience([&] { return dribble.all_ended(); }));
}

// More of them than the server keeps: they drive out each other, not those that ask.
TEST_F(SlowPeers, DriveOutEachOther) {
  start();
  const Dribble dribble(server_->port(), 400, "GET / HTTP/1.1\r\n");
  expect_answers();
}

TEST_F(SlowPeers, DoNotKeepTheServerFromItsEnd) {
  start();
  const Dribble dribble(server_->port(), 20, "GET / HTTP/1.1\r\nX-Slow: ");
  expect_answers();
  auto end = std::async(std::launch::async, [&] { server_.reset(); });
  EXPECT_EQ(end.wait_for(kPatience), std::future_status::ready);
}

// Who asks for much, again and again, and takes none of it.
TEST_F(SlowPeers, ReadersHoldNobodyUp) {
  start();
  std::vector<int> readers;
  std::string requests;
  for (int i = 0; i < 60; ++i) requests += "GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < 40; ++i) {
    readers.push_back(connect_to(server_->port(), 4096));
    EXPECT_GT(send(readers.back(), requests.data(), requests.size(), MSG_NOSIGNAL), 0);
  }
  for (int i = 0; i < 5; ++i) expect_answers();
  const size_t all =
      60 * httplib::Client("127.0.0.1", server_->port()).Get("/page.js")->body.size();
  sleep(20);                               // far longer than an answer may take
  for (int reader : readers) {             // what the system holds of it, and then the end
    size_t taken = 0;
    char buffer[4096];
    for (ssize_t n; (n = recv(reader, buffer, sizeof buffer, 0)) > 0;) {
      taken += static_cast<size_t>(n);
    }
    EXPECT_LT(taken, all);
    close(reader);
  }
}

// What stands behind a request with a body is not taken for a request.
TEST_F(SlowPeers, ABodyIsNoRequest) {
  start();
  const int s = connect_to(server_->port());
  const std::string inner = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string text = concat("GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
                                  inner.size(), "\r\n\r\n", inner);
  ASSERT_GT(send(s, text.data(), text.size(), MSG_NOSIGNAL), 0);
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = recv(s, buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(s);
  EXPECT_THAT(answer, HasSubstr("200"));
  EXPECT_THAT(answer, ::testing::Not(HasSubstr("loopwright_build_info")));
}

// Several requests in one go, and one in pieces, are each answered once, in order.
TEST_F(SlowPeers, RequestsMayComeInAnyPieces) {
  start();
  const int s = connect_to(server_->port());
  const std::string text =
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  for (size_t at = 0; at < text.size(); at += 40) {
    const std::string piece = text.substr(at, 40);
    ASSERT_EQ(send(s, piece.data(), piece.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(piece.size()));
    usleep(5000);
  }
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = recv(s, buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(s);
  std::vector<std::string> codes;
  for (size_t at = answer.find("HTTP/1.1 "); at != std::string::npos;
       at = answer.find("HTTP/1.1 ", at + 1)) {
    codes.push_back(answer.substr(at + 9, 3));
  }
  EXPECT_THAT(codes, ::testing::ElementsAre("200", "404", "200"));
}

TEST_F(SlowPeers, HandshakesThatNeverEndHoldNobodyUp) {
  const tls::TempFolder folder;
  const std::string pki = (folder.path / "pki").string();
  ASSERT_EQ(tls::certificates("ca " + pki).exit, 0);
  ASSERT_EQ(tls::certificates("issue " + pki + " server d1 --host localhost").exit, 0);
  ASSERT_EQ(tls::certificates("issue " + pki + " reader anna").exit, 0);
  const auto material = load_tls_material(tls::files_in(pki + "/server-d1"),
                                          TlsSide::kServer, std::time(nullptr));
  ASSERT_TRUE(material.ok()) << material.status();
  HttpOptions options;
  options.address = *parse_bind_address("127.0.0.1:0");
  options.tls = [&] { return *material; };
  start(options);
  std::vector<int> silent;
  for (int i = 0; i < 30; ++i) silent.push_back(connect_to(server_->port()));
  // The head of a record of a ClientHello of 512 bytes that come one by one.
  const Dribble dribble(server_->port(), 30, std::string("\x16\x03\x01\x02\x00\x01", 6));
  const TlsFiles anna = tls::files_in(pki + "/reader-anna");
  for (int i = 0; i < 3; ++i) {
    httplib::SSLClient client("localhost", server_->port(), anna.certificate, anna.key);
    client.set_ca_cert_path(anna.ca.c_str());
    client.set_address_family(AF_INET);
    const httplib::Result result = client.Get("/metrics");
    ASSERT_TRUE(result) << httplib::to_string(result.error());
    EXPECT_EQ(result->status, 200) << result->body;
  }
  EXPECT_TRUE(within_patience([&] {
    return dribble.all_ended() && std::all_of(silent.begin(), silent.end(), has_ended);
  }));
  for (int socket : silent) close(socket);
}

// The other port: gRPC needs no thread for them, but ends them too.
TEST_F(SlowPeers, OfGrpcEndAfterSeconds) {
  Scratch scratch;
  const auto service = *Service::start(*open_database(scratch.file), ServiceOptions());
  ServerOptions options;
  options.address = *parse_bind_address("127.0.0.1:0");
  options.handshake_ms = 500;
  const auto server = *Server::start(*service, options);
  const int silent = connect_to(server->port());
  EXPECT_TRUE(within_patience([&] { return has_ended(silent); }));
  close(silent);
}

}  // namespace
}  // namespace lw
