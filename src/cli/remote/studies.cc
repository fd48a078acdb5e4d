// What clients ask a daemon: `submit`, `watch`, `studies`, `cancel`, `delete`.
//
// A script that may run `submit` twice gives it a --request-id: the second makes no other study.
// Who submits and watches wants one study however often it was interrupted: the same command joins
// the one that is under way (CreateStudyRequest.join). A watcher waits for a server that is away
// for as long as it is (or --patience), and unless the study has ended it says how to go on.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "google/longrunning/operations.grpc.pb.h"
#include "google/protobuf/util/time_util.h"
#include "loopwright/v1/study.grpc.pb.h"
#include "schedules/targets/target.h"
#include "src/api/words.h"
#include "src/base/clock.h"
#include "src/cli/commands.h"
#include "src/cli/failure_text.h"
#include "src/cli/interrupt.h"
#include "src/cli/service/service.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/serve/messages/errors.h"
#include "tuner_db/key_terms.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kLongestPause_s = 10;        // between looks for a server that is away

struct SubmitOptions {
  RemoteService service;
  WorkloadOptions workload;
  Output output;
  std::string suite, request_id;
  int trials = 0, priority = 0, batch = 0;
  double seconds = 0, patience_s = 0;
  uint64_t seed = 1;
  bool cold = false, watch = false;
  std::vector<std::string> labels;
};

struct NamedOptions {
  RemoteService service;
  Output output;
  std::string name, filter, request_id;
  std::vector<std::string> names;
  int64_t after = 0;
  double patience_s = 0;
  int most = 50;
};

absl::Status winograd_is_no_part() {
  return absl::InvalidArgumentError(
      "--allow winograd is no part of a study: what it finds is everyone's");
}

// The workloads asked for that there are; `refused`: a suite's others.
absl::StatusOr<v1::StudySpec> spec_of(const SubmitOptions& options,
                                      std::vector<RefusedCase>* refused) {
  if (options.workload.allows(kWinograd)) return winograd_is_no_part();
  v1::StudySpec spec;
  SuiteCases suite;
  if (!options.suite.empty()) {
    ASSIGN_OR_RETURN(suite, read_suite(options.suite, options.workload.words));
  } else {
    suite.cases.push_back({"", options.workload.words, 0});
  }
  *refused = std::move(suite.refused);
  absl::Status first;
  for (const SuiteCase& one : suite.cases) {
    const WorkloadOptions own = options.workload.of(one);
    const std::vector<std::string> asked = own.all_words(one.words);
    absl::StatusOr<Program> program =
        load_workload(asked, own.const_names ? &*own.const_names : nullptr);
    if (own.allows(kWinograd)) program = winograd_is_no_part();
    if (!program.ok()) {
      if (options.suite.empty()) return program.status();
      first.Update(program.status());
      refused->push_back({one.name, std::string(program.status().message())});
      continue;
    }
    v1::StudyWorkload& workload = *spec.add_workloads();
    const std::string words = label_of(asked, *program);
    workload.set_name(one.name.empty() ? words : one.name);
    workload.set_program(print(*program));
    workload.set_source_words(words);
  }
  if (spec.workloads().empty()) return all_refused(*refused, first);
  spec.set_target(options.workload.target == "host" ? "any" : options.workload.target);
  spec.set_threads(options.workload.threads);
  spec.set_cache(std::string(cache_name(options.cold ? Cache::kCold : Cache::kWarm)));
  spec.set_trials(options.trials * spec.workloads_size());
  if (options.seconds > 0) {
    spec.mutable_time_budget()->set_seconds(
        static_cast<int64_t>(options.seconds * spec.workloads_size()));
  }
  spec.set_priority(options.priority);
  spec.set_seed(options.seed);
  spec.set_batch(options.batch);
  for (const std::string& label : options.labels) {
    ASSIGN_OR_RETURN(const auto pair, parse_label(label));
    (*spec.mutable_labels())[pair.first] = pair.second;
  }
  return spec;
}

