// The kernel language: affine forms, its text and back, what the verifier refuses, and hashes.
#include "src/kernel/kernel.h"

#include <chrono>
#include <cmath>

#include "gtest/gtest.h"
#include "tests/support/kernel_text.h"
#include "tests/support/random_program.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

const char* const kKernelText =
    R"(kernel dense arguments=3 variables=6 workspace=4096 private=128 packed=1024
buffer A f32 1024 argument 0
buffer B i8 1024 argument 1
buffer C f32 1024 argument 2 written
buffer shared f32 512 workspace 1024
buffer mine f32 32 private 0
buffer panel f32 256 packed 0
registers f32x16 4
registers boolx16 2
registers i64x16 1
registers f32x1 1
registers i32x1 1
registers f32x4 8
prepack {
  for v0 < 16 {
    r0 = load A[16*v0] stride 1
    store panel[16*v0] = r0 stride 1
  }
}
body {
  for v0 < 8 parallel {
    r0 = const -1.5
    r1 = const inf
    for v1 < 4 {
      int v2 = div 3*v0 - v1 + 5, 4
      int v3 = mod 3*v0, 4
      int v4 = min v2, 6
      int v5 = max v4, 0
      r2 = load panel[16*v1] stride 1
      r0 = fma r0, r1, r2
      r0 = max r0, r1
      r4 = lanemask 100*v5 - 3 stride -1
      r5 = lt r0, r1
      r4 = and r4, r5
      r3 = load A[100*v5] stride 1 mask r4
      r3 = select r5, r3, r0
      r3 = exp r3
    }
    if v0 - 3 >= 0, -v0 + 6 >= 0 {
      store C[16*v0 - 48] = r0 stride 1 nt
    } else {
      prefetch C[16*v0 - 4000] locality 2
      fence
    }
    r6 = iota 5 stride 1
    r2 = load A[7] stride 0 indices r6
    r7 = reduce sum r2
    store mine[v0] = r7 stride 1
    r8 = const -7
    r9 = const 0
    r10 = const 1
    r11 = const 2
    r12 = const 3
    transpose r9, r10, r11, r12 -> r13, r14, r15, r16
  }
}
)";

