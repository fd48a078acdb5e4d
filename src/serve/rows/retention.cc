// Each kind is a condition on rows, which finds, counts and deletes them; `?` in it is the time
// before which. What goes of a study goes piece by piece, and the study's row says how far.
#include "src/serve/rows/retention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/rows/deletion.h"
#include "src/serve/rows/rows.h"

namespace lw {
namespace {

constexpr double kDayMs = 86'400'000;

constexpr RetentionSetting kSettings[] = {
    {"audit_days", &Retention::audit_days, "lines of the audit log"},
    {"orphan_days", &Retention::orphan_days, "results of leases that were lost"},
    {"payload_days", &Retention::payload_days, "programs and traces of the jobs of ended studies"},
    {"event_days", &Retention::event_days, "events of ended studies, but the last of each"},
    {"study_days", &Retention::study_days, "ended studies, with their jobs and events"},
    {"device_days", &Retention::device_days, "devices and agents that were not seen since, hold "
                                             "nothing and are open"},
};

// Of one study that is over. Whether there is no more of it.
using Piece = absl::StatusOr<bool> (*)(WriteTransaction&, const std::string& study, int most,
                                       int64_t* rows);

absl::StatusOr<bool> delete_study(WriteTransaction& tx, const std::string& study, int most,
                                  int64_t* rows) {
  ASSIGN_OR_RETURN(const bool over, delete_piece(tx, study, most));
  *rows = over;
  return over;
}

absl::StatusOr<bool> forget_payloads(WriteTransaction& tx, const std::string& study, int most,
                                     int64_t* rows) {
  RETURN_IF_ERROR(tx.query("UPDATE jobs SET payload = ? WHERE id IN (SELECT id FROM jobs "
                           "WHERE study = ? AND ended_ms > 0 AND length(payload) > 0 LIMIT ?)",
                           Blob{""}, study, most).run());
  *rows = tx.changes();
  if (*rows == most) return false;
  RETURN_IF_ERROR(tx.query("UPDATE studies SET keeps_payloads = 0 WHERE id = ?", study).run());
  return true;
}

// The last one says how it ended, to whoever watches.
absl::StatusOr<bool> forget_events(WriteTransaction& tx, const std::string& study, int most,
                                   int64_t* rows) {
  int64_t last = 0;
  {
    Query query = tx.query("SELECT max(sequence) FROM events WHERE study = ?", study);
    if (query.next()) last = query.integer(0);
    RETURN_IF_ERROR(query.status());
  }
  ASSIGN_OR_RETURN(*rows, delete_events(tx, study, last, most));
  if (*rows == most) return false;
  RETURN_IF_ERROR(tx.query("UPDATE studies SET keeps_events = 0 WHERE id = ?", study).run());
  return true;
}

struct Kind {
  std::string what;                        // "": they are marked as deleted, and go as such
  double Retention::*days;                 // null: whatever the time
  std::string table;
  std::string is_over;                     // of its rows
  std::string order;                       // along an index
  Piece piece = nullptr;                   // of one such study; null: the rows themselves go
  std::string count = "";                  // where it is not that of the rows; without deleted studies,
                                           // which have gone by then
};

const std::vector<Kind>& kinds() {
  // A device that an operator or its failures have closed is remembered with the reason.
  static const std::string kUnused =
      "devices.seen_ms < ? AND devices.admission = 'open' AND NOT EXISTS (SELECT 1 FROM jobs "
      "WHERE jobs.state = 'leased' AND jobs.device = devices.id)";
  static const std::vector<Kind> kKinds = {
      {"studies", nullptr, "studies", "state = 'deleted'", "id", delete_study},
      {"audit", &Retention::audit_days, "audit", "time_ms < ?", "time_ms"},
      {"orphans", &Retention::orphan_days, "orphans", "received_ms < ?", "id"},
      {"payloads", &Retention::payload_days, "studies",
       "keeps_payloads <> 0 AND ended_ms > 0 AND ended_ms < ?", "ended_ms", forget_payloads,
       "SELECT count(*) FROM jobs j JOIN studies s ON s.id = j.study WHERE j.ended_ms > 0 AND "
       "length(j.payload) > 0 AND s.state <> 'deleted' AND s.keeps_payloads <> 0 AND "
       "s.ended_ms > 0 AND s.ended_ms < ?"},
      {"events", &Retention::event_days, "studies",
       "keeps_events <> 0 AND ended_ms > 0 AND ended_ms < ?", "ended_ms", forget_events,
       "SELECT count(*) - count(DISTINCT e.study) FROM events e JOIN studies s ON s.id = e.study "
       "WHERE s.state <> 'deleted' AND s.keeps_events <> 0 AND s.ended_ms > 0 AND s.ended_ms < ?"},
      {"", &Retention::study_days, "studies",
       "state <> 'deleted' AND ended_ms > 0 AND ended_ms < ?", "ended_ms"},
      {"devices", &Retention::device_days, "devices", kUnused, "seen_ms"},
      {"agents", &Retention::device_days, "agents",
       "seen_ms < ? AND NOT EXISTS (SELECT 1 FROM devices WHERE devices.agent = agents.id)", "id",
       nullptr,
       concat("SELECT count(*) FROM agents WHERE seen_ms < ? AND NOT EXISTS (SELECT 1 FROM devices "
              "WHERE devices.agent = agents.id AND NOT (", kUnused, "))")},
  };
  return kKinds;
}

bool is_marking(const Kind& kind) { return kind.what.empty(); }

// The time for each `?`; nothing where the kind is kept for ever.
std::optional<std::vector<Value>> before(const Kind& kind, std::string_view sql,
                                         const Retention& retention, int64_t now_ms) {
  if (kind.days == nullptr) return std::vector<Value>();
  const double days = retention.*kind.days;
  if (days <= 0) return std::nullopt;
  const int64_t time_ms = now_ms - static_cast<int64_t>(std::llround(days * kDayMs));
  return std::vector<Value>(static_cast<size_t>(std::count(sql.begin(), sql.end(), '?')), time_ms);
}

}  // namespace

std::span<const RetentionSetting> retention_settings() { return kSettings; }

absl::StatusOr<int> what_to_forget(Transaction& tx, const Retention& retention, int64_t now_ms) {
  for (size_t i = 0; i < kinds().size(); ++i) {
    const Kind& kind = kinds()[i];
    const auto values = before(kind, kind.is_over, retention, now_ms);
    if (!values) continue;
    Query query = tx.query_values(
        concat("SELECT 1 FROM ", kind.table, " WHERE ", kind.is_over, " LIMIT 1"), *values);
    if (query.next()) return static_cast<int>(i);
    RETURN_IF_ERROR(query.status());
  }
  return -1;
}

absl::Status forget_piece(WriteTransaction& tx, const Retention& retention, int index,
                          int64_t now_ms, int most, Forgotten* gone) {
  const Kind& kind = kinds()[index];
  auto values = before(kind, kind.is_over, retention, now_ms);
  if (!values) return absl::OkStatus();
  const std::string those = concat("SELECT id FROM ", kind.table, " WHERE ", kind.is_over,
                                   " ORDER BY ", kind.order, " LIMIT ?");
  if (kind.piece != nullptr) {
    values->push_back(int64_t{1});
    std::string study;
    Query query = tx.query_values(those, *values);
    if (query.next()) study = query.text(0);
    RETURN_IF_ERROR(query.status());
    if (study.empty()) return absl::OkStatus();
    int64_t rows = 0;
    RETURN_IF_ERROR(kind.piece(tx, study, most, &rows).status());
    if (rows > 0) (*gone)[kind.what] += rows;
    return absl::OkStatus();
  }
  values->push_back(int64_t{most});
  const std::string sql =
      is_marking(kind) ? concat("UPDATE studies SET state = 'deleted' WHERE id IN (", those, ")")
                       : concat("DELETE FROM ", kind.table, " WHERE id IN (", those, ")");
  RETURN_IF_ERROR(tx.query_values(sql, *values).run());
  if (!is_marking(kind) && tx.changes() > 0) (*gone)[kind.what] += tx.changes();
  return absl::OkStatus();
}

absl::StatusOr<Forgotten> count_forgettable(Transaction& tx, const Retention& retention,
                                            int64_t now_ms) {
  Forgotten counts;
  for (const Kind& kind : kinds()) {
    const std::string sql =
        kind.count.empty() ? concat("SELECT count(*) FROM ", kind.table, " WHERE ", kind.is_over)
                           : kind.count;
    const auto values = before(kind, sql, retention, now_ms);
    if (!values) continue;
    Query query = tx.query_values(sql, *values);
    const int64_t rows = query.next() ? query.integer(0) : 0;
    RETURN_IF_ERROR(query.status());
    if (rows > 0) counts[is_marking(kind) ? "studies" : kind.what] += rows;
  }
  return counts;
}

}  // namespace lw
