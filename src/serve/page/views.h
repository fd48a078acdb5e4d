// What the page shows, read from the database as JSON documents: bounded in size, whatever the
// database holds, and in pages by key. Nothing here writes. Field names are the contract with
// src/serve/page/page.js and with scripts; times are milliseconds since 1970 by the service's
// clock, durations seconds unless named _us.
//
// Errors: kInvalidArgument (a parameter, named), kNotFound, and the database's own.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "src/serve/studies/door.h"
#include "tuner_db/sql/database.h"

namespace lw {

using Json = nlohmann::ordered_json;

// A request's parameters, decoded: "?state=running&limit=20".
using Parameters = std::map<std::string, std::string>;

constexpr double kViewPatience_s = 2;      // for the database

struct ViewContext {
  Database& database;
  int64_t now_ms = 0;
  double online_s = 60;                    // an agent silent for longer is offline
};

// Counts of studies, jobs, devices and agents by state; which measurements failed how is
// view_failures.
absl::StatusOr<Json> view_overview(const ViewContext& context);
// Newest first. state, before (an id), limit.
absl::StatusOr<Json> view_studies(const ViewContext& context, const Parameters& parameters);
// One with its workloads.
absl::StatusOr<Json> view_study(const ViewContext& context, const std::string& id);
// Each workload's improvements, in order of time. after (a sequence number): only what came later;
// `more`: ask again with after = `sequence`.
absl::StatusOr<Json> view_curve(const ViewContext& context, const std::string& id,
                                const Parameters& parameters);
// The first 20 workloads of which something failed, with the classes of GetStudy's `failures`; of the
// newest 1,000 failures of each.
absl::StatusOr<Json> view_study_failures(const ViewContext& context, const std::string& id);
// after (an id), limit.
absl::StatusOr<Json> view_devices(const ViewContext& context, const Parameters& parameters);
absl::StatusOr<Json> view_agents(const ViewContext& context, const Parameters& parameters);
// Jobs that wait or run, by target and client.
absl::StatusOr<Json> view_queue(const ViewContext& context);
// What devices did lately, oldest first: the newest 500 jobs of the last 30 minutes. A job's
// `start_ms` is when it was leased or when the device's job before it ended, whichever is later.
absl::StatusOr<Json> view_timeline(const ViewContext& context);
// Keys with their best. search (part of a workload's name or words, in any case), after (a key's
// id), limit. `next`: where to go on; a page may be short of its limit, as no more than 20,000 keys
// are looked at for one. `counters`: of a simulated best, what the simulator counted.
absl::StatusOr<Json> view_schedules(const ViewContext& context, const Parameters& parameters);
// Verdicts of the newest 10,000 measurements of the last 24 hours, by hour.
absl::StatusOr<Json> view_failures(const ViewContext& context);

// What the machine does during one call of the best of a study's workload, where it is simulated:
// `note`, `colors`, `svg` (src/figures/timeline.h). workload: its position, 0 by default. kNotFound
// says why there is none. Pictures are made one at a time, and the latest are remembered.
// Thread-safe.
class CallViews {
 public:
  absl::StatusOr<Json> view(const ViewContext& context, const std::string& study,
                            const Parameters& parameters);

 private:
  Remembered<Json> known_{4 << 20};
  std::mutex mutex_;
};

// ---- for views_*.cc

// An integer parameter; `usual` when absent. kInvalidArgument outside [low, high].
absl::StatusOr<int64_t> integer_parameter(const Parameters& parameters, const std::string& name,
                                          int64_t usual, int64_t low, int64_t high);
// A text parameter of at most 200 bytes, "" when absent.
absl::StatusOr<std::string> text_parameter(const Parameters& parameters, const std::string& name);
// The name of a target by its id; the id's beginning when it is not known.
std::string target_name(Transaction& tx, const std::string& id);

}  // namespace lw
