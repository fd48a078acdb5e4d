// The schedule database, searched by parts of names. There is no index over parts of words, so a
// page looks at no more than 20,000 keys and says where to go on: a search of a million is many
// short reads and never one long.
#include "absl/strings/ascii.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/page/views.h"
#include "tuner_db/best.h"

namespace lw {
namespace {

constexpr int64_t kKeysAtOnce = 20'000;

// A LIKE pattern that finds `text` anywhere, in lower case; '!' escapes.
std::string like_pattern(const std::string& text) {
  std::string pattern = "%";
  for (char c : absl::AsciiStrToLower(text)) {
    if (c == '%' || c == '_' || c == '!') pattern += '!';
    pattern += c;
  }
  return pattern + "%";
}

// What the simulator of its machine counted when the best was last timed. An agent said so: what is
// no figure is left out.
absl::Status add_counters(Transaction& tx, int64_t candidate, Json* schedule) {
  constexpr size_t kMost = 64;
  Query row = tx.query(
      "SELECT environment FROM measurements WHERE candidate = ? AND verdict = 'ok' "
      "ORDER BY id DESC LIMIT 1", candidate);
  if (!row.next()) return row.status();
  const Json environment = Json::parse(row.text(0), nullptr, false);
  if (!environment.is_object() || !environment.contains("counters")) return row.status();
  Json counters = Json::object();
  for (const auto& [name, value] : environment["counters"].items()) {
    if (value.is_number() && counters.size() < kMost) counters[name] = value;
  }
  (*schedule)["counters"] = std::move(counters);
  return row.status();
}

// The best by the same rule as `best` (tuner_db/best.h), its trace, and how many traces were tried.
absl::Status add_best(Transaction& tx, Json* schedule) {
  const int64_t key = (*schedule)["id"].get<int64_t>();
  std::vector<int64_t> ids;
  std::vector<Pool> pools;
  int64_t tried = 0;
  Query row = tx.query(
      "SELECT id, samples, median_us, high_us, eligible, time_kind FROM candidates WHERE key = ? "
      "ORDER BY trace", key);
  for (; row.next(); ++tried) {
    if (row.integer(4) == 0) continue;
    Pool pool{.samples = row.integer(1), .median_us = row.real(2), .high_us = row.real(3),
              .eligible = true};
    if (!parse_time_kind(row.integer(5), &pool.time_kind)) continue;
    ids.push_back(row.integer(0));
    pools.push_back(pool);
  }
  RETURN_IF_ERROR(row.status());
  (*schedule)["traces"] = tried;
  (*schedule)["best_us"] = 0.0;
  (*schedule)["gflops"] = 0.0;
  (*schedule)["trace"] = "";
  (*schedule)["time_kind"] = "";
  const int64_t best = best_of(pools);
  if (best < 0) return absl::OkStatus();
  const double us = pools[best].median_us;
  (*schedule)["best_us"] = us;
  (*schedule)["time_kind"] = time_kind_name(pools[best].time_kind);
  (*schedule)["gflops"] = us > 0 ? (*schedule)["flops"].get<double>() / us / 1e3 : 0.0;
  if (pools[best].time_kind == TimeKind::kSimulated) {
    RETURN_IF_ERROR(add_counters(tx, ids[best], schedule));
  }
  Query trace = tx.query("SELECT trace FROM candidates WHERE id = ?", ids[best]);
  if (trace.next()) (*schedule)["trace"] = trace.text(0).substr(0, 4000);
  return trace.status();
}

}  // namespace

absl::StatusOr<Json> view_schedules(const ViewContext& context, const Parameters& parameters) {
  ASSIGN_OR_RETURN(const int64_t limit, integer_parameter(parameters, "limit", 20, 1, 50));
  ASSIGN_OR_RETURN(const int64_t after,
                   integer_parameter(parameters, "after", 0, 0, int64_t{1} << 53));
  ASSIGN_OR_RETURN(const std::string search, text_parameter(parameters, "search"));
  const std::string pattern = like_pattern(search);
  Json schedules = Json::array();
  Json next = nullptr;
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    int64_t newest = 0;
    {
      Query query = tx.query("SELECT max(id) FROM keys");
      if (query.next()) newest = query.integer(0);
      RETURN_IF_ERROR(query.status());
    }
    const int64_t end = after + kKeysAtOnce;
    Query row = tx.query(
        "SELECT k.id, w.name, w.source_words, k.target, k.backend, k.threads, k.cache, w.flops, "
        "k.workload FROM keys k JOIN workloads w ON w.id = k.workload WHERE k.id > ? AND k.id <= ? "
        "AND (lower(w.name) LIKE ? ESCAPE '!' OR lower(w.source_words) LIKE ? ESCAPE '!') "
        "ORDER BY k.id LIMIT ?", after, end, pattern, pattern, limit + 1);
    if (newest > end) next = end;
    while (row.next()) {
      if (schedules.size() == static_cast<size_t>(limit)) {
        next = schedules.back()["id"];
        break;
      }
      Json schedule = {{"id", row.integer(0)}, {"name", row.text(1)}, {"words", row.text(2)},
                       {"target", target_name(tx, row.text(3))}, {"backend", row.text(4)},
                       {"threads", row.integer(5)}, {"cache", row.text(6)}, {"flops", row.real(7)},
                       {"workload", row.text(8)}};
      RETURN_IF_ERROR(add_best(tx, &schedule));
      schedules.push_back(std::move(schedule));
    }
    return row.status();
  }));
  return Json{{"schedules", std::move(schedules)}, {"next", next}};
}

}  // namespace lw
