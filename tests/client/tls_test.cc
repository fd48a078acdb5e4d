// TLS against a real gRPC server of this process: who gets in, who does not, and what replacing
// certificates does to calls.
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/v1/study.grpc.pb.h"
#include "src/base/message.h"
#include "src/net/tls.h"
#include "src/serve/access/auth.h"
#include "src/serve/messages/errors.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/tls_fixture.h"

namespace lw {
namespace {

using tls::certificates;
using tls::files_in;
using tls::read_text;
using tls::write_text;
using ::testing::HasSubstr;
using ::testing::Not;

// Refused handshakes are what is tested here: gRPC need not tell of each.
const int kQuietHandshakes = setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);

constexpr int kPollMs = 50;

// One authority, its certificates, and a stranger's authority.
struct Authority {
  tls::TempFolder folder;
  std::filesystem::path ours = folder.path / "ours";
  std::filesystem::path strangers = folder.path / "strangers";

  Authority() {
    make("ca", ours, "");
    make("ca", strangers, "");
    make("issue", ours, "server main --host localhost --host 127.0.0.1");
    make("issue", ours, "server elsewhere --host elsewhere.example");
    make("issue", ours, "client ci");
    make("issue", ours, "agent board");
    make("issue", strangers, "client ci");
    make("issue", strangers, "server main --host localhost --host 127.0.0.1");
  }
  static void make(const std::string& verb, const std::filesystem::path& where,
                   const std::string& rest) {
    const tls::ShellResult result = certificates(concat(verb, " ", where.string(), " ", rest));
    EXPECT_EQ(result.exit, 0) << result.output;
  }
};

const Authority& authority() {
  static const Authority* all = new Authority;
  return *all;
}

// GetCapabilities answers who asked, GetStudy may be denied.
class WhoAmI final : public v1::TuningService::Service {
 public:
  bool tls = true;

  grpc::Status GetCapabilities(grpc::ServerContext* context, const v1::GetCapabilitiesRequest*,
                               v1::GetCapabilitiesResponse* response) override {
    const absl::StatusOr<Identity> identity = identity_of(*context->auth_context(), tls);
    if (!identity.ok()) return to_grpc(identity.status());
    response->set_server_version(identity_text(*identity));
    return grpc::Status::OK;
  }
  grpc::Status GetStudy(grpc::ServerContext* context, const v1::GetStudyRequest*,
                        v1::Study*) override {
    const absl::StatusOr<Identity> identity = identity_of(*context->auth_context(), tls);
    if (!identity.ok()) return to_grpc(identity.status());
    return to_grpc(authorize(*identity, "/loopwright.v1.TuningService/GetStudy"));
  }
};

struct TestServer {
  WhoAmI service;
  int port = 0;
  std::unique_ptr<grpc::Server> server;

  explicit TestServer(const ServerSecurity& security) {
    service.tls = security.reloader != nullptr;
    if (service.tls) security.credentials->SetAuthMetadataProcessor(deny_by_default());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", security.credentials, &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
  }
  ~TestServer() { server->Shutdown(std::chrono::system_clock::now()); }

  std::string address(const std::string& host = "127.0.0.1") const {
    return concat(host, ":", port);
  }
};

ServerSecurity secured(const TlsFiles& files,
                       TlsOptions options = {.poll_ms = kPollMs, .now_s = {}, .report = {}}) {
  auto security =
      server_security({*parse_bind_address("127.0.0.1:0")}, files, false, std::move(options));
  EXPECT_TRUE(security.ok()) << security.status();
  return *security;
}

// A new connection each: nothing is shared with channels before.
std::shared_ptr<grpc::Channel> connect(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

absl::StatusOr<std::string> who_am_i(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::GetCapabilitiesResponse response;
  const grpc::Status status =
      v1::TuningService::NewStub(channel)->GetCapabilities(&context, {}, &response);
  if (!status.ok()) return from_grpc(status);
  return response.server_version();
}

absl::StatusOr<std::string> ask(const std::string& address, const TlsFiles& files) {
  const absl::StatusOr<ClientSecurity> client = client_security(address, files, false);
  if (!client.ok()) return client.status();
  return who_am_i(connect(address, client->credentials));
}

TEST(Tls, HoldersOfCertificatesGetInByTheirRole) {
  const TestServer server(secured(files_in(authority().ours / "server-main")));
  EXPECT_EQ(*ask(server.address(), files_in(authority().ours / "client-ci")), "client/ci");
  EXPECT_EQ(*ask(server.address("localhost"), files_in(authority().ours / "agent-board")),
            "agent/board");
}

TEST(Tls, ADenialReachesTheClientWithItsReason) {
  const TestServer server(secured(files_in(authority().ours / "server-main")));
  const auto client =
      client_security(server.address(), files_in(authority().ours / "agent-board"), false);
  ASSERT_TRUE(client.ok());
  const auto channel = connect(server.address(), client->credentials);
  grpc::ClientContext context;
  v1::Study study;
  const absl::Status status =
      from_grpc(v1::TuningService::NewStub(channel)->GetStudy(&context, {}, &study));
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_ROLE_DENIED) << status;
}

TEST(Tls, WhatNoTableListsIsDeniedBeforeAnyHandler) {
  const TestServer server(secured(files_in(authority().ours / "server-main")));
  const auto client =
      client_security(server.address(), files_in(authority().ours / "client-ci"), false);
  ASSERT_TRUE(client.ok());
  const auto channel = connect(server.address(), client->credentials);
  for (const char* method : {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                             "/loopwright.v1.TuningService/Unlisted", "/other.Service/Call"}) {
    grpc::ClientContext context;
    const grpc::internal::RpcMethod call(method, grpc::internal::RpcMethod::NORMAL_RPC);
    v1::GetCapabilitiesResponse response;
    const grpc::Status status =
        grpc::internal::BlockingUnaryCallImpl<google::protobuf::MessageLite,
                                              google::protobuf::MessageLite>(
            channel.get(), call, &context, v1::GetCapabilitiesRequest(), &response)
            .status();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED)
        << method << status.error_message();
  }
}