// For people, or with --json for programs.
std::string event_line(const v1::StudyEvent& event, bool json) {
  if (json) return as_json(event).dump() + "\n";
  std::string kind = v1::StudyEvent::Kind_Name(event.kind());  // "": a newer server's
  kind = kind.empty() ? "event" : kind.substr(5);
  for (char& c : kind) c = static_cast<char>(c == '_' ? '-' : std::tolower(c));
  std::string line = absl::StrFormat("%8.1f s  %-13s", event.elapsed_s(), kind);
  if (!event.workload().empty()) line += "  " + event.workload();
  if (event.best_us() > 0) {
    line += "  best " + micros(event.best_us(), from_proto(event.time_kind()));
  }
  if (event.trials() > 0) line += concat("  trials ", event.trials());
  if (event.failed() > 0) line += concat("  failed ", event.failed());
  if (!event.device().empty()) line += "  on " + event.device();
  if (!event.detail().empty()) line += "  " + event.detail();
  return line + "\n";
}

Table study_table(const std::vector<v1::Study>& studies) {
  Table table{{"study", "state", "client", "target", "workloads", "trials", "of", "failed", "made",
               "waits for"},
              {}, {false, false, false, false, true, true, true, true, false, false}};
  for (const v1::Study& study : studies) {
    const v1::StudyProgress& progress = study.progress();
    table.rows.push_back({study.name(), enum_text(progress.state()), study.client(),
                          study.spec().target(), concat(study.spec().workloads_size()),
                          concat(progress.trials()), concat(progress.trials_wanted()),
                          concat(progress.failed()),
                          google::protobuf::util::TimeUtil::ToString(study.create_time()),
                          progress.waiting()});
  }
  return table;
}

Table workload_table(const v1::Study& study) {
  Table table{{"workload", "trials", "failed", "untuned", "best", "state"},
              {}, {false, true, true, true, true, false}};
  for (const v1::WorkloadProgress& w : study.progress().workloads()) {
    // An older server says it in the note alone.
    const TimeKind kind = absl::StartsWith(w.note(), "estimated") ? TimeKind::kEstimated
                                                                  : from_proto(w.time_kind());
    table.rows.push_back({w.name(), concat(w.trials()), concat(w.failed()),
                          w.zero_us() > 0 ? micros(w.zero_us(), kind) : "",
                          w.best_us() > 0 ? micros(w.best_us(), kind) : "",
                          concat(w.done() ? "done" : "", w.done() && !w.note().empty() ? ": " : "",
                                 w.note())});
  }
  return table;
}

// What failed of each workload, in full where nothing else came out.
std::string study_text(const v1::Study& study) {
  std::string text = as_text(workload_table(study));
  const v1::StudyProgress& progress = study.progress();
  if (!progress.waiting().empty()) {
    text += concat("waits for ", progress.waiting());
    if (progress.waiting_before() > 0) text += concat(", ", progress.waiting_before(), " before it");
    text += concat(", since ",
                   google::protobuf::util::TimeUtil::ToString(progress.waiting_since()), "\n");
  }
  for (const v1::WorkloadProgress& w : study.progress().workloads()) {
    if (w.failures().empty()) continue;
    const FailureMessages failures(w.failures().begin(), w.failures().end());
    text += bold(w.name()) + "\n" + failure_lines(failures, /*in_full=*/w.best_us() <= 0);
  }
  return text;
}

absl::StatusOr<v1::Study> get_study(const RemoteService& service,
                                    const std::shared_ptr<grpc::Channel>& channel,
                                    const std::string& name) {
  v1::GetStudyRequest request;
  request.set_name(name);
  v1::Study study;
  RETURN_IF_ERROR(service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return v1::TuningService::NewStub(channel)->GetStudy(&context, request, &study);
  }));
  return study;
}

