#include "src/cli/service/lookup.h"

#include <algorithm>

#include "loopwright/program.h"
#include "loopwright/v1/schedule.grpc.pb.h"
#include "src/api/task.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kQueries = 1000;             // of a call

}  // namespace

bool is_there(const v1::LookupResult& result) {
  return result.outcome() != v1::LOOKUP_OUTCOME_NOT_FOUND &&
         result.outcome() != v1::LOOKUP_OUTCOME_UNSPECIFIED;
}

absl::StatusOr<v1::Key> key_of_workload(const RemoteService& service,
                                        const WorkloadOptions& workload,
                                        const std::string& cache) {
  ASSIGN_OR_RETURN(const std::vector<Asked> asked, asked_workloads(workload, ""));
  ASSIGN_OR_RETURN(const std::vector<v1::LookupResult> found,
                   look_up_remotely(service, asked, cache, v1::LOOKUP_OUTCOME_LOOSE));
  if (is_there(found[0])) return found[0].key();
  // With nothing verified the key itself may still have failures.
  Key key = asked[0].task.key();
  key.cache = cache;
  return to_proto(key);
}

absl::StatusOr<std::vector<v1::LookupResult>> look_up_remotely(const RemoteService& service,
                                                               const std::vector<Asked>& asked,
                                                               const std::string& cache,
                                                               v1::LookupOutcome worst) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, service.connect());
  const auto stub = v1::ScheduleService::NewStub(channel);
  std::vector<v1::LookupResult> results;
  for (size_t begin = 0; begin < asked.size(); begin += kQueries) {
    v1::BatchLookupRequest request;
    request.set_adapt(true);
    request.set_worst(worst);
    for (size_t i = begin; i < std::min(asked.size(), begin + kQueries); ++i) {
      const Task& task = asked[i].task;
      v1::LookupQuery& query = *request.add_queries();
      query.set_program(print(*task.program()));
      *query.mutable_target() = to_proto(*task.target());
      query.set_backend(task.key().backend);
      query.set_threads(task.threads());
      query.set_cache(cache);
      query.set_objective(task.key().objective);
    }
    v1::BatchLookupResponse response;
    RETURN_IF_ERROR(service.call(kCallSeconds, [&](grpc::ClientContext& context) {
      return stub->BatchLookup(&context, request, &response);
    }));
    if (response.results_size() != request.queries_size()) {
      return environment(absl::UnavailableError("the server answered another number of queries"));
    }
    for (v1::LookupResult& result : *response.mutable_results()) {
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace lw
