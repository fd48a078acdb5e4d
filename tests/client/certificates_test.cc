// Addresses, certificate files and the script that makes them: every mistake is named.
#include <sys/stat.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/net/address.h"
#include "src/net/certificates.h"
#include "src/net/tls.h"
#include "tests/support/tls_fixture.h"

namespace lw {
namespace {

using tls::certificates;
using tls::files_in;
using tls::read_text;
using tls::write_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

int64_t now_s() { return unix_ms() / 1000; }

std::string message(const absl::Status& status) { return std::string(status.message()); }

TEST(Address, LoopbackIsDecidedByWhatTheHostIs) {
  for (const char* text : {"127.0.0.1:7070", "127.9.8.7:0", "127.1:7070", "[::1]:7070",
                           "localhost:7070", "[::ffff:127.0.0.1]:7070", "0x7f000001:7070",
                           "unix:/run/loopwright.sock", "unix:///run/loopwright.sock"}) {
    const auto address = parse_bind_address(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_TRUE(address->loopback) << text;
  }
  for (const char* text :
       {"0.0.0.0:7070", "[::]:7070", ":7070", "0:7070", "10.0.0.1:7070", "192.168.127.1:7070",
        "[::ffff:10.0.0.1]:7070", "[fe80::1]:7070", "126.255.255.255:1", "128.0.0.1:1"}) {
    const auto address = parse_bind_address(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_FALSE(address->loopback) << text;
  }
}

TEST(Address, WhatIsBoundIsNumeric) {
  EXPECT_THAT(parse_bind_address("127.1:7070")->numeric, ElementsAre("127.0.0.1:7070"));
  EXPECT_THAT(parse_bind_address("[0:0::1]:0")->numeric, ElementsAre("[::1]:0"));
  EXPECT_THAT(parse_bind_address(":7070")->numeric, ElementsAre("[::]:7070"));
  EXPECT_THAT(parse_bind_address("unix:run/x")->numeric, ElementsAre("unix:run/x"));
  EXPECT_EQ(parse_bind_address("localhost:0")->numeric.size(), 1u);
  EXPECT_EQ(parse_bind_address("[::1]:65535")->port, 65535);
}

TEST(Address, EveryMistakeIsNamed) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "no ':PORT'"},
      {"localhost", "no ':PORT'"},
      {"127.0.0.1:", "'' is no port"},
      {"127.0.0.1:65536", "port 65536 is above"},
      {"127.0.0.1:x", "'x' is no port"},
      {"127.0.0.1:-1", "'-1' is no port"},
      {"127.0.0.1:999999", "is no port"},
      {"::1:7070", "brackets"},
      {"[::1]", "no ':PORT'"},
      {"[::1", "no ']'"},
      {"[]:1", "nothing between"},
      {"[::1]x:1", "no ':PORT'"},
      {"256.0.0.1:1", "cannot be resolved"},
      {"no-such-host.invalid:1", "cannot be resolved"},
      {"unix:", "no path"},
      {"unix:" + std::string(120, 'x'), "bytes"},
      {std::string(300, 'a') + ":1", "longer"},
      {std::string("127.0.0.1\0.evil:1", 17), "NUL"}};
  for (const auto& [text, expected] : cases) {
    const absl::Status status = parse_bind_address(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(message(status), HasSubstr(expected));
  }
}

TEST(Security, AnAddressOthersReachNeedsTlsOrTheExplicitWish) {
  const BindAddress loopback = *parse_bind_address("127.0.0.1:0");
  const BindAddress open = *parse_bind_address("0.0.0.0:7070");
  EXPECT_EQ(server_security({loopback}, {}, false)->exposes, "");
  const absl::Status refused = server_security({loopback, open}, {}, false).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(refused), HasSubstr("0.0.0.0:7070 is reached from other machines"));
  const auto exposed = server_security({loopback, open}, {}, true);
  EXPECT_THAT(exposed->exposes, HasSubstr("0.0.0.0:7070 serves without TLS"));
  EXPECT_THAT(exposed->exposes, HasSubstr("have kernels compiled and run"));
  EXPECT_EQ(exposed->exposes.find("127.0.0.1"), std::string::npos);
  const absl::Status incomplete = server_security({open}, {"ca", "cert", ""}, false).status();
  EXPECT_THAT(message(incomplete), HasSubstr("--tls-key is missing"));
  EXPECT_THAT(message(server_security({open}, {"ca", "cert", "key"}, true).status()),
              HasSubstr("contradict"));

  EXPECT_EQ(*http_exposure(loopback, false), "");
  EXPECT_FALSE(http_exposure(open, false).ok());
  EXPECT_THAT(*http_exposure(open, true), HasSubstr("http://0.0.0.0:7070"));

