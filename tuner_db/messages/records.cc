// Export and import: one Record (proto/loopwright/v1/record.proto) a line, in protobuf's JSON form.
//
// A stream names a workload or target with the first record that needs it, so any prefix of an
// export can be imported. Import trusts nothing: all lines are parsed and checked (ids are
// recomputed from what they name) before the first is stored, and each key is then appended in one
// transaction, so that a failure half way leaves whole keys and a second import completes it. What
// another version wrote and this one cannot read is left out and counted where the caller wants
// that.
#include "tuner_db/messages/records.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "schedules/targets/identity.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/messages/record_lines.h"
#include "tuner_db/workload_row.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

// Reads the lines of a file one after the other.
class Import {
 public:
  Import(const Store& store, Skipped* skipped) : store_(store), skipped_(skipped) {}

  absl::Status add(std::string_view line) {
    v1::Record record;
    std::string unknown;
    RETURN_IF_ERROR(parse_record_line(line, &record, &unknown));
    if (skipped_ == nullptr && !unknown.empty()) return unknown_here(unknown);
    absl::Status status = explain(record, unknown, add_record(record, &records, &store_));
    if (const auto row = records.workloads.find(record.workload().id());
        record.has_workload() && row != records.workloads.end()) {
      if (const absl::Status right = correct(&row->second); !right.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("workload: ", right.message()));
      }
    }
    // What describes a key may have been left out before.
    const bool is_left_out = skipped_ != nullptr && skipped_->records > 0 &&
                             absl::IsNotFound(status);
    if (skipped_ == nullptr || !(is_unknown_here(status) || is_left_out)) return status;
    skipped_->add(std::string(status.message()), line);
    return absl::OkStatus();
  }

  Records records;

 private:
  const Store& store_;
  Skipped* skipped_;
};

}  // namespace

absl::Status add_record(const v1::Record& record, Records* records, const Store* store) {
  const int number = records->count++;
  if (record.has_workload()) {
    ASSIGN_OR_RETURN(WorkloadRow row, from_proto(record.workload()));
    WorkloadRow& known = records->workloads.try_emplace(row.id, row).first->second;
    if (known.program.empty()) known.program = std::move(row.program);
  }
  if (record.has_target()) {
    ASSIGN_OR_RETURN(Target target, from_proto(record.target()));
    records->targets.emplace(sha256(to_text(target)), std::move(target));
  }
  if (record.has_key() != record.has_measurement()) {
    return absl::InvalidArgumentError("a key and a measurement belong together, one is missing");
  }
  if (!record.has_key()) return absl::OkStatus();
  const Key key = from_proto(record.key());
  if (std::string what = defect(key); !what.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("key: ", what));
  }
  if (store != nullptr && !records->workloads.contains(key.workload)) {
    RETURN_IF_ERROR(store->workload(key.workload).status());
  }
  if (store != nullptr && !records->targets.contains(key.target)) {
    RETURN_IF_ERROR(store->target(key.target).status());
  }
  ASSIGN_OR_RETURN(Measurement measurement, from_proto(record.measurement()));
  if (record.has_withdrawal()) {
    const v1::Withdrawal& withdrawal = record.withdrawal();
    if (withdrawal.reason().empty()) {
      return absl::InvalidArgumentError("withdrawal: a reason must be given");
    }
    records->withdrawals.push_back({key, measurement.trace, withdrawal.reason(),
                                    withdrawal.evidence(), withdrawal.actor(),
                                    withdrawal.unix_ms(), withdrawal.kernel_hash()});
  }
  const auto [place, is_new] =
      records->index.emplace(record.key().SerializeAsString(), records->keys.size());
  if (is_new) {
    records->keys.push_back({key, {}});
    records->numbers.emplace_back();
  }
  records->keys[place->second].second.push_back(std::move(measurement));
  records->numbers[place->second].push_back(number);
  return absl::OkStatus();
}

void set_withdrawal(const std::vector<Withdrawal>& withdrawn, const std::string& trace,
                    v1::Record* record) {
  for (const Withdrawal& one : withdrawn) {
    if (one.trace != trace) continue;
    v1::Withdrawal& out = *record->mutable_withdrawal();
    out.set_reason(one.reason);
    out.set_evidence(one.evidence);
    out.set_actor(one.actor);
    out.set_unix_ms(one.unix_ms);
    out.set_kernel_hash(one.kernel_hash);
  }
}

Key stored_key(const Store& store, const Records& records, Key key) {
  const auto named = records.targets.find(key.target);
  if (named != records.targets.end()) {
    key.target = target_id(named->second);
  } else if (const absl::StatusOr<Target> known = store.target(key.target); known.ok()) {
    key.target = target_id(*known);
  }
  return key;
}

