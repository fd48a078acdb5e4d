// "db check" of what the service keeps: a database as a sound service leaves it has no defects, and
// each invariant, broken through SQL alone, is reported, on both kinds of database.
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/serve/rows/requests.h"
#include "src/serve/rows/rows.h"
#include "tests/support/postgres_fixture.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/ladder/ladder.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kNow = 1'800'000'000'000;

Measurement trial(int trace, double us) { return make_measurement(trace, {us, us, us}); }

void add_job(WriteTransaction& tx, const std::string& study, v1::JobState state, int64_t ended_ms) {
  JobRow job;
  job.study = study, job.client = "ci", job.target = "t", job.state = state;
  job.created_ms = kNow, job.ended_ms = ended_ms, job.candidates = 2;
  for (int i = 0; i < 2; ++i) job.payload.add_candidates()->set_trace(make_trace(i));
  job.sources = {"draft", "evolve"};
  if (state != v1::JOB_STATE_QUEUED) {
    job.attempt = 1, job.epoch = 1, job.leased_ms = kNow + 5, job.lease_until = kNow + 30'000;
    job.device = "d1", job.agent = "a1", job.session = "s1";
  }
  if (state == v1::JOB_STATE_DONE) job.digest = sha256("result");
  CHECK(insert_job(tx, job).ok());
}

void add_study(WriteTransaction& tx, const std::string& id, const Key& key, v1::StudyState state) {
  StudyRow study;
  study.id = id, study.client = "ci", study.state = state, study.target = key.target;
  study.spec.add_workloads()->set_name("matmul");
  study.trials = 2, study.created_ms = kNow;
  study.ended_ms = has_ended(state) ? kNow + 9000 : 0;
  CHECK(insert_study(tx, study).ok());
  StudyWorkloadRow row;
  row.study = id, row.name = "matmul", row.workload = key.workload, row.backend = key.backend;
  row.threads = key.threads, row.cache = key.cache, row.trials = 2, row.best_us = 20;
  CHECK(insert_workload(tx, row).ok());
  for (double us : {30.0, 20.0}) {
    v1::StudyEvent event;
    event.set_kind(v1::StudyEvent::KIND_IMPROVED);
    event.set_workload("matmul");
    event.set_best_us(us);
    CHECK(add_event(tx, id, kNow + 10, event).ok());
  }
}

void fill(Database& database, Store& store) {
  const Key key = put_key(store);
  std::vector<Measurement> measured = {trial(1, 30), trial(2, 20)};
  ASSERT_TRUE(store.append(key, measured).ok());
  ASSERT_TRUE(store.withdraw({key, make_trace(1), "wrong", "{}", "admin/x", kNow}).ok());
  const absl::Status filled = database.write(5, [&](WriteTransaction& tx) -> absl::Status {
    RETURN_IF_ERROR(put_agent(tx, {"a1", {"s1"}, "1", "{}", "peer", kNow}));
    DeviceRow device;
    device.id = "d1", device.agent = "a1", device.target = key.target, device.evidence = "[]";
    device.description.set_name("devices/d1");
    RETURN_IF_ERROR(put_device(tx, device));
    add_study(tx, "live", key, v1::STUDY_STATE_RUNNING);
    add_study(tx, "over", key, v1::STUDY_STATE_SUCCEEDED);
    add_job(tx, "live", v1::JOB_STATE_QUEUED, 0);
    add_job(tx, "live", v1::JOB_STATE_LEASED, 0);
    add_job(tx, "over", v1::JOB_STATE_DONE, kNow + 9000);
    RETURN_IF_ERROR(tx.query("INSERT INTO orphans (job, epoch, agent, received_ms, result) "
                             "VALUES (1, 0, 'a1', 1, ?)", Blob{""}).run());
    v1::CancelStudyRequest request;
    request.set_name("studies/over");
    v1::Study answer;
    return once(tx, "admin/x", "r1", "CancelStudy", request, kNow, &answer,
                [] { return absl::OkStatus(); });
  });
  ASSERT_EQ(filled.message(), "");
}

struct Break {
  const char *name, *sql, *says;
};

