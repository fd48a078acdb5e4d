// One function routes every request before cpp-httplib looks at bodies, ranges or files: its own
// routing matches regular expressions against hostile paths and its ranges copy a body many times,
// so neither is used.
//
// Documents that count rows are kept for a second, so that many open pages cost what one does.
#include "src/serve/wire/http.h"

#include <arpa/inet.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "httplib.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/serve/page/views.h"
#include "src/serve/wire/http_connections.h"

namespace lw {

const std::vector<std::pair<const char*, const char*>>& page_texts();

namespace {

constexpr int64_t kKeep_ms = 1000;
constexpr size_t kMaxPath = 200;

// A request that is there, and the answer to it, as cpp-httplib wants to see a connection.
class Exchange : public httplib::Stream {
 public:
  explicit Exchange(std::string_view request) : request_(request) {}

  bool is_readable() const override { return read_ < request_.size(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* bytes, size_t size) override {
    const size_t n = request_.copy(bytes, size, read_);
    read_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* bytes, size_t size) override {
    answer_.append(bytes, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

  HttpAnswer take(bool closes) { return {std::move(answer_), read_, closes}; }

 private:
  const std::string_view request_;
  size_t read_ = 0;
  std::string answer_;
};

// Accepting is done by the thread that listens, and passes the sockets on.
class Here : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override {}
};

// cpp-httplib's parsing and routing, over connections of ours (http_connections.h).
class PageServer : public httplib::Server {
 public:
  explicit PageServer(SSL_CTX* context)
      : connections_(context, [this](std::string_view request, bool last, const SSL* tls) {
          return answer(request, last, tls);
        }) {
    new_task_queue = [] { return new Here; };
  }

  void end_connections() { connections_.stop(); }

 private:
  HttpAnswer answer(std::string_view request, bool last, const SSL* tls) {
    Exchange exchange(request);
    bool closes = false;
    const bool answered =
        process_request(exchange, last, closes, [&](httplib::Request& parsed) {
          parsed.ssl = tls;
        });
    return exchange.take(last || closes || !answered);
  }
  bool process_and_close_socket(socket_t socket) override {
    connections_.add(socket);
    return true;
  }

  HttpConnections connections_;
};

std::string content_type(std::string_view file) {
  if (file.ends_with(".html")) return "text/html; charset=utf-8";
  if (file.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/javascript; charset=utf-8";
}

int http_code(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument: return 400;
    case absl::StatusCode::kNotFound: return 404;
    default: return 503;
  }
}

// Ids as the service makes them; whatever else is no id.
bool is_id(const std::string& text) {
  const auto known = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= 100 && std::all_of(text.begin(), text.end(), known);
}

// The host of a Host header: without its port.
std::string host_name(const std::string& header) {
  if (!header.empty() && header[0] == '[') return header.substr(1, header.find(']') - 1);
  return header.substr(0, header.find(':'));
}

// A Host that names this machine alone, by how it is written.
bool names_loopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

}  // namespace

class HttpServer::Implementation {
 public:
  Implementation(const HttpOptions& options, Database& database, const Metrics& metrics,
                 HttpHooks hooks)
      : options_(options), database_(database), metrics_(metrics), hooks_(std::move(hooks)) {}
  ~Implementation();

  absl::Status start();
  int port() const { return port_; }
  const HttpOptions& options() const { return options_; }
  bool secure() const { return options_.tls != nullptr; }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  void configure();
  void answer(const Request& request, Response& response);
  bool refuse(const Request& request, Response& response) const;
  void answer_api(const Request& request, Response& response);
  void answer_health(const Request& request, Response& response) const;
  absl::StatusOr<Json> document(const std::vector<std::string>& path, const Parameters& parameters);
  absl::StatusOr<Json> overview(const ViewContext& context) const;
  Health health() const { return hooks_.health ? hooks_.health() : Health(); }

  const HttpOptions options_;
  Database& database_;
  const Metrics& metrics_;
  const HttpHooks hooks_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> tls_{nullptr, SSL_CTX_free};
  std::unique_ptr<PageServer> server_;     // before what it shows goes, its threads have ended
  int port_ = 0;
  std::thread thread_;