Kernel parse(const std::string& text) {
  absl::StatusOr<Kernel> kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *std::move(kernel) : Kernel();
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(Affine, TermsStaySortedWithoutZeros) {
  const Affine a = variable(3, 2) + affine(5) + variable(1);
  ASSERT_EQ(a.terms.size(), 2u);
  EXPECT_EQ(a.terms[0].var, 1);
  EXPECT_EQ(a.terms[1].coefficient, 2);
  EXPECT_EQ(a - variable(3, 2), affine(5) + variable(1));
  EXPECT_TRUE((a - a).is_constant());
  EXPECT_EQ(a - a, affine(0));
  EXPECT_EQ(a * 0, affine(0));
  EXPECT_EQ(a * -3, variable(1, -3) + variable(3, -6) + affine(-15));
  EXPECT_EQ(variable(2, 0), affine(0));
}

TEST(KernelText, PrintsWhatItParses) {
  const Kernel kernel = parse(kKernelText);
  EXPECT_EQ(print(kernel), kKernelText);
  EXPECT_TRUE(verify(kernel).ok()) << verify(kernel);
  EXPECT_EQ(hash(parse(print(kernel))), hash(kernel));
}

TEST(KernelText, GrowthOfErrorsIsSaidWhereThereIsSome) {
  const std::string text = with(kKernelText, " packed=1024\n", " packed=1024 growth=3.25\n");
  const Kernel kernel = parse(text);
  EXPECT_EQ(kernel.error_growth, 3.25);
  EXPECT_EQ(print(kernel), text);
  EXPECT_EQ(hash(kernel), hash(parse(kKernelText)));  // it says nothing of what is computed
  EXPECT_FALSE(parse_kernel(with(text, "growth=3.25", "growth=")).ok());
}

TEST(KernelText, EqualNamesAreToldApart) {
  Kernel kernel = parse(kKernelText);
  kernel.buffers[3].name = kernel.buffers[4].name = "A";
  kernel.buffers[5].name = "";
  const Kernel again = parse(print(kernel));
  EXPECT_EQ(hash(again), hash(kernel));
  EXPECT_EQ(print(again), print(kernel));
}

TEST(KernelText, NumbersSurvive) {
  for (double number : {0.1, -0.0, 1e-300, 1.7976931348623157e308, 3.0, -1.0 / 3}) {
    Kernel kernel = parse(kKernelText);
    kernel.body[0].body[0].number = number;
    const Kernel again = parse(print(kernel));
    EXPECT_EQ(std::signbit(again.body[0].body[0].number), std::signbit(number));
    EXPECT_EQ(again.body[0].body[0].number, number);
  }
  Kernel kernel = parse(kKernelText);
  kernel.body[0].body[0].number = NAN;
  kernel.body[0].body[8].integer = INT64_MIN;
  const Kernel again = parse(print(kernel));
  EXPECT_TRUE(std::isnan(again.body[0].body[0].number));
  EXPECT_EQ(again.body[0].body[8].integer, INT64_MIN);
}

// Of random programs under random schedules, as tests/lower/replay_test.cc has it of recorded ones.
TEST(KernelText, SaysAllThatIsLowered) {
  int kernels = 0;
  for (int n = 0; n < 150; ++n) {
    Rng rng = Rng(17).split(n);
    const std::string text = ProgramWriter(rng).write();
    const absl::StatusOr<Module> module = parse_module(text, "random");
    ASSERT_TRUE(module.ok()) << module.status() << text;
    const absl::StatusOr<Program> program = instantiate(module->ops[0], {});
    if (!program.ok()) continue;           // it may read out of bounds
    const char* target = n % 2 == 0 ? "x86_avx512" : "aarch64_neon";
    const Nest start = make_nest(std::make_shared<const Program>(*program),
                                 std::make_shared<const Target>(*find_target(target)), 1 + n % 3);
    const std::optional<Scheduled> drawn =
        draw_kernel(start, make_space(start), rng, 5, {.max_statements = 4000});
    if (!drawn) continue;
    ++kernels;
    expect_text_says_all(drawn->kernel, text + drawn->schedule);
  }
  EXPECT_GE(kernels, 100);
}

TEST(KernelText, ErrorsNameTheLine) {
  const absl::Status status =
      parse_kernel(with(kKernelText, "r0 = fma r0, r1, r2", "r0 = frob r0, r1, r2")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("line 30: unknown operation 'frob'"), std::string::npos)
      << status;
  EXPECT_FALSE(parse_kernel(with(kKernelText, "r11, r12 -> r13", "r11 -> r12, r13")).ok());
}

TEST(KernelText, NoPrefixOrMutationCrashesTheParser) {
  const std::string text = kKernelText;
  for (size_t size = 0; size + 3 < text.size(); ++size) {
    EXPECT_FALSE(parse_kernel(text.substr(0, size)).ok());
  }
  for (size_t i = 0; i < text.size(); ++i) {
    for (char c : {'0', '9', '-', '{', '}', 'r', ' ', '\n', '\xff'}) {
      std::string changed = text;
      changed[i] = c;
      const absl::StatusOr<Kernel> kernel = parse_kernel(changed);
      if (kernel.ok()) (void)verify(*kernel);  // whatever it says, it must survive
    }
  }
}

struct Mistake {
  const char* from;
  const char* to;
  const char* message;
};

TEST(KernelVerifier, RefusesWhatIsWrong) {
  const Mistake mistakes[] = {
      {"store C[16*v0 - 48]", "store C[16*v0 - 49]", "may reach element -"},
      {"store C[16*v0 - 48]", "store C[16*v0 + 944]", "of 1024"},
      {"store C[16*v0 - 48]", "store A[16*v0 - 48]", "must not be written"},
      {"store C[16*v0 - 48]", "store panel[16*v0 - 48]", "must not be written"},
      {"store panel[16*v0]", "store C[16*v0]", "must not be written"},
      {"if v0 - 3 >= 0, -v0 + 6 >= 0", "if -v0 + 6 >= 0", "may reach element -48"},
      {"load A[100*v5] stride 1 mask r4", "load A[100*v5 + 500] stride 1 mask r4", "of 1024"},
      {"load A[100*v5] stride 1 mask r4", "load A[100*v5] stride 80", "of 1024"},
      {"load panel[16*v1]", "load panel[16*v1 + 208]", "of 256"},
      {"load panel[16*v1]", "load panel[64*v2]", "may reach"},
      {"int v5 = max v4, 0", "int v5 = max v4, 13", "of 1024"},
      {"int v5 = max v4, 0", "int v4 = max v4, 0", "already in use"},
      {"r0 = const -1.5\n", "", "r0 is used before"},
      {"r0 = fma r0, r1, r2", "r0 = fma r0, r1, r7", "r7 is used before"},
      {"r1 = const inf", "r1 = const inf\n for v1 < 3 parallel {\n}", "must not nest"},
      {"r7 = reduce sum r2", "r7 = reduce sum r6", "types differ"},
      {"registers f32x1 1", "registers f16x1 1", "types differ"},
      {"r3 = exp r3", "r3 = not r3", "not for this type"},
      {"r5 = lt r0, r1", "r0 = lt r0, r1", "gives bool"},
      {"r3 = select r5, r3, r0", "r3 = select r0, r3, r0", "must be bool"},
      {"for v1 < 4", "for v1 < 0", "at least once"},
      {"locality 2", "locality 4", "locality"},
      {"-> r13, r14, r15, r16", "-> r13, r14, r15, r15", "must differ"},
      {"workspace 1024", "workspace 4000", "multiple of 64"},
      {"workspace 1024", "workspace 3072", "outside its scope"},
      {"indices r6", "indices r4", "must be i64"},
      {"store mine[v0] = r7 stride 1", "store B[v0] = r7 stride 1", "differ in type"},
      {"r8 = const -7", "store mine[0] = r0 stride 0", "same element"},
  };
  for (const Mistake& mistake : mistakes) {
    const absl::Status status = verify(parse(with(kKernelText, mistake.from, mistake.to)));
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << mistake.to;
    EXPECT_NE(status.ToString().find(mistake.message), std::string::npos)
        << mistake.to << ": " << status;
  }
}

TEST(KernelVerifier, DefinitionsHoldOnEveryPath) {
  const std::string head =
      "kernel f arguments=1 variables=1 workspace=0 private=0 packed=0\n"
      "buffer Y f32 8 argument 0 written\nregisters f32x1 1\nbody {\nfor v0 < 8 {\n";
  const std::string tail = "store Y[v0] = r0 stride 1\n}\n}\n";
  EXPECT_TRUE(
      verify(parse(head + "if v0 - 3 >= 0 {\nr0 = const 1\n} else {\nr0 = const 2\n}\n" + tail))
          .ok());
  EXPECT_FALSE(verify(parse(head + "if v0 - 3 >= 0 {\nr0 = const 1\n}\n" + tail)).ok());
}

TEST(KernelVerifier, FollowsTailsThroughMinimaAndMasks) {
  // A loop of 7 tiles of 16 over 100 elements, twice: with a mask, and with a shifted last tile.
  const std::string head = "kernel f arguments=2 variables=3 workspace=0 private=0 packed=0\n"
                           "buffer X f32 100 argument 0\nbuffer Y f32 100 argument 1 written\n"
                           "registers f32x16 1\nregisters boolx16 1\nbody {\nfor v0 < 7 {\n";
  EXPECT_TRUE(
      verify(parse(head + "r1 = lanemask -16*v0 + 99 stride -1\nr0 = load X[16*v0] stride 1 "
                          "mask r1\nstore Y[16*v0] = r0 stride 1 mask r1\n}\n}\n"))
          .ok());
  EXPECT_FALSE(
      verify(parse(head + "r1 = lanemask -16*v0 + 100 stride -1\nr0 = load X[16*v0] stride 1 "
                          "mask r1\n}\n}\n"))
          .ok());
  EXPECT_TRUE(
      verify(parse(head + "int v1 = min 16*v0, 84\nr0 = load X[v1] stride 1\n}\n}\n")).ok());
  EXPECT_FALSE(
      verify(parse(head + "int v1 = min 16*v0, 85\nr0 = load X[v1] stride 1\n}\n}\n")).ok());
  EXPECT_TRUE(
      verify(parse(head + "if -16*v0 + 84 >= 0 {\nr0 = load X[16*v0] stride 1\n}\n}\n}\n")).ok());
  EXPECT_TRUE(
      verify(parse(head + "int v1 = div v0, 3\nint v2 = mod v0, 3\nr0 = load X[v0] stride 1\n"
                          "r0 = load X[36*v1 + 6*v2] stride 0\n}\n}\n"))
          .ok());
}

// Where a block reaches back beyond the beginning of what it reads, it begins there: whichever of the
// two it is, rows of the block are counted from it.
TEST(KernelVerifier, FollowsDifferencesToTheGreaterOfTwo) {
  const auto accepts = [](const std::string& body) {
    return verify(parse("kernel f arguments=1 variables=8 workspace=0 private=0 packed=0\n"
                        "buffer X f32 10 argument 0\nregisters f32x1 1\nbody {\n"
                        "for v0 < 12 {\n" + body + "}\n}\n")).ok();
  };
  // 8 rows and one before them: 8 v0 - v1 is 1, in the first block 0.
  const std::string begin = "int v1 = max 8*v0 - 1, 0\n";
  EXPECT_TRUE(accepts(begin + "r0 = load X[8*v0 - v1] stride 0\n"));
  EXPECT_TRUE(accepts(begin + "r0 = load X[8*v0 - v1 + 8] stride 0\n"));
  EXPECT_FALSE(accepts(begin + "r0 = load X[8*v0 - v1 - 1] stride 0\n"));
  EXPECT_FALSE(accepts(begin + "r0 = load X[8*v0 - v1 + 9] stride 0\n"));
  // And moved back, so that it ends with the last row.
  const std::string both = begin + "int v2 = min v1, 85\n";
  EXPECT_TRUE(accepts(both + "r0 = load X[8*v0 - v2] stride 0\n"));
  EXPECT_TRUE(accepts(both + "r0 = load X[8*v0 - v2 + 6] stride 0\n"));
  EXPECT_FALSE(accepts(both + "r0 = load X[8*v0 - v2 + 7] stride 0\n"));
  // Of distances, in two dimensions.
  const std::string far = "int v1 = max -4*v0 - 3, 4*v0\nint v2 = max v1, 0\nint v3 = min v2, 47\n"
                          "for v4 < 9 {\nint v5 = max v4, -v4\nint v6 = max v5, 0\n"
                          "int v7 = min v6, 22\nr0 = load X[4*v0 + v4 - v3 - v7";
  EXPECT_TRUE(accepts(far + "] stride 0\n}\n"));
  EXPECT_FALSE(accepts(far + " + 10] stride 0\n}\n"));
  EXPECT_FALSE(accepts(far + " - 1] stride 0\n}\n"));
}

// Blocks that are moved back so that they end with the last row, and lanes that a mask turns off.
TEST(KernelVerifier, FollowsTheLesserOfTwoUnderMasks) {
  const auto accepts = [](const std::string& more) {
    return verify(parse("kernel f arguments=1 variables=4 workspace=0 private=0 packed=0\n"
                        "buffer X f32 12 argument 0\nregisters f32x2 1\nregisters boolx2 1\n"
                        "body {\nfor v0 < 3 {\nfor v1 < 2 {\nint v2 = min 4*v0, 6\n"
                        "int v3 = min 3*v1, 1\nr1 = lanemask -3*v1 + 3 stride -1\n"
                        "r0 = load X[12*v0 + 3*v1 - 3*v2 - v3" + more +
                        "] stride 1 mask r1\n}\n}\n}\n")).ok();
  };
  EXPECT_TRUE(accepts(" + 3"));
  EXPECT_FALSE(accepts(" + 4"));
  EXPECT_FALSE(accepts(" - 1"));
}

// What a register asserted is forgotten with what it held: where a loop sets it anew, the next
// iteration finds that.
TEST(KernelVerifier, ForgetsMasksThatAreSetAnew) {
  const auto accepts = [](const std::string& body) {
    return verify(parse("kernel m arguments=1 variables=1 workspace=0 private=0 packed=0\n"
                        "buffer Y f32 2 argument 0 written\nregisters f32x2 1\n"
                        "registers boolx2 5\nregisters i64x2 1\nbody {\nr0 = const 1\n"
                        "r1 = lanemask -1 stride 0\nr2 = lanemask 0 stride 0\n" + body + "}\n"))
        .ok();
  };
  const std::string beyond = "r3 = and r1, r2\nstore Y[8] = r0 stride 1 mask r3\n";
  EXPECT_TRUE(accepts("for v0 < 2 {\n" + beyond + "}\n"));  // r1 lets no lane in
  EXPECT_FALSE(accepts("for v0 < 2 {\n" + beyond + "r1 = lanemask 0 stride 0\n}\n"));
  EXPECT_FALSE(accepts("for v0 < 2 {\n" + beyond + "transpose r2, r2 -> r1, r4\n}\n"));
  EXPECT_FALSE(accepts("for v0 < 2 {\nif v0 >= 0 {\n" + beyond +
                       "transpose r2, r2 -> r1, r4\n}\n}\n"));
  // Masks of data are trusted, what stands in their place is not.
  const std::string data = "r6 = const 0\nr1 = ge r6, r6\n";
  EXPECT_TRUE(accepts(data + beyond));
  EXPECT_FALSE(accepts(data + "r1 = lanemask 0 stride 0\n" + beyond));
  EXPECT_FALSE(accepts(data + "for v0 < 2 {\n" + beyond + "r1 = lanemask 0 stride 0\n}\n"));
}

// Blocks of 2 of 23 columns, 8 elements for each column: a mask lets the blocks at 0, 2 .. 22 in, the
// last two elements are 176 and 177.
TEST(KernelVerifier, CountsBlocksUnderAMaskInWholeNumbers) {
  const auto blocks = [](const char* elements) {
    return verify(parse(
        std::string("kernel f arguments=1 variables=2 workspace=0 private=0 packed=0\n"
                    "buffer Y f32 ") + elements +
        " argument 0 written\nregisters f32x2 1\nregisters boolx2 1\nbody {\nfor v0 < 2 {\n"
        "for v1 < 10 {\nr0 = const 1\nr1 = lanemask -20*v0 - 2*v1 + 23 stride -1\n"
        "store Y[160*v0 + 16*v1] = r0 stride 1 mask r1\n}\n}\n}\n"));
  };
  EXPECT_TRUE(blocks("178").ok()) << blocks("178");
  EXPECT_FALSE(blocks("177").ok());
}

// The whole quotients of what a condition leaves: of 0 .. 5 by 3 the greatest is 1.
TEST(KernelVerifier, ConditionsBoundQuotients) {
  const auto accepts = [](const std::string& condition, const std::string& index) {
    return verify(parse("kernel q arguments=1 variables=2 workspace=0 private=0 packed=0\n"
                        "buffer Y f32 100 argument 0 written\nregisters f32x1 1\nbody {\n"
                        "r0 = const 0\nfor v0 < 7 {\nint v1 = div v0, 3\nif " + condition +
                        " >= 0 {\nstore Y[" + index + "] = r0 stride 1\n}\n}\n}\n"))
        .ok();
  };
  EXPECT_TRUE(accepts("-v0 + 5", "99*v1"));
  EXPECT_FALSE(accepts("-v0 + 5", "100*v1"));
  EXPECT_FALSE(accepts("-v0 + 6", "99*v1"));
  EXPECT_TRUE(accepts("v0 - 3", "50*v1 - 50"));
  EXPECT_FALSE(accepts("v0 - 2", "50*v1 - 50"));
}

// As a mask's lanes do, each by itself.
TEST(KernelVerifier, MasksBoundQuotients) {
  const auto accepts = [](const std::string& mask, const std::string& index) {
    return verify(parse("kernel q arguments=1 variables=2 workspace=0 private=0 packed=0\n"
                        "buffer Y f32 100 argument 0 written\nregisters f32x2 1\n"
                        "registers boolx2 1\nbody {\nr0 = const 0\nfor v0 < 7 {\n"
                        "int v1 = div v0, 3\nr1 = lanemask " + mask +
                        "\nstore Y[" + index + "] = r0 stride 1 mask r1\n}\n}\n"))
        .ok();
  };
  EXPECT_TRUE(accepts("-v0 + 5 stride 0", "98*v1"));
  EXPECT_FALSE(accepts("-v0 + 5 stride 0", "99*v1"));
  EXPECT_FALSE(accepts("-v0 + 6 stride 0", "98*v1"));
  EXPECT_TRUE(accepts("-v0 + 2 stride 3", "98*v1"));
  EXPECT_FALSE(accepts("-v0 + 2 stride 3", "99*v1"));
  EXPECT_FALSE(accepts("-v0 + 3 stride 3", "98*v1"));
}

// A quotient is forgotten with its variable, whose name another may take.
TEST(KernelVerifier, NamesOfQuotientsAreTakenAnew) {
  const std::string text =
      "kernel q arguments=1 variables=2 workspace=0 private=0 packed=0\n"
      "buffer Y f32 100 argument 0 written\nregisters f32x1 1\nbody {\nr0 = const 0\n"
      "for v0 < 7 {\nif v0 >= 0 {\nint v1 = div v0, 3\nstore Y[v1] = r0 stride 1\n}\n"
      "for v1 < 3 {\nif -v0 + 5 >= 0 {\nstore Y[99*v1] = r0 stride 1\n}\n}\n}\n}\n";
  EXPECT_FALSE(verify(parse(text)).ok());
}

TEST(KernelHash, NamesDoNotCountAndEverythingElseDoes) {
  const Kernel kernel = parse(kKernelText);
  Kernel renamed = kernel;
  renamed.name = "other";
  renamed.buffers[0].name = "weights";
  EXPECT_EQ(hash(renamed), hash(kernel));
  const Mistake changes[] = {
      {"for v1 < 4", "for v1 < 3", ""},        {"16*v0 - 48", "16*v0 - 32", ""},
      {" parallel", "", ""},                   {" nt\n", "\n", ""},
      {"stride -1", "stride -2", ""},          {"r0 = max r0, r1", "r0 = min r0, r1", ""},
      {"const -1.5", "const -1.25", ""},       {"div 3*v0", "div 2*v0", ""},
      {"+ 5, 4", "+ 5, 8", ""},                {"min v2, 6", "min v2, 5", ""},
      {"reduce sum", "reduce max", ""},        {"locality 2", "locality 3", ""},
      {" mask r4", "", ""},                    {" indices r6", "", ""},
      {"f32x16 4", "f32x8 4", ""},             {"private=128", "private=192", ""},
      {"B i8", "B u8", ""},                    {"-v0 + 6 >= 0", "-v0 + 5 >= 0", ""},
      {"-> r13, r14", "-> r14, r13", ""},      {"r3 = exp r3", "r3 = log r3", ""},
  };
  for (const Mistake& change : changes) {
    EXPECT_NE(hash(parse(with(kKernelText, change.from, change.to))), hash(kernel)) << change.to;
  }
}

TEST(KernelHash, TakesMicroseconds) {
  const Kernel kernel = parse(kKernelText);
  uint64_t sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10000; ++i) sum += hash(kernel);
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  std::printf("%.2f us a hash (%llu)\n", time.count() / 10000,
              static_cast<unsigned long long>(sum));
  EXPECT_LT(time.count() / 10000, 100);  // generous: sanitizers, busy machines
}

}  // namespace
}  // namespace lw
