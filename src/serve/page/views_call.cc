// What a simulated machine does during one call of a study's best: its program is built and timed for
// whoever asks, mostly in milliseconds.
#include <chrono>

#include "schedules/targets/family.h"
#include "src/api/run/devices.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "src/figures/timeline.h"
#include "src/measure/local.h"
#include "src/measure/run/simulation.h"
#include "src/serve/page/views.h"
#include "src/serve/studies/studies.h"
#include "tuner_db/tables/pools.h"

namespace lw {
namespace {

constexpr double kPatience_s = 2;
constexpr std::chrono::seconds kReplayFor{2};

struct Asked {
  Key key;
  std::string name, program, target;       // texts
  std::string trace;
};

absl::StatusOr<Asked> best_of(Transaction& tx, const std::string& study, int64_t position) {
  Asked asked;
  int64_t key = 0;
  {
    Query row = tx.query(
        "SELECT k.id, k.workload, k.target, k.backend, k.threads, k.cache, k.objective, w.name, "
        "w.program, t.text FROM study_workloads s JOIN studies p ON p.id = s.study "
        "JOIN keys k ON k.workload = s.workload AND k.target = p.target "
        "AND k.backend = s.backend AND k.threads = s.threads AND k.cache = s.cache "
        "AND k.objective = 'time' JOIN workloads w ON w.id = k.workload "
        "JOIN targets t ON t.id = k.target "
        "WHERE s.study = ? AND s.position = ? AND p.state <> ?", study, position, kDeleted);
    if (!row.next()) {
      RETURN_IF_ERROR(row.status());
      return absl::NotFoundError("nothing was measured of it yet");
    }
    key = row.integer(0);
    asked.key = {row.text(1), row.text(2), row.text(3), static_cast<int>(row.integer(4)),
                 row.text(5), row.text(6)};
    asked.name = row.text(7);
    asked.program = row.text(8);
    asked.target = row.text(9);
  }
  BestRow best;
  ASSIGN_OR_RETURN(const bool any, best_of_key(tx, key, 1, &best));
  if (!any || best.measurement.time_kind != TimeKind::kSimulated) {
    return absl::NotFoundError("it has no best that was simulated");
  }
  asked.trace = best.measurement.trace;
  return asked;
}

absl::StatusOr<Task> task_of(const Asked& asked) {
  ASSIGN_OR_RETURN(Target target, read_target(asked.target));
  RETURN_IF_ERROR(check_family(target));
  if (!is_simulated(target)) {
    return absl::NotFoundError(concat("this server has no simulator of ", target.name));
  }
  // Words may name files, which are the client's: only the text that it gave counts.
  if (asked.program.empty()) return absl::NotFoundError("its program is not known here");
  ASSIGN_OR_RETURN(Program program, parse_program(asked.program, asked.name));
  ASSIGN_OR_RETURN(const Task task, make_task(std::move(program), asked.name, std::move(target),
                                              asked.key.threads));
  if (task.key().workload != asked.key.workload || task.key().backend != asked.key.backend) {
    return absl::NotFoundError(
        concat("it was made by ", asked.key.backend, ", this server has ", task.key().backend));
  }
  Task::Parts parts = task.parts();
  parts.start.stop = Stop().before(Stop::Clock::now() + kReplayFor);
  return Task(std::move(parts));
}

absl::StatusOr<Json> picture_of(const Asked& asked) {
  ASSIGN_OR_RETURN(const Task task, task_of(asked));
  ASSIGN_OR_RETURN(const Choice choice, choose_trace(task, asked.trace));
  ASSIGN_OR_RETURN(const Simulation call, simulate(task, choice));
  Json colors = Json::array();
  for (const TimelineColor& color : timeline_colors(call)) {
    colors.push_back({{"look", color.look}, {"meaning", color.meaning}});
  }
  return Json{{"note", timeline_note(call)}, {"colors", std::move(colors)},
              {"svg", timeline_chart(call)}};
}

}  // namespace

absl::StatusOr<Json> CallViews::view(const ViewContext& context, const std::string& study,
                                     const Parameters& parameters) {
  ASSIGN_OR_RETURN(const int64_t position,
                   integer_parameter(parameters, "workload", 0, 0, int64_t{1} << 31));
  Asked asked;
  RETURN_IF_ERROR(context.database.read(kPatience_s, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(asked, best_of(tx, study, position));
    return absl::OkStatus();
  }));
  const std::string question =
      sha256(concat(asked.key.workload, asked.key.target, asked.key.backend, asked.trace));
  if (std::optional<Json> known = known_.find(question)) return *std::move(known);
  const std::lock_guard one_at_a_time(mutex_);
  absl::StatusOr<Json> made = picture_of(asked);
  // Whatever is wrong with it, there is no such picture.
  if (!made.ok()) return absl::NotFoundError(made.status().message());
  known_.put(question, *made, (*made)["svg"].get_ref<const std::string&>().size());
  return made;
}

}  // namespace lw