std::vector<Records> in_pieces(const Records& records, size_t measurements) {
  std::vector<Records> pieces(1);
  std::multimap<std::string_view, const Withdrawal*> withdrawals;  // by workload
  for (const Withdrawal& one : records.withdrawals) withdrawals.emplace(one.key.workload, &one);
  size_t held = 0;
  for (const auto& [key, all] : records.keys) {
    for (size_t begin = 0; begin < all.size();) {
      if (held == measurements) {
        pieces.emplace_back();
        held = 0;
      }
      const size_t end = std::min(all.size(), begin + measurements - held);
      Records& piece = pieces.back();
      piece.keys.push_back({key, {all.begin() + static_cast<ptrdiff_t>(begin),
                                  all.begin() + static_cast<ptrdiff_t>(end)}});
      if (const auto row = records.workloads.find(key.workload); row != records.workloads.end()) {
        piece.workloads.insert(*row);
      }
      if (const auto target = records.targets.find(key.target); target != records.targets.end()) {
        piece.targets.insert(*target);
      }
      const auto [first, last] = withdrawals.equal_range(key.workload);
      for (auto at = first; begin == 0 && at != last;) {
        const auto next = std::next(at);
        if (at->second->key == key) {
          piece.withdrawals.push_back(*at->second);
          withdrawals.erase(at);
        }
        at = next;
      }
      held += end - begin;
      begin = end;
    }
  }
  pieces.back().workloads.insert(records.workloads.begin(), records.workloads.end());
  pieces.back().targets.insert(records.targets.begin(), records.targets.end());
  for (const auto& [workload, one] : withdrawals) pieces.back().withdrawals.push_back(*one);
  return pieces;
}

absl::Status store_records(Store& store, const Records& records, int64_t* stored) {
  *stored = 0;
  for (const auto& [id, row] : records.workloads) RETURN_IF_ERROR(store.put_workload(row));
  for (const auto& [id, target] : records.targets) {
    RETURN_IF_ERROR(store.put_target(target_id(target), identity_of(target)));
  }
  for (const auto& [named, measurements] : records.keys) {
    const Key key = stored_key(store, records, named);
    std::vector<Measurement> all = measurements;
    int64_t fresh = 0;
    RETURN_IF_ERROR(store.put(key, all, &fresh));
    *stored += fresh;
  }
  for (Withdrawal withdrawal : records.withdrawals) {
    withdrawal.key = stored_key(store, records, withdrawal.key);
    ASSIGN_OR_RETURN(const std::vector<Withdrawal> known, store.withdrawn(withdrawal.key));
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const Withdrawal& one) {
      return one.trace == withdrawal.trace;
    });
    if (!is_known) RETURN_IF_ERROR(store.withdraw(withdrawal));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> export_records(const Store& store) {
  std::string lines;
  std::set<std::string> workloads, targets;
  auto print = [&](const v1::Record& record) -> absl::Status {
    const std::string line = record_line(record);
    if (line.empty()) return absl::InternalError("a record has no JSON form");
    absl::StrAppend(&lines, line, "\n");
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const std::vector<Key> keys, store.keys());
  for (const Key& key : keys) {
    ASSIGN_OR_RETURN(const std::vector<Measurement> measurements, store.measurements(key));
    ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn, store.withdrawn(key));
    std::set<std::string> traces;
    for (const Measurement& m : measurements) {
      v1::Record record;
      *record.mutable_key() = to_proto(key);
      *record.mutable_measurement() = to_proto(m);
      if (traces.insert(m.trace).second) set_withdrawal(withdrawn, m.trace, &record);
      if (workloads.insert(key.workload).second) {
        ASSIGN_OR_RETURN(const WorkloadRow row, store.workload(key.workload));
        *record.mutable_workload() = to_proto(row);
      }
      if (targets.insert(key.target).second) {
        ASSIGN_OR_RETURN(const Target target, store.target(key.target));
        *record.mutable_target() = to_proto(target);
      }
      RETURN_IF_ERROR(print(record));
    }
  }
  ASSIGN_OR_RETURN(const std::vector<WorkloadRow> rows, store.workloads());
  for (const WorkloadRow& row : rows) {
    if (workloads.contains(row.id)) continue;
    v1::Record record;
    *record.mutable_workload() = to_proto(row);
    RETURN_IF_ERROR(print(record));
  }
  return lines;
}

absl::Status import_records(Store& store, std::string_view lines, int64_t* imported,
                            Skipped* skipped) {
  *imported = 0;
  Import import(store, skipped);
  int64_t number = 0;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string_view line = lines.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (absl::Status status = import.add(line); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", status.message()));
    }
  }
  return store_records(store, import.records, imported);
}

}  // namespace lw
