// AArch64: kernels generated here, run by lw_runner under qemu's user mode, against the
// interpreter; and the emulated Measurer. Skipped where the cross compiler or the emulator is
// missing.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

#include "src/expr/scalar.h"
#include "src/measure/cpu/emulator.h"
#include "src/measure/emulated.h"
#include "src/measure/run/guarded.h"
#include "tests/support/close_results.h"
#include "tests/support/random_program.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

const Target& target() {
  static const Target* target = new Target(*find_target("aarch64_neon"));
  return *target;
}

Artifact build(const Kernel& kernel) {
  absl::StatusOr<Artifact> artifact = (*find_backend("aarch64"))->build(kernel, target());
  if (artifact.ok()) return *std::move(artifact);
  ADD_FAILURE() << artifact.status() << "\n" << print(kernel);
  return Artifact();
}

class Emulated : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<Emulator> found = find_emulator(target());
    if (!found.ok()) GTEST_SKIP() << "[SKIP] " << found.status();
    emulator_ = *found;
  }

  // All arguments as they are after one run, as run_on() of the tests of backends.
  std::vector<std::string> run(const Kernel& kernel, std::vector<std::string> arguments) {
    const Artifact artifact = build(kernel);
    const absl::StatusOr<FlatImage> image = link_flat(artifact, kImageBase);
    if (!image.ok()) {
      ADD_FAILURE() << image.status();
      return {};
    }
    runner::Job job;
    job.codes = {make_code(artifact, *image, 1)};
    std::vector<std::string> pages(arguments.size());
    for (const Buffer& b : kernel.buffers) {
      if (b.scope != Scope::kArgument) continue;
      const std::string& bytes = arguments[b.slot];
      const uint64_t whole = static_cast<uint64_t>(pages_for(static_cast<int64_t>(bytes.size())));
      pages[b.slot] = std::string(whole - bytes.size(), '\xff') + bytes;
      job.arguments.resize(arguments.size());
      job.arguments[b.slot] = {whole, whole - bytes.size(), bytes.size(), b.written,
                               b.written ? std::string_view() : pages[b.slot]};
    }
    const absl::StatusOr<RunnerAnswer> answer =
        ask_runner(emulator_, runner::Frame::kJob, runner::encode_job(job), 60, 1 << 30);
    if (!answer.ok() || answer->type != runner::Frame::kResult) {
      ADD_FAILURE() << answer.status() << "\n" << print(kernel);
      return {};
    }
    const std::optional<runner::Result> result = runner::decode_result(answer->payload);
    EXPECT_TRUE(result && result->code == 0 && result->intact);
    size_t next = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!job.arguments[i].output) continue;
      arguments[i] = std::string(result->outputs[next++].substr(job.arguments[i].offset));
    }
    return arguments;
  }

  void expect_as_interpreted(const Kernel& kernel, double ulps = 0) {
    const std::vector<std::string> arguments = random_arguments(kernel, 5);
    const std::vector<std::string> want = run_on(machines()[0], kernel, arguments);
    const std::vector<std::string> got = run(kernel, arguments);
    ASSERT_EQ(got.size(), want.size());
    for (const Buffer& b : kernel.buffers) {
      if (b.scope != Scope::kArgument || !b.written) continue;
      EXPECT_TRUE(same_elements(b.type, got[b.slot], want[b.slot], ulps)) << print(kernel);
    }
  }

  Emulator emulator_;
};

// ------------------------------------------------------------------------------ code

