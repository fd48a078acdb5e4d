// Kernels of groups of items, by hand, and the means to run them: on whole numbers, so that sums
// are exact in any order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/rng.h"
#include "src/build/emulator/emulate.h"

namespace lw {

// C[8, 8] = A[8, 12] B[12, 8] in tiles of 4 x 4 x 4, each of two slots: while one is read, the next
// is filled.
inline const char* const kGroupGemm =
    R"(kernel gemm arguments=3 variables=9 workspace=0 private=0 packed=0 managed=256
buffer A f32 96 argument 0
buffer B f32 96 argument 1
buffer C f32 64 argument 2 written
buffer a f32 32 managed 0 0
buffer b f32 32 managed 0 128
registers f32x1 3
body {
  for v0 < 4 parallel items 16 {
    int v1 = item
    int v2 = div v1, 4
    int v3 = mod v1, 4
    int v4 = div v0, 2
    int v5 = mod v0, 2
    r0 = const 0
    r1 = load A[12*v2 + v3 + 48*v4] stride 1
    store a[4*v2 + v3] = r1 stride 1
    r1 = load B[8*v2 + v3 + 4*v5] stride 1
    store b[4*v2 + v3] = r1 stride 1
    for v6 < 3 {
      barrier
      int v7 = mod v6, 2
      if -v6 + 1 >= 0 {
        r1 = load A[12*v2 + v3 + 48*v4 + 4*v6 + 4] stride 1
        store a[4*v2 + v3 - 16*v7 + 16] = r1 stride 1
        r1 = load B[8*v2 + v3 + 4*v5 + 32*v6 + 32] stride 1
        store b[4*v2 + v3 - 16*v7 + 16] = r1 stride 1
      }
      for v8 < 4 {
        r1 = load a[4*v2 + 16*v7 + v8] stride 1
        r2 = load b[v3 + 16*v7 + 4*v8] stride 1
        r0 = fma r1, r2, r0
      }
    }
    store C[8*v2 + v3 + 32*v4 + 4*v5] = r0 stride 1
  }
}
)";

// Y[4] = the sums of X[4, 16], by halves.
inline const char* const kGroupHalves =
    R"(kernel halves arguments=2 variables=2 workspace=0 private=0 packed=0 managed=64
buffer X f32 64 argument 0
buffer Y f32 4 argument 1 written
buffer t f32 16 managed 0 0
registers f32x1 2
body {
  for v0 < 4 parallel items 16 {
    int v1 = item
    r0 = load X[16*v0 + v1] stride 1
    store t[v1] = r0 stride 1
    barrier
    if -v1 + 7 >= 0 {
      r0 = load t[v1] stride 1
      r1 = load t[v1 + 8] stride 1
      r0 = add r0, r1
      store t[v1] = r0 stride 1
    }
    barrier
    if -v1 + 3 >= 0 {
      r0 = load t[v1] stride 1
      r1 = load t[v1 + 4] stride 1
      r0 = add r0, r1
      store t[v1] = r0 stride 1
    }
    barrier
    if -v1 + 1 >= 0 {
      r0 = load t[v1] stride 1
      r1 = load t[v1 + 2] stride 1
      r0 = add r0, r1
      store t[v1] = r0 stride 1
    }
    barrier
    if -v1 >= 0 {
      r0 = load t[0] stride 1
      r1 = load t[1] stride 1
      r0 = add r0, r1
      store Y[v0] = r0 stride 1
    }
  }
}
)";

// Y = X[8, 8] transposed, through rows of 5 in memory of which 4 are used.
inline const char* const kGroupTranspose =
    R"(kernel transpose arguments=2 variables=6 workspace=0 private=0 packed=0 managed=128
