// The commands that ask a service, as a user runs them: against a daemon process and an agent with
// a device that only pretends to measure.
#include <chrono>
#include <set>
#include <thread>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "httplib.h"
#include "src/base/message.h"
#include "src/serve/core/metrics.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr char kWorkload[] = "matmul M=64 N=64 K=64 --target x86_avx2 --threads 1";

// One daemon and one agent for all tests: their starts cost more than what they are asked.
class CliServiceTest : public CliTest {
 protected:
  static void SetUpTestSuite() {
    std::string pattern = testing::TempDir() + "loopwright_service_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    service_ = new std::string(pattern);
    daemon_ = spawn("serve", {"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--db",
                              *service_ + "/service.db", "--json"});
    json address;
    for (int i = 0; i < 500 && !address.is_object(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      address = json::parse(slurp(*service_ + "/serve.out"), nullptr, false);
    }
    ASSERT_TRUE(address.is_object()) << slurp(*service_ + "/serve.err");
    server_ = new std::string(address["listen"]);
    http_ = new std::string(address["http"]);
    agent_ = spawn("agent", {"agent", "--server", *server_, "--device", "null:one,target=x86_avx2",
                             "--state", *service_ + "/state", "--name", "lab", "--label", "rack",
                             "r2"});
  }
  static void TearDownTestSuite() {
    for (pid_t child : {agent_, daemon_}) {
      if (child <= 0) continue;
      kill(child, SIGTERM);
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    std::filesystem::remove_all(*service_);
    delete service_;
    delete server_;
    delete http_;
  }

  // Output to NAME.out and NAME.err of the service's folder.
  static pid_t spawn(const std::string& name, const std::vector<std::string>& words) {
    std::vector<std::string> all = command(words);
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    const std::string out = *service_ + "/" + name + ".out", err = *service_ + "/" + name + ".err";
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), flags, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), flags, 0600);
    pid_t child = -1;
    EXPECT_EQ(posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return child;
  }

  // The command with --server.
  CliRun ask(const std::string& words) const { return cli(words + " --server " + *server_); }
  json ask_json(const std::string& words) const {
    const CliRun run = ask(words + " --json");
    EXPECT_EQ(run.code, 0) << words << "\n" << run.out << run.err;
    return run.json();
  }
  // With an option's value that has blanks.
  CliRun ask_with(const std::string& words, const std::vector<std::string>& more) const {
    std::istringstream pieces(words);
    std::vector<std::string> all;
    for (std::string piece; pieces >> piece;) all.push_back(piece);
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), {"--server", *server_});
    return program(command(all));
  }

  // The device, once its agent has said hello.
  std::string device() const {
    for (int i = 0; i < 100; ++i) {
      const json all = ask_json("devices");
      if (!all["devices"].empty()) return all["devices"][0]["device"]["name"];
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "no device came\n" << slurp(*service_ + "/agent.err");
    return "";
  }
  // Something to look up; the same study for all tests.
  std::string study() const {
    device();
    const CliRun run = ask(std::string("submit --trials 12 --request-id cli-service-test ") +
                           kWorkload + " --json");
    EXPECT_EQ(run.code, 0) << run.err;
    const std::string name = run.json()["study"];
    const CliRun end = ask("watch " + name);
    EXPECT_EQ(end.code, 0) << end.out << end.err;
    return name;
  }

  static inline std::string *service_ = nullptr, *server_ = nullptr, *http_ = nullptr;
  static inline pid_t daemon_ = -1, agent_ = -1;
};