TEST(Aarch64, CodeIsNeonAndItsObjectStandsAlone) {
  const Kernel kernel = map_kernel({Type::kF32, Type::kF32, Type::kF32}, Type::kF32, 16,
                                   "fma r0, r1, r2");
  const Artifact artifact = build(kernel);
  ASSERT_GT(artifact.bytes.size(), 64u);
  EXPECT_EQ(artifact.bytes.substr(0, 4), "\x7f" "ELF");
  EXPECT_EQ(artifact.bytes[18], '\xb7');   // EM_AARCH64
  const Backend& backend = **find_backend("aarch64");
  EXPECT_THAT(*backend.text(kernel, target(), "asm"), HasSubstr("fmla\tv"));
  // Code of another machine is never run in this process.
  EXPECT_EQ(load(artifact).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Aarch64, ImagesAreLinkedToTheirAddress) {
  const absl::StatusOr<FlatImage> image =
      link_flat(build(map_kernel({Type::kF32}, Type::kF32, 4, "exp r0")), kImageBase);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_GE(image->run, kImageBase);
  EXPECT_LT(image->run, kImageBase + image->bytes);
  for (const FlatImage::Segment& s : image->segments) EXPECT_FALSE(s.writable && s.executable);
  Artifact garbage;
  garbage.entry = "f";
  for (const char* bytes : {"", "garbage", "\x7f" "ELF"}) {
    garbage.bytes = bytes;
    EXPECT_FALSE(link_flat(garbage, kImageBase).ok());
  }
}

TEST_F(Emulated, CastsBetweenAllTypes) {
  for (Type from : kAllTypes) {
    for (Type to : kAllTypes) {
      if (from != to) expect_as_interpreted(map_kernel({from}, to, 16, "cast r0"));
    }
  }
  for (Type half : {Type::kF16, Type::kBF16}) {
    expect_as_interpreted(map_kernel({half}, Type::kF32, 1, "cast r0"));
    expect_as_interpreted(map_kernel({Type::kF64}, half, 1, "cast r0"));
  }
}

TEST_F(Emulated, UnaryOperations) {
  for (const ExprOpRow& row : kExprOpRows) {
    const ExprOp expr_op = row.op;
    if (!is_unary(expr_op)) continue;
    const bool exact = row.rounding != Rounding::kFunction;
    for (Type type : {Type::kF64, Type::kF32, Type::kI32, Type::kI8, Type::kBool}) {
      if (!accepts(domain_of(expr_op), type)) continue;
      expect_as_interpreted(map_kernel({type}, type, 16, std::string(op_name(expr_op)) + " r0"),
                            exact ? 0 : 6);
    }
  }
}

TEST_F(Emulated, BinaryOperations) {
  for (const ExprOpRow& row : kExprOpRows) {
    const ExprOp expr_op = row.op;
    if (!is_binary(expr_op)) continue;
    for (Type type : {Type::kF64, Type::kF32, Type::kI64, Type::kI32, Type::kU8}) {
      if (!accepts(domain_of(expr_op), type)) continue;
      const Type out = is_comparison(expr_op) ? Type::kBool : type;
      expect_as_interpreted(
          map_kernel({type, type}, out, 16, std::string(op_name(expr_op)) + " r0, r1"),
          expr_op == ExprOp::kPow ? 3 : 0);
    }
  }
  expect_as_interpreted(
      map_kernel({Type::kF32, Type::kF32, Type::kF32}, Type::kF32, 16, "fma r0, r1, r2"));
}

// ------------------------------------------------------------------------------ schedules

// Random programs, of all types, by random schedules; memory between guard pages on both sides of
// the emulator, parallel loops in turn by three workers.
TEST_F(Emulated, RandomProgramsByRandomSchedulesAreRight) {
  Rng rng(20);
  int compared = 0;
  while (compared < 60) {
    const std::string text = ProgramWriter(rng).write();
    absl::StatusOr<Program> parsed = parse_program(text, "random");
    if (!parsed.ok()) continue;
    const auto program = std::make_shared<const Program>(*std::move(parsed));
    const std::vector<Data> in = random_inputs(*program, rng, /*integers=*/true);
    const absl::StatusOr<std::vector<Data>> want = interpret(*program, in, 1e6);
    if (!want.ok()) continue;
    const Nest start = make_nest(program, std::make_shared<const Target>(target()), 3);
    const std::optional<Scheduled> drawn = draw_kernel(start, make_space(start), rng, 5);
    if (!drawn) continue;
    ++compared;
    std::vector<Data> all = in;
    for (int t : outputs(*program)) {
      all.push_back({std::vector<std::byte>(bytes(program->tensors[t]))});
    }
    std::vector<void*> table;
    for (Data& data : all) table.push_back(data.bytes.data());
    const absl::Status ran =
        run_emulated(emulator_, *program, build(drawn->kernel), 3, table.data(), 60);
    ASSERT_TRUE(ran.ok()) << ran << text << drawn->schedule;
    const std::vector<int> out = outputs(*program);
    for (size_t o = 0; o < out.size(); ++o) {
      const Tensor& tensor = program->tensors[out[o]];
      EXPECT_EQ(compare(tensor, all[in.size() + o].bytes.data(), (*want)[o].bytes.data(),
                        64 * unit_of(tensor.type)),
                "")
          << text << drawn->schedule;
    }
  }
}

std::map<int64_t, Outcome> collect(Measurer& measurer, size_t count) {
  std::map<int64_t, Outcome> outcomes;
  for (int i = 0; i < 120 && outcomes.size() < count; ++i) {
    for (Outcome& outcome : measurer.poll(1)) outcomes[outcome.ticket] = std::move(outcome);
  }
  EXPECT_EQ(outcomes.size(), count);
  return outcomes;
}

constexpr const char* kWorkloads[] = {
    "matmul M=37 N=51 K=29",
    "matmul M=20 N=33 K=40 T=bf16",
    "matmul M=20 N=33 K=40 T=f16",
    "dense_i8 M=12 N=37 K=64",
    "conv2d_bn_relu H=9 W=11 CI=5 CO=13",
    "conv2d_depthwise H=9 W=13 C=19 stride=2",
    "softmax M=7 N=101",
    "layer_norm M=6 N=93",
    "gelu N=1003",
    "transpose M=37 N=41",
    "total_sum M=33 N=65",
};

TEST_F(Emulated, OperatorsAreVerifiedByBothOracles) {
  Rng rng(3);
  for (const char* words : kWorkloads) {
    SCOPED_TRACE(words);
    absl::StatusOr<Program> loaded = load_workload({words});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const auto program = std::make_shared<const Program>(*std::move(loaded));
    const Nest start = make_nest(program, std::make_shared<const Target>(target()), 1);
    const std::vector<Sketch> space = make_space(start);
    std::vector<Candidate> batch;
    while (batch.size() < 3) {
      const std::optional<Scheduled> drawn = draw_kernel(start, space, rng, 50);
      ASSERT_TRUE(drawn);
      Candidate c;
      c.ticket = static_cast<int64_t>(batch.size());
      c.kernel = std::make_shared<const Kernel>(drawn->kernel);
      c.draft_us = 10.5 + static_cast<double>(c.ticket);
      c.verify = true;
      batch.push_back(std::move(c));
    }
    LocalOptions options;
    options.builders = 1;
    absl::StatusOr<std::unique_ptr<Measurer>> measurer =
        make_emulated_measurer(*program, target(), options);
    ASSERT_TRUE(measurer.ok()) << measurer.status();
    (*measurer)->submit(batch);
    for (const auto& [ticket, outcome] : collect(**measurer, batch.size())) {
      EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail << print(*batch[ticket].kernel);
      EXPECT_TRUE(outcome.verified);
      EXPECT_EQ(outcome.time_us, batch[ticket].draft_us);  // never the emulator's clock
      EXPECT_THAT(outcome.environment, HasSubstr("\"emulated\":true"));
      EXPECT_THAT(outcome.environment, HasSubstr("\"estimated\":true"));
    }
  }
}

// ------------------------------------------------------------------------------ wild kernels
// (What all devices promise: tests/measure/device_conformance_test.cc.)

constexpr char kScale[] = R"(kernel scale arguments=2 variables=1 workspace=0 private=0 packed=0
buffer A f32 64 argument 0
buffer D f32 64 argument 1 written
registers f32x16 2
body {
  for v0 < 4 {
    r0 = load A[16*v0] stride 1
    r1 = add r0, r0
    store D[16*v0] = r1 stride 1
  }
}
)";