int exit_of(v1::StudyState state) {
  if (state == v1::STUDY_STATE_SUCCEEDED) return kDone;
  return state == v1::STUDY_STATE_CANCELLED ? kInterrupted : kNotValid;
}

// Ends a call that waits when the process is interrupted.
class EndsWhenInterrupted {
 public:
  explicit EndsWhenInterrupted(grpc::ClientContext& context)
      : thread_([this, &context] {
          while (!over_ && !interrupted()) std::this_thread::sleep_for(kLook);
          if (!over_) context.TryCancel();
        }) {}
  ~EndsWhenInterrupted() {
    over_ = true;
    thread_.join();
  }

 private:
  static constexpr std::chrono::milliseconds kLook{20};
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

// With --json events come if -v asks for them: whoever reads stdout alone finds stderr silent.
bool says_events(const Output& output) {
  return output.is_json() ? output.verbose : !output.quiet;
}

// Prints events until the study has ended, however long the server is away meanwhile, or for
// `patience_s` (0: any time).
absl::Status follow(const RemoteService& service, const Output& output,
                    std::shared_ptr<grpc::Channel>& channel, const std::string& name,
                    double patience_s, int64_t& after) {
  int away = 0;
  std::chrono::steady_clock::time_point away_since;
  bool ended = false;
  while (!ended && !interrupted()) {
    grpc::ClientContext context;
    const EndsWhenInterrupted end(context);
    v1::WatchStudyRequest request;
    request.set_name(name);
    request.set_after_sequence(after);
    request.set_knows_waiting(true);
    request.set_knows_contradicted(true);
    const auto stream = v1::TuningService::NewStub(channel)->WatchStudy(&context, request);
    v1::StudyEvent event;
    while (!interrupted() && stream->Read(&event)) {
      away = 0;
      if (event.kind() == v1::StudyEvent::KIND_HEARTBEAT) continue;
      after = event.sequence();
      if (says_events(output)) std::cerr << event_line(event, output.is_json());
      ended = event.kind() == v1::StudyEvent::KIND_ENDED;
    }
    const grpc::Status status = stream->Finish();
    if (status.ok() || ended || interrupted()) break;
    const bool gone = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::CANCELLED;
    if (!gone) return service.call(1, [&](grpc::ClientContext&) { return status; });
    const auto now = std::chrono::steady_clock::now();
    if (away++ == 0) {
      output.note("the server is away; waiting for it");
      away_since = now;
    }
    const std::chrono::duration<double> waited = now - away_since;
    if (patience_s > 0 && waited.count() > patience_s) {
      return environment(absl::UnavailableError(
          absl::StrFormat("the server has been away for %.0f s (--patience)", waited.count())));
    }
    const auto until = now + std::chrono::seconds(std::min(away, kLongestPause_s));
    while (!interrupted() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    ASSIGN_OR_RETURN(channel, service.connect());  // another daemon of the database may be there
  }
  return absl::OkStatus();
}

// Events, then the study; how to go on where it has not ended.
absl::StatusOr<int> watch(const RemoteService& service, const Output& output,
                          const std::string& name, double patience_s, int64_t after) {
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, service.connect());
  const absl::Status status = follow(service, output, channel, name, patience_s, after);
  const absl::StatusOr<v1::Study> found =
      status.ok() ? get_study(service, channel, name) : absl::StatusOr<v1::Study>(status);
  const bool is_over = found.ok() ? found->has_end_time() : absl::IsNotFound(found.status());
  if (!is_over) {
    output.note(concat("to go on: loopwright watch ", name, " --after ", after,
                       service.words()));
  }
  if (!found.ok() && interrupted()) return kInterrupted;
  RETURN_IF_ERROR(found.status());
  const v1::Study& study = *found;
  emit(output, as_json(study), workload_table(study), study_text(study));
  if (interrupted()) return kInterrupted;
  return exit_of(study.progress().state());
}

void add_patience(CliArguments app, double* patience_s) {
  app.add_option("--patience", *patience_s,
                 "seconds that a server which is away is waited for (default: any time)")
      .positive();
}

absl::StatusOr<int> run_submit(const SubmitOptions& options) {
  if (options.suite.empty() && options.workload.words.empty()) {
    return absl::InvalidArgumentError("no workload is named (see `loopwright ops`)");
  }
  v1::CreateStudyRequest request;
  std::vector<RefusedCase> bad;
  ASSIGN_OR_RETURN(*request.mutable_spec(), spec_of(options, &bad));
  const Json refused = say_refused(bad);
  const int least = refused.empty() ? kDone : kBadRequest;
  request.set_request_id(request_id_or_new(options.request_id));
  request.set_join(options.watch && options.request_id.empty());
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  google::longrunning::Operation operation;
  RETURN_IF_ERROR(options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return v1::TuningService::NewStub(channel)->CreateStudy(&context, request, &operation);
  }));
  const std::string name =
      concat("studies/", operation.name().substr(operation.name().find('/') + 1));
  if (!options.watch) {
    emit(options.output, {{"study", name}, {"operation", operation.name()},
                          {"request_id", request.request_id()}, {"refused", refused}},
         {{"study"}, {{name}}, {}}, name + "\n");
    return least;
  }
  v1::StudyProgress progress;
  const bool joined = operation.metadata().UnpackTo(&progress) && progress.joined();
  options.output.note(!joined ? name : concat(
      name, ", which this command made ", progress.elapsed().seconds(),
      " s ago (--request-id NEW makes another)"));
  watch_interrupts();
  ASSIGN_OR_RETURN(const int watched,
                   watch(options.service, options.output, name, options.patience_s, 0));
  return std::max(least, watched);
}

