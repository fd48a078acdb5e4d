// Products on NPUs, from a draw of the space to what the simulated machine computes: every schedule
// that the space holds is right, without races, on every configuration, whatever the extents.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "loopwright/program.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/build/build.h"
#include "src/build/npu/encode.h"
#include "src/expr/reference/interpret.h"
#include "src/lower/lower.h"
#include "src/npu/function/function.h"
#include "src/npu/module.h"
#include "tests/support/parsed_program.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using Bytes = std::vector<uint8_t>;

Nest start_nest(const std::string& target, const std::string& lines) {
  return make_nest(std::make_shared<const Program>(parsed(lines)),
                   std::make_shared<const Target>(*find_target(target)), 1);
}

struct Shape {
  int64_t m, n, k;
  bool across;  // B is [n, k]
  bool bf16;    // of bf16 into f32; else of i8 into i32
};

std::string product_text(const Shape& s) {
  const std::string type = s.bf16 ? "bf16" : "i8", m = std::to_string(s.m), n = std::to_string(s.n),
                    k = std::to_string(s.k);
  return "  in A: " + type + "[" + m + ", " + k + "]\n  in B: " + type + "[" +
         (s.across ? n + ", " + k : k + ", " + n) + "] const\n  out C[i: " + m + ", j: " + n +
         "] = sum[k: " + k + "](A[i, k] * " + (s.across ? "B[j, k]" : "B[k, j]") + ")\n";
}

// Runs the artifact on the simulated machine, its arguments in `data`.
npu::FunctionReport run(const Artifact& artifact, std::vector<Bytes>& data) {
  const absl::StatusOr<npu::Module> module = npu::read_module(artifact.bytes);
  EXPECT_TRUE(module.ok()) << module.status();
  std::vector<npu::Buffer> dram;
  Bytes workspace(module->workspace.bytes, 0xA5);
  if (!workspace.empty()) dram.push_back({module->workspace.address, workspace, true});
  for (size_t a = 0; a < data.size(); ++a) {
    EXPECT_EQ(module->arguments[a].range.bytes, data[a].size());
    dram.push_back({module->arguments[a].range.address, data[a], module->arguments[a].written});
  }
  absl::StatusOr<npu::Memory> memory = npu::make_memory(module->config, dram);
  EXPECT_TRUE(memory.ok()) << memory.status();
  const absl::StatusOr<npu::FunctionReport> report =
      npu::execute(module->config, module->program, &*memory);
  EXPECT_TRUE(report.ok()) << report.status();
  return *report;
}

// Of bf16 small whole numbers, whose sums are exact in whatever order.
Bytes random_operand(int64_t count, bool bf16, Rng& rng) {
  Bytes bytes(static_cast<size_t>(bf16 ? 2 * count : count));
  for (int64_t e = 0; e < count; ++e) {
    if (bf16) {
      const float value = static_cast<float>(static_cast<int64_t>(rng.below(17)) - 8);
      std::memcpy(&bytes[static_cast<size_t>(2 * e)], reinterpret_cast<const char*>(&value) + 2, 2);
    } else {
      bytes[static_cast<size_t>(e)] = static_cast<uint8_t>(rng.next());
    }
  }
  return bytes;
}

std::vector<std::byte> as_bytes(const Bytes& bytes) {
  std::vector<std::byte> same(bytes.size());
  std::memcpy(same.data(), bytes.data(), bytes.size());
  return same;
}

int32_t element(const Bytes& bytes, int64_t at, bool bf16) {
  if (!bf16) return static_cast<int8_t>(bytes[static_cast<size_t>(at)]);
  float value = 0;
  std::memcpy(reinterpret_cast<char*>(&value) + 2, &bytes[static_cast<size_t>(2 * at)], 2);
  return static_cast<int32_t>(value);
}

// As the kernel stores it.
Bytes expected(const Bytes& a, const Bytes& b, const Shape& s) {
  Bytes c;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      int32_t sum = 0;
      for (int64_t x = 0; x < s.k; ++x) {
        sum += element(a, i * s.k + x, s.bf16) *
               element(b, s.across ? j * s.k + x : x * s.n + j, s.bf16);
      }
      const float number = static_cast<float>(sum);
      const uint8_t* bytes = s.bf16 ? reinterpret_cast<const uint8_t*>(&number)
                                    : reinterpret_cast<const uint8_t*>(&sum);
      c.insert(c.end(), bytes, bytes + 4);
    }
  }
  return c;
}

