// The fleet at a glance: counts, devices, agents, the queue, what ran when, what failed. Counts use
// the partial indexes of schema_2.sql; what has none (time) is bounded by walking back from the
// newest row.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "loopwright/v1/agent.pb.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/page/views.h"
#include "src/serve/rows/online.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

constexpr int64_t kHour_ms = 3'600'000;
constexpr int64_t kTimeline_ms = 30 * 60'000;
constexpr int64_t kTimelineRows = 5000, kTimelineJobs = 500;
constexpr int64_t kFailureRows = 10'000, kFailureHours = 24;

// Rows of (name, count), as an object.
absl::Status count_by(Transaction& tx, const char* sql, Json* counts) {
  *counts = Json::object();
  Query query = tx.query(sql);
  while (query.next()) (*counts)[query.text(0)] = query.integer(1);
  return query.status();
}

Json parsed_object(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_object() ? value : Json::object();
}

// Since when somebody must have been heard of to be online.
int64_t since_ms(const ViewContext& context) {
  return context.now_ms - static_cast<int64_t>(1000 * context.online_s);
}

// Jobs that a device holds now.
absl::Status held_jobs(Transaction& tx, const std::string& device, Json* jobs) {
  *jobs = Json::array();
  Query query = tx.query(
      "SELECT id, study, position, attempt, lease_until FROM jobs WHERE device = ? AND "
      "state = 'leased' ORDER BY id LIMIT 16", device);
  while (query.next()) {
    jobs->push_back({{"id", query.integer(0)}, {"study", query.text(1)},
                     {"position", query.integer(2)}, {"attempt", query.integer(3)},
                     {"lease_until_ms", query.integer(4)}});
  }
  return query.status();
}

}  // namespace

absl::StatusOr<int64_t> integer_parameter(const Parameters& parameters, const std::string& name,
                                          int64_t usual, int64_t low, int64_t high) {
  const auto found = parameters.find(name);
  if (found == parameters.end() || found->second.empty()) return usual;
  int64_t value = 0;
  if (found->second.size() > 20 || !absl::SimpleAtoi(found->second, &value) || value < low ||
      value > high) {
    return absl::InvalidArgumentError(concat(name, " must be a number from ", low, " to ", high));
  }
  return value;
}

absl::StatusOr<std::string> text_parameter(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return std::string();
  const bool has_zero = found->second.find('\0') != std::string::npos;
  if (found->second.size() > 200 || has_zero) {
    return absl::InvalidArgumentError(concat(name, " must be text of at most 200 bytes"));
  }
  return found->second;
}

std::string target_name(Transaction& tx, const std::string& id) {
  Query query = tx.query("SELECT text FROM targets WHERE id = ?", id);
  if (!query.next()) return id.substr(0, 12);
  const Json target = Json::parse(query.text(0), nullptr, false);
  const bool named = target.is_object() && target.contains("name") && target["name"].is_string();
  return named ? target["name"].get<std::string>() : id.substr(0, 12);
}

absl::StatusOr<Json> view_overview(const ViewContext& context) {
  Json view = {{"now_ms", context.now_ms}};
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    RETURN_IF_ERROR(count_by(tx, "SELECT state, count(*) FROM studies WHERE state <> "
                                 "'deleted' GROUP BY state", &view["studies"]));
    Json& jobs = view["jobs"];
    jobs = Json::object();
    for (const auto& [name, sql] :
         {std::pair{"queued", "SELECT count(*) FROM jobs WHERE state = 'queued'"},
          std::pair{"leased", "SELECT count(*) FROM jobs WHERE state = 'leased'"},
          std::pair{"dead", "SELECT count(*) FROM jobs WHERE state = 'dead'"}}) {
      ASSIGN_OR_RETURN(const int64_t count, one_integer(tx.query(sql)));
      jobs[name] = count;
    }
    // The newest id stands for the count: measurements are append-only, and counting a million
    // rows takes longer than the page may.
    ASSIGN_OR_RETURN(const int64_t measurements,
                     one_integer(tx.query("SELECT max(id) FROM measurements")));
    ASSIGN_OR_RETURN(const int64_t keys, one_integer(tx.query("SELECT max(id) FROM keys")));
    view["measurements"] = measurements;
    view["schedules"] = keys;
    const int64_t since = since_ms(context);
    Json devices = {{"total", 0}, {"online", 0}, {"draining", 0}, {"quarantined", 0},
                    {"pending", 0}, {"unsupported", 0}, {"unwell", 0}};
    Query query = tx.query("SELECT admission, health, seen_ms, left_ms FROM devices");
    while (query.next()) {
      const std::string admission = query.text(0);
      const bool online = is_online(query.integer(2), query.integer(3), since);
      devices["total"] = devices["total"].get<int64_t>() + 1;
      if (online) devices["online"] = devices["online"].get<int64_t>() + 1;
      if (admission != "open" && devices.contains(admission)) {
        devices[admission] = devices[admission].get<int64_t>() + 1;
      }
      const bool unwell = online && admission != "quarantined" && query.text(1) != "ok";
      if (unwell) devices["unwell"] = devices["unwell"].get<int64_t>() + 1;
    }
    RETURN_IF_ERROR(query.status());
    view["devices"] = std::move(devices);
    Query agents = tx.query(
        concat("SELECT count(*), coalesce(sum(CASE WHEN ", kOnline, " THEN 1 ELSE 0 END), 0) "
               "FROM agents"), since);
    if (agents.next()) {
      view["agents"] = {{"total", agents.integer(0)}, {"online", agents.integer(1)}};
    }
    return agents.status();
  }));
  return view;
}