class Wild : public Emulated {
 protected:
  void SetUp() override {
    Emulated::SetUp();
    if (IsSkipped()) return;
    LocalOptions options;
    options.builders = 1;
    options.run_timeout_s = 1;
    absl::StatusOr<std::unique_ptr<Measurer>> made = make_emulated_measurer(
        *parse_program("op scale() {\n in A: f32[64]\n out D[i: 64] = A[i] + A[i]\n}\n", "test"),
        target(), options);
    ASSERT_TRUE(made.ok()) << made.status();
    measurer_ = *std::move(made);
  }

  Candidate candidate(const std::string& statements) {
    std::string text = kScale;
    text.insert(text.find("body {\n") + 7, statements);
    absl::StatusOr<Kernel> kernel = parse_kernel(text);
    CHECK(kernel.ok());
    Candidate c;
    c.ticket = 7;
    c.kernel = std::make_shared<const Kernel>(*std::move(kernel));
    c.draft_us = 3;
    c.verify = true;
    return c;
  }
  Outcome one(const Candidate& c) {
    measurer_->submit({c});
    return collect(*measurer_, 1)[7];
  }
  // The bad one, then a good one on the same measurer.
  Outcome bad_then_good(const std::string& statements) {
    const Outcome bad = one(candidate(statements));
    EXPECT_FALSE(bad.verified);
    const Outcome good = one(candidate(""));
    EXPECT_EQ(good.verdict, Verdict::kOk) << good.detail;
    EXPECT_TRUE(good.verified);
    return bad;
  }