TEST_F(CliServiceTest, ASuitesOddCasesAreRefusedByNameAndTheOthersSubmitted) {
  device();
  write("spoilt.json", R"({"workloads": [
    {"name": "fine", "words": "matmul M=32 N=32 K=32"},
    {"name": "unknown", "words": "matmull M=24"},
    {"name": "impossible", "words": "conv2d H=3 W=3 R=9 S=9 pad=0"},
    {"name": "fine", "words": "matmul M=8 N=8 K=8"}]})");
  const std::string submit = "submit --json --trials 4 --target x86_avx2 --threads 1 --suite " +
                             path("spoilt.json");
  const CliRun run = ask(submit);
  EXPECT_EQ(run.code, 1) << run.err;
  const json result = run.json();
  ASSERT_EQ(result["refused"].size(), 3u) << result;
  for (const char* name : {"fine", "unknown", "impossible"})
    EXPECT_THAT(run.err, HasSubstr(std::string("refused: ") + name + ": "));
  const CliRun end = ask("watch --json " + std::string(result["study"]));
  EXPECT_EQ(end.code, 0) << end.err;
  const json workloads = end.json()["spec"]["workloads"];
  ASSERT_EQ(workloads.size(), 1u) << end.out;
  EXPECT_EQ(workloads[0]["name"], "fine");
  const CliRun nothing = ask(submit + " unknown impossible");
  EXPECT_EQ(nothing.code, 1);
  EXPECT_THAT(nothing.err, HasSubstr("impossible: "));
}

TEST_F(CliServiceTest, DevicesAreListedDrainedResumedAndQuarantined) {
  const std::string name = device();
  const CliRun table = ask("devices");
  EXPECT_THAT(table.out, HasSubstr(name));
  EXPECT_THAT(table.out, HasSubstr("x86_avx2"));
  EXPECT_THAT(ask("devices --format csv").out, StartsWith("device,target,state,health"));
  EXPECT_EQ(ask_with("devices drain " + name, {"--reason", "new fan"}).code, 0);
  json one = ask_json("devices")["devices"][0];
  EXPECT_EQ(one["admission"], "DEVICE_ADMISSION_DRAINING");
  EXPECT_EQ(one["reason"], "new fan");
  EXPECT_EQ(ask_json("devices resume --label rack=r2")["devices"][0], name);
  EXPECT_EQ(ask("devices quarantine " + name + " --reason sparks").code, 0);
  EXPECT_THAT(ask("devices").out, HasSubstr("quarantined"));
  EXPECT_THAT(ask("devices").out, HasSubstr("sparks"));
  const std::string again = "devices resume " + name + " --request-id resume-1 --json";
  EXPECT_EQ(ask(again).out, ask(again).out);
  one = ask_json("devices")["devices"][0];
  EXPECT_EQ(one["admission"], "DEVICE_ADMISSION_OPEN");

  EXPECT_EQ(ask("devices drain").code, 1);
  EXPECT_EQ(ask("devices drain nowhere").code, 2);
  EXPECT_EQ(ask("devices drain --label rack").code, 1);
  EXPECT_EQ(ask("devices quarantine " + name).code, 1);     // why?
  const CliRun reused = ask("devices drain nowhere --request-id resume-1");
  EXPECT_NE(reused.code, 0);
  EXPECT_THAT(reused.err, HasSubstr("resume-1"));
}

TEST_F(CliServiceTest, AgentsJobsAuditAndTopShowTheService) {
  const std::string name = study();
  const json agents = ask_json("agents");
  EXPECT_EQ(agents["agents"][0]["name"], "agents/lab");
  EXPECT_EQ(agents["agents"][0]["labels"]["rack"], "r2");
  EXPECT_THAT(ask("agents").out, HasSubstr("rack=r2"));

  const CliRun done =
      ask_with("jobs --json", {"--filter", "state = DONE AND study = \"" + name + "\""});
  ASSERT_EQ(done.code, 0) << done.err;
  ASSERT_FALSE(done.json()["jobs"].empty());
  const std::string job = done.json()["jobs"][0]["name"];
  EXPECT_THAT(ask("jobs --most 1").out, HasSubstr("jobs/"));
  EXPECT_EQ(ask_with("jobs", {"--filter", "state = "}).code, 1);
  EXPECT_EQ(ask_with("jobs", {"--filter", "colour = RED"}).code, 1);
  EXPECT_EQ(ask("jobs requeue " + job).code, 1);            // it is done
  EXPECT_EQ(ask("jobs requeue 999999").code, 2);

  EXPECT_EQ(ask("studies nothing-of-the-kind").code, 2);
  EXPECT_EQ(ask("watch nothing-of-the-kind").code, 2);
  bool audited = false;
  for (int i = 0; i < 50 && !audited; ++i) {                // written behind
    audited = ask("audit").out.find("CreateStudy") != std::string::npos;
  }
  EXPECT_TRUE(audited) << ask("audit").out;
  EXPECT_THAT(ask("top --once").out, HasSubstr("x86_avx2"));
  EXPECT_TRUE(ask_json("top --once")["devices"].is_array());
}

