// The daemon's edges, by the real program: databases that are not there yet or are served already,
// servers of which one is away, strangers who knock, secrets on command lines, files' modes.
#include <sys/stat.h>

#include "gmock/gmock.h"
#include "httplib.h"
#include "tests/fleet/fleet_fixture.h"
#include "tests/support/tls_fixture.h"

namespace lw {
namespace {

using tls::certificates;
using ::testing::HasSubstr;
using ::testing::Not;

class ServiceEdges : public DaemonTest {
 protected:
  mode_t mode_of(const std::string& file) const {
    struct stat status {};
    EXPECT_EQ(stat(path(file).c_str(), &status), 0) << file;
    return status.st_mode & 0777u;
  }
  // A submitted study that nobody measures; its name.
  std::string submit(const std::string& address) {
    const CliRun run = cli(concat("submit matmul M=32 N=32 K=32 --threads 1 --target x86_avx2 "
                                  "--trials 8 --json --server ", address));
    EXPECT_EQ(run.code, 0) << run.out << run.err;
    return run.code == 0 ? run.json()["study"].get<std::string>() : "";
  }
  int http_port() const {
    const std::string log = log_of("serve");
    return std::stoi(log.substr(log.find("http://127.0.0.1:") + 17));
  }
};

TEST_F(ServiceEdges, ADatabaseThatIsAwayIsWaitedFor) {
  launch("serve", "serve --db postgres://u@127.0.0.1:1/x --listen 127.0.0.1:0 --http 127.0.0.1:0");
  ASSERT_TRUE(until_logged("serve", "waiting_for_database")) << log_of("serve");
  EXPECT_THAT(log_of("serve"), HasSubstr("Connection refused"));
  EXPECT_TRUE(until_logged("serve", "\"again_in_ms\":1000")) << log_of("serve");
  EXPECT_EQ(stop("serve"), 0) << log_of("serve");
  // What waiting does not mend ends at once, as the wrong request that it is.
  launch("serve", "serve --db postgres://u@192.0.2.1/x --listen 127.0.0.1:0 --http 127.0.0.1:0");
  EXPECT_EQ(ended("serve"), 1) << log_of("serve");
  EXPECT_THAT(log_of("serve"), HasSubstr("sslmode=verify-full"));
}

TEST_F(ServiceEdges, OneDaemonServesAFileWhateverItIsCalled) {
  ASSERT_FALSE(serve().empty()) << log_of("serve");
  EXPECT_EQ(mode_of("service.db"), 0600u);
  EXPECT_EQ(mode_of("service.db-wal"), 0600u);
  std::filesystem::create_symlink("service.db", path("link.db"));
  launch("second", "serve --db link.db --listen 127.0.0.1:0 --http 127.0.0.1:0");
  EXPECT_EQ(ended("second"), 5) << log_of("second");
  EXPECT_THAT(log_of("second"), HasSubstr("another daemon serves it"));
  const CliRun copied = cli("db backup -o copy.db --db service.db");
  ASSERT_EQ(copied.code, 0) << copied.err;
  EXPECT_EQ(mode_of("copy.db"), 0600u);
  const CliRun restored = cli("db restore copy.db --force --db link.db");
  EXPECT_EQ(restored.code, 1) << restored.out;
  EXPECT_THAT(restored.err, HasSubstr("another daemon serves it"));
  const CliRun refused = cli("db clock --reset --db link.db");
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("another daemon serves it"));
  const CliRun clock = cli("db clock --json --db link.db");
  ASSERT_EQ(clock.code, 0) << clock.err;
  EXPECT_LT(std::abs(clock.json()["ahead_ms"].get<int64_t>()), 60'000);
  EXPECT_EQ(cli("db clock --reset --force --db service.db").code, 0);
  EXPECT_EQ(stop("serve"), 0);
  EXPECT_EQ(cli("db clock --reset --db link.db").code, 0);
  EXPECT_EQ(cli("db clock --db none.db").code, 2);
  EXPECT_EQ(cli("db clock --force --db service.db").code, 1);
  EXPECT_EQ(cli("db restore copy.db --force --db link.db").code, 0);
}

TEST_F(ServiceEdges, PasswordsAreKeptOffTheCommandLine) {
  for (const char* words : {"serve --db postgres://u:secret@127.0.0.1:1/x",
                            "db stats --db=postgres://u@127.0.0.1:1/x?password=secret"}) {
    const CliRun run = cli(words);
    EXPECT_EQ(run.code, 1) << words;
    EXPECT_THAT(run.err, HasSubstr("PGPASSFILE")) << words;
    EXPECT_THAT(run.err, Not(HasSubstr("secret"))) << words;
  }
}

TEST_F(ServiceEdges, TheNextServerIsTriedWhenOneIsAway) {
  const std::string address = serve();
  ASSERT_FALSE(address.empty()) << log_of("serve");
  const std::string both = concat("127.0.0.1:1,", address);
  EXPECT_EQ(cli(concat("studies --server ", both)).code, 0);
  launch("left", concat("agent --server ", both, " --name left --device null:left --state ",
                        path("left")));
  EXPECT_TRUE(until_logged("left", concat("\"connected\",\"server\":\"", address, "\"")))
      << log_of("left");
  const CliRun run = cli(concat("submit matmul M=32 N=32 K=32 --threads 1 --target x86_avx2 "
                                "--trials 8 --watch --json --server ", both));
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_EQ(cli(concat("lookup matmul M=32 N=32 K=32 --threads 1 --target x86_avx2 --worst exact "
                       "--server ", both)).code, 0);
  const CliRun bad = cli(concat("studies --server ", address, ",nowhere"));
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("'nowhere' is no address"));
}

// Ctrl-C, or worse, and the same command again: one study, whichever way it is watched to its end.
TEST_F(ServiceEdges, AnInterruptedWatcherMakesNoSecondStudy) {
  const std::string address = serve();
  ASSERT_FALSE(address.empty()) << log_of("serve");
  const std::string words = concat("submit matmul M=32 N=32 K=32 --threads 1 --target x86_avx2 "
                                   "--trials 8 --label a=b --label c=d --watch --server ", address);
  const auto studies = [&] {
    const CliRun run = cli(concat("studies --json --server ", address));
    EXPECT_EQ(run.code, 0) << run.err;
    return run.json()["studies"];
  };
  launch("first", words);                  // there is no device yet: it waits
  ASSERT_TRUE(until_logged("first", "created")) << log_of("first");
  interrupt("first");
  EXPECT_EQ(ended("first"), 4) << log_of("first");
  const std::string said = log_of("first"), study = studies()[0]["name"];
  const std::string go_on = "loopwright watch " + study + " --after ";
  ASSERT_THAT(said, HasSubstr("to go on: " + go_on));
  EXPECT_THAT(said, HasSubstr(" --server " + address));
  launch("second", words);
  ASSERT_TRUE(until_logged("second", "created")) << log_of("second");
  EXPECT_THAT(log_of("second"), HasSubstr(study + ", which this command made"));
  end_at_once("second");
  EXPECT_EQ(studies().size(), 1u);

  // Asked for otherwise, or by an id of its own, it is another.
  submit(address);
  launch("third", words + " --request-id mine");
  ASSERT_TRUE(until_logged("third", "created")) << log_of("third");
  end_at_once("third");
  EXPECT_EQ(studies().size(), 3u);

  // As it was printed.
  launch("left", concat("agent --server ", address, " --name left --device null:left --state ",
                        path("left")));
  const size_t at = said.find(go_on) + std::string("loopwright ").size();
  const CliRun watched = cli(said.substr(at, said.find('\n', at) - at));
  EXPECT_EQ(watched.code, 0) << watched.err;
  EXPECT_THAT(watched.err, HasSubstr("ended"));
  EXPECT_THAT(watched.err, Not(HasSubstr("created"))) << "what was seen is not shown again";
  EXPECT_THAT(watched.err, Not(HasSubstr("to go on")));
  EXPECT_TRUE(eventually([&] {             // the third too
    for (const auto& one : studies()) {
      if (!one.contains("end_time") || one["end_time"].is_null()) return false;
    }
    return true;
  }));
  // What has ended is asked for anew.
  EXPECT_EQ(cli(words).code, 0);
  EXPECT_EQ(studies().size(), 4u);
}

TEST_F(ServiceEdges, AWatchersPatienceCanBeBounded) {
  const std::string address = serve();
  ASSERT_FALSE(address.empty()) << log_of("serve");
  const std::string study = submit(address);
  ASSERT_EQ(stop("serve"), 0);
  const CliRun run = cli(concat("watch ", study, " --patience 0.5 --server ", address));
  EXPECT_EQ(run.code, 5);
  EXPECT_THAT(run.err, HasSubstr("the server has been away for"));
  EXPECT_THAT(run.err, HasSubstr("loopwright watch " + study + " --after 0"));
}

TEST_F(ServiceEdges, AReplacedAgentIsNotToBeStartedAgain) {
  const std::string address = serve();
  ASSERT_FALSE(address.empty()) << log_of("serve");
  const auto agent = [&](const std::string& log) {
    launch(log, concat("agent --server ", address, " --name one --device null:one --state ",
                       path(log)));
  };
  agent("first");
  ASSERT_TRUE(until_logged("first", "connected")) << log_of("first");
  agent("second");
  EXPECT_EQ(ended("first"), 1) << log_of("first");  // RestartPreventExitStatus= of the unit
  EXPECT_THAT(log_of("first"), HasSubstr("has taken over"));
  EXPECT_EQ(stop("second"), 0) << log_of("second");
}

TEST_F(ServiceEdges, CancellingIsNoWarning) {
  const std::string address = serve();
  ASSERT_FALSE(address.empty()) << log_of("serve");
  launch("left", concat("agent --server ", address, " --name left --device null:left,delay_ms=20 "
                        "--state ", path("left")));
  ASSERT_TRUE(until_logged("left", "connected")) << log_of("left");
  for (int i = 0; i < 3; ++i) {
    const CliRun run = cli(concat("submit matmul M=64 N=64 K=", 16 + i, " --threads 1 --target "
                                  "x86_avx2 --trials 1000 --json --server ", address));
    ASSERT_EQ(run.code, 0) << run.err;
    const std::string study = run.json()["study"];
    EXPECT_TRUE(eventually([&] {
      const CliRun shown = cli(concat("studies ", study, " --json --server ", address));
      return shown.code == 0 && shown.json()["progress"]["trials"].get<int>() > 0;
    }));
    ASSERT_EQ(cli(concat("cancel ", study, " --server ", address)).code, 0);
  }
  EXPECT_EQ(stop("left"), 0);
  EXPECT_EQ(stop("serve"), 0);
  EXPECT_THAT(log_of("serve"), Not(HasSubstr("\"level\":\"warning\"")));
}

TEST_F(ServiceEdges, LookUpsAreReadyWithoutWrites) {
  ASSERT_FALSE(serve().empty()) << log_of("serve");
  httplib::Client client("127.0.0.1", http_port());
  for (const char* path : {"/healthz", "/readyz", "/readyz?reads"}) {
    EXPECT_EQ(client.Get(path)->status, 200) << path;
  }
}

// Who knocks without a certificate, with a stranger's, without TLS: said with its address, counted,
// and in no other form than our own.
TEST_F(ServiceEdges, RefusedHandshakesAreSaidWithTheirPeer) {
  for (const char* words : {"ca pki", "issue pki server main --host localhost", "ca others",
                            "issue others client ci", "issue pki client ci"}) {
    std::string all;
    std::istringstream pieces(words);
    for (std::string piece; pieces >> piece;) {
      all += " " + (piece == "pki" || piece == "others" ? path(piece) : piece);
    }
    const tls::ShellResult made = certificates(all);
    ASSERT_EQ(made.exit, 0) << made.output;
  }
  const auto files = [&](const std::string& folder) {
    return concat(" --tls-ca ", path(folder), "/ca.pem --tls-cert ", path(folder),
                  "/cert.pem --tls-key ", path(folder), "/key.pem");
  };
  const std::string address = serve(files("pki/server-main"));
  ASSERT_FALSE(address.empty()) << log_of("serve");
  const std::string there = "localhost" + address.substr(address.rfind(':'));
  // An honest client's connection stays open beside it.
  const CliRun honest = cli(concat("studies --server ", there, files("pki/client-ci")));
  EXPECT_EQ(honest.code, 0) << honest.err;
  std::string peer;
  {
    // One that says what is no TLS, from a port that we know.
    httplib::Client plain("127.0.0.1", std::stoi(address.substr(address.rfind(':') + 1)));
    plain.set_socket_options([&](socket_t socket) {
      sockaddr_in own{};
      own.sin_family = AF_INET;
      own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
      socklen_t size = sizeof own;
      ASSERT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size), 0);
      peer = concat("127.0.0.1:", ntohs(own.sin_port));
    });
    EXPECT_FALSE(plain.Get("/"));
  }
  ASSERT_TRUE(until_logged("serve", "handshake_failed")) << log_of("serve");
  EXPECT_THAT(log_of("serve"), HasSubstr(concat("\"peer\":\"", peer, "\""))) << peer;
  EXPECT_NE(cli(concat("studies --server ", there, files("others/client-ci"))).code, 0);
  EXPECT_NE(cli(concat("studies --server ", there)).code, 0);
  httplib::Client http("127.0.0.1", http_port());
  std::string metrics;
  EXPECT_TRUE(eventually([&] {
    metrics = http.Get("/metrics")->body;
    const size_t at = metrics.find("\nloopwright_handshakes_failed_total ");
    return at != std::string::npos && std::stod(metrics.substr(metrics.find(' ', at))) >= 2;
  })) << metrics;
  EXPECT_EQ(stop("serve"), 0);
  // One line a minute, and every line is JSON of ours.
  const std::string log = log_of("serve");
  EXPECT_EQ(log.find("handshake_failed"), log.rfind("handshake_failed")) << log;
  EXPECT_THAT(log, Not(::testing::ContainsRegex("\n[EI][0-9]{4} ")));
}

}  // namespace
}  // namespace lw
