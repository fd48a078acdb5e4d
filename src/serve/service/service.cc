// How the parts of the service are put together: who hears of what, and the order in which their
// threads begin and end.
#include "src/serve/service/service.h"

#include "src/serve/core/calls.h"

namespace lw {
namespace {

SearchSeat seat_of(Core& core) {
  SearchSeat seat;
  seat.database = core.database.get();
  seat.store = core.store.get();
  seat.commit = [&core](std::function<absl::Status(WriteTransaction&)> body) {
    return core.commit.run(std::move(body), GroupCommit::Turn::kFirst);
  };
  seat.now_ms = [&core] { return core.now_ms(); };
  seat.changed = [&core](const Changes& changes) { core.changed(changes); };
  seat.owner = make_id(core.now_ms());
  seat.liveness = &core.liveness;
  seat.rules = core.options.rules;
  seat.online_ms = core.options.online_ms;
  seat.gone_ms = core.options.searcher.gone_ms;
  seat.most_waiting_s = core.options.config.quotas.waiting_seconds;
  seat.before_search = core.options.before_search;
  return seat;
}

void count(const Changes& changes, Metrics& metrics) {
  using enum Metric;
  for (const auto& [outcome, times] : changes.attempts) metrics.add(kJobAttempts, times, {outcome});
  for (const auto& [verdict, rows] : changes.verdicts) metrics.add(kMeasurements, rows, {verdict});
  for (double seconds : changes.queue_wait_s) metrics.observe(kQueueWait, seconds);
  for (double seconds : changes.run_s) metrics.observe(kMeasureSeconds, seconds);
  for (const auto& [phase, seconds] : changes.cost_s) {
    metrics.add(kTuningSeconds, seconds, {phase});
    metrics.add(kTuningCost, seconds, {phase});
  }
  for (const auto& [reason, rows] : changes.discards) metrics.add(kDiscards, rows, {reason});
  metrics.add(kLeasesExpired, changes.expired);
  for (const Doubt& doubt : changes.doubts) metrics.add(kDoubts, 1, {doubt.kind});
}

}  // namespace

Service::Service(std::unique_ptr<Core> opened)
    : core(std::move(opened)), keeper(*core), studies(*core), agents(*core),
      schedules(*core, keeper), fleet(*core), house(*core, agents) {
  if (core->options.search) {
    searcher = std::make_unique<Searcher>(seat_of(*core), core->options.searcher);
  }
  core->changed = [this](const Changes& changes) { tell(changes); };
}

absl::StatusOr<std::unique_ptr<Service>> Service::start(std::shared_ptr<Database> database,
                                                        const ServiceOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Core> core, Core::open(std::move(database), options));
  std::unique_ptr<Service> service(new Service(std::move(core)));
  RETURN_IF_ERROR(service->house.start());
  if (service->searcher != nullptr) service->searcher->start();
  service->keeper.start();
  return service;
}

Service::~Service() {
  core->stop_giving();
  core->bell.end();
  house.join();
  keeper.join();
  if (searcher != nullptr) searcher->stop();
  house.finish();
  // Both stay there, stopped: acknowledgements of the commits that are still under way tell the
  // searcher, and ask the commit for problems.
  core->commit.stop();
}

void Service::tell(const Changes& changes) {
  for (const std::string& queue : changes.queued) agents.note_queued(queue);
  for (const std::string& agent : changes.agents) agents.review(agent_name(agent));
  for (const std::string& study : changes.studies) {
    core->parked.wake_all(study_topic(study));
    if (searcher != nullptr) searcher->wake(study);
  }
  for (const std::string& study : changes.ended) {
    if (searcher != nullptr) searcher->drop(study);
  }
  if (changes.devices && searcher != nullptr) searcher->wake_all();
  if (changes.deleted) house.forget_soon();
  for (const Key& key : changes.keys) keeper.note(key);
  count(changes, core->metrics);
  for (const Doubt& doubt : changes.doubts) {
    log(Level::kWarning, "word_doubted",
        {{"kind", doubt.kind}, {"key", doubt.key}, {"actor", doubt.actor},
         {"device", doubt.device}, {"detail", doubt.detail}});
  }
}

}  // namespace lw
