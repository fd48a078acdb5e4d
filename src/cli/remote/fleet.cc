// What operators ask a daemon: `devices`, `agents`, `jobs`, `audit`, `backup`.
#include "absl/strings/str_join.h"
#include "loopwright/v1/fleet.grpc.pb.h"
#include "schedules/targets/target.h"
#include "src/base/hash.h"
#include "src/cli/commands.h"
#include "src/cli/service/service.h"
#include "src/cli/subcommands.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr double kBackupSeconds = 3600;

struct FleetOptions {
  RemoteService service;
  Output output;
  std::vector<std::string> names, labels;
  std::string name, reason, filter, request_id;
  int most = 500;
};
absl::StatusOr<std::unique_ptr<v1::FleetService::Stub>> fleet_of(const FleetOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  return v1::FleetService::NewStub(channel);
}

template <class Rows>
Json list_json(const Rows& rows) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(as_json(row));
  return list;
}

// ---- devices

// Schedules that led by its word, as others found them: "12 held, 1 did not"; "": none was asked after.
std::string leaders_text(const v1::DeviceStatus& device) {
  if (device.leaders_confirmed() + device.leaders_contradicted() == 0) return "";
  std::string text = concat(device.leaders_confirmed(), " held");
  if (device.leaders_contradicted() > 0) {
    text += concat(", ", device.leaders_contradicted(), " did not");
  }
  return text;
}

Table device_table(const std::vector<v1::DeviceStatus>& devices) {
  Table table{{"device", "target", "state", "health", "jobs", "done", "failed", "leaders", "seen",
               "reason"},
              {}, {false, false, false, false, true, true, true}};
  for (const v1::DeviceStatus& device : devices) {
    const std::string state = device.online() || device.admission() != v1::DEVICE_ADMISSION_OPEN
                                  ? enum_text(device.admission()) : "offline";
    table.rows.push_back({device.device().name(), device.device().target().name(), state,
                          enum_text(device.health()), concat(device.held_size()),
                          concat(device.jobs_done()), concat(device.jobs_failed()),
                          leaders_text(device), when(device.last_seen()), device.reason()});
  }
  return table;
}

absl::StatusOr<int> list_devices(const FleetOptions& options) {
  ASSIGN_OR_RETURN(const auto stub, fleet_of(options));
  std::vector<v1::DeviceStatus> devices;
  RETURN_IF_ERROR(list_all<v1::ListDevicesResponse>(
      options.service, v1::ListDevicesRequest(), options.most,
      [&](grpc::ClientContext& context, const auto& asked, auto* page) {
        return stub->ListDevices(&context, asked, page);
      },
      [&](v1::ListDevicesResponse& page) {
        for (auto& device : *page.mutable_devices()) devices.push_back(std::move(device));
        return static_cast<int>(devices.size());
      }));
  emit(options.output, {{"devices", list_json(devices)}}, device_table(devices));
  return kDone;
}

// For both: the devices named, and those that carry all the labels.
template <class Request>
absl::StatusOr<Request> selection(const FleetOptions& options) {
  if (options.names.empty() && options.labels.empty()) {
    return absl::InvalidArgumentError("which devices? Name some, or say --label NAME=VALUE");
  }
  Request request;
  request.set_request_id(request_id_or_new(options.request_id));
  for (const std::string& name : options.names) {
    request.add_names(with_collection(name, "devices"));
  }
  for (const std::string& label : options.labels) {
    ASSIGN_OR_RETURN(const auto pair, parse_label(label));
    (*request.mutable_labels())[pair.first] = pair.second;
  }
  return request;
}

template <class Response>
absl::StatusOr<int> say_changed(const FleetOptions& options, const Response& response) {
  const std::vector<std::string> names(response.names().begin(), response.names().end());
  Table table{{"device"}, {}, {}};
  for (const std::string& name : names) table.rows.push_back({name});
  emit(options.output, {{"devices", names}}, table);
  if (names.empty()) return absl::NotFoundError("no device carries these labels");
  return kDone;
}

absl::StatusOr<int> drain_devices(const FleetOptions& options) {
  ASSIGN_OR_RETURN(auto request, selection<v1::DrainDevicesRequest>(options));
  request.set_reason(options.reason);
  ASSIGN_OR_RETURN(const auto stub, fleet_of(options));
  v1::DrainDevicesResponse response;
  RETURN_IF_ERROR(options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return stub->DrainDevices(&context, request, &response);
  }));
  return say_changed(options, response);
}

