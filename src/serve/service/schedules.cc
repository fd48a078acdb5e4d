// What was learned, on the wire. Look-ups climb the ladder over an index in memory
// (tuner_db/ladder/index.h), which follows the database: what this daemon stores it notes at once,
// what others store it reads within a second.
#include "src/serve/service/schedules.h"

#include <algorithm>

#include "nlohmann/json.hpp"
#include "schedules/targets/identity.h"
#include "schedules/targets/target.h"
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/base/fields/utf8.h"
#include "src/build/build.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/net/times.h"
#include "src/serve/core/calls.h"
#include "src/serve/messages/paging.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/tables/history.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

constexpr int kMostQueries = 1000;
constexpr int kMostMatches = 4;            // of an answer
constexpr std::chrono::seconds kAdaptFor(5);  // a query, at most
constexpr int64_t kKeysAtOnce = 20'000;    // looked through by a call that searches
constexpr int kTrialsShown = 100'000;

v1::LookupOutcome outcome_of(Rung rung) {
  return static_cast<v1::LookupOutcome>(static_cast<int>(rung) + 1);
}
static_assert(v1::LOOKUP_OUTCOME_EXACT == static_cast<int>(Rung::kExact) + 1);
static_assert(v1::LOOKUP_OUTCOME_DEFAULT == static_cast<int>(Rung::kDefault) + 1);

std::string at(int i, std::string_view field) { return concat("queries[", i, "].", field); }

// A query, understood: with a task, lower rungs can be adapted to it.
struct Asked {
  LookupRequest request;
  std::shared_ptr<Task> task;
};

// The target of one query after the other: those of a batch are mostly the same.
class AskedTarget {
 public:
  explicit AskedTarget(const Store& store) : store_(store) {}

  // REQUIRES: the status is OK before the others are called.
  absl::Status read(const v1::LookupQuery& query, int i) {
    std::string words = concat(query.target_id(), "\n", query.target_name(), "\n",
                               query.target().SerializeAsString());
    if (target_ != nullptr && words == words_) return absl::OkStatus();
    target_ = nullptr;
    ASSIGN_OR_RETURN(Target target, find(query, i));
    id_ = target_id(target);
    target_ = std::make_shared<const Target>(std::move(target));
    words_ = std::move(words);
    return absl::OkStatus();
  }
  const std::shared_ptr<const Target>& target() const { return target_; }
  const std::string& id() const { return id_; }

 private:
  absl::StatusOr<Target> find(const v1::LookupQuery& query, int i) const {
    if (query.has_target()) {
      absl::StatusOr<Target> target = from_proto(query.target());
      if (!target.ok()) return bad_field(at(i, "target"), std::string(target.status().message()));
      return target;
    }
    if (!query.target_id().empty()) {
      absl::StatusOr<Target> target = store_.target(query.target_id());
      if (absl::IsNotFound(target.status())) {
        return absl::NotFoundError(concat("nothing is stored of target_id ", query.target_id()));
      }
      if (!target.ok()) return store_error(target.status());
      return target;
    }
    if (query.target_name().empty()) return bad_field(at(i, "target"), "a target must be named");
    if (query.target_name() == "host") {
      return bad_field(at(i, "target_name"),
                       "'host' is another machine here: send the target itself");
    }
    absl::StatusOr<Target> target = find_target(query.target_name());
    if (!target.ok())
      return bad_field(at(i, "target_name"), std::string(target.status().message()));
    return target;
  }

  const Store& store_;
  std::string words_, id_;
  std::shared_ptr<const Target> target_;
};

absl::StatusOr<Asked> by_program(const v1::LookupQuery& query, int i, const Target& target,
                                 int threads) {
  absl::StatusOr<Program> program = parse_program(query.program(), at(i, "program"));
  if (!program.ok()) return bad_field(at(i, "program"), std::string(program.status().message()));
  absl::StatusOr<Task> task = make_task(*std::move(program), "", target, threads);
  if (!task.ok()) return bad_field(at(i, "threads"), std::string(task.status().message()));
  Asked asked;
  asked.task = std::make_shared<Task>(*std::move(task));
  asked.request = request_of(*asked.task);
  return asked;
}

