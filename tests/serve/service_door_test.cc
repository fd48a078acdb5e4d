// What records must be to be taken in, whoever sends them: of a workload that is what its text says, at
// times that its target reaches, with traces that apply.
#include "absl/strings/str_replace.h"
#include "loopwright/client.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/serve/studies/door.h"
#include "tests/serve/study_fixture.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/workload_row.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

class ServiceDoor : public StudyTest {
 protected:
  const Caller boss_ = caller(CallerRole::kAdmin, "boss"),
               client_ = caller(CallerRole::kClient, "ci");

  // A record of the trace `i`, so fast; whole.
  static v1::Record record(int i, double us, const WorkloadRow& workload = make_workload(64)) {
    v1::Record made;
    *made.mutable_key() = to_proto(make_key(workload, make_target()));
    *made.mutable_measurement() = to_proto(make_measurement(i, {us, us, us}));
    *made.mutable_workload() = to_proto(workload);
    *made.mutable_target() = to_proto(make_target());
    return made;
  }
  absl::Status put(const Caller& who, const std::vector<v1::Record>& records) {
    v1::PutRecordsRequest request;
    request.set_request_id(fresh_id());
    for (const v1::Record& one : records) *request.add_records() = one;
    stored_.Clear();
    return daemon_.service->schedules.put_records(who, request, &stored_);
  }
  absl::Status import(const Caller& who, const std::vector<v1::Record>& records) {
    v1::ImportRecordsRequest request;
    for (const v1::Record& one : records) *request.add_records() = one;
    imported_.Clear();
    return daemon_.service->schedules.import_some(who, request, &imported_);
  }

  double served() { return StudyTest::served(daemon_, key_); }
  int64_t count(const std::string& where) {
    return number(*daemon_.database, "SELECT count(*) FROM measurements WHERE " + where);
  }

  Scratch scratch_;
  Daemon daemon_{scratch_.file};
  const Key key_ = make_key(make_workload(64), make_target());
  v1::PutRecordsResponse stored_;
  v1::ImportRecordsResponse imported_;
};

TEST_F(ServiceDoor, TimesThatNoTargetReachesAreKeptAnnulled) {
  ASSERT_TRUE(put(boss_, {record(1, 40)}).ok());
  ASSERT_TRUE(eventually([&] { return served() == 40; }));
  v1::Record forged = record(2, 1e-6);
  forged.mutable_measurement()->set_actor("agent/rogue");
  forged.mutable_measurement()->set_device("rogue-0");
  absl::Status status = put(boss_, {forged, record(3, 50)});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(stored_.stored(), 2);
  EXPECT_EQ(stored_.impossible(), 1);
  EXPECT_EQ(stored_.unchecked(), 0);
  EXPECT_EQ(served(), 40);
  EXPECT_EQ(count("annulled LIKE '%impossible time: 1e-06 us%' AND device = 'rogue-0'"), 1);
  EXPECT_EQ(number(*daemon_.database, "SELECT count(*) FROM audit WHERE actor = 'admin/boss' AND "
                                      "subject LIKE '%1 with impossible times'"), 1);
  EXPECT_THAT(daemon_.service->core->metrics.text(),
              HasSubstr("loopwright_doubts_total{kind=\"impossible\"} 1"));
  // An importer's and a client's too, which nobody is sent to measure either.
  ASSERT_TRUE(import(caller(CallerRole::kImporter, "nightly"), {record(4, 1e-5)}).ok());
  EXPECT_EQ(imported_.impossible(), 1);
  ASSERT_TRUE(put(client_, {record(5, 1e-5)}).ok());
  EXPECT_EQ(stored_.impossible(), 1);
  EXPECT_EQ(served(), 40);
  EXPECT_EQ(count("annulled <> ''"), 3);
}