  std::unique_ptr<Measurer> measurer_;
};

TEST_F(Wild, CrashesAreChargedAndNameTheTensor) {
  const Outcome read_only = bad_then_good("r0 = const 0\nstore A[0] = r0 stride 1\n");
  EXPECT_EQ(read_only.verdict, Verdict::kCrash);
  EXPECT_THAT(read_only.detail, HasSubstr("SIGSEGV: write at byte 0 of input A"));
  const Outcome beyond = bad_then_good("r0 = const 0\nstore D[2048] = r0 stride 1\n");
  EXPECT_EQ(beyond.verdict, Verdict::kCrash);
  EXPECT_THAT(beyond.detail, HasSubstr("past the end of output D"));
  EXPECT_EQ(beyond.samples_us.size(), 0u);
}

TEST_F(Wild, WhatIsBehindIsBuiltAndNotRun) {
  Candidate behind = candidate("r0 = const 0\nstore A[0] = r0 stride 1\n");  // it would crash
  behind.verify = false;
  behind.incumbent_us = 2;
  const Outcome outcome = one(behind);
  EXPECT_EQ(outcome.verdict, Verdict::kOk);
  EXPECT_EQ(outcome.time_us, 3);
  EXPECT_FALSE(outcome.verified);
  Candidate unknown = candidate("");
  unknown.draft_us = 0;
  EXPECT_EQ(one(unknown).verdict, Verdict::kBuildError);
}

TEST_F(Wild, FinalistsAreVerifiedInOrderAndSurviveACrash) {
  const std::vector<Outcome> outcomes = measurer_->interleave(
      {candidate(""), candidate("r0 = const 0\nstore A[0] = r0 stride 1\n"), candidate("")}, 4);
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_TRUE(outcomes[0].verified) << outcomes[0].detail;
  EXPECT_EQ(outcomes[1].verdict, Verdict::kCrash);
  EXPECT_TRUE(outcomes[2].verified) << outcomes[2].detail;
  EXPECT_THAT(outcomes[0].environment, HasSubstr("\"peak_gflops\":41.6"));
}

// ------------------------------------------------------------------------------ the runner

TEST_F(Emulated, TheRunnerGreetsAndRefusesGarbage) {
  const absl::StatusOr<RunnerAnswer> hello =
      ask_runner(emulator_, runner::Frame::kHello, "", 60, 1 << 30);
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(runner::decode_greeting(hello->payload)->machine, "aarch64");

  runner::Job job;
  runner::Job::Code& code = job.codes.emplace_back();
  code.base = kImageBase;
  code.image_bytes = 64 << 10;
  code.run = kImageBase;
  const std::string good = runner::encode_job(job);
  ASSERT_TRUE(runner::decode_job(good));
  code.run = kImageBase + (64 << 10);      // behind the image
  for (const std::string& bad : {std::string(), std::string(300, '\xff'),
                                 good.substr(0, good.size() - 1), runner::encode_job(job)}) {
    const absl::StatusOr<RunnerAnswer> answer =
        ask_runner(emulator_, runner::Frame::kJob, bad, 60, 1 << 30);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->type, runner::Frame::kRefusal);
  }
  // Zeros are an undefined instruction: the process dies, and says of what.
  const absl::StatusOr<RunnerAnswer> crash =
      ask_runner(emulator_, runner::Frame::kJob, good, 60, 1 << 30);
  ASSERT_TRUE(crash.ok()) << crash.status();
  EXPECT_EQ(crash->type, runner::Frame::kCrash);
}

TEST_F(Emulated, WhatIsMissingIsNamed) {
  Target other = target();
  other.architecture = "z80";
  const absl::Status status = find_emulator(other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("qemu-z80"));
}

}  // namespace
}  // namespace lw
