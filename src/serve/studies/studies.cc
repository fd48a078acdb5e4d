#include "src/serve/studies/studies.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedules/targets/family.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/fields/utf8.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/measure/memory.h"
#include "src/net/times.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/messages/paging.h"
#include "src/serve/queue/devices.h"
#include "src/serve/rows/clock.h"
#include "src/serve/studies/study_queue.h"
#include "tuner_db/key_terms.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/workload_row.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kTrialsEach = 200;
constexpr size_t kLongestName = 200, kLongestProgram = 256 << 10, kMostLabels = 64;
constexpr int kMostThreads = 4096, kMostBatch = 256;

absl::Status check_text(const std::string& text, size_t longest, const std::string& field) {
  if (text.size() > longest) return bad_field(field, concat("longer than ", longest, " bytes"));
  return absl::OkStatus();
}

absl::Status check_numbers(const v1::StudySpec& spec, const Quotas& quotas) {
  if (spec.workloads_size() == 0) return bad_field("spec.workloads", "at least one is wanted");
  if (spec.workloads_size() > quotas.workloads_per_study) {
    return bad_field("spec.workloads", concat("at most ", quotas.workloads_per_study, ", not ",
                                              spec.workloads_size()));
  }
  if (spec.threads() < 0 || spec.threads() > kMostThreads) {
    return bad_field("spec.threads", concat("must be 0 to ", kMostThreads));
  }
  Cache cache = Cache::kWarm;
  if (!spec.cache().empty() && !parse_cache(spec.cache(), &cache)) {
    return bad_field("spec.cache", "must be warm or cold");
  }
  if (spec.trials() < 0 || spec.trials() > quotas.trials_per_study) {
    return bad_field("spec.trials", concat("must be 0 to ", quotas.trials_per_study));
  }
  if (spec.priority() < -100 || spec.priority() > 100) {
    return bad_field("spec.priority", "must be -100 to 100");
  }
  if (spec.batch() < 0 || spec.batch() > kMostBatch) {
    return bad_field("spec.batch", concat("must be 0 to ", kMostBatch));
  }
  if (spec.has_time_budget() && (spec.time_budget().seconds() < 0 ||
                                 spec.time_budget().seconds() > int64_t{365} * 86400 ||
                                 spec.time_budget().nanos() < 0 ||
                                 spec.time_budget().nanos() >= 1'000'000'000)) {
    return bad_field("spec.time_budget", "must be 0 to a year");
  }
  if (spec.has_most_waiting() && spec.most_waiting().seconds() <= 0) {
    return bad_field("spec.most_waiting", "must be a second or more");
  }
  if (spec.labels().size() > kMostLabels) return bad_field("spec.labels", "too many");
  for (const auto& [name, value] : spec.labels()) {
    if (name.empty() || name.size() > kLongestName || value.size() > kLongestName) {
      return bad_field("spec.labels", "a name is empty, or a name or value too long");
    }
  }
  return check_text(spec.target(), kLongestName, "spec.target");
}

// The target's name that "opencl:0", "opencl:mali" or "cuda:0" is here; "": nobody has such devices.
absl::StatusOr<std::string> driven_target(Transaction& tx, const std::string& asked) {
  constexpr char kField[] = "spec.target";
  ASSIGN_OR_RETURN(const DrivenDevices devices, driven_devices(tx, asked));
  if (devices.targets.size() == 1) return *devices.targets.begin();
  const bool driven = absl::StartsWith(asked, "opencl:") || absl::StartsWith(asked, "cuda:");
  if (devices.all.empty() && driven) {
    return bad_field(kField, concat("no agent has registered a device that '", beginning(asked, 100),
                                    "' could be: start `loopwright agent --device ",
                                    beginning(asked, 100), ",isolation=none`, and ask again when "
                                    "`loopwright devices` lists it"));
  }
  if (devices.all.empty()) return "";
  return bad_field(kField, concat("'", beginning(asked, 100), "' is ",
                                  devices.targets.empty() ? "no device" : "not one device",
                                  " of this service's; there are ",
                                  beginning(absl::StrJoin(devices.all, ", "), 1000)));
}

// What the study's target is here: what was asked for, or what that means. What can never be is
// refused; what is only not there now is waited for.
absl::StatusOr<std::string> find_asked(Transaction& tx, const std::string& asked) {
  constexpr char kField[] = "spec.target";
  if (asked == "any") return asked;
  if (absl::StartsWith(asked, "devices/")) {
    RETURN_IF_ERROR(parse_name("devices", asked, kField).status());
    return asked;
  }
  const bool is_id = asked.size() == 64 && asked.find_first_not_of("0123456789abcdef") ==
                                               std::string::npos;
  if (is_id) return asked;
  if (const absl::StatusOr<Target> named = find_target(asked); asked != "host" && named.ok()) {
    const absl::Status known = check_family(*named);
    if (!known.ok()) return bad_field(kField, std::string(known.message()));
    return asked;
  }
  ASSIGN_OR_RETURN(const auto targets, device_targets(tx));
  for (const auto& [id, target] : targets) {
    if (target.name == asked) return asked;
  }
  if (absl::StrContains(asked, ':')) {
    ASSIGN_OR_RETURN(std::string driven, driven_target(tx, asked));
    if (!driven.empty()) return driven;
  }
  std::string known = "any";
  for (const Target& target : builtin_targets()) {
    if (check_family(target).ok()) known += concat(", ", target.name);
  }
  return bad_field(kField, concat("'", beginning(asked, 100), "' can never be: want one of ", known,
                                  ", a device's target, a target's id (64 hexadecimal digits), "
                                  "opencl:NUMBER or opencl:NAME (or cuda: likewise) of a registered "
                                  "device, or devices/NAME (see `loopwright devices`)"));
}

// What no device that there is can measure: its client hears of it now.
absl::Status check_memory(Transaction& tx, const CheckedSpec& checked, const std::string& target) {
  ASSIGN_OR_RETURN(const double most, most_memory(tx, target));
  for (size_t i = 0; i < checked.memory.size(); ++i) {
    if (may_hold(most, checked.memory[i])) continue;
    return bad_field(absl::StrCat("spec.workloads[", i, "]"),
                     absl::StrFormat("measuring it takes %.3g GB of memory, the largest device for "
                                     "'%s' has %.3g: make its shapes smaller, or add a larger "
                                     "device first", checked.memory[i] / 1e9,
                                     checked.spec.target(), most / 1e9));
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkloadRow> check_workload(v1::StudyWorkload& workload, const std::string& field,
                                           double* memory) {
  RETURN_IF_ERROR(check_text(workload.name(), kLongestName, field + ".name"));
  RETURN_IF_ERROR(check_text(workload.source_words(), 4096, field + ".source_words"));
  RETURN_IF_ERROR(check_text(workload.program(), kLongestProgram, field + ".program"));
  if (!std::isfinite(workload.weight()) || workload.weight() < 0 || workload.weight() > 1e12) {
    return bad_field(field + ".weight", "must be a number from 0 to 1e12");
  }
  if (workload.weight() == 0) workload.set_weight(1);
  absl::StatusOr<Program> program = parse_program(workload.program(), field + ".program");
  if (!program.ok()) return bad_field(field + ".program", std::string(program.status().message()));
  if (workload.source_words().empty()) workload.set_source_words(program->name);
  if (workload.name().empty()) workload.set_name(beginning(workload.source_words(), kLongestName));
  *memory = measuring_bytes(*program);
  return workload_row(*program, workload.source_words());
}

absl::StatusOr<v1::StudyProgress> progress_of(Transaction& tx, const StudyRow& row,
                                              int64_t now_ms) {
  v1::StudyProgress progress;
  progress.set_state(row.state);
  progress.set_trials(row.trials);
  progress.set_trials_wanted(row.spec.trials());
  progress.set_failed(row.failed);
  ASSIGN_OR_RETURN(const std::vector<StudyWorkloadRow> workloads, workloads_of(tx, row.id));
  for (const StudyWorkloadRow& w : workloads) {
    v1::WorkloadProgress& shown = *progress.add_workloads();
    shown.set_name(w.name);
    if (!row.target.empty()) *shown.mutable_key() = to_proto(key_of(row, w));
    shown.set_trials(w.trials);
    shown.set_failed(w.failed);
    shown.set_known(w.known);
    progress.set_known(progress.known() + w.known);
    shown.set_best_us(w.given_us > 0 ? w.given_us : w.best_us);
    shown.set_zero_us(w.zero_us);
    shown.set_done(w.done);
    // Older clients read it off the note.
    const bool estimated = w.time_kind == TimeKind::kEstimated && w.best_us > 0;
    shown.set_note(estimated ? concat("estimated", w.note.empty() ? "" : "; ", w.note) : w.note);
    shown.set_time_kind(to_proto(w.time_kind));
  }
  const double elapsed_s =
      1e-3 * static_cast<double>((row.ended_ms > 0 ? row.ended_ms : now_ms) - row.created_ms);
  *progress.mutable_elapsed() = duration_of(std::max(0.0, elapsed_s));
  if (row.state == v1::STUDY_STATE_QUEUED) {
    progress.set_waiting(row.waiting.empty() ? "a seat" : row.waiting);
    *progress.mutable_waiting_since() =
        timestamp(row.waiting_ms > 0 ? row.waiting_ms : row.created_ms);
  }
  // At the pace since a device began; what others had measured is done.
  const int left = row.spec.trials() - row.trials - progress.known();
  const int64_t since_ms = row.started_ms > 0 ? row.started_ms : row.created_ms;
  if (row.state == v1::STUDY_STATE_RUNNING && row.trials > 0 && left > 0) {
    *progress.mutable_remaining() =
        duration_of(1e-3 * static_cast<double>(std::max<int64_t>(0, now_ms - since_ms)) * left /
                    row.trials);
  }
  return progress;
}

}  // namespace

std::string etag_of(const StudyRow& row) {
  return sha256(concat(row.id, " ", state_name(row.state), " ", row.updated_ms)).substr(0, 16);
}

absl::StatusOr<CheckedSpec> check_spec(const v1::StudySpec& spec, const Quotas& quotas) {
  RETURN_IF_ERROR(check_numbers(spec, quotas));
  CheckedSpec checked{spec, {}, std::vector<double>(spec.workloads_size())};
  for (int i = 0; i < checked.spec.workloads_size(); ++i) {
    ASSIGN_OR_RETURN(WorkloadRow row, check_workload(*checked.spec.mutable_workloads(i),
                                                     absl::StrCat("spec.workloads[", i, "]"),
                                                     &checked.memory[i]));
    checked.workloads.push_back(std::move(row));
  }
  if (checked.spec.target().empty()) checked.spec.set_target("any");
  if (checked.spec.cache().empty()) checked.spec.set_cache(std::string(cache_name(Cache::kWarm)));
  if (checked.spec.seed() == 0) checked.spec.set_seed(1);
  if (checked.spec.trials() == 0) {
    checked.spec.set_trials(static_cast<int32_t>(std::min<int64_t>(
        quotas.trials_per_study, int64_t{kTrialsEach} * spec.workloads_size())));
  }
  return checked;
}

absl::StatusOr<StudyRow> create_study(WriteTransaction& tx, const CheckedSpec& checked,
                                      const Identity& client, const Quotas& quotas,
                                      int64_t now_ms, Changes* changes) {
  ASSIGN_OR_RETURN(const std::string target, find_asked(tx, checked.spec.target()));
  RETURN_IF_ERROR(check_memory(tx, checked, target));
  Usage usage;
  ASSIGN_OR_RETURN(usage.active_studies,
                   one_integer(tx.query("SELECT count(*) FROM studies WHERE client = ? "
                                        "AND state IN ('queued', 'running')", client.name)));
  ASSIGN_OR_RETURN(usage.queued_jobs,
                   one_integer(tx.query("SELECT count(*) FROM jobs WHERE state = 'queued'")));
  ASSIGN_OR_RETURN(usage.kept, client_use(tx, identity_text(client)));
  RETURN_IF_ERROR(check_new_study(quotas, client.name, usage,
                                  {checked.spec.workloads_size(), checked.spec.trials(),
                                   static_cast<int64_t>(checked.spec.ByteSizeLong())}));
  StudyRow study;
  study.id = make_id(now_ms);
  study.client = client.name;
  study.actor = identity_text(client);
  study.spec = checked.spec;
  study.priority = checked.spec.priority();
  study.created_ms = study.updated_ms = study.waiting_ms = now_ms;
  study.asked = target;
  study.threads = checked.spec.threads();
  study.wait_until = wait_until(study.spec, quotas.waiting_seconds, now_ms);
  RETURN_IF_ERROR(insert_study(tx, study));
  std::map<std::string, std::string> first;  // of each workload id: the name
  for (int i = 0; i < checked.spec.workloads_size(); ++i) {
    RETURN_IF_ERROR(store_in(tx)->put_workload(checked.workloads[i]));
    StudyWorkloadRow row;
    row.study = study.id;
    row.position = i;
    row.name = checked.spec.workloads(i).name();
    row.workload = checked.workloads[i].id;
    row.threads = checked.spec.threads();
    row.cache = checked.spec.cache();
    row.weight = checked.spec.workloads(i).weight();
    row.memory = checked.memory[i];
    const auto [same, is_new] = first.emplace(row.workload, row.name);
    if (!is_new) {
      row.done = true;
      row.note = concat("the same as ", same->second);
    }
    RETURN_IF_ERROR(insert_workload(tx, row));
  }
  v1::StudyEvent event;
  event.set_kind(v1::StudyEvent::KIND_CREATED);
  event.set_state(study.state);
  RETURN_IF_ERROR(add_event(tx, study.id, now_ms, std::move(event)));
  changes->studies.insert(study.id);
  return study;
}

absl::Status end_study(WriteTransaction& tx, StudyRow& study, v1::StudyState state,
                       std::string_view error, int64_t now_ms, Changes* changes) {
  if (has_ended(study.state)) return absl::OkStatus();
  study.state = state;
  study.error = std::string(error);
  study.updated_ms = study.ended_ms = now_ms;
  RETURN_IF_ERROR(update_study(tx, study));
  Query held = tx.query("SELECT DISTINCT agent FROM jobs WHERE study = ? "
                        "AND state = 'leased'", study.id);
  while (held.next()) changes->agents.insert(held.text(0));
  RETURN_IF_ERROR(held.status());
  RETURN_IF_ERROR(tx
                      .query("UPDATE jobs SET state = 'cancelled', ended_ms = ? WHERE study = ? "
                             "AND state IN ('queued', 'leased')",
                             now_ms, study.id)
                      .run());
  v1::StudyEvent event;
  event.set_kind(v1::StudyEvent::KIND_ENDED);
  // A study's workloads have one; what is damaged ends all the same.
  const absl::StatusOr<std::vector<StudyWorkloadRow>> workloads = workloads_of(tx, study.id);
  if (workloads.ok() && !workloads->empty()) {
    event.set_time_kind(to_proto(workloads->front().time_kind));
  }
  event.set_state(state);
  event.set_detail(study.error);
  event.set_trials(study.trials);
  event.set_failed(study.failed);
  event.set_elapsed_s(1e-3 * static_cast<double>(now_ms - study.created_ms));
  changes->studies.insert(study.id);
  changes->ended.insert(study.id);
  return add_event(tx, study.id, now_ms, std::move(event));
}

absl::StatusOr<v1::Study> study_message(Transaction& tx, const StudyRow& row, bool full,
                                        int64_t now_ms) {
  v1::Study study;
  study.set_name(study_name(row.id));
  study.set_client(row.client);
  *study.mutable_spec() = row.spec;
  if (!full) {
    for (v1::StudyWorkload& workload : *study.mutable_spec()->mutable_workloads()) {
      workload.clear_program();
    }
  }
  ASSIGN_OR_RETURN(*study.mutable_progress(), progress_of(tx, row, now_ms));
  *study.mutable_create_time() = timestamp(row.created_ms);
  *study.mutable_update_time() = timestamp(row.updated_ms);
  if (row.ended_ms > 0) *study.mutable_end_time() = timestamp(row.ended_ms);
  study.set_error(row.error);
  study.set_target_id(row.target);
  study.set_etag(etag_of(row));
  return study;
}

absl::StatusOr<google::longrunning::Operation> operation_of(Transaction& tx, const StudyRow& row,
                                                            int64_t now_ms) {
  google::longrunning::Operation operation;
  operation.set_name(operation_name(row.id));
  ASSIGN_OR_RETURN(const v1::Study study, study_message(tx, row, false, now_ms));
  operation.mutable_metadata()->PackFrom(study.progress());
  operation.set_done(has_ended(row.state));
  if (row.state == v1::STUDY_STATE_SUCCEEDED) operation.mutable_response()->PackFrom(study);
  if (row.state == v1::STUDY_STATE_FAILED || row.state == v1::STUDY_STATE_CANCELLED) {
    const bool cancelled = row.state == v1::STUDY_STATE_CANCELLED;
    operation.mutable_error()->set_code(static_cast<int>(
        cancelled ? absl::StatusCode::kCancelled : absl::StatusCode::kFailedPrecondition));
    operation.mutable_error()->set_message(row.error.empty() ? "cancelled" : row.error);
  }
  return operation;
}

absl::StatusOr<StudyPage> page_of_studies(Transaction& tx, std::string_view where,
                                          std::vector<Value> values, int most) {
  constexpr int64_t kSpecBytes = 16 << 20;
  values.push_back(int64_t{most} + 1);
  const std::string sql = concat("SELECT id, length(spec) FROM studies ", where, " AND state <> '",
                                 kDeleted, "' ORDER BY id DESC LIMIT ?");
  Query query = tx.query_values(sql, values);
  StudyPage page;
  int64_t bytes = 0;
  while (query.next()) {
    page.more = page.count == most || (page.count > 0 && bytes + query.integer(1) > kSpecBytes);
    if (page.more) break;
    page.last = query.text(0);
    bytes += query.integer(1);
    ++page.count;
  }
  RETURN_IF_ERROR(query.status());
  return page;
}

absl::StatusOr<v1::ListStudiesResponse> list_studies(Transaction& tx,
                                                     const v1::ListStudiesRequest& request,
                                                     int64_t now_ms) {
  static const std::vector<FilterField> kFields = {
      {"state", "state", FieldKind::kState, state_names<v1::StudyState>()},
      {"client", "client", FieldKind::kText},
      {"priority", "priority", FieldKind::kInteger},
      {"create_time", "created_ms", FieldKind::kTime},
      {"trials", "trials", FieldKind::kInteger}};
  ASSIGN_OR_RETURN(const Filter filter, parse_filter(request.filter(), kFields));
  ASSIGN_OR_RETURN(const Page page, page_of(concat("studies ", request.filter()),
                                            request.page_size(), request.page_token(), 50, 500));
  std::vector<Value> values = filter.values();
  std::string where = concat("WHERE ", filter.sql);
  if (!page.after.empty()) {
    where += " AND id < ?";
    values.push_back(std::string_view(page.after));
  }
  ASSIGN_OR_RETURN(const StudyPage found, page_of_studies(tx, where, values, page.size));
  values.push_back(std::string_view(found.last));
  ASSIGN_OR_RETURN(const std::vector<StudyRow> rows,
                   select_studies(tx, where + " AND id >= ? ORDER BY id DESC", values));
  v1::ListStudiesResponse response;
  if (found.more) response.set_next_page_token(page_token(page.list, found.last));
  size_t bytes = 0;
  for (size_t i = 0; i < rows.size() && found.count > 0; ++i) {
    ASSIGN_OR_RETURN(v1::Study study, study_message(tx, rows[i], false, now_ms));
    bytes += study.ByteSizeLong();
    *response.add_studies() = std::move(study);
    if (i + 1 < rows.size() && page.is_over(response.studies_size(), bytes)) {
      response.set_next_page_token(page_token(page.list, rows[i].id));
      break;
    }
  }
  return response;
}

}  // namespace lw