// Threads and instructions raise what a target may do; what the same time is impossible for is not
// impossible for that.
TEST_F(ServiceDoor, TheBoundIsThatOfTheKey) {
  v1::Record one = record(1, 0.7);
  one.mutable_key()->set_threads(1);       // 0.52 GFLOP in 1.02 us at most
  ASSERT_TRUE(put(boss_, {one, record(1, 0.7)}).ok());
  EXPECT_EQ(stored_.impossible(), 1);
  v1::Record winograd = record(2, 0.2);    // a quarter of the products
  winograd.mutable_key()->set_objective("time+winograd");
  ASSERT_TRUE(put(boss_, {winograd}).ok());
  EXPECT_EQ(stored_.impossible(), 0);
  Target many = make_target("x86_many");
  many.atoms[0].per_cycle = 100;
  v1::Record fast = record(1, 0.1);
  *fast.mutable_target() = to_proto(many);
  fast.mutable_key()->set_target(sha256(to_text(many)));
  ASSERT_TRUE(put(boss_, {fast}).ok());
  EXPECT_EQ(stored_.impossible(), 0);
}

// Nobody here can say what applies to a machine of a later version's family.
TEST_F(ServiceDoor, OfAnUnknownMachineNothingIsConfirmed) {
  const Target toy = *read_target(R"({"name": "toy4", "family": "toy", "units": 8})");
  v1::Record one = record(1, 40);
  *one.mutable_target() = to_proto(toy);
  one.mutable_key()->set_target(sha256(to_text(toy)));
  const absl::Status status = put(boss_, {one});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(stored_.stored(), 1);
  EXPECT_EQ(stored_.unchecked(), 1);
}

// Steps read what only machines of their family have.
TEST_F(ServiceDoor, AScheduleForAnotherFamilyIsRefused) {
  const Target npu = *find_target("npu_mid32");
  v1::Record one = record(1, 40);
  *one.mutable_target() = to_proto(npu);
  one.mutable_key()->set_target(sha256(to_text(npu)));
  one.mutable_measurement()->set_trace("register_tile(C, i, j; 4, 8)\n");
  const absl::Status status = put(boss_, {one});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("that compute in registers, not npu"));
}

TEST_F(ServiceDoor, ATraceThatDoesNotApplyIsRefusedWithItsNumber) {
  v1::Record unfit = record(1, 30);
  for (const char* trace : {"split(Z, i; 2, 0)\n", "split(C, q; 2, 0)\n", "inline_producer(C)\n",
                            "split(C, i; 0, 0)\n"}) {
    unfit.mutable_measurement()->set_trace(trace);
    for (bool imports : {false, true}) {
      const std::vector<v1::Record> records = {record(1, 40), record(2, 35), unfit};
      const absl::Status status = imports ? import(boss_, records) : put(boss_, records);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << trace;
      EXPECT_EQ(bad_field_of(status), "records[2].measurement.trace") << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("does not apply"));
    }
  }
  EXPECT_EQ(count("1 = 1"), 0) << "all or none";
  // What was withdrawn where it comes from leads nothing here either.
  v1::Record withdrawn = unfit;
  withdrawn.mutable_withdrawal()->set_reason("does not replay");
  ASSERT_TRUE(import(boss_, {withdrawn}).ok());
  EXPECT_EQ(served(), 0);
  // What leads nothing may be anything: a failure, what is not verified, a client's hint.
  v1::Record unverified = unfit;
  unverified.mutable_measurement()->set_verified(false);
  v1::Record failure = unfit;
  *failure.mutable_measurement() = to_proto(make_failure(1, Verdict::kBuildError));
  failure.mutable_measurement()->set_trace(unfit.measurement().trace());
  ASSERT_TRUE(put(boss_, {unverified, failure}).ok());
  ASSERT_TRUE(put(client_, {unfit}).ok());
  EXPECT_EQ(served(), 0);
}