TEST_F(CliServiceTest, LookupsHistoryAndSchedulesAnswer) {
  study();
  const json found = ask_json(std::string("lookup ") + kWorkload)["results"][0];
  EXPECT_EQ(found["outcome"], "LOOKUP_OUTCOME_EXACT");
  EXPECT_EQ(found["record_digest"].get<std::string>().size(), 64u);
  EXPECT_THAT(ask(std::string("lookup ") + kWorkload).out, HasSubstr("exact"));
  EXPECT_EQ(ask(std::string("lookup --frozen ") + kWorkload).code, 0);

  const std::string other = "lookup matmul M=96 N=64 K=64 --target x86_avx2 --threads 1";
  EXPECT_EQ(ask_json(other)["results"][0]["outcome"], "LOOKUP_OUTCOME_NEAREST_SHAPE");
  const CliRun missed = ask(other + " --frozen");
  EXPECT_EQ(missed.code, 2);
  EXPECT_THAT(missed.out, HasSubstr("matmul M=96"));        // what to tune
  EXPECT_EQ(ask(other + " --worst exact").code, 2);
  EXPECT_EQ(ask(other + " --worst best").code, 1);
  EXPECT_EQ(ask("lookup nonsense").code, 1);

  const json history = ask_json(std::string("history ") + kWorkload);
  EXPECT_GE(history["measurements"].size(), 12u);
  EXPECT_THAT(ask(std::string("history --most 3 ") + kWorkload).out, HasSubstr("ok"));
  EXPECT_EQ(ask("history matmul M=31 N=64 K=64 --target x86_avx2 --threads 1").code, 2);

  EXPECT_EQ(ask_json("schedules --search matmul")["schedules"][0]["target_name"], "x86_avx2");
  EXPECT_TRUE(ask_json("schedules --search nothing")["schedules"].empty());
}

TEST_F(CliServiceTest, RecordsTravelBothWays) {
  study();
  const CliRun all = ask("records export");
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_GE(std::count(all.out.begin(), all.out.end(), '\n'), 12);
  const int best = ask_json("records export --best -o " + path("best.jsonl"))["records"];
  EXPECT_EQ(best, ask_json("schedules")["schedules"].size());    // one for each workload
  write("all.jsonl", all.out);
  EXPECT_EQ(cli("db import all.jsonl --db other.db").code, 0);
  EXPECT_THAT(cli("db check --db other.db").out, HasSubstr("no defects"));
  EXPECT_EQ(cli("db export --db other.db -o back.jsonl").code, 0);

  const json imported = ask_json("records import " + path("back.jsonl"));
  EXPECT_EQ(imported["stored"], 0);                         // all are there
  EXPECT_GE(imported["read"], 12);
  EXPECT_EQ(ask("records import --dry-run " + path("back.jsonl")).code, 0);
  const std::string put = "records put " + path("best.jsonl") + " --request-id put-1 --json";
  EXPECT_EQ(ask(put).out, ask(put).out);
  write("bad.jsonl", "{\"key\": 7}\n");
  const CliRun bad = ask("records import " + path("bad.jsonl"));
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("line 1"));
  EXPECT_EQ(ask("records put " + path("none.jsonl")).code, 1);

  // Of a version that this one has not heard of: left out with the reason, or refused.
  const std::string one = all.out.substr(0, all.out.find('\n') + 1);
  const std::string field = "{\"tenant\":\"a\"," + one.substr(1);
  std::string step = one;
  step.replace(step.find("\"trace\":\""), 9, "\"trace\":\"tile_again(C; 4)\\n");
  write("newer.jsonl", field + step + one);
  for (const std::string& words : {"records import --json newer.jsonl --server " + *server_,
                                   std::string("db import --json newer.jsonl --db third.db")}) {
    const CliRun run = cli(words);
    EXPECT_EQ(run.code, 1) << words << run.err;
    EXPECT_EQ(run.json()["skipped"], 2) << words;
    ASSERT_EQ(run.json()["reasons"].size(), 2u) << words << run.out;
    EXPECT_THAT(run.json()["reasons"][0]["reason"].get<std::string>(), HasSubstr("tenant"));
    EXPECT_THAT(run.json()["reasons"][1]["reason"].get<std::string>(), HasSubstr("tile_again"));
    const CliRun strict = cli(words + " --strict");
    EXPECT_EQ(strict.code, 1);
    EXPECT_THAT(strict.err, HasSubstr("tenant"));
  }
  EXPECT_EQ(cli("db stats --json --db third.db").json()["measurements"], 1);
  EXPECT_THAT(cli("db import newer.jsonl --db third.db").out, HasSubstr("2 records left out"));
  EXPECT_EQ(ask("records export -o /nowhere/file").code, 5);
}

