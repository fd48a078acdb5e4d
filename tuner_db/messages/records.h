// Records (proto/loopwright/v1/record.proto) on their way into a store: each is checked as it
// comes, and what is not there yet is stored (Store::put).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "loopwright/v1/record.pb.h"
#include "schedules/targets/target.h"
#include "tuner_db/store.h"

namespace lw {

struct Records {
  std::map<std::string, WorkloadRow> workloads;
  std::map<std::string, Target> targets;   // by id
  std::vector<std::pair<Key, std::vector<Measurement>>> keys;  // in order of arrival
  std::vector<std::vector<int>> numbers;   // of these measurements' records, beside them
  std::map<std::string, size_t> index;     // of a key's bytes in `keys`
  std::vector<Withdrawal> withdrawals;     // of their traces
  int count = 0;                           // the number of the next record
};

// Trusts nothing: kInvalidArgument says what does not add up, kUnimplemented what another version
// may know (record_lines.h); with a store, kNotFound a workload or target that neither it nor
// `records` have. What the record says of its workload and target is added nevertheless if it can
// be. But for what a workload's row says beside its canonical text: correct() in workload_row.h,
// before it is stored.
absl::Status add_record(const loopwright::v1::Record& record, Records* records,
                        const Store* store = nullptr);
// What `withdrawn`, a key's withdrawals, says of the trace, if anything.
void set_withdrawal(const std::vector<Withdrawal>& withdrawn, const std::string& trace,
                    loopwright::v1::Record* record);
// Each key in one transaction, then withdrawals of traces that are not withdrawn yet. `stored`: how
// many measurements were new or count now, also after an error.
absl::Status store_records(Store& store, const Records& records, int64_t* stored);
// The same records, in order, so many measurements in each with the workloads and targets that they
// need, and the withdrawals of a key with its first; what no measurement needs comes with the last.
// At least one.
std::vector<Records> in_pieces(const Records& records, size_t measurements);
// The key that `key`'s records are stored under: its target by identity. An export of an earlier
// version names a target with its cores (identities.h).
Key stored_key(const Store& store, const Records& records, Key key);

}  // namespace lw