absl::StatusOr<int> run_studies(const NamedOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  if (!options.name.empty()) {
    ASSIGN_OR_RETURN(const v1::Study study,
                     get_study(options.service, channel, with_collection(options.name, "studies")));
    emit(options.output, as_json(study), workload_table(study), study_text(study));
    return kDone;
  }
  std::vector<v1::Study> studies;
  v1::ListStudiesRequest request;
  request.set_filter(options.filter);
  const auto stub = v1::TuningService::NewStub(channel);
  RETURN_IF_ERROR(list_all<v1::ListStudiesResponse>(
      options.service, request, options.most,
      [&](grpc::ClientContext& context, const auto& asked, auto* page) {
        return stub->ListStudies(&context, asked, page);
      },
      [&](v1::ListStudiesResponse& page) {
        for (v1::Study& study : *page.mutable_studies()) studies.push_back(std::move(study));
        return static_cast<int>(studies.size());
      }));
  Json list = Json::array();
  for (const v1::Study& study : studies) list.push_back(as_json(study));
  emit(options.output, {{"studies", list}}, study_table(studies));
  return kDone;
}

absl::StatusOr<int> run_cancel(const NamedOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  v1::CancelStudyRequest request;
  request.set_request_id(request_id_or_new(options.request_id));
  request.set_name(with_collection(options.name, "studies"));
  v1::Study study;
  RETURN_IF_ERROR(options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return v1::TuningService::NewStub(channel)->CancelStudy(&context, request, &study);
  }));
  emit(options.output, as_json(study), study_table({study}));
  return kDone;
}

// Each by itself: one that cannot be deleted keeps no other.
absl::StatusOr<int> run_delete(const NamedOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  const auto stub = google::longrunning::Operations::NewStub(channel);
  Json deleted = Json::array();
  Table table{{"deleted"}, {}, {}};
  std::vector<RefusedCase> bad;
  absl::Status first;
  for (const std::string& name : options.names) {
    const std::string study = with_collection(name, "studies");
    google::longrunning::DeleteOperationRequest request;
    request.set_name(concat("operations/", study.substr(study.find('/') + 1)));
    google::protobuf::Empty nothing;
    const absl::Status status =
        options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
          return stub->DeleteOperation(&context, request, &nothing);
        });
    first.Update(status);
    if (!status.ok()) {
      bad.push_back({study, std::string(status.message())});
      continue;
    }
    deleted.push_back(study);
    table.rows.push_back({study});
  }
  const Json refused = say_refused(bad);
  emit(options.output, {{"deleted", deleted}, {"refused", refused}}, table);
  return first.ok() ? kDone : exit_code(first);
}