// Whoever names a workload first decides nothing of it.
TEST_F(ServiceDoor, AWorkloadIsWhatItsTextSays) {
  const WorkloadRow right = make_workload(64);
  WorkloadRow wrong = right;
  wrong.structure = sha256("another"), wrong.shape = {1}, wrong.flops = 1, wrong.bytes = 1e12;
  wrong.name = "evil";
  ASSERT_TRUE(put(client_, {record(1, 50, wrong)}).ok());
  const std::unique_ptr<Store> store = make_store(daemon_.database);
  WorkloadRow now = *store->workload(right.id);
  EXPECT_EQ(now.structure, right.structure);
  EXPECT_EQ(now.shape, right.shape);
  EXPECT_EQ(now.flops, right.flops);
  EXPECT_EQ(now.bytes, right.bytes);
  EXPECT_EQ(now.name, right.name) << "its program says it";
  // A row of before, as whoever came first left it: an honest put heals it.
  ASSERT_TRUE(daemon_.database->write(5, [&](WriteTransaction& tx) {
    return tx.query("UPDATE workloads SET family = 'x', shape = '1', flops = 1.0, "
                    "program = ''").run();
  }).ok());
  EXPECT_FALSE(store->check()->empty());
  ASSERT_TRUE(put(boss_, {record(1, 50)}).ok());
  now = *store->workload(right.id);
  EXPECT_EQ(now.structure, right.structure);
  EXPECT_EQ(now.shape, right.shape);
  EXPECT_EQ(now.program, right.program);
  EXPECT_TRUE(store->check()->empty());

  WorkloadRow none = right;
  none.canonical_text = "loopwright expression 1\nanything\n";
  none.id = sha256(none.canonical_text);
  absl::Status status = put(client_, {record(1, 50), record(1, 50, none)});
  EXPECT_EQ(bad_field_of(status), "records[1].workload") << status;
  WorkloadRow other = right;
  other.program = make_workload(65).program;
  status = import(boss_, {record(1, 50, other)});
  EXPECT_EQ(bad_field_of(status), "records[0].workload") << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another workload's"));
}

// Traces name tensors and axes, which a canonical text does not.
TEST_F(ServiceDoor, WithoutItsProgramNobodyCanSayWhetherATraceApplies) {
  WorkloadRow bare = make_workload(64);
  bare.program.clear();
  bare.source_words = "my.te:matmul M=64";
  ASSERT_TRUE(put(boss_, {record(1, 40, bare)}).ok());
  EXPECT_EQ(stored_.unchecked(), 1);
  EXPECT_EQ(served(), 0);
  EXPECT_EQ(count("counts = 0 AND actor = 'admin/boss'"), 1);
  ASSERT_TRUE(put(boss_, {record(1, 40)}).ok());  // with it: it is the same measurement
  EXPECT_EQ(stored_.unchecked(), 0);
  EXPECT_EQ(stored_.stored(), 1);
  EXPECT_EQ(count("1 = 1"), 1);
  EXPECT_TRUE(eventually([&] { return served() == 40; }));
  ASSERT_TRUE(put(boss_, {record(2, 30, bare)}).ok());  // known by now
  EXPECT_EQ(stored_.unchecked(), 0);
  EXPECT_TRUE(eventually([&] { return served() == 30; }));
  // The library's operators everybody knows.
  WorkloadRow library = workload_row(*load_workload({"matmul M=32 N=48 K=40"}),
                                     "matmul M=32 N=48 K=40");
  library.program.clear();
  v1::Record one = record(1, 40, library);
  ASSERT_TRUE(put(boss_, {one}).ok());
  EXPECT_EQ(stored_.unchecked(), 0);
  one.mutable_measurement()->set_trace("split(Z, i; 2, 0)\n");
  EXPECT_EQ(bad_field_of(put(boss_, {one})), "records[0].measurement.trace");
}

