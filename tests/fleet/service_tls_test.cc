// A service with certificates, through the real binary: who may do what, and certificates that are
// replaced while everything runs.
#include "gmock/gmock.h"
#include "httplib.h"
#include "tests/fleet/fleet_fixture.h"
#include "tests/support/tls_fixture.h"

namespace lw {
namespace {

using tls::certificates;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ServiceTlsTest : public DaemonTest {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);              // who is denied is cut off in the middle of a word
    DaemonTest::SetUp();
    make("ca", "");
    make("issue", "server main --host localhost --host 127.0.0.1");
    make("issue", "client ci");
    make("issue", "reader board");
    make("issue", "agent left");
    address_ = serve(concat("--reflection ", files("server-main")));
    ASSERT_FALSE(address_.empty()) << log_of("serve");
  }
  void make(const std::string& verb, const std::string& rest) {
    const tls::ShellResult result = certificates(concat(verb, " ", path("pki"), " ", rest));
    ASSERT_EQ(result.exit, 0) << result.output;
  }
  std::string files(const std::string& who) const {
    const std::string folder = path("pki/" + who);
    return concat("--tls-ca ", folder, "/ca.pem --tls-cert ", folder, "/cert.pem --tls-key ",
                  folder, "/key.pem");
  }
  CliRun ask(const std::string& words, const std::string& who) const {
    return cli(concat(words, " --server ", address_, " ", files(who)));
  }
  void launch_agent(const std::string& name, const std::string& who) {
    launch(name, concat("agent --server ", address_, " --name ", name, " --device null:", name,
                        " --state ", path(name), " ", files(who)));
  }
  std::string address_;
};

TEST_F(ServiceTlsTest, RolesAreKept) {
  launch_agent("left", "agent-left");
  ASSERT_TRUE(until_logged("left", "connected")) << log_of("left");
  const CliRun run =
      ask("submit matmul M=32 N=32 K=32 --threads 1 --target x86_avx2 --trials 8 "
          "--watch --json",
          "client-ci");
  ASSERT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_EQ(run.json()["client"], "ci");
  EXPECT_GT(run.json()["progress"]["workloads"][0]["best_us"], 0);

  EXPECT_EQ(ask("studies", "reader-board").code, 0);
  const CliRun refused = ask("submit matmul M=32 N=32 K=32 --trials 8", "reader-board");
  EXPECT_EQ(refused.code, 1);              // the request is wrong, not the environment
  EXPECT_THAT(refused.err, HasSubstr("role reader (board) may not call"));

  // Another agent's certificate, a client's, and none.
  launch_agent("right", "agent-left");
  EXPECT_EQ(ended("right"), 5);
  EXPECT_THAT(log_of("right"), HasSubstr("agents/right"));
  launch_agent("middle", "client-ci");
  EXPECT_EQ(ended("middle"), 5);
  EXPECT_THAT(log_of("middle"), HasSubstr("may not call"));
  const CliRun bare = cli(concat("studies --server ", address_));
  EXPECT_EQ(bare.code, 5);
  EXPECT_THAT(bare.err, HasSubstr("does the server want TLS?"));
  EXPECT_EQ(stop("left"), 0) << log_of("left");
  EXPECT_EQ(stop("serve"), 0) << log_of("serve");
}

