// Layers that are tuned on the simulated NPU: ResNet-50's convolutions as products of their
// windows, and BERT-base's products, i8 into i32.
#pragma once

#include <cstdio>
#include <string>

namespace lw {

struct Layer {
  const char* name;
  int m, n, k;
};
inline constexpr Layer kResNet[] = {
    {"conv1", 12544, 64, 147},   {"c2 1x1", 3136, 64, 64},   {"c2 3x3", 3136, 64, 576},
    {"c2 out", 3136, 256, 64},   {"c2 in", 3136, 64, 256},   {"c3 in", 3136, 128, 256},
    {"c3 3x3", 784, 128, 1152},  {"c3 out", 784, 512, 128},  {"c3 1x1", 784, 128, 512},
    {"c4 in", 784, 256, 512},    {"c4 3x3", 196, 256, 2304}, {"c4 out", 196, 1024, 256},
    {"c4 1x1", 196, 256, 1024},  {"c5 in", 196, 512, 1024},  {"c5 3x3", 49, 512, 4608},
    {"c5 out", 49, 2048, 512},   {"c5 1x1", 49, 512, 2048},
};
inline constexpr Layer kBert[] = {
    {"bert qkv", 128, 768, 768},   {"bert ffn", 128, 3072, 768},  {"bert ffn2", 128, 768, 3072},
    {"bert scores", 128, 128, 64}, {"bert values", 128, 64, 128},
};

inline std::string text_of(const Layer& layer) {
  char text[256];
  std::snprintf(text, sizeof text,
                "op product(M = %d, N = %d, K = %d) {\n  in A: i8[M, K]\n  in B: i8[K, N] const\n"
                "  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n",
                layer.m, layer.n, layer.k);
  return text;
}

}  // namespace lw
