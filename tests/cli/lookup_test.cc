// Records made into schedules of another task: what a lower rung answers runs, and is right.
#include "src/api/lookup.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/kernel.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/lower/lower.h"
#include "tests/support/store_fixture.h"

namespace lw {
namespace {

Task task_of(const std::vector<std::string>& words, const std::string& target = "host") {
  absl::StatusOr<Task> task = make_task(words, {.target = target, .threads = 1});
  CHECK(task.ok());
  return *std::move(task);
}

// Stores a random schedule of the task as its best.
Trace store_drawn(Store& store, const Task& task, uint64_t seed, double us = 10) {
  const std::vector<Sketch> space = make_space(task.start());
  Rng rng(seed);
  while (true) {
    const Sketch& sketch =
        space[static_cast<size_t>(rng.below(static_cast<int64_t>(space.size())))];
    const absl::StatusOr<Sample> drawn = sample(task.start(), sketch, rng);
    if (!drawn.ok() || !lower(drawn->nest).ok()) continue;
    CHECK(put_task(store, task).ok());
    std::vector<Measurement> batch = {make_measurement(1, {us, us, us})};
    batch[0].trace = to_text(drawn->trace);
    batch[0].kernel_hash = hash(*lower(drawn->nest));
    CHECK(store.append(task.key(), batch).ok());
    return drawn->trace;
  }
}

// Runs the answer's kernel on small integers and compares every element with the interpreter's.
void expect_right(const Task& task, const LookupAnswer& answer) {
  const absl::StatusOr<std::unique_ptr<Executable>> kernel =
      Executable::create(task, as_choice(answer));
  ASSERT_TRUE(kernel.ok()) << kernel.status() << "\n" << answer.trace;
  absl::StatusOr<ArgumentMemory> memory = ArgumentMemory::create(*task.program());
  ASSERT_TRUE(memory.ok());
  std::vector<Data> in;
  Rng rng(7);
  const std::vector<int> all = arguments(*task.program()), ins = inputs(*task.program());
  for (size_t i = 0; i < ins.size(); ++i) {
    const Tensor& tensor = task.program()->tensors[ins[i]];
    ASSERT_EQ(tensor.type, Type::kF32);
    float* data = reinterpret_cast<float*>(memory->data(static_cast<int>(i)));
    const size_t count = static_cast<size_t>(bytes(tensor)) / sizeof(float);
    for (size_t n = 0; n < count; ++n) data[n] = static_cast<float>(rng.below(9) - 4);
    in.emplace_back().bytes.assign(memory->data(static_cast<int>(i)),
                                   memory->data(static_cast<int>(i)) + bytes(tensor));
  }
  const absl::StatusOr<std::vector<Data>> expected = interpret(*task.program(), in);
  ASSERT_TRUE(expected.ok());
  ASSERT_TRUE((*kernel)->prepack(memory->pointers()).ok());
  ASSERT_TRUE((*kernel)->run(memory->pointers()).ok());
  const std::byte* out = memory->data(static_cast<int>(ins.size()));
  EXPECT_EQ(std::memcmp(out, (*expected)[0].bytes.data(), (*expected)[0].bytes.size()), 0)
      << answer.trace;
}

TEST(Lookup, NearestShapesAreAdaptedAndRight) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const std::unique_ptr<Store> store = make_memory_store();
    store_drawn(*store, task_of({"matmul", "M=64", "N=96", "K=48"}), seed);
    store_drawn(*store, task_of({"matmul", "M=128", "N=48", "K=64"}), seed + 100);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"matmul", "M=61", "N=96", "K=47"},
          std::vector<std::string>{"matmul", "M=128", "N=64", "K=64"}}) {
      const Task task = task_of(words);
      const absl::StatusOr<LookupAnswer> answer = look_up(task, *make_store_source(*store));
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->outcome, Rung::kNearestShape);
      EXPECT_GT(answer->distance, 0);
      EXPECT_GE(*answer->predicted_loss, -1e-9);
      EXPECT_GT(*answer->predicted_us, 0);
      EXPECT_GT(*answer->age_ms, -int64_t{1} << 60);
      expect_right(task, *answer);
    }
  }
}