TEST_F(CliServiceTest, WithdrawnRecordsAreGivenToNobody) {
  study();
  const std::string lookup = std::string("lookup ") + kWorkload;
  const std::string before = ask_json(lookup)["results"][0]["record_digest"];
  EXPECT_EQ(ask(std::string("records withdraw ") + kWorkload).code, 1);  // why?
  const CliRun out = ask_with(std::string("records withdraw --json ") + kWorkload,
                              {"--reason", "wrong on odd inputs", "--evidence", "max error 7"});
  ASSERT_EQ(out.code, 0) << out.err;
  EXPECT_EQ(out.json()["digest"], before);
  EXPECT_NE(ask_json(lookup)["results"][0]["record_digest"], before);
  EXPECT_THAT(ask("records export --best").out, Not(HasSubstr("max error")));
  EXPECT_THAT(ask("records withdrawn").out, HasSubstr("wrong on odd inputs"));
  EXPECT_EQ(ask("records restore 0000").code, 2);
  EXPECT_EQ(ask("records restore " + before.substr(0, 12)).code, 0);
  EXPECT_EQ(ask_json(lookup)["results"][0]["record_digest"], before);
  EXPECT_TRUE(ask_json("records withdrawn")["withdrawn"].empty());

  // The same through the file, while the daemon serves it: it notices.
  const std::string db = " --db " + *service_ + "/service.db";
  std::string key;
  for (const json& row : cli("db ls --json" + db).json()) {
    if (std::string(row["workload"]).starts_with("matmul M=64")) key = row["canonical_sha256"];
  }
  const json measured = cli("db show --json " + key + db).json();
  const std::string trace = ask_json(lookup)["results"][0]["measurement"]["trace"];
  std::string id;
  for (const json& m : measured) {
    if (m["trace"] == trace) id = std::to_string(m["id"].get<int64_t>());
  }
  EXPECT_EQ(cli("db withdraw " + id + " --reason wrong" + db).code, 0);
  EXPECT_EQ(cli("db withdraw 999999 --reason wrong" + db).code, 2);
  EXPECT_THAT(cli("db withdrawn" + db).out, HasSubstr(before.substr(0, 12)));
  EXPECT_NE(cli("best --json " + std::string(kWorkload) + db).json()["trace"], trace);
  bool noticed = false;
  for (int i = 0; i < 50 && !noticed; ++i) {
    noticed = ask_json(lookup)["results"][0]["record_digest"] != before;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(noticed);
  EXPECT_EQ(cli("db restore-record " + before.substr(0, 12) + db).code, 0);
  EXPECT_EQ(cli("db restore-record " + before.substr(0, 12) + db).code, 2);
}

TEST_F(CliServiceTest, BackupsAreDatabases) {
  study();
  const json made = ask_json("backup --request-id backup-1");
  EXPECT_EQ(ask_json("backup --request-id backup-1")["file"], made["file"]);
  const std::string file = *service_ + "/" + made["file"].get<std::string>();
  EXPECT_THAT(cli("db check --db " + file).out, HasSubstr("no defects"));
  const json stats = cli("db stats --json --db " + file).json();
  EXPECT_GE(stats["studies"], 1);
  EXPECT_EQ(stats["devices"], 1);
  EXPECT_EQ(cli("db restore " + file + " --db new.db").code, 0);
  EXPECT_EQ(cli("db restore " + file + " --db new.db").code, 1);         // not empty
  EXPECT_EQ(cli("db restore " + file + " --db new.db --force").code, 0);
  EXPECT_EQ(cli("db restore none.db --db newer.db").code, 1);
  EXPECT_EQ(cli("db backup --db new.db -o copy.db").code, 0);
  EXPECT_EQ(cli("db backup --db new.db -o new.db").code, 1);
  EXPECT_THAT(cli("db check --db copy.db").out, HasSubstr("no defects"));
  EXPECT_EQ(cli("db ls --db postgres:///none?host=/nowhere").code, 5);
  for (const char* words : {"db ls", "serve", "tune matmul M=4 N=4 K=4"}) {
    const CliRun unknown = cli(std::string(words) + " --db mysql://me:secret@there/x");
    EXPECT_EQ(unknown.code, 1) << words << unknown.err;
    EXPECT_THAT(unknown.err, HasSubstr("the scheme 'mysql' is unknown"));
    EXPECT_THAT(unknown.err, Not(HasSubstr("secret")));
  }
}

TEST_F(CliServiceTest, EndedStudiesAreDeletedOthersAreNamed) {
  device();
  const auto submit = [&](const std::string& target) {
    return ask_json("submit --trials 4 --threads 1 matmul M=40 N=40 K=40 --target " + target)
        ["study"].get<std::string>();
  };
  const std::string first = submit("x86_avx2"), second = submit("x86_avx2");
  for (const std::string& name : {first, second}) EXPECT_EQ(ask("watch " + name).code, 0);
  const std::string waits = submit("devices/elsewhere");
  const CliRun refused = ask("delete " + waits);
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr(waits + ": "));
  EXPECT_THAT(refused.err, HasSubstr("loopwright cancel"));
  const CliRun run = ask("delete --json " + first + " " + waits + " " + second.substr(8));
  EXPECT_EQ(run.code, 1) << run.err;
  EXPECT_EQ(run.json()["deleted"], json({first, second})) << "the others go";
  EXPECT_EQ(run.json()["refused"][0]["name"], waits);
  EXPECT_EQ(ask("studies " + first).code, 2);
  const CliRun watched = ask("watch " + first);
  EXPECT_EQ(watched.code, 2) << watched.err;
  EXPECT_THAT(watched.err, Not(HasSubstr("to go on"))) << "there is nothing to wait for";
  EXPECT_EQ(ask("cancel " + waits).code, 0);
  EXPECT_EQ(ask("delete " + waits).code, 0);
  EXPECT_EQ(ask("lookup --worst exact matmul M=40 N=40 K=40 --target x86_avx2 --threads 1").code, 0)
      << "what was measured stays";
}

