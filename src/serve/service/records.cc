// Records, on the wire: put, imported, exported. Each is checked as it comes; whose word it is, and
// whether that counts, the caller's role decides.
#include <set>

#include "nlohmann/json.hpp"
#include "src/serve/core/calls.h"
#include "src/serve/rows/rows.h"
#include "src/serve/service/schedules.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/messages/record_lines.h"
#include "tuner_db/messages/records.h"
#include "tuner_db/tables/history.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

constexpr int kMostRecords = 10'000;       // of a message
constexpr size_t kPutAtOnce = 200;         // a commit of them lasts some 15 ms
constexpr int kExportKeys = 50;            // a message
constexpr size_t kExportBytes = 1 << 20;
constexpr size_t kLongestLabel = 4096;     // a workload's name and words
constexpr size_t kLongestSource = 64, kLongestEnvironment = 64 << 10;
constexpr int64_t kLatest_ms = 4'102'444'800'000;  // 2100: clocks may be wrong, not that much

// What older files may hold, and nobody gives any more.
std::string unfit(const v1::Record& record) {
  const v1::Measurement& m = record.measurement();
  if (m.source().size() > kLongestSource) return concat("source is longer than ", kLongestSource);
  if (m.environment().size() > kLongestEnvironment) {
    return concat("environment is longer than ", kLongestEnvironment, " bytes");
  }
  if (!m.environment().empty() &&
      !nlohmann::json::parse(m.environment(), nullptr, false).is_object()) {
    return "environment is no JSON object";
  }
  const v1::Workload& workload = record.workload();
  if (workload.name().size() > kLongestLabel || workload.source_words().size() > kLongestLabel) {
    return concat("workload: its name or words are longer than ", kLongestLabel);
  }
  const v1::Withdrawal& withdrawal = record.withdrawal();
  const bool is_long = withdrawal.reason().size() > kLongestReason ||
                       withdrawal.evidence().size() > kLongestEnvironment ||
                       withdrawal.actor().size() > kLongestReason;
  if (is_long) return "withdrawal: too long";
  if (m.unix_ms() < 0 || m.unix_ms() > kLatest_ms) return "unix_ms is no time of these days";
  return "";
}

absl::Status check(const v1::Record& record) {
  if (!record.has_key()) return absl::OkStatus();  // a workload or a target alone
  const Key key = from_proto(record.key());
  if (std::string what = unknown_word(key); !what.empty()) {
    return is_digest(key.workload) && is_digest(key.target) ? unknown_here(what)
                                                            : absl::InvalidArgumentError(what);
  }
  const std::string what = unfit(record);
  return what.empty() ? absl::OkStatus() : absl::InvalidArgumentError(what);
}

// A record of which nothing is known that would keep it from being stored, or why it is left out.
absl::Status take_known(v1::Record record, const Store& store, Records* records) {
  const std::string unknown = leave_out_unknown(&record);
  RETURN_IF_ERROR(check(record));
  return explain(record, unknown, add_record(record, records, &store));
}

}  // namespace

// Who gave the measurements, and whether they count, is not for everybody to say; and what they are
// must hold (door.h). With `skipped` what another version wrote, or what lacks the workload and
// target that such a line may have described, goes there.
absl::StatusOr<Records> Schedules::take_in(
    const Caller& caller, const google::protobuf::RepeatedPtrField<v1::Record>& messages,
    Skipped* skipped, Door::Findings* findings) {
  if (messages.size() > kMostRecords) {
    return bad_field("records", concat("at most ", kMostRecords, " in a message"));
  }
  Records records;
  Door::Visit visit(door_, caller.stop);
  for (int i = 0; i < messages.size(); ++i) {
    const v1::Record& message = messages.Get(i);
    records.count = i;                     // those that are left out have numbers too
    absl::Status status = skipped == nullptr ? check(message) : absl::OkStatus();
    if (skipped != nullptr) status = take_known(message, *core_.store, &records);
    else if (status.ok()) status = add_record(message, &records);
    // What is left out may have described its workload all the same.
    const auto row = records.workloads.find(message.workload().id());
    if (message.has_workload() && row != records.workloads.end()) {
      RETURN_IF_ERROR(visit.correct_workload(i, &row->second));
    }
    if (status.ok()) continue;
    if (skipped == nullptr || !(is_unknown_here(status) || absl::IsNotFound(status))) {
      return bad_field(concat("records[", i, "]"), std::string(status.message()));
    }
    skipped->add(std::string(status.message()), record_line(message));
  }
  const bool is_believed = lw::is_believed(caller.identity.role);
  if (!is_believed) records.withdrawals.clear();
  for (Withdrawal& withdrawal : records.withdrawals) {
    if (withdrawal.actor.empty()) withdrawal.actor = actor(caller);
  }
  for (auto& [key, measurements] : records.keys) {
    for (Measurement& m : measurements) {
      m.detail = as_detail(m.detail);
      if (!is_believed || m.actor.empty()) m.actor = actor(caller);
      if (is_believed) continue;
      m.counts = false;
      m.device.clear(), m.annulled.clear();
    }
  }
  RETURN_IF_ERROR(visit.judge(&records, findings));
  return records;
}

