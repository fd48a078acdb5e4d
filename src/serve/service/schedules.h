// What was learned, given and taken: what ScheduleService promises. Look-ups and lists in
// schedules.cc, records that come and go in records.cc, those that nobody shall be given in
// withdrawn.cc, measurements that are worth nothing in annulled.cc. Thread-safe.
#pragma once

#include "google/protobuf/repeated_ptr_field.h"
#include "loopwright/v1/schedule.pb.h"
#include "src/serve/core/core.h"
#include "src/serve/service/index_keeper.h"
#include "src/serve/studies/door.h"

namespace lw {

struct Records;

// How far an export has come.
struct ExportCursor {
  int64_t whole = 0;                       // the last key that was given whole
  int64_t key = 0, measurement = 0;        // of this key, up to this one (0: nothing)
  bool over = false;
};

class Schedules {
 public:
  // Both outlive it.
  Schedules(Core& core, IndexKeeper& keeper)
      : core_(core), keeper_(keeper), door_(*core.store) {}

  absl::Status batch_lookup(const Caller& caller, const loopwright::v1::BatchLookupRequest& request,
                            loopwright::v1::BatchLookupResponse* response);
  absl::Status put_records(const Caller& caller, const loopwright::v1::PutRecordsRequest& request,
                           loopwright::v1::PutRecordsResponse* response);
  absl::Status list_history(const Caller& caller, const loopwright::v1::ListHistoryRequest& request,
                            loopwright::v1::ListHistoryResponse* response);
  absl::Status list_schedules(const Caller& caller,
                              const loopwright::v1::ListSchedulesRequest& request,
                              loopwright::v1::ListSchedulesResponse* response);
  // Records after the cursor, about a MiB of them, which are none at times; the cursor moves on.
  // Programs are those of the caller's studies, an admin's are all.
  absl::Status export_some(const Caller& caller, bool best_only, ExportCursor* cursor,
                           loopwright::v1::ExportRecordsResponse* response);
  absl::Status import_some(const Caller& caller,
                           const loopwright::v1::ImportRecordsRequest& request,
                           loopwright::v1::ImportRecordsResponse* total);

  absl::Status withdraw_record(const Caller& caller,
                               const loopwright::v1::WithdrawRecordRequest& request,
                               loopwright::v1::WithdrawnRecord* response);
  absl::Status restore_record(const Caller& caller,
                              const loopwright::v1::RestoreRecordRequest& request,
                              loopwright::v1::RestoreRecordResponse* response);
  absl::Status list_withdrawn(const Caller& caller,
                              const loopwright::v1::ListWithdrawnRequest& request,
                              loopwright::v1::ListWithdrawnResponse* response);
  absl::Status poll_withdrawn(const Caller& caller,
                              const loopwright::v1::PollWithdrawnRequest& request,
                              loopwright::v1::PollWithdrawnResponse* response);
  absl::Status annul_measurements(const Caller& caller,
                                  const loopwright::v1::AnnulMeasurementsRequest& request,
                                  loopwright::v1::AnnulMeasurementsResponse* response);
  absl::Status reinstate_measurements(const Caller& caller,
                                      const loopwright::v1::ReinstateMeasurementsRequest& request,
                                      loopwright::v1::ReinstateMeasurementsResponse* response);

 private:
  absl::StatusOr<Records> take_in(
      const Caller& caller,
      const google::protobuf::RepeatedPtrField<loopwright::v1::Record>& messages,
      Skipped* skipped, Door::Findings* findings);
  absl::Status store_piece(const Caller& caller, std::string_view method, std::string_view subject,
                           const Records& piece, int64_t* stored);
  absl::Status may_store(Transaction& tx, const Caller& caller, int64_t fresh);
  // Of a request with a filter, a reason and a dry_run, into a response with measurements and keys.
  template <class Request, class Response>
  absl::Status mark_measurements(const Caller& caller, std::string_view method, bool annul,
                                 const Request& request, Response* response);

  Core& core_;
  IndexKeeper& keeper_;
  Door door_;
};

}  // namespace lw