// The same that a daemon does by itself, on a database without one.
TEST_F(CliServiceTest, PruneForgetsWhatADaemonWouldWithAndWithoutADaemon) {
  study();
  const json made = ask_json("backup");
  const std::string file = *service_ + "/" + made["file"].get<std::string>();
  const json before = cli("db stats --json --db " + file).json();
  const std::string all = "db prune --json --audit-days 1e-9 --orphan-days 1e-9 --payload-days "
                          "1e-9 --event-days 1e-9 --device-days 1e-9 --db " + file;
  const json announced = cli(all + " --dry-run").json();
  EXPECT_EQ(cli("db stats --json --db " + file).json(), before) << "a dry run changes nothing";
  EXPECT_EQ(announced["pruned"], 0);
  for (const char* what : {"audit", "payloads", "events", "devices", "agents"}) {
    EXPECT_GT(announced["forgotten"].value(what, 0), 0) << what;
  }
  json gone = cli(all).json();
  EXPECT_EQ(gone["forgotten"], announced["forgotten"]);
  const json after = cli("db stats --json --db " + file).json();
  EXPECT_EQ(after["measurements"], before["measurements"]);
  EXPECT_EQ(after["studies"].get<int>() + gone["forgotten"].value("studies", 0), before["studies"])
      << "but for those that somebody has just deleted";
  EXPECT_EQ(after["audit"], 0);
  EXPECT_EQ(after["devices"], 0);
  EXPECT_LT(after["bytes"], before["bytes"]) << "the room is given back";
  EXPECT_THAT(cli("db check --db " + file).out, HasSubstr("no defects"));
  const CliRun studies = cli("db prune --study-days 1e-9 --db " + file);
  EXPECT_THAT(studies.out, HasSubstr(" studies deleted"));
  EXPECT_THAT(studies.out, Not(HasSubstr("measurements")));
  EXPECT_EQ(cli("db stats --json --db " + file).json()["studies"], 0);
  EXPECT_THAT(cli("db check --db " + file).out, HasSubstr("no defects"));
  EXPECT_THAT(cli("db prune --keep 1 --days 0 --dry-run --db " + file).out,
              HasSubstr("measurements would be deleted"));
  EXPECT_EQ(cli("db prune --audit-days 1e-9 --db none.db").code, 2);
  EXPECT_EQ(cli("db prune --audit-day 1 --db " + file).code, 1);
}

