// What is learned from: the data set's file, random tasks, gathering, and the set that ships.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_join.h"
#include "cost_model/trees/learned.h"
#include "gtest/gtest.h"
#include "src/api/task.h"
#include "src/api/run/tune_task.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/expr/language/text.h"
#include "src/learn/dataset.h"
#include "src/learn/draw.h"
#include "src/learn/gather.h"
#include "src/learn/hold_out.h"
#include "src/measure/local.h"
#include "src/search/null_measurer.h"
#include "src/search/search.h"

namespace lw {
namespace {

std::string temporary(const std::string& name) {
  return testing::TempDir() + "/" + std::to_string(getpid()) + name;
}

TaskSpec small_spec() {
  TaskSpec spec;
  spec.kind = "gemm";
  spec.target = "x86_avx512";
  spec.words = {"matmul", "M=40", "N=72", "K=33"};
  return spec;
}

// A data set as gathering makes it, timed by the null measurer.
Dataset small_dataset() {
  Dataset dataset;
  dataset.targets["x86_avx512"] = *find_target("x86_avx512");
  TaskSpec specs[] = {small_spec(), small_spec()};
  specs[1].words = {"dense_relu", "M=24", "N=40", "K=50"};
  specs[1].const_names.emplace();
  for (const TaskSpec& spec : specs) {
    const absl::StatusOr<Task> task = task_of(spec, dataset.targets["x86_avx512"]);
    CHECK(task.ok());
    NullOptions null;
    null.failures[Verdict::kCrash] = 0.1;
    auto measurer = make_null_measurer(null);
    auto programs = measure_programs(draw_programs(*task, {10, 4}, 1), *measurer);
    CHECK(programs.ok());
    dataset.tasks.push_back({spec, *std::move(programs)});
  }
  return dataset;
}

TEST(Dataset, ComesBackAsItWasWritten) {
  const Dataset dataset = small_dataset();
  const std::string path = temporary("data");
  ASSERT_TRUE(save_dataset(dataset, path).ok());
  const absl::StatusOr<Dataset> again = load_dataset(path);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(to_text(*again), to_text(dataset));
  ASSERT_EQ(again->tasks.size(), 2u);
  EXPECT_FALSE(again->tasks[0].spec.const_names.has_value());
  EXPECT_TRUE(again->tasks[1].spec.const_names->empty());
  EXPECT_EQ(again->tasks[0].programs[3].trace, dataset.tasks[0].programs[3].trace);
  unlink(path.c_str());
}

TEST(Dataset, RefusesWhatIsDamaged) {
  const std::string path = temporary("bad");
  EXPECT_EQ(load_dataset(path).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(write_file(path, "something else").ok());
  EXPECT_EQ(load_dataset(path).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(save_dataset(small_dataset(), path).ok());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_EQ(load_dataset(path).status().code(), absl::StatusCode::kDataLoss);
  unlink(path.c_str());
}

TEST(Dataset, ErrorsNameTheLine) {
  const std::string header = "loopwright data 1\n";
  const std::string target = to_text(small_dataset());
  const std::string known = target.substr(0, target.find("\ntask") + 1);
  for (const std::string& bad :
       {std::string("other"), header + "what\n", header + "task gemm none 1 - matmul\n",
        header + "program u 1 1 1\n", header + "\tstep\n", 
        known + "task gemm x86_avx512 0 - relu\n",
        known + "task gemm x86_avx512 1 - relu\nprogram u 1 nan 1\n",
        known + "task gemm x86_avx512 1 - relu\nprogram u -1 1 1\n"}) {
    const absl::Status status = parse_dataset(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(std::string(status.message()).rfind("line ", 0), 0u) << status;
  }
}

TEST(Dataset, BecomesExamplesOfEachTask) {
  Dataset dataset = small_dataset();
  const LabelledExamples all = examples_of(dataset);
  EXPECT_EQ(all.skipped, 0);
  ASSERT_EQ(all.examples.size(),
            dataset.tasks[0].programs.size() + dataset.tasks[1].programs.size());
  EXPECT_EQ(all.kinds, std::vector<std::string>{"gemm"});
  EXPECT_EQ(all.examples.front().group, 0u);
  EXPECT_EQ(all.examples.back().group, 1u);
  EXPECT_EQ(all.examples[0].features.size(), feature_table().size());
  dataset.tasks[0].programs[0].trace = "split(C, i; 4)\nno_such_step(C)\n";
  dataset.tasks[1].spec.words = {"no_such_operator"};
  const LabelledExamples fewer = examples_of(dataset);
  EXPECT_EQ(fewer.skipped, 1 + static_cast<int64_t>(dataset.tasks[1].programs.size()));
}

TEST(Gather, DrawsProgramsOfDifferentKernels) {
  const absl::StatusOr<Task> task = task_of(small_spec(), *find_target("x86_avx512"));
  ASSERT_TRUE(task.ok());
  const std::vector<DrawnProgram> programs = draw_programs(*task, {12, 6}, 3);
  std::set<uint64_t> kernels;
  int uniform = 0;
  for (const DrawnProgram& program : programs) {
    kernels.insert(hash(*program.kernel));
    uniform += program.source == 'u';
  }
  EXPECT_EQ(kernels.size(), programs.size());
  EXPECT_EQ(uniform, 12);
  EXPECT_EQ(programs.size(), 18u);
  EXPECT_EQ(programs[0].source, 's');
  const std::vector<DrawnProgram> again = draw_programs(*task, {12, 6}, 3);
  ASSERT_EQ(again.size(), programs.size());
  for (size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].trace, programs[i].trace);
}

TEST(Gather, AModelGuidesWhatIsDrawn) {
  const absl::StatusOr<Task> task = task_of(small_spec(), *find_target("x86_avx512"));
  ASSERT_TRUE(task.ok());
  const std::vector<DrawnProgram> drafted = draw_programs(*task, {0, 8}, 3);
  const std::vector<DrawnProgram> guided =
      draw_programs(*task, {0, 0, 8}, 3, *shipped_model(task->target()->architecture));
  const std::vector<DrawnProgram> both =
      draw_programs(*task, {0, 8, 8}, 3, *shipped_model(task->target()->architecture));
  EXPECT_EQ(drafted.size(), 8u);
  EXPECT_EQ(guided.size(), 8u);
  EXPECT_NE(drafted[0].trace, guided[0].trace);
  EXPECT_GT(both.size(), 8u);
}

TEST(Gather, FailuresAreKeptAndIntervalsHoldTheTime) {
  int failed = 0;
  for (const MeasuredTask& task : small_dataset().tasks) {
    for (const MeasuredProgram& program : task.programs) {
      failed += program.time_us == 0;
      EXPECT_LE(program.low_us, program.time_us);
      EXPECT_GE(program.high_us, program.time_us);
    }
  }
  EXPECT_GT(failed, 0);
}

TEST(Gather, KeepsObjectsThatAreBuiltAhead) {
  const absl::StatusOr<Task> task = task_of(small_spec(), *find_target("x86_avx512"));
  ASSERT_TRUE(task.ok());
  const std::string folder = temporary("objects");
  const ObjectFolder objects(folder);
  EXPECT_FALSE(objects.has(7));
  const std::vector<DrawnProgram> programs = draw_programs(*task, {1, 1}, 3);
  ASSERT_TRUE(objects.build(7, *task, programs).ok());
  EXPECT_TRUE(objects.has(7));
  const std::unique_ptr<Backend> kept = objects.backend(7, *task);
  const Kernel& kernel = *programs[0].kernel;
  const absl::StatusOr<Artifact> ours = kept->build(kernel, *task->target()),
                                 theirs = task->backend().build(kernel, *task->target());
  ASSERT_TRUE(ours.ok() && theirs.ok());
  EXPECT_EQ(ours->bytes, theirs->bytes);
  EXPECT_EQ(ours->entry, theirs->entry);
  std::filesystem::remove_all(folder);
}

// Computed times have no interval.
TEST(Gather, TakesExactTimesAsTheyAre) {
  TaskSpec spec = small_spec();
  spec.words = {"matmul", "M=40", "N=72", "K=33", "T=bf16"};
  const absl::StatusOr<Task> task = task_of(spec, *find_target("npu_mid32"));
  ASSERT_TRUE(task.ok()) << task.status();
  const auto measurer = make_measurer(*task, {});
  ASSERT_TRUE(measurer.ok()) << measurer.status();
  const auto programs = measure_programs(draw_programs(*task, {8, 4}, 1), **measurer);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_GT(programs->size(), 4u);
  for (const MeasuredProgram& program : *programs) {
    EXPECT_GT(program.time_us, 0);
    EXPECT_EQ(program.low_us, program.time_us);
    EXPECT_EQ(program.high_us, program.time_us);
  }
}

// The same measurements, held out by what they are of or by where.
TEST(Dataset, IsLabelledByClassesOrTargets) {
  Dataset dataset = small_dataset();
  dataset.targets["other"] = dataset.targets["x86_avx512"];
  dataset.tasks[1].spec.target = "other";
  EXPECT_EQ(examples_of(dataset).kinds, std::vector<std::string>{"gemm"});
  const LabelledExamples by_target = examples_of(dataset, LabelledBy::kTarget);
  EXPECT_EQ(by_target.kinds, (std::vector<std::string>{"x86_avx512", "other"}));
  EXPECT_EQ(by_target.kind.front(), 0);
  EXPECT_EQ(by_target.kind.back(), 1);
}

TEST(Draw, IsReproducibleAndCoversAllClasses) {
  std::set<std::string> kinds;
  int parallel = 0, lesser = 0, plain = 0;
  for (int i = 0; i < 150; ++i) {
    const TaskSpec spec = draw_task(1, i, 2, {"x86_avx2"});
    kinds.insert(spec.kind);
    parallel += spec.threads > 1, lesser += spec.target != "host", plain += !!spec.const_names;
    EXPECT_EQ(draw_task(1, i, 2, {"x86_avx2"}).words, spec.words);
  }
  EXPECT_GE(kinds.size(), 14u);
  EXPECT_GT(parallel, 5);
  EXPECT_GT(lesser, 5);
  EXPECT_GT(plain, 20);
}

// On NPUs what they compute, of each class something that has a program.
TEST(Draw, DrawsForATargetWhatItsFamilyComputes) {
  const Target target = *find_target("npu_mid32");
  std::set<std::string> kinds, empty;
  for (int i = 0; i < 40; ++i) {
    const absl::StatusOr<TaskSpec> spec = draw_task_on(1, i, target.name, target);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->target, "npu_mid32");
    EXPECT_EQ(spec->threads, 1);
    EXPECT_EQ(draw_task_on(1, i, target.name, target)->words, spec->words);
    if (!kinds.insert(spec->kind).second) continue;
    const absl::StatusOr<Task> task = task_of(*spec, target);
    ASSERT_TRUE(task.ok()) << task.status();
    if (draw_programs(*task, {2, 0}, 1).empty()) empty.insert(absl::StrJoin(spec->words, " "));
  }
  EXPECT_EQ(kinds.size(), 7u);
  EXPECT_EQ(empty, std::set<std::string>());
  for (const char* name : {"x86_avx2", "opencl_cpu"}) {
    const Target other = *find_target(name);
    EXPECT_NE(draw_task_on(1, 0, other.name, other)->kind, "") << name;
  }
}

Program program_of(const std::vector<std::string>& words) { return *load_workload(words); }

TEST(Draw, KnowsWhatResembles) {
  const Program gemm = program_of({"matmul", "M=512", "N=512", "K=512"});
  EXPECT_TRUE(resembles(gemm, program_of({"dense_relu", "M=470", "N=560", "K=512"})));
  EXPECT_TRUE(resembles(gemm, program_of({"batch_matmul", "B=1", "M=512", "N=512", "K=512"})));
  EXPECT_FALSE(resembles(gemm, program_of({"matmul", "M=400", "N=512", "K=512"})));
  EXPECT_FALSE(resembles(gemm, program_of({"batch_matmul", "B=4", "M=512", "N=512", "K=512"})));
  EXPECT_TRUE(is_withheld(program_of({"conv2d", "H=56", "W=56", "CI=64", "CO=64", "R=1", "S=1",
                                      "pad=0"})));
  EXPECT_TRUE(is_withheld(program_of({"matmul", "M=128", "N=768", "K=768"})));
}

// What the program is built from, not what a test makes.
const Dataset& shipped_data() {
  static const absl::StatusOr<Dataset>* data =
      new absl::StatusOr<Dataset>(load_dataset(LW_SOURCE_DIR "/cost_model/cpu/data.lwd"));
  CHECK(data->ok());
  return **data;
}

TEST(ShippedData, HoldsNoShapeThatBenchmarksAskFor) {
  std::set<std::string> kinds;
  for (const MeasuredTask& task : shipped_data().tasks) {
    EXPECT_FALSE(is_withheld(program_of(task.spec.words))) << absl::StrJoin(task.spec.words, " ");
    kinds.insert(task.spec.kind);
  }
  EXPECT_GE(kinds.size(), 14u);
  EXPECT_GE(shipped_data().tasks.size(), 100u);
}

// The shipped model's metrics, which are better than the draft's.
RankingMetrics expect_better_than_draft(const char* architecture,
                                        const LabelledExamples& examples) {
  std::vector<std::vector<float>> rows;
  for (const Example& example : examples.examples) rows.push_back(example.features);
  const absl::StatusOr<std::unique_ptr<Model>> shipped = shipped_model(architecture);
  EXPECT_TRUE(shipped.ok()) << shipped.status();
  if (!shipped.ok()) return {};
  const RankingMetrics model = evaluate_uniform(examples, (*shipped)->score(rows)),
                       draft = evaluate_uniform(examples, make_draft_model()->score(rows));
  EXPECT_GT(model.pairwise, draft.pairwise);
  EXPECT_GT(model.peak_at_1, draft.peak_at_1);
  return model;
}

TEST(ShippedModel, RanksItsDataBetterThanTheDraft) {
  Dataset some = shipped_data();
  some.tasks.resize(30);
  const LabelledExamples examples = examples_of(some);
  expect_better_than_draft("x86_64", examples);
  EXPECT_EQ(shipped_model("aarch64").status().code(), absl::StatusCode::kFailedPrecondition);
}

// As many tasks of each target.
TEST(ShippedNpuModel, RanksItsDataBetterThanTheDraft) {
  absl::StatusOr<Dataset> data = load_dataset(LW_SOURCE_DIR "/cost_model/npu/data.lwd");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_GE(data->tasks.size(), 400u);
  for (const MeasuredTask& task : data->tasks) {
    EXPECT_FALSE(is_withheld(program_of(task.spec.words))) << absl::StrJoin(task.spec.words, " ");
  }
  data->tasks.resize(9 * data->targets.size());
  const LabelledExamples examples = examples_of(*data);
  EXPECT_EQ(examples.skipped, 0);
  const RankingMetrics model = expect_better_than_draft("npu", examples);
  EXPECT_GT(model.peak_at_1, .9);
}

TEST(ShippedOpenClModel, RanksItsDataBetterThanTheDraft) {
  const absl::StatusOr<Dataset> data = load_dataset(LW_SOURCE_DIR "/cost_model/simt/data.lwd");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_GE(data->tasks.size(), 70u);
  for (const MeasuredTask& task : data->tasks) {
    EXPECT_FALSE(is_withheld(program_of(task.spec.words))) << absl::StrJoin(task.spec.words, " ");
  }
  const LabelledExamples examples = examples_of(*data);
  EXPECT_EQ(examples.skipped, 0);
  expect_better_than_draft("opencl", examples);
}

// Of a machine that the model has not learned from, it picks what is near the best.
TEST(ShippedNpuModel, PicksGoodSchedulesOfAnUnseenMachine) {
  absl::StatusOr<Dataset> data = load_dataset(LW_SOURCE_DIR "/cost_model/npu/data.lwd");
  ASSERT_TRUE(data.ok()) << data.status();
  std::erase_if(data->tasks, [](const MeasuredTask& task) {
    return task.spec.target != "npu_mid32" && task.spec.target != "npu_edge16" &&
           task.spec.target != "npu_big128" && task.spec.target != "npu_mid64";
  });
  const LabelledExamples examples = examples_of(*data, LabelledBy::kTarget);
  const auto unseen = std::find(examples.kinds.begin(), examples.kinds.end(), "npu_mid64");
  ASSERT_NE(unseen, examples.kinds.end());
  const int kind = static_cast<int>(unseen - examples.kinds.begin());
  std::vector<Example> learned;
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < examples.examples.size(); ++i) {
    if (examples.kind[i] != kind) learned.push_back(examples.examples[i]);
    rows.push_back(examples.examples[i].features);
  }
  const std::unique_ptr<Model> model = make_xgboost_model(offline_training());
  ASSERT_TRUE(model->fit(learned, 1).ok());
  EXPECT_GE(evaluate_uniform(examples, model->score(rows), kind).peak_at_1, .85);
}

// Untuned answers are the shipped model's on NPUs, the analytic model's on CPUs.
TEST(FirstModel, IsTheShippedOneWhereItsFamilySaysSo) {
  const auto first = [](const Task& task, std::unique_ptr<Model> model) {
    return Search(task.start(), SearchOptions(), std::move(model)).zero_trial()->text;
  };
  const std::vector<std::string> words = {"matmul", "M=784", "N=256", "K=512", "T=bf16"};
  const absl::StatusOr<Task> npu = make_task(words, {.target = "npu_big128"}),
                             cpu = make_task(small_spec().words, {.target = "x86_avx2", .threads = 1});
  ASSERT_TRUE(npu.ok() && cpu.ok());
  EXPECT_EQ(choose(*npu, nullptr)->trace, first(*npu, *shipped_model("npu")));
  EXPECT_NE(choose(*npu, nullptr)->trace, first(*npu, make_draft_model()));
  EXPECT_EQ(choose(*cpu, nullptr)->trace, first(*cpu, make_draft_model()));
}

TEST(HoldOut, AClassIsScoredByWhatHasNotSeenIt) {
  Dataset two = small_dataset();
  two.tasks[1].spec.kind = "other";
  const LabelledExamples examples = examples_of(two);
  Training training;
  training.trees = 8;
  const auto scores = held_out_scores(examples, training, 1);
  ASSERT_TRUE(scores.ok());
  // The same as learning from the other task alone.
  std::vector<Example> learned;
  std::vector<std::vector<float>> asked;
  for (size_t i = 0; i < examples.examples.size(); ++i) {
    if (examples.kind[i] == 1) learned.push_back(examples.examples[i]);
    else asked.push_back(examples.examples[i].features);
  }
  const std::unique_ptr<Model> model = make_xgboost_model(training);
  ASSERT_TRUE(model->fit(learned, 1).ok());
  const std::vector<float> expected = model->score(asked);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ((*scores)[i], expected[i]);
  two.tasks[1].spec.kind = "gemm";
  EXPECT_FALSE(held_out_scores(examples_of(two), training, 1).ok());
}

}  // namespace
}  // namespace lw
