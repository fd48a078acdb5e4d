// Whole studies: a service, null agents, and everything that may happen to either on the way.
#include "tests/serve/study_fixture.h"

#include "cost_model/cost_model.h"
#include "cost_model/trees/learned.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/search/null_measurer.h"
#include "src/search/search.h"
#include "src/serve/rows/rows.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

class SearchServiceTest : public StudyTest,
                          public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (url_.empty()) GTEST_SKIP() << "PostgreSQL is not installed";
  }
  static ServiceOptions quick() {
    ServiceOptions options;
    options.searcher.adopt_ms = 100;
    options.searcher.owner_ttl_ms = 2000;
    options.rules.ttl_ms = 3000;
    return options;
  }
  // Traces of trials in the order in which they were stored.
  static std::vector<std::string> traces(Database& database, const std::string& where = "") {
    std::vector<std::string> all;
    EXPECT_TRUE(database.read(5, [&](Transaction& tx) {
      all.clear();
      Query query = tx.query(absl::StrCat("SELECT c.trace FROM measurements m JOIN "
                                          "candidates c ON c.id = m.candidate ", where,
                                          " ORDER BY m.id"));
      while (query.next()) all.push_back(query.text(0));
      return query.status();
    }).ok());
    return all;
  }
  // No trial twice, and counters that say what is stored.
  static void expect_exact(Database& database, int trials) {
    EXPECT_EQ(number(database, "SELECT sum(trials) FROM studies"), trials);
    EXPECT_EQ(number(database, "SELECT count(*) FROM measurements WHERE source NOT IN "
                               "('zero', 'finalist')"), trials);
    EXPECT_EQ(number(database, "SELECT count(*) FROM (SELECT candidate FROM measurements "
                               "WHERE source NOT IN ('zero', 'finalist') GROUP BY candidate "
                               "HAVING count(*) > 1) AS twice"), 0);
    EXPECT_EQ(number(database, "SELECT count(*) FROM jobs WHERE state IN ('queued', 'leased')"), 0);
  }

  Scratch scratch_;
  const std::string url_ = database_url(GetParam(), scratch_.file);
};

