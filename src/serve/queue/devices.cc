#include "src/serve/queue/devices.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "schedules/targets/identity.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/net/times.h"
#include "src/serve/access/admission.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/rows/online.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int64_t kBackSoonMs = 600'000;  // a board that is started anew, and much more

// An older agent says it in the facts alone.
TimeKind time_kind_of(const DeviceRow& device) {
  return says_estimated(device.description.facts()) ? TimeKind::kEstimated
                                                    : from_proto(device.description.time_kind());
}

bool is_any(const std::string& target) { return target.empty() || target == "any"; }

// A description that does not parse is found by whoever needs its target.
std::string identity_id(const DeviceRow& device) {
  const absl::StatusOr<Target> target = from_proto(device.description.target());
  return target.ok() ? target_id(*target) : "";
}

// Whether the device's own target is what the study asked for.
bool is_asked_for(const DeviceRow& device, const std::string& asked) {
  return is_any(asked) || asked == device.target || asked == device.description.target().name() ||
         asked == device_name(device.id) || asked == identity_id(device);
}

double memory_of(const DeviceRow& device) {
  return static_cast<double>(device.description.memory_bytes());
}

absl::Status too_large(double needed, double most) {
  return api_error(v1::ERROR_REASON_WRONG_STATE,
                   absl::StrFormat("measuring its smallest workload takes %.3g GB of memory, the "
                                   "largest device that it may use has %.3g: make the shapes "
                                   "smaller, or add a larger device", needed / 1e9, most / 1e9));
}

absl::StatusOr<StudyPlace> placement(const DeviceRow& device, const Target& target, int threads) {
  const int cores = std::max(1, device.description.target().cores());
  if (threads > cores) {
    return api_error(v1::ERROR_REASON_WRONG_STATE,
                     concat("spec.threads: ", threads, " threads on devices with ", cores));
  }
  return StudyPlace{target_id(target), device.target, device.description.backend(),
                    threads == 0 ? cores : threads, time_kind_of(device),
                    std::make_shared<const Target>(identity_of(target))};
}

}  // namespace

absl::StatusOr<std::optional<StudyPlace>> place(Transaction& tx,
                                               const v1::StudySpec& spec,
                                               const StudyNeeds& needs, int64_t since_ms) {
  // Ordered here: asked for by id, they would be found by a walk over all that ever were.
  ASSIGN_OR_RETURN(std::vector<DeviceRow> devices,
                   select_devices(tx, concat("WHERE admission = 'open' AND ", kOnline),
                                  {since_ms}));
  std::sort(devices.begin(), devices.end(),
            [](const DeviceRow& a, const DeviceRow& b) { return a.id < b.id; });
  // The class with the most devices, of those that measure if there are any and have the cores;
  // ties go to the first.
  std::map<std::string, int> sizes;
  const auto queue = [](const DeviceRow& device) {
    return queue_of(device.target, device.description.backend());
  };
  for (const DeviceRow& device : devices) ++sizes[queue(device)];
  const auto lacks_cores = [&](const DeviceRow& device) {
    return spec.threads() > device.description.target().cores();
  };
  const auto lacks_memory = [&](const DeviceRow& device) {
    return !may_hold(memory_of(device), needs.most);
  };
  const auto before = [&](const DeviceRow& a, const DeviceRow& b) {
    if (time_kind_of(a) != time_kind_of(b)) return time_kind_of(a) < time_kind_of(b);
    if (lacks_memory(a) != lacks_memory(b)) return lacks_memory(b);
    if (lacks_cores(a) != lacks_cores(b)) return lacks_cores(b);
    return sizes[queue(a)] > sizes[queue(b)];
  };
  const DeviceRow* chosen = nullptr;
  bool any_small = false;
  for (const DeviceRow& device : devices) {
    if (!is_asked_for(device, spec.target())) continue;
    if (!may_hold(memory_of(device), needs.least)) {
      any_small = true;
      continue;
    }
    if (chosen == nullptr || before(device, *chosen)) chosen = &device;
  }
  if (chosen != nullptr) {
    ASSIGN_OR_RETURN(const Target target, from_proto(chosen->description.target()));
    ASSIGN_OR_RETURN(StudyPlace made, placement(*chosen, target, spec.threads()));
    return std::optional<StudyPlace>(std::move(made));
  }
  if (any_small) {                         // perhaps a larger one is away
    ASSIGN_OR_RETURN(const double most, most_memory(tx, spec.target()));
    if (!may_hold(most, needs.least)) return too_large(needs.least, most);
    return std::optional<StudyPlace>();
  }
  // A lesser machine that some device can emulate: a built-in target, or one that is stored.
  absl::StatusOr<Target> target =
      spec.target() == "host" ? absl::NotFoundError("") : find_target(spec.target());
  if (!target.ok()) target = store_in(tx)->target(spec.target());
  if (!target.ok()) return std::optional<StudyPlace>();
  for (const DeviceRow& device : devices) {
    ASSIGN_OR_RETURN(const Target machine, from_proto(device.description.target()));
    if (!may_hold(memory_of(device), needs.least)) continue;
    if (!missing_feature(*target, machine).empty()) continue;
    ASSIGN_OR_RETURN(StudyPlace made, placement(device, *target, spec.threads()));
    return std::optional<StudyPlace>(std::move(made));
  }
  return std::optional<StudyPlace>();
}

