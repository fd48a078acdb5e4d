// What a daemon tells those who keep records of their own: what was withdrawn; and what it makes of
// records of other versions that they bring.
#include <set>

#include "loopwright/client.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "tests/support/daemon_fixture.h"
#include "tuner_db/ladder/ladder.h"
#include "tuner_db/ladder/withdrawn_list.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

class ServiceWithdrawn : public ::testing::Test {
 protected:
  // A record of the key with one trace, which gives this kernel.
  v1::Record record(int trace, uint64_t kernel_hash, int extent = 64) const {
    v1::Record made;
    Measurement m = make_measurement(trace, {10.0 * trace, 10.0 * trace + 1});
    m.kernel_hash = kernel_hash;
    *made.mutable_key() = to_proto(key(extent));
    *made.mutable_measurement() = to_proto(m);
    *made.mutable_workload() = to_proto(make_workload(extent));
    *made.mutable_target() = to_proto(make_target());
    return made;
  }
  static Key key(int extent = 64) { return make_key(make_workload(extent), make_target()); }

  void put(const std::vector<v1::Record>& records) {
    v1::PutRecordsRequest request;
    v1::PutRecordsResponse response;
    request.set_request_id(fresh_id());
    for (const v1::Record& one : records) *request.add_records() = one;
    const absl::Status status =
        Daemon::call(*daemon_.schedules, &Schedules::PutRecords, request, &response);
    ASSERT_TRUE(status.ok()) << status;
  }
  v1::WithdrawnRecord withdraw(const Key& key, const std::string& trace) {
    v1::WithdrawRecordRequest request;
    request.set_request_id(fresh_id());
    *request.mutable_key() = to_proto(key);
    request.set_trace(trace);
    request.set_reason("wrong on odd inputs");
    v1::WithdrawnRecord response;
    const absl::Status status =
        Daemon::call(*daemon_.schedules, &Schedules::WithdrawRecord, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response;
  }
  void restore(const std::string& digest) {
    v1::RestoreRecordRequest request;
    request.set_request_id(fresh_id());
    request.set_digest(digest);
    v1::RestoreRecordResponse response;
    ASSERT_TRUE(
        Daemon::call(*daemon_.schedules, &Schedules::RestoreRecord, request, &response).ok());
  }
  v1::PollWithdrawnResponse poll(const std::string& etag = "") {
    v1::PollWithdrawnRequest request;
    request.set_etag(etag);
    v1::PollWithdrawnResponse response;
    EXPECT_TRUE(eventually([&] {           // it is read behind
      return Daemon::call(*daemon_.schedules, &Schedules::PollWithdrawn, request, &response).ok();
    }));
    return response;
  }
  v1::ListWithdrawnResponse list(const std::vector<Key>& keys, int page_size = 0,
                                 const std::string& token = "") {
    v1::ListWithdrawnRequest request;
    for (const Key& one : keys) *request.add_keys() = to_proto(one);
    request.set_page_size(page_size);
    request.set_page_token(token);
    v1::ListWithdrawnResponse response;
    const absl::Status status =
        Daemon::call(*daemon_.schedules, &Schedules::ListWithdrawn, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response;
  }

  using Schedules = v1::ScheduleService::Stub;
  Scratch scratch_;
  Daemon daemon_{scratch_.file};
};

TEST_F(ServiceWithdrawn, ThePollSaysWhatIsNew) {
  put({record(1, 71), record(2, 72)});
  const v1::PollWithdrawnResponse none = poll();
  EXPECT_TRUE(none.digests().empty() && !none.unchanged());
  EXPECT_TRUE(poll(none.etag()).unchanged());
  const v1::WithdrawnRecord out = withdraw(key(), make_trace(1));
  EXPECT_EQ(out.kernel_digest(), kernel_digest(key(), 71));
  const v1::PollWithdrawnResponse one = poll(none.etag());
  EXPECT_FALSE(one.unchanged());
  EXPECT_EQ(WithdrawnList::of_bytes(one.digests())->bytes(),
            WithdrawnList({out.digest(), out.kernel_digest()}).bytes());
  const v1::PollWithdrawnResponse same = poll(one.etag());
  EXPECT_TRUE(same.unchanged());
  EXPECT_TRUE(same.digests().empty()) << "what is known is not sent";

  // By another process on the same file.
  const std::unique_ptr<Store> other = *open_store(scratch_.file);
  ASSERT_TRUE(other->withdraw({key(), make_trace(2), "too", "", "db/me", 7}).ok());
  EXPECT_TRUE(eventually([&] { return !poll(one.etag()).unchanged(); }));
  ASSERT_TRUE(other->restore(key(), make_trace(2)).ok());
  EXPECT_TRUE(eventually([&] { return poll(one.etag()).unchanged(); }));
  restore(out.digest());
  EXPECT_TRUE(poll(none.etag()).unchanged());
}

// Whichever trace gives it, and whenever it is measured.
TEST_F(ServiceWithdrawn, AKernelIsGivenOutByNoTrace) {
  put({record(1, 71), record(2, 71), record(3, 73)});
  const auto served = [&] {
    v1::BatchLookupRequest request;
    v1::LookupQuery& query = *request.add_queries();
    query.set_workload_id(key().workload);
    *query.mutable_target() = to_proto(make_target());
    query.set_backend(key().backend);
    query.set_threads(key().threads);
    v1::BatchLookupResponse response;
    EXPECT_TRUE(
        Daemon::call(*daemon_.schedules, &Schedules::BatchLookup, request, &response).ok());
    return response.results(0).measurement().trace();
  };
  EXPECT_EQ(served(), make_trace(1));
  const std::string digest = withdraw(key(), make_trace(1)).digest();
  EXPECT_EQ(served(), make_trace(3));
  put({record(4, 71)});
  EXPECT_EQ(served(), make_trace(3));
  restore(digest);
  EXPECT_EQ(served(), make_trace(1));
}

TEST_F(ServiceWithdrawn, TheListIsOfSomeKeysAndInPages) {
  std::vector<v1::Record> records;
  for (int i = 1; i <= 5; ++i) records.push_back(record(i, 70 + i));
  records.push_back(record(1, 71, 128));
  put(records);
  std::set<std::string> digests;
  for (int i = 1; i <= 5; ++i) digests.insert(withdraw(key(), make_trace(i)).digest());
  const std::string other = withdraw(key(128), make_trace(1)).digest();
  EXPECT_EQ(list({}).records_size(), 6);
  ASSERT_EQ(list({key(128)}).records_size(), 1);
  EXPECT_EQ(list({key(128)}).records(0).digest(), other);
  EXPECT_EQ(list({key(256)}).records_size(), 0);
  std::set<std::string> seen;
  std::string token;
  do {
    const v1::ListWithdrawnResponse page = list({key()}, 2, token);
    EXPECT_LE(page.records_size(), 2);
    for (const v1::WithdrawnRecord& one : page.records()) {
      EXPECT_TRUE(seen.insert(one.digest()).second);
      EXPECT_EQ(one.reason(), "wrong on odd inputs");
    }
    token = page.next_page_token();
  } while (!token.empty());
  EXPECT_EQ(seen, digests);
}

// All the way: a compiler's cache of what the daemon said, and a build that asks nobody.
TEST_F(ServiceWithdrawn, WhatADaemonWithdrawsLeavesCaches) {
  const absl::StatusOr<Task> task =
      make_client_task("matmul M=64 N=64 K=64", {.target = "x86_avx2", .threads = 1});
  ASSERT_TRUE(task.ok());
  Search search(task->start(), SearchOptions(), make_draft_model());
  v1::Record made = record(1, 71);
  *made.mutable_key() = to_proto(task->key());
  *made.mutable_workload() = to_proto(task->workload());
  *made.mutable_target() = to_proto(*task->target());
  made.mutable_measurement()->set_trace(search.zero_trial()->text);
  put({made});
  ClientOptions options;
  options.server = daemon_.server->address();
  options.cache_folder = scratch_.directory + "/cache";
  options.deadline_ms = 30'000;
  options.withdrawn_fresh_s = options.miss_fresh_s = 0;
  options.on_miss = OnMiss::kNothing;
  const auto compiler = *ScheduleClient::open(options);
  ASSERT_EQ(compiler->lookup(*task)->answer.outcome, Rung::kExact);
  ClientOptions frozen;
  frozen.cache_folder = options.cache_folder;
  frozen.frozen = true;
  const auto build = *ScheduleClient::open(frozen);
  ASSERT_TRUE(build->lookup(*task).ok());
  const std::string digest = withdraw(task->key(), made.measurement().trace()).digest();
  EXPECT_TRUE(eventually([&] { return absl::IsNotFound(build->lookup(*task).status()); }));
  EXPECT_EQ(compiler->lookup(*task)->answer.outcome, Rung::kDefault);
  restore(digest);
  EXPECT_TRUE(eventually(
      [&] { return compiler->lookup(*task)->answer.outcome == Rung::kExact; }));
}

// ---- records of other versions

class ServiceImport : public ServiceWithdrawn {
 protected:
  absl::Status import(const std::vector<v1::ImportRecordsRequest>& messages,
                      v1::ImportRecordsResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stream = daemon_.schedules->ImportRecords(&context, response);
    for (const v1::ImportRecordsRequest& message : messages) {
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    return from_grpc(stream->Finish());
  }
};

TEST_F(ServiceImport, WhatThisVersionCannotReadIsSkippedWhereThatIsAskedFor) {
  v1::ImportRecordsRequest first, second;
  *first.add_records() = record(1, 71);
  v1::Record& step = *first.add_records() = record(2, 72);
  step.mutable_measurement()->set_trace("tile_again(C, i; 4)\n");
  v1::Record& verdict = *first.add_records() = record(3, 73);
  verdict.mutable_measurement()->set_verdict(static_cast<v1::Verdict>(77));
  v1::Record& word = *second.add_records() = record(4, 74);
  word.mutable_key()->set_objective("energy");
  v1::Record& field = *second.add_records() = record(5, 75);
  field.GetReflection()->MutableUnknownFields(&field)->AddVarint(1000, 1);
  v1::Record& again = *second.add_records() = record(6, 76);
  again.mutable_measurement()->set_trace("tile_again(C, i; 4)\n");
  v1::Record& nameless = *second.add_records() = record(7, 77, 256);
  nameless.clear_workload();
  *second.add_records() = record(8, 78);
  *second.add_records()->mutable_workload() = to_proto(make_workload(512));  // not measured yet

  // A client that does not ask for it could not say what was left out.
  v1::ImportRecordsResponse response;
  const absl::Status refused = import({first, second}, &response);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("records[1]"));

  first.set_skip_unknown(true), second.set_skip_unknown(true);
  const absl::Status status = import({first, second}, &response);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(response.read(), 9);
  EXPECT_EQ(response.stored(), 2);
  EXPECT_EQ(response.skipped(), 6);
  ASSERT_EQ(response.reasons_size(), 5);
  EXPECT_THAT(response.reasons(0).reason(), HasSubstr("tile_again"));
  EXPECT_EQ(response.reasons(0).count(), 2) << "of both messages";
  EXPECT_THAT(response.reasons(0).example(), HasSubstr("tile_again"));
  const std::unique_ptr<Store> store = *open_store(scratch_.file);
  EXPECT_EQ(store->stats()->measurements, 2);
  EXPECT_EQ(store->stats()->workloads, 2);

  // What is damaged is refused all the same.
  v1::ImportRecordsRequest damaged;
  damaged.set_skip_unknown(true);
  *damaged.add_records() = record(9, 79);
  damaged.mutable_records(0)->mutable_measurement()->set_time_us(1e6);
  EXPECT_TRUE(absl::IsInvalidArgument(import({damaged}, &response)));
}

}  // namespace
}  // namespace lw
