// The rows of matrices that items read for each other: their text, what the verifier asks, and who
// then has which elements, by the emulator and by the PTX that is printed.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/build/emulator/emulate.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "tests/lower/group_kernels.h"
#include "tests/ptx/printed_program.h"
#include "tests/support/kernel_text.h"

namespace lw {
namespace {

// Item i copies row i of 32 into memory that the group shares, the last row first, reads a row, and
// stores its parts. The buffers' rows have 16 bytes.
std::string parts_kernel(const std::string& type, int lanes, const std::string& parts) {
  const std::string part = std::to_string(lanes / 4), row = std::to_string(lanes);
  const std::string text = R"(kernel parts arguments=2 variables=2 workspace=0 private=0 packed=0 managed=512
buffer X TYPE ALL argument 0
buffer Y TYPE ALL argument 1 written
buffer t TYPE ALL managed 0 0
registers TYPExROW 2
registers TYPExPART 4
body {
  for v0 < 1 parallel items 32 {
    int v1 = item
    r0 = load X[ROW*v1] stride 1
    store t[-ROW*v1 + LAST] = r0 stride 1
    barrier
    r1 = load t[ROW*v1] stride 1
    PARTS
    store Y[ROW*v1] = r2 stride 1
    store Y[ROW*v1 + PART] = r3 stride 1
    store Y[ROW*v1 + 2PART] = r4 stride 1
    store Y[ROW*v1 + 3PART] = r5 stride 1
  }
}
)";
  return absl::StrReplaceAll(text, {{"PARTS", parts}, {"2PART", std::to_string(lanes / 2)},
                                    {"3PART", std::to_string(3 * lanes / 4)}, {"PART", part},
                                    {"ROW", row}, {"TYPE", type},
                                    {"ALL", std::to_string(32 * lanes)},
                                    {"LAST", std::to_string(31 * lanes)}});
}

const char* const kParts = "matparts 0 r1 -> r2, r3, r4, r5";
const char* const kTransposed = "matparts 1 r1 -> r2, r3, r4, r5";

// As X holds numbers that all differ: which of them Y's elements are, of rows of so many lanes.
std::vector<int> expected(int lanes, bool transposed) {
  std::vector<int> result;
  for (int item = 0; item < 32; ++item) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      for (int l = 0; l < lanes / 4; ++l) {
        const int g = item / 4, at = item % 4 * (lanes / 4) + l;
        const int row = 8 * matrix + (transposed ? at : g), column = transposed ? g : at;
        result.push_back((31 - row) * lanes + column);
      }
    }
  }
  return result;
}

template <class T>
void expect_parts(const std::string& type, bool transposed) {
  const int lanes = 16 / static_cast<int>(sizeof(T));
  const Kernel kernel =
      parse_kernel(parts_kernel(type, lanes, transposed ? kTransposed : kParts)).value();
  ASSERT_TRUE(verify(kernel).ok()) << verify(kernel);
  expect_text_says_all(kernel, type);
  std::vector<T> x(static_cast<size_t>(32 * lanes)), want;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 7);
  for (const int from : expected(lanes, transposed)) want.push_back(x[static_cast<size_t>(from)]);

  std::vector<T> emulated(x.size());
  void* const arguments[] = {x.data(), emulated.data()};
  const absl::Status status = emulate(kernel, arguments);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(emulated, want);

  const absl::StatusOr<SimtProgram> program = ptx_program(kernel, *find_target("nvidia_sm80"));
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_NE(program->source.find(transposed ? "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
                                            : "ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
            std::string::npos);
  std::vector<T> printed(x.size());
  void* const again[] = {x.data(), printed.data()};
  const absl::Status ran = run_printed(*program, again, {});
  ASSERT_TRUE(ran.ok()) << ran << program->source;
  EXPECT_EQ(printed, want);
}

TEST(MatrixParts, WhoHasWhich) {
  expect_parts<int16_t>("i16", false);
  expect_parts<int16_t>("i16", true);
  expect_parts<int8_t>("i8", false);
  expect_parts<uint8_t>("u8", false);
}

TEST(MatrixParts, WhatIsRefused) {
  const std::string text = parts_kernel("i16", 8, kParts);
  const auto refusal = [&](const std::string& by) {
    const absl::StatusOr<Kernel> kernel = parse_kernel(replaced(text, kParts, by));
    return std::string(kernel.ok() ? verify(*kernel).message() : kernel.status().message());
  };
  EXPECT_EQ(refusal(kTransposed), "");
  EXPECT_NE(refusal("matparts 2 r1 -> r2, r3, r4, r5").find("transposed"), std::string::npos);
  EXPECT_NE(refusal("matparts 0 r1 -> r2, r3, r4").find("four registers"), std::string::npos);
  EXPECT_NE(refusal("matparts 0 r1 -> r2, r3, r4, r4").find("differ"), std::string::npos);
  EXPECT_NE(refusal("matparts 0 r2 -> r2, r3, r4, r5").find("before it is defined"),
            std::string::npos);
  EXPECT_NE(refusal("matparts 0 r1 -> r0, r3, r4, r5").find("four registers"), std::string::npos);
  EXPECT_NE(refusal("matparts 0 r1 - r2").find("->"), std::string::npos);
  const std::string some = concat(kParts, "\nif -v1 + 3 >= 0 {\n", kParts, "\n}");
  EXPECT_NE(refusal(some).find("may part"), std::string::npos);
  const absl::StatusOr<Kernel> few = parse_kernel(replaced(text, "items 32", "items 16"));
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_NE(verify(*few).message().find("16 items make no sub-groups of 32"), std::string::npos);
  const absl::StatusOr<Kernel> bytes = parse_kernel(parts_kernel("i8", 16, kTransposed));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_NE(verify(*bytes).message().find("two bytes"), std::string::npos);
}

// Its instruction finds rows in shared memory alone, at multiples of their size, and leaves none of
// them in registers.
TEST(MatrixParts, RowsThatTheInstructionDoesNotFind) {
  const std::string text = parts_kernel("i16", 8, kParts);
  for (const std::string& other :
       {replaced(text, "r1 = load t[8*v1]", "r1 = load X[8*v1]"),
        replaced(replaced(text, "managed=512", "managed=514"), "t i16 256", "t i16 257"),
        replaced(text, "store Y[8*v1] = r2", "store Y[8*v1] = r1")}) {
    std::string kernel_text = other;
    if (other.find("257") != other.npos) {
      kernel_text = replaced(other, "r1 = load t[8*v1]", "r1 = load t[8*v1 + 1]");
    }
    const absl::StatusOr<Kernel> kernel = parse_kernel(kernel_text);
    ASSERT_TRUE(kernel.ok()) << kernel.status() << kernel_text;
    ASSERT_TRUE(verify(*kernel).ok()) << verify(*kernel) << kernel_text;
    const absl::StatusOr<SimtProgram> program = ptx_program(*kernel, *find_target("nvidia_sm80"));
    ASSERT_FALSE(program.ok()) << kernel_text;
    EXPECT_NE(program.status().message().find("rows of matrices"), std::string::npos);
  }
}

}  // namespace
}  // namespace lw
