// The client over the wire: ScheduleService.BatchLookup of a server in this process.
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <set>

#include "gtest/gtest.h"
#include "loopwright/client.h"
#include "loopwright/v1/schedule.grpc.pb.h"
#include "src/api/task.h"
#include "src/client/grpc/grpc_source.h"
#include "src/search/search.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

// Knows one task's schedule, and the nearest for every other.
class FakeService : public v1::ScheduleService::Service {
 public:
  Key key;
  Measurement measurement;
  std::vector<v1::BatchLookupRequest> requests;
  std::set<std::string> unread;  // workloads whose record no client can read
  bool lies = false;  // another key under the name of an exact answer

  grpc::Status BatchLookup(grpc::ServerContext*, const v1::BatchLookupRequest* request,
                           v1::BatchLookupResponse* response) override {
    requests.push_back(*request);
    for (const v1::LookupQuery& query : request->queries()) {
      v1::LookupResult* result = response->add_results();
      const bool exact = lies || query.workload_id() == key.workload;
      result->set_outcome(exact ? v1::LOOKUP_OUTCOME_EXACT : v1::LOOKUP_OUTCOME_NEAREST_SHAPE);
      result->set_distance(exact ? 0 : 0.7);
      *result->mutable_key() = to_proto(key);
      *result->mutable_measurement() = to_proto(measurement);
      if (unread.contains(query.workload_id())) {
        result->mutable_measurement()->set_trace("a_step_of_next_year(C, i; 4)");
        result->mutable_measurement()->set_verified(false);
      }
      result->set_workload_name("matmul");
    }
    return grpc::Status::OK;
  }
};

class GrpcClient : public testing::Test {
 protected:
  GrpcClient() {
    Search search(task_.start(), SearchOptions(), make_draft_model());
    service_.key = task_.key();
    service_.measurement = make_measurement(1, {10, 10, 10});
    service_.measurement.trace = search.zero_trial()->text;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ClientOptions options;
    options.server = absl::StrCat("127.0.0.1:", port_);
    options.deadline_ms = 30'000;
    client_ = *ScheduleClient::open(options);
  }

  static Task task_of(const std::string& words) {
    absl::StatusOr<Task> task = make_client_task(words, {.target = "x86_avx2", .threads = 1});
    CHECK(task.ok());
    return *std::move(task);
  }

  Task task_ = task_of("matmul M=64 N=64 K=64");
  FakeService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ScheduleClient> client_;
};

TEST_F(GrpcClient, ABatchIsOneRequest) {
  const std::vector<Task> tasks = {task_, task_of("matmul M=32 N=64 K=64")};
  const auto answers = client_->lookup(tasks);
  ASSERT_TRUE(answers[0].ok() && answers[1].ok());
  EXPECT_EQ(answers[0]->answer.outcome, Rung::kExact);
  EXPECT_EQ(answers[0]->origin, "server");
  EXPECT_EQ(answers[0]->answer.record->time_us, 10);
  EXPECT_EQ(answers[1]->answer.outcome, Rung::kNearestShape);
  EXPECT_EQ(answers[1]->answer.distance, 0.7);
  EXPECT_NE(answers[1]->answer.kernel, nullptr);  // adapted here
  ASSERT_EQ(service_.requests.size(), 1u);
  EXPECT_EQ(service_.requests[0].queries_size(), 2);
  EXPECT_EQ(service_.requests[0].queries(0).threads(), 1);
  // All that the ladder needs: the server parses no program.
  EXPECT_EQ(service_.requests[0].queries(1).family(), tasks[1].workload().structure);
  EXPECT_EQ(service_.requests[0].queries(1).shape_size(),
            static_cast<int>(tasks[1].workload().shape.size()));
}

// An older compiler beside a newer database.
TEST_F(GrpcClient, ARecordThatCannotBeReadIsAMissOfItsOwn) {
  const std::vector<Task> tasks = {task_of("matmul M=32 N=64 K=64"), task_};
  service_.unread = {tasks[0].key().workload};
  for (int i = 0; i < 5; ++i) {
    const auto answers = client_->lookup(tasks);
    ASSERT_TRUE(answers[0].ok() && answers[1].ok());
    EXPECT_EQ(answers[0]->answer.outcome, Rung::kDefault);
    EXPECT_EQ(answers[1]->answer.outcome, Rung::kExact);
  }
  EXPECT_EQ(client_->stats().remote.failures, 0);
  EXPECT_FALSE(client_->stats().remote.open);
}

TEST_F(GrpcClient, AnAnswerForAnotherKeyIsAFailure) {
  service_.lies = true;
  const absl::StatusOr<ClientAnswer> answer = client_->lookup(task_of("matmul M=32 N=64 K=64"));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->answer.outcome, Rung::kDefault);
  EXPECT_EQ(client_->stats().remote.failures, 1);
}

}  // namespace
}  // namespace lw