TEST(Lookup, EpiloguesOfTheSameFamilyToo) {
  const std::unique_ptr<Store> store = make_memory_store();
  store_drawn(*store, task_of({"dense_relu", "M=32", "N=64", "K=64"}), 3);
  const Task task = task_of({"dense_relu", "M=37", "N=50", "K=64"});
  const absl::StatusOr<LookupAnswer> answer = look_up(task, *make_store_source(*store));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->outcome, Rung::kNearestShape);
  expect_right(task, *answer);
}

TEST(Lookup, ExactIsTheRecordAsItStands) {
  const std::unique_ptr<Store> store = make_memory_store();
  const Task task = task_of({"matmul", "M=64", "N=96", "K=48"});
  const Trace trace = store_drawn(*store, task, 5, 12);
  const absl::StatusOr<LookupAnswer> answer = look_up(task, *make_store_source(*store));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->outcome, Rung::kExact);
  EXPECT_EQ(answer->trace, to_text(trace));
  EXPECT_FALSE(answer->adapted);
  EXPECT_EQ(*answer->predicted_loss, 0);
  EXPECT_EQ(*answer->predicted_us, 12);
  EXPECT_EQ(as_choice(*answer).measurement->time_us, 12);
}

// Who calls tensors and axes otherwise asks for the same workload: he gets what was measured, in his names.
TEST(Lookup, ExactIsTheSameKernelUnderOtherNames) {
  const auto task_named = [](const char* text) {
    absl::StatusOr<Task> task =
        make_task(*parse_program(text, "p"), "p", TaskOptions{.target = "x86_avx2", .threads = 1});
    CHECK(task.ok());
    return *std::move(task);
  };
  const Task known = task_named(
      "op p() {\n in X: f32[24, 40]\n S[i: 24] = sum[j: 40](X[i, j] * X[i, j])\n"
      " out Y[i: 24, j: 40] = X[i, j] * rsqrt(S[i] + 1)\n}");
  const Task asked = task_named(
      "op p() {\n in A: f32[24, 40]\n total[r: 24] = sum[c: 40](A[r, c] * A[r, c])\n"
      " out B[r: 24, c: 40] = A[r, c] * rsqrt(total[r] + 1)\n}");
  ASSERT_EQ(known.key().workload, asked.key().workload);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const std::unique_ptr<Store> store = make_memory_store();
    const std::string trace = to_text(store_drawn(*store, known, seed, 12));
    const absl::StatusOr<LookupAnswer> answer = look_up(asked, *make_store_source(*store));
    ASSERT_TRUE(answer.ok()) << answer.status() << trace;
    EXPECT_EQ(answer->outcome, Rung::kExact) << trace;
    EXPECT_EQ(answer->record->trace, trace);
    EXPECT_TRUE(replay(asked.start(), *parse_trace(answer->trace)).ok()) << answer->trace;
    EXPECT_FALSE(answer->adapted);
    EXPECT_EQ(as_choice(*answer).measurement->time_us, 12);
  }
}

