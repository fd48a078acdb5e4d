// Blocks and managed memories: their text and back, what the verifier refuses, hashes, and what the
// interpreter makes of managed memories.
#include "src/kernel/blocks.h"

#include "src/expr/scalar.h"
#include "tests/support/build_helpers.h"
#include "tests/support/kernel_text.h"

namespace lw {
namespace {

const char* const kText =
    R"(kernel tiles arguments=3 variables=1 workspace=0 private=0 packed=2048 managed=16384,8192
buffer A i8 4096 argument 0
buffer B i8 2048 argument 1
buffer C i32 2048 argument 2 written
buffer B.packed i8 2048 packed 0
buffer A.spm i8 1024 managed 0 0
buffer B.spm i8 2048 managed 0 4096
buffer acc i32 512 managed 1 4096
prepack {
  copy B.packed[0] (64, 1) = B[0] (1, 32) over 32, 64
}
body {
  copy B.spm[0] (1, 64) = B.packed[0] (1, 64) over 64, 32
  for v0 < 4 {
    fill acc[0] (32, 1) = -3 over 16, 32
    copy A.spm[0] (64, 1) = A[1024*v0] (64, 1) over 16, 64
    product acc[0] (32, 0, 1) += A.spm[0] (64, 1, 0), B.spm[0] (0, 1, 64) over 16, 64, 32 variant 1
    copy C[512*v0 + 511] (-32, -1) = acc[0] (32, 1) over 16, 32
  }
}
)";

// What a vector engine does.
const char* const kVectors =
    R"(kernel vectors arguments=1 variables=0 workspace=0 private=0 packed=0 managed=256,1024
buffer Y i8 16 argument 0 written
buffer scales f32 16 managed 0 0
buffer biases i32 16 managed 0 64
buffer bytes i8 16 managed 0 128
buffer a f32 16 managed 1 0
buffer b f32 16 managed 1 64
buffer sums i32 64 managed 1 128
buffer totals i32 4 managed 1 384
body {
  unary exp b[0] (1) = a[0] (1) over 16
  binary sub a[0] (1) = b[0] (1), scales[0] (0) over 16
  scalar div b[0] (1) = a[0] (1) number 1.5 over 16
  scalar max b[0] (1) = a[0] (1) number -inf over 16
  reduce max a[0] (0) += b[0] (1) over 16
  reduce sum totals[0] (1, 0) = sums[0] (16, 1) over 4, 16
  requantise bytes[0] (1) = sums[0] (1), scales[0] (1), biases[0] (1) zero -3 in -128, 90 over 16
}
)";

struct Change {
  std::string_view from, to, message;
};

std::string with(const Change& change) {
  std::string text = kText;
  const size_t place = text.find(change.from);
  EXPECT_NE(place, std::string::npos) << change.from;
  return text.replace(place, change.from.size(), change.to);
}

absl::Status status_of(const std::string& text) {
  const absl::StatusOr<Kernel> kernel = parse_kernel(text);
  return kernel.ok() ? verify(*kernel) : kernel.status();
}

void expect_refused(const Change& change, absl::StatusCode code) {
  const absl::Status status = status_of(with(change));
  EXPECT_EQ(status.code(), code) << change.to << ": " << status;
  EXPECT_NE(status.ToString().find(change.message), std::string::npos)
      << change.to << ": " << status;
}

TEST(BlockText, PrintsWhatItParses) {
  const Kernel kernel = kernel_of(kText);
  EXPECT_EQ(print(kernel), kText);
  expect_text_says_all(kernel, "tiles");
  EXPECT_EQ(kernel.managed_bytes, (std::vector<int64_t>{16384, 8192}));
  EXPECT_EQ(kernel.buffers[5].memory, 0);
  EXPECT_EQ(kernel.buffers[5].offset, 4096);
  const Block& product = *kernel.body[1].body[2].block;
  EXPECT_TRUE(product.accumulate);
  EXPECT_EQ(product.variant, 1);
  EXPECT_EQ(product.srcs[1].strides[2], 64);
}

TEST(BlockText, PrintsWhatVectorsDo) {
  const Kernel kernel = kernel_of(kVectors);
  EXPECT_EQ(print(kernel), kVectors);
  const auto message = [](std::string_view from, std::string_view to) {
    std::string text = kVectors;
    const size_t place = text.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return std::string(status_of(text.replace(place, from.size(), to)).message());
  };
  const auto expect = [&](std::string_view from, std::string_view to, std::string_view part) {
    EXPECT_NE(message(from, to).find(part), std::string::npos) << to << ": " << message(from, to);
  };
  expect("unary exp", "unary expo", "line 11: unknown operation 'expo'");
  expect("reduce max", "reduce add", "line 15: unknown reduction");
  expect("zero -3", "zero -129", "expected -128 .. 127");
  expect(" number 1.5", "", "expected 'number'");
  expect("unary exp", "unary sub", "no such operation");
  expect("scalar div", "scalar lt", "no such operation");
  expect("reduce max", "reduce none", "unknown reduction");
  expect("in -128, 90", "in 91, 90", "its least value is above its most");
  expect("buffer b f32", "buffer b i32", "takes numbers of one type");
}