absl::StatusOr<Json> view_devices(const ViewContext& context, const Parameters& parameters) {
  ASSIGN_OR_RETURN(const int64_t limit, integer_parameter(parameters, "limit", 100, 1, 200));
  ASSIGN_OR_RETURN(const std::string after, text_parameter(parameters, "after"));
  Json page = {{"devices", Json::array()}, {"next", nullptr}};
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    Query row = tx.query(
        "SELECT id, agent, description, target, admission, reason, health, failures, jobs_done, "
        "jobs_failed, seen_ms, left_ms, confirmed, contradicted FROM devices WHERE id > ? "
        "ORDER BY id LIMIT ?", after, limit + 1);
    while (row.next()) {
      Json& devices = page["devices"];
      if (devices.size() == static_cast<size_t>(limit)) {
        page["next"] = devices.back()["id"];
        break;
      }
      loopwright::v1::Device device;
      device.ParseFromString(std::string(row.bytes(2)));
      Json held;
      RETURN_IF_ERROR(held_jobs(tx, row.text(0), &held));
      devices.push_back(
          {{"id", row.text(0)}, {"agent", row.text(1)}, {"kind", device.kind()},
           {"exact", device.exact()},
           {"time_kind", time_kind_name(from_proto(device.time_kind()))},
           {"target", device.target().name().empty() ? target_name(tx, row.text(3))
                                                     : device.target().name()},
           {"cores", device.target().cores()}, {"admission", row.text(4)}, {"reason", row.text(5)},
           {"health", row.text(6)}, {"failures", row.integer(7)}, {"jobs_done", row.integer(8)},
           {"jobs_failed", row.integer(9)}, {"seen_ms", row.integer(10)},
           {"leaders_confirmed", row.integer(12)}, {"leaders_contradicted", row.integer(13)},
           {"online", is_online(row.integer(10), row.integer(11), since_ms(context))},
           {"held", std::move(held)}});
    }
    return row.status();
  }));
  return page;
}

absl::StatusOr<Json> view_agents(const ViewContext& context, const Parameters& parameters) {
  ASSIGN_OR_RETURN(const int64_t limit, integer_parameter(parameters, "limit", 100, 1, 200));
  ASSIGN_OR_RETURN(const std::string after, text_parameter(parameters, "after"));
  Json page = {{"agents", Json::array()}, {"next", nullptr}};
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    Query row = tx.query(
        "SELECT id, version, labels, peer, seen_ms, left_ms FROM agents WHERE id > ? ORDER BY id "
        "LIMIT ?", after, limit + 1);
    while (row.next()) {
      Json& agents = page["agents"];
      if (agents.size() == static_cast<size_t>(limit)) {
        page["next"] = agents.back()["id"];
        break;
      }
      agents.push_back(
          {{"id", row.text(0)},
           {"version", row.text(1)},
           {"labels", parsed_object(row.text(2))},
           {"peer", row.text(3)},
           {"seen_ms", row.integer(4)},
           {"online", is_online(row.integer(4), row.integer(5), since_ms(context))}});
    }
    return row.status();
  }));
  return page;
}

