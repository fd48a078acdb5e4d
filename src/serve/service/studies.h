// Studies, and the operations that stand for them: what TuningService and longrunning.Operations
// promise, but for what streams or waits (src/serve/wire/streams.h). Thread-safe.
#pragma once

#include "google/longrunning/operations.pb.h"
#include "src/serve/core/core.h"

namespace lw {

class Studies {
 public:
  // `core` outlives it.
  explicit Studies(Core& core) : core_(core) {}

  absl::Status create_study(const Caller& caller, const loopwright::v1::CreateStudyRequest& request,
                            google::longrunning::Operation* response);
  absl::Status get_study(const Caller& caller, const loopwright::v1::GetStudyRequest& request,
                         loopwright::v1::Study* response);
  absl::Status list_studies(const Caller& caller,
                            const loopwright::v1::ListStudiesRequest& request,
                            loopwright::v1::ListStudiesResponse* response);
  absl::Status cancel_study(const Caller& caller, const loopwright::v1::CancelStudyRequest& request,
                            loopwright::v1::Study* response);
  absl::Status get_operation(const Caller& caller,
                             const google::longrunning::GetOperationRequest& request,
                             google::longrunning::Operation* response);
  absl::Status list_operations(const Caller& caller,
                               const google::longrunning::ListOperationsRequest& request,
                               google::longrunning::ListOperationsResponse* response);
  absl::Status cancel_operation(const Caller& caller,
                                const google::longrunning::CancelOperationRequest& request,
                                google::protobuf::Empty* response);
  // Of a study that has ended; what was measured stays.
  absl::Status delete_operation(const Caller& caller,
                                const google::longrunning::DeleteOperationRequest& request,
                                google::protobuf::Empty* response);
  // Events with a sequence after `sequence`, at most `count`; whether the study has ended, its last
  // event then being stored. NOT_FOUND: no such study.
  absl::StatusOr<std::vector<loopwright::v1::StudyEvent>> events(const std::string& study,
                                                                 int64_t sequence, int count,
                                                                 bool* ended);
  // What this server can do.
  absl::Status get_capabilities(const Caller& caller,
                                const loopwright::v1::GetCapabilitiesRequest& request,
                                loopwright::v1::GetCapabilitiesResponse* response);

 private:
  Core& core_;
};

}  // namespace lw
