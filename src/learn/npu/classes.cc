// Every class has operators that the array, or else the vector engine, takes; types are those that
// NPUs compute with. Extents are as CPUs' are, none below a few instructions'.
#include "src/learn/classes.h"

namespace lw {
namespace {

Words bf16(Words words) {
  words.push_back("T=bf16");
  return words;
}

void add_product(Draw& draw, Words& words) {
  if (words[0].starts_with("batch")) add(words, "B", draw.size(2, 16));
  for (const char* name : {"M", "N", "K"}) add(words, name, draw.size(16, 1200));
}

Words product(Draw& draw) {
  Words words = {draw.choose<std::string>(
      {"matmul", "matmul", "dense", "dense_bias", "dense_relu", "batch_matmul"})};
  add_product(draw, words);
  return bf16(std::move(words));
}

Words requantised(Draw& draw) {
  Words words = {
      draw.choose<std::string>({"matmul_requant", "dense_requant", "batch_matmul_requant"})};
  add_product(draw, words);
  return words;
}

// An image or a row of one, and a window with its stride and a padding that keeps the size or none.
Words window(Draw& draw, Words words) {
  const bool line = words[0].starts_with("conv1d"), solid = words[0].starts_with("conv3d");
  const int64_t size = line ? draw.size(16, 800) : solid ? draw.size(6, 20) : draw.size(7, 80);
  if (line) {
    add(words, "L", size);
  } else {
    if (solid) add(words, "D", draw.size(3, 10));
    add(words, "H", size);
    add(words, "W", size);
  }
  add(words, "CI", draw.size(16, solid ? 64 : 400));
  add(words, "CO", draw.size(16, solid ? 96 : 400));
  const int64_t kernel = draw.one_of({1, 1, 3, 3, 3, 5});
  add(words, "R", kernel);
  if (!line && !solid) add(words, "S", kernel);
  add(words, "stride", draw.one_of({1, 1, 2}));
  add(words, "pad", draw.one_of({0, kernel / 2, kernel / 2}));
  return words;
}

Words convolution(Draw& draw) {
  return bf16(window(
      draw, {draw.choose<std::string>({"conv2d", "conv2d", "conv2d_bn_relu", "conv1d"})}));
}

Words convolution_requantised(Draw& draw) {
  return window(draw, {draw.choose<std::string>({"conv2d_requant", "conv2d_requant",
                                                 "conv2d_residual_requant", "conv1d_requant",
                                                 "conv3d_requant"})});
}

Words map(Draw& draw) {
  Words words = {draw.choose<std::string>(
      {"add", "mul", "relu", "bias_add", "add_requant", "transpose"})};
  if (words[0] == "add_requant") {
    add(words, "N", draw.size(30, 3000));
    add(words, "C", draw.size(30, 1000));
    return words;
  }
  if (words[0] == "bias_add" || words[0] == "transpose") {
    add(words, "M", draw.size(30, 1500));
    add(words, "N", draw.size(30, 1500));
  } else {
    add(words, "N", draw.size(20000, 1000000));
  }
  return draw.uniform() < 0.5 ? words : bf16(std::move(words));
}

Words reduction(Draw& draw) {
  Words words = {draw.choose<std::string>({"row_sum", "column_sum", "row_max", "column_max",
                                           "middle_sum", "outer_sum"})};
  if (words[0] == "middle_sum" || words[0] == "outer_sum") {
    for (const char* name : {"A", "B", "C"}) add(words, name, draw.size(8, 250));
  } else {
    for (const char* name : {"M", "N"}) add(words, name, draw.size(16, 1500));
  }
  return draw.uniform() < 0.5 ? words : bf16(std::move(words));
}

Words rows(Draw& draw) {
  Words words = {draw.choose<std::string>({"softmax", "layer_norm", "rms_norm"})};
  for (const char* name : {"M", "N"}) add(words, name, draw.size(16, 1200));
  return words;
}

constexpr OperatorClass kClasses[] = {{"product", 16, product},
                                      {"requantised", 16, requantised},
                                      {"convolution", 12, convolution},
                                      {"convolution_requantised", 16, convolution_requantised},
                                      {"map", 6, map},
                                      {"reduction", 8, reduction},
                                      {"rows", 6, rows}};

}  // namespace

std::span<const OperatorClass> npu_classes() { return kClasses; }

}  // namespace lw