INSTANTIATE_TEST_SUITE_P(Databases, SearchServiceTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(SearchServiceTest, AStudyEndsWithItsTrialsAndItsBest) {
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a");
  const v1::Study study = finish(daemon, create(daemon, study_request({32}, 30)));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  EXPECT_EQ(study.progress().trials(), 30);
  ASSERT_EQ(study.progress().workloads_size(), 1);
  const v1::WorkloadProgress& workload = study.progress().workloads(0);
  EXPECT_TRUE(workload.done());
  EXPECT_GT(workload.best_us(), 0);
  EXPECT_LE(workload.best_us(), workload.zero_us());
  expect_exact(*daemon.database, 30);
}

TEST_P(SearchServiceTest, OneAgentAndASeedGiveTheSameTraces) {
  std::vector<std::string> first;
  for (int round = 0; round < 2; ++round) {
    Scratch scratch;
    const std::string url = database_url(GetParam(), scratch.file);
    Daemon daemon(url, quick());
    NullAgent agent(daemon.server->address(), "a");
    v1::CreateStudyRequest request = study_request({32}, 24);
    request.mutable_spec()->set_seed(7);
    finish(daemon, create(daemon, request));
    if (round == 0) {
      first = traces(*daemon.database);
      EXPECT_GT(first.size(), 24u);
    } else {
      EXPECT_EQ(traces(*daemon.database), first);
    }
  }
}

// What a study measures first is what the analytic model thinks best, and not the shipped one.
TEST_P(SearchServiceTest, StudiesStartFromTheDraft) {
  if (std::string(GetParam()) != "sqlite") GTEST_SKIP() << "the same for every database";
  const std::vector<int> sizes = {32, 48, 77, 100};
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a", "target=x86_avx2");
  v1::CreateStudyRequest request = study_request(sizes, 4);
  request.mutable_spec()->set_seed(7);
  finish(daemon, create(daemon, request));
  std::vector<std::string> measured = traces(*daemon.database, "WHERE m.source = 'zero'");
  std::sort(measured.begin(), measured.end());
  const auto first_of = [&](auto make_model) {
    std::vector<std::string> first;
    for (int m : sizes) {
      const absl::StatusOr<Program> program = parse_program(matmul_text(m), "first");
      CHECK(program.ok());
      const absl::StatusOr<Task> task = make_task(*program, "first", *find_target("x86_avx2"), 1);
      CHECK(task.ok());
      SearchOptions options;
      options.seed = 7;
      const absl::StatusOr<Proposal> zero =
          Search(task->start(), options, make_model()).zero_trial();
      CHECK(zero.ok());
      first.push_back(zero->text);
    }
    std::sort(first.begin(), first.end());
    return first;
  };
  EXPECT_EQ(measured, first_of([] { return make_xgboost_model(); }));
  EXPECT_NE(measured, first_of([] { return *shipped_model("x86_64"); }));
}

TEST_P(SearchServiceTest, AWorkloadThatNoScheduleFitsClosesWithTheReason) {
  // Two stages read all of P, which is larger than any workspace.
  constexpr char kTooLarge[] =
      "op large(N = 40000, K = 2) {\n  in A: f32[N, K]\n  in B: f32[K, N]\n"
      "  P[i: N, j: N] = sum[k: K](A[i, k] * B[k, j])\n  a[i: N] = sum[j: N](P[i, j])\n"
      "  out C[i: N] = sum[j: N](P[j, i] * a[j])\n}\n";
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a");
  v1::CreateStudyRequest request = study_request({32}, 24);
  request.mutable_spec()->add_workloads()->set_program(kTooLarge);
  const v1::Study study = finish(daemon, create(daemon, request));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  ASSERT_EQ(study.progress().workloads_size(), 2);
  EXPECT_GT(study.progress().workloads(0).best_us(), 0);
  EXPECT_THAT(study.progress().workloads(1).note(), HasSubstr("can be lowered"));
}

TEST_P(SearchServiceTest, AStudySurvivesItsDaemons) {
  auto daemon = std::make_unique<Daemon>(url_, quick());
  const std::string name = create(*daemon, study_request({32}, 48));
  for (int life = 0; life < 4; ++life) {
    {
      NullAgent agent(daemon->server->address(), absl::StrCat("a", life));
      const int before = get(*daemon, name).progress().trials();
      EXPECT_TRUE(eventually([&] {
        const v1::Study study = get(*daemon, name);
        return study.has_end_time() || study.progress().trials() > before + 4;
      }));
      if (life < 3) daemon.reset();        // under the agent
    }
    if (daemon == nullptr) daemon = std::make_unique<Daemon>(url_, quick());
  }
  NullAgent agent(daemon->server->address(), "last");
  const v1::Study study = finish(*daemon, name);
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  EXPECT_EQ(study.progress().trials(), 48);
  expect_exact(*daemon->database, 48);
}

TEST_P(SearchServiceTest, TwoDaemonsShareStudies) {
  if (std::string(GetParam()) == "sqlite") GTEST_SKIP() << "one daemon for a file";
  Daemon one(url_, quick());
  auto two = std::make_unique<Daemon>(url_, quick());
  NullAgent a(one.server->address(), "a");
  auto b = std::make_unique<NullAgent>(two->server->address(), "b");
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) {
    names.push_back(create(i % 2 == 0 ? one : *two, study_request({16 * (i + 1)}, 12)));
  }
  EXPECT_TRUE(eventually([&] {
    return number(*one.database, "SELECT sum(trials) FROM studies") > 12;
  }));
  b.reset();
  two.reset();
  for (const std::string& name : names) {
    const v1::Study study = finish(one, name);
    EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
    EXPECT_EQ(study.progress().trials(), 12);
  }
  expect_exact(*one.database, 48);
}

