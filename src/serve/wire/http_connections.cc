#include "src/serve/wire/http_connections.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>

#include "absl/strings/ascii.h"
#include "src/base/check.h"

namespace lw {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 8;
constexpr size_t kMostConnections = 256;
constexpr int kMostRequests = 100;         // of a connection
constexpr size_t kMostHead = size_t{64} << 10;  // the rest of the program refuses less
constexpr int kSendBuffer = 256 << 10;     // bytes
constexpr std::chrono::seconds kRequest{5}, kTaking{10};

bool is_probe(std::string_view bytes) {
  for (std::string_view start : {"GET /healthz", "GET /readyz", "HEAD /healthz", "HEAD /readyz"}) {
    if (bytes.starts_with(start)) return true;
  }
  return false;
}

// Of a request with a body nothing is read behind the head: what follows is no request.
bool has_body(std::string_view bytes) {
  const std::string head =
      absl::AsciiStrToLower(std::string(bytes.substr(0, bytes.find("\n\r\n"))));
  return head.find("\ncontent-length:") != std::string::npos ||
         head.find("\ntransfer-encoding:") != std::string::npos;
}

}  // namespace

struct HttpConnections::Connection {
  Connection(int socket, SSL_CTX* context) : socket(socket) {
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    // What the system holds for a peer that takes nothing.
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
    if (context == nullptr) return;
    tls = SSL_new(context);
    CHECK(tls != nullptr && SSL_set_fd(tls, socket) == 1);
    SSL_set_accept_state(tls);
    SSL_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  }
  ~Connection() {
    if (tls != nullptr) {
      if (SSL_is_init_finished(tls)) SSL_shutdown(tls);
      SSL_free(tls);
    }
    shutdown(socket, SHUT_RDWR);
    close(socket);
  }
  Connection(const Connection&) = delete;

  // Bytes read (written); 0: the peer has ended it; -1: to be tried again when `wanted` is there;
  // -2: it is broken.
  int64_t read(char* buffer, size_t size) {
    if (tls == nullptr) return outcome(recv(socket, buffer, size, 0), POLLIN);
    ERR_clear_error();
    return tls_outcome(SSL_read(tls, buffer, static_cast<int>(size)));
  }
  int64_t write(const char* bytes, size_t size) {
    if (tls == nullptr) return outcome(::send(socket, bytes, size, MSG_NOSIGNAL), POLLOUT);
    ERR_clear_error();
    return tls_outcome(SSL_write(tls, bytes, static_cast<int>(std::min<size_t>(size, INT_MAX))));
  }

  // Whether a blank line ends the head of what is gathered.
  bool is_whole() {
    const size_t from = seen < 2 ? 0 : seen - 2;
    seen = in.size();
    return in.find("\n\r\n", from) != std::string::npos;
  }

  const int socket;
  SSL* tls = nullptr;
  std::string in, out;                     // gathered; still to be sent
  size_t seen = 0, sent = 0;               // of `in`, of `out`
  int requests = 0;
  bool closes = false;                     // once `out` is sent
  short wanted = POLLIN;
  Clock::time_point until = Clock::now() + kRequest;

 private:
  int64_t outcome(ssize_t done, short event) {
    if (done >= 0) return done;
    if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) {
      wanted = event;
      return -1;
    }
    return -2;
  }
  int64_t tls_outcome(int done) {
    if (done > 0) return done;
    switch (SSL_get_error(tls, done)) {
      case SSL_ERROR_WANT_READ: wanted = POLLIN; return -1;
      case SSL_ERROR_WANT_WRITE: wanted = POLLOUT; return -1;
      case SSL_ERROR_ZERO_RETURN: return 0;
      default: return -2;
    }
  }
};

HttpConnections::HttpConnections(SSL_CTX* context, Answer answer)
    : context_(context), answer_(std::move(answer)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(wake_ >= 0);
  threads_.emplace_back([this] { converse(); });
  threads_.emplace_back([this] { work(probes_); });
  for (int i = 0; i < kWorkers; ++i) threads_.emplace_back([this] { work(documents_); });
}

HttpConnections::~HttpConnections() {
  stop();
  close(wake_);
}

void HttpConnections::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  asked_.notify_all();
  wake();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  for (int socket : added_) close(socket);
  added_.clear();
  for (Queue* queue : {&waiting_, &documents_, &probes_, &answered_}) queue->clear();
}