constexpr Break kBreaks[] = {
    {"StudyState", "UPDATE studies SET state = 'asleep' WHERE id = 'live'", "none of the six"},
    {"StudyEnd", "UPDATE studies SET ended_ms = 0 WHERE id = 'over'", "ended without a time"},
    {"StudySpec", "UPDATE studies SET spec = X'FF' WHERE id = 'live'", "spec cannot be read"},
    {"StudySums", "UPDATE studies SET trials = trials + 1 WHERE id = 'live'", "not the sums"},
    {"StudyFailedSums", "UPDATE study_workloads SET failed = 3", "not the sums"},
    {"WorkloadRows", "DELETE FROM study_workloads WHERE study = 'live'", "workloads, its rows"},
    {"WorkloadGap", "UPDATE study_workloads SET position = 4 WHERE study = 'over'",
     "from 0 without"},
    {"WorkloadUnknown", "UPDATE study_workloads SET workload = 'x' WHERE study = 'over'",
     "not among the workloads"},
    {"WorkloadNegative", "UPDATE study_workloads SET busy_s = -1", "is negative"},
    {"TrialsUnmeasured", "UPDATE study_workloads SET trials = 9", "more trials than its key"},
    {"BestUnmeasured", "UPDATE study_workloads SET best_us = 1", "below every verified"},
    {"BestForgotten", "UPDATE study_workloads SET best_us = 25", "above what its events"},
    {"JobState", "UPDATE jobs SET state = 'lost' WHERE id = 1", "none of the five"},
    {"JobLease", "UPDATE jobs SET session = '' WHERE state = 'leased'", "leased without"},
    {"JobHeld", "UPDATE jobs SET device = 'd1' WHERE state = 'queued'", "somebody holds it"},
    {"JobEpoch", "UPDATE jobs SET attempt = 2 WHERE state = 'leased'", "epoch is below"},
    {"JobEnd", "UPDATE jobs SET ended_ms = 7 WHERE state = 'queued'", "ended without a time"},
    {"JobDigest", "UPDATE jobs SET digest = '' WHERE state = 'done'", "without the digest"},
    {"JobStudy", "UPDATE jobs SET study = 'none' WHERE id = 1", "no workload of a study"},
    {"JobOutlives", "UPDATE jobs SET study = 'over' WHERE id = 1", "its study has ended"},
    {"JobDevice", "UPDATE jobs SET device = 'd9' WHERE state = 'leased'", "a device that is not"},
    {"JobAgent", "UPDATE jobs SET agent = 'a9' WHERE state = 'leased'", "another agent's"},
    {"JobLeft", "UPDATE devices SET left_ms = 5", "a device that has left"},
    {"JobPayload", "UPDATE jobs SET payload = X'FF' WHERE id = 1", "payload cannot be read"},
    {"JobCandidates", "UPDATE jobs SET candidates = 3 WHERE id = 1", "not as many"},
    {"JobForgotten", "UPDATE jobs SET payload = X'' WHERE id = 1", "not as many"},
    {"JobSources", "UPDATE jobs SET sources = 'draft' WHERE id = 1", "not as many"},
    {"OrphanJob", "UPDATE orphans SET job = 77", "its job is not there"},
    {"OrphanEpoch", "UPDATE orphans SET epoch = 77", "never had its epoch"},
    {"OrphanResult", "UPDATE orphans SET result = X'FF'", "result cannot be read"},
    {"DeviceAgent", "UPDATE devices SET agent = 'a9'", "its agent is not there"},
    {"DeviceTarget", "UPDATE devices SET target = 'x'", "its target is not there"},
    {"DeviceAdmission", "UPDATE devices SET admission = 'ajar'", "no state there is"},
    {"DeviceReason", "UPDATE devices SET admission = 'quarantined'", "without a reason"},
    {"DeviceCounter", "UPDATE devices SET jobs_done = -1", "a counter is negative"},
    {"DeviceDescription", "UPDATE devices SET description = X'FF'", "description cannot"},
    {"DeviceEvidence", "UPDATE devices SET evidence = '['", "evidence is not JSON"},
    {"AgentLabels", "UPDATE agents SET labels = '{'", "labels are not JSON"},
    {"EventGap", "DELETE FROM events WHERE sequence = 1 AND study = 'live'", "without gaps"},
    {"EventFirst", "UPDATE studies SET first_event = 2 WHERE id = 'over'", "without gaps"},
    {"EventForgotten", "UPDATE studies SET first_event = 2 WHERE id = 'live'", "forgotten events"},
    {"EventUnreadable", "UPDATE events SET event = X'FF' WHERE sequence = 1", "it cannot be read"},
    {"EventNumber",
     "UPDATE events SET event = (SELECT e.event FROM events e WHERE e.sequence = 2 LIMIT 1) "
     "WHERE sequence = 1",
     "it says that it is number 2"},
    {"UsageStudies", "UPDATE client_usage SET studies = studies - 1", "not what is counted"},
    {"UsageSpecs", "UPDATE client_usage SET spec_bytes = 0", "not what is counted"},
    {"UsageUnconfirmed", "UPDATE measurements SET counts = 0, actor = 'client/x'",
     "not what is counted"},
    {"UsageForgotten", "DELETE FROM client_usage", "not what is counted"},
    {"RequestHash", "UPDATE requests SET hash = 'x'", "no sha256"},
    {"RequestMethod", "UPDATE requests SET method = 'Explode'", "no method 'Explode'"},
    {"RequestAnswer", "UPDATE requests SET response = X'FF'", "answer cannot be read"},
    {"WithdrawnReason", "UPDATE withdrawn SET reason = ''", "no reason"},
    {"WithdrawnDigest", "UPDATE withdrawn SET digest = 'x'", "not that of its key and trace"},
    {"WithdrawnTrace", "UPDATE withdrawn SET trace = 'nonsense('", "withdrawn record of"},
    {"WithdrawnEligible", "UPDATE candidates SET eligible = 1", "or of its withdrawal"},
    {"WithdrawnGone", "DELETE FROM withdrawn", "or of its withdrawal"},
    {"WithdrawnRevision", "INSERT INTO withdrawn_revision VALUES (7, 1)", "more than one"},
    {"CandidateKernel", "UPDATE candidates SET kernel_hash = 5", "not those of its measurements"},
    {"Clock", "INSERT INTO clock VALUES (7, 1)", "more than one"},
};