absl::StatusOr<int> resume_devices(const FleetOptions& options) {
  ASSIGN_OR_RETURN(const auto request, selection<v1::ResumeDevicesRequest>(options));
  ASSIGN_OR_RETURN(const auto stub, fleet_of(options));
  v1::ResumeDevicesResponse response;
  RETURN_IF_ERROR(options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return stub->ResumeDevices(&context, request, &response);
  }));
  return say_changed(options, response);
}

absl::StatusOr<int> quarantine_device(const FleetOptions& options) {
  ASSIGN_OR_RETURN(const auto stub, fleet_of(options));
  v1::QuarantineDeviceRequest request;
  request.set_request_id(request_id_or_new(options.request_id));
  request.set_name(with_collection(options.name, "devices"));
  request.set_reason(options.reason);
  v1::DeviceStatus device;
  RETURN_IF_ERROR(options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return stub->QuarantineDevice(&context, request, &device);
  }));
  emit(options.output, as_json(device), device_table({device}));
  return kDone;
}

// ---- agents, jobs, audit, backup

absl::StatusOr<int> list_agents(const FleetOptions& options) {
  ASSIGN_OR_RETURN(const auto stub, fleet_of(options));
  std::vector<v1::AgentStatus> agents;
  RETURN_IF_ERROR(list_all<v1::ListAgentsResponse>(
      options.service, v1::ListAgentsRequest(), options.most,
      [&](grpc::ClientContext& context, const auto& asked, auto* page) {
        return stub->ListAgents(&context, asked, page);
      },
      [&](v1::ListAgentsResponse& page) {
        for (auto& agent : *page.mutable_agents()) agents.push_back(std::move(agent));
        return static_cast<int>(agents.size());
      }));
  Table table{{"agent", "state", "version", "peer", "seen", "devices", "labels"}, {}, {}};
  for (const v1::AgentStatus& agent : agents) {
    std::vector<std::string> labels;
    for (const auto& [name, value] : agent.labels()) labels.push_back(concat(name, "=", value));
    std::sort(labels.begin(), labels.end());
    table.rows.push_back({agent.name(), agent.online() ? "online" : "offline", agent.version(),
                          agent.peer(), when(agent.last_seen()),
                          absl::StrJoin(agent.devices(), " "), absl::StrJoin(labels, " ")});
  }
  emit(options.output, {{"agents", list_json(agents)}}, table);
  return kDone;
}

Table job_table(const std::vector<v1::JobStatus>& jobs) {
  Table table{{"job", "state", "study", "workload", "candidates", "attempt", "device", "made",
               "detail"}, {}, {false, false, false, false, true, true}};
  for (const v1::JobStatus& job : jobs) {
    table.rows.push_back({job.name(), enum_text(job.state()), job.study(), job.workload(),
                          concat(job.candidates()), concat(job.attempt()), job.device(),
                          when(job.create_time()), job.detail()});
  }
  return table;
}

absl::StatusOr<int> list_jobs(const FleetOptions& options) {
  ASSIGN_OR_RETURN(const auto stub, fleet_of(options));
  std::vector<v1::JobStatus> jobs;
  v1::ListJobsRequest request;
  request.set_filter(options.filter);
  RETURN_IF_ERROR(list_all<v1::ListJobsResponse>(
      options.service, request, options.most,
      [&](grpc::ClientContext& context, const auto& asked, auto* page) {
        return stub->ListJobs(&context, asked, page);
      },
      [&](v1::ListJobsResponse& page) {
        for (auto& job : *page.mutable_jobs()) jobs.push_back(std::move(job));
        return static_cast<int>(jobs.size());
      }));
  emit(options.output, {{"jobs", list_json(jobs)}}, job_table(jobs));
  return kDone;
}

absl::StatusOr<int> requeue_job(const FleetOptions& options) {
  ASSIGN_OR_RETURN(const auto stub, fleet_of(options));
  v1::RequeueJobRequest request;
  request.set_request_id(request_id_or_new(options.request_id));
  request.set_name(with_collection(options.name, "jobs"));
  v1::JobStatus job;
  RETURN_IF_ERROR(options.service.call(kCallSeconds, [&](grpc::ClientContext& context) {
    return stub->RequeueJob(&context, request, &job);
  }));
  emit(options.output, as_json(job), job_table({job}));
  return kDone;
}