// A new authority and everybody's new certificates, put in place while agent and daemon run: the
// agent's connection goes on, and finds the server again when it has restarted with the new ones.
TEST_F(ServiceTlsTest, CertificatesAreReplacedWhileItRuns) {
  launch_agent("left", "agent-left");
  ASSERT_TRUE(until_logged("left", "connected")) << log_of("left");
  const std::string before = slurp(path("pki/client-ci/cert.pem"));
  std::filesystem::create_directories(path("old"));
  std::filesystem::copy(path("pki"), path("old"), std::filesystem::copy_options::recursive);
  tls::ShellResult fresh = certificates(concat("ca ", path("new")));
  ASSERT_EQ(fresh.exit, 0) << fresh.output;
  for (const char* who :
       {"server main --host localhost --host 127.0.0.1", "client ci", "agent left"}) {
    fresh = certificates(concat("issue ", path("new"), " ", who));
    ASSERT_EQ(fresh.exit, 0) << fresh.output;
  }
  for (const char* who : {"server-main", "client-ci", "agent-left"}) {
    for (const char* file : {"ca.pem", "cert.pem", "key.pem"}) {
      std::filesystem::rename(path(concat("new/", who, "/", file)),
                              path(concat("pki/", who, "/", file)));
    }
  }
  ASSERT_NE(slurp(path("pki/client-ci/cert.pem")), before);
  EXPECT_TRUE(until_logged("left", "CN=left")) << log_of("left");
  EXPECT_TRUE(eventually([&] { return ask("studies", "client-ci").code == 0; }));
  const CliRun old = cli(concat(
      "studies --server ", address_, " --tls-ca ", path("old/client-ci/ca.pem"), " --tls-cert ",
      path("old/client-ci/cert.pem"), " --tls-key ", path("old/client-ci/key.pem")));
  EXPECT_EQ(old.code, 5) << old.out;
  // The agent comes back on a new connection.
  EXPECT_EQ(stop("serve"), 0) << log_of("serve");
  launch("serve", concat("serve --db service.db --listen ", address_, " --http 127.0.0.1:0 ",
                         files("server-main")));
  ASSERT_TRUE(until_logged("left", "draining")) << log_of("left");
  EXPECT_TRUE(eventually([&] {
    const std::string text = log_of("left");
    const size_t drained = text.rfind("draining");
    return text.find("connected", drained) != std::string::npos ||
           text.find("undrained", drained) != std::string::npos;
  })) << log_of("left");
  EXPECT_EQ(stop("left"), 0) << log_of("left");
}