bool has_bf16(const Target& target) {
  return dot_product(target, Type::kBF16, Type::kBF16, Type::kF32) != nullptr;
}

const char* const kProductTargets[] = {"npu_edge16", "npu_mid32", "npu_big128"};

// What the schedule gives for the inputs in `data`, which has room for the result behind them.
npu::Program compute(const Nest& nest, std::vector<Bytes>& data) {
  EXPECT_TRUE(verify(nest).ok()) << verify(nest);
  const absl::StatusOr<Kernel> kernel = lower(nest);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  if (!kernel.ok()) return {};
  EXPECT_TRUE(verify(*kernel).ok()) << verify(*kernel);
  if (!verify(*kernel).ok()) return {};
  const absl::StatusOr<const Backend*> backend = find_backend("npu");
  EXPECT_TRUE(backend.ok());
  const absl::StatusOr<Artifact> artifact = (*backend)->build(*kernel, *nest.target);
  EXPECT_TRUE(artifact.ok()) << artifact.status() << "\n" << print(*kernel);
  if (!artifact.ok()) return {};
  const npu::FunctionReport report = run(*artifact, data);
  EXPECT_EQ(report.status, npu::FunctionStatus::kOk)
      << (report.errors.empty() ? "" : report.errors[0]) << "\n"
      << print(*kernel);
  return npu::read_module(artifact->bytes)->program;
}

// The same of one draw of the space: false where it is not feasible.
bool draw(const std::string& target, const std::string& text, Rng& rng, std::vector<Bytes>& data,
          Trace* trace = nullptr) {
  SCOPED_TRACE(target + "\n" + text);
  const Nest start = start_nest(target, text);
  const std::vector<Sketch> space = make_space(start);
  EXPECT_FALSE(space[0].last_resort);
  const absl::StatusOr<Sample> sample = lw::sample(start, space[rng.below(space.size())], rng);
  if (!sample.ok()) return false;
  if (trace != nullptr) *trace = sample->trace;
  SCOPED_TRACE(to_text(sample->trace));
  compute(sample->nest, data);
  return true;
}

TEST(NpuProducts, EveryDrawComputesTheProduct) {
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 1)));
  const int64_t draws = setting("LW_PRODUCTS", 250);
  int64_t feasible = 0;
  for (int64_t d = 0; d < draws; ++d) {
    const std::string target = kProductTargets[rng.below(3)];
    const auto extent = [&] {
      return 1 + static_cast<int64_t>(rng.below(rng.below(4) ? 70 : 300));
    };
    Shape shape{extent(), 1 + extent(), extent(), rng.below(2) == 1, false};
    shape.bf16 = rng.below(3) == 0 && has_bf16(*find_target(target));
    std::vector<Bytes> data = {random_operand(shape.m * shape.k, shape.bf16, rng),
                               random_operand(shape.k * shape.n, shape.bf16, rng),
                               random_operand(4 * shape.m * shape.n, false, rng)};
    const std::string text = product_text(shape);
    if (!draw(target, text, rng, data)) continue;
    ++feasible;
    ASSERT_EQ(data[2], expected(data[0], data[1], shape)) << target << "\n" << text;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GE(feasible * 100, draws * 95);
}