absl::StatusOr<int> list_audit(const FleetOptions& options) {
  ASSIGN_OR_RETURN(const auto stub, fleet_of(options));
  std::vector<v1::AuditEntry> entries;
  RETURN_IF_ERROR(list_all<v1::ListAuditResponse>(
      options.service, v1::ListAuditRequest(), options.most,
      [&](grpc::ClientContext& context, const auto& asked, auto* page) {
        return stub->ListAudit(&context, asked, page);
      },
      [&](v1::ListAuditResponse& page) {
        for (auto& entry : *page.mutable_entries()) entries.push_back(std::move(entry));
        return static_cast<int>(entries.size());
      }));
  Table table{{"time", "who", "from", "method", "about", "outcome", "times"}, {}, {}};
  for (const v1::AuditEntry& entry : entries) {
    table.rows.push_back({when(entry.time()), entry.actor(), entry.peer(), entry.method(),
                          entry.subject(), entry.outcome(), concat(entry.count())});
  }
  emit(options.output, {{"entries", list_json(entries)}}, table);
  return kDone;
}

absl::StatusOr<int> run_backup(const FleetOptions& options) {
  ASSIGN_OR_RETURN(const auto stub, fleet_of(options));
  v1::BackupDatabaseRequest request;
  request.set_request_id(request_id_or_new(options.request_id));
  v1::BackupDatabaseResponse response;
  RETURN_IF_ERROR(options.service.call(kBackupSeconds, [&](grpc::ClientContext& context) {
    return stub->BackupDatabase(&context, request, &response);
  }));
  emit(options.output, as_json(response),
       {{"file", "bytes", "sha256"},
        {{response.file(), concat(response.bytes()), response.sha256()}}, {false, true}});
  return kDone;
}

// Lists where none of its commands is given.
struct Group : Subcommands<FleetOptions> {
  Group(CliArguments app, Run list) : Subcommands(app, list) {
    add_service(app, &options->service);
    add_output(app, &options->output);
  }
  CliArguments add(CliArguments app, const char* name, const char* help, Run run) {
    CliArguments sub = Subcommands::add(app, name, help, run);
    add_service(sub, &options->service);
    add_output(sub, &options->output);
    add_request_id(sub, &options->request_id);
    return sub;
  }
};

void add_most(CliArguments app, FleetOptions* options, const char* help) {
  app.add_option("--most", options->most, help).between(1, 1'000'000)
      .capture_default_str();
}

Action declare_devices(CliArguments app) {
  Group group(app, list_devices);
  FleetOptions* options = group.options.get();
  add_most(app, options, "how many");
  const auto select = [&](CliArguments sub) {
    sub.add_option("names", options->names, "devices/ID or ID");
    sub.add_option("--label", options->labels, "NAME=VALUE: all devices that carry it");
    return sub;
  };
  select(group.add(app, "drain", "let them finish what they hold and take nothing new",
                   drain_devices))
      .add_option("--reason", options->reason, "shown with the devices");
  select(group.add(app, "resume", "let them work, again or for the first time", resume_devices));
  CliArguments quarantine = group.add(app, "quarantine", "take from it what it holds and close it",
                                   quarantine_device);
  quarantine.add_option("name", options->name, "devices/ID or ID").required();
  quarantine.add_option("--reason", options->reason, "kept as evidence").required();
  return group.action();
}

Action declare_agents(CliArguments app) {
  Group group(app, list_agents);
  add_most(app, group.options.get(), "how many");
  return group.action();
}

Action declare_jobs(CliArguments app) {
  Group group(app, list_jobs);
  FleetOptions* options = group.options.get();
  app.add_option("--filter", options->filter,
                 "state = DEAD AND study = \"studies/ID\"; also client, device, priority, attempt");
  add_most(app, options, "how many, the oldest first");
  group.add(app, "requeue", "give a job that was given up its attempts back", requeue_job)
      .add_option("name", options->name, "jobs/ID or ID").required();
  return group.action();
}

Action declare_audit(CliArguments app) {
  Group group(app, list_audit);
  group.options->most = 100;
  add_most(app, group.options.get(), "how many, the newest first");
  return group.action();
}

Action declare_backup(CliArguments app) {
  Group group(app, run_backup);
  add_request_id(app, &group.options->request_id);
  return group.action();
}

}  // namespace

const CommandGroup& fleet_commands() {
  static const CommandGroup group = {180, {
      {"devices", "a daemon's devices; drain, resume, quarantine", declare_devices},
      {"agents", "a daemon's agents", declare_agents},
      {"jobs", "a daemon's jobs; requeue", declare_jobs},
      {"audit", "who changed what in a daemon", declare_audit},
      {"backup", "have a daemon write a copy of its database", declare_backup},
  }};
  return group;
}

}  // namespace lw