// As the unit runs it: a user of its own owns the files, root renews them.
TEST_F(ServiceTlsTest, ARenewalByRootIsTakenUpByAServiceOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "[SKIP] only root can run it as another user";
  constexpr uid_t kNobody = 65534;
  EXPECT_EQ(stop("serve"), 0);
  const std::string own = path("own");
  make("issue", concat("server own --host localhost --host 127.0.0.1 --out ", own));
  for (const char* file : {"", "/ca.pem", "/cert.pem", "/key.pem"}) {
    ASSERT_EQ(chown((own + file).c_str(), kNobody, kNobody), 0);
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  std::filesystem::create_directory(path("state"));
  ASSERT_EQ(chown(path("state").c_str(), kNobody, kNobody), 0);
  launch("own", concat("serve --db state/own.db --listen 127.0.0.1:0 --http 127.0.0.1:0 --tls-ca ",
                       own, "/ca.pem --tls-cert ", own, "/cert.pem --tls-key ", own, "/key.pem"),
         kNobody);
  if (!eventually([&] { return !log_of("own").empty(); }, 3)) {
    GTEST_SKIP() << "[SKIP] another user cannot run " << command({})[0];
  }
  ASSERT_TRUE(until_logged("own", "\"serving\"")) << log_of("own");
  make("renew", concat("server own --out ", own));
  EXPECT_TRUE(until_logged("own", "\"level\":\"info\",\"event\":\"certificate_reloaded\""))
      << log_of("own");
  // What cannot be read is an error in the log, and counted.
  ASSERT_EQ(chown(concat(own, "/key.pem").c_str(), 0, 0), 0);
  EXPECT_TRUE(until_logged("own",
                           "\"level\":\"error\",\"event\":\"certificate_not_reloaded\""))
      << log_of("own");
  const std::string log = log_of("own");
  const size_t at = log.find("http://127.0.0.1:") + 17;
  httplib::Client client("127.0.0.1", std::stoi(log.substr(at)));
  std::string metrics;
  EXPECT_TRUE(eventually([&] {
    const httplib::Result got = client.Get("/metrics");
    if (got) metrics = got->body;
    return metrics.find("loopwright_reload_failures_total{what=\"certificate\"} 1") !=
           std::string::npos;
  })) << metrics;
  const size_t ends = metrics.find("\nloopwright_certificate_ends_seconds ");
  ASSERT_NE(ends, std::string::npos) << metrics;
  const double seconds = std::stod(metrics.substr(metrics.find(' ', ends)));
  EXPECT_NEAR(seconds, 30 * 86400, 3600);
}

TEST_F(ServiceTlsTest, WhoIsDeniedIsDeniedWhileItRuns) {
  EXPECT_EQ(stop("serve"), 0);
  tls::write_text(path("serve.json"), "{}");
  address_ = serve(concat("--config serve.json ", files("server-main")));
  launch_agent("left", "agent-left");
  ASSERT_TRUE(until_logged("left", "connected")) << log_of("left");
  // Two who wait: a watcher of a study that nobody measures, and the agent's held call.
  const CliRun made = ask("submit matmul M=32 N=32 K=32 --threads 1 --target x86_avx512 --trials 8 "
                          "--json", "client-ci");
  ASSERT_EQ(made.code, 0) << made.err;
  launch("watch", concat("watch ", made.json()["study"].get<std::string>(), " --server ", address_,
                         " ", files("client-ci")));
  ASSERT_TRUE(until_logged("watch", "created")) << log_of("watch");
  tls::write_text(path("serve.json"), R"({"denied": ["agent/left", "client/ci"]})");
  EXPECT_TRUE(until_logged("serve", "config_reloaded")) << log_of("serve");
  EXPECT_TRUE(until_logged("left", "is denied by the server")) << log_of("left");
  EXPECT_EQ(ended("watch"), 5) << log_of("watch");
  const CliRun refused = ask("studies", "client-ci");
  EXPECT_EQ(refused.code, 5);
  EXPECT_THAT(refused.err, HasSubstr("client/ci is denied by the server's configuration"));
  EXPECT_EQ(ask("studies", "reader-board").code, 0);
  // A file that is wrong changes nothing.
  tls::write_text(path("serve.json"), R"({"denied": ["board-7"]})");
  EXPECT_TRUE(until_logged("serve", "config_not_reloaded")) << log_of("serve");
  EXPECT_EQ(ask("studies", "client-ci").code, 5);
  tls::write_text(path("serve.json"), "{}");
  EXPECT_TRUE(eventually([&] { return ask("studies", "client-ci").code == 0; }));
}

// The page off the loopback: TLS, the roles that may look, certificates as gRPC's.
TEST_F(ServiceTlsTest, ThePageAsksForARole) {
  EXPECT_EQ(stop("serve"), 0);
  tls::write_text(path("serve.json"), "{}");
  launch("serve", concat("serve --db service.db --listen 127.0.0.1:0 --http 0.0.0.0:0 --config "
                         "serve.json ", files("server-main")));
  ASSERT_TRUE(until_logged("serve", "\"serving\"")) << log_of("serve");
  const std::string log = log_of("serve");
  const size_t at = log.find("https://0.0.0.0:") + 16;
  ASSERT_GT(at, size_t{16}) << log;
  const int port = std::stoi(log.substr(at));
  // The status and the body; "none" where no answer came.
  const auto get = [&](const std::string& who) -> std::string {
    const std::string folder = path("pki/" + who);
    httplib::SSLClient client("localhost", port, folder + "/cert.pem", folder + "/key.pem");
    client.set_ca_cert_path((folder + "/ca.pem").c_str());
    const httplib::Result got = client.Get("/api/studies");
    return got ? concat(got->status, " ", got->body) : "none";
  };
  EXPECT_THAT(get("reader-board"), StartsWith("200 "));
  EXPECT_THAT(get("client-ci"), StartsWith("200 "));
  EXPECT_THAT(get("agent-left"), StartsWith("403 "));
  EXPECT_THAT(get("agent-left"), HasSubstr("the role agent (left) may not read pages"));
  EXPECT_EQ(get("server-main"), "none");   // it is not for clients
  httplib::SSLClient bare("localhost", port);
  bare.enable_server_certificate_verification(false);
  EXPECT_FALSE(bare.Get("/"));
  // Renewed under it, and revoked.
  const auto serial = [&] {
    return tls::shell(concat("openssl s_client -connect localhost:", port,
                                 " 2>/dev/null | openssl x509 -noout -serial")).output;
  };
  const std::string before = serial();
  EXPECT_THAT(before, HasSubstr("serial="));
  make("renew", "server main");
  EXPECT_TRUE(eventually([&] { return serial() != before; })) << log_of("serve");
  EXPECT_THAT(get("reader-board"), StartsWith("200 "));
  tls::write_text(path("serve.json"), R"({"denied": ["reader/board"]})");
  EXPECT_TRUE(eventually([&] { return get("reader-board").starts_with("403"); }));
}

}  // namespace
}  // namespace lw
