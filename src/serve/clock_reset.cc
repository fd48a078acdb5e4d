#include "src/serve/clock_reset.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <thread>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/queue/leases.h"
#include "tuner_db/schema/schema.h"

namespace lw {
namespace {

constexpr double kPatience_s = 60;
constexpr std::chrono::seconds kWatch{15};  // daemons store their time every 5 s

// What the tables say of the past as it was written: it is nobody's clock.
bool is_history(std::string_view table) {
  return table == "measurements" || table == "withdrawn" || table == "audit";
}

// A column of moments, and the latest that one may hold.
struct Moments {
  std::string table, column;
  int64_t latest_ms = 0;
};

// "..._ms" is a moment that was; what else there is of time stands here by name.
std::vector<Moments> moments(int64_t present_ms) {
  const LeaseRules rules;
  std::vector<Moments> all = {{"jobs", "lease_until", present_ms + rules.ttl_ms},
                              {"jobs", "run_after", present_ms},
                              {"jobs", "avoid_until", present_ms + rules.confirm_ms},
                              {"studies", "owner_until", present_ms},
                              {"agents", "rest_until", present_ms}};
  for (const TableSchema& table : schema_tables()) {
    if (is_history(table.name)) continue;
    for (const Column& column : table.columns) {
      if (column.name.ends_with("_ms")) all.push_back({table.name, column.name, present_ms});
    }
  }
  return all;
}

absl::StatusOr<ClockState> look(Transaction& tx, int64_t present_ms) {
  ClockState state;
  state.present_ms = present_ms;
  ASSIGN_OR_RETURN(state.stored_ms, one_integer(tx.query("SELECT time_ms FROM clock")));
  for (const Moments& moment : moments(present_ms)) {
    if (moment.table == "clock") continue;
    ASSIGN_OR_RETURN(const int64_t rows,
                     one_integer(tx.query(concat("SELECT count(*) FROM ", sql_name(moment.table),
                                                 " WHERE ", moment.column, " > ?"),
                                          moment.latest_ms)));
    if (rows > 0) state.ahead.emplace_back(concat(moment.table, ".", moment.column), rows);
  }
  return state;
}

}  // namespace

absl::StatusOr<ClockState> read_clock(Database& database) {
  ASSIGN_OR_RETURN(const int64_t present_ms, database.server_ms());
  ClockState state;
  RETURN_IF_ERROR(database.read(kPatience_s, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(state, look(tx, present_ms));
    return absl::OkStatus();
  }));
  return state;
}

absl::StatusOr<ClockState> reset_clock(Database& database) {
  ASSIGN_OR_RETURN(const int64_t present_ms, database.server_ms());
  ClockState before;
  RETURN_IF_ERROR(database.write(kPatience_s, [&](WriteTransaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(before, look(tx, present_ms));
    // How long a study may wait was counted from the wrong moment.
    const int64_t ahead_ms = std::max<int64_t>(0, before.stored_ms - present_ms);
    RETURN_IF_ERROR(tx.query("UPDATE studies SET wait_until = wait_until - ? WHERE "
                             "wait_until > 0 AND (created_ms > ? OR waiting_ms > ?)",
                             ahead_ms, present_ms, present_ms).run());
    for (const Moments& moment : moments(present_ms)) {
      RETURN_IF_ERROR(tx.query(concat("UPDATE ", sql_name(moment.table), " SET ",
                                      moment.column, " = ? WHERE ", moment.column, " > ?"),
                               moment.latest_ms, moment.latest_ms).run());
    }
    return absl::OkStatus();
  }));
  return before;
}

absl::StatusOr<bool> is_clock_kept(Database& database) {
  const auto stored = [&]() -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const ClockState state, read_clock(database));
    return state.stored_ms;
  };
  ASSIGN_OR_RETURN(const int64_t before, stored());
  const auto until = std::chrono::steady_clock::now() + kWatch;
  while (before > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSIGN_OR_RETURN(const int64_t now, stored());
    if (now != before) return true;
  }
  return false;
}

}  // namespace lw
