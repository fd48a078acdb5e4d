#include "src/serve/service/fleet.h"

#include "nlohmann/json.hpp"
#include "src/net/times.h"
#include "src/serve/core/calls.h"
#include "src/serve/messages/paging.h"
#include "src/serve/queue/devices.h"
#include "src/serve/rows/online.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

v1::JobStatus job_status(const JobRow& job, const std::string& workload) {
  v1::JobStatus status;
  status.set_name(job_name(job.id));
  status.set_study(study_name(job.study));
  status.set_workload(workload);
  status.set_state(job.state);
  status.set_attempt(job.attempt);
  status.set_epoch(job.epoch);
  if (!job.device.empty()) status.set_device(device_name(job.device));
  if (job.lease_until > 0) *status.mutable_lease_until() = timestamp(job.lease_until);
  *status.mutable_create_time() = timestamp(job.created_ms);
  status.set_candidates(job.candidates);
  status.set_priority(job.priority);
  status.set_detail(job.detail);
  const std::set<std::string> lost_on(job.lost_on.begin(), job.lost_on.end());
  for (const std::string& agent : lost_on) status.add_lost_on(agent_name(agent));
  return status;
}

absl::StatusOr<std::string> workload_name(Transaction& tx, const JobRow& job) {
  std::string name;
  Query query = tx.query("SELECT name FROM study_workloads WHERE study = ? AND position = ?",
                         job.study, job.position);
  if (query.next()) name = query.text(0);
  RETURN_IF_ERROR(query.status());
  return name;
}

std::map<std::string, std::string> map_of(
    const google::protobuf::Map<std::string, std::string>& labels) {
  return {labels.begin(), labels.end()};
}

}  // namespace

absl::Status Fleet::list_devices(const Caller&, const v1::ListDevicesRequest& request,
                                 v1::ListDevicesResponse* response) {
  ASSIGN_OR_RETURN(const Page page, page_of("devices", request.page_size(), request.page_token()));
  return view(core_, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<DeviceRow> rows,
                     select_devices(tx, "WHERE id > ? ORDER BY id LIMIT ?",
                                    {std::string_view(page.after), int64_t{page.size} + 1}));
    return show_page(page, rows, response, [&](const DeviceRow& row) -> absl::Status {
      ASSIGN_OR_RETURN(*response->add_devices(), device_message(tx, row, core_.online_since()));
      return absl::OkStatus();
    });
  });
}

absl::Status Fleet::list_agents(const Caller&, const v1::ListAgentsRequest& request,
                                v1::ListAgentsResponse* response) {
  ASSIGN_OR_RETURN(const Page page, page_of("agents", request.page_size(), request.page_token()));
  return view(core_, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<AgentRow> rows,
                     select_agents(tx, "WHERE id > ? ORDER BY id LIMIT ?",
                                   {std::string_view(page.after), int64_t{page.size} + 1}));
    return show_page(page, rows, response, [&](const AgentRow& row) {
      v1::AgentStatus& agent = *response->add_agents();
      agent.set_name(agent_name(row.id));
      agent.set_session(row.sessions.empty() ? "" : row.sessions[0]);
      agent.set_version(row.version);
      agent.set_online(is_online(row, core_.online_since()));
      *agent.mutable_last_seen() = timestamp(row.seen_ms);
      agent.set_peer(row.peer);
      const nlohmann::json labels = nlohmann::json::parse(row.labels, nullptr, false);
      if (labels.is_object()) {
        for (const auto& [name, value] : labels.items()) {
          if (value.is_string()) (*agent.mutable_labels())[name] = value.get<std::string>();
        }
      }
      Query devices = tx.query("SELECT id, confirmed, contradicted FROM devices "
                               "WHERE agent = ? ORDER BY id", row.id);
      while (devices.next()) {
        agent.add_devices(device_name(devices.text(0)));
        agent.set_leaders_confirmed(agent.leaders_confirmed() + devices.integer(1));
        agent.set_leaders_contradicted(agent.leaders_contradicted() + devices.integer(2));
      }
      return devices.status();
    });
  });
}

absl::Status Fleet::drain_devices(const Caller& caller, const v1::DrainDevicesRequest& request,
                                  v1::DrainDevicesResponse* response) {
  return change(core_, caller, "DrainDevices", request, response,
                [&](WriteTransaction& tx, Changes*) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     set_admission(tx, {request.names().begin(), request.names().end()},
                                   map_of(request.labels()), v1::DEVICE_ADMISSION_DRAINING,
                                   request.reason(), core_.now_ms()));
    for (const std::string& name : names) response->add_names(name);
    return absl::OkStatus();
  });
}