void HttpConnections::wake() {
  const uint64_t one = 1;
  while (write(wake_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void HttpConnections::add(int socket) {
  {
    const std::lock_guard lock(mutex_);
    added_.push_back(socket);
  }
  wake();
}

// Requests in the order in which they became whole.
void HttpConnections::work(Queue& queue) {
  while (true) {
    std::unique_ptr<Connection> connection;
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, [&] { return stopping_ || !queue.empty(); });
      if (stopping_) return;
      connection = std::move(queue.front());
      queue.pop_front();
    }
    ++connection->requests;
    const bool last = connection->closes || connection->requests >= kMostRequests ||
                      has_body(connection->in);
    HttpAnswer answer = answer_(connection->in, last, connection->tls);
    connection->in.erase(0, answer.read);
    connection->seen = 0;
    connection->out = std::move(answer.bytes);
    connection->sent = 0;
    connection->closes = last || answer.closes;
    connection->until = Clock::now() + kTaking;
    {
      const std::lock_guard lock(mutex_);
      answered_.push_back(std::move(connection));
    }
    wake();
  }
}

void HttpConnections::converse() {
  while (true) {
    take_in();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    Queue still;
    bool asked = false;
    const Clock::time_point now = Clock::now();
    for (std::unique_ptr<Connection>& connection : waiting_) {
      const Next next = now < connection->until ? step(*connection) : Next::kEnd;
      if (next == Next::kWait) still.push_back(std::move(connection));
      if (next != Next::kAnswer) continue;
      const std::lock_guard lock(mutex_);
      Queue& queue = is_probe(connection->in) ? probes_ : documents_;
      if (queue.size() < kMostConnections) queue.push_back(std::move(connection));
      asked = true;
    }
    waiting_ = std::move(still);           // the others are destroyed, and so ended
    if (asked) asked_.notify_all();
    make_room();
    wait();
  }
}

void HttpConnections::take_in() {
  uint64_t count = 0;
  while (read(wake_, &count, sizeof count) < 0 && errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);
  for (int socket : added_) waiting_.push_back(std::make_unique<Connection>(socket, context_));
  added_.clear();
  for (auto& connection : answered_) waiting_.push_back(std::move(connection));
  answered_.clear();
}

// Who has let us wait the longest goes first; who came just now has had no time yet.
void HttpConnections::make_room() {
  if (waiting_.size() <= kMostConnections) return;
  const auto more = static_cast<ptrdiff_t>(waiting_.size() - kMostConnections);
  std::nth_element(waiting_.begin(), waiting_.begin() + more, waiting_.end(),
                   [](const auto& a, const auto& b) { return a->until < b->until; });
  waiting_.erase(waiting_.begin(), waiting_.begin() + more);
}

// For a peer to say or take something, for one whose time is over, or to be woken.
void HttpConnections::wait() {
  std::vector<pollfd> sockets = {{wake_, POLLIN, 0}};
  Clock::time_point until = Clock::now() + kTaking;
  for (const auto& connection : waiting_) {
    sockets.push_back({connection->socket, connection->wanted, 0});
    until = std::min(until, connection->until);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  poll(sockets.data(), sockets.size(), static_cast<int>(std::max<int64_t>(0, left)));
}

// As far as the peer goes along.
HttpConnections::Next HttpConnections::step(Connection& connection) {
  if (!connection.out.empty()) {
    const Next next = send(connection);
    if (next != Next::kAnswer) return next;
    if (connection.closes) return Next::kEnd;
    connection.until = Clock::now() + kRequest;
  } else if (connection.closes && connection.requests > 0) {
    return Next::kEnd;                     // there was nothing to say
  }
  return receive(connection);
}

// kAnswer: all of it is sent.
HttpConnections::Next HttpConnections::send(Connection& connection) {
  while (connection.sent < connection.out.size()) {
    const int64_t n = connection.write(connection.out.data() + connection.sent,
                                       connection.out.size() - connection.sent);
    if (n <= 0) return n == -1 ? Next::kWait : Next::kEnd;
    connection.sent += static_cast<size_t>(n);
  }
  connection.out.clear();
  return Next::kAnswer;
}

// A peer that ends its side, or a head longer than any, gets the answer to what there is.
HttpConnections::Next HttpConnections::receive(Connection& connection) {
  char buffer[4096];
  while (!connection.is_whole()) {
    const int64_t n = connection.read(buffer, sizeof buffer);
    if (n == -1) return Next::kWait;
    if (n == -2 || (n == 0 && connection.in.empty())) return Next::kEnd;
    connection.closes = n == 0 || connection.in.size() > kMostHead;
    if (connection.closes) return Next::kAnswer;
    connection.in.append(buffer, static_cast<size_t>(n));
  }
  return Next::kAnswer;
}

}  // namespace lw