// A padded convolution of few channels and wide windows, of one dimension or of two: packed, whole
// or by rows, but where the channels of a position fill rows of memory.
std::string windows_text(Rng& rng, bool bf16) {
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(rng.below(most)); };
  const auto text = [](int64_t number) { return std::to_string(number); };
  const bool plane = rng.below(4) > 0, across = rng.below(4) == 0;
  const int64_t r = plane ? up_to(7) : 1, s = 1 + up_to(8), stride = up_to(3),
                dilation = rng.below(3) ? 1 : 2;
  const int64_t ci = rng.below(3) ? up_to(20) : 16 << rng.below(4), co = up_to(90);
  const int64_t oy = plane ? up_to(8) : 1, ox = up_to(24);
  const int64_t top = static_cast<int64_t>(rng.below(r)), left = static_cast<int64_t>(rng.below(s));
  const int64_t h = std::max<int64_t>(1, (oy - 1) * stride + (r - 1) * dilation + 1 - top),
                w = std::max<int64_t>(1, (ox - 1) * stride + (s - 1) * dilation + 1 - left -
                                             static_cast<int64_t>(rng.below(s)));
  const std::string type = bf16 ? "bf16" : "i8", n = text(up_to(2)),
                    y = plane ? "y * " + text(stride) + " + r * " + text(dilation) + " - " +
                                    text(top) + ", "
                              : "",
                    x = "x * " + text(stride) + " + s * " + text(dilation) + " - " + text(left),
                    rows = plane ? text(r) + ", " : "", row = plane ? "r, " : "",
                    window = rows + text(s) + ", " + text(ci);
  return "  in X: " + type + "[" + n + ", " + (plane ? text(h) + ", " : "") + text(w) + ", " +
         text(ci) + "]\n  in F: " + type + "[" +
         (across ? text(co) + ", " + window : window + ", " + text(co)) + "] const\n  out Y[n: " +
         n + ", " + (plane ? "y: " + text(oy) + ", " : "") + "x: " + text(ox) + ", co: " +
         text(co) + "] = sum[" + (plane ? "r: " + rows : "") + "s: " + text(s) + ", ci: " +
         text(ci) + "](pad(X[n, " + y + x + ", ci], 0) * F[" + (across ? "co, " : "") + row +
         "s, ci" + (across ? "" : ", co") + "])\n";
}

// A padded convolution: channels last, or first, with weights as rows of the array's operand then;
// of bytes perhaps requantised.
std::string convolution_text(Rng& rng, bool bf16) {
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(rng.below(most)); };
  const bool channels_last = rng.below(3) > 0;
  const int64_t r = up_to(4), s = channels_last ? up_to(4) : 1,
                stride = channels_last ? up_to(3) : 1, dilation = up_to(2);
  const int64_t top = static_cast<int64_t>(rng.below(r + 1)),
                left = channels_last ? rng.below(s + 1) : 0;
  const int64_t oy = up_to(14), ox = up_to(14), ci = up_to(rng.below(2) ? 8 : 70), co = up_to(90);
  // So much that some windows are partly, or all, in the padding behind.
  const int64_t h = std::max<int64_t>(1, (oy - 1) * stride + (r - 1) * dilation + 1 - top -
                                             static_cast<int64_t>(rng.below(r + 1)));
  const int64_t w = std::max<int64_t>(1, (ox - 1) * stride + (s - 1) * dilation + 1 - left -
                                             static_cast<int64_t>(channels_last ? rng.below(s + 1)
                                                                                : 0));
  const auto text = [](int64_t number) { return std::to_string(number); };
  const std::string n = text(up_to(2)), type = bf16 ? "bf16" : "i8",
                    y = "y * " + text(stride) + " + r * " + text(dilation) + " - " + text(top),
                    x = "x * " + text(stride) + " + s * " + text(dilation) + " - " + text(left);
  const auto order = [&](const std::string& a, const std::string& b, const std::string& c) {
    return channels_last ? a + ", " + b + ", " + c : c + ", " + a + ", " + b;
  };
  const std::string weights =
      channels_last ? text(r) + ", " + text(s) + ", " + text(ci) + ", " + text(co)
                    : text(co) + ", " + text(r) + ", " + text(s) + ", " + text(ci);
  const bool requantised = !bf16 && channels_last && rng.below(2) > 0;
  const std::string axes = "[n: " + n + ", " +
                           order("y: " + text(oy), "x: " + text(ox), "co: " + text(co)) + "]",
                    inputs = "  in X: " + type + "[" + n + ", " +
                             order(text(h), text(w), text(ci)) + "]\n  in F: " + type + "[" +
                             weights + "] const\n",
                    sums = axes + " = sum[r: " + text(r) + ", s: " + text(s) + ", ci: " +
                           text(ci) + "](pad(X[n, " + order(y, x, "ci") + "], 0) * F[" +
                           (channels_last ? "r, s, ci, co" : "co, r, s, ci") + "])\n";
  if (!requantised) return inputs + "  out Y" + sums;
  return inputs + "  in b: i32[" + text(co) + "]\n  in m: f32[" + text(co) + "]\n  S" + sums +
         "  out Y" + axes +
         " = cast(i8, clamp(round(cast(f32, S[n, y, x, co] + b[co]) * m[co]) + " +
         text(static_cast<int64_t>(rng.below(9)) - 4) + ", -100, 120))\n";
}