// As an older server took them in: the fastest of the key names what its program has not, and so does
// the next.
TEST(Lookup, ABestThatDoesNotApplyGivesWayToTheNextOfItsKey) {
  const std::unique_ptr<Store> store = make_memory_store();
  const Task task = task_of({"matmul", "M=64", "N=96", "K=48"});
  const Trace trace = store_drawn(*store, task, 5, 12);
  std::vector<Measurement> batch = {make_measurement(1, {3, 3, 3}), make_measurement(2, {4, 4, 4})};
  batch[0].trace = "split(Z, q; 1, 0)\n", batch[1].trace = "split(C, q; 1, 0)\n";
  ASSERT_TRUE(store->append(task.key(), batch).ok());
  const absl::StatusOr<LookupAnswer> answer = look_up(task, *make_store_source(*store));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->outcome, Rung::kExact);
  EXPECT_EQ(answer->trace, to_text(trace));
  EXPECT_EQ(answer->record->trace, to_text(trace));
  EXPECT_EQ(*answer->predicted_us, 12);
  EXPECT_EQ(as_choice(*answer).measurement->time_us, 12);
  ASSERT_FALSE(answer->notes.empty());
  EXPECT_NE(answer->notes[0].find("does not apply"), std::string::npos);
  const absl::StatusOr<Choice> chosen = choose(task, store.get());
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->trace, to_text(trace));
  EXPECT_EQ(chosen->measurement->time_us, 12);
}

TEST(Lookup, OfTwoTargetsEachGetsItsOwnAndALesserOneServesAGreater) {
  const std::unique_ptr<Store> store = make_memory_store();
  const std::vector<std::string> words = {"matmul", "M=64", "N=96", "K=48"};
  const Task avx2 = task_of(words, "x86_avx2"), avx512 = task_of(words, "x86_avx512"),
             sse2 = task_of(words, "x86_sse2");
  const Trace trace = store_drawn(*store, avx2, 1);
  const std::unique_ptr<RecordSource> source = make_store_source(*store);
  EXPECT_EQ(look_up(avx512, *source)->outcome, Rung::kNearestTarget);
  EXPECT_EQ(look_up(sse2, *source)->outcome, Rung::kDefault);  // it lacks AVX2
  store_drawn(*store, avx512, 2);
  EXPECT_EQ(look_up(avx2, *source)->trace, to_text(trace));
  EXPECT_EQ(look_up(avx512, *source)->outcome, Rung::kExact);
}

// Of this workload only the time is of use: its trace does not apply.
TEST(Lookup, TheLossIsBesideTheBestMeasuredTime) {
  const std::vector<std::string> words = {"matmul", "M=64", "N=96", "K=48"};
  const Task asked = task_of(words, "x86_avx512"), lesser = task_of(words, "x86_avx2");
  const Task shape = task_of({"matmul", "M=64", "N=192", "K=48"}, "x86_avx2");
  const std::unique_ptr<Store> store = make_memory_store();
  ASSERT_TRUE(put_task(*store, lesser).ok());
  std::vector<Measurement> broken = {make_measurement(1, {10, 10, 10})};
  broken[0].trace = "split(nothing, i; 5, 6, 0)\n";
  ASSERT_TRUE(store->append(lesser.key(), broken).ok());
  store_drawn(*store, shape, 3, 40);       // 20 us for half the work
  absl::StatusOr<LookupAnswer> answer = look_up(asked, *make_store_source(*store));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->record->key, shape.key());
  EXPECT_GE(*answer->predicted_us, 20 - 1e-9);
  EXPECT_NEAR(*answer->predicted_loss, *answer->predicted_us / 10 - 1, 1e-9);

  // Nothing of this workload: beside the best per operation of what is near.
  const std::unique_ptr<Store> near = make_memory_store();
  store_drawn(*near, task_of({"matmul", "M=64", "N=192", "K=48"}), 3, 40);
  store_drawn(*near, task_of({"matmul", "M=64", "N=48", "K=48"}), 4, 15);  // 30 us
  answer = look_up(task_of(words), *make_store_source(*near));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->outcome, Rung::kNearestShape);
  EXPECT_GE(*answer->predicted_us, 20 - 1e-9);
  EXPECT_NEAR(*answer->predicted_loss, *answer->predicted_us / 20 - 1, 1e-9);
}

