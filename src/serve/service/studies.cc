#include "src/serve/service/studies.h"

#include <chrono>

#include "src/serve/core/calls.h"
#include "src/serve/messages/failure_messages.h"
#include "src/serve/messages/paging.h"
#include "src/serve/rows/deletion.h"
#include "src/serve/studies/studies.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/tables/history.h"

namespace lw {

namespace v1 = loopwright::v1;
namespace longrunning = google::longrunning;

namespace {

constexpr std::chrono::seconds kFailuresFor{1};  // a call reads them
constexpr int kApiMinor = 1;               // one more with each addition to proto/loopwright/v1

absl::StatusOr<StudyRow> must_find(Transaction& tx, const std::string& id) {
  ASSIGN_OR_RETURN(std::optional<StudyRow> row, find_study(tx, id));
  if (!row) return not_found(v1::ERROR_REASON_STUDY_NOT_FOUND, study_name(id));
  return *std::move(row);
}

absl::Status show_failures(Transaction& tx, v1::WorkloadProgress& workload) {
  ASSIGN_OR_RETURN(const int64_t key, find_key_id(tx, from_proto(workload.key())));
  if (key == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<FailureClass> classes, read_failures(tx, key));
  const FailureMessages failures = failure_messages(classes);
  workload.mutable_failures()->Assign(failures.begin(), failures.end());
  return absl::OkStatus();
}

}  // namespace

absl::Status Studies::create_study(const Caller& caller, const v1::CreateStudyRequest& request,
                                   longrunning::Operation* response) {
  ASSIGN_OR_RETURN(const CheckedSpec checked,
                   check_spec(request.spec(), core_.options.config.quotas));
  std::string id;
  RETURN_IF_ERROR(change(core_, caller, "CreateStudy", request, response,
                         [&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    id.clear();
    if (request.join()) {
      StudyRow like;
      like.client = caller.identity.name;
      like.actor = identity_text(caller.identity);
      like.spec = checked.spec;
      ASSIGN_OR_RETURN(const std::optional<StudyRow> there, find_like(tx, like));
      if (there) {
        ASSIGN_OR_RETURN(*response, operation_of(tx, *there, core_.now_ms()));
        v1::StudyProgress progress;
        response->metadata().UnpackTo(&progress);
        progress.set_joined(true);
        response->mutable_metadata()->PackFrom(progress);
        return absl::OkStatus();
      }
    }
    ASSIGN_OR_RETURN(const StudyRow study,
                     lw::create_study(tx, checked, caller.identity, core_.options.config.quotas,
                                      core_.now_ms(), changes));
    id = study.id;
    ASSIGN_OR_RETURN(*response, operation_of(tx, study, core_.now_ms()));
    return absl::OkStatus();
  }));
  if (id.empty()) return absl::OkStatus();  // made before, by the same request or one like it
  log(Level::kInfo, "study_created", {{"study", id}, {"client", actor(caller)},
                                      {"workloads", checked.spec.workloads_size()},
                                      {"trials", checked.spec.trials()}});
  return absl::OkStatus();
}

absl::Status Studies::get_study(const Caller& caller, const v1::GetStudyRequest& request,
                                v1::Study* response) {
  ASSIGN_OR_RETURN(const std::string id, parse_name("studies", request.name(), "name"));
  RETURN_IF_ERROR(view(core_, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const StudyRow row, must_find(tx, id));
    const bool full = request.full() && owns_study(caller.identity, row.actor, row.client);
    ASSIGN_OR_RETURN(*response, study_message(tx, row, full, core_.now_ms()));
    if (has_ended(row.state)) return absl::OkStatus();
    Query before = tx.query("SELECT count(*) FROM jobs WHERE state = 'queued' AND "
                            "target = ? AND study <> ? AND priority >= ?",
                            row.device_target, row.id, row.priority);
    if (before.next()) {
      response->mutable_progress()->set_queued_before(static_cast<int32_t>(before.integer(0)));
    }
    RETURN_IF_ERROR(before.status());
    if (row.state != v1::STUDY_STATE_QUEUED || !row.waiting.empty()) return absl::OkStatus();
    Query seats = tx.query(
        "SELECT count(*) FROM studies WHERE state = 'queued' AND waiting = '' AND "
        "(priority > ? OR (priority = ? AND id < ?))", row.priority, row.priority, row.id);
    if (seats.next()) {
      response->mutable_progress()->set_waiting_before(static_cast<int32_t>(seats.integer(0)));
    }
    return seats.status();
  }));
  return view(core_, [&](Transaction& tx) -> absl::Status {
    const auto begun = std::chrono::steady_clock::now();
    for (v1::WorkloadProgress& workload : *response->mutable_progress()->mutable_workloads()) {
      if (std::chrono::steady_clock::now() - begun > kFailuresFor) break;
      if (workload.failed() > 0) RETURN_IF_ERROR(show_failures(tx, workload));
    }
    return absl::OkStatus();
  });
}