TEST_P(SearchServiceTest, AResultTakenByAnotherDaemonIsMeasuredOnce) {
  if (std::string(GetParam()) == "sqlite") GTEST_SKIP() << "one daemon for a file";
  Daemon one(url_, quick());
  ServiceOptions idle = quick();
  idle.search = false;
  Daemon two(url_, idle);
  NullAgent a(one.server->address(), "a"), b(two.server->address(), "b"),
      c(two.server->address(), "c");
  // As many as no study can fall short of: from its 48th trial on (four windows of three batches)
  // one that has become flat stops, and when that is depends on the order in which results come.
  const v1::Study study = finish(one, create(one, study_request({48}, 48)));
  EXPECT_EQ(study.progress().trials(), 48) << study.progress().ShortDebugString();
  expect_exact(*one.database, 48);
}

TEST_P(SearchServiceTest, ASuiteSharesItsTrialsAndSkipsDuplicates) {
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a");
  const v1::Study study = finish(daemon, create(daemon, study_request({32, 64, 32}, 40)));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  EXPECT_LE(study.progress().trials(), 40);
  EXPECT_GE(study.progress().trials(), 30);
  EXPECT_THAT(study.progress().workloads(2).note(), HasSubstr("the same as"));
  EXPECT_GT(study.progress().workloads(0).best_us(), 0);
  EXPECT_GT(study.progress().workloads(1).best_us(), 0);
  expect_exact(*daemon.database, study.progress().trials());
}

TEST_P(SearchServiceTest, MoreThreadsThanCoresFailWithTheReason) {
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a");
  v1::CreateStudyRequest request = study_request();
  request.mutable_spec()->set_threads(4000);
  const v1::Study study = finish(daemon, create(daemon, request));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(study.error(), HasSubstr("threads"));
}

TEST_P(SearchServiceTest, AStudyWaitsForADeviceAndBeginsWhenItComes) {
  Daemon daemon(url_, quick());
  v1::CreateStudyRequest request = study_request({32}, 8);
  request.mutable_spec()->set_target("devices/late-0");
  const std::string name = create(daemon, request);
  NullAgent early(daemon.server->address(), "early");
  const std::string other = create(daemon, study_request({16}, 8));
  finish(daemon, other);
  EXPECT_EQ(get(daemon, name).progress().state(), v1::STUDY_STATE_QUEUED);
  NullAgent late(daemon.server->address(), "late", "target=x86_avx512");
  EXPECT_EQ(finish(daemon, name).progress().state(), v1::STUDY_STATE_SUCCEEDED);
}

TEST_P(SearchServiceTest, AZeroTimeBudgetMeasuresOnlyTheUntunedAnswer) {
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a");
  v1::CreateStudyRequest request = study_request({32}, 1000);
  request.mutable_spec()->mutable_time_budget()->set_seconds(0);
  const v1::Study study = finish(daemon, create(daemon, request));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  EXPECT_EQ(study.progress().trials(), 0);
  EXPECT_GT(study.progress().workloads(0).zero_us(), 0);
}

