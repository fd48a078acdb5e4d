#include "src/api/run/tune_task.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "cost_model/trees/learned.h"
#include "loopwright/bounds.h"
#include "loopwright/tuning.h"
#include "schedules/targets/family.h"
#include "src/api/run/devices.h"
#include "src/api/run/tune_parts.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/lower/lower.h"
#include "src/measure/cuda/estimated.h"
#include "src/measure/emulated.h"
#include "src/measure/machine/limits.h"
#include "src/measure/memory.h"
#include "src/measure/run/timing.h"
#include "src/search/suite.h"
#include "tuner_db/key_terms.h"

namespace lw {
namespace {

// Gives the key back however tuning ends.
class Claim {
 public:
  Claim(Store& store, const Key& key) : store_(store), key_(key) {}
  ~Claim() { store_.release(key_); }

 private:
  Store& store_;
  const Key& key_;
};

// Measurers confine the calling thread while they live; afterwards it may run where it could
// before.
class Unconfined {
 public:
  ~Unconfined() { pin_to(cpus); }
  const std::vector<int> cpus = allowed_cpus();
};

constexpr double kBoundSeconds = 0.02;                 // to measure one
// What a search may take beyond its seconds, for what it has begun; then it is stopped.
constexpr double kOverrunSeconds = 0.5;
constexpr int64_t kWorkersBytes = int64_t{200} << 20;  // of a measurer's processes

constexpr int64_t kLargeBody = 64;                     // nodes
// What is too short to be shared between a program and its parts, and the parts' share.
constexpr double kLeastSecondsOfParts = 4;
constexpr int kLeastTrialsOfParts = 64;
constexpr double kPartsShare = 0.6;

bool may_have_parts(const Task& task, const SearchOptions& options) {
  const auto is_defined = [](const Tensor& t) { return t.body != nullptr; };
  const std::vector<Tensor>& tensors = task.program()->tensors;
  return options.use_parts && options.seconds >= kLeastSecondsOfParts &&
         options.trials >= kLeastTrialsOfParts && task.key().cache == Key().cache &&
         std::string_view(task.target()->part.family()->name) == "cpu" &&
         std::count_if(tensors.begin(), tensors.end(), is_defined) > 1;
}

// What the second oracle compares with: every definition on its own, in program order, loops as
// written; only the last axis of each result runs in vectors, or a large reference would take
// seconds. One vector at a time where the definition is large, or compiling it would.
std::shared_ptr<const Kernel> reference_kernel(const Nest& start, const Stop& stop) {
  Nest nest = start;
  nest.stop = stop;
  for (const Stage& stage : start.stages) {
    const Loop* last = nullptr;
    for (const Loop& loop : stage.loops) {
      if (!is_reduction(stage, loop)) last = &loop;
    }
    if (last == nullptr) continue;
    const int64_t extent = stage.axes[last->parts[0].axis].extent;
    int64_t nodes = 0;
    visit(stage.body->value, [&](const ExprNode&) { ++nodes; });
    const int64_t vectors = nodes > kLargeBody ? 1 : 2;
    const int64_t tile =
        std::min<int64_t>(extent, vectors * stage_lanes(start, find_stage(start, stage.name)));
    Nest tiled = nest;
    const Step step{find_step("register_tile"), {stage.name, last->name}, {tile, 0}};
    if (apply(tiled, step).ok()) nest = std::move(tiled);
  }
  absl::StatusOr<Kernel> kernel = lower(nest);
  return kernel.ok() ? std::make_shared<const Kernel>(*std::move(kernel)) : nullptr;
}

// `cpus`: those that measurers may use.
absl::StatusOr<SuiteItem> suite_item(SuiteMember& member, const SearchOptions& options,
                                     const std::vector<int>& cpus) {
  const Task& task = member.task;
  ASSIGN_OR_RETURN(const Bound bound, measure_bound(task, kBoundSeconds));
  SuiteItem item;
  item.start = task.start();
  item.key = task.key();
  item.model = member.model == nullptr ? learning_model(task.start())
                                       : std::move(member.model);
  item.state.weight = member.weight;
  item.state.group = task.workload().structure;
  item.state.bound_us = bound.bound_us;
  ASSIGN_OR_RETURN(const RunsOn device, find_device(task));
  item.state.time_kind = time_kind(device);
  item.progress = member.progress;
  item.bytes = kWorkersBytes;
  for (const Tensor& tensor : task.program()->tensors) item.bytes += 2 * bytes(tensor);
  LocalOptions local;
  local.seed = options.seed;
  local.cpus = cpus;
  local.stop = options.stop;
  item.make_measurer = [task, local] { return make_measurer(task, local); };
  return item;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Measurer>> make_measurer(const Task& task, LocalOptions options) {
  RETURN_IF_ERROR(check_measurable(*task.program(), memory_limit()));
  options.threads = task.threads();
  if (!parse_cache(task.key().cache, &options.cache)) {
    return absl::InvalidArgumentError(concat("cache is warm or cold, not ", task.key().cache));
  }
  bool emulated = false;                   // here
  if (options.exec.empty()) {
    ASSIGN_OR_RETURN(const RunsOn device, find_device(task));
    emulated = device == RunsOn::kEmulator;
    if (device == RunsOn::kEstimate) {
      return make_estimating_measurer(*task.program(), *task.target(), options);
    }
  }
  if (!is_simulated(*task.target())) {
    options.reference = reference_kernel(task.start(), options.stop);
  }
  return emulated
             ? make_emulated_measurer(*task.program(), *task.target(), options)
             : make_local_measurer(*task.program(), *task.target(), options);
}

absl::StatusOr<TuneResult> tune_task(const Task& task, Store& store, const SearchOptions& options,
                                     std::unique_ptr<Model> model, TuneHooks hooks) {
  RETURN_IF_ERROR(find_device(task).status());
  RETURN_IF_ERROR(put_task(store, task));
  RETURN_IF_ERROR(store.claim(task.key()));
  const Claim claim(store, task.key());

  SearchOptions search = options;
  search.stop = options.stop.before(after_seconds(options.seconds + kOverrunSeconds));
  LocalOptions local;
  local.seed = options.seed;
  local.stop = search.stop;
  const Unconfined unconfined;
  ASSIGN_OR_RETURN(std::unique_ptr<Measurer> measurer, make_measurer(task, std::move(local)));
  const double begin = now();
  if (!hooks.now) hooks.now = [begin] { return lw::now() - begin; };
  if (!hooks.progress) hooks.progress = [](const TuneProgress&) {};
  PartsResult parts;
  if (may_have_parts(task, options)) {
    // The first answer first.
    SearchOptions first = search;
    first.trials = 0;
    ASSIGN_OR_RETURN(const TuneResult answer, tune(task.start(), task.key(), store, *measurer, first,
                                                   learning_model(task.start()), hooks));
    const absl::StatusOr<Trace> trace = parse_trace(answer.best.measurement.trace);
    // What was searched before goes on as a whole.
    if (answer.trials == 0 && trace.ok() && !trace->empty() && !search.stop.asked()) {
      SearchOptions own = search;
      own.seconds = kPartsShare * (options.seconds - hooks.now());
      own.trials = static_cast<int>(kPartsShare * options.trials);
      const std::vector<int> confined = allowed_cpus();
      pin_to(unconfined.cpus);
      absl::StatusOr<PartsResult> tuned = tune_parts(task, *trace, own, hooks);
      pin_to(confined);
      RETURN_IF_ERROR(tuned.status());
      parts = *std::move(tuned);
      search.hints = parts.traces;
      search.seconds = std::max(1.0, options.seconds - hooks.now());
      search.trials = options.trials - std::min(options.trials / 2, parts.trials);
    }
  }
  if (model == nullptr) model = learning_model(task.start());
  ASSIGN_OR_RETURN(TuneResult result, tune(task.start(), task.key(), store, *measurer, search,
                                           std::move(model), hooks));
  result.parts = parts.parts;
  result.part_trials = parts.trials;
  result.wall_s = hooks.now();
  return result;
}

absl::StatusOr<std::vector<TuneResult>> tune_tasks(std::vector<SuiteMember> members, Store& store,
                                                   const SearchOptions& options,
                                                   const TuneHooks& hooks) {
  const Unconfined unconfined;
  std::vector<size_t> item_of;             // of each member
  std::vector<size_t> first;               // the first member of each item
  for (size_t i = 0; i < members.size(); ++i) {
    const auto same = std::find_if(first.begin(), first.end(), [&](size_t other) {
      return members[other].task.key() == members[i].task.key();
    });
    item_of.push_back(same - first.begin());
    if (same == first.end()) first.push_back(i);
    else members[*same].weight += members[i].weight;
  }
  SuiteOptions suite;
  suite.search = options;
  const double seconds = options.seconds * static_cast<double>(first.size());
  suite.search.stop = options.stop.before(after_seconds(seconds + kOverrunSeconds));
  std::vector<std::unique_ptr<Claim>> claims;
  std::vector<TuneResult> of_first(first.size());
  std::vector<SuiteItem> items;
  std::vector<size_t> searched;            // of `first`, whose items these are
  for (size_t at = 0; at < first.size(); ++at) {
    SuiteMember& member = members[first[at]];
    RETURN_IF_ERROR(put_task(store, member.task));
    const absl::Status claimed = store.claim(member.task.key());
    if (!claimed.ok() && !absl::IsAlreadyExists(claimed)) return claimed;
    if (claimed.ok()) claims.push_back(std::make_unique<Claim>(store, member.task.key()));
    absl::StatusOr<SuiteItem> item =
        claimed.ok() ? suite_item(member, suite.search, unconfined.cpus) : claimed;
    of_first[at].failure = item.status();
    if (!item.ok()) continue;
    items.push_back(*std::move(item));
    searched.push_back(at);
  }
  suite.now = hooks.now ? hooks.now : [] { return lw::now(); };
  ASSIGN_OR_RETURN(std::vector<TuneResult> tuned, tune_suite(std::move(items), store, suite));
  for (size_t i = 0; i < tuned.size(); ++i) of_first[searched[i]] = std::move(tuned[i]);
  std::vector<TuneResult> results;
  for (const size_t at : item_of) results.push_back(of_first[at]);
  return results;
}

absl::StatusOr<std::shared_ptr<Store>> open_measurements(const std::string& where) {
  if (where.empty()) return make_memory_store();
  return open_store(where);
}

namespace {

// Worker processes are forked: what another thread of a foreign program holds, a lock of malloc's say,
// would stay held in them for ever.
absl::Status check_alone() {
  std::error_code error;
  const auto threads = std::filesystem::directory_iterator("/proc/self/task", error);
  if (error) return absl::OkStatus();
  const int64_t count = std::distance(begin(threads), end(threads));
  if (count <= 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      concat("this process has ", count, " threads, and tuning forks: tune before any is started, or "
             "run `loopwright tune` as a child process"));
}

}  // namespace

absl::StatusOr<Choice> tune(const Task& task, Store& store, const TuningOptions& options,
                            const std::function<bool(const TuneProgress&)>& go_on) {
  RETURN_IF_ERROR(check_alone());
  SearchOptions search;
  static_cast<TuningOptions&>(search) = options;
  search.stop = Stop::on_request();
  TuneHooks hooks;
  if (go_on) {
    hooks.progress = [&](const TuneProgress& progress) {
      if (!go_on(progress)) search.stop.request();
    };
  }
  ASSIGN_OR_RETURN(const TuneResult tuned, tune_task(task, store, search, nullptr, hooks));
  const Measurement& best = tuned.best.measurement;
  if (best.verdict != Verdict::kOk || best.time_us <= 0 || !best.verified) {
    return absl::NotFoundError(concat("no schedule of '", task.workload().source_words,
                                      "' was valid in ", tuned.trials, " trials"));
  }
  return choose(task, &store);
}

}  // namespace lw
