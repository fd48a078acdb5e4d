// `loopwright top` against a server that answers from a script: one picture for pipes, a document,
// and a live screen that it gives back.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <pty.h>

#include "gmock/gmock.h"
#include "loopwright/v1/fleet.grpc.pb.h"
#include "loopwright/v1/study.grpc.pb.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;
using testing::HasSubstr;
using testing::Not;

class ScriptedFleet : public v1::FleetService::Service {
 public:
  grpc::Status GetFleet(grpc::ServerContext*, const v1::GetFleetRequest*,
                        v1::Fleet* fleet) override {
    v1::Fleet::Class* x86 = fleet->add_classes();
    x86->set_target_name("x86_avx512");
    x86->set_total(40);
    x86->set_online(39);
    x86->set_quarantined(1);
    x86->set_queued(18);
    fleet->set_studies_running(1);
    fleet->set_jobs_queued(18);
    fleet->set_version("4.5.6");
    fleet->set_problem("the database is read-only: disk full");
    (*fleet->mutable_verdicts())["ok"] = 300;
    (*fleet->mutable_verdicts())["crash"] = 7;
    return grpc::Status::OK;
  }
  grpc::Status ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse* response) override {
    for (int i = 0; i < 40; ++i) {
      v1::DeviceStatus* device = response->add_devices();
      device->mutable_device()->set_name("devices/board-" + std::to_string(i));
      device->set_online(i != 1);
      if (i == 0) {
        device->set_admission(v1::DEVICE_ADMISSION_QUARANTINED);
        device->set_reason("\x1b]0;owned\x07 drifts");
      }
      if (i == 2) device->add_held()->set_job("jobs/81");
    }
    return grpc::Status::OK;
  }
};

class ScriptedTuning : public v1::TuningService::Service {
 public:
  grpc::Status ListStudies(grpc::ServerContext*, const v1::ListStudiesRequest*,
                           v1::ListStudiesResponse* response) override {
    for (int i = 0; i < 30; ++i) {
      v1::Study* study = response->add_studies();
      study->set_name("studies/S" + std::to_string(i));
      study->set_client("ci");
      v1::StudyProgress* progress = study->mutable_progress();
      progress->set_state(i == 29 ? v1::STUDY_STATE_RUNNING : v1::STUDY_STATE_SUCCEEDED);
      progress->set_trials(100);
      progress->set_trials_wanted(200);
      v1::WorkloadProgress* workload = progress->add_workloads();
      workload->set_name("matmul grö\xc3\x9f" "e " + std::to_string(i));
      workload->set_best_us(1500);
      workload->set_zero_us(3000);
    }
    return grpc::Status::OK;
  }
};

class TopTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&fleet_);
    builder.RegisterService(&tuning_);
    server_ = builder.BuildAndStart();
    ASSERT_GT(port_, 0);
  }
  std::string at() const { return "--server 127.0.0.1:" + std::to_string(port_); }

  ScriptedFleet fleet_;
  ScriptedTuning tuning_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(TopTest, OncePrintsEverythingPlain) {
  const CliRun run = cli("top --once " + at());
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(run.out, HasSubstr("Loopwright 4.5.6"));
  EXPECT_THAT(run.out, HasSubstr("the database is read-only: disk full"));
  EXPECT_THAT(run.out, HasSubstr("last hour: crash 7, ok 300"));
  EXPECT_THAT(run.out, HasSubstr("board-39"));
  EXPECT_THAT(run.out, HasSubstr("?]0;owned? drifts"));
  EXPECT_THAT(run.out, HasSubstr("jobs/81"));
  EXPECT_THAT(run.out, HasSubstr("#####..... 100/200"));
  EXPECT_THAT(run.out, HasSubstr("2.00x"));
  EXPECT_LT(run.out.find("running "), run.out.find("succeeded")) << "what runs comes first";
  EXPECT_EQ(cli("top " + at()).out.substr(0, 16), run.out.substr(0, 16)) << "a pipe means once";
}

TEST_F(TopTest, JsonIsOneDocument) {
  const CliRun run = cli("top --json " + at());
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json document = run.json();
  EXPECT_EQ(document["devices"].size(), 40u);
  EXPECT_EQ(document["studies"].size(), 30u);
  EXPECT_EQ(document["fleet"]["version"], "4.5.6");
}

TEST_F(TopTest, ErrorsSayWhatToDo) {
  server_->Shutdown();
  const CliRun run = cli("top --once " + at());
  EXPECT_EQ(run.code, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("127.0.0.1:"));
  EXPECT_EQ(cli("top --once --server example.org:7070").code, 1);
}

// Runs `top` on a terminal of 80 x 24, sends `key` after its first picture; all that it wrote.
std::string on_terminal(const std::vector<std::string>& words, const std::string& key,
                        int* status) {
  int master = -1;
  winsize size{24, 80, 0, 0};
  const pid_t pid = forkpty(&master, nullptr, nullptr, &size);
  if (pid == 0) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  std::string out;
  bool sent = false;
  char buffer[8192];
  for (int quiet = 0; quiet < 100;) {      // at most 10 s of silence
    pollfd ready{master, POLLIN, 0};
    if (poll(&ready, 1, 100) <= 0) {
      ++quiet;
      continue;
    }
    const ssize_t n = read(master, buffer, sizeof(buffer));
    if (n <= 0) break;
    out.append(buffer, static_cast<size_t>(n));
    if (sent || out.find("\x1b[J") == std::string::npos) continue;
    sent = write(master, key.data(), key.size()) == static_cast<ssize_t>(key.size());
  }
  kill(pid, SIGKILL);                      // nothing if it has ended
  waitpid(pid, status, 0);
  close(master);
  return out;
}

TEST_F(TopTest, LiveScreenIsGivenBack) {
  for (const std::string key : {"q", "\x03"}) {
    int status = -1;
    const std::string out = on_terminal({LW_BINARY_DIR "/loopwright", "top", "--server",
                                         "127.0.0.1:" + std::to_string(port_)}, key, &status);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_THAT(out, HasSubstr("\x1b[?1049h"));
    EXPECT_EQ(out.substr(out.size() - 14), "\x1b[?25h\x1b[?1049l");
    const size_t begin = out.find("\x1b[H") + 3;
    const std::string picture = out.substr(begin, out.find("\x1b[J") - begin);
    EXPECT_EQ(std::count(picture.begin(), picture.end(), '\n'), 23) << picture;
    EXPECT_THAT(picture, HasSubstr("and "));
    EXPECT_THAT(picture, HasSubstr("more"));
    EXPECT_THAT(picture, Not(HasSubstr("\x1b]")));
  }
}

}  // namespace
}  // namespace lw
