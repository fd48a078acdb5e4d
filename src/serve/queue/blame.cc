// A device that fails jobs one after the other through its own fault is quarantined with the
// failures as evidence, so that it cannot eat the queue. One whose times cannot be is quarantined only
// where others show that the job can be done: a description that makes a machine out slower than it is
// would else close all of its class, which fail alike.
#include "src/serve/queue/blame.h"

#include <algorithm>
#include <set>

#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/devices.h"
#include "src/serve/rows/audit.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

constexpr int kEvidence = 20;              // entries kept of a device
constexpr char kImpossible[] = "impossible";

// Whether anything of the job's workload was ever measured right, by whatever device.
absl::StatusOr<bool> is_proven(Transaction& tx, const JobRow& job) {
  Query query = tx.query("SELECT best_us FROM study_workloads WHERE study = ? AND "
                         "position = ?", job.study, job.position);
  const bool proven = query.next() && query.real(0) > 0;
  RETURN_IF_ERROR(query.status());
  return proven;
}

// Of the failures in a row (the device has finished nothing since: `after`) each job counts once.
// What nobody could measure yet may be its client's fault: of each client one such failure counts,
// so that no client alone can close a device.
bool counts(const nlohmann::json& evidence, const nlohmann::json& failure) {
  return std::none_of(evidence.begin(), evidence.end(), [&](const nlohmann::json& before) {
    if (before.value("after", int64_t{-1}) != failure["after"]) return false;
    if (before.value("job", nlohmann::json()) == failure["job"]) return true;
    return failure["proven"] == false && !before.value("proven", true) &&
           before.value("client", nlohmann::json()) == failure["client"];
  });
}

nlohmann::json evidence_of(const DeviceRow& device) {
  nlohmann::json evidence = nlohmann::json::parse(device.evidence, nullptr, false);
  return evidence.is_array() ? evidence : nlohmann::json::array();
}

void keep_evidence(nlohmann::json evidence, DeviceRow* device) {
  while (evidence.size() > kEvidence) evidence.erase(evidence.begin());
  device->evidence = evidence.dump();
}

// Where others did the job: of those that have not closed the device before.
bool is_settled(const nlohmann::json& entry) {
  return entry.value("verdict", "") == kImpossible && entry.value("settled", false) &&
         !entry.value("closed", false);
}

}  // namespace

absl::Status note_doubt(WriteTransaction& tx, const Doubt& doubt, int64_t now_ms,
                        Changes* changes) {
  changes->doubts.push_back(doubt);
  const std::string subject = concat(device_name(doubt.device), ", ", doubt.key);
  return write_audit(tx, {now_ms, doubt.actor, "", "the words of agents", subject,
                          concat(doubt.kind, ": ", doubt.detail)});
}

absl::Status blame_device(WriteTransaction& tx, const JobRow& job, const std::string& verdict,
                          const std::string& detail, const LeaseRules& rules, int64_t now_ms,
                          Changes* changes) {
  ASSIGN_OR_RETURN(std::optional<DeviceRow> device, find_device(tx, job.device));
  if (!device) return absl::OkStatus();
  ++device->jobs_failed;
  nlohmann::json evidence = evidence_of(*device);
  ASSIGN_OR_RETURN(const bool proven, is_proven(tx, job));
  const nlohmann::json failure = {{"job", job_name(job.id)}, {"verdict", verdict},
                                  {"detail", detail},        {"time_ms", now_ms},
                                  {"client", job.client},    {"proven", proven},
                                  {"after", device->jobs_done}};
  if (!counts(evidence, failure)) return put_device(tx, *device);
  ++device->failures;
  evidence.push_back(failure);
  keep_evidence(std::move(evidence), &*device);
  if (device->failures >= rules.quarantine_failures &&
      device->admission != v1::DEVICE_ADMISSION_QUARANTINED) {
    return quarantine(
        tx, *device,
        concat(device->failures, " jobs in a row failed through the device, the last: ", verdict,
               ": ", detail),
        rules, now_ms, changes);
  }
  return put_device(tx, *device);
}

