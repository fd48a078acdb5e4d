// What one caller reads is bounded in rows, in bytes and in what is looked at for it, however much
// the database holds; all of it comes all the same, piece by piece.
#include <filesystem>
#include <fstream>
#include <future>

#include "tests/serve/api_fixture.h"
#include "tuner_db/tables/history.h"

namespace lw {
namespace {

class Reads : public ApiTest {
 protected:
  template <class... Values>
  void run(const std::string& sql, const Values&... values) {
    const absl::Status status = daemon_->database->write(
        5, [&](WriteTransaction& tx) { return tx.query(sql, values...).run(); });
    ASSERT_TRUE(status.ok()) << sql << ": " << status;
  }
  // A key with one measurement: record_[0].
  void put_one() {
    const v1::PutRecordsRequest request = records_request();
    v1::PutRecordsResponse response;
    ASSERT_TRUE(ask(daemon_->schedules, &v1::ScheduleService::Stub::PutRecords, request,
                    &response).ok());
    key_ = request.records(0).key();
  }
  // Copies of all measurements with ids up to `upto`, with this verdict and detail.
  void copy(int64_t upto, const std::string& verdict, const std::string& detail) {
    run("INSERT INTO measurements (candidate, kernel_hash, verdict, detail, samples_us, \"inner\", "
        "time_us, ci_low_us, ci_high_us, verified, max_rel_error, wall_s, build_s, seed, source, "
        "environment, unix_ms) SELECT candidate, kernel_hash, ?, ?, samples_us, \"inner\", "
        "time_us, ci_low_us, ci_high_us, verified, max_rel_error, wall_s, build_s, seed, source, "
        "environment, unix_ms FROM measurements WHERE id <= ?", verdict, detail, upto);
  }
  v1::Key key_;
};
INSTANTIATE_TEST_SUITE_P(Databases, Reads, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

constexpr size_t kMostBytes = size_t{5} << 20;

TEST_P(Reads, AHistoryOfLargeRowsComesInPages) {
  put_one();
  const std::string detail(100'000, 'x');
  for (int64_t ids : {1, 2, 4, 8, 16, 32, 64}) copy(ids, "timeout", detail);
  v1::ListHistoryRequest request;
  *request.mutable_key() = key_;
  request.set_page_size(1000);
  std::vector<int64_t> lengths;
  int pages = 0;
  do {
    v1::ListHistoryResponse response;
    ASSERT_TRUE(ask(daemon_->schedules, &v1::ScheduleService::Stub::ListHistory, request,
                    &response).ok());
    EXPECT_LT(response.ByteSizeLong(), kMostBytes);
    for (const v1::Measurement& m : response.measurements()) lengths.push_back(m.detail().size());
    request.set_page_token(response.next_page_token());
    ASSERT_LT(++pages, 10);
  } while (!request.page_token().empty());
  ASSERT_EQ(lengths.size(), 128u);
  EXPECT_EQ(lengths.back(), 0);            // the newest comes first
  EXPECT_GT(pages, 2);
}

TEST_P(Reads, AKeyLargerThanAMessageIsExportedInPieces) {
  put_one();
  const std::string detail(100'000, 'x');
  for (int64_t ids : {1, 2, 4, 8, 16, 32, 64}) copy(ids, "timeout", detail);
  grpc::ClientContext context;
  const auto stream = daemon_->schedules->ExportRecords(&context, {});
  v1::ExportRecordsResponse response;
  int records = 0;
  while (stream->Read(&response)) {
    EXPECT_LT(response.ByteSizeLong(), kMostBytes);
    if (response.records_size() > 0) EXPECT_TRUE(response.records(0).has_workload());
    records += response.records_size();
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(records, 128);
}

TEST_P(Reads, AHistoryOfAnyLengthComesWholeAndInOrder) {
  put_one();
  // Every other one of another key, up to 49,152 of ours: more than are ever sorted at once.
  run("INSERT INTO keys (workload, target, backend, threads, cache, objective) "
      "SELECT workload, target, backend, threads + 1, cache, objective FROM keys WHERE id = 1");
  run("INSERT INTO candidates (key, trace) SELECT 2, trace FROM candidates WHERE id = 1");
  copy(1, "crash", "on edge inputs: 7");
  run("UPDATE measurements SET candidate = 2 WHERE id = 2");
  copy(2, "timeout", "");
  for (int64_t ids = 4; ids < 65'536; ids *= 2) copy(ids, "ok", "");
  copy(32'768, "crash", "on small integers: 8");
  Database& database = *daemon_->database;
  for (bool newest_first : {false, true}) {
    HistoryRequest request;
    request.newest_first = newest_first;
    std::vector<int64_t> ids;
    int pieces = 0;
    do {
      HistoryPiece piece;
      const absl::Status status = database.read(5, [&](Transaction& tx) -> absl::Status {
        ASSIGN_OR_RETURN(piece, read_history(tx, 1, request));
        return absl::OkStatus();
      });
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_LE(piece.rows.size(), 1000u);
      for (const Measurement& m : piece.rows) ids.push_back(m.id);
      request.from = piece.next;
      ASSERT_LT(++pieces, 200);
    } while (request.from != 0);
    ASSERT_EQ(ids.size(), 49'152u);
    if (newest_first) std::reverse(ids.begin(), ids.end());
    EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end());
    EXPECT_EQ(ids.front(), 1);
  }
  std::vector<FailureClass> latest, all;
  ASSERT_TRUE(database.read(5, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(latest, read_failures(tx, 1));
    return absl::OkStatus();
  }).ok());
  ASSERT_EQ(latest.size(), 1u);            // of the latest 20,000, half of them ours
  EXPECT_EQ(latest[0].name, "crash on small integers");
  EXPECT_EQ(latest[0].count, 10'000);
  EXPECT_FALSE(latest[0].example.trace.empty());
  run("DELETE FROM measurements WHERE id > 16384");
  ASSERT_TRUE(database.read(5, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(all, read_failures(tx, 1));
    return absl::OkStatus();
  }).ok());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "timeout");       // nothing is forgotten of a key of this size
  EXPECT_EQ(all[0].count, 1);
}

// More records than a commit takes: all are stored, once, however often the call is repeated.
TEST_P(Reads, ManyRecordsArePutInPieces) {
  const v1::Record first = records_request().records(0);
  v1::PutRecordsRequest request;
  request.set_request_id(fresh_id());
  for (int i = 0; i < 1234; ++i) {
    v1::Record& record = *request.add_records();
    *record.mutable_key() = first.key();
    record.mutable_key()->set_threads(1 + i % 3);
    *record.mutable_measurement() = first.measurement();
    record.mutable_measurement()->set_seed(i + 1);
  }
  *request.mutable_records(1233)->mutable_workload() = first.workload();
  *request.mutable_records(1233)->mutable_target() = first.target();
  v1::PutRecordsResponse response, again;
  ASSERT_TRUE(ask(daemon_->schedules, &v1::ScheduleService::Stub::PutRecords, request,
                  &response).ok());
  EXPECT_EQ(response.stored(), 1234);
  ASSERT_TRUE(ask(daemon_->schedules, &v1::ScheduleService::Stub::PutRecords, request,
                  &again).ok());
  EXPECT_EQ(again.stored(), 1234);         // the first answer
  request.set_request_id(fresh_id());
  ASSERT_TRUE(ask(daemon_->schedules, &v1::ScheduleService::Stub::PutRecords, request,
                  &again).ok());
  EXPECT_EQ(again.stored(), 0);
  int64_t stored = 0, lines = 0;
  ASSERT_TRUE(daemon_->database->read(5, [&](Transaction& tx) {
    Query query = tx.query(
        "SELECT (SELECT count(*) FROM measurements), (SELECT count(*) FROM audit WHERE method LIKE "
        "'%PutRecords')");
    if (query.next()) stored = query.integer(0), lines = query.integer(1);
    return query.status();
  }).ok());
  EXPECT_EQ(stored, 1234);
  EXPECT_EQ(lines, 14);                    // a piece and its line are one transaction
}

TEST_P(Reads, AListOfStudiesReadsSixteenMegabytesOfPrograms) {
  for (int i = 0; i < 10; ++i) {
    StudyRow row;
    row.id = make_id(1'000'000 + i);
    row.client = "local";
    row.state = v1::STUDY_STATE_SUCCEEDED;
    row.spec.add_workloads()->set_program(std::string(3 << 20, 'p'));
    ASSERT_TRUE(daemon_->database->write(5, [&](WriteTransaction& tx) {
      return insert_study(tx, row);
    }).ok());
  }
  v1::ListStudiesRequest request;
  request.set_page_size(500);
  std::set<std::string> names;
  std::vector<int> sizes;
  do {
    v1::ListStudiesResponse response;
    ASSERT_TRUE(ask(daemon_->tuning, &v1::TuningService::Stub::ListStudies, request,
                    &response).ok());
    for (const v1::Study& study : response.studies()) names.insert(study.name());
    sizes.push_back(response.studies_size());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(sizes, (std::vector<int>{5, 5}));
  EXPECT_EQ(names.size(), 10u);
}

TEST_P(Reads, ASearchLooksThroughSomeSchedulesAtATime) {
  put_one();
  for (int64_t keys = 1; keys < 65'536; keys *= 2) {
    run("INSERT INTO keys (workload, target, backend, threads, cache, objective) "
        "SELECT workload, target, backend, threads + ?, cache, objective FROM keys", keys);
  }
  v1::ListSchedulesRequest request;
  request.set_search("nothing has this name");
  int pages = 0;
  do {
    v1::ListSchedulesResponse response;
    ASSERT_TRUE(ask(daemon_->schedules, &v1::ScheduleService::Stub::ListSchedules, request,
                    &response).ok());
    EXPECT_EQ(response.schedules_size(), 0);
    request.set_page_token(response.next_page_token());
    ASSERT_LT(++pages, 10);
  } while (!request.page_token().empty());
  EXPECT_EQ(pages, 4);                     // of 20,000
}

// Lists and look-ups have threads of their own: however many writers wait for a database that is
// busy, they are answered.
TEST_P(Reads, LookUpsAndListsDoNotWaitForWriters) {
  std::promise<void> locked, release;
  std::thread holder;
  if (GetParam() == std::string("sqlite")) {
    holder = std::thread([&] {
      EXPECT_TRUE(daemon_->database->write(5, [&](WriteTransaction& tx) {
        locked.set_value();
        release.get_future().wait();
        return absl::OkStatus();
      }).ok());
    });
  } else {                                 // there writers wait for locks of rows
    GTEST_SKIP() << "a writer holds up no other";
  }
  locked.get_future().wait();
  std::vector<std::thread> writers;
  for (int i = 0; i < 24; ++i) {
    writers.emplace_back([&] {
      v1::PutRecordsResponse response;
      const v1::PutRecordsRequest request = records_request();
      Daemon::call(*daemon_->schedules, &v1::ScheduleService::Stub::PutRecords, request, &response,
                   60).IgnoreError();
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // until they wait
  v1::BatchLookupRequest lookup;
  lookup.add_queries()->set_program(kMatmul);
  lookup.mutable_queries(0)->set_target_name("x86_avx2");
  v1::BatchLookupResponse found;
  EXPECT_TRUE(Daemon::call(*daemon_->schedules, &v1::ScheduleService::Stub::BatchLookup, lookup,
                           &found, 4).ok());
  v1::ListStudiesResponse listed;
  EXPECT_TRUE(Daemon::call(*daemon_->tuning, &v1::TuningService::Stub::ListStudies,
                           v1::ListStudiesRequest(), &listed, 4).ok());
  release.set_value();
  holder.join();
  for (std::thread& writer : writers) writer.join();
}

TEST_P(Reads, ABackupIsDigestedInPieces) {
  Sha256 hash;
  const std::string bytes(100'000, 'b');
  for (size_t at = 0; at < bytes.size(); at += 777) {
    hash.add(std::string_view(bytes).substr(at, 777));
  }
  EXPECT_EQ(hash.finish(), sha256(bytes));
  const std::filesystem::path folder = std::filesystem::path(scratch_.file).parent_path();
  ServiceOptions options = idle();
  options.backup_folder = folder;
  start(options);
  v1::BackupDatabaseRequest request;
  request.set_request_id(fresh_id());
  v1::BackupDatabaseResponse response, again;
  ASSERT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::BackupDatabase, request,
                  &response).ok());
  std::ifstream file(folder / response.file(), std::ios::binary);
  const std::string copy((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(response.bytes(), static_cast<int64_t>(copy.size()));
  EXPECT_EQ(response.sha256(), sha256(copy));
  ASSERT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::BackupDatabase, request, &again).ok());
  EXPECT_EQ(again.sha256(), response.sha256());
}

}  // namespace
}  // namespace lw
