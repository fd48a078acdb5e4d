// Kernels whose groups copy boxes of tensors, and what becomes of them: emulated, printed as PTX and
// interpreted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "tests/ptx/printed_program.h"
#include "tests/ptx/wide_kernels.h"
#include "tests/support/kernel_text.h"

namespace lw {

// C[64, 16] = A[64, 304] B[16, 304]^T in blocks of 64, of which the last has 48 columns: of three slots
// one is multiplied, one may still be, one is fetched.
inline const char* const kBoxes =
    R"(kernel boxes arguments=3 variables=9 workspace=0 private=0 packed=0 managed=30720
buffer A bf16 19456 argument 0
buffer B bf16 4864 argument 1
buffer C f32 1024 argument 2 written
buffer s bf16 12288 managed 0 0 swizzled
buffer t bf16 3072 managed 0 24576 swizzled
registers f32x2 4
body {
  for v0 < 1 parallel items 128 {
    int v1 = item
    int v2 = div v1, 32
    int v3 = mod v1, 32
    int v4 = div v3, 4
    int v5 = mod v3, 4
    r0 = const 0
    r1 = const 0
    r2 = const 0
    r3 = const 0
    boxcopy s[0] (64, 1) = A[0] (304, 1) over 64, 64 clip 0 0 of 64 clip 1 0 of 304 pad 0
    boxcopy t[0] (64, 1) = B[0] (304, 1) over 16, 64 clip 0 0 of 16 clip 1 0 of 304 pad 0
    commit
    for v6 < 5 {
      landed 0
      if -v6 + 3 >= 0 {
        int v7 = mod v6 + 1, 3
        boxcopy s[4096*v7] (64, 1) = A[64*v6 + 64] (304, 1) over 64, 64 clip 0 0 of 64 clip 1 64*v6 + 64 of 304 pad 0
        boxcopy t[1024*v7] (64, 1) = B[64*v6 + 64] (304, 1) over 16, 64 clip 0 0 of 16 clip 1 64*v6 + 64 of 304 pad 0
      }
      commit
      int v8 = mod v6, 3
      widemul r0, r1, r2, r3 += s[1024*v2 + 4096*v8] (64, 0, 0, 1), t[1024*v8] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r0, r1, r2, r3 += s[1024*v2 + 4096*v8 + 16] (64, 0, 0, 1), t[1024*v8 + 16] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r0, r1, r2, r3 += s[1024*v2 + 4096*v8 + 32] (64, 0, 0, 1), t[1024*v8 + 32] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r0, r1, r2, r3 += s[1024*v2 + 4096*v8 + 48] (64, 0, 0, 1), t[1024*v8 + 48] (0, 0, 64, 1) over 16, 1, 16, 16
      multiplied 1
    }
    multiplied 0
    store C[256*v2 + 16*v4 + 2*v5] = r0 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 128] = r1 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 8] = r2 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 136] = r3 stride 1
  }
}
)";

inline constexpr size_t kColumns = 304;

inline ProductArguments box_arguments(size_t groups = 1) {
  const auto at = [](size_t row, size_t k) { return kColumns * row + k; };
  return product_arguments(64 * groups, 16, kColumns, at, at);
}

inline std::string told(const std::string& text, ItemOrder::Kind order = ItemOrder::Kind::kShuffled) {
  return emulated_product(text, box_arguments(), order);
}

inline absl::StatusOr<SimtProgram> printed(const std::string& text) {
  return ptx_program(parse_kernel(text).value(), *find_target("nvidia_sm90a"));
}

// What the interpreter of PTX says of the text, both ways to deliver; "wrong" of another result.
inline std::string ran(const SimtProgram& program, ProductArguments arguments = box_arguments()) {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    PtxOptions options;
    options.seed = seed;
    options.deliver_early = seed % 2 == 0;
    const absl::Status status = run_printed(program, arguments.pointers().data(), options);
    if (!status.ok()) return std::string(status.message());
    if (arguments.c != arguments.want) return "wrong";
  }
  return "";
}

inline int times(std::string_view text, std::string_view word) {
  int count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// That something is seen where these places of the text are another.
inline void expect_seen(const SimtProgram& program, const ProductArguments& arguments, size_t begin,
                        size_t end, const std::string& other) {
  SimtProgram wrong = program;
  wrong.source.replace(begin, end - begin, other);
  EXPECT_NE(ran(wrong, arguments), "")
      << program.source.substr(begin, end - begin) << " -> " << other;
}

// Two groups, each with rows of A of its own: what they have of B is alike.
inline std::string clustered() {
  std::string text = kBoxes;
  for (const auto& [from, to] :
       {std::pair("A bf16 19456", "A bf16 38912"), std::pair("C f32 1024", "C f32 2048"),
        std::pair("v0 < 1 parallel items 128", "v0 < 2 parallel items 128 cluster 2"),
        std::pair("= A[0] (304, 1) over 64, 64 clip 0 0 of 64",
                  "= A[19456*v0] (304, 1) over 64, 64 clip 0 64*v0 of 128"),
        std::pair("= A[64*v6 + 64] (304, 1) over 64, 64 clip 0 0 of 64",
                  "= A[19456*v0 + 64*v6 + 64] (304, 1) over 64, 64 clip 0 64*v0 of 128"),
        std::pair("C[256*v2 + 16*v4 + 2*v5]", "C[1024*v0 + 256*v2 + 16*v4 + 2*v5]"),
        std::pair("C[256*v2 + 16*v4 + 2*v5 + 128]", "C[1024*v0 + 256*v2 + 16*v4 + 2*v5 + 128]"),
        std::pair("C[256*v2 + 16*v4 + 2*v5 + 8]", "C[1024*v0 + 256*v2 + 16*v4 + 2*v5 + 8]"),
        std::pair("C[256*v2 + 16*v4 + 2*v5 + 136]", "C[1024*v0 + 256*v2 + 16*v4 + 2*v5 + 136]")}) {
    text = altered(text, from, to);
  }
  return text;
}

}  // namespace lw