TEST_P(SearchServiceTest, CancellingInTheMiddleStopsTheAgent) {
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a", "target=x86_avx2,delay_ms=20");
  const std::string name = create(daemon, study_request({32}, 100'000));
  EXPECT_TRUE(eventually([&] { return get(daemon, name).progress().trials() >= 4; }));
  const v1::Study study = cancel(daemon, name);
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_CANCELLED);
  const int trials = study.progress().trials();
  // The device is free for others, and nothing more is counted for the cancelled one.
  EXPECT_EQ(finish(daemon, create(daemon, study_request({16}, 8))).progress().trials(), 8);
  EXPECT_EQ(get(daemon, name).progress().trials(), trials);
}

// As the command line says it: how many of each class, one example, what to do.
TEST_P(SearchServiceTest, AStudySaysWhatFailed) {
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a");
  const std::string name = create(daemon, study_request({32}, 8));
  const v1::Study before = finish(daemon, name);
  ASSERT_EQ(before.progress().workloads(0).failures_size(), 0);
  // As if some had failed.
  ASSERT_TRUE(daemon.database->write(5, [&](WriteTransaction& tx) {
    return tx.query("UPDATE study_workloads SET failed = 3").run();
  }).ok());
  std::vector<Measurement> failed;
  for (int i = 0; i < 3; ++i) {
    Measurement& m = failed.emplace_back(make_measurement(i, {1, 2}));
    m.samples_us.clear();
    m.verdict = i == 1 ? Verdict::kCrash : Verdict::kWrongResult;
    m.detail = absl::StrCat("C[", i, ", 0] is 2, should be 1 (admissible error 1e-07)");
    m.time_us = m.ci_low_us = m.ci_high_us = 0;
    m.verified = false;
  }
  const absl::StatusOr<std::unique_ptr<Store>> store = open_store(url_);
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE((*store)->append(from_proto(before.progress().workloads(0).key()), failed).ok());
  const v1::WorkloadProgress workload = get(daemon, name).progress().workloads(0);
  ASSERT_EQ(workload.failures_size(), 2);
  EXPECT_EQ(workload.failures(0).name(), "wrong_result");
  EXPECT_EQ(workload.failures(0).count(), 2);
  EXPECT_EQ(workload.failures(0).detail(), failed[0].detail);
  EXPECT_EQ(workload.failures(0).trace(), failed[0].trace);
  EXPECT_THAT(workload.failures(0).advice(), HasSubstr("--keep-failing"));
  EXPECT_EQ(workload.failures(1).name(), "crash");
  EXPECT_EQ(workload.failures(1).count(), 1);
}

TEST_P(SearchServiceTest, TheEndOfAStudySaysWhatItsTimesAre) {
  Daemon daemon(url_, quick());            // without a device
  const std::string name = create(daemon, study_request({32}, 8));
  ASSERT_TRUE(daemon.database->write(5, [&](WriteTransaction& tx) {
    return tx.query("UPDATE study_workloads SET time_kind = 20").run();
  }).ok());
  cancel(daemon, name);
  std::vector<v1::StudyEvent> events;
  EXPECT_TRUE(daemon.database->read(5, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(events, events_after(tx, name.substr(name.find('/') + 1), 0, 100));
    return absl::OkStatus();
  }).ok());
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kind(), v1::StudyEvent::KIND_ENDED);
  EXPECT_EQ(events.back().time_kind(), v1::TIME_KIND_SIMULATED);
}

// An agent that wants no more listens all the same, however long its leases are, before its work is
// done: that takes a minute.
TEST_P(SearchServiceTest, CancellingFreesADeviceThatHasAllItCanHold) {
  ServiceOptions options = quick();
  options.rules.ttl_ms = 600'000;
  Daemon daemon(url_, options);
  NullAgent agent(daemon.server->address(), "a", "target=x86_avx2,delay_ms=60000", /*slots=*/1);
  const std::string name = create(daemon, study_request({32}, 8));
  EXPECT_TRUE(eventually([&] {
    return number(*daemon.database, "SELECT count(*) FROM jobs WHERE state = 'leased'") == 1;
  }));
  cancel(daemon, name);
  const std::string next = create(daemon, study_request({16}, 8));
  EXPECT_TRUE(eventually([&] {
    return number(*daemon.database, "SELECT count(*) FROM jobs WHERE state = 'leased'") == 1;
  }, /*patience_s=*/40));
  cancel(daemon, next);
}

TEST_P(SearchServiceTest, MoreStudiesThanAreSearchedForAtOnce) {
  if (std::string(GetParam()) != "sqlite") GTEST_SKIP() << "the database has no part in it";
  ServiceOptions options = quick();
  options.searcher.most_studies = 2;
  Daemon daemon(url_, options);
  NullAgent agent(daemon.server->address(), "a");
  std::vector<std::string> names;
  for (int i = 0; i < 7; ++i) names.push_back(create(daemon, study_request({16 + i}, 6)));
  for (const std::string& name : names) {
    EXPECT_EQ(finish(daemon, name).progress().state(), v1::STUDY_STATE_SUCCEEDED);
  }
  expect_exact(*daemon.database, 42);
}

