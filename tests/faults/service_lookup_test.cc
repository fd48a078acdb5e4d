// BatchLookup: by a program's text, by its identity alone, with and without adapting what was
// found.
#include <functional>

#include "cost_model/cost_model.h"
#include "gtest/gtest.h"
#include "loopwright/client.h"
#include "loopwright/v1/schedule.pb.h"
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/search/search.h"
#include "tests/support/fault_fixture.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

Task task_of(const std::string& words, const std::string& target = "x86_avx2") {
  absl::StatusOr<Task> task = make_client_task(words, {.target = target, .threads = 1});
  CHECK(task.ok());
  return *std::move(task);
}

v1::LookupQuery by_program(const Task& task) {
  v1::LookupQuery query;
  query.set_program(print(*task.program()));
  *query.mutable_target() = to_proto(*task.target());
  query.set_threads(1);
  return query;
}

v1::LookupQuery by_identity(const Task& task) {
  v1::LookupQuery query;
  query.set_workload_id(task.key().workload);
  query.set_family(task.workload().structure);
  query.mutable_shape()->Assign(task.workload().shape.begin(), task.workload().shape.end());
  *query.mutable_target() = to_proto(*task.target());
  query.set_threads(1);
  return query;
}

class ServiceLookup : public ::testing::Test {
 protected:
  // Of the task `stored` what zero trials find, as if it had been measured.
  void SetUp() override {
    Search search(stored_.start(), SearchOptions(), make_draft_model());
    v1::PutRecordsRequest put;
    put.set_request_id("1");
    v1::Record& record = *put.add_records();
    *record.mutable_workload() = to_proto(stored_.workload());
    *record.mutable_target() = to_proto(*stored_.target());
    *record.mutable_key() = to_proto(stored_.key());
    Measurement measurement = make_measurement(1, {10, 10, 10});
    measurement.trace = trace_ = search.zero_trial()->text;
    *record.mutable_measurement() = to_proto(measurement);
    v1::PutRecordsResponse response;
    const absl::Status status = service_->schedules.put_records(local_caller(), put, &response);
    ASSERT_TRUE(status.ok()) << status;
  }

  absl::StatusOr<v1::BatchLookupResponse> look_up(const std::vector<v1::LookupQuery>& queries,
                                                  bool adapt = false) {
    v1::BatchLookupRequest request;
    request.set_adapt(adapt);
    for (const v1::LookupQuery& query : queries) *request.add_queries() = query;
    v1::BatchLookupResponse response;
    RETURN_IF_ERROR(service_->schedules.batch_lookup(local_caller(), request, &response));
    return response;
  }

  const Task stored_ = task_of("matmul M=64 N=64 K=64");
  const Task neighbour_ = task_of("matmul M=96 N=48 K=64");
  std::string trace_;
  Scratch scratch_;
  std::unique_ptr<Service> service_ = *Service::start(*open_sqlite(scratch_.file, {}),
                                                      quick_service());
};

TEST_F(ServiceLookup, TheIdentityFindsWhatTheProgramFinds) {
  const auto found = look_up({by_program(stored_), by_identity(stored_), by_program(neighbour_),
                              by_identity(neighbour_)});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->results(0).outcome(), v1::LOOKUP_OUTCOME_EXACT);
  EXPECT_EQ(found->results(2).outcome(), v1::LOOKUP_OUTCOME_NEAREST_SHAPE);
  EXPECT_GT(found->results(2).distance(), 0);
  for (int i : {0, 2}) {
    EXPECT_EQ(found->results(i).SerializeAsString(), found->results(i + 1).SerializeAsString());
  }
}

TEST_F(ServiceLookup, WithoutAFamilyAnUnknownIdHasNoNeighbours) {
  v1::LookupQuery query = by_identity(neighbour_);
  query.clear_family();
  query.clear_shape();
  const auto found = look_up({query});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->results(0).outcome(), v1::LOOKUP_OUTCOME_NOT_FOUND);
}

TEST_F(ServiceLookup, ATraceIsAdaptedOnlyWhenAsked) {
  v1::LookupQuery query = by_program(neighbour_);
  const auto as_stored = look_up({query});
  const auto adapted = look_up({query}, true);
  ASSERT_TRUE(as_stored.ok() && adapted.ok());
  EXPECT_EQ(as_stored->results(0).trace(), trace_);
  EXPECT_EQ(adapted->results(0).outcome(), v1::LOOKUP_OUTCOME_NEAREST_SHAPE);
  const auto trace = parse_trace(adapted->results(0).trace());
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_TRUE(replay(neighbour_.start(), *trace).ok());
}