// The draft would take the other record's adapted trace wherever it finds it faster.
TEST(Lookup, WhatWasMeasuredForTheSameWorkloadGoesBeforeWhatIsEstimated) {
  const std::vector<std::string> words = {"matmul", "M=64", "N=96", "K=48"};
  const Task asked = task_of(words, "x86_avx512"), lesser = task_of(words, "x86_avx2");
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const std::unique_ptr<Store> store = make_memory_store();
    const Trace trace = store_drawn(*store, lesser, seed, 20);
    store_drawn(*store, task_of({"matmul", "M=64", "N=128", "K=48"}, "x86_avx2"), seed + 50, 10);
    const absl::StatusOr<LookupAnswer> answer = look_up(asked, *make_store_source(*store));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->outcome, Rung::kNearestTarget);
    EXPECT_EQ(answer->record->key, lesser.key());
    EXPECT_EQ(answer->trace, to_text(trace));
    EXPECT_EQ(*answer->predicted_us, 20);
    EXPECT_EQ(*answer->predicted_loss, 0);
  }
}

TEST(Lookup, WhatDoesNotApplyIsSaidAndTheNextRungAnswers) {
  const std::unique_ptr<Store> store = make_memory_store();
  const Task task = task_of({"matmul", "M=64", "N=96", "K=48"});
  store_drawn(*store, task_of({"matmul", "M=64", "N=96", "K=64"}), 1);
  ASSERT_TRUE(put_task(*store, task).ok());
  std::vector<Measurement> broken = {
      make_measurement(1, {10, 10, 10})};  // split(C, i; ...): no loop
  broken[0].trace = "split(nothing, i; 5, 6, 0)\n";
  ASSERT_TRUE(store->append(task.key(), broken).ok());
  const absl::StatusOr<LookupAnswer> answer = look_up(task, *make_store_source(*store));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->outcome, Rung::kNearestShape);
  ASSERT_FALSE(answer->notes.empty());
  EXPECT_NE(answer->notes[0].find("does not apply"), std::string::npos) << answer->notes[0];
}

TEST(Lookup, TheDefaultIsTheZeroTrialScheduleOrNothing) {
  const std::unique_ptr<Store> store = make_memory_store();
  const Task task = task_of({"matmul", "M=64", "N=96", "K=48"});
  const absl::StatusOr<LookupAnswer> answer = look_up(task, *make_store_source(*store));
  EXPECT_EQ(answer->outcome, Rung::kDefault);
  EXPECT_EQ(answer->trace, choose(task, nullptr)->trace);
  EXPECT_EQ(answer->record, nullptr);
  LookupOptions options;
  options.zero_trial = false;
  EXPECT_EQ(look_up(task, *make_store_source(*store), options)->kernel, nullptr);
}

TEST(Tasks, OfMachinesThatALaterVersionDescribesAreRefusedByName) {
  Target target = *find_target("x86_avx2");
  target.caches[0].later = R"({"banks": 8})";
  const absl::Status refused =
      make_task(*load_workload({"matmul", "M=8", "N=8", "K=8"}), "", target, 1).status();
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("caches[0].banks"));
}

TEST(Tasks, OfMachinesOfUnknownFamiliesAreRefusedByName) {
  const absl::StatusOr<Target> target =
      read_target(R"({"name": "edge", "family": "toy", "units": 8})");
  ASSERT_TRUE(target.ok()) << target.status();
  const absl::Status refused =
      make_task(*load_workload({"matmul", "M=8", "N=8", "K=8"}), "", *target, 1).status();
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("target 'edge' is of the family 'toy'"));
}

TEST(Tasks, TakeTargetsByNameAndAsText) {
  const Target named = *find_target("x86_avx2");
  for (const std::string& given : {named.name, to_text(named)}) {
    const absl::StatusOr<std::shared_ptr<const Target>> target = load_target(given);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(to_text(**target), to_text(named));
  }
  EXPECT_FALSE(load_target("x86_avx3").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(load_target("{\"name\": \"half\"}").status()));
}

}  // namespace
}  // namespace lw