buffer X f32 64 argument 0
buffer Y f32 64 argument 1 written
buffer t f32 20 managed 0 0
registers f32x1 1
body {
  for v0 < 4 parallel items 16 {
    int v1 = item
    int v2 = div v1, 4
    int v3 = mod v1, 4
    int v4 = div v0, 2
    int v5 = mod v0, 2
    r0 = load X[8*v2 + v3 + 32*v4 + 4*v5] stride 1
    store t[5*v2 + v3] = r0 stride 1
    barrier
    r0 = load t[v2 + 5*v3] stride 1
    store Y[8*v2 + v3 + 4*v4 + 32*v5] = r0 stride 1
  }
}
)";

// Y[64] = of X's rows of 4, in fours, the sums of their elements at one place: by sub-groups of 4
// items, two of which are a group.
inline const char* const kGroupAcross =
    R"(kernel across arguments=2 variables=2 workspace=0 private=0 packed=0
buffer X f32 64 argument 0
buffer Y f32 64 argument 1 written
registers f32x4 2
body {
  for v0 < 2 parallel items 8 {
    int v1 = item
    r0 = load X[32*v0 + 4*v1] stride 1
    r1 = across sum 4 r0
    store Y[32*v0 + 4*v1] = r1 stride 1
  }
}
)";

inline Kernel group_kernel(const std::string& text) {
  const absl::StatusOr<Kernel> kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status() << "\n" << text;
  return kernel.ok() ? *kernel : Kernel();
}

// The text with the `which`th (from 0) `from` replaced; all of them if it is -1.
inline std::string replaced(std::string text, std::string_view from, std::string_view to,
                            int which = -1) {
  int found = 0;
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; ++found) {
    if (which >= 0 && found != which) {
      at += from.size();
      continue;
    }
    text.replace(at, from.size(), to);
    at += to.size();
  }
  EXPECT_GT(found, which) << from;
  return text;
}

// The same, where there is something to replace.
inline std::string altered(const std::string& text, const std::string& from,
                           const std::string& to) {
  EXPECT_NE(text.find(from), text.npos) << from;
  return replaced(text, from, to);
}

// That the verifier refuses the kernel, and says that of it.
inline void expect_verifier_says(const std::string& text, const std::string& says) {
  const absl::StatusOr<Kernel> kernel = parse_kernel(text);
  ASSERT_TRUE(kernel.ok()) << kernel.status() << text;
  const std::string said(verify(*kernel).message());
  EXPECT_NE(said.find(says), said.npos) << said << "\nand not " << says << "\n" << text;
}

inline std::string without_barriers(const std::string& text) {
  return replaced(text, "barrier\n", "\n");
}

// Arguments of f32, filled with small whole numbers.
class GroupArguments {
 public:
  explicit GroupArguments(const Kernel& kernel) : values_(kernel.arguments) {
    Rng rng(7);
    for (const Buffer& b : kernel.buffers) {
      if (b.scope != Scope::kArgument) continue;
      for (int64_t i = 0; i < b.elements; ++i) {
        values_[b.slot].push_back(b.written ? -1.0f : static_cast<float>(rng.below(9)) - 4);
      }
    }
    for (std::vector<float>& values : values_) pointers_.push_back(values.data());
  }
  GroupArguments(const GroupArguments&) = delete;
  void* const* pointers() const { return pointers_.data(); }
  const std::vector<float>& operator[](size_t i) const { return values_[i]; }
  const std::vector<float>& result() const { return values_.back(); }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<void*> pointers_;
};

inline std::vector<ItemOrder> item_orders() {
  return {{}, {ItemOrder::Kind::kDescending}, {ItemOrder::Kind::kShuffled, 1},
          {ItemOrder::Kind::kShuffled, 2}};
}

// What the emulation reports; "" when nothing.
inline std::string emulated(const Kernel& kernel, ItemOrder order = {},
                            std::vector<float>* result = nullptr) {
  const GroupArguments arguments(kernel);
  const absl::Status status = emulate(kernel, arguments.pointers(), {order});
  if (result != nullptr) *result = arguments.result();
  return std::string(status.message());
}

}  // namespace lw
