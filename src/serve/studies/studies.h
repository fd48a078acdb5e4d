// What is asked of studies: made, shown, listed, cancelled; and the operation that stands for each.
// An operation is a view of its study: there is no second row that could disagree with it, and none
// that could be left unfinished.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/longrunning/operations.pb.h"
#include "src/serve/access/limits.h"
#include "src/serve/queue/leases.h"

namespace lw {

// A spec that was checked, with everything filled in that a zero stands for.
struct CheckedSpec {
  loopwright::v1::StudySpec spec;
  std::vector<WorkloadRow> workloads;      // of spec.workloads, in order
  std::vector<double> memory;              // bytes that measuring each takes
};
// INVALID_ARGUMENT naming the field; parses every program, which takes milliseconds each.
absl::StatusOr<CheckedSpec> check_spec(const loopwright::v1::StudySpec& spec,
                                       const Quotas& quotas);

// Stores a new study of `client`'s, queued. RESOURCE_EXHAUSTED: the client's quota.
absl::StatusOr<StudyRow> create_study(WriteTransaction& tx, const CheckedSpec& checked,
                                      const Identity& client, const Quotas& quotas,
                                      int64_t now_ms, Changes* changes);

// Ends it unless it has ended; its jobs are cancelled.
absl::Status end_study(WriteTransaction& tx, StudyRow& study, loopwright::v1::StudyState state,
                       std::string_view error, int64_t now_ms, Changes* changes);

// As the API shows it.
absl::StatusOr<loopwright::v1::Study> study_message(Transaction& tx, const StudyRow& row, bool full,
                                                    int64_t now_ms);
absl::StatusOr<google::longrunning::Operation> operation_of(Transaction& tx, const StudyRow& row,
                                                            int64_t now_ms);
// The newest of the studies that `where` ("WHERE ...") chooses: at most `most` of them, and so many
// that their specs, which hold programs, have 16 MiB at most together, but one at least.
struct StudyPage {
  std::string last;                        // the id of the oldest
  int count = 0;
  bool more = false;                       // others follow
};
absl::StatusOr<StudyPage> page_of_studies(Transaction& tx, std::string_view where,
                                          std::vector<Value> values, int most);
absl::StatusOr<loopwright::v1::ListStudiesResponse> list_studies(
    Transaction& tx, const loopwright::v1::ListStudiesRequest& request, int64_t now_ms);

std::string etag_of(const StudyRow& row);

}  // namespace lw