Bytes random_tensor(const Tensor& tensor, Rng& rng) {
  const int64_t count = elements(tensor);
  if (tensor.role != Role::kInput) return random_operand(size_of(tensor.type) * count, false, rng);
  if (size_of(tensor.type) < 4) return random_operand(count, tensor.type == Type::kBF16, rng);
  // Biases, and scales of which products with sums are exact: the reference computes in f64.
  Bytes bytes;
  for (int64_t e = 0; e < count; ++e) {
    const int32_t bias = static_cast<int32_t>(rng.below(60001)) - 30000;
    const float scale = std::ldexp(1.0f, -static_cast<int>(4 + rng.below(12)));
    const auto* begin = tensor.type == Type::kF32 ? reinterpret_cast<const uint8_t*>(&scale)
                                                  : reinterpret_cast<const uint8_t*>(&bias);
    bytes.insert(bytes.end(), begin, begin + 4);
  }
  return bytes;
}

// A product of a product, requantised between: each by an instruction of its own choice.
std::string chain_text(Rng& rng) {
  const auto extent = [&] { return std::to_string(2 + rng.below(90)); };
  const std::string i = extent(), k = extent(), j = extent(), l = extent();
  return "  in A: i8[" + i + ", " + k + "]\n  in B: i8[" + k + ", " + j + "] const\n  in C: i8[" + j +
         ", " + l + "] const\n  in b: i32[" + j + "]\n  in m: f32[" + j + "]\n  S[i: " + i +
         ", j: " + j + "] = sum[k: " + k + "](A[i, k] * B[k, j])\n  T[i: " + i + ", j: " + j +
         "] = cast(i8, clamp(round(cast(f32, S[i, j] + b[j]) * m[j]), -128, 127))\n  out U[i: " +
         i + ", l: " + l + "] = sum[j: " + j + "](T[i, j] * C[j, l])\n";
}

// What `packed` counts, if it is not null: by how many loops windows were packed.
void expect_reference(const char* kind, int64_t draws, std::string (*text_of)(Rng&, bool),
                      std::array<int64_t, 3>* packed = nullptr) {
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 1)));
  int64_t feasible = 0;
  for (int64_t d = 0; d < draws; ++d) {
    SCOPED_TRACE(kind);
    const std::string target = kProductTargets[rng.below(3)];
    const bool bf16 = rng.below(3) == 0 && has_bf16(*find_target(target));
    const std::string text = text_of(rng, bf16);
    const Program program = parsed(text);
    std::vector<Bytes> data;
    std::vector<Data> inputs;
    for (const Tensor& tensor : program.tensors) {
      if (tensor.role == Role::kTemp) continue;
      data.push_back(random_tensor(tensor, rng));
      if (tensor.role == Role::kInput) inputs.push_back({as_bytes(data.back())});
    }
    Trace trace;
    if (!draw(target, text, rng, data, &trace)) continue;
    ++feasible;
    for (const Step& step : trace) {
      if (packed != nullptr && std::string_view(step.kind->name) == "pack_windows") {
        ++(*packed)[static_cast<size_t>(step.numbers[0])];
      }
    }
    const absl::StatusOr<std::vector<Data>> want = interpret(program, inputs);
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_EQ(as_bytes(data.back()), (*want)[0].bytes) << target << "\n" << text;
    ASSERT_FALSE(testing::Test::HasFailure()) << text;
  }
  EXPECT_GE(feasible * 100, draws * 95);
}

TEST(NpuProducts, EveryDrawComputesTheConvolution) {
  expect_reference("convolution", setting("LW_PRODUCTS", 250), convolution_text);
}

