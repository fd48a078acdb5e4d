// `records annul | reinstate`: measurements that count for nothing any more, and those that do
// again.
#include "src/cli/service/records_annul.h"

#include "loopwright/v1/schedule.grpc.pb.h"
#include "src/cli/service/lookup.h"
#include "tuner_db/ladder/ladder.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kAnnulSeconds = 600;

// The trace of the key whose record's digest begins so.
absl::StatusOr<std::string> trace_of(const AnnulOptions& options, const v1::Key& key,
                                     v1::ScheduleService::Stub& stub) {
  v1::ListHistoryRequest request;
  *request.mutable_key() = key;
  std::string trace;
  int seen = 0, matches = 0;
  RETURN_IF_ERROR(list_all<v1::ListHistoryResponse>(
      options.service, request, 1 << 30,
      [&](grpc::ClientContext& context, const auto& query, auto* page) {
        return stub.ListHistory(&context, query, page);
      },
      [&](const v1::ListHistoryResponse& page) {
        for (const v1::Measurement& m : page.measurements()) {
          if (!record_digest(from_proto(key), m.trace()).starts_with(options.record)) continue;
          matches += matches == 0 || m.trace() != trace;
          trace = m.trace();
        }
        return seen += page.measurements_size();
      }));
  if (matches == 1) return trace;
  return matches == 0 ? absl::NotFoundError(concat("no record of the workload begins with '",
                                                   options.record, "' (see `history`)"))
                      : absl::InvalidArgumentError(concat(
                            matches, " records of the workload begin with '", options.record, "'"));
}

absl::StatusOr<v1::MeasurementFilter> filter_of(const AnnulOptions& options,
                                                v1::ScheduleService::Stub& stub) {
  v1::MeasurementFilter filter;
  filter.set_actor(options.agent.empty() ? options.actor : concat("agent/", options.agent));
  filter.set_device(options.device);
  filter.set_first_id(options.first);
  filter.set_last_id(options.last);
  if (options.workload.words.empty()) {
    if (options.record.empty()) return filter;
    return absl::InvalidArgumentError("--record is one of a workload's, which is not named");
  }
  ASSIGN_OR_RETURN(const v1::Key key,
                   key_of_workload(options.service, options.workload, options.cache));
  *filter.mutable_key() = key;
  if (!options.record.empty()) {
    ASSIGN_OR_RETURN(*filter.mutable_trace(), trace_of(options, key, stub));
  }
  return filter;
}

template <class Request, class Response>
absl::StatusOr<int> mark(const AnnulOptions& options,
                         grpc::Status (v1::ScheduleService::Stub::*call)(grpc::ClientContext*,
                                                                         const Request&,
                                                                         Response*)) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  const auto stub = v1::ScheduleService::NewStub(channel);
  Request request;
  ASSIGN_OR_RETURN(*request.mutable_filter(), filter_of(options, *stub));
  request.set_reason(options.reason);
  request.set_dry_run(options.dry_run);
  Response response;
  RETURN_IF_ERROR(options.service.call(kAnnulSeconds, [&](grpc::ClientContext& context) {
    return (*stub.*call)(&context, request, &response);
  }));
  Table table{{"measurements", "workloads"}, {}, {true, true}};
  table.rows.push_back({concat(response.measurements()),
                        options.dry_run ? "-" : concat(response.keys_size())});
  emit(options.output, as_json(response), table);
  return response.measurements() > 0 ? kDone : kNothingFound;
}

}  // namespace

absl::StatusOr<int> annul(const AnnulOptions& options) {
  return mark(options, &v1::ScheduleService::Stub::AnnulMeasurements);
}

absl::StatusOr<int> reinstate(const AnnulOptions& options) {
  return mark(options, &v1::ScheduleService::Stub::ReinstateMeasurements);
}

void add_annul_options(CliArguments app, AnnulOptions* options) {
  add_service(app, &options->service);
  add_output(app, &options->output);
  add_workload(app, &options->workload, /*required=*/false);
  app.add_option("--cache", options->cache, "warm or cold: how the workload was measured")
      .one_of({"warm", "cold"}).capture_default_str();
  app.add_option("--record", options->record, "of this trace alone: the beginning of the digest "
                                              "that look-ups and `records withdrawn` show");
  app.add_option("--agent", options->agent, "of this agent alone, as `agents` shows it");
  app.add_option("--actor", options->actor, "of whom `history` shows so: client/NAME")
      .excludes("--agent");
  app.add_option("--device", options->device, "of this device alone");
  app.add_option("--first", options->first, "of this id, as `history` shows it, and later")
      .positive();
  app.add_option("--last", options->last, "of this id and earlier").positive();
  app.add_option("--reason", options->reason, "why; the audit keeps it").required();
  app.add_flag("--dry-run", options->dry_run, "count them, change nothing");
}

}  // namespace lw