namespace {

// To those of the messages before.
void add_skipped(const Skipped& skipped, v1::ImportRecordsResponse* total) {
  Skipped all;
  all.records = total->skipped();
  for (const v1::SkippedRecords& kind : total->reasons()) {
    all.kinds.push_back({kind.reason(), kind.count(), kind.example()});
  }
  all.add(skipped);
  total->set_skipped(all.records);
  total->clear_reasons();
  for (const Skipped::Kind& kind : all.kinds) {
    v1::SkippedRecords& message = *total->add_reasons();
    message.set_reason(kind.reason);
    message.set_count(kind.count);
    message.set_example(kind.example);
  }
}

// Of the studies that the caller made: whose programs are its own.
absl::StatusOr<std::set<std::string>> own_workloads(Transaction& tx, const Identity& caller) {
  const std::string actor = identity_text(caller);
  std::set<std::string> own;
  Query query = tx.query(
      "SELECT DISTINCT w.workload FROM studies s JOIN study_workloads w ON w.study = s.id "
      "WHERE s.state <> ? AND s.client = ? AND (s.actor = ? OR (s.actor = '' AND ? = 'client'))",
      kDeleted, caller.name, actor, role_name(caller.role));
  while (query.next()) own.insert(query.text(0));
  RETURN_IF_ERROR(query.status());
  return own;
}

}  // namespace

// Asked when it is stored already, since only then it is known how much was new.
absl::Status Schedules::may_store(Transaction& tx, const Caller& caller, int64_t fresh) {
  if (lw::is_believed(caller.identity.role)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ClientUse use, client_use(tx, actor(caller)));
  return check_unconfirmed(core_.options.config.quotas, actor(caller), use, fresh);
}

// One transaction, short enough for leases to be renewed between it and the next. `stored` grows.
absl::Status Schedules::store_piece(const Caller& caller, std::string_view method,
                                    std::string_view subject, const Records& piece,
                                    int64_t* stored) {
  int64_t fresh = 0;
  const absl::Status status = core_.commit.run([&](WriteTransaction& tx) -> absl::Status {
    RETURN_IF_ERROR(store_records(*store_in(tx), piece, &fresh));
    RETURN_IF_ERROR(may_store(tx, caller, fresh));
    return audit_done(core_, tx, caller, method, subject);
  });
  if (status.ok()) *stored += fresh;
  return write_error(core_, status);
}

absl::Status Schedules::put_records(const Caller& caller, const v1::PutRecordsRequest& request,
                                    v1::PutRecordsResponse* response) {
  RETURN_IF_ERROR(check_request_id(request.request_id()));
  Door::Findings findings;
  ASSIGN_OR_RETURN(const Records records,
                   take_in(caller, request.records(), /*skipped=*/nullptr, &findings));
  ASSIGN_OR_RETURN(const bool known, is_known(core_, caller, request.request_id()));
  const std::vector<Records> pieces = in_pieces(records, kPutAtOnce);
  int64_t before = 0;
  for (size_t i = 0; i + 1 < pieces.size() && !known; ++i) {
    RETURN_IF_ERROR(store_piece(caller, "PutRecords", subject_of(request, *response), pieces[i],
                                &before));
  }
  RETURN_IF_ERROR(change(core_, caller, "PutRecords", request, response,
                         [&](WriteTransaction& tx, Changes* changes) -> absl::Status {
    int64_t stored = 0;
    RETURN_IF_ERROR(store_records(*store_in(tx), pieces.back(), &stored));
    RETURN_IF_ERROR(may_store(tx, caller, stored));
    response->set_stored(before + stored);
    response->set_impossible(findings.impossible);
    response->set_unchecked(findings.unchecked);
    changes->doubts = findings.doubts;
    return absl::OkStatus();
  }));
  for (const auto& [key, measurements] : records.keys) {
    keeper_.update(stored_key(*core_.store, records, key));
  }
  if (records.withdrawals.empty()) return absl::OkStatus();
  return store_error(keeper_.index().refresh_withdrawn());
}