// A padded convolution in groups, perhaps requantised.
std::string grouped_text(Rng& rng, bool bf16) {
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(rng.below(most)); };
  const auto text = [](int64_t number) { return std::to_string(number); };
  const int64_t groups = 1 + up_to(4), gi = up_to(rng.below(2) ? 6 : 50), go = 1 + up_to(60);
  const int64_t r = up_to(3), stride = up_to(2), oy = up_to(9), ox = up_to(9);
  const int64_t top = static_cast<int64_t>(rng.below(r + 1));
  const int64_t left = static_cast<int64_t>(rng.below(2));
  const int64_t h = std::max<int64_t>(1, (oy - 1) * stride + r - top);
  const int64_t w = std::max<int64_t>(1, (ox - 1) * stride + r - 2 * left);
  const std::string type = bf16 ? "bf16" : "i8", n = text(up_to(2)), co = text(groups * go);
  const std::string axes =
      "[n: " + n + ", y: " + text(oy) + ", x: " + text(ox) + ", co: " + co + "]";
  const std::string inputs = "  in X: " + type + "[" + n + ", " + text(h) + ", " + text(w) + ", " +
                             text(groups * gi) + "]\n  in F: " + type + "[" + text(r) + ", " +
                             text(r) + ", " + text(gi) + ", " + co + "] const\n";
  const std::string sums = axes + " = sum[r: " + text(r) + ", s: " + text(r) + ", ci: " + text(gi) +
                           "](pad(X[n, y * " + text(stride) + " + r - " + text(top) + ", x * " +
                           text(stride) + " + s - " + text(left) + ", co / " + text(go) + " * " +
                           text(gi) + " + ci], 0) * F[r, s, ci, co])\n";
  if (bf16 || rng.below(2) == 0) return inputs + "  out Y" + sums;
  return inputs + "  in b: i32[" + co + "]\n  in m: f32[" + co + "]\n  S" + sums + "  out Y" +
         axes + " = cast(i8, clamp(round(cast(f32, S[n, y, x, co] + b[co]) * m[co]), -128, 127))\n";
}

TEST(NpuProducts, EveryDrawComputesTheGroups) {
  expect_reference("groups", setting("LW_PRODUCTS", 250) / 2, grouped_text);
}

// A transposed convolution, perhaps requantised: its phases have different numbers of points and of
// taps, or no tap at all.
std::string transposed_text(Rng& rng, bool bf16) {
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(rng.below(most)); };
  const auto text = [](int64_t number) { return std::to_string(number); };
  const int64_t r = up_to(5), s = up_to(5), stride = up_to(3);
  const int64_t ci = up_to(rng.below(2) ? 8 : 70), co = up_to(rng.below(2) ? 8 : 90);
  const std::string type = bf16 ? "bf16" : "i8", n = text(up_to(2)), h = text(up_to(7)),
                    w = text(up_to(9)), oy = text(up_to(16)), ox = text(up_to(20)),
                    by = text(stride), y = "(y + " + text(rng.below(r)) + " - r)",
                    x = "(x + " + text(rng.below(s)) + " - s)";
  const std::string axes = "[n: " + n + ", y: " + oy + ", x: " + ox + ", co: " + text(co) + "]",
                    inputs = "  in X: " + type + "[" + n + ", " + h + ", " + w + ", " + text(ci) +
                             "]\n  in F: " + type + "[" + text(r) + ", " + text(s) + ", " +
                             text(ci) + ", " + text(co) + "] const\n";
  const std::string sums = axes + " = sum[r: " + text(r) + ", s: " + text(s) + ", ci: " + text(ci) +
                           "](where(" + y + " % " + by + " == 0 && " + x + " % " + by +
                           " == 0, pad(X[n, " + y + " / " + by + ", " + x + " / " + by +
                           ", ci], 0) * F[r, s, ci, co], 0))\n";
  if (bf16 || rng.below(3) == 0) return inputs + "  out Y" + sums;
  const bool residual = rng.below(3) == 0;
  return inputs + "  in b: i32[" + text(co) + "]\n  in m: f32[" + text(co) + "]\n" +
         (residual ? "  in Z: i8[" + n + ", " + oy + ", " + ox + ", " + text(co) + "]\n" : "") +
         "  S" + sums + "  out Y" + axes + " = cast(i8, clamp(round(cast(f32, S[n, y, x, co] + " +
         (residual ? "cast(i32, Z[n, y, x, co])" : "b[co]") + ") * m[co]), -128, 127))\n";
}

