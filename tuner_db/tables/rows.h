// Rows of schema.sql as values, and the check of all of them. A value that our statements cannot
// have stored is kDataLoss.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/store.h"

namespace lw {

// Whether a measurement's field stands in `candidates`: its trace.
inline bool is_of_candidate(FieldId field) { return field.name == std::string_view("trace"); }

// In order of arrival.
absl::Status read_key(Transaction& tx, int64_t key, std::vector<Measurement>* rows);
// Those with an id above `after`, by way of what is new and not of the key.
absl::Status read_key_after(Transaction& tx, int64_t key, int64_t after,
                            std::vector<Measurement>* rows);
// Those of these ids, in the order of ids.
absl::Status read_by_id(Transaction& tx, absl::Span<const int64_t> ids,
                        std::vector<Measurement>* rows);
absl::Status read_candidate(Transaction& tx, int64_t candidate, std::vector<Measurement>* rows);

// The id of the candidate's measurement whose digest (messages.h) this is; 0: it has none. Reads
// that row, or those of versions before digests that agree in their time.
absl::StatusOr<int64_t> find_same(Transaction& tx, int64_t candidate, const Measurement& m,
                                  const std::string& digest);

// The one with this id, if it is there; all for "".
absl::Status read_workloads(Transaction& tx, std::string_view id, std::vector<WorkloadRow>* rows);

std::vector<const Measurement*> pointers(const std::vector<Measurement>& rows);

absl::Status damaged(const Transaction& tx, const std::string& what, const std::string& problem);

// Every invariant of the database, one line a defect; damage never makes it fail, it is what it
// reports.
absl::Status check_database(Transaction& tx, std::vector<std::string>* lines);
// Its part about what the service keeps (check_service.cc).
absl::Status check_service(Transaction& tx, std::vector<std::string>* lines);

}  // namespace lw
