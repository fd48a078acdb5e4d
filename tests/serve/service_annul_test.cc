// Keys that a false time has spoilt: what is withdrawn or annulled steers no search, and is given
// to nobody.
#include "tests/serve/study_fixture.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

constexpr double kGlitch_us = 0.5;         // possible, but a third of what any schedule takes

class ServiceAnnul : public StudyTest {
 protected:
  ServiceAnnul() { tune(16); }

  v1::Study tune(int trials) {
    NullAgent agent(daemon_.server->address(), "board-7");
    const v1::Study study = finish(daemon_, create(daemon_, study_request({32}, trials)));
    EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED);
    return study;
  }

  static Caller admin() { return caller(CallerRole::kAdmin, "boss"); }

  // The only key.
  v1::Schedule schedule() {
    v1::ListSchedulesResponse response;
    EXPECT_TRUE(daemon_.service->schedules.list_schedules(admin(), {}, &response).ok());
    EXPECT_EQ(response.schedules_size(), 1);
    return response.schedules(0);
  }
  double looked_up() {
    v1::BatchLookupRequest request;
    v1::LookupQuery& query = *request.add_queries();
    const v1::Key key = schedule().key();
    query.set_workload_id(key.workload());
    query.set_target_id(key.target());
    query.set_backend(key.backend());
    query.set_threads(key.threads());
    v1::BatchLookupResponse response;
    EXPECT_TRUE(daemon_.service->schedules.batch_lookup(admin(), request, &response).ok());
    const v1::LookupResult& result = response.results(0);
    return result.outcome() == v1::LOOKUP_OUTCOME_EXACT ? result.measurement().time_us() : 0;
  }
  // Look-ups hear a moment later of what a study has found (IndexKeeper::note).
  double served() {
    const std::unique_ptr<Store> store = make_store(daemon_.database);
    double time_us = 0;
    EXPECT_TRUE(eventually([&] {
      const absl::StatusOr<BestRow> best = store->best(from_proto(schedule().key()));
      time_us = looked_up();
      return time_us == (best.ok() ? best->measurement.time_us : 0);
    }, /*patience_s=*/20)) << time_us;
    return time_us;
  }

  // A false time of the key as if the board had measured and verified it.
  void glitch(double us = kGlitch_us) {
    Measurement m = make_measurement(1, {us, us, us});
    m.actor = "agent/board-7", m.device = "board-7-0";
    m.time_kind = from_proto(schedule().time_kind());
    std::vector<Measurement> batch = {m};
    const std::unique_ptr<Store> store = make_store(daemon_.database);
    ASSERT_TRUE(store->append(from_proto(schedule().key()), batch).ok());
    id_ = batch[0].id;
    // The index knows it then.
    ASSERT_TRUE(daemon_.service->schedules.put_records(admin(), vouched(m), &put_).ok());
  }
  v1::PutRecordsRequest vouched(const Measurement& m) {
    v1::PutRecordsRequest request;
    request.set_request_id(fresh_id());
    v1::Record& record = *request.add_records();
    *record.mutable_key() = schedule().key();
    *record.mutable_measurement() = to_proto(m);
    return request;
  }

  absl::Status annul(const v1::MeasurementFilter& filter, v1::AnnulMeasurementsResponse* response,
                     bool dry_run = false) {
    v1::AnnulMeasurementsRequest request;
    *request.mutable_filter() = filter;
    request.set_reason("its clock is broken");
    request.set_dry_run(dry_run);
    return daemon_.service->schedules.annul_measurements(admin(), request, response);
  }

  int64_t verified_since(int64_t id) {
    return number(*daemon_.database, absl::StrCat("SELECT count(*) FROM measurements WHERE "
                                                  "verified <> 0 AND id > ", id));
  }
  double study_best(const v1::Study& study) { return study.progress().workloads(0).best_us(); }

  static ServiceOptions patient() {
    ServiceOptions options;
    options.searcher.gone_ms = 600'000;    // a study keeps its seat while its board is away
    return options;
  }

  Scratch scratch_;
  Daemon daemon_{scratch_.file, patient()};
  v1::PutRecordsResponse put_;
  int64_t id_ = 0;
};

TEST_F(ServiceAnnul, AWithdrawnTimeDoesNotSteerTheNextStudy) {
  const double honest = served();
  ASSERT_GT(honest, 0.6);
  glitch();
  ASSERT_EQ(served(), kGlitch_us);
  v1::WithdrawRecordRequest withdraw;
  withdraw.set_request_id(fresh_id());
  *withdraw.mutable_key() = schedule().key();
  withdraw.set_trace(make_trace(1));
  withdraw.set_reason("faster than the machine");
  v1::WithdrawnRecord withdrawn;
  ASSERT_TRUE(daemon_.service->schedules.withdraw_record(admin(), withdraw, &withdrawn).ok());
  EXPECT_EQ(served(), honest);
  const int64_t last = number(*daemon_.database, "SELECT max(id) FROM measurements");
  const v1::Study study = tune(48);
  EXPECT_GT(verified_since(last), 0) << "nothing is verified against a time that is none";
  EXPECT_GT(study_best(study), 0.6);
  EXPECT_LE(study_best(study), honest * 1.001);
  EXPECT_GT(served(), 0.6);
  EXPECT_LE(served(), honest * 1.001) << "the honest optimum";
}