absl::Status Schedules::import_some(const Caller& caller, const v1::ImportRecordsRequest& request,
                                    v1::ImportRecordsResponse* total) {
  Skipped skipped;
  Door::Findings findings;
  ASSIGN_OR_RETURN(const Records records,
                   take_in(caller, request.records(), request.skip_unknown() ? &skipped : nullptr,
                           &findings));
  total->set_read(total->read() + request.records_size());
  add_skipped(skipped, total);
  total->set_impossible(total->impossible() + findings.impossible);
  total->set_unchecked(total->unchecked() + findings.unchecked);
  if (request.dry_run()) return absl::OkStatus();
  for (const Records& piece : in_pieces(records, kPutAtOnce)) {
    int64_t stored = 0;
    RETURN_IF_ERROR(store_piece(caller, "ImportRecords", subject_of(request, *total), piece,
                                &stored));
    total->set_stored(total->stored() + stored);
  }
  Changes changes;
  changes.doubts = findings.doubts;
  core_.changed(changes);
  for (const auto& [key, measurements] : records.keys) {
    keeper_.update(stored_key(*core_.store, records, key));
  }
  if (records.withdrawals.empty()) return absl::OkStatus();
  return store_error(keeper_.index().refresh_withdrawn());
}

// Keys in order of their ids, a large one in pieces; each record whole, workload and target with
// every key, so that a message stands by itself.
absl::Status Schedules::export_some(const Caller& caller, bool best_only, ExportCursor* cursor,
                                    v1::ExportRecordsResponse* response) {
  return view(core_, [&](Transaction& tx) -> absl::Status {
    const std::unique_ptr<const Store> store = store_in(tx);
    ASSIGN_OR_RETURN(const std::set<std::string> own, own_workloads(tx, caller.identity));
    Query query = tx.query(
        "SELECT id, workload, target, backend, threads, cache, objective "
        "FROM keys WHERE id > ? ORDER BY id LIMIT ?",
        cursor->whole, kExportKeys);
    cursor->over = true;
    size_t bytes = 0;
    while (query.next()) {
      cursor->over = false;
      if (bytes >= kExportBytes) break;
      const int64_t id = query.integer(0);
      if (id != cursor->key) cursor->measurement = 0;
      cursor->key = id;
      const Key key = {query.text(1), query.text(2), query.text(3),
                       static_cast<int>(query.integer(4)), query.text(5), query.text(6)};
      std::vector<Measurement> measurements;
      if (best_only) {
        absl::StatusOr<BestRow> best = store->best(key);
        if (best.ok()) measurements.push_back(std::move(best->measurement));
      } else {
        HistoryRequest wanted;
        wanted.from = cursor->measurement;
        wanted.bytes = kExportBytes - bytes;
        ASSIGN_OR_RETURN(HistoryPiece piece, read_history(tx, id, wanted));
        measurements = std::move(piece.rows);
        cursor->measurement = piece.next;
      }
      ASSIGN_OR_RETURN(const WorkloadRow workload, store->workload(key.workload));
      ASSIGN_OR_RETURN(const Target target, store->target(key.target));
      ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn, store->withdrawn(key));
      std::set<std::string> traces;
      for (size_t i = 0; i < measurements.size(); ++i) {
        v1::Record& record = *response->add_records();
        *record.mutable_key() = to_proto(key);
        *record.mutable_measurement() = to_proto(measurements[i]);
        if (traces.insert(measurements[i].trace).second) {
          set_withdrawal(withdrawn, measurements[i].trace, &record);
        }
        if (i == 0) {
          *record.mutable_workload() = to_proto(workload);
          *record.mutable_target() = to_proto(target);
          const bool shown =
              caller.identity.role == CallerRole::kAdmin || own.contains(key.workload);
          if (!shown) {
            record.mutable_workload()->clear_canonical_text();
            record.mutable_workload()->clear_program();
          }
        }
        bytes += record.ByteSizeLong();
      }
      if (cursor->measurement != 0) break;  // the rest of it comes with the next message
      cursor->whole = id;
    }
    return query.status();
  });
}

}  // namespace lw