// What is stored of the workload, or else what the query says of it, has neighbours.
absl::StatusOr<Asked> by_id(const v1::LookupQuery& query, int i, const AskedTarget& target,
                            int threads, const Store& store) {
  Asked asked;
  LookupRequest& request = asked.request;
  request.key.workload = query.workload_id();
  request.key.target = target.id();
  request.key.threads = threads;
  request.target = target.target();
  if (!query.family().empty()) {
    request.structure = query.family();
    request.shape = {query.shape().begin(), query.shape().end()};
    for (int64_t extent : request.shape) {
      if (extent < 1) return bad_field(at(i, "shape"), concat("an extent of ", extent));
    }
  } else if (absl::StatusOr<WorkloadRow> row = store.workload(query.workload_id()); row.ok()) {
    request.structure = std::move(row->structure), request.shape = std::move(row->shape);
  }
  ASSIGN_OR_RETURN(const Backend* backend, find_backend(target.target()->architecture));
  request.key.backend = backend->version();
  return asked;
}

// `adapts`: whether a trace may have to be made for the program. kNotFound: a miss, and why.
absl::StatusOr<Asked> understand(const v1::LookupQuery& query, int i, bool adapts,
                                 const Store& store, AskedTarget* target) {
  if (query.program().empty() && query.workload_id().empty()) {
    return bad_field(at(i, "program"), "a program or a workload_id must be given");
  }
  for (const auto& [field, id] : {std::pair("workload_id", &query.workload_id()),
                                  std::pair("target_id", &query.target_id())}) {
    if (id->empty() || is_digest(*id)) continue;
    return bad_field(at(i, field), "is no sha256: 64 hex digits");
  }
  RETURN_IF_ERROR(target->read(query, i));
  const int threads = query.threads() == 0 ? 1 : query.threads();
  const bool has_identity = !query.workload_id().empty() && !query.family().empty();
  const bool parses = !query.program().empty() && (adapts || !has_identity);
  ASSIGN_OR_RETURN(Asked asked, parses ? by_program(query, i, *target->target(), threads)
                                       : by_id(query, i, *target, threads, store));
  Key& key = asked.request.key;
  if (parses && !query.workload_id().empty() && query.workload_id() != key.workload) {
    return absl::NotFoundError(concat("workload_id is not the program's, which is ", key.workload));
  }
  if (!query.backend().empty()) key.backend = query.backend();
  if (!query.cache().empty()) key.cache = query.cache();
  if (!query.objective().empty()) key.objective = query.objective();
  if (std::string what = defect(key); !what.empty()) return bad_field(at(i, "workload_id"), what);
  if (std::string what = unknown_word(key); !what.empty()) {
    return bad_field(concat("queries[", i, "]"), what);
  }
  return asked;
}

// The fields of clients that know no whole records.
void fill(const ScheduleRecord& record, v1::LookupResult* result) {
  *result->mutable_key() = to_proto(record.key);
  v1::Measurement& m = *result->mutable_measurement();
  m.set_trace(as_utf8(record.trace));
  m.set_kernel_hash(record.kernel_hash);
  m.set_time_us(record.time_us);
  m.set_ci_low_us(record.ci_low_us);
  m.set_ci_high_us(record.ci_high_us);
  m.set_time_kind(to_proto(record.time_kind));
  m.set_verified(record.verified);
  m.set_max_rel_error(record.max_rel_error);
  m.set_source(as_utf8(record.source));
  m.set_unix_ms(record.unix_ms);
  m.set_verdict(v1::VERDICT_OK);
  m.add_samples_us(record.time_us);        // they refuse a measurement without; a record has none
  m.set_inner(1);
  result->set_trace(record.trace);
  result->set_workload_name(record.source_words.empty() ? record.name : record.source_words);
  *result->mutable_measured() = timestamp(record.unix_ms);
  result->set_record_digest(record_digest(record.key, record.trace));
}

void add_match(const Match& match, v1::LookupResult* result) {
  v1::LookupMatch& out = *result->add_matches();
  *out.mutable_record() = to_proto(*match.record);
  out.set_distance(match.distance);
  out.set_stale(match.stale);
}