absl::Status suspect_device(WriteTransaction& tx, JobRow& job, const std::string& detail,
                            const LeaseRules& rules, int64_t now_ms) {
  if (std::count(job.avoid.begin(), job.avoid.end(), job.agent) == 0) {
    job.avoid.push_back(job.agent);
  }
  job.avoid_until = now_ms + rules.confirm_ms;
  ASSIGN_OR_RETURN(std::optional<DeviceRow> device, find_device(tx, job.device));
  if (!device) return absl::OkStatus();
  ++device->jobs_failed;
  nlohmann::json evidence = evidence_of(*device);
  evidence.push_back({{"job", job_name(job.id)}, {"verdict", kImpossible}, {"detail", detail},
                      {"time_ms", now_ms}, {"client", job.client}, {"settled", false}});
  keep_evidence(std::move(evidence), &*device);
  return put_device(tx, *device);
}

absl::Status settle_suspicions(WriteTransaction& tx, const JobRow& job, const LeaseRules& rules,
                               int64_t now_ms, Changes* changes) {
  for (const std::string& agent : job.avoid) {
    if (agent == job.agent) continue;
    ASSIGN_OR_RETURN(std::vector<DeviceRow> devices,
                     select_devices(tx, "WHERE agent = ? ORDER BY id",
                                    {std::string_view(agent)}));
    for (DeviceRow& device : devices) {
      nlohmann::json evidence = evidence_of(device);
      bool is_news = false;
      std::set<std::string> settled;       // jobs
      for (nlohmann::json& entry : evidence) {
        if (entry.value("verdict", "") != kImpossible) continue;
        if (entry.value("job", "") == job_name(job.id) && !entry.value("settled", false)) {
          entry["settled"] = is_news = true;
        }
        if (is_settled(entry)) settled.insert(entry.value("job", ""));
      }
      if (!is_news) continue;
      const bool closes = static_cast<int>(settled.size()) >= rules.quarantine_failures &&
                          device.admission != v1::DEVICE_ADMISSION_QUARANTINED;
      for (nlohmann::json& entry : evidence) {
        if (closes && is_settled(entry)) entry["closed"] = true;
      }
      const std::string last = evidence.back().value("detail", "");
      keep_evidence(std::move(evidence), &device);
      RETURN_IF_ERROR(closes ? quarantine(tx, device,
                                          concat(settled.size(), " jobs that others did at possible "
                                                 "times, it did not: ", last),
                                          rules, now_ms, changes)
                             : put_device(tx, device));
    }
  }
  return absl::OkStatus();
}

absl::Status contradict_device(WriteTransaction& tx, std::string_view id, const std::string& detail,
                               bool by_majority, const LeaseRules& rules, int64_t now_ms,
                               Changes* changes) {
  ASSIGN_OR_RETURN(std::optional<DeviceRow> device, find_device(tx, id));
  if (!device) return absl::OkStatus();
  ++device->contradicted;
  nlohmann::json evidence = evidence_of(*device);
  evidence.push_back({{"verdict", "contradicted"}, {"detail", detail}, {"time_ms", now_ms},
                      {"majority", by_majority}});
  const auto lost = std::count_if(evidence.begin(), evidence.end(), [](const nlohmann::json& one) {
    return one.value("verdict", "") == "contradicted" && one.value("majority", false) &&
           !one.value("closed", false);
  });
  const bool closes = lost >= rules.quarantine_failures &&
                      device->contradicted > device->confirmed &&
                      device->admission != v1::DEVICE_ADMISSION_QUARANTINED;
  for (nlohmann::json& one : evidence) {
    if (closes && one.value("verdict", "") == "contradicted") one["closed"] = true;
  }
  keep_evidence(std::move(evidence), &*device);
  if (!closes) return put_device(tx, *device);
  return quarantine(tx, *device, concat(lost, " times others did not find what it had said: ",
                                        detail), rules, now_ms, changes);
}

}  // namespace lw
