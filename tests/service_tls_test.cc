// A service with certificates, through the real binary: who may do what, and certificates that are
// replaced while everything runs.
#include "gmock/gmock.h"
#include "tests/fleet_fixture.h"
#include "tests/tls_fixture.h"

namespace lw {
namespace {

using testing::certificates;
using ::testing::HasSubstr;

class ServiceTlsTest : public DaemonTest {
 protected:
  void SetUp() override {
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
    const testing::ShellResult result = certificates(concat(verb, " ", path("pki"), " ", rest));
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
  EXPECT_EQ(refused.code, 5);
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
  testing::ShellResult fresh = certificates(concat("ca ", path("new")));
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

}  // namespace
}  // namespace lw