TEST_F(CliServiceTest, MetricsCountWhatHappened) {
  study();
  const std::string host = http_->substr(0, http_->find_last_not_of('/') + 1);
  httplib::Client client(host);
  httplib::Result result = client.Get("/metrics");
  ASSERT_TRUE(result);
  const auto value = [&](const std::string& name) {
    const size_t at = result->body.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::atof(result->body.c_str() + at + name.size() + 2);
  };
  EXPECT_GT(value("loopwright_commit_operations_count"), 0) << result->body;
  // The daemon tidies up as it likes, which empties the log until the next write; and it looks at
  // its size once a second, however often it is asked.
  EXPECT_TRUE(eventually([&] {
    if (value("loopwright_wal_bytes") > 0) return true;
    EXPECT_EQ(ask("devices resume " + device()).code, 0);
    result = client.Get("/metrics");
    return result && value("loopwright_wal_bytes") > 0;
  })) << (result ? result->body : "no answer");
  ASSERT_TRUE(result);
  EXPECT_GT(value("loopwright_measure_seconds_count"), 0);
  EXPECT_GE(value("loopwright_tuning_seconds_total{phase=\"measure\"}"), 0);
  EXPECT_GE(value("loopwright_agents_online"), 1);
  EXPECT_GE(value("loopwright_devices{state=\"online\"}"), 1);
  EXPECT_EQ(value("loopwright_devices{state=\"open\"}"), -1);  // the rows' word, not the page's
  // A watch is counted, and its length is no latency.
  EXPECT_NE(result->body.find("loopwright_rpc_total{code=\"OK\",method=\"/loopwright.v1."
                              "TuningService/WatchStudy\"}"), std::string::npos);
  EXPECT_EQ(result->body.find("rpc_seconds_count{method=\"/loopwright.v1.TuningService/WatchStudy"),
            std::string::npos);
  // Whatever is exposed is a value that the document lists.
  for (const MetricInfo& metric : metric_table()) {
    if (metric.values.empty()) continue;
    const std::set<std::string> listed = absl::StrSplit(std::string(metric.values), ", ");
    const std::string begin = concat("\n", metric.name, "{", metric.labels, "=\"");
    for (size_t at = 0; (at = result->body.find(begin, at)) != std::string::npos; ++at) {
      const size_t from = at + begin.size();
      const std::string shown = result->body.substr(from, result->body.find('"', from) - from);
      EXPECT_TRUE(listed.contains(shown)) << metric.name << " " << shown;
    }
  }
  const httplib::Result timeline = client.Get("/api/timeline");
  ASSERT_TRUE(timeline);
  EXPECT_FALSE(json::parse(timeline->body)["jobs"].empty());
}

TEST_F(CliServiceTest, AServerThatIsAwayIsTheEnvironment) {
  write("one.jsonl", "{}\n");
  for (const std::string words :
       {"devices", "devices drain x", "agents", "jobs", "audit", "backup", "schedules",
        "records export", "records import one.jsonl", "records withdrawn", "top --once",
        "lookup matmul M=64 N=64 K=64 --target x86_avx2"}) {
    const CliRun run = cli(words + " --server 127.0.0.1:1");
    EXPECT_EQ(run.code, 5) << words << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr("127.0.0.1:1")) << words;
    EXPECT_THAT(run.out, IsEmpty()) << words;
  }
}

}  // namespace
}  // namespace lw