absl::Status Fleet::resume_devices(const Caller& caller,
                                   const v1::ResumeDevicesRequest& request,
                                   v1::ResumeDevicesResponse* response) {
  return change(core_, caller, "ResumeDevices", request, response,
                [&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     set_admission(tx, {request.names().begin(), request.names().end()},
                                   map_of(request.labels()), v1::DEVICE_ADMISSION_OPEN, "",
                                   core_.now_ms()));
    for (const std::string& name : names) {
      response->add_names(name);
      ASSIGN_OR_RETURN(const std::optional<DeviceRow> device, find_device(tx, id_of(name)));
      if (device) changes->agents.insert(device->agent);
    }
    changes->devices = true;
    return absl::OkStatus();
  });
}

absl::Status Fleet::quarantine_device(const Caller& caller,
                                      const v1::QuarantineDeviceRequest& request,
                                      v1::DeviceStatus* response) {
  ASSIGN_OR_RETURN(const std::string id, parse_name("devices", request.name(), "name"));
  if (request.reason().empty()) return bad_field("reason", "must be given");
  return change(core_, caller, "QuarantineDevice", request, response,
                [&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<DeviceRow> device, find_device(tx, id));
    if (!device) return not_found(v1::ERROR_REASON_DEVICE_NOT_FOUND, request.name());
    RETURN_IF_ERROR(quarantine(tx, *device, request.reason(), core_.options.rules, core_.now_ms(),
                               changes));
    ASSIGN_OR_RETURN(*response, device_message(tx, *device, core_.online_since()));
    return absl::OkStatus();
  });
}

absl::Status Fleet::list_jobs(const Caller&, const v1::ListJobsRequest& request,
                              v1::ListJobsResponse* response) {
  static const std::vector<FilterField> kFields = {{"state", "state", FieldKind::kState,
                                                    state_names<v1::JobState>()},
                                                   {"study", "study", FieldKind::kText},
                                                   {"client", "client", FieldKind::kText},
                                                   {"device", "device", FieldKind::kText},
                                                   {"priority", "priority", FieldKind::kInteger},
                                                   {"attempt", "attempt", FieldKind::kInteger}};
  ASSIGN_OR_RETURN(Filter filter, parse_filter(request.filter(), kFields));
  for (std::string& text : filter.texts) text = id_of(text);  // "studies/X" and "X" mean the same
  ASSIGN_OR_RETURN(const Page page, page_of(concat("jobs ", request.filter()),
                                            request.page_size(), request.page_token()));
  std::vector<Value> values = filter.values();
  values.push_back(page.after_number(0));
  values.push_back(int64_t{page.size} + 1);
  return view(core_, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<JobRow> rows,
                     select_jobs(tx,
                                 concat("WHERE ", filter.sql, " AND id > ? ORDER BY id LIMIT ?"),
                                 values));
    return show_page(page, rows, response, [&](const JobRow& job) -> absl::Status {
      ASSIGN_OR_RETURN(const std::string workload, workload_name(tx, job));
      *response->add_jobs() = job_status(job, workload);
      return absl::OkStatus();
    });
  });
}

absl::Status Fleet::requeue_job(const Caller& caller, const v1::RequeueJobRequest& request,
                                v1::JobStatus* response) {
  ASSIGN_OR_RETURN(const int64_t id, parse_job_name(request.name(), "name"));
  return change(core_, caller, "RequeueJob", request, response,
                [&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<JobRow> job, find_job(tx, id));
    if (!job) return not_found(v1::ERROR_REASON_JOB_NOT_FOUND, request.name());
    ASSIGN_OR_RETURN(const std::optional<StudyRow> study, find_study(tx, job->study));
    if (job->state != v1::JOB_STATE_DEAD || !study || has_ended(study->state)) {
      return api_error(v1::ERROR_REASON_WRONG_STATE,
                       concat(request.name(), " is ", state_name(job->state),
                              "; only a dead job of a study that runs is queued again"));
    }
    job->state = v1::JOB_STATE_QUEUED;
    job->attempt = 0, job->run_after = 0, job->ended_ms = 0, job->lease_until = 0;
    job->lost_on.clear();
    clear_holder(*job);
    job->detail = concat("queued again by ", actor(caller));
    RETURN_IF_ERROR(update_job(tx, *job));
    changes->queued.insert(queue_of(job->target, job->backend));
    changes->studies.insert(job->study);
    ASSIGN_OR_RETURN(const std::string workload, workload_name(tx, *job));
    *response = job_status(*job, workload);
    return absl::OkStatus();
  });
}