absl::Status Studies::list_studies(const Caller&, const v1::ListStudiesRequest& request,
                                   v1::ListStudiesResponse* response) {
  return view(core_, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(*response, lw::list_studies(tx, request, core_.now_ms()));
    return absl::OkStatus();
  });
}

absl::Status Studies::cancel_study(const Caller& caller, const v1::CancelStudyRequest& request,
                                   v1::Study* response) {
  ASSIGN_OR_RETURN(const std::string id, parse_name("studies", request.name(), "name"));
  return change(core_, caller, "CancelStudy", request, response,
                [&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(StudyRow study, must_find(tx, id));
    RETURN_IF_ERROR(may_change_study(caller.identity, caller.method, study.actor, study.client));
    if (!request.etag().empty() && request.etag() != etag_of(study)) {
      return api_error(v1::ERROR_REASON_ETAG_MISMATCH,
                       concat(study_name(id), " has changed since; read it again"));
    }
    RETURN_IF_ERROR(end_study(tx, study, v1::STUDY_STATE_CANCELLED,
                              concat("cancelled by ", actor(caller)), core_.now_ms(), changes));
    ASSIGN_OR_RETURN(*response, study_message(tx, study, false, core_.now_ms()));
    return absl::OkStatus();
  });
}

absl::Status Studies::get_operation(const Caller&,
                                    const longrunning::GetOperationRequest& request,
                                    longrunning::Operation* response) {
  ASSIGN_OR_RETURN(const std::string id, parse_name("operations", request.name(), "name"));
  return view(core_, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<StudyRow> row, find_study(tx, id));
    if (!row) return not_found(v1::ERROR_REASON_OPERATION_NOT_FOUND, request.name());
    ASSIGN_OR_RETURN(*response, operation_of(tx, *row, core_.now_ms()));
    return absl::OkStatus();
  });
}

absl::Status Studies::list_operations(const Caller&,
                                      const longrunning::ListOperationsRequest& request,
                                      longrunning::ListOperationsResponse* response) {
  v1::ListStudiesRequest studies;
  studies.set_page_size(request.page_size());
  studies.set_page_token(request.page_token());
  studies.set_filter(request.filter());
  return view(core_, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const v1::ListStudiesResponse listed,
                     lw::list_studies(tx, studies, core_.now_ms()));
    for (const v1::Study& study : listed.studies()) {
      ASSIGN_OR_RETURN(const StudyRow row, must_find(tx, id_of(study.name())));
      ASSIGN_OR_RETURN(*response->add_operations(), operation_of(tx, row, core_.now_ms()));
    }
    response->set_next_page_token(listed.next_page_token());
    return absl::OkStatus();
  });
}