absl::StatusOr<std::vector<std::pair<std::string, Target>>> device_targets(Transaction& tx) {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   distinct_values(tx, "devices", "target", "target <> ''", {}));
  std::vector<std::pair<std::string, Target>> found;
  for (const std::string& id : ids) {
    Query query = tx.query("SELECT text FROM targets WHERE id = ?", id);
    absl::StatusOr<Target> target = read_target(query.next() ? query.text(0) : "");
    RETURN_IF_ERROR(query.status());
    if (target.ok()) found.emplace_back(id, *std::move(target));
  }
  return found;
}

absl::StatusOr<DrivenDevices> driven_devices(Transaction& tx, const std::string& asked) {
  const size_t colon = std::min(asked.find(':'), asked.size() - 1);
  const std::string kind = asked.substr(0, colon), which = asked.substr(colon + 1);
  ASSIGN_OR_RETURN(const std::vector<DeviceRow> devices, select_devices(tx, "", {}));
  DrivenDevices found;
  for (const DeviceRow& device : devices) {
    if (device.description.kind() != kind) continue;
    const nlohmann::json facts = nlohmann::json::parse(device.description.facts(), nullptr,
                                                       /*allow_exceptions=*/false);
    if (!facts.is_object() || !facts.contains("number") || !facts["number"].is_number_integer()) {
      continue;                            // of a kind that has no numbers
    }
    const std::string number = concat(facts["number"].get<int64_t>());
    const auto name = facts.find("device");
    const std::string named = name != facts.end() && name->is_string() ? name->get<std::string>() : "";
    found.all.push_back(concat(device_name(device.id), " (", kind, ":", number, ", ", named, ")"));
    const bool is_number = std::all_of(which.begin(), which.end(), absl::ascii_isdigit);
    const bool fits = is_number ? which == number
                                : absl::StrContains(absl::AsciiStrToLower(named),
                                                    absl::AsciiStrToLower(which));
    if (fits) found.targets.insert(device.description.target().name());
  }
  return found;
}

absl::StatusOr<double> most_memory(Transaction& tx, const std::string& asked) {
  // Of devices that one of them says nothing of: not known.
  double most = 0;
  bool is_known = true;
  const auto look = [&](Query query) {
    if (query.next() && !query.is_null(0)) {
      is_known = is_known && query.real(0) > 0;
      most = std::max(most, query.real(1));
    }
    return query.status();
  };
  if (is_any(asked)) {
    RETURN_IF_ERROR(look(tx.query("SELECT min(memory), max(memory) FROM devices")));
  } else if (absl::StartsWith(asked, "devices/")) {
    const std::string id = id_of(asked);
    RETURN_IF_ERROR(look(tx.query("SELECT memory, memory FROM devices WHERE id = ?", id)));
  } else {
    ASSIGN_OR_RETURN(const auto targets, device_targets(tx));
    for (const auto& [id, target] : targets) {
      if (asked != id && asked != target.name && asked != target_id(target)) continue;
      RETURN_IF_ERROR(look(tx.query("SELECT min(memory), max(memory) FROM devices WHERE "
                                    "target = ?", id)));
    }
  }
  return is_known ? most : 0;
}

absl::StatusOr<Capacity> capacity_of(Transaction& tx, std::string_view device_target,
                                     std::string_view backend, int64_t since_ms) {
  ASSIGN_OR_RETURN(const std::vector<DeviceRow> devices,
                   select_devices(tx, "WHERE target = ? AND seen_ms >= ?",
                                  {device_target, since_ms - kBackSoonMs}));
  Capacity capacity;
  bool is_known = true;
  for (const DeviceRow& device : devices) {
    if (device.description.backend() != backend) continue;
    const bool is_there =
        device.admission == v1::DEVICE_ADMISSION_OPEN && is_online(device, since_ms);
    if (is_there) capacity.slots += std::clamp(device.description.slots(), 1, 16);
    capacity.memory = std::max(capacity.memory, memory_of(device));
    is_known = is_known && memory_of(device) > 0;
  }
  if (!is_known) capacity.memory = 0;
  return capacity;
}

