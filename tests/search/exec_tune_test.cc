// A search through an exec device: the simulator behind the protocol yields the winners that it
// yields without, and the same times of whatever both have tried, bit for bit.
#include <map>

#include "cost_model/trees/learned.h"
#include "gtest/gtest.h"
#include "src/api/run/tune_task.h"
#include "src/base/check.h"
#include "src/expr/language/text.h"
#include "src/measure/workers/options.h"

namespace lw {
namespace {

constexpr char kProduct[] =
    "op mm(M = 64, N = 96, K = 80) {\n  in A: i8[M, K]\n  in B: i8[K, N] const\n"
    "  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n";

Task product_on(const std::string& target) {
  const absl::StatusOr<Module> module = parse_module(kProduct, "test.te");
  CHECK(module.ok());
  const absl::StatusOr<Program> program = instantiate(module->ops[0], {});
  CHECK(program.ok());
  absl::StatusOr<Task> task = make_task(*program, "mm", {.target = target, .threads = 1});
  CHECK(task.ok());
  return *std::move(task);
}

// What was stored, by trace.
std::map<std::string, Measurement> tuned(const Task& task, const std::string& command,
                                         TuneResult* result) {
  const std::unique_ptr<Store> store = make_memory_store();
  EXPECT_TRUE(put_task(*store, task).ok());
  LocalOptions options;
  options.seed = 3;
  options.exec = command;
  absl::StatusOr<std::unique_ptr<Measurer>> measurer = make_measurer(task, options);
  EXPECT_TRUE(measurer.ok()) << measurer.status();
  if (!measurer.ok()) return {};
  SearchOptions search;
  search.seed = 3;
  search.trials = 40;
  search.seconds = 300;
  TuneHooks hooks;
  hooks.now = now;
  hooks.progress = [](const TuneProgress&) {};
  const absl::StatusOr<TuneResult> found = tune(task.start(), task.key(), *store, **measurer,
                                                search, make_xgboost_model(), hooks);
  EXPECT_TRUE(found.ok()) << found.status();
  if (found.ok()) *result = *found;
  std::map<std::string, Measurement> rows;
  const absl::StatusOr<std::vector<Measurement>> stored = store->measurements(task.key());
  EXPECT_TRUE(stored.ok()) << stored.status();
  if (stored.ok()) {
    for (const Measurement& m : *stored) rows[m.trace] = m;
  }
  return rows;
}

TEST(ExecTune, FindsWhatTheSimulatorFinds) {
  const Task task = product_on("npu_mid32");
  TuneResult here, there;
  const std::map<std::string, Measurement> own = tuned(task, "", &here);
  const std::map<std::string, Measurement> asked =
      tuned(task, LW_BINARY_DIR "/npu_sim exec", &there);
  EXPECT_EQ(here.best.measurement.trace, there.best.measurement.trace);
  EXPECT_EQ(here.best.measurement.time_us, there.best.measurement.time_us);
  EXPECT_TRUE(there.best.measurement.verified);
  EXPECT_EQ(here.zero_us, there.zero_us);
  int both = 0;
  for (const auto& [trace, measurement] : asked) {
    const auto found = own.find(trace);
    if (found == own.end()) continue;
    ++both;
    EXPECT_EQ(found->second.time_us, measurement.time_us) << trace;
    EXPECT_EQ(found->second.verdict, measurement.verdict) << measurement.detail;
    EXPECT_EQ(measurement.time_kind, TimeKind::kSimulated);
  }
  EXPECT_GT(both, 20);
}

}  // namespace
}  // namespace lw
