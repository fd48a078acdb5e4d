// What lies in deploy/ is checked by deploy/check.py; here it runs, and is shown mistakes.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/message.h"
#include "src/measure/process/sandbox.h"
#include "tests/support/tls_fixture.h"

namespace lw {
namespace {

using tls::read_text;
using tls::shell;
using tls::ShellResult;
using tls::write_text;
using ::testing::HasSubstr;

const std::string kSource = LW_SOURCE_DIR;

TEST(Deploy, HoldsNoMistakeThatItsCheckerKnows) {
  const ShellResult result = shell("python3 " + kSource + "/deploy/check.py");
  EXPECT_EQ(result.exit, 0) << result.output;
  std::fputs(result.output.c_str(), stdout);
}

TEST(Deploy, TheCheckerSeesMistakes) {
  const struct {
    const char* file;
    const char* from;
    const char* to;
    const char* message;
  } mistakes[] = {
      {"compose.yaml", "- --tls-key\n      - /tls/key.pem\n", "", "serve: only some of --tls-*"},
      {"compose.yaml", "cap_drop: [ALL]", "cap_drop: []", "serve: not hardened"},
      {"compose.yaml", "- tls-board-2:/tls:ro", "- tls-board-1:/tls:ro", "tls-board-1 is shared"},
      {"compose.yaml", "loopwright@postgres/", "loopwright:secret@postgres/", "a password in --db"},
      {"compose.yaml", "?sslmode=verify-full", "?sslmode=require", "--db without verified TLS"},
      {"compose.yaml", "  mem_limit: \"${BOARD_MEMORY:-4g}\"\n", "", "no memory limit"},
      {"compose.yaml", "services:", "services: [", "compose.yaml: while parsing"},
      {"kubernetes/daemon.yaml", "containerPort: 7070", "containerPort: 7080",
       "Service: another port"},
      {"kubernetes/daemon.yaml", "minAvailable: 1", "minAvailable: 2", "no pod may ever leave"},
      {"kubernetes/daemon.yaml", "127.0.0.1:7071", "0.0.0.0:7071", "is not the loopback's"},
      {"kubernetes/agents.yaml", "- $(NODE_NAME)", "- $(NODE)", "no variable NODE"},
      {"kubernetes/agents.yaml", "image: loopwright:latest", "image: loopwrihgt:latest",
       "image loopwrihgt"},
      {"kubernetes/secrets.yaml", "password: \"\"", "password: \"x\"", "holds something"},
      {"kubernetes/network.yaml", "component: agent}", "component: agents}",
       "keeps the agents out"},
      {"Dockerfile", "USER 10001:10001", "USER root", "Dockerfile: not user 10001"},
      {"Dockerfile", "\"--db\"", "\"--database\"", "serve has no '--database'"},
      {"systemd/loopwright-serve.service", "--db ${DB}", "--db", "--db has no value"},
      {"systemd/loopwright-serve.service", "NoNewPrivileges=yes\n", "", "NoNewPrivileges"},
      {"systemd/loopwright-serve.service", "ExitStatus=1", "ExitStatus=2", "gives up restarting"},
      {"systemd/loopwright-serve.service", "StartLimitIntervalSec=0\n", "", "gives up restarting"},
      {"systemd/loopwright-agent@.service", "MemoryMax=80%\n", "", "no memory limit"},
      {"systemd/loopwright-agent@.service", " --isolation filter", "", "not shut in"},
      {"kubernetes/daemon.yaml", "\"readyz?reads\"", "readyz", "readinessProbe"},
      {"systemd/loopwright-agent@.service", "agent --server", "agents --server",
       "no command 'agents'"}};
  tls::TempFolder folder;
  std::filesystem::copy(kSource + "/deploy", folder.path / "deploy",
                        std::filesystem::copy_options::recursive);
  for (const char* file : {"packages.txt", "setup"}) {
    std::filesystem::copy(kSource + "/" + file, folder.path / file);
  }
  for (const auto& [file, from, to, message] : mistakes) {
    const std::filesystem::path path = folder.path / "deploy" / file;
    const std::string before = read_text(path);
    const size_t place = before.find(from);
    ASSERT_NE(place, std::string::npos) << file << ": " << from;
    write_text(path, std::string(before).replace(place, std::string(from).size(), to));
    const ShellResult result =
        shell("python3 " + folder.path.string() + "/deploy/check.py --quick");
    EXPECT_EQ(result.exit, 1) << file << ": " << from;
    EXPECT_THAT(result.output, HasSubstr(message)) << file << ": " << from;
    write_text(path, before);
  }
}

TEST(Deploy, TheProbeAsksTheLoopback) {
  EXPECT_EQ(shell(kSource + "/deploy/probe readyz 1").exit, 1);
  EXPECT_EQ(shell(kSource + "/deploy/probe metrics").exit, 2);
  EXPECT_EQ(shell(kSource + "/deploy/probe readyz '1;id'").exit, 2);
  EXPECT_EQ(shell(kSource + "/deploy/probe 'readyz?reads' 1").exit, 1);
  // A server of one answer, on a port that the system chooses.
  const std::string server = concat(
      "python3 -c 'import socket,subprocess,sys\n"
      "s=socket.create_server((\"127.0.0.1\",0))\n"
      "p=subprocess.Popen([sys.argv[1],\"readyz\",str(s.getsockname()[1])])\n"
      "c=s.accept()[0]; q=b\"\"\n"
      "while not q.endswith(b\"\\r\\n\\r\\n\"): q+=c.recv(999)\n"
      "c.sendall(sys.argv[2].encode()+b\"\\r\\n\\r\\n\"); c.close()\n"
      "sys.exit(p.wait())' ", kSource, "/deploy/probe ");
  EXPECT_EQ(shell(server + "'HTTP/1.1 200 OK'").exit, 0);
  EXPECT_EQ(shell(server + "'HTTP/1.1 503 Service Unavailable'").exit, 1);
}

TEST(Deploy, TheBillOfMaterialsNamesProgramAndPackages) {
  const ShellResult result =
      shell(concat(kSource, "/deploy/sbom ", LW_BINARY_DIR, "/loopwright | python3 -c '",
                   "import json, sys\n"
                   "sbom = json.load(sys.stdin)\n"
                   "names = {one[\"name\"]: one for one in sbom[\"packages\"]}\n"
                   "assert len({one[\"SPDXID\"] for one in sbom[\"packages\"]}) == len(names)\n"
                   "print(len(names[\"loopwright\"][\"checksums\"][0][\"checksumValue\"]),"
                   " any(one.startswith(\"libssl3\") for one in names))'"));
  EXPECT_EQ(result.exit, 0) << result.output;
  EXPECT_EQ(result.output, "64 True\n");
}

TEST(Deploy, TheUnitsCommandLinesServeAndStop) {
  const std::string binary = std::string(LW_BINARY_DIR) + "/loopwright";
  const std::pair<const char*, const char*> commands[] = {{" serve", "--listen"},
                                                          {" agent", "--server"}};
  for (const auto& [command, option] : commands) {
    EXPECT_NE(shell(binary + command + " --help").output.find(option), std::string::npos) << command;
  }
  const std::string isolation = kSanitized ? " --isolation none" : "";  // no filter works with them
  const ShellResult result =
      shell("python3 " + kSource + "/deploy/check.py --run " + binary + isolation);
  EXPECT_EQ(result.exit, 0) << result.output;
}

}  // namespace
}  // namespace lw
