// Which devices a study may use, and what operators do with devices.
#pragma once

#include "src/serve/queue/leases.h"

namespace lw {

struct Target;

// Where a study will run: code for `target`, an identity, on devices whose own target, with its
// cores, is `device_target`.
struct StudyPlace {
  std::string target, device_target;       // ids
  std::string backend;
  int threads = 1;
  TimeKind time_kind = TimeKind::kMeasured;  // of what is measured there
  std::shared_ptr<const Target> identity;  // of `target`, which the store may not have yet
};
// What measuring a study's workloads takes of a device's memory, in bytes; 0: not known.
struct StudyNeeds {
  double least = 0, most = 0;              // of any of them
};
// Of spec.target among devices that are open and were seen since `since_ms`; nothing when none fits
// now (wait). FAILED_PRECONDITION: none ever will (more threads than cores, or no device that is
// known has the memory for any of it).
absl::StatusOr<std::optional<StudyPlace>> place(Transaction& tx,
                                               const loopwright::v1::StudySpec& spec,
                                               const StudyNeeds& needs, int64_t since_ms);
// The targets of all devices that there are, by id; the work grows with them, not with the devices.
absl::StatusOr<std::vector<std::pair<std::string, Target>>> device_targets(Transaction& tx);
// What "KIND:WHICH" means, as agents take it in --device: the names of the targets of registered
// devices of the kind that have that number where they are, or that in their names in whatever case.
// `all`: the devices of the kind, in words.
struct DrivenDevices {
  std::set<std::string> targets;
  std::vector<std::string> all;
};
absl::StatusOr<DrivenDevices> driven_devices(Transaction& tx, const std::string& asked);
// The most memory of all known devices that `asked`, a study's target, may mean; 0: not known.
absl::StatusOr<double> most_memory(Transaction& tx, const std::string& asked);

struct Capacity {
  int slots = 0;                           // jobs that its devices can hold at once
  double memory = 0;                       // the most that one of them has, or of those that were
                                           // there in the last minutes; 0: not known
};
absl::StatusOr<Capacity> capacity_of(Transaction& tx, std::string_view device_target,
                                     std::string_view backend, int64_t since_ms);

// Agents with an open device of the class that was seen since then, has finished jobs and has the memory.
absl::StatusOr<std::set<std::string>> agents_online(Transaction& tx, std::string_view device_target,
                                                    std::string_view backend, double memory,
                                                    int64_t since_ms);

absl::StatusOr<loopwright::v1::DeviceStatus> device_message(Transaction& tx, const DeviceRow& row,
                                                            int64_t since_ms);
// Those named and those that carry all labels, which their agents say: so labels open no pending
// device; an opened one's agent is admitted with its target.
absl::StatusOr<std::vector<std::string>> set_admission(
    WriteTransaction& tx, const std::vector<std::string>& names,
    const std::map<std::string, std::string>& labels, loopwright::v1::DeviceAdmission admission,
    std::string_view reason, int64_t now_ms);
// Closes the device and takes from it what it holds.
absl::Status quarantine(WriteTransaction& tx, DeviceRow& device, std::string_view reason,
                        const LeaseRules& rules, int64_t now_ms, Changes* changes);

}  // namespace lw