TEST(Tls, TheDaemonItselfDeniesByDefault) {
  const Scratch scratch;
  ServiceOptions options;
  options.search = false;
  const ServerSecurity security = secured(files_in(authority().ours / "server-main"));
  Daemon daemon(scratch.file, options, security.credentials);
  const auto become = [&](const std::string& who) {
    const auto client =
        client_security(daemon.server->address(), files_in(authority().ours / who), false);
    ASSERT_TRUE(client.ok()) << client.status();
    daemon.connect(client->credentials);
  };
  v1::PutRecordsRequest records;
  records.set_request_id("put");
  v1::PutRecordsResponse stored;
  const auto put = [&] {
    return Daemon::call(*daemon.schedules, &v1::ScheduleService::Stub::PutRecords, records,
                        &stored);
  };
  become("client-ci");
  std::string answer;
  for (const char* method : {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                             "/loopwright.v1.TuningService/Unlisted", "/other.Service/Call"}) {
    EXPECT_EQ(raw_call(daemon.channel, method, "", &answer).error_code(),
              grpc::StatusCode::PERMISSION_DENIED) << method;
  }
  EXPECT_TRUE(raw_call(daemon.channel, "/grpc.health.v1.Health/Check", "", &answer).ok());
  EXPECT_TRUE(put().ok()) << put();
  become("agent-board");
  EXPECT_EQ(reason_of(put()), v1::ERROR_REASON_ROLE_DENIED);
}

TEST(Tls, WithoutTheRightCertificateNobodyGetsIn) {
  const TestServer server(secured(files_in(authority().ours / "server-main")));
  // No TLS at all, and TLS without a certificate.
  EXPECT_FALSE(who_am_i(connect(server.address(), grpc::InsecureChannelCredentials())).ok());
  grpc::SslCredentialsOptions only_ca;
  only_ca.pem_root_certs = read_text(authority().ours / "ca.pem");
  EXPECT_FALSE(who_am_i(connect(server.address(), grpc::SslCredentials(only_ca))).ok());
  // A certificate of another authority, though it trusts ours; and one that trusts only its own.
  grpc::SslCredentialsOptions stranger = only_ca;
  stranger.pem_cert_chain = read_text(authority().strangers / "client-ci" / "cert.pem");
  stranger.pem_private_key = read_text(authority().strangers / "client-ci" / "key.pem");
  EXPECT_FALSE(who_am_i(connect(server.address(), grpc::SslCredentials(stranger))).ok());
  EXPECT_FALSE(ask(server.address(), files_in(authority().strangers / "client-ci")).ok());
  // A server's certificate does not call.
  grpc::SslCredentialsOptions other_use = only_ca;
  other_use.pem_cert_chain = read_text(authority().ours / "server-main" / "cert.pem");
  other_use.pem_private_key = read_text(authority().ours / "server-main" / "key.pem");
  EXPECT_FALSE(who_am_i(connect(server.address(), grpc::SslCredentials(other_use))).ok());
  // Nobody of these did any harm.
  EXPECT_TRUE(ask(server.address(), files_in(authority().ours / "client-ci")).ok());
}