  EXPECT_TRUE(client_security("localhost:7070", {}, false)->warning.empty());
  EXPECT_THAT(message(client_security("10.0.0.1:7070", {}, false).status()),
              HasSubstr("is another machine"));
  EXPECT_FALSE(client_security("10.0.0.1:7070", {}, true)->warning.empty());
}

class Files : public ::testing::Test {
 protected:
  // Made once; each test gets a copy.
  static const tls::TempFolder& master() {
    static const tls::TempFolder folder;
    static const bool made = [] {
      for (const char* words : {"ca ours", "ca others", "issue ours server main --host localhost",
                                "issue ours agent board"}) {
        make_in(folder, words);
      }
      return true;
    }();
    EXPECT_TRUE(made);
    return folder;
  }
  static void make_in(const tls::TempFolder& folder, const std::string& words) {
    const auto result = tls::shell(concat("cd ", folder.path.string(), " && ", LW_SOURCE_DIR,
                                              "/deploy/certificates ", words));
    ASSERT_EQ(result.exit, 0) << result.output;
  }
  void SetUp() override {
    std::filesystem::copy(master().path, folder_.path,
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  }
  void make(const std::string& words) { make_in(folder_, words); }
  absl::Status load(TlsFiles files, TlsSide side = TlsSide::kServer, int64_t later_s = 0) {
    return load_tls_material(files, side, now_s() + later_s).status();
  }
  void expect(const TlsFiles& files, absl::StatusCode code, const std::string& words,
              TlsSide side = TlsSide::kServer, int64_t later_s = 0) {
    const absl::Status status = load(files, side, later_s);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(message(status), HasSubstr(words));
  }

  tls::TempFolder folder_;
  std::filesystem::path ours_ = folder_.path / "ours";
  TlsFiles server_ = files_in(ours_ / "server-main");
  TlsFiles agent_ = files_in(ours_ / "agent-board");
};

TEST_F(Files, GoodOnesAreDescribed) {
  const auto material = load_tls_material(server_, TlsSide::kServer, now_s());
  ASSERT_TRUE(material.ok()) << material.status();
  EXPECT_EQ(material->uri, "spiffe://loopwright/server/main");
  EXPECT_THAT(material->subject, HasSubstr("CN=main"));
  EXPECT_NEAR(static_cast<double>(material->not_after_s - now_s()), 30 * 86400, 3600);
  EXPECT_TRUE(load(agent_, TlsSide::kClient).ok());
}

TEST_F(Files, EveryMistakeIsNamed) {
  using absl::StatusCode;
  TlsFiles files = server_;
  files.certificate = ours_ / "none.pem";
  expect(files, StatusCode::kNotFound, "none.pem: No such file");
  files.certificate = ours_;
  expect(files, StatusCode::kInvalidArgument, "ours: not a file");
  files = server_;
  files.key = agent_.key;
  expect(files, StatusCode::kFailedPrecondition, "not the key of the certificate in");
  files.key = server_.certificate;
  expect(files, StatusCode::kInvalidArgument, "holds no complete private key");
  files = server_;
  files.certificate = server_.key;
  expect(files, StatusCode::kInvalidArgument, "holds no complete certificate");
  files = server_;
  files.ca = server_.key;
  expect(files, StatusCode::kInvalidArgument, "holds no complete certificate");
  files.ca = folder_.path / "others" / "ca.pem";
  expect(files, StatusCode::kFailedPrecondition, "was not signed by the authority in");
  expect(agent_, StatusCode::kFailedPrecondition, "is not for servers");
  expect(server_, StatusCode::kFailedPrecondition, "is not for clients", TlsSide::kClient);
  expect(server_, StatusCode::kFailedPrecondition,
         concat("expired at ", utc_text(now_s() + 30 * 86400).substr(0, 8)), TlsSide::kServer,
         31 * 86400);
  expect(server_, StatusCode::kFailedPrecondition, "is not valid before 20", TlsSide::kServer,
         -86400);

  write_text(ours_ / "big.pem", std::string((1 << 20) + 1, 'x'));
  files = server_;
  files.key = ours_ / "big.pem";
  expect(files, StatusCode::kInvalidArgument, "above 1 MiB");
  ASSERT_EQ(tls::shell(concat("openssl ec -aes128 -passout pass:secret -in ", server_.key,
                                  " -out ", (ours_ / "locked.pem").string()))
                .exit,
            0);
  files.key = ours_ / "locked.pem";
  expect(files, StatusCode::kInvalidArgument, "the key is encrypted");
}

TEST_F(Files, EveryPrefixOfAFileIsRefused) {
  const std::string certificate = read_text(server_.certificate), key = read_text(server_.key);
  TlsFiles files = server_;
  files.certificate = ours_ / "half.pem";
  for (size_t size = 0; size + 2 < certificate.size(); size += 31) {
    write_text(files.certificate, certificate.substr(0, size));
    EXPECT_FALSE(load(files).ok()) << size;
  }
  files = server_;
  files.key = ours_ / "half.pem";
  for (size_t size = 0; size + 2 < key.size(); size += 7) {
    write_text(files.key, key.substr(0, size));
    EXPECT_FALSE(load(files).ok()) << size;
  }
}

TEST_F(Files, TheScriptKeepsKeysPrivateAndNeverOverwrites) {
  for (const char* name : {"ca.key", "server-main/key.pem", "agent-board/key.pem"}) {
    struct stat status {};
    ASSERT_EQ(stat((ours_ / name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 0777u, 0600u) << name;
  }
  const std::string key = read_text(server_.key);
  const std::string ours = ours_.string();
  const std::pair<std::string, const char*> refused[] = {
      {"ca " + ours, "holds an authority already"},
      {"issue " + ours + " server main --host localhost", "exists; renew it"},
      {"issue " + ours + " root x", "role 'root' is not one of"},
      {"issue " + ours + " client ../x", "name '../x'"},
      {"issue " + ours + " client -x", "name '-x'"},
      {"issue " + ours + " server other", "needs --host"},
      {"issue " + ours + " client x --host y", "--host is for servers"},
      {"issue " + ours + " server y --host 'a,DNS.1'", "is no host name"},
      {"issue " + ours + " server y --host 'a:,URI:spiffe://loopwright/admin/z'", "is no address"},
      {"issue " + ours + " client x --days 0", "--days wants"},
      {"issue " + ours + "/none client x", "no authority in"},
      {"renew " + ours + " client nobody", "no certificate in"},
      {"issue " + ours + " client x --daze 3", "unknown option --daze"},
      {"issue " + ours, "deploy/certificates issue DIR ROLE NAME"}};
  for (const auto& [words, expected] : refused) {
    const tls::ShellResult result = certificates(words);
    EXPECT_NE(result.exit, 0) << words;
    EXPECT_THAT(result.output, HasSubstr(expected)) << words;
  }
  EXPECT_EQ(read_text(server_.key), key);
}

TEST_F(Files, RenewingKeepsNameAndHostsAndChangesTheKey) {
  const std::string key = read_text(server_.key);
  const auto names = [&] {
    return tls::shell("openssl x509 -noout -ext subjectAltName -in " + server_.certificate)
        .output;
  };
  const std::string before = names();
  make("renew ours server main --days 10");
  EXPECT_NE(read_text(server_.key), key);
  EXPECT_EQ(names(), before);
  const auto material = load_tls_material(server_, TlsSide::kServer, now_s());
  ASSERT_TRUE(material.ok()) << material.status();
  EXPECT_LT(material->not_after_s, now_s() + 11 * 86400);
}

TEST_F(Files, RenewingKeepsOwnerAndMode) {
  const std::string folder = std::filesystem::path(server_.key).parent_path();
  ASSERT_EQ(chmod(server_.key.c_str(), 0640), 0);
  const auto as_before = [&](const std::string& file, mode_t mode, uid_t owner) {
    struct stat status {};
    EXPECT_EQ(stat(file.c_str(), &status), 0) << file;
    EXPECT_EQ(status.st_mode & 0777u, mode) << file;
    EXPECT_EQ(status.st_uid, owner) << file;
  };
  make("renew ours server main");
  as_before(server_.key, 0640, geteuid());
  if (geteuid() != 0) GTEST_SKIP() << "[SKIP] another owner can be given by root alone";
  constexpr uid_t kNobody = 65534;
  for (const std::string& file : {server_.ca, server_.certificate, server_.key}) {
    ASSERT_EQ(chown(file.c_str(), kNobody, kNobody), 0);
  }
  make("renew ours server main");
  as_before(server_.key, 0640, kNobody);
  as_before(server_.certificate, 0644, kNobody);
  as_before(server_.ca, 0644, kNobody);
}

TEST_F(Files, EnsuringIssuesRenewsOrLeaves) {
  make("ensure ours server timer --host localhost --days 12");
  const std::string file = ours_ / "server-timer" / "cert.pem";
  const std::string issued = read_text(file);
  make("ensure ours server timer --host localhost");
  EXPECT_EQ(read_text(file), issued);      // it holds longer than ten days
  make("ensure ours server timer --host localhost --within 20");
  EXPECT_NE(read_text(file), issued);
  const auto material =
      load_tls_material(files_in(ours_ / "server-timer"), TlsSide::kServer, now_s());
  ASSERT_TRUE(material.ok()) << material.status();
  EXPECT_EQ(material->uri, "spiffe://loopwright/server/timer");
  EXPECT_THAT(certificates("ensure " + ours_.string() + " client x --within soon").output,
              HasSubstr("--within wants"));
}

}  // namespace
}  // namespace lw