// The targets of a batch are read once where they repeat, and are not mixed up where they do not.
TEST_F(ServiceLookup, EachQueryOfABatchHasItsOwnTarget) {
  const Task other = task_of("matmul M=64 N=64 K=64", "x86_avx512");
  const auto found = look_up({by_identity(stored_), by_identity(other), by_identity(stored_)});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->results(0).outcome(), v1::LOOKUP_OUTCOME_EXACT);
  EXPECT_NE(found->results(1).outcome(), v1::LOOKUP_OUTCOME_EXACT);
  EXPECT_EQ(found->results(2).outcome(), v1::LOOKUP_OUTCOME_EXACT);
}

// Looking up never blocks a build.
TEST_F(ServiceLookup, AMissIsAnAnswer) {
  v1::LookupQuery elsewhere = by_identity(stored_), foreign = by_program(stored_);
  elsewhere.clear_target();
  elsewhere.set_target_id(std::string(64, 'a'));
  foreign.set_workload_id(neighbour_.key().workload);
  const auto found = look_up({elsewhere, foreign, by_identity(stored_)});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->results(0).outcome(), v1::LOOKUP_OUTCOME_NOT_FOUND);
  EXPECT_NE(found->results(0).detail().find("target_id"), std::string::npos);
  EXPECT_EQ(found->results(1).outcome(), v1::LOOKUP_OUTCOME_NOT_FOUND);
  EXPECT_NE(found->results(1).detail().find(stored_.key().workload), std::string::npos);
  EXPECT_EQ(found->results(2).outcome(), v1::LOOKUP_OUTCOME_EXACT);
}

TEST_F(ServiceLookup, WordsThatNeverMatchAreRefused) {
  const std::function<void(v1::LookupQuery*)> cases[] = {
      [](auto* q) { q->set_workload_id("zz"); }, [](auto* q) { q->set_target_id("zz"); },
      [](auto* q) { q->set_cache("x"); }, [](auto* q) { q->set_objective("energy"); },
      [](auto* q) { q->set_backend(std::string(1000, 'b')); }};
  for (const auto& spoil : cases) {
    v1::LookupQuery query = by_identity(stored_);
    spoil(&query);
    const absl::Status status = look_up({query}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << query.ShortDebugString();
  }
}

TEST_F(ServiceLookup, RecordsThatAreUnfitAreRefused) {
  v1::PutRecordsRequest good;
  v1::Record& record = *good.add_records();
  *record.mutable_workload() = to_proto(stored_.workload());
  *record.mutable_target() = to_proto(*stored_.target());
  *record.mutable_key() = to_proto(stored_.key());
  Measurement measurement = make_measurement(1, {10, 10, 10});
  measurement.trace = trace_;
  *record.mutable_measurement() = to_proto(measurement);
  const std::function<void(v1::Record*)> cases[] = {
      [](auto* r) { r->mutable_measurement()->set_environment("{"); },
      [](auto* r) { r->mutable_measurement()->set_unix_ms(int64_t{1} << 60); },
      [](auto* r) { r->mutable_measurement()->set_source(std::string(1 << 20, 's')); },
      [](auto* r) { r->mutable_key()->set_objective("joy"); },
      [](auto* r) { r->mutable_key()->set_backend(std::string(100'000, 'b')); }};
  v1::PutRecordsResponse response;
  for (const auto& spoil : cases) {
    v1::PutRecordsRequest put = good;
    put.set_request_id(std::to_string(&spoil - cases));
    spoil(put.mutable_records(0));
    EXPECT_EQ(service_->schedules.put_records(local_caller(), put, &response).code(),
              absl::StatusCode::kInvalidArgument) << &spoil - cases;
  }
  good.set_request_id("good");
  good.mutable_records(0)->mutable_measurement()->set_detail(std::string(3 << 20, 'd'));
  EXPECT_TRUE(service_->schedules.put_records(local_caller(), good, &response).ok());
}

TEST_F(ServiceLookup, WhatIsWrongIsNamed) {
  v1::LookupQuery shapeless = by_identity(stored_), nothing = by_identity(stored_);
  shapeless.set_shape(1, 0);
  nothing.clear_workload_id();
  const std::pair<v1::LookupQuery, const char*> cases[] = {{shapeless, "queries[1].shape"},
                                                           {nothing, "queries[1].program"}};
  for (const auto& [query, field] : cases) {
    const absl::Status status = look_up({by_identity(stored_), query}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.ToString().find(field), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace lw
