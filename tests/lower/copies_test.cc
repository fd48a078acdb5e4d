// What only moves elements moves their bits, on every machine and under random schedules: copies,
// transposes, slices, gathers and reshapes of every type, subnormals too. (Of a NaN the interpreter
// of kernels knows only that it is one.)
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

constexpr int kCopySchedules = 2;

std::shared_ptr<const Program> copying_program(const std::string& text) {
  const absl::StatusOr<Module> module = parse_module(text, "test");
  CHECK(module.ok());
  absl::StatusOr<Program> program = instantiate(module->ops[0], {});
  CHECK(program.ok());
  return std::make_shared<const Program>(*std::move(program));
}

// Any bits; of 16-bit floats often subnormal ones, and of NaNs one.
Data bits_of(const Tensor& tensor, Rng& rng) {
  Data data;
  data.bytes.resize(bytes(tensor));
  for (std::byte& byte : data.bytes) byte = static_cast<std::byte>(rng.below(256));
  if (!is_float(tensor.type)) return data;
  if (size_of(tensor.type) == 2)
    for (size_t n = 1; n < data.bytes.size(); n += 4) data.bytes[n] = std::byte{0};
  for (int64_t n = 0; n < bytes(tensor) / size_of(tensor.type); ++n)
    if (const double x = load_element(tensor.type, data.bytes.data(), n); std::isnan(x))
      store_element(tensor.type, data.bytes.data(), n, x);
  return data;
}

void expect_same_bits(const std::string& text, size_t from, const std::vector<size_t>& order,
                      Rng& rng) {
  const auto program = copying_program(text);
  std::vector<Data> in;
  for (int tensor : inputs(*program)) in.push_back(bits_of(program->tensors[tensor], rng));
  if (in.size() > 1) {                     // the places of a gather
    int32_t* places = reinterpret_cast<int32_t*>(in[1].bytes.data());
    for (int32_t n = 0; n < 23; ++n) places[n] = n;
  }
  const size_t size = size_of(program->tensors[inputs(*program)[0]].type);
  for (const Machine& machine : machines()) {
    const Nest start = make_nest(program, std::make_shared<const Target>(machine.target), 1);
    const std::vector<Sketch> space = make_space(start);
    for (int n = 0; n < kCopySchedules; ++n) {
      const std::optional<Scheduled> scheduled = draw_kernel(start, space, rng, 20);
      ASSERT_TRUE(scheduled) << machine.name << "\n" << text;
      const std::unique_ptr<Loaded> code = load_on(machine, scheduled->kernel);
      ASSERT_TRUE(code);
      const std::vector<Data> out =
          run_guarded(*code, scheduled->kernel, *program, in, lw_context{}, n % 2 == 0);
      for (size_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(std::memcmp(out[0].bytes.data() + i * size,
                              in[0].bytes.data() + (from + order[i]) * size, size), 0)
            << machine.name << ", element " << i << " of\n" << text << scheduled->schedule;
      }
    }
  }
}

TEST(Copies, KeepEveryBit) {
  Rng rng(20261123);
  for (Type type : kAllTypes) {
    if (type == Type::kBool) continue;     // only 0 and 1 are values
    const std::string t = name_of(type);
    std::vector<size_t> same, turned;
    for (size_t i = 0; i < 23 * 19; ++i) same.push_back(i);
    for (size_t j = 0; j < 19; ++j)
      for (size_t i = 0; i < 23; ++i) turned.push_back(i * 19 + j);
    const std::string in = "op p() {\n  in A: " + t + "[24, 19]\n";
    expect_same_bits(in + "  out B[i: 23, j: 19] = A[i, j]\n}\n", 0, same, rng);
    expect_same_bits(in + "  out B[i: 23, j: 19] = A[i + 1, j]\n}\n", 19, same, rng);
    expect_same_bits(in + "  out B[j: 19, i: 23] = A[i, j]\n}\n", 0, turned, rng);
    expect_same_bits(in + "  out B[n: 437] = A[n / 19, n % 19]\n}\n", 0, same, rng);
    expect_same_bits(in + "  in P: i32[23]\n  out B[i: 23, j: 19] = A[P[i], j]\n}\n", 0, same, rng);
  }
}

// A vector holds a power of two of groups, of three too: what is left over is cut into halves.
TEST(Copies, GroupsOfThreeHaveATail) {
  const auto program = copying_program(
      "op p() {\n  in A: f32[1, 4, 10]\n  in X: f32[3]\n"
      "  out Y[a: 21, b: 4] = sum[k: 3](A[0, b, k] * X[k])\n}\n");
  Rng rng(1);
  const std::vector<Data> in = random_inputs(*program, rng, true);
  const std::vector<Data> expected = *interpret(*program, in);
  for (const Machine& machine : machines()) {
    const Nest start = make_nest(program, std::make_shared<const Target>(machine.target), 1);
    const Trace trace = *parse_trace("vectorize(Y, k)\nstage(Y, A; 0, -1, 0, 0, 2, 3)\n");
    const absl::StatusOr<Nest> nest = replay(start, trace);
    ASSERT_TRUE(nest.ok()) << nest.status();
    const std::optional<Scheduled> scheduled = schedule_kernel(*nest, trace);
    ASSERT_TRUE(scheduled);
    const std::unique_ptr<Loaded> code = load_on(machine, scheduled->kernel);
    ASSERT_TRUE(code);
    const std::vector<Data> out =
        run_guarded(*code, scheduled->kernel, *program, in, lw_context{}, true);
    EXPECT_EQ(out[0].bytes, expected[0].bytes) << machine.name << "\n" << print(*nest);
  }
}

}  // namespace
}  // namespace lw