  struct Kept {
    int64_t until_ms = 0;                  // by the monotonic clock
    std::string text;
  };
  CallViews calls_;
  std::mutex kept_mutex_;
  std::map<std::string, Kept> kept_;
};

HttpServer::Implementation::~Implementation() {
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
  server_->end_connections();
}

absl::Status HttpServer::Implementation::start() {
  if (options_.address.numeric.empty() || !options_.address.unix_path.empty()) {
    return absl::InvalidArgumentError("http: the address must be HOST:PORT");
  }
  if (!secure() && !options_.address.loopback && !options_.allow_plain_remote) {
    return absl::InvalidArgumentError(
        concat("http: '", options_.address.text,
               "' is not a loopback address: everybody who reaches it could "
               "read names, timings and schedules; give certificates, or allow it explicitly"));
  }
  if (secure()) {
    tls_.reset(SSL_CTX_new(TLS_server_method()));
    CHECK(tls_ != nullptr);
    use_material(tls_.get(), options_.tls);
  }
  server_ = std::make_unique<PageServer>(tls_.get());
  configure();
  // What the name resolved to, so that no second look-up can answer differently.
  const std::string host = host_name(options_.address.numeric.front());
  if (options_.address.port == 0) {
    port_ = server_->bind_to_any_port(host);
  } else if (server_->bind_to_port(host, options_.address.port)) {
    port_ = options_.address.port;
  }
  if (port_ <= 0) {
    return absl::UnavailableError(concat("http: ", options_.address.text,
                                         " cannot be bound; is another server there?"));
  }
  thread_ = std::thread([this] {
    if (!server_->listen_after_bind()) log(Level::kError, "http_ended", {{"port", port_}});
  });
  // stop() before the loop runs would be lost.
  while (!server_->is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return absl::OkStatus();
}

void HttpServer::Implementation::configure() {
  // Not cpp-httplib's SO_REUSEPORT, which lets a second server take half of the connections.
  server_->set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server_->set_payload_max_length(1024);
  server_->set_default_headers({
      {"Content-Security-Policy", "default-src 'self'; img-src 'self' data:; base-uri 'none'; "
                                  "form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cache-Control", "no-store"}});
  server_->set_pre_routing_handler([this](const Request& request, Response& response) {
    answer(request, response);
    return httplib::Server::HandlerResponse::Handled;
  });
}

// What is refused whatever it asks for.
bool HttpServer::Implementation::refuse(const Request& request, Response& response) const {
  if (request.method != "GET" && request.method != "HEAD") {
    response.status = 405;
    response.set_header("Allow", "GET, HEAD");
    response.set_content("only GET and HEAD\n", "text/plain");
    return true;
  }
  const std::string host = host_name(request.get_header_value("Host"));
  if (options_.address.loopback && !names_loopback(host)) {
    response.status = 421;
    response.set_content("this server is asked as localhost\n", "text/plain");
    return true;
  }
  if (secure()) {
    const absl::StatusOr<Identity> who = identity_of(peer_uris(request.ssl));
    absl::Status status = who.status();
    if (status.ok()) status = may_see_pages(*who);
    if (status.ok() && hooks_.denied) status = hooks_.denied(*who);
    if (!status.ok()) {
      response.status = 403;
      response.set_content(Json{{"error", std::string(status.message())}}.dump() + "\n",
                           "application/json");
      return true;
    }
  }
  if (request.has_header("Range")) {
    response.status = 416;
    response.set_content("no ranges\n", "text/plain");
    return true;
  }
  return false;
}

void HttpServer::Implementation::answer(const Request& request, Response& response) {
  if (refuse(request, response)) return;
  response.status = 200;
  const std::string& path = request.path;
  if (path == "/metrics") {
    if (hooks_.before_metrics) hooks_.before_metrics();
    return response.set_content(metrics_.text(), "text/plain; version=0.0.4; charset=utf-8");
  }
  if (path == "/healthz" || path == "/readyz") return answer_health(request, response);
  if (path.size() <= kMaxPath && absl::StartsWith(path, "/api/")) {
    return answer_api(request, response);
  }
  const std::string wanted = path == "/" ? "/page.html" : path;
  for (const auto& [name, text] : page_texts()) {
    if (wanted != std::string("/") + name) continue;
    return response.set_content(text, content_type(name));
  }
  response.status = 404;
  response.set_content("not found\n", "text/plain");
}

void HttpServer::Implementation::answer_health(const Request& request,
                                               Response& response) const {
  const Health now = health();
  const bool ready = request.has_param("reads") ? now.reads : now.ready;
  if (!now.alive || (request.path == "/readyz" && !ready)) response.status = 503;
  response.set_content(now.problem.empty() ? "ok\n" : now.problem + "\n", "text/plain");
}

void HttpServer::Implementation::answer_api(const Request& request, Response& response) {
  constexpr char kJson[] = "application/json";
  const std::vector<std::string> path = absl::StrSplit(request.path.substr(5), '/');
  Parameters parameters;
  for (const auto& [name, value] : request.params) parameters.emplace(name, value);
  const bool keep = path.size() == 1 && (path[0] == "overview" || path[0] == "failures" ||
                                         path[0] == "timeline" || path[0] == "queue");
  const auto clock = static_cast<int64_t>(1e3 * now());
  if (keep) {
    const std::lock_guard<std::mutex> lock(kept_mutex_);
    const Kept& kept = kept_[path[0]];
    if (clock < kept.until_ms) return response.set_content(kept.text, kJson);
  }
  const absl::StatusOr<Json> made = document(path, parameters);
  if (!made.ok()) response.status = http_code(made.status());
  const std::string text =
      (made.ok() ? *made : Json{{"error", std::string(made.status().message())}})
          .dump(-1, ' ', false, Json::error_handler_t::replace);
  if (keep && made.ok()) {
    const std::lock_guard<std::mutex> lock(kept_mutex_);
    kept_[path[0]] = {clock + kKeep_ms, text};
  }
  response.set_content(text, kJson);
}

absl::StatusOr<Json> HttpServer::Implementation::document(const std::vector<std::string>& path,
                                                          const Parameters& parameters) {
  const ViewContext context{database_, hooks_.now_ms(), options_.online_s};
  if (path.size() == 1) {
    if (path[0] == "overview") return overview(context);
    if (path[0] == "studies") return view_studies(context, parameters);
    if (path[0] == "devices") return view_devices(context, parameters);
    if (path[0] == "agents") return view_agents(context, parameters);
    if (path[0] == "queue") return view_queue(context);
    if (path[0] == "timeline") return view_timeline(context);
    if (path[0] == "schedules") return view_schedules(context, parameters);
    if (path[0] == "failures") return view_failures(context);
  }
  if (path.size() >= 2 && path[0] == "studies" && is_id(path[1])) {
    if (path.size() == 2) return view_study(context, path[1]);
    if (path.size() == 3 && path[2] == "curve") return view_curve(context, path[1], parameters);
    if (path.size() == 3 && path[2] == "failures") return view_study_failures(context, path[1]);
    if (path.size() == 3 && path[2] == "call") return calls_.view(context, path[1], parameters);
  }
  return absl::NotFoundError("there is no such document");
}

absl::StatusOr<Json> HttpServer::Implementation::overview(const ViewContext& context) const {
  ASSIGN_OR_RETURN(Json view, view_overview(context));
  view["version"] = options_.version;
  const Health now = health();
  view["ready"] = now.ready;
  view["problem"] = now.problem;
  return view;
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options,
                                                              Database& database,
                                                              const Metrics& metrics,
                                                              HttpHooks hooks) {
  auto implementation =
      std::make_unique<Implementation>(options, database, metrics, std::move(hooks));
  RETURN_IF_ERROR(implementation->start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(implementation)));
}

HttpServer::HttpServer(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return implementation_->port(); }

std::string HttpServer::url() const {
  const std::string host = host_name(implementation_->options().address.numeric.front());
  const bool v6 = host.find(':') != std::string::npos;
  return concat(implementation_->secure() ? "https://" : "http://", v6 ? "[" : "", host,
                v6 ? "]:" : ":", implementation_->port(), "/");
}

}  // namespace lw
