// Studies and their curves. A study's own row holds its counters, so a list costs one row a study
// and one a workload; only a curve reads events, at most 2,000 for a call.
#include <algorithm>
#include <cmath>

#include "loopwright/v1/study.pb.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/messages/failure_messages.h"
#include "src/serve/page/views.h"
#include "src/serve/studies/studies.h"
#include "tuner_db/tables/history.h"
#include "tuner_db/time_kind.h"

namespace lw {
namespace {

constexpr int kEventsAtOnce = 2000;
constexpr size_t kWorkloadsShown = 1000;
constexpr int kFailingShown = 20;
constexpr char kAfterAllIds[] = "~";       // ids are digits and letters

constexpr char kStudyColumns[] =
    "SELECT id, client, spec, state, priority, target, error, trials, failed, created_ms, "
    "updated_ms, ended_ms, CASE WHEN state <> 'queued' THEN '' WHEN waiting = '' THEN 'a seat' "
    "ELSE waiting END, CASE WHEN waiting_ms > 0 THEN waiting_ms ELSE created_ms END "
    "FROM studies ";

struct Progress {
  int workloads = 0, done = 0;
  double best_us = 0;                      // of the only workload
  TimeKind time_kind = TimeKind::kMeasured;
  double log_gain = 0;                     // of those with a best and a zero-trial time
  int gains = 0;
  std::string first;
  Json rows = Json::array();
};

absl::Status read_workloads(Transaction& tx, const std::string& id, bool with_rows,
                            Progress* progress) {
  Query query = tx.query(
      "SELECT position, name, workload, backend, threads, cache, weight, trials, failed, "
      "CASE WHEN given_us > 0 THEN given_us ELSE best_us END, zero_us, busy_s, done, note, "
      "time_kind FROM study_workloads WHERE study = ? ORDER BY position", id);
  while (query.next()) {
    const double best = query.real(9), zero = query.real(10);
    if (progress->workloads++ == 0) progress->first = query.text(1);
    progress->done += query.integer(12) != 0;
    progress->best_us = best;
    if (best > 0 && zero > 0) {
      progress->log_gain += std::log(zero / best);
      ++progress->gains;
    }
    TimeKind kind = TimeKind::kMeasured;   // what is damaged shows as the default
    parse_time_kind(query.integer(14), &kind);
    progress->time_kind = kind;
    if (!with_rows || progress->rows.size() >= kWorkloadsShown) continue;
    progress->rows.push_back({{"position", query.integer(0)}, {"name", query.text(1)},
                              {"workload", query.text(2)}, {"backend", query.text(3)},
                              {"threads", query.integer(4)}, {"cache", query.text(5)},
                              {"weight", query.real(6)}, {"trials", query.integer(7)},
                              {"failed", query.integer(8)}, {"best_us", best}, {"zero_us", zero},
                              {"busy_s", query.real(11)}, {"done", query.integer(12) != 0},
                              {"note", query.text(13)},
                              {"time_kind", time_kind_name(kind)}});
  }
  return query.status();
}

absl::StatusOr<Json> study_json(Transaction& tx, const Query& row, bool with_workloads) {
  const std::string id = row.text(0);
  loopwright::v1::StudySpec spec;
  spec.ParseFromString(std::string(row.bytes(2)));  // a damaged one shows as empty
  Progress progress;
  RETURN_IF_ERROR(read_workloads(tx, id, with_workloads, &progress));
  const int wanted = spec.trials() > 0 ? spec.trials() : 200 * progress.workloads;
  Json labels = Json::object();
  for (const auto& [name, value] : spec.labels()) labels[name] = value;
  Json study = {
      {"id", id},
      {"client", row.text(1)},
      {"state", row.text(3)},
      {"priority", row.integer(4)},
      {"target", row.text(5).empty() ? spec.target() : target_name(tx, row.text(5))},
      {"error", row.text(6)},
      {"waiting", row.text(12)},           // for what, while it is queued
      {"waiting_since_ms", row.text(12).empty() ? 0 : row.integer(13)},
      {"trials", row.integer(7)},
      {"trials_wanted", wanted},
      {"time_budget_s", spec.time_budget().seconds()},
      {"failed", row.integer(8)},
      {"created_ms", row.integer(9)},
      {"updated_ms", row.integer(10)},
      {"ended_ms", row.integer(11)},
      {"labels", labels},
      {"first_workload", progress.first},
      {"workload_count", progress.workloads},
      {"workloads_done", progress.done},
      {"best_us", progress.workloads == 1 ? progress.best_us : 0.0},
      {"time_kind", time_kind_name(progress.time_kind)},
      {"gain", progress.gains > 0 ? std::exp(progress.log_gain / progress.gains) : 0.0}};
  if (with_workloads) study["workloads"] = std::move(progress.rows);
  return study;
}

// Of a study's workload, as GetStudy gives them.
absl::StatusOr<Json> workload_failures(Transaction& tx, const std::string& id, int64_t position) {
  Query query = tx.query(
      "SELECT k.id FROM study_workloads w "
      "JOIN studies s ON s.id = w.study "
      "JOIN keys k ON k.workload = w.workload AND k.target = s.target AND k.backend = w.backend "
      "AND k.threads = w.threads AND k.cache = w.cache AND k.objective = 'time' "
      "WHERE w.study = ? AND w.position = ?",
      id, position);
  const int64_t key = query.next() ? query.integer(0) : 0;
  RETURN_IF_ERROR(query.status());
  ASSIGN_OR_RETURN(const std::vector<FailureClass> failures, read_failures(tx, key));
  return failures_json(failure_messages(failures));
}

}  // namespace

absl::StatusOr<Json> view_studies(const ViewContext& context, const Parameters& parameters) {
  ASSIGN_OR_RETURN(const int64_t limit, integer_parameter(parameters, "limit", 20, 1, 100));
  ASSIGN_OR_RETURN(const std::string state, text_parameter(parameters, "state"));
  ASSIGN_OR_RETURN(std::string before, text_parameter(parameters, "before"));
  if (before.empty()) before = kAfterAllIds;
  const std::string where = concat("WHERE state <> '", kDeleted, "' AND id < ? ",
                                   state.empty() ? "" : "AND state = ? ");
  std::vector<Value> values = {std::string_view(before)};
  if (!state.empty()) values.push_back(std::string_view(state));
  Json page = {{"studies", Json::array()}, {"next", nullptr}};
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const StudyPage found, page_of_studies(tx, where, values,
                                                            static_cast<int>(limit)));
    if (found.count == 0) return absl::OkStatus();
    if (found.more) page["next"] = found.last;
    std::vector<Value> chosen = values;
    chosen.push_back(std::string_view(found.last));
    const std::string sql = concat(kStudyColumns, where, "AND id >= ? ORDER BY id DESC");
    Query query = tx.query_values(sql, chosen);
    Json& studies = page["studies"];
    while (query.next()) {
      ASSIGN_OR_RETURN(Json study, study_json(tx, query, false));
      studies.push_back(std::move(study));
    }
    return query.status();
  }));
  return page;
}

