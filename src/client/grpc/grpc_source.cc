#include "src/client/grpc/grpc_source.h"

#include <chrono>
#include <mutex>
#include <optional>

#include "absl/functional/function_ref.h"
#include "loopwright/v1/schedule.grpc.pb.h"
#include "src/base/check.h"
#include "src/client/server_source.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

// Of a message: an answer of four whole records is about 20 KB, a server takes 1,000.
constexpr int kMostQueries = 250;

v1::LookupQuery to_query(const LookupRequest& request) {
  v1::LookupQuery out;
  out.set_workload_id(request.key.workload);
  out.set_family(request.structure);
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

// The one record of a server that sends none whole: of its workload no more is known than the words.
absl::StatusOr<Match> to_lone_match(const v1::LookupResult& result, Rung rung) {
  ASSIGN_OR_RETURN(const Measurement measurement, from_proto(result.measurement()));
  if (!measurement.verified) return absl::InvalidArgumentError("a record is not verified");
  ScheduleRecord record = make_record({}, {from_proto(result.key()), measurement, {}});
  record.source_words = result.workload_name();
  return Match{rung, result.distance(), rung == Rung::kLoose,
               std::make_shared<const ScheduleRecord>(std::move(record))};
}

// None for a default: this side has its own. A record that cannot be read (a newer server's steps,
// or what does not add up) is passed over: the rest of the batch is as good as without it.
std::vector<Match> to_candidates(const v1::LookupResult& result) {
  Rung rung;
  switch (result.outcome()) {
    case v1::LOOKUP_OUTCOME_EXACT: rung = Rung::kExact; break;
    case v1::LOOKUP_OUTCOME_LOOSE: rung = Rung::kLoose; break;
    case v1::LOOKUP_OUTCOME_NEAREST_SHAPE: rung = Rung::kNearestShape; break;
    case v1::LOOKUP_OUTCOME_NEAREST_TARGET: rung = Rung::kNearestTarget; break;
    default: return std::vector<Match>();
  }
  std::vector<Match> candidates;
  for (const v1::LookupMatch& match : result.matches()) {
    absl::StatusOr<ScheduleRecord> record = from_proto(match.record());
    if (!record.ok()) continue;
    candidates.push_back({rung, match.distance(), match.stale(),
                          std::make_shared<const ScheduleRecord>(*std::move(record))});
  }
  if (result.matches().empty()) {
    absl::StatusOr<Match> lone = to_lone_match(result, rung);
    if (lone.ok()) candidates.push_back(*std::move(lone));
  }
  return candidates;
}

class GrpcSource : public ScheduleSource {
 public:
  explicit GrpcSource(ServerAddress server) : server_(std::move(server)) {}

  // Begins to connect.
  absl::Status connect() {
    const std::lock_guard guard(mutex_);
    return stub().status();
  }

  absl::StatusOr<std::vector<std::vector<Match>>> batch_lookup(
      absl::Span<const LookupRequest> queries, int deadline_ms) override {
    std::vector<std::vector<Match>> found;
    const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms);
    for (size_t begin = 0; begin < queries.size(); begin += kMostQueries) {
      v1::BatchLookupRequest request;
      request.set_worst(v1::LOOKUP_OUTCOME_NEAREST_TARGET);
      request.set_records(LadderOptions().count);
      const auto some = queries.subspan(begin, kMostQueries);
      for (const LookupRequest& query : some) *request.add_queries() = to_query(query);
      v1::BatchLookupResponse response;
      RETURN_IF_ERROR(call(deadline, [&](Stub& stub, grpc::ClientContext& context) {
        return stub.BatchLookup(&context, request, &response);
      }));
      if (response.results_size() != request.queries_size()) {
        return absl::UnavailableError("the server answered another number of queries");
      }
      for (int i = 0; i < response.results_size(); ++i) {
        std::vector<Match> candidates = to_candidates(response.results(i));
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

  absl::StatusOr<std::optional<WithdrawnSaid>> poll_withdrawn(const std::string& etag,
                                                              int deadline_ms) override {
    v1::PollWithdrawnRequest request;
    request.set_etag(etag);
    v1::PollWithdrawnResponse response;
    const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms);
    RETURN_IF_ERROR(call(deadline, [&](Stub& stub, grpc::ClientContext& context) {
      return stub.PollWithdrawn(&context, request, &response);
    }));
    if (response.unchanged()) return std::optional<WithdrawnSaid>();
    std::optional<WithdrawnList> list = WithdrawnList::of_bytes(response.digests());
    if (!list) return absl::UnavailableError("the server's list of what is withdrawn is none");
    return WithdrawnSaid{*std::move(list), response.etag()};
  }

 private:
  using Stub = v1::ScheduleService::Stub;

  // Of the server that is asked now. REQUIRES: mutex_ held.
  absl::StatusOr<std::shared_ptr<Stub>> stub() {
    if (stub_ != nullptr) return stub_;
    if (!servers_.has_value()) {
      ASSIGN_OR_RETURN(servers_, ServerGroup::open(server_));
    }
    servers_->channel()->GetState(/*try_to_connect=*/true);
    stub_ = v1::ScheduleService::NewStub(servers_->channel());
    return stub_;
  }

  // The caller waits for one server only; the next question goes to the next where it is away.
  absl::Status call(std::chrono::system_clock::time_point deadline,
                    absl::FunctionRef<grpc::Status(Stub&, grpc::ClientContext&)> body) {
    std::shared_ptr<Stub> asked;
    {
      const std::lock_guard guard(mutex_);
      ASSIGN_OR_RETURN(asked, stub());
    }
    grpc::ClientContext context;
    context.set_deadline(deadline);
    const grpc::Status status = body(*asked, context);
    if (status.ok()) return absl::OkStatus();
    const std::lock_guard guard(mutex_);
    if (is_away(status) && servers_->size() > 1 && stub_ == asked) {
      servers_->next();
      stub_ = nullptr;
      stub().IgnoreError();
    }
    return absl::UnavailableError(status.error_message());
  }

  const ServerAddress server_;
  std::mutex mutex_;                       // of what follows
  std::optional<ServerGroup> servers_;
  std::shared_ptr<Stub> stub_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ScheduleSource>> make_grpc_source(const ServerAddress& server) {
  RETURN_IF_ERROR(check_server(server));
  auto source = std::make_shared<GrpcSource>(server);
  // On the way while the caller prepares its first question. What fails now is tried again by that.
  source->connect().IgnoreError();
  return source;
}

absl::StatusOr<std::shared_ptr<ScheduleSource>> open_server_source(const NamedServer& server) {
  const TlsFiles tls = {server.tls_ca, server.tls_certificate, server.tls_key};
  return make_grpc_source({server.address, tls, server.insecure});
}

}  // namespace lw