absl::StatusOr<Json> view_queue(const ViewContext& context) {
  struct Line {
    std::string target, client;
    int64_t queued = 0, leased = 0, oldest = 0;
  };
  std::map<std::pair<std::string, std::string>, Line> lines;
  Json queue = Json::array();
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    for (const bool leased : {false, true}) {
      Query row = tx.query(concat("SELECT target, client, count(*), min(id) FROM jobs WHERE "
                                  "state = '", leased ? "leased" : "queued",
                                  "' GROUP BY target, client"));
      while (row.next()) {
        Line& line = lines[{row.text(0), row.text(1)}];
        (leased ? line.leased : line.queued) = row.integer(2);
        if (!leased) line.oldest = row.integer(3);
      }
      RETURN_IF_ERROR(row.status());
    }
    for (const auto& [key, line] : lines) {
      if (queue.size() == 200) break;
      Query oldest = tx.query("SELECT created_ms FROM jobs WHERE id = ?", line.oldest);
      const int64_t since = oldest.next() ? oldest.integer(0) : 0;
      queue.push_back({{"target", target_name(tx, key.first)}, {"client", key.second},
                       {"queued", line.queued}, {"leased", line.leased},
                       {"oldest_ms", since}});
    }
    return absl::OkStatus();
  }));
  return Json{{"queue", std::move(queue)}};
}

absl::StatusOr<Json> view_timeline(const ViewContext& context) {
  Json jobs = Json::array();
  const int64_t since = context.now_ms - kTimeline_ms;
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t newest, one_integer(tx.query("SELECT max(id) FROM jobs")));
    Query row = tx.query(
        "SELECT id, study, position, state, attempt, device, CASE WHEN leased_ms > 0 THEN "
        "leased_ms "
        "ELSE created_ms END, ended_ms FROM jobs "
        "WHERE id > ? AND device <> '' AND (state = 'leased' OR ended_ms > ?) "
        "ORDER BY id DESC LIMIT ?",
        newest - kTimelineRows, since, kTimelineJobs);
    while (row.next()) {
      jobs.push_back({{"id", row.integer(0)}, {"study", row.text(1)}, {"position", row.integer(2)},
                      {"state", row.text(3)}, {"attempt", row.integer(4)}, {"device", row.text(5)},
                      {"start_ms", row.integer(6)}, {"end_ms", row.integer(7)}});
    }
    return row.status();
  }));
  // A device holds several leases but runs one job at a time: one began no earlier than the one
  // before it ended.
  const auto end = [&](const Json& job) {
    const int64_t ended = job["end_ms"].get<int64_t>();
    return job["state"] == "leased" || ended == 0 ? context.now_ms : ended;
  };
  std::stable_sort(jobs.begin(), jobs.end(),
                   [&](const Json& a, const Json& b) { return end(a) < end(b); });
  std::map<std::string, int64_t> free_from;
  for (Json& job : jobs) {
    int64_t& from = free_from[job["device"].get<std::string>()];
    job["end_ms"] = end(job);
    job["start_ms"] = std::max({job["start_ms"].get<int64_t>(), from, since});
    job["start_ms"] = std::min(job["start_ms"].get<int64_t>(), end(job));
    from = end(job);
  }
  return Json{{"from_ms", since}, {"to_ms", context.now_ms}, {"jobs", std::move(jobs)}};
}

absl::StatusOr<Json> view_failures(const ViewContext& context) {
  const int64_t last_hour = context.now_ms / kHour_ms, first_hour = last_hour - kFailureHours + 1;
  std::map<std::string, std::vector<int64_t>> by_verdict;
  int64_t read = 0, oldest = context.now_ms;
  RETURN_IF_ERROR(context.database.read(kViewPatience_s, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t newest,
                     one_integer(tx.query("SELECT max(id) FROM measurements")));
    Query row = tx.query(
        "SELECT verdict, unix_ms FROM measurements WHERE id > ? ORDER BY id DESC LIMIT ?",
        newest - kFailureRows, kFailureRows);
    while (row.next()) {
      const int64_t time = row.integer(1), hour = time / kHour_ms;
      ++read;
      oldest = std::min(oldest, time);
      if (hour < first_hour || hour > last_hour) continue;
      std::vector<int64_t>& hours = by_verdict[row.text(0)];
      hours.resize(kFailureHours);
      ++hours[static_cast<size_t>(hour - first_hour)];
    }
    return row.status();
  }));
  Json verdicts = Json::object();
  for (const auto& [verdict, hours] : by_verdict) verdicts[verdict] = hours;
  // Where the rows ended before the hours did, the hours before `complete_from_ms` lack some.
  const int64_t begin = first_hour * kHour_ms;
  return Json{{"from_ms", begin}, {"hour_ms", kHour_ms},
              {"complete_from_ms", read == kFailureRows ? std::max(begin, oldest) : begin},
              {"verdicts", std::move(verdicts)}};
}

}  // namespace lw