absl::StatusOr<Json> view_study(const ViewContext& context, const std::string& id) {
  Json study;
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    const std::string sql = concat(kStudyColumns, "WHERE id = ? AND state <> ?");
    Query query = tx.query(sql, id, kDeleted);
    if (!query.next()) {
      RETURN_IF_ERROR(query.status());
      return absl::NotFoundError(concat("there is no study '", id, "'"));
    }
    ASSIGN_OR_RETURN(study, study_json(tx, query, true));
    return absl::OkStatus();
  }));
  return study;
}

absl::StatusOr<Json> view_study_failures(const ViewContext& context, const std::string& id) {
  Json workloads = Json::array();
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    Query query = tx.query("SELECT position, name FROM study_workloads WHERE "
                           "study = ? AND failed > 0 ORDER BY position LIMIT ?",
                           id, kFailingShown);
    while (query.next()) {
      ASSIGN_OR_RETURN(Json classes, workload_failures(tx, id, query.integer(0)));
      if (classes.empty()) continue;
      workloads.push_back({{"position", query.integer(0)}, {"name", query.text(1)},
                           {"failures", std::move(classes)}});
    }
    return query.status();
  }));
  return Json{{"workloads", std::move(workloads)}};
}

absl::StatusOr<Json> view_curve(const ViewContext& context, const std::string& id,
                                const Parameters& parameters) {
  ASSIGN_OR_RETURN(const int64_t after,
                   integer_parameter(parameters, "after", 0, 0, int64_t{1} << 53));
  Json points = Json::array();
  int64_t last = after, count = 0;
  bool ended = false;
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    Query query = tx.query(
        "SELECT sequence, event FROM events WHERE study = ? AND sequence > ? ORDER BY sequence "
        "LIMIT ?", id, after, kEventsAtOnce);
    for (; query.next(); ++count) {
      loopwright::v1::StudyEvent event;
      last = query.integer(0);
      if (!event.ParseFromString(std::string(query.bytes(1)))) continue;
      if (event.kind() == loopwright::v1::StudyEvent::KIND_ENDED) ended = true;
      if (event.kind() != loopwright::v1::StudyEvent::KIND_IMPROVED || event.best_us() <= 0)
        continue;
      points.push_back({{"workload", event.workload()}, {"elapsed_s", event.elapsed_s()},
                        {"best_us", event.best_us()}, {"trials", event.trials()}});
    }
    return query.status();
  }));
  return Json{{"points", std::move(points)}, {"sequence", last},
              {"more", count == kEventsAtOnce}, {"ended", ended}};
}

}  // namespace lw
