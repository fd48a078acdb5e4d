// A service that dies at any write and between any commit and its acknowledgement: what it had
// acknowledged is there, once, and a new process brings the same script to the same end.
//
// Problem: crashes hurt between two steps; random kills rarely hit there. Algorithm: a life of a
// service (records put, a study measured by an agent with two devices, one drained, resumed,
// quarantined and resumed, a second study cancelled) runs in a forked child that dies at the N-th
// crash point (tuner_db/crash_point.h), having written what was acknowledged to a file. A second
// child opens the database, checks it against that file and against the invariants, and runs the
// same script with the same request ids to its end. The agent of the second life resumes the
// session and sends its results again, or (every other time) is a new session.
//
// A life passes about 260 points. Here some 40 of them, drawn from a seed;
// LOOPWRIGHT_ALL_CRASHES=1 dies at each.
#include <fcntl.h>

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault_fixture.h"
#include "tuner_db/crash_point.h"

namespace lw {
namespace {

constexpr int kTrials = 8;
constexpr int kSample = 40;

// What the script was told, appended as it comes; survives the process.
class Acknowledged {
 public:
  explicit Acknowledged(const std::string& path)
      : file_(open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600)) {}
  ~Acknowledged() { close(file_); }
  void note(const std::string& line) {
    const std::string text = line + "\n";
    CHECK(write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

 private:
  const int file_;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// ---- the script --------------------------------------------------------------------------------

class Life {
 public:
  Life(const Scratch& scratch, bool resumes)
      : acknowledged_(scratch.directory + "/acknowledged"),
        unsent_(scratch.directory + "/unsent"),
        last_(last_request(unsent_)),
        session_(resumes && !last_.session().empty() ? last_.session()
                                                     : absl::StrCat("session ", getpid())),
        database_(*open_sqlite(scratch.file, {})), store_(make_store(database_)),
        service_(*Service::start(database_, quick_service())),
        agent_("a1", session_, {"d1", "d2"}) {
    // The same agent, whose server died: it knows its session and what it owes.
    if (last_.session() != session_) return;
    for (const v1::JobResult& result : last_.results()) agent_.owe(result);
    agent_.set_sequence(last_.sequence());
  }

  void run() {
    put_records();
    const std::string study = create("study", small_study(kTrials));
    call();                                  // descriptions
    measure(study, 2);
    devices("drain");
    devices("resume");
    measure(study, 4);
    devices("quarantine");
    call();
    devices("reopen");
    measure(study, 1000);
    const std::string other = create("other", small_study(kTrials, "x86_avx512"));
    cancel(other);
    service_.reset();
  }

 private:
  template <class Response>
  void must(const absl::Status& status, const Response& response, const std::string& what) {
    if (!status.ok()) std::fprintf(stderr, "%s: %s\n", what.c_str(), status.ToString().c_str());
    CHECK(status.ok());
    acknowledged_.note(what);
  }

  void put_records() {
    v1::PutRecordsRequest request;
    request.set_request_id("put");
    const WorkloadRow workload = make_workload(128);
    const Target target = make_target();
    for (int i = 0; i < 3; ++i) {
      v1::Record& record = *request.add_records();
      *record.mutable_key() = to_proto(make_key(workload, target));
      *record.mutable_measurement() = to_proto(make_measurement(i + 1, {10.0 + i, 11.0 + i}));
      *record.mutable_workload() = to_proto(workload);
      *record.mutable_target() = to_proto(target);
    }
    v1::PutRecordsResponse response;
    must(service_->put_records(local_caller(), request, &response), response, "put");
  }

  std::string create(const std::string& id, const v1::StudySpec& spec) {
    v1::CreateStudyRequest request;
    request.set_request_id(id);
    *request.mutable_spec() = spec;
    google::longrunning::Operation operation;
    const absl::Status status = service_->create_study(local_caller(), request, &operation);
    const std::string name = operation.name().substr(operation.name().find('/') + 1);
    must(status, operation, concat("study ", name));
    return "studies/" + name;
  }

  void cancel(const std::string& study) {
    v1::CancelStudyRequest request;
    request.set_request_id("cancel");
    request.set_name(study);
    v1::Study response;
    must(service_->cancel_study(local_caller(), request, &response), response,
         concat("cancelled ", study.substr(8)));
  }

  void devices(const std::string& what) {
    if (what == "quarantine") {
      v1::QuarantineDeviceRequest request;
      request.set_request_id(what);
      request.set_name("devices/d2");
      request.set_reason("the script says so");
      v1::DeviceStatus response;
      return must(service_->quarantine_device(local_caller(), request, &response), response, what);
    }
    if (what == "drain") {
      v1::DrainDevicesRequest request;
      request.set_request_id(what);
      request.add_names("devices/d2");
      v1::DrainDevicesResponse response;
      return must(service_->drain_devices(local_caller(), request, &response), response, what);
    }
    v1::ResumeDevicesRequest request;
    request.set_request_id(what);
    request.add_names("devices/d2");
    v1::ResumeDevicesResponse response;
    must(service_->resume_devices(local_caller(), request, &response), response, what);
  }

  // A call of the agent. What it owes is on its disk before it is sent.
  void call() {
    const v1::SynchronizeRequest request = agent_.request();
    {
      std::ofstream out(unsent_ + ".new", std::ios::binary | std::ios::trunc);
      out << request.SerializeAsString();
    }
    std::filesystem::rename(unsent_ + ".new", unsent_);
    const auto response = synchronize(*service_, request);
    if (!response.ok()) std::fprintf(stderr, "%s\n", response.status().ToString().c_str());
    CHECK(response.ok());
    for (const v1::Receipt& receipt : response->receipts()) {
      const bool stored = receipt.kind() == v1::RECEIPT_KIND_STORED ||
                          receipt.kind() == v1::RECEIPT_KIND_DUPLICATE;
      if (stored)
        acknowledged_.note(concat("stored ", receipt.job().substr(5), " ", receipt.epoch()));
    }
    agent_.apply(*response);
  }

  // Until the study has ended, or so many of its trials are stored.
  void measure(const std::string& name, int trials) {
    v1::GetStudyRequest request;
    request.set_name(name);
    for (int i = 0; i < kPatienceMs; ++i) {
      v1::Study study;
      CHECK(service_->get_study(local_caller(), request, &study).ok());
      if (study.has_end_time() || study.progress().trials() >= trials) {
        if (study.has_end_time()) acknowledged_.note(concat("ended ", name.substr(8)));
        return;
      }
      agent_.work();
      call();
    }
    std::fprintf(stderr, "%s does not end\n", name.c_str());
    CHECK(false);
  }

  static v1::SynchronizeRequest last_request(const std::string& file) {
    v1::SynchronizeRequest last;
    std::ifstream in(file, std::ios::binary);
    if (in) CHECK(last.ParseFromIstream(&in));
    return last;
  }

  Acknowledged acknowledged_;
  const std::string unsent_;
  const v1::SynchronizeRequest last_;
  const std::string session_;
  const std::shared_ptr<Database> database_;
  const std::unique_ptr<Store> store_;
  std::unique_ptr<Service> service_;
  FleetAgent agent_;
};

// ---- what must be there -------------------------------------------------------------------------

// Says what is wrong and fails, in a child that has looked at the database.
void expect_acknowledged(const Scratch& scratch) {
  const auto database = *open_sqlite(scratch.file, {});
  const std::unique_ptr<Store> store = make_store(database);
  std::vector<std::string> wrong = defects_of(*database, *store);
  for (const std::string& line : lines_of(scratch.directory + "/acknowledged")) {
    const size_t space = line.find(' ');
    const std::string what = line.substr(0, space);
    const std::string id = space == std::string::npos ? "" : line.substr(space + 1);
    std::string sql;
    if (what == "put") sql = "SELECT 1 FROM requests WHERE id = 'put' AND method = 'PutRecords'";
    if (what == "study") sql = "SELECT 1 FROM studies WHERE id = '" + id + "'";
    if (what == "cancelled") {
      sql = "SELECT 1 FROM studies WHERE state = 'cancelled' AND id = '" + id + "'";
    }
    if (what == "ended") {
      sql = "SELECT 1 FROM studies WHERE state = 'succeeded' AND id = '" + id + "'";
    }
    if (what == "stored") {
      const size_t epoch = id.find(' ');
      sql = concat("SELECT 1 FROM jobs WHERE state = 'done' AND id = ", id.substr(0, epoch),
                   " AND epoch = ", id.substr(epoch + 1));
    }
    if (sql.empty()) sql = concat("SELECT 1 FROM requests WHERE id = '", what, "'");
    if (column(*database, sql).size() != 1) wrong.push_back("acknowledged, but not there: " + line);
  }
  for (const std::string& line : wrong) std::fprintf(stderr, "  %s\n", line.c_str());
  _exit(wrong.empty() ? 0 : 1);
}

// The same end, whatever happened on the way.
void expect_ended(const Scratch& scratch) {
  const auto database = *open_sqlite(scratch.file, {});
  EXPECT_THAT(column(*database, "SELECT state FROM studies ORDER BY state"),
              testing::ElementsAre("cancelled", "succeeded"));
  EXPECT_THAT(column(*database, "SELECT trials FROM studies WHERE state = 'succeeded'"),
              testing::ElementsAre(std::to_string(kTrials)));
  EXPECT_THAT(column(*database, "SELECT admission FROM devices ORDER BY id"),
              testing::ElementsAre("open", "open"));
  EXPECT_THAT(column(*database, "SELECT count(*) FROM candidates c JOIN keys k ON k.id = c.key "
                                "JOIN workloads w ON w.id = k.workload WHERE w.source_words = "
                                "'matmul M=128'"), testing::ElementsAre("3"));
  if (testing::Test::HasFailure()) _exit(1);
}

int in_child(const std::function<void()>& body) {
  const int status = wait_for(child(body));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int64_t count_points() {
  Scratch scratch;
  const int code = in_child([&] {
    set_crash_point(int64_t{1} << 60);
    Life(scratch, true).run();
    std::ofstream(scratch.directory + "/points") << crash_points_passed();
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(in_child([&] { expect_acknowledged(scratch); }), 0);
  EXPECT_EQ(in_child([&] { expect_ended(scratch); }), 0);
  int64_t points = 0;
  std::ifstream(scratch.directory + "/points") >> points;
  return points;
}

// Whether the life came to point `n`.
bool dies_at(int64_t n) {
  SCOPED_TRACE(absl::StrCat("crash point ", n));
  Scratch scratch;
  const int code = in_child([&] {
    set_crash_point(n);
    Life(scratch, true).run();
  });
  EXPECT_TRUE(code == kCrashed || code == 0) << code;
  EXPECT_EQ(in_child([&] { expect_acknowledged(scratch); }), 0);
  EXPECT_EQ(in_child([&] { Life(scratch, n % 2 == 0).run(); }), 0);
  EXPECT_EQ(in_child([&] { expect_acknowledged(scratch); }), 0);
  EXPECT_EQ(in_child([&] { expect_ended(scratch); }), 0);
  return code == kCrashed;
}

TEST(ServiceCrash, LosesNothingAtAnyPoint) {
  const int64_t points = count_points();
  ASSERT_GT(points, 100);
  std::fprintf(stderr, "%d crash points in a life\n", static_cast<int>(points));
  if (getenv("LOOPWRIGHT_ALL_CRASHES") != nullptr) {
    int64_t n = 1;
    while (dies_at(n) && !HasFailure()) ++n;
    EXPECT_GT(n, points / 2);
    return;
  }
  Rng rng(20261121);
  for (int i = 0; i < kSample && !HasFailure(); ++i) {
    // One from each of equal parts, so that no stretch of the script is left out.
    dies_at(1 + points * i / kSample + rng.below(std::max<int64_t>(1, points / kSample)));
  }
}

TEST(ServiceCrash, TwiceInARow) {
  Rng rng(7);
  const int64_t points = count_points();
  // A third death in the beginning of a study would rightly be blamed on it.
  for (int i = 0; i < 9 && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    Scratch scratch;
    for (int death = 0; death < 2; ++death) {
      const int64_t at = 1 + rng.below(points);
      const int code = in_child([&] {
        set_crash_point(at);
        Life(scratch, death % 2 == 0).run();
      });
      EXPECT_TRUE(code == kCrashed || code == 0) << code;
      EXPECT_EQ(in_child([&] { expect_acknowledged(scratch); }), 0);
    }
    EXPECT_EQ(in_child([&] { Life(scratch, true).run(); }), 0);
    EXPECT_EQ(in_child([&] { expect_ended(scratch); }), 0);
  }
}

}  // namespace
}  // namespace lw