// A chain whose inlined tree is exponential, inlined as a whole: taken or refused, in bounded time.
TEST_F(ServiceDoor, NoProgramHoldsItUp) {
  std::string text = "op chain() {\n  in A: f32[64]\n";
  for (int i = 0; i < 900; ++i) {
    text += absl::StrCat("  t", i, "[i: 64] = ", i == 0 ? "A" : absl::StrCat("t", i - 1), "[i] + ",
                         i == 0 ? "A" : absl::StrCat("t", i - 1), "[i]\n");
  }
  text += "  out D[i: 64] = t899[i] * t899[i]\n}\n";
  const absl::StatusOr<Program> program = parse_program(text, "chain");
  ASSERT_TRUE(program.ok()) << program.status();
  v1::Record slow = record(1, 40, workload_row(*program, "chain"));
  std::string trace;
  for (int i = 0; i < 900; ++i) trace += absl::StrCat("inline_producer(t", i, ")\n");
  slow.mutable_measurement()->set_trace(trace);
  const auto begun = std::chrono::steady_clock::now();
  put(boss_, {slow}).IgnoreError();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
  // Whoever hangs up is not waited for.
  Caller gone = boss_;
  gone.stop = Stop::on_request();
  gone.stop.request();
  EXPECT_EQ(put(gone, {record(1, 40)}).code(), absl::StatusCode::kCancelled);
}

// As an older daemon left it: the best does not apply. Over the wire, to a client that has the program.
TEST_F(ServiceDoor, AnOldStoresBestThatDoesNotApplyGivesWayToTheNext) {
  const absl::StatusOr<Task> task =
      make_client_task("matmul M=32 N=48 K=40", {.target = "x86_avx2", .threads = 1});
  ASSERT_TRUE(task.ok()) << task.status();
  const std::unique_ptr<Store> store = make_store(daemon_.database);
  ASSERT_TRUE(put_task(*store, *task).ok());
  std::vector<Measurement> rows = {make_measurement(1, {10, 10, 10}),
                                   make_measurement(2, {20, 20, 20}),
                                   make_measurement(3, {30, 30, 30})};
  rows[0].trace = "split(Z, i; 2, 0)\n", rows[1].trace = "split(C, q; 2, 0)\n";
  ASSERT_TRUE(store->append(task->key(), rows).ok());
  ClientOptions options;
  options.server = daemon_.server->address();
  options.deadline_ms = 30'000;
  const auto client = ScheduleClient::open(options);
  ASSERT_TRUE(client.ok());
  absl::StatusOr<ClientAnswer> answer = absl::NotFoundError("");
  ASSERT_TRUE(eventually([&] {             // the index is read behind
    answer = (*client)->lookup(*task);
    return answer.ok() && answer->answer.outcome == Rung::kExact;
  })) << answer.status();
  EXPECT_EQ(answer->answer.trace, make_trace(3));
  EXPECT_EQ(answer->answer.record->time_us, 30);
  EXPECT_EQ(answer->origin, "server");
  // And where the daemon adapts to the program itself.
  v1::BatchLookupRequest request;
  request.set_adapt(true);
  request.set_worst(v1::LOOKUP_OUTCOME_DEFAULT);
  v1::LookupQuery& query = *request.add_queries();
  query.set_program(print(*task->program()));
  query.set_target_name("x86_avx2");
  query.set_threads(1);
  v1::BatchLookupResponse response;
  ASSERT_TRUE(daemon_.service->schedules.batch_lookup(boss_, request, &response).ok());
  EXPECT_EQ(response.results(0).outcome(), v1::LOOKUP_OUTCOME_EXACT);
}

TEST(Remembered, TheOldestGo) {
  Remembered<int> values(1000);
  for (int i = 0; i < 100; ++i) values.put(absl::StrCat("key", i), i, 10);
  EXPECT_FALSE(values.find("key0").has_value());
  EXPECT_EQ(values.find("key99"), 99);
  values.put("key99", 7, 10);
  EXPECT_EQ(values.find("key99"), 99) << "what was found stays";
}

}  // namespace
}  // namespace lw
