// `db prune`: measurements that neither look-ups nor searches need, and, with the options of
// retention, what a daemon forgets in time by itself (`serve --config`). Given only these it leaves
// measurements alone. It may run beside a daemon.
#include "src/cli/db/prune.h"

#include <algorithm>

#include "src/base/clock.h"
#include "src/cli/service/service.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/tables/pools.h"

namespace lw {
namespace {

constexpr int kPiece = 300;                // rows a transaction: a daemon beside us writes too
constexpr double kPatience_s = 10;
constexpr int64_t kDayMs = 86'400'000;

struct Pruned {
  int64_t measurements = 0;
  Forgotten forgotten;
};

bool asks_for_any(const Retention& retention) {
  const auto settings = retention_settings();
  return std::any_of(settings.begin(), settings.end(), [&](const RetentionSetting& setting) {
    return retention.*(setting.days) > 0;
  });
}

// What it would delete is deleted, counted, and brought back.
absl::StatusOr<int64_t> count_measurements(Database& database, int keep, int64_t before_ms) {
  int64_t count = 0;
  const absl::Status undone = database.write(kPatience_s,
                                             [&](WriteTransaction& tx) -> absl::Status {
    RETURN_IF_ERROR(prune_measurements(tx, keep, before_ms, &count));
    return absl::CancelledError("a dry run");
  });
  if (!absl::IsCancelled(undone)) return undone;
  return count;
}

absl::StatusOr<Pruned> count(Database& database, const PruneOptions& options, bool measurements,
                             int64_t now_ms) {
  Pruned pruned;
  if (measurements) {
    const int64_t before_ms = now_ms - static_cast<int64_t>(options.days * kDayMs);
    ASSIGN_OR_RETURN(pruned.measurements, count_measurements(database, options.keep, before_ms));
  }
  RETURN_IF_ERROR(database.read(kPatience_s, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(pruned.forgotten, count_forgettable(tx, options.retention, now_ms));
    return absl::OkStatus();
  }));
  return pruned;
}

absl::Status forget_all(Database& database, const Retention& retention, int64_t now_ms,
                        Forgotten* all) {
  while (true) {
    int kind = -1;
    RETURN_IF_ERROR(database.read(kPatience_s, [&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(kind, what_to_forget(tx, retention, now_ms));
      return absl::OkStatus();
    }));
    if (kind < 0) return absl::OkStatus();
    Forgotten gone;
    RETURN_IF_ERROR(database.write(kPatience_s, [&](WriteTransaction& tx) -> absl::Status {
      gone.clear();
      return forget_piece(tx, retention, kind, now_ms, kPiece, &gone);
    }));
    for (const auto& [what, rows] : gone) (*all)[what] += rows;
  }
}

absl::StatusOr<Pruned> delete_all(const std::shared_ptr<Database>& database,
                                  const PruneOptions& options, bool measurements,
                                  int64_t now_ms) {
  Pruned pruned;
  if (measurements) {
    const int64_t before_ms = now_ms - static_cast<int64_t>(options.days * kDayMs);
    ASSIGN_OR_RETURN(pruned.measurements, make_store(database)->prune(options.keep, before_ms));
  }
  RETURN_IF_ERROR(forget_all(*database, options.retention, now_ms, &pruned.forgotten));
  // Only the file's size is at stake: a full disk keeps it as it is.
  if (!pruned.forgotten.empty()) database->vacuum(kPatience_s).IgnoreError();
  return pruned;
}

}  // namespace

void add_prune(CliArguments app, PruneOptions* options) {
  const auto asked = [options](const std::string&) { options->measurements = true; };
  app.add_option("--keep", options->keep, "of measurements: traces of each key, the best first")
      .between(1, 1 << 30).capture_default_str().each(asked);
  app.add_option("--days", options->days, "of measurements: age after which failures go")
      .not_negative().capture_default_str().each(asked);
  for (const RetentionSetting& setting : retention_settings()) {
    std::string name = concat("--", setting.name);
    std::replace(name.begin(), name.end(), '_', '-');
    app.add_option(name, options->retention.*(setting.days),
                   concat(setting.help, ": how many days they stay; 0: for ever"))
        .not_negative();
  }
  app.add_flag("--dry-run", options->dry_run, "say how many would go");
}

absl::StatusOr<int> prune(const DatabaseFlags& flags, const PruneOptions& options,
                          const Output& output) {
  // As ever without any of the options.
  const bool measurements = options.measurements || !asks_for_any(options.retention);
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> existing, flags.open_to_read());
  if (existing == nullptr) {
    return absl::NotFoundError(concat("there is no database ", flags.shown()));
  }
  DatabaseOptions to_write;
  to_write.insecure = flags.insecure;
  ASSIGN_OR_RETURN(const std::shared_ptr<Database> database,
                   environment(open_database(flags.path, to_write)));
  const int64_t now_ms = unix_ms();
  ASSIGN_OR_RETURN(const Pruned pruned,
                   environment(options.dry_run
                                   ? count(*database, options, measurements, now_ms)
                                   : delete_all(database, options, measurements, now_ms)));
  Json document = {{"dry_run", options.dry_run}, {"pruned", pruned.measurements},
                   {"forgotten", Json::object()}};
  Table table{{"what", "rows"}, {{"measurements", concat(pruned.measurements)}}, {false, true}};
  const char* gone = options.dry_run ? " would be deleted\n" : " deleted\n";
  std::string text;
  if (measurements) text += concat(pruned.measurements, " measurements", gone);
  for (const auto& [what, rows] : pruned.forgotten) {
    document["forgotten"][what] = rows;
    table.rows.push_back({what, concat(rows)});
    text += concat(rows, " ", what, gone);
  }
  emit(output, document, table, text.empty() ? "nothing to delete\n" : text);
  return kDone;
}

}  // namespace lw