TEST(BlockText, ErrorsNameTheLine) {
  const Change changes[] = {
      {"fill acc[0] (32, 1) = -3", "fill acc[0] (32, 1) -3", "line 15: expected '='"},
      {"(32, 1) = -3", "(32, 1) = A[0] (32, 1)", "line 15: an integer is missing"},
      {"fill acc", "fill D.acc", "line 15: unknown buffer 'D.acc'"},
      {"fill acc[0] (32, 1)", "fill acc[0]", "line 15: expected '('"},
      {"fill acc[0] (32, 1)", "fill acc[0] ()", "line 15: a name is missing"},
      {" = -3 over 16, 32", " = -3", "line 16: expected 'over'"},
      {"), B.spm[0] (0, 1, 64)", ")", "line 17: expected ','"},
      {"variant 1", "variant -1", "line 17: expected 0 .. 2147483647"},
      {"product acc", "outer acc", "line 17: expected rN below 0"},
      {"managed 1 4096", "managed 1", "line 9: an integer is missing"},
      {"managed 1 4096", "managed 4294967297 4096", "line 8: expected 0 .. 2147483647"},
      {"managed=16384,8192", "managed=", "line 2: an integer is missing"},
  };
  for (const Change& change : changes) {
    expect_refused(change, absl::StatusCode::kInvalidArgument);
  }
}

TEST(BlockText, NoPrefixOrMutationCrashesTheParser) {
  const std::string text = kText;
  for (size_t size = 0; size + 3 < text.size(); ++size) {
    EXPECT_FALSE(parse_kernel(text.substr(0, size)).ok());
  }
  for (size_t i = 0; i < text.size(); ++i) {
    for (char c : {'0', '9', '-', '(', ')', ',', 'r', ' ', '\n', '\xff'}) {
      std::string changed = text;
      changed[i] = c;
      const absl::StatusOr<Kernel> kernel = parse_kernel(changed);
      if (!kernel.ok()) continue;
      (void)verify(*kernel);               // whatever it says, it must survive
      EXPECT_EQ(print(*parse_kernel(print(*kernel))), print(*kernel));
    }
  }
}

