#include "src/client/grpc_source.h"

#include <chrono>

#include "loopwright/v1/schedule.grpc.pb.h"
#include "src/base/check.h"
#include "tuner_db/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kMostQueries = 1000;  // of a message, as the server says

v1::LookupQuery to_query(const LookupRequest& request) {
  v1::LookupQuery out;
  out.set_workload_id(request.key.workload);
  out.set_family(request.family);
  out.mutable_shape()->Assign(request.shape.begin(), request.shape.end());
  if (request.target != nullptr)
    *out.mutable_target() = to_proto(*request.target);
  else
    out.set_target_id(request.key.target);
  out.set_backend(request.key.backend);
  out.set_threads(request.key.threads);
  out.set_cache(request.key.cache);
  out.set_objective(request.key.objective);
  return out;
}

// None for a default: this side has its own. kInvalidArgument for what does not add up.
absl::StatusOr<std::vector<Match>> to_candidates(const v1::LookupResult& result) {
  Match candidate;
  switch (result.outcome()) {
    case v1::LOOKUP_OUTCOME_EXACT: candidate.rung = Rung::kExact; break;
    case v1::LOOKUP_OUTCOME_LOOSE: candidate.rung = Rung::kLoose; break;
    case v1::LOOKUP_OUTCOME_NEAREST_SHAPE: candidate.rung = Rung::kNearestShape; break;
    case v1::LOOKUP_OUTCOME_NEAREST_TARGET: candidate.rung = Rung::kNearestTarget; break;
    default: return std::vector<Match>();
  }
  ASSIGN_OR_RETURN(const Measurement measurement, from_proto(result.measurement()));
  if (!measurement.verified) return absl::InvalidArgumentError("a record is not verified");
  WorkloadRow workload;
  workload.name = workload.source_words = result.workload_name();
  candidate.distance = result.distance();
  candidate.stale = candidate.rung == Rung::kLoose;
  candidate.record = std::make_shared<const ScheduleRecord>(
      make_record(workload, {from_proto(result.key()), measurement}));
  return std::vector<Match>{std::move(candidate)};
}

class GrpcSource : public ScheduleSource {
 public:
  explicit GrpcSource(ServerAddress server) : server_(std::move(server)) {}

  absl::Status connect() {
    if (stub_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, open_channel(server_));
    channel->GetState(/*try_to_connect=*/true);
    stub_ = v1::ScheduleService::NewStub(channel);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::vector<Match>>> batch_lookup(
      absl::Span<const LookupRequest> queries, int deadline_ms) override {
    RETURN_IF_ERROR(connect());
    std::vector<std::vector<Match>> found;
    const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms);
    for (size_t begin = 0; begin < queries.size(); begin += kMostQueries) {
      v1::BatchLookupRequest request;
      request.set_worst(v1::LOOKUP_OUTCOME_NEAREST_TARGET);
      const auto some = queries.subspan(begin, kMostQueries);
      for (const LookupRequest& query : some) *request.add_queries() = to_query(query);
      v1::BatchLookupResponse response;
      grpc::ClientContext context;
      context.set_deadline(deadline);
      const grpc::Status status = stub_->BatchLookup(&context, request, &response);
      if (!status.ok()) return absl::UnavailableError(status.error_message());
      if (response.results_size() != request.queries_size()) {
        return absl::UnavailableError("the server answered another number of queries");
      }
      for (int i = 0; i < response.results_size(); ++i) {
        ASSIGN_OR_RETURN(std::vector<Match> candidates, to_candidates(response.results(i)));
        const Key& asked = some[static_cast<size_t>(i)].key;
        const bool exact = !candidates.empty() && candidates[0].rung == Rung::kExact;
        if (exact && !(candidates[0].record->key == asked)) {
          return absl::UnavailableError("the server answered another key");
        }
        found.push_back(std::move(candidates));
      }
    }
    return found;
  }

 private:
  const ServerAddress server_;
  std::unique_ptr<v1::ScheduleService::Stub> stub_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ScheduleSource>> make_grpc_source(const ServerAddress& server) {
  RETURN_IF_ERROR(check_server(server));
  auto source = std::make_shared<GrpcSource>(server);
  // On the way while the caller prepares its first question. What fails now is tried again by that.
  source->connect().IgnoreError();
  return source;
}

}  // namespace lw
