// Who is connected to the HTTP port. One thread reads and writes for all of them and never waits
// for one: it shakes hands, gathers a request until its head is whole, and sends answers as they
// are taken. Workers see whole heads only, so that a peer which sends or takes a byte now and then
// holds a socket and nothing else.
//
// A handshake with the request after it has 5 s, whatever arrives meanwhile, and so has the next
// request of a connection; an answer has 10 s to be taken. 256 connections are kept: a further one
// ends the one that has been waited for the longest. Probes (/healthz, /readyz) have a thread of
// their own, so they are answered while documents are made.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lw {

struct HttpAnswer {
  std::string bytes;
  size_t read = 0;                         // of the request's bytes
  bool closes = false;                     // nothing more is taken from the connection
};

class HttpConnections {
 public:
  // Answers the first request of `bytes`, on any thread. `last`: the connection ends with it. `tls`
  // is null without TLS.
  using Answer = std::function<HttpAnswer(std::string_view bytes, bool last, const SSL* tls)>;

  // `context`: null speaks plain HTTP. It must outlive the object.
  HttpConnections(SSL_CTX* context, Answer answer);
  ~HttpConnections();                      // stops
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

  // Takes the socket over. Thread-safe.
  void add(int socket);
  // Ends all connections; waits for answers that are being made, for no peer.
  void stop();

 private:
  struct Connection;
  enum class Next { kWait, kAnswer, kEnd };
  using Queue = std::deque<std::unique_ptr<Connection>>;

  void converse();                         // the thread of the sockets
  void take_in();
  void make_room();
  void wait();
  Next step(Connection& connection);
  Next send(Connection& connection);
  Next receive(Connection& connection);
  void work(Queue& queue);
  void wake();

  SSL_CTX* const context_;
  const Answer answer_;
  const int wake_;                         // an eventfd
  Queue waiting_;                          // for its peer; of the sockets' thread alone

  std::mutex mutex_;                       // guards all below
  std::condition_variable asked_;
  bool stopping_ = false;
  std::vector<int> added_;                 // sockets
  Queue documents_, probes_;               // with whole heads
  Queue answered_;
  std::vector<std::thread> threads_;       // last: they use all above
};

}  // namespace lw
