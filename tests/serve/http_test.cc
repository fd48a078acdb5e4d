// The HTTP port: every document says what the database holds, in pages; whatever a URL is, the
// answer is small, typed and harmless.
#include "src/serve/wire/http.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "src/base/message.h"
#include "tests/serve/service_fixture.h"

namespace lw {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class HttpTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new Scratch;
    data_ = new ServiceData(scratch_->file);
    data_->fill(/*extra=*/true);
    metrics_ = new Metrics("9.9");
  }
  static void TearDownTestSuite() {
    delete metrics_;
    delete data_;
    delete scratch_;
  }
  void SetUp() override {
    HttpHooks hooks;
    hooks.now_ms = [] { return kNow_ms; };
    hooks.health = [this] { return health_; };
    HttpOptions options;
    options.address = *parse_bind_address("127.0.0.1:0");
    options.version = "9.9";
    auto server = HttpServer::start(options, data_->database(), *metrics_, hooks);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  httplib::Result get(const std::string& target, const httplib::Headers& headers = {}) {
    httplib::Client client("127.0.0.1", server_->port());
    return client.Get(target, headers);
  }
  json document(const std::string& target) {
    const httplib::Result result = get(target);
    EXPECT_TRUE(result) << target;
    if (!result) return {};
    EXPECT_EQ(result->status, 200) << target << ": " << result->body;
    json parsed = json::parse(result->body, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << result->body;
    return parsed;
  }
  // Bytes sent as they are; the answer up to the connection's end or 3 s of silence.
  std::string raw(const std::string& bytes) {
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{3, 0};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(connect(s, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_GE(send(s, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    shutdown(s, SHUT_WR);
    std::string answer;
    char buffer[4096];
    for (ssize_t n; (n = recv(s, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<size_t>(n));
    }
    close(s);
    return answer;
  }

  static Scratch* scratch_;
  static ServiceData* data_;
  static Metrics* metrics_;
  Health health_;
  std::unique_ptr<HttpServer> server_;
};
Scratch* HttpTest::scratch_ = nullptr;
ServiceData* HttpTest::data_ = nullptr;
Metrics* HttpTest::metrics_ = nullptr;

TEST_F(HttpTest, PageAndItsPartsAreServedWithTheirTypes) {
  for (const auto& [path, type, part] : {std::tuple{"/", "text/html", "<title>Loopwright"},
                                         std::tuple{"/page.css", "text/css", "--ink"},
                                         std::tuple{"/page.js", "text/javascript", "use strict"}}) {
    const httplib::Result result = get(path);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 200);
    EXPECT_THAT(result->get_header_value("Content-Type"), HasSubstr(type));
    EXPECT_THAT(result->body, HasSubstr(part));
    EXPECT_THAT(result->get_header_value("Content-Security-Policy"),
                HasSubstr("default-src 'self'"));
    EXPECT_EQ(result->get_header_value("X-Content-Type-Options"), "nosniff");
    for (const char* outside : {"http://", "https://", "innerHTML", "@import", "eval("}) {
      if (std::string(outside) == "http://" && std::string(path) == "/page.js")
        continue;  // SVG's name
      EXPECT_THAT(result->body, Not(HasSubstr(outside))) << path;
    }
  }
}

TEST_F(HttpTest, MetricsAndHealth) {
  EXPECT_THAT(get("/metrics")->body, HasSubstr("loopwright_build_info{version=\"9.9\"} 1"));
  EXPECT_EQ(get("/healthz")->status, 200);
  EXPECT_EQ(get("/readyz")->body, "ok\n");
  health_ = {false, "the database is read-only: disk full"};
  EXPECT_EQ(get("/readyz")->status, 503);
  EXPECT_EQ(get("/readyz")->body, "the database is read-only: disk full\n");
  EXPECT_EQ(get("/healthz")->status, 200);
  EXPECT_EQ(document("/api/overview")["problem"], "the database is read-only: disk full");
  health_ = {false, "a thread hangs in GetStudy, 75 s beyond its time", false};
  for (const char* path : {"/healthz", "/readyz"}) {
    EXPECT_EQ(get(path)->status, 503);
    EXPECT_EQ(get(path)->body, "a thread hangs in GetStudy, 75 s beyond its time\n");
  }
}

TEST_F(HttpTest, OverviewCounts) {
  const json view = document("/api/overview");
  EXPECT_EQ(view["studies"]["running"], 3);
  EXPECT_EQ(view["studies"]["succeeded"], 2);
  EXPECT_EQ(view["jobs"]["queued"], 23);
  EXPECT_EQ(view["jobs"]["leased"], 3);
  EXPECT_EQ(view["devices"]["total"], 6);
  EXPECT_EQ(view["devices"]["online"], 5);
  EXPECT_EQ(view["devices"]["quarantined"], 2);
  EXPECT_EQ(view["agents"]["online"], 2);
  EXPECT_EQ(view["measurements"], 3000);
  EXPECT_EQ(view["version"], "9.9");
}

TEST_F(HttpTest, StudiesInPagesNewestFirst) {
  std::vector<std::string> ids;
  std::string before;
  for (int page = 0; page < 10; ++page) {
    const json view = document("/api/studies?limit=3&before=" + before);
    for (const json& study : view["studies"]) ids.push_back(study["id"]);
    if (view["next"].is_null()) break;
    before = view["next"];
  }
  EXPECT_THAT(ids, testing::ElementsAre("STUDY9", "STUDY8", "STUDY7", "STUDY6", "STUDY4", "STUDY3",
                                        "STUDY2", "STUDY1"));
  const json failed = document("/api/studies?state=failed");
  ASSERT_EQ(failed["studies"].size(), 1u);
  EXPECT_THAT(failed["studies"][0]["error"].get<std::string>(), HasSubstr("no candidate passed"));
}

TEST_F(HttpTest, OneStudyAndItsCurve) {
  const json study = document("/api/studies/STUDY7");
  EXPECT_EQ(study["target"], "x86_avx512");
  EXPECT_EQ(study["trials_wanted"], 1200);
  EXPECT_EQ(study["labels"]["model"], "resnet50");
  EXPECT_GT(study["gain"].get<double>(), 1.5);
  ASSERT_EQ(study["workloads"].size(), 6u);
  EXPECT_EQ(study["workloads"][3]["best_us"], 1543.0);
  const json all = document("/api/studies/STUDY7/curve");
  EXPECT_EQ(all["points"].size(), 60u);
  EXPECT_EQ(all["sequence"], 60);
  EXPECT_FALSE(all["more"]);
  EXPECT_FALSE(all["ended"]);
  EXPECT_EQ(document("/api/studies/STUDY7/curve?after=58")["points"].size(), 2u);
  EXPECT_TRUE(document("/api/studies/STUDY1/curve")["ended"]);
}

TEST_F(HttpTest, DevicesQueueAndTimeline) {
  const json devices = document("/api/devices?limit=2&after=board-1");
  ASSERT_EQ(devices["devices"].size(), 2u);
  EXPECT_EQ(devices["devices"][0]["id"], "board-2");
  EXPECT_EQ(devices["devices"][0]["health"], "throttled");
  EXPECT_EQ(devices["devices"][0]["held"].size(), 1u);
  EXPECT_EQ(devices["next"], "board-3");
  EXPECT_EQ(document("/api/agents")["agents"].size(), 3u);
  int64_t queued = 0;
  const json queue = document("/api/queue");
  for (const json& line : queue["queue"]) queued += line["queued"].get<int64_t>();
  EXPECT_EQ(queued, 23);
  const json timeline = document("/api/timeline");
  std::map<std::string, int64_t> free_from;
  for (const json& job : timeline["jobs"]) {
    EXPECT_LE(job["start_ms"], job["end_ms"]);
    EXPECT_GE(job["start_ms"], free_from[job["device"]]) << "a device runs one job at a time";
    free_from[job["device"]] = job["end_ms"];
  }
  EXPECT_EQ(free_from.size(), 3u);
}

TEST_F(HttpTest, SchedulesAreSearchedInPages) {
  std::set<int64_t> ids;
  std::string after;
  for (int page = 0; page < 20; ++page) {
    const json view = document("/api/schedules?limit=7&search=MATMUL&after=" + after);
    for (const json& schedule : view["schedules"]) {
      EXPECT_THAT(schedule["name"].get<std::string>(), HasSubstr("matmul"));
      EXPECT_NEAR(schedule["gflops"].get<double>(), 150, 1e-6);
      EXPECT_EQ(schedule["traces"], 3);
      EXPECT_TRUE(ids.insert(schedule["id"].get<int64_t>()).second) << "twice";
    }
    if (view["next"].is_null()) break;
    after = std::to_string(view["next"].get<int64_t>());
  }
  EXPECT_EQ(ids.size(), 20u);
  // What LIKE would take as a pattern is text.
  EXPECT_EQ(document("/api/schedules?search=%25")["schedules"].size(), 0u);
  EXPECT_EQ(document("/api/schedules?search=h_d")["schedules"].size(), 0u);
  EXPECT_EQ(document("/api/schedules?search=batch_mat")["schedules"].size(), 10u);
  EXPECT_EQ(document("/api/schedules?search=%27%20OR%201%3D1--")["schedules"].size(), 0u);
}

TEST_F(HttpTest, FailuresByClassAndHour) {
  const json view = document("/api/failures");
  int64_t all = 0;
  for (const auto& [verdict, hours] : view["verdicts"].items()) {
    ASSERT_EQ(hours.size(), 24u) << verdict;
    for (const json& count : hours) all += count.get<int64_t>();
  }
  EXPECT_GT(all, 2900);
  EXPECT_TRUE(view["verdicts"].contains("wrong_result"));
}

TEST_F(HttpTest, BadParametersAreNamed) {
  for (const auto& [target, name] :
       {std::pair{"/api/studies?limit=0", "limit"}, std::pair{"/api/studies?limit=101", "limit"},
        std::pair{"/api/studies?limit=x", "limit"}, std::pair{"/api/schedules?after=-1", "after"},
        std::pair{"/api/schedules?after=99999999999999999999", "after"},
        std::pair{"/api/studies/STUDY7/curve?after=1e9", "after"},
        std::pair{"/api/devices?after=%00", "after"}}) {
    const httplib::Result result = get(target);
    ASSERT_TRUE(result) << target;
    EXPECT_EQ(result->status, 400) << target;
    EXPECT_THAT(json::parse(result->body)["error"].get<std::string>(), HasSubstr(name));
  }
  EXPECT_EQ(get("/api/schedules?search=" + std::string(201, 'x'))->status, 400);
}

TEST_F(HttpTest, HostileUrlsAreNotFound) {
  for (const char* target :
       {"/etc/passwd", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/page.js/../../x", "//",
        "/api", "/api/", "/api/audit", "/api/studies/", "/api/studies/../devices",
        "/api/studies/a%2fb", "/api/studies/%00", "/api/studies/NO_SUCH",
        "/api/studies/STUDY7/curve/x", "/api/studies/'--", "/schema.sql", "/page.html%00.js",
        "/metrics/x", "/api/overview/x"}) {
    const httplib::Result result = get(target);
    ASSERT_TRUE(result) << target;
    EXPECT_EQ(result->status, 404) << target;
    EXPECT_LT(result->body.size(), 200u);
  }
  const httplib::Result longest = get("/api/studies/" + std::string(6000, 'a'));
  ASSERT_TRUE(longest);
  EXPECT_EQ(longest->status, 404);
}

TEST_F(HttpTest, OnlyReadingMethodsAndNoRanges) {
  httplib::Client client("127.0.0.1", server_->port());
  for (const httplib::Result& result :
       {client.Post("/api/studies", "{}", "application/json"), client.Put("/", "x", "text/plain"),
        client.Delete("/api/studies/STUDY7"), client.Options("/")}) {
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 405);
  }
  EXPECT_EQ(client.Head("/")->status, 200);
  EXPECT_EQ(get("/page.js", {{"Range", "bytes=0-9,0-9,0-9,0-9"}})->status, 416);
}

TEST_F(HttpTest, AnotherHostsNameIsRefused) {
  EXPECT_EQ(get("/api/studies", {{"Host", "evil.example"}})->status, 421);
  EXPECT_EQ(get("/", {{"Host", "127.0.0.1.evil.example"}})->status, 421);
  EXPECT_EQ(get("/", {{"Host", "localhost:1234"}})->status, 200);
  EXPECT_EQ(get("/", {{"Host", "[::1]:1234"}})->status, 200);
}

TEST_F(HttpTest, BrokenRequestsEndAndTheServerGoesOn) {
  for (const std::string& bytes :
       {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
        "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(100'000, 'b') + "\r\n\r\n",
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
        std::string("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")}) {
    EXPECT_THAT(raw(bytes), Not(HasSubstr(" 200 "))) << bytes.substr(0, 60);
  }
  EXPECT_EQ(get("/healthz")->status, 200);
}

TEST_F(HttpTest, NamesFromUsersStayData) {
  const json study = document("/api/studies/STUDY9");
  EXPECT_EQ(study["first_workload"], kHostileName);
  EXPECT_EQ(get("/api/studies/STUDY9")->get_header_value("Content-Type"), "application/json");
}

TEST_F(HttpTest, BytesThatAreNoUtf8AreReplaced) {
  data_->run("INSERT INTO agents (id, sessions, version, labels, peer, seen_ms) "
             "VALUES ('zz',?,'1','{broken','',0)", std::string("s"));
  data_->run("UPDATE agents SET peer = CAST(x'ff61' AS TEXT) WHERE id = ?", std::string("zz"));
  const json agents = document("/api/agents?after=z");
  EXPECT_EQ(agents["agents"][0]["peer"], "\xef\xbf\xbd""a");
  EXPECT_TRUE(agents["agents"][0]["labels"].empty());
  data_->run("DELETE FROM agents WHERE id = ?", std::string("zz"));
}

TEST_F(HttpTest, AStudySaysWhatFailedOfItByClass) {
  EXPECT_EQ(document("/api/studies/STUDY2/failures")["workloads"], json::array());
  const std::string name = "conv3d_bad", target = data_->target("x86_avx512");
  data_->failed("STUDY3", name, target, "crash", "SIGSEGV");
  data_->failed("STUDY3", name, target, "wrong_result", "Y[7] is 2, should be 1");
  data_->failed("STUDY3", name, target, "wrong_result", "Y[8] is 3, should be 1");
  const json view = document("/api/studies/STUDY3/failures");
  ASSERT_EQ(view["workloads"].size(), 1u) << view;
  EXPECT_EQ(view["workloads"][0]["name"], name);
  const json& failures = view["workloads"][0]["failures"];
  ASSERT_EQ(failures.size(), 2u) << view;
  EXPECT_EQ(failures[0]["class"], "wrong_result");
  EXPECT_EQ(failures[0]["count"], 2);
  EXPECT_EQ(failures[0]["detail"], "Y[7] is 2, should be 1") << "the first";
  EXPECT_EQ(failures[0]["trace"], make_trace(0));
  EXPECT_THAT(failures[0]["advice"].get<std::string>(), HasSubstr("--keep-failing"));
  EXPECT_EQ(failures[1]["class"], "crash");
}

TEST_F(HttpTest, RemoteAddressesNeedTlsOrAWord) {
  HttpOptions options;
  options.address = *parse_bind_address("0.0.0.0:0");
  auto refused = HttpServer::start(options, data_->database(), *metrics_, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("loopback"));
  options.allow_plain_remote = true;
  EXPECT_TRUE(HttpServer::start(options, data_->database(), *metrics_, {}).ok());
  HttpOptions taken;
  taken.address = *parse_bind_address(concat("127.0.0.1:", server_->port()));
  EXPECT_EQ(HttpServer::start(taken, data_->database(), *metrics_, {}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(HttpTest, LookUpsAreReadyWhileTheDatabaseTakesNoWrites) {
  Health now{false, "the database is read-only: disk full", true, true};
  HttpHooks hooks;
  hooks.health = [&] { return now; };
  HttpOptions options;
  options.address = *parse_bind_address("127.0.0.1:0");
  const auto server = HttpServer::start(options, data_->database(), *metrics_, std::move(hooks));
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("127.0.0.1", (*server)->port());
  EXPECT_EQ(client.Get("/readyz")->status, 503);
  EXPECT_EQ(client.Get("/readyz?reads")->status, 200);
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  EXPECT_THAT(client.Get("/readyz?reads")->body, HasSubstr("read-only"));
  now.reads = false;                       // it stops
  EXPECT_EQ(client.Get("/readyz?reads")->status, 503);
  now = {false, "a thread hangs", false, true};
  EXPECT_EQ(client.Get("/readyz?reads")->status, 503);
}

TEST_F(HttpTest, StopsWhileClientsHang) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(s, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_GT(send(s, "GET / HT", 8, MSG_NOSIGNAL), 0);
  EXPECT_EQ(get("/healthz")->status, 200);
  server_.reset();                         // returns: within the read timeout
  close(s);
}

}  // namespace
}  // namespace lw
