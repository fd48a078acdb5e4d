// What compilers and people ask a daemon about schedules: `lookup`, `history`, `schedules`. `best`
// and `lock` answer the same from a file, without a service; `lookup` with what is at hand from both.
#include "src/cli/service/lookup.h"

#include "absl/strings/str_join.h"
#include "loopwright/lookup.h"
#include "loopwright/v1/schedule.grpc.pb.h"
#include "src/api/task.h"
#include "src/cli/commands.h"
#include "src/cli/service/at_hand.h"
#include "src/net/times.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

struct AskOptions {
  RemoteService service;
  AtHand at_hand;
  WorkloadOptions workload;
  Output output;
  std::string suite, worst = "nearest-target", cache = "warm", search;
  bool frozen = false;
  int most = 100;
};

v1::LookupOutcome outcome_of(Rung rung) {
  return static_cast<v1::LookupOutcome>(static_cast<int>(rung) + 1);
}

Table result_table(const std::vector<Asked>& asked, const std::vector<v1::LookupResult>& results) {
  Table table{{"workload", "outcome", "time", "loss", "measured", "record", "schedule"}, {},
              {false, false, true, true}};
  for (size_t i = 0; i < asked.size(); ++i) {
    const v1::LookupResult& result = results[i];
    std::string outcome = enum_text(result.outcome());
    std::replace(outcome.begin(), outcome.end(), '_', '-');
    const bool lower = result.outcome() > v1::LOOKUP_OUTCOME_LOOSE && is_there(result);
    const v1::Measurement& m = result.measurement();
    table.rows.push_back({asked[i].words, outcome, micros(m.time_us(), from_proto(m.time_kind())),
                          lower ? percent(result.predicted_loss()) : "",
                          when(result.measured()), result.record_digest().substr(0, 12),
                          trace_as_line(result.trace())});
  }
  return table;
}

// The same in the shape of `best`, since what is not the server's has no message of the server.
absl::StatusOr<int> say_at_hand(const AskOptions& options, const std::vector<Asked>& asked,
                                Rung worst) {
  if (options.cache != "warm") {
    return absl::InvalidArgumentError("--cache cold: only a server alone is asked for that");
  }
  ASSIGN_OR_RETURN(const FoundAtHand found,
                   look_up_at_hand(options.at_hand, options.service, asked, worst));
  Json list = Json::array();
  Table table{{"workload", "outcome", "from", "time", "loss", "schedule"}, {},
              {false, false, false, true, true}};
  std::vector<Task> missing;
  for (size_t i = 0; i < asked.size(); ++i) {
    const ClientAnswer& one = found.answers[i];
    const LookupAnswer& answer = one.answer;
    const bool is_missing = answer.outcome > worst;
    if (is_missing) missing.push_back(asked[i].task);
    const std::string outcome = is_missing ? "not-found" : std::string(rung_name(answer.outcome));
    Json document = Json::parse(to_json(answer));
    document["outcome"] = outcome;
    document["origin"] = one.origin;
    document["workload"] = asked[i].words;
    list.push_back(std::move(document));
    const ScheduleRecord* record = answer.record.get();
    table.rows.push_back({asked[i].words, outcome, one.origin,
                          record == nullptr ? "" : micros(record->time_us, record->time_kind),
                          answer.predicted_loss ? percent(*answer.predicted_loss) : "",
                          trace_as_line(answer.trace)});
  }
  if (!found.away.empty()) options.output.note(found.away);
  if (options.frozen && !missing.empty()) {
    // What a server that is away has nobody knows.
    if (!found.away.empty()) return environment(absl::UnavailableError(found.away));
    return frozen_miss(missing, asked.size(), found.places);
  }
  emit(options.output, {{"results", list}}, table);
  return missing.size() < asked.size() ? kDone : kNothingFound;
}

absl::StatusOr<int> run_lookup(const AskOptions& options) {
  Rung worst = Rung::kExact;
  if (!parse_rung(options.worst, &worst)) {
    return absl::InvalidArgumentError(concat(
        "--worst ", options.worst, ": exact, loose, nearest-shape, nearest-target or default"));
  }
  if (options.frozen) worst = Rung::kExact;
  ASSIGN_OR_RETURN(const std::vector<Asked> asked,
                   asked_workloads(options.workload, options.suite));
  if (options.at_hand.is_named()) return say_at_hand(options, asked, worst);
  ASSIGN_OR_RETURN(const std::vector<v1::LookupResult> results,
                   look_up_remotely(options.service, asked, options.cache, outcome_of(worst)));
  std::vector<Task> missing;
  Json list = Json::array();
  for (size_t i = 0; i < asked.size(); ++i) {
    if (!is_there(results[i])) missing.push_back(asked[i].task);
    Json one = as_json(results[i]);
    one["workload"] = asked[i].words;
    list.push_back(std::move(one));
  }
  if (options.frozen && !missing.empty()) {
    return frozen_miss(missing, asked.size(), options.service.server.address);
  }
  emit(options.output, {{"results", list}}, result_table(asked, results));
  return missing.size() < asked.size() ? kDone : kNothingFound;
}

// Whose word it is, and whether it counts.
std::string standing_of(const v1::Measurement& m) {
  return !m.annulled().empty() ? "annulled" : m.unconfirmed() ? "unconfirmed" : "counts";
}