TEST(BlockVerifier, RefusesWhatIsWrong) {
  const Change changes[] = {
      {"= -3 over 16, 32", "= -3 over 16, 0", "extents, each at least 1"},
      {"fill acc[0] (32, 1)", "fill acc[0] (32)", "a stride for each extent"},
      {"A.spm[0] (64, 1, 0)", "A.spm[0] (64, 1)", "a stride for each extent"},
      // Where it goes.
      {"A[1024*v0]", "A[1025*v0]", "access to A may reach element 4098 of 4096"},
      {"A[1024*v0]", "A[1024*v0 - 1]", "access to A may reach element -1"},
      {"A[1024*v0] (64, 1)", "A[1024*v0] (-64, 1)", "access to A may reach element -960"},
      {"A[1024*v0] (64, 1)", "A[1024*v0] (65, 1)", "of 4096"},
      {"A[1024*v0] (64, 1)", "A[1024*v0] (4000, 1)", "the view of A reaches over more than"},
      {"over 16, 64\n", "over 17, 64\n", "the view of A.spm reaches over more than its 1024"},
      {"A[1024*v0] (64, 1)", "A[1024*v0] (4611686018427387904, 1)", "reaches over more"},
      {"A[1024*v0]", "A[1024*v1]", "expected vN below 1"},
      // What it writes.
      {"fill acc[0] (32, 1)", "fill A[0] (64, 1)", "must not be written here"},
      {"fill acc[0] (32, 1)", "fill B.packed[0] (64, 1)", "must not be written here"},
      {"copy B.packed[0] (64, 1)", "copy C[0] (64, 1)", "must not be written here"},
      {"fill acc[0] (32, 1)", "fill acc[0] (31, 1)", "write the same element"},
      {"fill acc[0] (32, 1)", "fill acc[31] (32, -1)", ""},
      {"fill acc[0] (32, 1)", "fill acc[0] (0, 1)", "write the same element"},
      {"acc[0] (32, 0, 1) +=", "acc[0] (32, 1, 1) +=", "write the same element"},
      {"(64, 1) = A[1024*v0] (64, 1)", "(64, 1) = A.spm[0] (64, 1)", "read what it writes"},
      {"over 16, 64\n", "over 8, 64\n copy A.spm[512] (1) = A.spm[0] (1) over 512\n", ""},
      {"over 16, 64\n", "over 8, 64\n copy A.spm[512] (1) = A.spm[1] (1) over 512\n",
       "read what it writes"},
      {"copy A.spm[0]", "copy A.spm[0] (64, 1) = A.spm[v0] (0, 0) over 1, 1\n copy A.spm[0]",
       "read what it writes"},
      // Its operation.
      {"= -3 over", "+= -3 over", "only products and reductions accumulate"},
      {"C i32 2048", "C i32 2047", "of 2047"},
      {"buffer acc i32 512", "buffer acc f32 512", "no product of such types"},
      {"buffer acc i32 512", "buffer acc bool 512", "no product of such types"},
      {"buffer acc i32 512", "buffer acc bf16 512", "16-bit floats only move"},
      {"buffer A.spm i8 1024", "buffer A.spm bool 1024", "no product of such types"},
      // Where it stands.
      {"for v0 < 4 {", "for v0 < 4 parallel {", "must not stand in a parallel loop"},
      // Managed memories.
      {"managed 1 4096", "managed 2 4096", "no such memory"},
      {"managed 1 4096", "managed 1 6148", "reaches outside its scope"},
      {"managed 1 4096", "managed 1 6144", ""},
      {"managed 1 4096", "managed 1 4098", "multiple of an element's size"},
      {"managed 1 4096", "managed 1 -4", "multiple of an element's size"},
      {"managed 1 4096", "managed 1 9223372036854775804", "reaches outside its scope"},
      {"managed=16384,8192", "managed=16384,-1", "reaches outside its scope"},
      {"managed=16384,8192", "managed=16384,8192,-1", "must have 0 bytes to 1 GiB"},
      {"managed=16384,8192", "managed=1073741824,8192", "must have 0 bytes to 1 GiB"},
  };
  for (const Change& change : changes) {
    if (change.message.empty()) {
      EXPECT_TRUE(status_of(with(change)).ok()) << change.to << ": " << status_of(with(change));
    } else {
      expect_refused(change, change.message.starts_with("expected")
                                 ? absl::StatusCode::kInvalidArgument
                                 : absl::StatusCode::kInternal);
    }
  }
}

// As with loads: where accesses go is left out, what a block means is not.
TEST(BlockVerifier, ChecksTheMeaningAlone) {
  const auto checked = [](const Change& change) {
    return verify(*parse_kernel(with(change)), Checked::kMeaning).ok();
  };
  EXPECT_TRUE(checked({"A[1024*v0]", "A[1025*v0]", ""}));
  EXPECT_TRUE(checked({"fill acc[0] (32, 1)", "fill A[0] (64, 1)", ""}));
  EXPECT_FALSE(checked({"fill acc[0] (32, 1)", "fill acc[0] (31, 1)", ""}));
  EXPECT_FALSE(checked({"buffer acc i32 512", "buffer acc f32 512", ""}));
}

TEST(BlockVerifier, FollowsConditions) {
  const std::string copy = "copy A.spm[0] (64, 1) = A[1024*v0] (64, 1) over 16, 64\n";
  const auto under = [&](const std::string& condition) {
    const std::string guarded = "if " + condition + " >= 0 {\n" + copy + "}\n";
    Kernel kernel = *parse_kernel(with({copy, guarded, ""}));
    kernel.body[1].body.pop_back();        // the copy to C, which has no condition
    kernel.body[1].count = 9;
    return verify(kernel).ok();
  };
  EXPECT_TRUE(under("-v0 + 3"));
  EXPECT_FALSE(under("-v0 + 4"));
}

TEST(BlockVerifier, LetsElementsChangeInPlace) {
  const auto verified = [](const std::string& line) {
    std::string text = kVectors;
    const size_t body = text.find("body {\n");
    return verify(*parse_kernel(text.substr(0, body) + "body {\n  " + line + "\n}\n")).ok();
  };
  EXPECT_TRUE(verified("unary exp a[0] (1) = a[0] (1) over 16"));
  EXPECT_TRUE(verified("scalar mul a[0] (1) = a[0] (1) number 2 over 16"));
  EXPECT_TRUE(verified("binary sub a[0] (1) = b[0] (1), a[0] (1) over 16"));
  EXPECT_FALSE(verified("unary exp a[0] (1) = a[1] (1) over 15"));
  EXPECT_FALSE(verified("unary exp a[0] (1) = a[0] (0) over 16"));
  EXPECT_FALSE(verified("unary exp a[0] (1) = a[15] (-1) over 16"));
  EXPECT_FALSE(verified("copy a[0] (1) = a[0] (1) over 16"));
  EXPECT_FALSE(verified("reduce sum a[0] (0) = a[0] (1) over 16"));
}

