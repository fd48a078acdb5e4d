// The messages of proto/loopwright/v1/record.proto and target.proto, and the values they mirror.
// What is stored and exported, what an agent reports and what a server hands out are these,
// converted here and nowhere else. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "loopwright/v1/agent.pb.h"
#include "loopwright/v1/record.pb.h"
#include "loopwright/v1/study.pb.h"
#include "loopwright/v1/target.pb.h"
#include "tuner_db/failures.h"
#include "tuner_db/record.h"
#include "tuner_db/store.h"

namespace lw {

struct Target;

// Why something failed, as it is sent and kept: UTF-8, at most 4 KiB of what may be a whole compiler's
// output.
std::string as_detail(const std::string& text);

// Whether an environment or a device's facts, JSON, have "estimated":true: the kind of their times
// before there was a field for it.
bool says_estimated(const std::string& facts);

// sha256 of the outcomes' bytes in their order: what JobResult.digest must be.
std::string result_digest(const loopwright::v1::JobResult& result);

// sha256 of all that was measured, as it is exported: of everything but id and provenance. What is
// equal in it is one measurement.
std::string measurement_digest(const Measurement& measurement);

loopwright::v1::Key to_proto(const Key& key);
loopwright::v1::TimeKind to_proto(TimeKind kind);
loopwright::v1::Verdict to_proto(Verdict verdict);
loopwright::v1::Measurement to_proto(const Measurement& measurement);
loopwright::v1::Workload to_proto(const WorkloadRow& row);
loopwright::v1::Target to_proto(const Target& target);
loopwright::v1::ScheduleRecord to_proto(const ScheduleRecord& record);
loopwright::v1::FailureClass to_proto(const FailureClass& failure);

// The ways back trust nothing: kInvalidArgument names what does not add up, kUnimplemented what
// another version may know (record_lines.h). A key is not checked (defect() in invariants.h does).
Key from_proto(const loopwright::v1::Key& message);
TimeKind from_proto(loopwright::v1::TimeKind message);  // a later version's: estimated
// Empty: UNSPECIFIED, or a later version's.
std::optional<Verdict> from_proto(loopwright::v1::Verdict message);
absl::StatusOr<Measurement> from_proto(const loopwright::v1::Measurement& message);
absl::StatusOr<WorkloadRow> from_proto(const loopwright::v1::Workload& message);  // its id alone
                                                        // is checked: correct() in workload_row.h
absl::StatusOr<Target> from_proto(const loopwright::v1::Target& message);
// Traces are not parsed: whoever uses one does (src/api/lookup.h).
absl::StatusOr<ScheduleRecord> from_proto(const loopwright::v1::ScheduleRecord& message);

}  // namespace lw