// The standard message has no request_id; ending what has ended changes nothing, so none is needed.
absl::Status Studies::cancel_operation(const Caller& caller,
                                       const longrunning::CancelOperationRequest& request,
                                       google::protobuf::Empty*) {
  ASSIGN_OR_RETURN(const std::string id, parse_name("operations", request.name(), "name"));
  auto changes = std::make_shared<Changes>();
  const absl::Status status = core_.commit.run([&](WriteTransaction& tx) -> absl::Status {
    *changes = Changes();
    ASSIGN_OR_RETURN(std::optional<StudyRow> study, find_study(tx, id));
    if (!study) return not_found(v1::ERROR_REASON_OPERATION_NOT_FOUND, request.name());
    RETURN_IF_ERROR(may_change_study(caller.identity, caller.method, study->actor,
                                     study->client));
    RETURN_IF_ERROR(end_study(tx, *study, v1::STUDY_STATE_CANCELLED,
                              concat("cancelled by ", actor(caller)), core_.now_ms(),
                              changes.get()));
    return audit_done(core_, tx, caller, "CancelOperation", request.name());
  });
  if (status.ok()) core_.changed(*changes);
  return write_error(core_, status);
}

// The same: of what is deleted there is nothing to delete.
absl::Status Studies::delete_operation(const Caller& caller,
                                       const longrunning::DeleteOperationRequest& request,
                                       google::protobuf::Empty*) {
  ASSIGN_OR_RETURN(const std::string id, parse_name("operations", request.name(), "name"));
  const absl::Status status = core_.commit.run([&](WriteTransaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<StudyRow> study, find_study(tx, id));
    if (!study) return not_found(v1::ERROR_REASON_OPERATION_NOT_FOUND, request.name());
    RETURN_IF_ERROR(may_change_study(caller.identity, caller.method, study->actor,
                                     study->client));
    if (!has_ended(study->state)) {
      return api_error(v1::ERROR_REASON_WRONG_STATE,
                       concat(study_name(id), " is ", state_name(study->state),
                              ": cancel it first (loopwright cancel ", id, ")"));
    }
    RETURN_IF_ERROR(mark_deleted(tx, id));
    return audit_done(core_, tx, caller, "DeleteOperation", study_name(id));
  });
  if (status.ok()) {
    log(Level::kInfo, "study_deleted", {{"study", id}, {"by", actor(caller)}});
    Changes changes;
    changes.studies.insert(id);            // whoever waits for it hears that it is no more
    changes.deleted = true;
    core_.changed(changes);
  }
  return write_error(core_, status);
}

absl::StatusOr<std::vector<v1::StudyEvent>> Studies::events(const std::string& study,
                                                            int64_t sequence, int count,
                                                            bool* ended) {
  std::vector<v1::StudyEvent> events;
  RETURN_IF_ERROR(view(core_, [&](Transaction& tx) -> absl::Status {
    Query state = tx.query("SELECT state FROM studies WHERE id = ? AND state <> ?",
                           study, kDeleted);
    if (!state.next()) {
      RETURN_IF_ERROR(state.status());
      return not_found(v1::ERROR_REASON_STUDY_NOT_FOUND, study_name(study));
    }
    *ended = has_ended(parse_state<v1::StudyState>(state.text(0)));
    ASSIGN_OR_RETURN(events, events_after(tx, study, sequence, count));
    return absl::OkStatus();
  }));
  return events;
}

absl::Status Studies::get_capabilities(const Caller&,
                                       const v1::GetCapabilitiesRequest&,
                                       v1::GetCapabilitiesResponse* response) {
  response->set_server_version(core_.options.version);
  response->set_api_minor(kApiMinor);
  for (const char* feature : {"studies", "watch", "agents", "lookup", "records", "fleet",
                              "withdrawn", "words", "admission", "delete"}) {
    response->add_features(feature);
  }
  response->set_max_message_bytes(core_.options.config.quotas.message_bytes);
  response->set_max_workloads_per_study(
      static_cast<int32_t>(core_.options.config.quotas.workloads_per_study));
  response->set_max_lookup_keys(1000);
  return absl::OkStatus();
}

}  // namespace lw