// By the record alone where it fits exactly; adapted to the program where there is one.
absl::Status answer(const Asked& asked, const RecordSource& source, const LookupOptions& options,
                    const v1::BatchLookupRequest& batch, v1::LookupResult* result) {
  ASSIGN_OR_RETURN(const std::vector<Match> matches,
                   climb(asked.request, source, options.ladder));
  if (!matches.empty()) {
    const Match& best = matches[0];
    result->set_outcome(outcome_of(best.rung));
    result->set_distance(best.distance);
    fill(*best.record, result);
    for (size_t i = 0; i < matches.size() && static_cast<int>(i) < batch.records(); ++i) {
      add_match(matches[i], result);
    }
    if (best.stale) result->set_detail("stale: the code generator or the age differs");
    if (best.rung <= Rung::kLoose || asked.task == nullptr || !batch.adapt()) {
      return absl::OkStatus();
    }
  }
  if (asked.task == nullptr || (matches.empty() && !options.zero_trial)) {
    if (matches.empty()) result->set_outcome(v1::LOOKUP_OUTCOME_NOT_FOUND);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const LookupAnswer found, look_up(*asked.task, source, options));
  result->Clear();
  result->set_outcome(outcome_of(found.outcome));
  result->set_distance(found.distance);
  if (found.record != nullptr) {
    fill(*found.record, result);
    if (batch.records() > 0) {
      add_match({found.outcome, found.distance, found.stale, found.record}, result);
    }
  }
  result->set_trace(found.trace);
  if (found.predicted_loss) result->set_predicted_loss(*found.predicted_loss);
  for (const std::string& note : found.notes) {
    result->set_detail(concat(result->detail(), result->detail().empty() ? "" : "; ", note));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Schedules::batch_lookup(const Caller& caller, const v1::BatchLookupRequest& request,
                                     v1::BatchLookupResponse* response) {
  if (request.queries_size() > kMostQueries) {
    return bad_field("queries", concat("at most ", kMostQueries));
  }
  const v1::LookupOutcome worst = request.worst() == v1::LOOKUP_OUTCOME_UNSPECIFIED
                                      ? v1::LOOKUP_OUTCOME_NEAREST_TARGET : request.worst();
  if (worst < v1::LOOKUP_OUTCOME_EXACT || worst > v1::LOOKUP_OUTCOME_DEFAULT) {
    return bad_field("worst", "no such rung");
  }
  if (request.records() < 0 || request.records() > kMostMatches) {
    return bad_field("records", concat("at most ", kMostMatches));
  }
  LookupOptions options;
  options.ladder.lowest =
      std::min(Rung::kNearestTarget, static_cast<Rung>(static_cast<int>(worst) - 1));
  options.ladder.now_ms = core_.now_ms();
  options.zero_trial = worst == v1::LOOKUP_OUTCOME_DEFAULT;  // up to 0.1 s for each miss
  const bool adapts = request.adapt() || options.zero_trial;
  AskedTarget target(*core_.store);
  for (int i = 0; i < request.queries_size(); ++i) {
    const auto begun = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(caller.stop.status("the look-up"));
    options.stop = caller.stop.before(begun + kAdaptFor);
    const absl::StatusOr<Asked> asked =
        understand(request.queries(i), i, adapts, *core_.store, &target);
    v1::LookupResult& result = *response->add_results();
    if (absl::IsNotFound(asked.status())) {  // the others are answered all the same
      result.set_outcome(v1::LOOKUP_OUTCOME_NOT_FOUND);
      result.set_detail(std::string(asked.status().message()));
      continue;
    }
    RETURN_IF_ERROR(asked.status());
    const absl::Status found = answer(*asked, keeper_.index(), options, request, &result);
    if (!found.ok()) {
      RETURN_IF_ERROR(options.stop.status("the look-up"));
      return store_error(found);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
    core_.metrics.add(Metric::kLookups, 1, {state_name(result.outcome())});
    core_.metrics.observe(Metric::kLookupSeconds, seconds.count());
  }
  return absl::OkStatus();
}

absl::Status Schedules::list_history(const Caller&, const v1::ListHistoryRequest& request,
                                     v1::ListHistoryResponse* response) {
  const Key key = from_proto(request.key());
  if (std::string what = defect(key); !what.empty()) return bad_field("key", what);
  ASSIGN_OR_RETURN(const Page page, page_of(concat("history ", request.key().SerializeAsString()),
                                            request.page_size(), request.page_token()));
  HistoryRequest wanted;
  wanted.from = page.after_number(0);
  wanted.newest_first = true;
  wanted.rows = page.size;
  wanted.bytes = kPageBytes;
  HistoryPiece piece;
  RETURN_IF_ERROR(view(core_, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t id, find_key_id(tx, key));
    if (id == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(piece, read_history(tx, id, wanted));
    return absl::OkStatus();
  }));
  for (const Measurement& m : piece.rows) {
    *response->add_measurements() = to_proto(m);
    response->add_ids(m.id);
  }
  if (piece.next != 0) response->set_next_page_token(page_token(page.list, concat(piece.next)));
  return absl::OkStatus();
}

absl::Status Schedules::list_schedules(const Caller&, const v1::ListSchedulesRequest& request,
                                       v1::ListSchedulesResponse* response) {
  if (request.search().size() > 200) return bad_field("search", "longer than 200 bytes");
  ASSIGN_OR_RETURN(const Page page, page_of(concat("schedules ", request.search()),
                                            request.page_size(), request.page_token(), 50, 500));
  std::string pattern = "%";
  for (char c : request.search()) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  pattern += '%';
  return view(core_, [&](Transaction& tx) -> absl::Status {
    const int64_t begin = page.after_number(0), end = begin + kKeysAtOnce;
    {
      Query later = tx.query("SELECT 1 FROM keys WHERE id > ? LIMIT 1", end);
      if (later.next()) response->set_next_page_token(page_token(page.list, concat(end)));
      RETURN_IF_ERROR(later.status());
    }
    Query query = tx.query(
        "SELECT k.id, k.workload, k.target, k.backend, k.threads, k.cache, k.objective, w.name, "
        "w.source_words, w.flops, t.text, (SELECT count(*) FROM (SELECT 1 FROM candidates c "
        "WHERE c.key = k.id LIMIT ?) AS counted) "
        "FROM keys k JOIN workloads w ON w.id = k.workload JOIN targets t ON t.id = k.target "
        "WHERE k.id > ? AND k.id <= ? AND (lower(w.source_words) LIKE lower(?) ESCAPE '\\' "
        "OR lower(w.name) LIKE lower(?) ESCAPE '\\') ORDER BY k.id LIMIT ?",
        kTrialsShown, begin, end, pattern, pattern, page.size + 1);
    int64_t last = 0;
    size_t bytes = 0;
    while (query.next()) {
      const int shown = response->schedules_size();
      if (shown > 0) bytes += response->schedules(shown - 1).ByteSizeLong();
      if (page.is_over(shown, bytes)) {
        response->set_next_page_token(page_token(page.list, concat(last)));
        break;
      }
      last = query.integer(0);
      const Key key = {query.text(1), query.text(2), query.text(3),
                       static_cast<int>(query.integer(4)), query.text(5), query.text(6)};
      v1::Schedule& schedule = *response->add_schedules();
      *schedule.mutable_key() = to_proto(key);
      schedule.set_workload_name(query.text(7));
      schedule.set_source_words(query.text(8));
      const nlohmann::json target = nlohmann::json::parse(query.text(10), nullptr, false);
      if (target.is_object()) schedule.set_target_name(target.value("name", ""));
      schedule.set_trials(query.integer(11));
      const absl::StatusOr<BestRow> best = store_in(tx)->best(key);
      if (!best.ok()) continue;
      schedule.set_best_us(best->measurement.time_us);
      schedule.set_time_kind(to_proto(best->measurement.time_kind));
      if (best->measurement.time_us > 0) {
        schedule.set_gflops(query.real(9) / best->measurement.time_us / 1e3);
      }
      *schedule.mutable_measured() = timestamp(best->measurement.unix_ms);
      schedule.set_trace(best->measurement.trace);
    }
    return query.status();
  });
}

}  // namespace lw