absl::StatusOr<std::set<std::string>> agents_online(Transaction& tx, std::string_view device_target,
                                                    std::string_view backend, double memory,
                                                    int64_t since_ms) {
  ASSIGN_OR_RETURN(const std::vector<DeviceRow> devices,
                   select_devices(tx, "WHERE target = ? AND admission = 'open' AND "
                                      "seen_ms >= ?", {device_target, since_ms}));
  std::set<std::string> agents;
  for (const DeviceRow& device : devices) {
    const bool fits = device.description.backend() == backend && device.jobs_done > 0 &&
                      may_hold(memory_of(device), memory);
    if (fits) agents.insert(device.agent);
  }
  return agents;
}

absl::StatusOr<v1::DeviceStatus> device_message(Transaction& tx, const DeviceRow& row,
                                                int64_t since_ms) {
  v1::DeviceStatus status;
  *status.mutable_device() = row.description;
  status.mutable_device()->set_name(device_name(row.id));
  status.mutable_device()->set_agent(agent_name(row.agent));
  status.set_admission(row.admission);
  status.set_health(row.health);
  status.set_online(is_online(row, since_ms));
  *status.mutable_last_seen() = timestamp(row.seen_ms);
  status.set_reason(row.reason);
  status.set_failures_in_row(row.failures);
  status.set_jobs_done(row.jobs_done);
  status.set_jobs_failed(row.jobs_failed);
  status.set_evidence(row.evidence);
  status.set_leaders_confirmed(row.confirmed);
  status.set_leaders_contradicted(row.contradicted);
  Query held = tx.query(
      "SELECT id, epoch FROM jobs WHERE state = 'leased' AND device = ? ORDER BY id", row.id);
  while (held.next()) {
    v1::HeldJob& job = *status.add_held();
    job.set_job(job_name(held.integer(0)));
    job.set_epoch(held.integer(1));
  }
  RETURN_IF_ERROR(held.status());
  return status;
}

absl::StatusOr<std::vector<std::string>> set_admission(
    WriteTransaction& tx, const std::vector<std::string>& names,
    const std::map<std::string, std::string>& labels, v1::DeviceAdmission admission,
    std::string_view reason, int64_t now_ms) {
  if (names.empty() && labels.empty()) return bad_field("names", "names or labels are wanted");
  std::vector<std::string> ids;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const std::string id, parse_name("devices", name, "names"));
    ASSIGN_OR_RETURN(const std::optional<DeviceRow> device, find_device(tx, id));
    if (!device) return not_found(v1::ERROR_REASON_DEVICE_NOT_FOUND, name);
    ids.push_back(id);
  }
  if (!labels.empty()) {
    ASSIGN_OR_RETURN(const std::vector<DeviceRow> devices, select_devices(tx, "ORDER BY id", {}));
    for (const DeviceRow& device : devices) {
      // A device carries its agent's labels too.
      ASSIGN_OR_RETURN(const std::optional<AgentRow> agent, find_agent(tx, device.agent));
      const nlohmann::json of_agent =
          nlohmann::json::parse(agent ? agent->labels : "{}", nullptr, false);
      std::map<std::string, std::string> own(device.description.labels().begin(),
                                             device.description.labels().end());
      for (const auto& [name, value] : of_agent.items()) {
        if (value.is_string()) own.emplace(name, value.get<std::string>());
      }
      const bool all = std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
        const auto found = own.find(label.first);
        return found != own.end() && found->second == label.second;
      });
      const bool admits = admission == v1::DEVICE_ADMISSION_OPEN &&
                          device.admission == v1::DEVICE_ADMISSION_PENDING;
      if (all && !admits) ids.push_back(device.id);
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const std::string state = state_name(admission);
  std::vector<std::string> changed;
  for (const std::string& id : ids) {
    if (admission == v1::DEVICE_ADMISSION_OPEN) {
      ASSIGN_OR_RETURN(const std::optional<DeviceRow> device, find_device(tx, id));
      RETURN_IF_ERROR(admit(tx, device->agent, device->target, now_ms));
    }
    RETURN_IF_ERROR(tx.query("UPDATE devices SET admission = ?, reason = ?, failures = 0 "
                             "WHERE id = ?", state, reason, id).run());
    changed.push_back(device_name(id));
  }
  return changed;
}

absl::Status quarantine(WriteTransaction& tx, DeviceRow& device, std::string_view reason,
                        const LeaseRules& rules, int64_t now_ms, Changes* changes) {
  device.admission = v1::DEVICE_ADMISSION_QUARANTINED;
  device.reason = std::string(reason);
  RETURN_IF_ERROR(put_device(tx, device));
  ASSIGN_OR_RETURN(std::vector<JobRow> held,
                   select_jobs(tx, "WHERE state = 'leased' AND device = ? ORDER BY id",
                               {device.id}));
  for (JobRow& job : held) {
    RETURN_IF_ERROR(release_job(tx, std::move(job), "its device was quarantined", rules,
                                now_ms, now_ms, changes));
  }
  return absl::OkStatus();
}

}  // namespace lw