TEST_F(ServiceAnnul, ADevicesMeasurementsAreAnnulledAndTheKeyHeals) {
  const double honest = served();
  glitch();
  ASSERT_EQ(served(), kGlitch_us);
  // A study that took it for its best.
  ASSERT_TRUE(daemon_.database->write(5, [&](WriteTransaction& tx) {
    return tx.run("UPDATE study_workloads SET best_us = 0.5");
  }).ok());

  v1::AnnulMeasurementsResponse none;
  v1::MeasurementFilter filter;
  EXPECT_FALSE(annul(filter, &none).ok()) << "of all measurements there are";
  filter.set_last_id(id_);
  EXPECT_FALSE(annul(filter, &none).ok()) << "of all but the last";
  filter.clear_last_id();
  filter.set_first_id(id_);
  filter.set_actor("agent/board-8");
  ASSERT_TRUE(annul(filter, &none).ok());
  EXPECT_EQ(none.measurements(), 0);
  filter.set_actor("agent/board-7");
  v1::AnnulMeasurementsResponse counted, done;
  ASSERT_TRUE(annul(filter, &counted, /*dry_run=*/true).ok());
  EXPECT_EQ(counted.measurements(), 1);
  EXPECT_EQ(served(), kGlitch_us);
  ASSERT_TRUE(annul(filter, &done).ok());
  EXPECT_EQ(done.measurements(), 1);
  ASSERT_EQ(done.keys_size(), 1);
  EXPECT_EQ(served(), honest);
  EXPECT_EQ(number(*daemon_.database, "SELECT count(*) FROM study_workloads WHERE best_us > 0.6"),
            1);

  // Kept, with who and why; in the audit with what it was about.
  v1::ListHistoryRequest history;
  *history.mutable_key() = schedule().key();
  v1::ListHistoryResponse measured;
  ASSERT_TRUE(daemon_.service->schedules.list_history(admin(), history, &measured).ok());
  EXPECT_EQ(measured.ids(0), id_);
  EXPECT_THAT(measured.measurements(0).annulled(), HasSubstr("its clock is broken"));
  EXPECT_THAT(measured.measurements(0).annulled(), HasSubstr("admin/boss"));
  EXPECT_EQ(measured.measurements(0).actor(), "agent/board-7");
  EXPECT_EQ(measured.measurements(1).actor(), "agent/board-7");
  EXPECT_EQ(measured.measurements(1).device(), "board-7-0");
  EXPECT_EQ(number(*daemon_.database,
                   "SELECT count(*) FROM audit WHERE method LIKE '%AnnulMeasurements' AND "
                   "subject LIKE '1 of %agent/board-7%its clock is broken'"), 1);

  const int64_t last = number(*daemon_.database, "SELECT max(id) FROM measurements");
  EXPECT_LE(study_best(tune(48)), honest * 1.001);
  EXPECT_GT(verified_since(last), 0);
  EXPECT_GT(served(), 0.6);
  EXPECT_LE(served(), honest * 1.001) << "the honest optimum";

  v1::ReinstateMeasurementsRequest back;
  back.mutable_filter()->set_first_id(id_);
  back.mutable_filter()->set_last_id(id_);
  v1::ReinstateMeasurementsResponse reinstated;
  EXPECT_FALSE(daemon_.service->schedules.reinstate_measurements(admin(), back, &reinstated).ok())
      << "why?";
  back.set_reason("its clock was right");
  ASSERT_TRUE(daemon_.service->schedules.reinstate_measurements(admin(), back, &reinstated).ok());
  EXPECT_EQ(reinstated.measurements(), 1);
  EXPECT_EQ(served(), kGlitch_us);
}

// Its board is away meanwhile, so that it is under way for as long as we like.
TEST_F(ServiceAnnul, AStudyUnderWayBeginsAgain) {
  const std::string name = create(daemon_, study_request({32}, 400));
  {
    NullAgent agent(daemon_.server->address(), "board-7", "target=x86_avx2,delay_ms=200");
    ASSERT_TRUE(eventually([&] { return get(daemon_, name).progress().trials() > 0; }));
  }
  ASSERT_FALSE(get(daemon_, name).has_end_time());
  glitch();
  const std::string epochs = "SELECT max(owner_epoch) FROM studies WHERE state = 'running'";
  const int64_t epoch = number(*daemon_.database, epochs);
  v1::MeasurementFilter filter;
  filter.set_first_id(id_);
  filter.set_last_id(id_);
  v1::AnnulMeasurementsResponse done;
  ASSERT_TRUE(annul(filter, &done).ok());
  EXPECT_EQ(done.measurements(), 1);
  EXPECT_TRUE(eventually([&] { return number(*daemon_.database, epochs) > epoch; }));
  NullAgent agent(daemon_.server->address(), "board-7");
  const v1::Study study = finish(daemon_, name);
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  EXPECT_GT(study_best(study), 0.6);
  EXPECT_LE(served(), 1.001 * study_best(study));
}

// `db prune` may run beside a daemon: a search that is rebuilt would try again what is gone.
TEST_F(ServiceAnnul, PruningLeavesWhatAStudyUnderWayLearnsFrom) {
  const std::unique_ptr<Store> store = make_store(daemon_.database);
  const std::string study = create(daemon_, study_request({32}, 64));
  EXPECT_EQ(*store->prune(1, INT64_MAX), 0);
  cancel(daemon_, study);
  EXPECT_GT(*store->prune(1, INT64_MAX), 0);
}

}  // namespace
}  // namespace lw
