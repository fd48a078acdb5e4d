// The fleet, for who operates it: what FleetService promises. Thread-safe.
#pragma once

#include "src/serve/core/core.h"

namespace lw {

class Fleet {
 public:
  // `core` outlives it.
  explicit Fleet(Core& core) : core_(core) {}

  absl::Status list_devices(const Caller& caller, const loopwright::v1::ListDevicesRequest& request,
                            loopwright::v1::ListDevicesResponse* response);
  absl::Status list_agents(const Caller& caller, const loopwright::v1::ListAgentsRequest& request,
                           loopwright::v1::ListAgentsResponse* response);
  absl::Status drain_devices(const Caller& caller,
                             const loopwright::v1::DrainDevicesRequest& request,
                             loopwright::v1::DrainDevicesResponse* response);
  absl::Status resume_devices(const Caller& caller,
                              const loopwright::v1::ResumeDevicesRequest& request,
                              loopwright::v1::ResumeDevicesResponse* response);
  absl::Status quarantine_device(const Caller& caller,
                                 const loopwright::v1::QuarantineDeviceRequest& request,
                                 loopwright::v1::DeviceStatus* response);
  absl::Status list_jobs(const Caller& caller, const loopwright::v1::ListJobsRequest& request,
                         loopwright::v1::ListJobsResponse* response);
  absl::Status requeue_job(const Caller& caller, const loopwright::v1::RequeueJobRequest& request,
                           loopwright::v1::JobStatus* response);
  absl::Status get_fleet(const Caller& caller, const loopwright::v1::GetFleetRequest& request,
                         loopwright::v1::Fleet* response);
  absl::Status list_audit(const Caller& caller, const loopwright::v1::ListAuditRequest& request,
                          loopwright::v1::ListAuditResponse* response);
  absl::Status backup_database(const Caller& caller,
                               const loopwright::v1::BackupDatabaseRequest& request,
                               loopwright::v1::BackupDatabaseResponse* response);

 private:
  Core& core_;
};

}  // namespace lw
