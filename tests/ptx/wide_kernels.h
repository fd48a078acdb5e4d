// Kernels of products whose operands are whole numbers as bf16: their arguments, and what the emulator
// says of them.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/rng.h"
#include "src/build/emulator/emulate.h"

namespace lw {

struct ProductArguments {
  std::vector<uint16_t> a, b;
  std::vector<float> c, want;
  std::vector<void*> pointers() { return {a.data(), b.data(), c.data()}; }
};

// Of C[rows, columns], the sum along `depth` of A times B, whose elements lie at a(i, k) and b(j, k).
inline ProductArguments product_arguments(size_t rows, size_t columns, size_t depth, const auto& a,
                                          const auto& b) {
  ProductArguments all;
  all.a.resize(rows * depth);
  all.b.resize(columns * depth);
  all.c.resize(rows * columns);
  all.want = all.c;
  Rng rng(7);
  std::vector<float> of_a, of_b;
  for (auto [bits, values] : {std::pair(&all.a, &of_a), std::pair(&all.b, &of_b)}) {
    for (uint16_t& one : *bits) {
      const float value = static_cast<float>(static_cast<int>(rng.below(17)) - 8);
      uint32_t word;
      std::memcpy(&word, &value, sizeof word);
      one = static_cast<uint16_t>(word >> 16);
      values->push_back(value);
    }
  }
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      for (size_t k = 0; k < depth; ++k) all.want[columns * i + j] += of_a[a(i, k)] * of_b[b(j, k)];
    }
  }
  return all;
}

// What the emulator says; "wrong" of another result.
inline std::string emulated_product(const std::string& text, ProductArguments arguments,
                                    ItemOrder::Kind order) {
  const absl::StatusOr<Kernel> kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status() << text;
  if (!kernel.ok()) return "";
  EXPECT_TRUE(verify(*kernel).ok()) << verify(*kernel) << text;
  EmulateOptions options;
  options.order = {order, 3};
  const absl::Status status = emulate(*kernel, arguments.pointers().data(), options);
  if (!status.ok()) return std::string(status.message());
  return arguments.c == arguments.want ? "" : "wrong";
}

}  // namespace lw
