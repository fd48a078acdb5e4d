// The parts of measuring by themselves: statistics, messages, guarded memory, the pool, the
// oracles' comparisons, the null measurer. Nothing here asserts a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/kernel/kernel.h"
#include "src/measure/judge/verify.h"
#include "src/measure/process/ipc.h"
#include "src/measure/run/guarded.h"
#include "src/measure/run/timing.h"
#include "src/search/null_measurer.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

// ---- timing ----

TEST(Estimate, MedianAndOrderStatistics) {
  EXPECT_EQ(estimate({3}).median, 3);
  EXPECT_EQ(estimate({4, 1, 2, 3}).median, 2.5);
  // Below 6 samples no 95 % interval exists inside the range.
  EXPECT_EQ(estimate({5, 1, 3, 2, 4}).low, 1);
  EXPECT_EQ(estimate({5, 1, 3, 2, 4}).high, 5);
  // 10 samples: P(Binomial(10, 1/2) < 2) = 1.07 %, < 3: 5.5 %; so the second from either end.
  const Estimate ten = estimate({10, 9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_EQ(ten.low, 2);
  EXPECT_EQ(ten.high, 9);
}

TEST(Estimate, OneOutlierMovesNothing) {
  EXPECT_EQ(estimate({1, 1, 1, 1, 1, 1, 1, 1, 1, 1000}).high, 1);
}

Timed counting(int64_t* calls, bool ok = true) {
  Timed timed;
  timed.call = [calls, ok] { return ++*calls, ok; };
  timed.before = [] {};
  return timed;
}

TEST(TimeCall, TakesAsManySamplesAsPlannedOfEnoughCalls) {
  int64_t calls = 0;
  TimingPlan plan;
  plan.max_samples = 7;
  plan.budget_s = 10;
  const Timing t = time_call(counting(&calls), plan);
  EXPECT_TRUE(t.ok);
  EXPECT_EQ(t.samples_us.size(), 7u);
  EXPECT_GT(t.inner, 1);
  EXPECT_GE(calls, 7 * t.inner);
}

TEST(TimeCall, HopelessCandidateGetsOneSample) {
  int64_t calls = 0;
  TimingPlan plan;
  plan.incumbent_us = 1e-9;
  const Timing t = time_call(counting(&calls), plan);
  EXPECT_TRUE(t.raced_out);
  EXPECT_EQ(t.samples_us.size(), 1u);
}

// A processor that wakes up: the first half millisecond says nothing of the candidate.
TEST(TimeCall, AColdStartDoesNotRaceOut) {
  const double began = now();
  Timed timed;
  timed.call = [began] {
    const double until = now() - began < 5e-4 ? now() + 1e-4 : 0;
    while (now() < until) {
    }
    return true;
  };
  timed.before = [] {};
  TimingPlan plan;
  plan.incumbent_us = 30;
  EXPECT_FALSE(time_call(timed, plan).raced_out);
}

TEST(TimeCall, FailureOfACallIsReported) {
  int64_t calls = 0;
  EXPECT_FALSE(time_call(counting(&calls, false), TimingPlan()).ok);
  EXPECT_EQ(calls, 1);
}

TEST(TimeCall, ColdRegimePreparesEveryCall) {
  int64_t calls = 0, flushes = 0;
  Timed timed = counting(&calls);
  timed.before = [&] { ++flushes; };
  TimingPlan plan;
  plan.cold = true;
  const Timing t = time_call(timed, plan);
  EXPECT_EQ(t.inner, 1);
  EXPECT_EQ(calls, flushes);
}

// ---- messages ----

TEST(Messages, TravelWholeWithTheirDescriptor) {
  const std::pair<int, int> ends = socket_pair().value();
  const std::string large(3 << 20, 'x');
  std::thread sender([&] {
    EXPECT_TRUE(send_message(ends.first, 7, large, STDERR_FILENO).ok());
    EXPECT_TRUE(send_message(ends.first, 8, "").ok());
    close(ends.first);
  });
  const absl::StatusOr<Message> first =
      receive_message(ends.second, 10, uint64_t{1} << 30, /*take_fd=*/true);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->type, 7u);
  EXPECT_EQ(first->payload, large);
  EXPECT_GE(first->fd, 0);
  close(first->fd);
  EXPECT_EQ(receive_message(ends.second, 10)->type, 8u);
  EXPECT_EQ(receive_message(ends.second, 10).status().code(), absl::StatusCode::kUnavailable);
  sender.join();
  close(ends.second);
}

TEST(Messages, SilenceIsADeadline) {
  const std::pair<int, int> ends = socket_pair().value();
  EXPECT_EQ(receive_message(ends.second, 0.01).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  ASSERT_EQ(send(ends.first, "half", 4, 0), 4);
  EXPECT_EQ(receive_message(ends.second, 0.01).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  close(ends.first);
  close(ends.second);
}

TEST(Messages, ReaderSurvivesBrokenPayloads) {
  const std::string bytes = Writer().put<int32_t>(3).put_string("abc").bytes();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Reader reader(std::string_view(bytes).substr(0, cut));
    reader.get<int32_t>();
    reader.get_string();
    EXPECT_EQ(reader.ok(), cut == bytes.size());
  }
  EXPECT_EQ(Reader(Writer().put<uint64_t>(~uint64_t{0}).bytes()).get_string(), "");
}

// ---- guarded memory ----

TEST(Guarded, PlacementsAreAlignedAsPromised) {
  for (int64_t element : {1, 2, 4, 8}) {
    for (int64_t count : {1, 3, 15, 16, 17, 1000, 1024, 4096}) {
      const int64_t size = element * count, pages = pages_for(size);
      for (Placement p : {Placement::kEnd, Placement::kStart, Placement::kUnaligned}) {
        const int64_t offset = offset_for(p, size, element);
        EXPECT_GE(offset, 0);
        EXPECT_LE(offset + size, pages);
        EXPECT_EQ(offset % element, 0);
        if (p != Placement::kUnaligned) EXPECT_EQ(offset % 64, 0);
        if (p == Placement::kUnaligned) EXPECT_NE(offset % 64, 0);
        if (p == Placement::kEnd) EXPECT_LT(pages - offset - size, 64);
        if (p == Placement::kStart) EXPECT_GE(pages - offset - size, kRoomBehind);
      }
    }
  }
}

TEST(GuardedDeathTest, BothNeighboursAreInaccessible) {
  const GuardedMap map = GuardedMap::create(100, -1, true).value();
  volatile std::byte* data = map.data();
  data[0] = std::byte{1};
  data[map.bytes() - 1] = std::byte{1};
  EXPECT_DEATH(data[-1] = std::byte{1}, "");
  EXPECT_DEATH(data[map.bytes()] = std::byte{1}, "");
}

TEST(GuardedDeathTest, ReadOnlyMappingsOfSharedMemory) {
  const SharedMemory memory = SharedMemory::create(4096).value();
  const GuardedMap map = GuardedMap::create(4096, memory.fd(), false).value();
  memory.data()[5] = std::byte{42};
  EXPECT_EQ(map.data()[5], std::byte{42});
  EXPECT_DEATH(const_cast<volatile std::byte*>(map.data())[5] = std::byte{1}, "");
}

TEST(Guarded, DamageBesideATensorIsSeen) {
  std::vector<std::byte> page(256, static_cast<std::byte>(kPoison));
  std::memset(page.data() + 64, 0, 100);
  EXPECT_TRUE(outside_intact(page.data(), 256, 64, 100));
  page[63] = std::byte{0};
  EXPECT_FALSE(outside_intact(page.data(), 256, 64, 100));
}

// ---- oracles ----

Program base_program(const char* text) {
  absl::StatusOr<Module> module = parse_module(text, "test.te");
  CHECK(module.ok());
  absl::StatusOr<Program> p = instantiate(module->ops[0], {});
  CHECK(p.ok());
  return *p;
}

constexpr char kBaseMatmul[] =
    "op mm(M = 300, N = 200, K = 32) {\n  in A: f32[M, K]\n  in B: f32[K, N]\n"
    "  out D[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n";

TEST(Points, CornersAndEveryResidueOfEveryDimension) {
  const Program p = base_program(kBaseMatmul);
  const std::vector<Point> points = choose_points(p, 4096, 1);
  EXPECT_GE(points.size(), 4096u);
  EXPECT_LT(points.size(), 5000u);
  std::set<int64_t> all, rows, columns, row64, column48;
  for (const Point& point : points) {
    all.insert(point.index);
    rows.insert(point.index / 200);
    columns.insert(point.index % 200);
    row64.insert(point.index / 200 % 64);
    column48.insert(point.index % 200 % 48);
  }
  EXPECT_EQ(all.size(), points.size()) << "twice the same";
  for (int64_t corner : {0, 199, 299 * 200, 299 * 200 + 199}) EXPECT_EQ(all.count(corner), 1u);
  for (int64_t row = 300 - 64; row < 300; ++row) EXPECT_EQ(rows.count(row), 1u);
  EXPECT_EQ(row64.size(), 64u);
  EXPECT_EQ(column48.size(), 48u);
}

TEST(Points, SmallOutputsAreTakenWhole) {
  const Program p = base_program("op f(N = 50) {\n  in A: f32[N]\n  out D[i: N] = A[i] + 1\n}\n");
  EXPECT_EQ(choose_points(p, 4096, 1).size(), 50u);
}

struct Case {
  explicit Case(const char* text, bool integers = false) : p(base_program(text)) {
    for (int t : inputs(p)) in.push_back(random_input(p, t, 7, integers));
    out = interpret(p, in).value();
    points = choose_points(p, 4096, 1);
    values.resize(points.size());
    evaluate_points(p, pointers(in), points, 0, static_cast<int64_t>(points.size()), 1e18,
                    values.data());
  }
  static std::vector<const std::byte*> pointers(const std::vector<Data>& data) {
    std::vector<const std::byte*> result;
    for (const Data& d : data) result.push_back(d.bytes.data());
    return result;
  }
  Check check() const { return check_points(p, pointers(out), points, values.data()); }
  Program p;
  std::vector<Data> in, out;
  std::vector<Point> points;
  std::vector<PointValue> values;
};

TEST(Check, InterpreterPassesItsOwnPointsAndADroppedTermDoesNot) {
  Case c(kBaseMatmul);
  EXPECT_TRUE(c.check().ok) << c.check().detail;
  EXPECT_LE(c.check().worst, 1);
  EXPECT_EQ(c.check().compared, static_cast<int64_t>(c.points.size()));
  const float* A = reinterpret_cast<const float*>(c.in[0].bytes.data());
  const float* B = reinterpret_cast<const float*>(c.in[1].bytes.data());
  float* D = reinterpret_cast<float*>(c.out[0].bytes.data());
  D[299 * 200 + 199] -= A[299 * 32 + 5] * B[5 * 200 + 199];
  EXPECT_FALSE(c.check().ok);
  EXPECT_THAT(c.check().detail, HasSubstr("D[299, 199]"));
}

TEST(Check, HalfPrecisionOutputsMayDifferByTheirRounding) {
  Case c(
      "op h(M = 40, N = 30, K = 64, T = bf16) {\n  in A: T[M, K]\n  in B: T[K, N]\n"
      "  C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n  out D[i: M, j: N] = cast(T, C[i, "
      "j])\n}\n");
  EXPECT_TRUE(c.check().ok) << c.check().detail;
  uint16_t* D = reinterpret_cast<uint16_t*>(c.out[0].bytes.data());
  D[5] ^= 1;  // the neighbouring bf16
  EXPECT_TRUE(c.check().ok) << c.check().detail;
  D[5] ^= 32;
  EXPECT_FALSE(c.check().ok);
}

TEST(Check, IntegersMustBeEqual) {
  Case c(
      "op g(M = 9, N = 7, K = 20) {\n  in A: u8[M, K]\n  in B: i8[K, N]\n"
      "  out D[i: M, j: N] = sum[k: K](cast(i32, A[i, k]) * cast(i32, B[k, j]))\n}\n");
  EXPECT_TRUE(c.check().ok) << c.check().detail;
  reinterpret_cast<int32_t*>(c.out[0].bytes.data())[11] += 1;
  EXPECT_FALSE(c.check().ok);
}

TEST(Check, WholeOutputIsExactOnIntegersOnly) {
  Case c(kBaseMatmul, /*integers=*/true);
  const std::vector<WholeScale> scale = whole_scales(c.p, c.points, c.values.data());
  EXPECT_EQ(scale[0].error, 0);
  const std::vector<std::vector<std::byte>> expected = {c.out[0].bytes};
  EXPECT_TRUE(check_whole(c.p, Case::pointers(c.out), expected, scale).ok);
  c.out[0].bytes[4 * 12345] ^= std::byte{1};
  EXPECT_FALSE(check_whole(c.p, Case::pointers(c.out), expected, scale).ok);

  Case s(
      "op s(M = 10, N = 33) {\n  in A: f32[M, N]\n  R[i: M] = sum[j: N](exp(A[i, j]))\n"
      "  out D[i: M, j: N] = exp(A[i, j]) / R[i]\n}\n");
  EXPECT_TRUE(s.check().ok) << s.check().detail;
  EXPECT_GT(whole_scales(s.p, s.points, s.values.data())[0].error, 0);
}

// Equal elements that lie beside a tie differ from the other kernel's in whole rows.
TEST(Check, WhoWinsItsAppealsMayAppealAgain) {
  Case c(kBaseMatmul, /*integers=*/true);
  const std::vector<WholeScale> scale = whole_scales(c.p, c.points, c.values.data());
  std::vector<std::vector<std::byte>> expected = {c.out[0].bytes};
  for (size_t i = 0; i < 1000; ++i) expected[0][4 * i] ^= std::byte{1};
  const std::vector<std::byte> right = c.out[0].bytes;
  int appeals = 0;
  const Appeal appeal = [&](const Point& point) -> PointValue {
    ++appeals;
    return {load_element(Type::kF32, right.data(), point.index), 0};
  };
  const auto whole = [&] {
    return check_whole(c.p, Case::pointers(c.out), expected, scale, 1, appeal).ok;
  };
  EXPECT_TRUE(whole());
  EXPECT_EQ(appeals, 1000);
  c.out[0].bytes[0] ^= std::byte{1};       // as the other kernel has it
  c.out[0].bytes[4 * 12345] ^= std::byte{1};
  EXPECT_FALSE(whole());
  for (size_t i = 0; i < 1000; ++i) c.out[0].bytes[4 * i] ^= std::byte{2};
  appeals = 0;
  EXPECT_FALSE(whole());
  EXPECT_EQ(appeals, 64);
}

TEST(Check, AKernelMaySayThatItsErrorsAreLarger) {
  Case c(kBaseMatmul);
  const std::vector<WholeScale> scale = whole_scales(c.p, c.points, c.values.data());
  const std::vector<std::vector<std::byte>> expected = {c.out[0].bytes};
  const auto point = [&](double growth) {
    return check_points(c.p, Case::pointers(c.out), c.points, c.values.data(), growth).ok;
  };
  const auto whole = [&](double growth) {
    return check_whole(c.p, Case::pointers(c.out), expected, scale, growth).ok;
  };
  float& last = reinterpret_cast<float*>(c.out[0].bytes.data())[299 * 200 + 199];
  last += 3e-4f;
  EXPECT_FALSE(point(1) || whole(1));
  EXPECT_TRUE(point(33) && whole(33));
  last += 0.1f;
  EXPECT_FALSE(point(33) || whole(33));
}

TEST(Check, UnwrittenElementsAreNamed) {
  Case c("op f(N = 50) {\n  in A: f32[N]\n  out D[i: N] = A[i] + 1\n}\n");
  EXPECT_TRUE(check_written(c.p, Case::pointers(c.out)).ok);
  std::memset(c.out[0].bytes.data() + 4 * 17, kPoison, 4);
  EXPECT_EQ(check_written(c.p, Case::pointers(c.out)).detail, "D[17] is not written");
  EXPECT_THAT(c.check().detail, HasSubstr("D[17] is not written"));
}

// ---- the null measurer ----

Candidate null_candidate(int64_t ticket, int trips) {
  Candidate c;
  c.ticket = ticket;
  Kernel k = parse_kernel(
                 "kernel k arguments=1 variables=1 workspace=0 private=0 packed=0\n"
                 "buffer D f32 64 argument 0 written\nregisters f32x16 1\nbody {\n"
                 "  for v0 < 4 {\n    r0 = const 1\n    store D[16*v0] = r0 stride 1\n  }\n}\n")
                 .value();
  k.body[0].count = trips;
  c.kernel = std::make_shared<const Kernel>(k);
  return c;
}

TEST(NullMeasurer, SameSeedSameOutcomesAndMoreWorkTakesLonger) {
  const auto run = [](uint64_t seed) {
    NullOptions options;
    options.seed = seed;
    std::unique_ptr<Measurer> m = make_null_measurer(options);
    m->submit({null_candidate(1, 4), null_candidate(2, 400)});
    return m->poll(0);
  };
  const std::vector<Outcome> a = run(1), b = run(1), c = run(2);
  ASSERT_EQ(a.size(), 2u);
  EXPECT_EQ(a[0].samples_us, b[0].samples_us);
  EXPECT_NE(a[0].samples_us, c[0].samples_us);
  EXPECT_LT(a[0].time_us, a[1].time_us);
  EXPECT_TRUE(a[0].verified);
}

TEST(NullMeasurer, InjectedFailuresFollowTheirProbability) {
  NullOptions options;
  options.failures = {{Verdict::kCrash, 0.3}, {Verdict::kWorkerLost, 0.2}};
  std::unique_ptr<Measurer> m = make_null_measurer(options);
  std::map<Verdict, int> counts;
  for (int i = 0; i < 1000; ++i) m->submit({null_candidate(i, i + 1)});
  for (const Outcome& outcome : m->poll(0)) ++counts[outcome.verdict];
  EXPECT_NEAR(counts[Verdict::kCrash], 300, 60);
  EXPECT_NEAR(counts[Verdict::kWorkerLost], 200, 60);
  // What was nobody's fault works the second time.
  for (int i = 0; i < 1000; ++i) m->submit({null_candidate(i, i + 1)});
  for (const Outcome& outcome : m->poll(0)) EXPECT_NE(outcome.verdict, Verdict::kWorkerLost);
}

}  // namespace
}  // namespace lw