Action declare_submit(CliArguments app) {
  auto options = std::make_shared<SubmitOptions>();
  add_workload(app, &options->workload, /*required=*/false);
  add_service(app, &options->service);
  add_output(app, &options->output);
  add_suite(app, &options->suite);
  app.add_option("--trials", options->trials, "for each workload on average; 0: 200")
      .not_negative().capture_default_str();
  app.add_option("--seconds", options->seconds, "of measuring, for each workload on average")
      .not_negative();
  app.add_option("--priority", options->priority, "-100 (last) to 100 (first)")
      .between(-100, 100).capture_default_str();
  app.add_option("--seed", options->seed, "of everything that is random").capture_default_str();
  app.add_option("--batch", options->batch, "candidates a job; 0: the server's choice");
  app.add_flag("--cold", options->cold, "measure with cold caches");
  app.add_option("--label", options->labels, "NAME=VALUE, to find it by");
  app.add_option("--request-id", options->request_id,
                 "of this request: repeated with the same id it makes no second study");
  app.add_flag("--watch", options->watch,
               "wait for its end and show what happens; while it lasts the same command goes on "
               "with it, and makes no second study");
  add_patience(app, &options->patience_s);
  return [options] { return run_submit(*options); };
}

Action declare_watch(CliArguments app) {
  auto options = std::make_shared<NamedOptions>();
  app.add_option("STUDY", options->name, "studies/ID or ID").required();
  app.add_option("--after", options->after, "the number of the last event that was seen");
  add_patience(app, &options->patience_s);
  add_service(app, &options->service);
  add_output(app, &options->output);
  return [options]() -> absl::StatusOr<int> {
    watch_interrupts();
    return watch(options->service, options->output, with_collection(options->name, "studies"),
                 options->patience_s, options->after);
  };
}

Action declare_studies(CliArguments app) {
  auto options = std::make_shared<NamedOptions>();
  app.add_option("STUDY", options->name, "one study, with its workloads");
  app.add_option("--filter", options->filter, "state = RUNNING AND client = \"ci\"");
  app.add_option("--most", options->most, "how many, the newest first").capture_default_str();
  add_service(app, &options->service);
  add_output(app, &options->output);
  return [options] { return run_studies(*options); };
}

Action declare_cancel(CliArguments app) {
  auto options = std::make_shared<NamedOptions>();
  app.add_option("STUDY", options->name, "studies/ID or ID").required();
  app.add_option("--request-id", options->request_id, "of this request");
  add_service(app, &options->service);
  add_output(app, &options->output);
  return [options] { return run_cancel(*options); };
}

Action declare_delete(CliArguments app) {
  auto options = std::make_shared<NamedOptions>();
  app.add_option("STUDY", options->names, "studies/ID or ID, of studies that have ended")
      .required();
  add_service(app, &options->service);
  add_output(app, &options->output);
  return [options] { return run_delete(*options); };
}

}  // namespace

const CommandGroup& studies_commands() {
  static const CommandGroup group = {150, {
      {"submit", "ask a daemon to tune workloads", declare_submit},
      {"watch", "what happens in a study, as it happens", declare_watch},
      {"studies", "a daemon's studies, or one of them", declare_studies},
      {"cancel", "end a study; what was measured stays", declare_cancel},
      {"delete", "forget studies that have ended; what was measured stays", declare_delete},
  }};
  return group;
}

}  // namespace lw