absl::Status Fleet::get_fleet(const Caller&, const v1::GetFleetRequest&, v1::Fleet* response) {
  response->set_version(core_.options.version);
  response->set_problem(core_.problem());
  *response->mutable_started() = timestamp(core_.started_ms);
  return view(core_, [&](Transaction& tx) -> absl::Status {
    const int64_t since = core_.online_since();
    std::map<std::string, v1::Fleet::Class> classes;
    Query devices = tx.query(
        "SELECT d.target, d.admission, d.seen_ms, t.text, "
        "(SELECT count(*) FROM jobs WHERE jobs.state = 'leased' AND jobs.device = d.id), d.left_ms "
        "FROM devices d JOIN targets t ON t.id = d.target");
    while (devices.next()) {
      v1::Fleet::Class& one = classes[devices.text(0)];
      if (one.target_id().empty()) {
        one.set_target_id(devices.text(0));
        const nlohmann::json text = nlohmann::json::parse(devices.text(3), nullptr, false);
        if (text.is_object()) one.set_target_name(text.value("name", ""));
      }
      const bool online = is_online(devices.integer(2), devices.integer(5), since);
      one.set_total(one.total() + 1);
      one.set_online(one.online() + online);
      one.set_idle(one.idle() + (online && devices.integer(4) == 0));
      one.set_quarantined(one.quarantined() + (devices.text(1) == "quarantined"));
    }
    RETURN_IF_ERROR(devices.status());
    Query jobs = tx.query("SELECT target, state, count(*) FROM jobs "
                          "WHERE state IN ('queued', 'leased', 'dead') "
                          "GROUP BY target, state");
    while (jobs.next()) {
      const int64_t count = jobs.integer(2);
      const std::string state = jobs.text(1);
      if (state == "dead") response->set_jobs_dead(response->jobs_dead() + count);
      if (state == "queued") response->set_jobs_queued(response->jobs_queued() + count);
      if (state == "leased") response->set_jobs_leased(response->jobs_leased() + count);
      const auto known = classes.find(jobs.text(0));
      if (known == classes.end()) continue;
      if (state == "queued") known->second.set_queued(count);
      if (state == "leased") known->second.set_leased(count);
    }
    RETURN_IF_ERROR(jobs.status());
    for (auto& [id, one] : classes) *response->add_classes() = std::move(one);
    Query studies = tx.query("SELECT state, count(*) FROM studies "
                             "WHERE state IN ('queued', 'running') GROUP BY state");
    while (studies.next()) {
      if (studies.text(0) == "queued") response->set_studies_queued(studies.integer(1));
      if (studies.text(0) == "running") response->set_studies_running(studies.integer(1));
    }
    RETURN_IF_ERROR(studies.status());
    // The greatest id counts all that ever came without reading a million rows.
    Query totals = tx.query("SELECT (SELECT max(id) FROM measurements), "
                            "(SELECT max(id) FROM keys)");
    if (totals.next()) {
      response->set_measurements(totals.integer(0));
      response->set_schedules(totals.integer(1));
    }
    RETURN_IF_ERROR(totals.status());
    Query verdicts = tx.query(
        "SELECT verdict, count(*) FROM (SELECT verdict FROM measurements ORDER BY id DESC "
        "LIMIT 10000) AS latest GROUP BY verdict");
    while (verdicts.next()) (*response->mutable_verdicts())[verdicts.text(0)] = verdicts.integer(1);
    return verdicts.status();
  });
}

absl::Status Fleet::list_audit(const Caller&, const v1::ListAuditRequest& request,
                               v1::ListAuditResponse* response) {
  ASSIGN_OR_RETURN(const Page page, page_of("audit", request.page_size(), request.page_token()));
  const int64_t before = page.after_number(INT64_MAX);
  return view(core_, [&](Transaction& tx) -> absl::Status {
    Query query = tx.query(
        "SELECT id, time_ms, actor, peer, method, subject, outcome, count FROM audit WHERE id < ? "
        "ORDER BY id DESC LIMIT ?", before, page.size + 1);
    while (query.next()) {
      if (response->entries_size() == page.size) {
        response->set_next_page_token(
            page_token(page.list, concat(response->entries(page.size - 1).id())));
        break;
      }
      v1::AuditEntry& entry = *response->add_entries();
      entry.set_id(query.integer(0));
      *entry.mutable_time() = timestamp(query.integer(1));
      entry.set_actor(query.text(2));
      entry.set_peer(query.text(3));
      entry.set_method(query.text(4));
      entry.set_subject(query.text(5));
      entry.set_outcome(query.text(6));
      entry.set_count(query.integer(7));
    }
    return query.status();
  });
}

}  // namespace lw