TEST(Tls, AnExpiredClientIsRefusedByTheServer) {
  tls::TempFolder folder;
  const std::string made = concat(
      "cd ", folder.path.string(), " && openssl req -new -key ",
      (authority().ours / "client-ci/key.pem").string(),
      " -subj /CN=ci | openssl x509 -req -days -1 -CA ", (authority().ours / "ca.pem").string(),
      " -CAkey ", (authority().ours / "ca.key").string(),
      " -set_serial 7 -out cert.pem -extfile <(echo extendedKeyUsage=clientAuth; echo "
      "subjectAltName=URI:spiffe://loopwright/client/ci)");
  const tls::ShellResult result = tls::shell(concat("bash -c '", made, "'"));
  ASSERT_EQ(result.exit, 0) << result.output;
  const TlsFiles files{authority().ours / "ca.pem", folder.path / "cert.pem",
                       authority().ours / "client-ci" / "key.pem"};
  const TestServer server(secured(files_in(authority().ours / "server-main")));
  grpc::SslCredentialsOptions options{read_text(files.ca), read_text(files.key),
                                      read_text(files.certificate)};
  EXPECT_FALSE(who_am_i(connect(server.address(), grpc::SslCredentials(options))).ok());
  // Its own side says why before it even connects.
  const absl::Status own = ask(server.address(), files).status();
  EXPECT_EQ(own.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(own.message()), HasSubstr("expired at 20"));
}

TEST(Tls, AServerOfAnotherNameOrRoleIsNotTrusted) {
  const TestServer elsewhere(secured(files_in(authority().ours / "server-elsewhere")));
  EXPECT_FALSE(ask(elsewhere.address(), files_in(authority().ours / "client-ci")).ok());
  const TestServer stranger(secured(files_in(authority().strangers / "server-main")));
  EXPECT_FALSE(ask(stranger.address(), files_in(authority().ours / "client-ci")).ok());
  // An agent's key cannot pose as the daemon.
  const auto posing = server_security({*parse_bind_address("127.0.0.1:0")},
                                      files_in(authority().ours / "agent-board"), false);
  EXPECT_THAT(std::string(posing.status().message()), HasSubstr("not for servers"));
}

TEST(Tls, OldProtocolsAreRefused) {
  const TestServer server(secured(files_in(authority().ours / "server-main")));
  const std::string client = concat("openssl s_client -brief -connect ", server.address(),
                                    " -CAfile ", (authority().ours / "ca.pem").string(), " -cert ",
                                    (authority().ours / "client-ci/cert.pem").string(), " -key ",
                                    (authority().ours / "client-ci/key.pem").string(),
                                    " -alpn h2 -cipher DEFAULT@SECLEVEL=0 ");
  const tls::ShellResult old = tls::shell(client + "-tls1_1");
  EXPECT_THAT(old.output, Not(HasSubstr("CONNECTION ESTABLISHED"))) << old.output;
  const tls::ShellResult current = tls::shell(client + "-tls1_2");
  EXPECT_THAT(current.output, HasSubstr("CONNECTION ESTABLISHED")) << current.output;
}