// Behind the program's back, references and all.
void run_on_file(const std::string& file, const std::string& sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

class CheckSqlite : public testing::TestWithParam<Break> {};
INSTANTIATE_TEST_SUITE_P(All, CheckSqlite, testing::ValuesIn(kBreaks),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(CheckSqlite, SaysWhatIsWrong) {
  Scratch scratch;
  {
    const std::shared_ptr<Database> database = *open_database(scratch.file);
    const std::unique_ptr<Store> store = make_store(database);
    fill(*database, *store);
    ASSERT_THAT(*store->check(), IsEmpty());
  }
  run_on_file(scratch.file, GetParam().sql);
  EXPECT_THAT(*(*open_store(scratch.file))->check(), Contains(HasSubstr(GetParam().says)));
}

TEST(CheckPostgres, SaysWhatIsWrong) {
  PostgresCluster* cluster = PostgresCluster::get();
  if (cluster == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
  const std::string url = cluster->fresh();
  const std::shared_ptr<Database> database = *open_database(url);
  const std::unique_ptr<Store> store = make_store(database);
  fill(*database, *store);
  ASSERT_THAT(*store->check(), IsEmpty());
  for (const Break& one : kBreaks) {
    std::string sql = one.sql;
    for (const auto& [ours, theirs] : {std::pair("X'FF'", "'\\xFF'::bytea"),
                                       std::pair("X''", "''::bytea")}) {
      if (const size_t at = sql.find(ours); at != std::string::npos) {
        sql.replace(at, std::string(ours).size(), theirs);
      }
    }
    std::vector<std::string> lines;
    const absl::Status undone = database->write(5, [&](WriteTransaction& tx) -> absl::Status {
      lines.clear();
      RETURN_IF_ERROR(tx.run("SET LOCAL session_replication_role = replica"));
      RETURN_IF_ERROR(tx.run(sql));
      ASSIGN_OR_RETURN(lines, store_in(tx)->check());
      return absl::CancelledError("undo");
    });
    EXPECT_EQ(undone.message(), "undo") << one.name;
    EXPECT_THAT(lines, Contains(HasSubstr(one.says))) << one.name;
  }
  EXPECT_THAT(*store->check(), IsEmpty());
}

TEST(CheckService, WhatWasPrunedIsNoDefect) {
  Scratch scratch;
  const std::shared_ptr<Database> database = *open_database(scratch.file);
  const std::unique_ptr<Store> store = make_store(database);
  fill(*database, *store);
  std::vector<Measurement> more = {trial(3, 50)};
  ASSERT_TRUE(store->append((*store->keys())[0], more).ok());
  ASSERT_EQ(*store->prune(1, kNow + 1), 0) << "a study under way learns from it";
  ASSERT_TRUE(database->write(5, [&](WriteTransaction& tx) -> absl::Status {
    RETURN_IF_ERROR(tx.run("UPDATE jobs SET state = 'cancelled', ended_ms = 1 WHERE state "
                           "IN ('queued', 'leased')"));
    return tx.run("UPDATE studies SET state = 'cancelled', ended_ms = 1 WHERE state IN "
                  "('queued', 'running')");
  }).ok());
  ASSERT_EQ(*store->prune(1, kNow + 1), 1);
  EXPECT_EQ((*store->withdrawn()).size(), 1u);
  EXPECT_EQ((*store->measurements((*store->keys())[0])).size(), 2u);  // the withdrawn one's stays
  EXPECT_THAT(*store->check(), IsEmpty());
}

}  // namespace
}  // namespace lw