TEST(BlockHash, CoversEveryField) {
  const uint64_t hashed = hash(kernel_of(kText));
  const Change changes[] = {
      {"= -3 over", "= -2 over", ""},
      {"+= A.spm", "= A.spm", ""},
      {" variant 1", "", ""},
      {" variant 1", " variant 2", ""},
      {"over 16, 64, 32", "over 8, 64, 32", ""},
      {"over 16, 64\n", "over 64, 16\n", ""},
      {"fill acc[0]", "fill C[0]", ""},
      {"fill acc[0] (32, 1)", "fill acc[0] (1, 16)", ""},
      {"fill acc[0] (32, 1)", "fill acc[v0] (32, 1)", ""},
      {"= A[1024*v0]", "= A[1024*v0 + 1]", ""},
      {"= A[1024*v0]", "= B[1024*v0]", ""},
      {"A.spm[0] (64, 1, 0)", "A.spm[0] (64, 0, 1)", ""},
      {"B.spm[0] (0, 1, 64)", "B.spm[1] (0, 1, 64)", ""},
      {"managed 0 4096", "managed 1 4096", ""},
      {"managed 0 4096", "managed 0 8192", ""},
      {"managed=16384,8192", "managed=16384,8196", ""},
      {"managed=16384,8192", "managed=16384,8192,64", ""},
  };
  for (const Change& change : changes) {
    const absl::StatusOr<Kernel> kernel = parse_kernel(with(change));
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_NE(hash(*kernel), hashed) << change.to;
    EXPECT_EQ(hash(*parse_kernel(print(*kernel))), hash(*kernel)) << change.to;
  }
}

// What an operation does not read does not count.
TEST(BlockHash, LeavesOutWhatIsNotRead) {
  const Kernel kernel = kernel_of(kText);
  Kernel changed = kernel;
  Block copy = *kernel.body[0].block;
  copy.integer = 5;
  copy.srcs[1].buffer = 3;
  changed.body[0].block = std::make_shared<const Block>(copy);
  EXPECT_EQ(hash(changed), hash(kernel));
}

TEST(Blocks, AreRefusedByMachineCode) {
  for (const Machine& machine : machines()) {
    if (machine.name == "interpreter") continue;
    const absl::Status status = machine.backend->build(kernel_of(kText), machine.target).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.ToString().find("blocks are of machines with managed memories"),
              std::string::npos) << status;
  }
}

// ------------------------------------------------------------------------------ the interpreter

const std::byte* bytes_of(const std::string& bytes) {
  return reinterpret_cast<const std::byte*>(bytes.data());
}

TEST(BlockInterpreter, MultipliesTiles) {
  const Kernel kernel = kernel_of(kText);
  const std::vector<std::string> in = random_arguments(kernel, 3);
  const std::vector<std::string> out = run_on(machines()[0], kernel, in);
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 32; ++j) {
      int64_t sum = -3;
      for (int k = 0; k < 64; ++k) {
        sum += load_integer(Type::kI8, bytes_of(in[0]), 64 * i + k) *
               load_integer(Type::kI8, bytes_of(in[1]), 32 * k + j);
      }
      const int at = 512 * (i / 16) + 511 - 32 * (i % 16) - j;
      ASSERT_EQ(load_integer(Type::kI32, bytes_of(out[2]), at), sum) << i << ", " << j;
    }
  }
}

TEST(BlockInterpreter, ShowsWhatWasNeverWritten) {
  const Kernel kernel = kernel_of(
      "kernel unwritten arguments=1 variables=0 workspace=0 private=0 packed=0 managed=0,64\n"
      "buffer Y i32 32 argument 0 written\nbuffer tile i32 16 managed 1 0\nbody {\n"
      "copy Y[0] (1) = tile[0] (1) over 16\nfill tile[0] (1) = 7 over 16\n"
      "copy Y[16] (1) = tile[0] (1) over 16\n}\n");
  const std::unique_ptr<Loaded> code = load_on(machines()[0], kernel);
  ASSERT_NE(code, nullptr);
  for (int run = 0; run < 2; ++run) {      // what a run wrote is gone in the next
    const std::string out = run_loaded(*code, kernel, {std::string(128, '\0')})[0];
    EXPECT_EQ(out.substr(0, 64), std::string(64, '\x7f'));
    EXPECT_EQ(load_integer(Type::kI32, bytes_of(out), 31), 7);
  }
}

}  // namespace
}  // namespace lw