// The server's folder, writable, with a copy of server-main.
struct Served {
  tls::TempFolder folder;
  TlsFiles files = files_in(folder.path);
  Served() { copy(authority().ours / "server-main"); }
  void copy(const std::filesystem::path& from) {
    for (const char* name : {"ca.pem", "cert.pem", "key.pem"}) {
      std::filesystem::copy_file(from / name, folder.path / name,
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }
};

// The serial number of the certificate that the server shows now.
std::string shown_serial(const TestServer& server) {
  return tls::shell(concat("openssl s_client -alpn h2 -connect ", server.address(), " -cert ",
                               (authority().ours / "client-ci/cert.pem").string(), " -key ",
                               (authority().ours / "client-ci/key.pem").string(),
                               " 2> /dev/null | openssl x509 -noout -serial")).output;
}

TEST(Reload, HalvesOfFilesChangeNothing) {
  Served served;
  const ServerSecurity security = secured(served.files);
  const TestServer server(security);
  const TlsFiles client = files_in(authority().ours / "client-ci");
  const std::string key = read_text(served.files.key),
                    certificate = read_text(served.files.certificate);
  const std::vector<std::pair<std::string, std::string>> damages = {
      {served.files.key, key.substr(0, key.size() / 2)},
      {served.files.certificate, certificate.substr(0, certificate.size() / 2)},
      {served.files.certificate, ""},
      {served.files.ca, "-----BEGIN CERTIFICATE-----\n"},
      {served.files.key, read_text(authority().ours / "agent-board" / "key.pem")}};
  for (const auto& [file, damaged] : damages) {
    const std::string before = read_text(file);
    write_text(file, damaged);
    EXPECT_FALSE(security.reloader->look_now().ok());
    EXPECT_FALSE(security.reloader->state().last_look.ok());
    EXPECT_TRUE(ask(server.address(), client).ok());
    write_text(file, before);
    EXPECT_TRUE(security.reloader->look_now().ok());
  }
  std::filesystem::remove(served.files.certificate);
  EXPECT_EQ(security.reloader->look_now().code(), absl::StatusCode::kNotFound);
  // Longer than gRPC's own watcher takes to look.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_TRUE(ask(server.address(), client).ok());
  EXPECT_EQ(security.reloader->state().version, 1);
}

TEST(Reload, KeyAndCertificateReplacedOneAfterTheOtherUnderLoad) {
  Served served;
  const ServerSecurity security = secured(served.files);
  const TestServer server(security);
  const std::string before = shown_serial(server);
  // A renewal with a new key in a copy of the authority's folder.
  tls::TempFolder renewed;
  std::filesystem::copy(authority().ours, renewed.path, std::filesystem::copy_options::recursive);
  Authority::make("renew", renewed.path, "server main");

  std::atomic<bool> stop{false};
  std::atomic<int> calls{0}, failures{0};
  const auto client =
      client_security(server.address(), files_in(authority().ours / "client-ci"), false);
  ASSERT_TRUE(client.ok());
  std::vector<std::thread> load;
  for (int i = 0; i < 2; ++i) {
    load.emplace_back([&, i] {             // one reconnects for each call, one stays
      const auto lasting = connect(server.address(), client->credentials);
      while (!stop) {
        const auto answer =
            who_am_i(i == 0 ? connect(server.address(), client->credentials) : lasting);
        failures += answer.ok() ? 0 : 1;
        calls += 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  std::filesystem::rename(renewed.path / "server-main/key.pem", served.files.key);
  std::this_thread::sleep_for(
      std::chrono::milliseconds(1300));  // gRPC's watcher would have seen it
  std::filesystem::rename(renewed.path / "server-main/cert.pem", served.files.certificate);
  const bool changed = eventually([&] { return shown_serial(server) != before; });
  const int at_change = calls;
  EXPECT_TRUE(eventually([&] { return calls > at_change + 50; }));
  stop = true;
  for (std::thread& thread : load) thread.join();
  EXPECT_TRUE(changed);
  EXPECT_EQ(failures, 0) << "of " << calls;
  EXPECT_EQ(security.reloader->state().version, 2);
}

TEST(Reload, AnotherAuthorityTakesOverInStepsOfABundle) {
  Served served;
  const ServerSecurity security = secured(served.files);
  const TestServer server(security);
  const TlsFiles stranger = {authority().ours / "ca.pem",
                             authority().strangers / "client-ci" / "cert.pem",
                             authority().strangers / "client-ci" / "key.pem"};
  const grpc::SslCredentialsOptions options{read_text(stranger.ca), read_text(stranger.key),
                                            read_text(stranger.certificate)};
  EXPECT_FALSE(who_am_i(connect(server.address(), grpc::SslCredentials(options))).ok());
  write_text(served.files.ca,
             read_text(authority().ours / "ca.pem") + read_text(authority().strangers / "ca.pem"));
  EXPECT_TRUE(eventually(
      [&] { return who_am_i(connect(server.address(), grpc::SslCredentials(options))).ok(); }));
  EXPECT_TRUE(ask(server.address(), files_in(authority().ours / "client-ci")).ok());
}

TEST(Reload, AClientTakesItsNewCertificate) {
  tls::TempFolder copy;
  std::filesystem::copy(authority().ours, copy.path, std::filesystem::copy_options::recursive);
  const ServerSecurity security = secured(files_in(authority().ours / "server-main"));
  auto server = std::make_unique<TestServer>(security);
  const auto client = client_security(server->address(), files_in(copy.path / "agent-board"), false,
                                      {.poll_ms = kPollMs, .now_s = {}, .report = {}});
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(*who_am_i(connect(server->address(), client->credentials)), "agent/board");
  Authority::make("renew", copy.path, "agent board");
  EXPECT_TRUE(eventually([&] { return client->reloader->state().version == 2; }));
  EXPECT_EQ(*who_am_i(connect(server->address(), client->credentials)), "agent/board");
}

TEST(Reload, LastingTroubleIsReportedOnceAndExpiryNoticed) {
  Served served;
  std::atomic<int64_t> now_s{std::chrono::duration_cast<std::chrono::seconds>(
                                 std::chrono::system_clock::now().time_since_epoch()).count()};
  std::mutex mutex;
  std::vector<std::string> reports;
  const ServerSecurity security =
      secured(served.files, {.poll_ms = 5,
                             .now_s = [&] { return now_s.load(); },
                             .report =
                                 [&](bool taken, std::string_view text) {
                                   EXPECT_FALSE(taken);
                                   const std::lock_guard<std::mutex> lock(mutex);
                                   reports.emplace_back(text);
                                 }});
  now_s += 400 * 86400;                    // past the year that certificates hold
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return !reports.empty();
  }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::lock_guard<std::mutex> lock(mutex);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_THAT(reports[0], HasSubstr("expired at"));
}

}  // namespace
}  // namespace lw