TEST(NpuProducts, EveryDrawComputesTheTransposedConvolution) {
  expect_reference("transposed", setting("LW_PRODUCTS", 250) / 6, transposed_text);
}

// Where a phase ends is known of whole ones alone.
TEST(NpuProducts, PhasesRunOutsideTheirPoints) {
  const Nest start = start_nest(
      "npu_mid32",
      "  in X: i8[9, 64]\n  in F: i8[3, 64, 32] const\n  out Y[y: 17, co: 32] = sum[r: 3, ci: "
      "64](where((y + 1 - r) % 2 == 0, pad(X[(y + 1 - r) / 2, ci], 0) * F[r, ci, co], 0))\n");
  for (const bool inside : {false, true}) {
    const absl::StatusOr<Trace> trace = parse_trace(
        std::string("phase_taps(Y, y, r; 2)\n") + (inside ? "reorder(Y, y.q, y.p; 0)\n" : "") +
        "block_tile(Y, y.q, co, ci; 1, 1, 1, 4)\n"
        "stream(Y, y.q.0.0, co.0.0, ci.0.0; 0, 1, 1, 1, 0)\n");
    ASSERT_TRUE(trace.ok()) << trace.status();
    const absl::StatusOr<Nest> nest = replay(start, *trace);
    ASSERT_TRUE(nest.ok()) << nest.status();
    const absl::Status status = lower(*nest).status();
    EXPECT_EQ(status.message(), inside ? "infeasible: loop y.q.0.0 of Y does not run over phases "
                                         "outside all else"
                                       : "");
  }
}

TEST(NpuProducts, EveryDrawPacksWindows) {
  const int64_t draws = setting("LW_PRODUCTS", 250) / 2;
  std::array<int64_t, 3> packed = {};
  expect_reference("windows", draws, windows_text, &packed);
  for (const int64_t count : packed) EXPECT_GE(count * 100, draws * 10);
}

// Its first requantisation begins after operands that were loaded, results that were stored and
// products that read where it writes: more than it can wait for.
TEST(NpuProducts, WhatTokensHaveNoPlaceForIsWaitedFor) {
  const std::string text =
      "  in A: i8[64, 64]\n  in B: i8[64, 512] const\n  in b: i32[512]\n  in m: f32[512]\n"
      "  C[i: 64, j: 512] = sum[k: 64](A[i, k] * B[k, j])\n"
      "  out Y[i: 64, j: 512] = cast(i8, clamp(round(cast(f32, C[i, j] + b[j]) * m[j]), -128, "
      "127))\n";
  const Nest start = start_nest("npu_mid32", text);
  const absl::StatusOr<Trace> trace =
      parse_trace("block_tile(C, i, j, k; 2, 16, 2, 32)\nreorder(C, i.0.1, j.0.1, k.0.1; 5)\n"
                  "stream(C, i.0.0, j.0.0, k.0.0; 0, 1, 3, 1, 1)\n"
                  "vector_tile(Y, i, j; 4, 128, 3)\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const absl::StatusOr<Nest> nest = replay(start, *trace);
  ASSERT_TRUE(nest.ok()) << nest.status();
  Rng rng(1);
  std::vector<Bytes> data;
  std::vector<Data> inputs;
  for (const Tensor& tensor : start.program->tensors) {
    if (tensor.role == Role::kTemp) continue;
    data.push_back(random_tensor(tensor, rng));
    if (tensor.role == Role::kInput) inputs.push_back({as_bytes(data.back())});
  }
  const npu::Program program = compute(*nest, data);
  const auto syncs = [](const npu::Instruction& one) {
    return std::holds_alternative<npu::Sync>(one.body);
  };
  EXPECT_EQ(std::count_if(program.begin(), program.end(), syncs), 1);
  const absl::StatusOr<std::vector<Data>> want = interpret(*start.program, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  EXPECT_EQ(as_bytes(data.back()), (*want)[0].bytes);
}

TEST(NpuProducts, EveryDrawComputesTheChain) {
  expect_reference("chain", setting("LW_PRODUCTS", 250) / 4,
                   [](Rng& rng, bool) { return chain_text(rng); });
}

}  // namespace
}  // namespace lw