TEST_P(SearchServiceTest, ASecondStudyOfAWorkloadGoesOnFromWhatIsKnown) {
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a");
  finish(daemon, create(daemon, study_request({32}, 16)));
  const v1::Study second = finish(daemon, create(daemon, study_request({32}, 40)));
  EXPECT_EQ(second.progress().state(), v1::STUDY_STATE_SUCCEEDED);
  EXPECT_EQ(second.progress().trials(), 24) << "its own alone";
  EXPECT_EQ(second.progress().known(), 16) << "what was known counts";
  EXPECT_EQ(second.progress().trials_wanted(), 40);
  EXPECT_EQ(number(*daemon.database, "SELECT count(*) FROM measurements WHERE source NOT IN "
                                     "('zero', 'finalist')"), 40);
}

// More workloads than searches are kept of: those that wait are let go and built again.
TEST_P(SearchServiceTest, AStudyOfManyWorkloadsKeepsFewSearches) {
  if (std::string(GetParam()) != "sqlite") GTEST_SKIP() << "the database has no part in it";
  ServiceOptions options = quick();
  options.searcher.most_searches = 3;
  std::atomic<int> built = 0;
  options.before_search = [&](const StudyRow&, const Stop&) { ++built; };
  Daemon daemon(url_, options);
  NullAgent agent(daemon.server->address(), "a");
  std::vector<int> sizes;
  for (int i = 0; i < 7; ++i) sizes.push_back(8 + i);
  v1::CreateStudyRequest request = study_request(sizes, 56);
  request.mutable_spec()->set_batch(4);
  const v1::Study study = finish(daemon, create(daemon, request));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  EXPECT_LE(study.progress().trials(), 56);
  EXPECT_GE(study.progress().trials(), 42);
  for (const v1::WorkloadProgress& one : study.progress().workloads()) {
    EXPECT_GT(one.best_us(), 0) << one.name();
    EXPECT_TRUE(one.done()) << one.name();
  }
  EXPECT_GT(built, 7) << "none was let go";
  expect_exact(*daemon.database, study.progress().trials());
}

// What is kept in memory is bounded for all studies together.
TEST_P(SearchServiceTest, ManyStudiesKeepFewSearchesTogether) {
  if (std::string(GetParam()) != "sqlite") GTEST_SKIP() << "the database has no part in it";
  ServiceOptions options = quick();
  options.searcher.most_searches = 2;
  std::atomic<int> built = 0;
  options.before_search = [&](const StudyRow&, const Stop&) { ++built; };
  Daemon daemon(url_, options);
  NullAgent agent(daemon.server->address(), "a");
  std::vector<std::string> names;
  for (int i = 0; i < 2; ++i) {
    v1::CreateStudyRequest request = study_request({8 + i, 16 + i, 24 + i}, 36);
    request.mutable_spec()->set_batch(4);
    names.push_back(create(daemon, request));
  }
  for (const std::string& name : names) {
    const v1::Study study = finish(daemon, name);
    EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  }
  EXPECT_GT(built, 6) << "none was let go";
}

// The study's figure is the one that look-ups give out.
TEST_P(SearchServiceTest, TheBestOfAStudyThatHasEndedIsThePooledOne) {
  Daemon daemon(url_, quick());
  NullAgent agent(daemon.server->address(), "a");
  const v1::Study study = finish(daemon, create(daemon, study_request({32}, 16)));
  const v1::WorkloadProgress& one = study.progress().workloads(0);
  const std::shared_ptr<Store> store = make_store(daemon.database);
  const absl::StatusOr<BestRow> best = store->best(from_proto(one.key()));
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(one.best_us(), best->measurement.time_us);
}

}  // namespace
}  // namespace lw