absl::StatusOr<int> run_history(const AskOptions& options) {
  v1::ListHistoryRequest request;
  ASSIGN_OR_RETURN(*request.mutable_key(),
                   key_of_workload(options.service, options.workload, options.cache));
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  const auto stub = v1::ScheduleService::NewStub(channel);
  Json list = Json::array();
  Table table{{"id", "measured", "verdict", "time", "verified", "standing", "from", "device",
               "source", "detail", "trace"}, {}, {true, false, false, true}};
  RETURN_IF_ERROR(list_all<v1::ListHistoryResponse>(
      options.service, request, options.most,
      [&](grpc::ClientContext& context, const auto& query, auto* page) {
        return stub->ListHistory(&context, query, page);
      },
      [&](const v1::ListHistoryResponse& page) {
        for (int i = 0; i < page.measurements_size(); ++i) {
          const v1::Measurement& m = page.measurements(i);
          const int64_t id = i < page.ids_size() ? page.ids(i) : 0;  // an older daemon says none
          Json one = as_json(m);
          one["id"] = id;
          list.push_back(std::move(one));
          table.rows.push_back({id == 0 ? "-" : concat(id), when(timestamp(m.unix_ms())),
                                enum_text(m.verdict()),
                                micros(m.time_us(), from_proto(m.time_kind())),
                                m.verified() ? "yes" : "no", standing_of(m),
                                m.actor().empty() ? "-" : m.actor(),
                                m.device().empty() ? "-" : m.device(), m.source(),
                                m.detail(), trace_as_line(m.trace())});
        }
        return static_cast<int>(list.size());
      }));
  if (list.empty()) {
    return absl::NotFoundError(concat("nothing was measured of '",
                                      absl::StrJoin(options.workload.words, " "), "' for this "
                                      "target and these threads (see `loopwright schedules`)"));
  }
  emit(options.output, {{"key", as_json(request.key())}, {"measurements", list}}, table);
  return kDone;
}

absl::StatusOr<int> run_schedules(const AskOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  const auto stub = v1::ScheduleService::NewStub(channel);
  v1::ListSchedulesRequest request;
  request.set_search(options.search);
  Json list = Json::array();
  Table table{{"workload", "target", "threads", "best", "GFLOP/s", "trials", "measured"}, {},
              {false, false, true, true, true, true}};
  RETURN_IF_ERROR(list_all<v1::ListSchedulesResponse>(
      options.service, request, options.most,
      [&](grpc::ClientContext& context, const auto& query, auto* page) {
        return stub->ListSchedules(&context, query, page);
      },
      [&](const v1::ListSchedulesResponse& page) {
        for (const v1::Schedule& one : page.schedules()) {
          list.push_back(as_json(one));
          const std::string& name = one.source_words();
          table.rows.push_back({name.empty() ? one.workload_name() : name, one.target_name(),
                                concat(one.key().threads()),
                                micros(one.best_us(), from_proto(one.time_kind())),
                                one.gflops() > 0 ? number(one.gflops()) : "-",
                                concat(one.trials()), when(one.measured())});
        }
        return static_cast<int>(list.size());
      }));
  emit(options.output, {{"schedules", list}}, table);
  return kDone;
}

void add_cache(CliArguments app, AskOptions* options) {
  app.add_option("--cache", options->cache, "warm or cold: how it was measured")
      .one_of({"warm", "cold"}).capture_default_str();
}

void add_most(CliArguments app, AskOptions* options, const char* help) {
  app.add_option("--most", options->most, help).between(1, 1'000'000)
      .capture_default_str();
}

Action declare_lookup(CliArguments app) {
  auto options = std::make_shared<AskOptions>();
  add_workload(app, &options->workload, /*required=*/false);
  add_service(app, &options->service);
  add_output(app, &options->output);
  add_suite(app, &options->suite);
  add_at_hand(app, &options->at_hand);
  CliArgument worst = app.add_option(
      "--worst", options->worst, "the last rung that is tried: exact, loose, nearest-shape, "
                                 "nearest-target, default").capture_default_str();
  app.add_flag("--frozen", options->frozen, "only what was tuned before; exit 2 where it was not")
      .excludes(worst);
  add_cache(app, options.get());
  return [options] { return run_lookup(*options); };
}

Action declare_history(CliArguments app) {
  auto options = std::make_shared<AskOptions>();
  add_workload(app, &options->workload);
  add_service(app, &options->service);
  add_output(app, &options->output);
  add_cache(app, options.get());
  add_most(app, options.get(), "how many measurements, the newest first");
  return [options] { return run_history(*options); };
}

Action declare_schedules(CliArguments app) {
  auto options = std::make_shared<AskOptions>();
  add_service(app, &options->service);
  add_output(app, &options->output);
  app.add_option("--search", options->search, "part of a workload's name or words");
  add_most(app, options.get(), "how many");
  return [options] { return run_schedules(*options); };
}

}  // namespace

const CommandGroup& lookup_commands() {
  static const CommandGroup group = {160, {
      {"lookup", "ask a daemon for the schedules of workloads", declare_lookup},
      {"history", "what a daemon has measured of a workload", declare_history},
      {"schedules", "the workloads that a daemon has schedules for", declare_schedules},
  }};
  return group;
}

}  // namespace lw
