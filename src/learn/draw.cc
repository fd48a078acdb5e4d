// Each class of operators draws its own parameters, so that the work of a call stays between some
// microseconds and some milliseconds: small enough to measure dozens of schedules of, large enough
// to leave the caches.
#include "src/learn/draw.h"

#include <algorithm>

#include "schedules/targets/family.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/language/suite.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/work/work.h"
#include "src/learn/classes.h"

namespace lw {

const std::vector<std::pair<const char*, const char*>>& withheld_suite_texts();

namespace {

constexpr double kLeastFlops = 1e5, kMostFlops = 6e8;
constexpr int64_t kMostTaskBytes = int64_t{48} << 20;  // of all tensors together
constexpr double kNear = 0.1;
constexpr int kMostDraws = 1000;

Words gemm(Draw& draw) {
  const std::string op = draw.choose<std::string>(
      {"matmul", "matmul", "batch_matmul", "dense", "dense_bias", "dense_relu", "dense_gelu"});
  Words words = {op};
  if (op == "batch_matmul") add(words, "B", draw.size(2, 24));
  for (const char* name : {"M", "N", "K"}) add(words, name, draw.size(op[0] == 'b' ? 8 : 5, 1600));
  return words;
}

Words typed_gemm(Draw& draw) {
  const std::string type = draw.choose<std::string>({"u8", "bf16", "f16", "f64"});
  Words words = {type == "u8" ? "dense_i8" : "matmul"};
  for (const char* name : {"M", "N", "K"}) add(words, name, draw.size(8, 900));
  if (type != "u8") words.push_back(concat("T=", type));
  return words;
}

// The kernel, its stride and a padding that keeps the size or none.
void add_window(Draw& draw, Words& words, bool square) {
  const int64_t kernel = draw.one_of({1, 2, 3, 3, 3, 4, 5, 7});
  add(words, "R", kernel);
  if (square) add(words, "S", kernel);
  add(words, "stride", draw.one_of({1, 1, 2, 3}));
  add(words, "pad", draw.one_of({0, kernel / 2, kernel / 2}));
}

Words conv1d(Draw& draw) {
  Words words = {"conv1d"};
  add(words, "N", draw.one_of({1, 1, 2, 5, 16}));
  add(words, "L", draw.size(16, 800));
  add(words, "CI", draw.size(3, 400));
  add(words, "CO", draw.size(4, 500));
  add_window(draw, words, false);
  return words;
}

void add_image(Draw& draw, Words& words, int64_t least, int64_t most) {
  add(words, "N", draw.one_of({1, 1, 2, 4, 9}));
  const int64_t height = draw.size(least, most);
  add(words, "H", height);
  add(words, "W", draw.one_of({height, height, draw.size(least, most)}));
}

Words conv2d(Draw& draw) {
  const std::string op =
      draw.choose<std::string>({"conv2d", "conv2d", "conv2d_bn_relu", "conv2d_dilated"});
  Words words = {op};
  add_image(draw, words, 5, 150);
  add(words, "CI", draw.one_of({3, draw.size(4, 500), draw.size(4, 500), draw.size(4, 500)}));
  add(words, "CO", draw.size(8, 500));
  add_window(draw, words, true);
  if (op == "conv2d_dilated") add(words, "dilation", draw.one_of({2, 2, 3}));
  return words;
}

Words grouped(Draw& draw) {
  Words words = {"conv2d_grouped"};
  const int64_t groups = draw.one_of({2, 3, 4, 8, 16});
  add_image(draw, words, 5, 100);
  add(words, "CI", groups * draw.size(2, 80));
  add(words, "CO", groups * draw.size(2, 80));
  add_window(draw, words, true);
  add(words, "groups", groups);
  return words;
}

Words depthwise(Draw& draw) {
  Words words = {"conv2d_depthwise"};
  add_image(draw, words, 6, 150);
  add(words, "C", draw.size(8, 900));
  add_window(draw, words, true);
  return words;
}

Words transposed(Draw& draw) {
  Words words = {"conv2d_transpose"};
  add_image(draw, words, 3, 48);
  add(words, "CI", draw.size(8, 500));
  add(words, "CO", draw.size(3, 300));
  const int64_t stride = draw.one_of({2, 2, 2, 3});
  add(words, "R", draw.one_of({2, 3, 4, 4, 5}));
  add(words, "stride", stride);
  add(words, "pad", draw.one_of({0, 1}));
  return words;
}

Words capsule(Draw& draw) {
  Words words = {"conv2d_capsule"};
  add_image(draw, words, 5, 24);
  add(words, "CI", draw.size(3, 48));
  add(words, "CO", draw.size(4, 48));
  add_window(draw, words, true);
  add(words, "Q", draw.one_of({2, 3, 4}));
  return words;
}

Words conv3d(Draw& draw) {
  Words words = {"conv3d"};
  add(words, "D", draw.size(3, 20));
  add_image(draw, words, 5, 50);
  add(words, "CI", draw.one_of({3, draw.size(3, 96)}));
  add(words, "CO", draw.size(4, 128));
  add_window(draw, words, false);
  return words;
}

Words softmax(Draw& draw) {
  if (draw.uniform() < 0.4) {
    Words words = {"softmax"};
    add(words, "M", draw.size(4, 2000));
    add(words, "N", draw.size(16, 3000));
    return words;
  }
  Words words = {"transpose_batch_matmul_softmax"};
  add(words, "B", draw.one_of({1, 1, 2, 6}));
  add(words, "S", draw.size(24, 350));
  add(words, "H", draw.size(1, 16));
  add(words, "D", draw.size(16, 150));
  return words;
}

Words attention(Draw& draw) {
  const bool causal = draw.uniform() < 0.3;
  Words words = {causal ? "causal_attention" : "attention"};
  add(words, "B", draw.one_of({1, 1, 2}));
  add(words, "H", draw.size(1, 16));
  add(words, "S", draw.size(16, 350));
  if (!causal) add(words, "T", draw.size(16, 350));
  add(words, "D", draw.size(16, 130));
  return words;
}

Words norm(Draw& draw) {
  const std::string op = draw.choose<std::string>(
      {"norm", "norm", "layer_norm", "rms_norm", "layer_norm_2d", "rms_norm_2d"});
  Words words = {op};
  if (op == "norm" || op.back() == 'd') add(words, "B", draw.size(1, 40));
  add(words, "M", draw.size(8, 1500));
  add(words, "N", draw.size(8, 3000));
  return words;
}

Words reduction(Draw& draw) {
  const std::string op = draw.choose<std::string>(
      {"row_sum", "column_sum", "total_sum", "middle_sum", "outer_sum", "row_max", "column_max"});
  Words words = {op};
  if (op == "middle_sum" || op == "outer_sum") {
    for (const char* name : {"A", "B", "C"}) add(words, name, draw.size(4, 500));
    return words;
  }
  add(words, "M", draw.size(8, 3000));
  add(words, "N", draw.size(8, 3000));
  return words;
}

Words pool(Draw& draw) {
  Words words = {draw.choose<std::string>({"max_pool2d", "avg_pool2d"})};
  add_image(draw, words, 8, 130);
  add(words, "C", draw.size(8, 500));
  const int64_t kernel = draw.one_of({2, 3, 3, 5});
  add(words, "R", kernel);
  add(words, "S", kernel);
  add(words, "stride", draw.one_of({1, 2, 2}));
  add(words, "pad", draw.one_of({0, kernel / 2}));
  return words;
}

Words elementwise(Draw& draw) {
  const std::string op = draw.choose<std::string>(
      {"add", "bias_add", "gelu", "tanh", "elementwise_chain", "transpose", "transpose"});
  Words words = {op};
  if (op != "bias_add" && op != "transpose") {
    add(words, "N", draw.size(20000, 4000000));
    return words;
  }
  add(words, "M", draw.size(30, 3000));
  add(words, "N", draw.size(30, 3000));
  return words;
}

// Those with the widest spaces most.
constexpr OperatorClass kClasses[] = {
    {"gemm", 18, gemm},           {"typed_gemm", 4, typed_gemm}, {"conv1d", 9, conv1d},
    {"conv2d", 18, conv2d},       {"grouped", 7, grouped},       {"depthwise", 8, depthwise},
    {"transposed", 7, transposed}, {"capsule", 6, capsule},      {"conv3d", 7, conv3d},
    {"softmax", 6, softmax},      {"attention", 3, attention},   {"norm", 5, norm},
    {"reduction", 4, reduction},  {"pool", 3, pool},             {"elementwise", 3, elementwise}};

const OperatorClass& choose_class(std::span<const OperatorClass> classes, Rng& rng) {
  int total = 0;
  for (const OperatorClass& c : classes) total += c.share;
  int64_t at = rng.below(total);
  for (const OperatorClass& c : classes) {
    at -= c.share;
    if (at < 0) return c;
  }
  CHECK(false);
}

bool of_fitting_size(const Program& program) {
  int64_t all = 0;
  for (const Tensor& tensor : program.tensors) all += bytes(tensor);
  const double flops = std::max(count_flops(program).counted, compulsory_bytes(program));
  return flops >= kLeastFlops && flops <= kMostFlops && all <= kMostTaskBytes;
}

std::vector<int64_t> loops_of_most_work(const Program& program) {
  std::vector<int64_t> most;
  double most_points = 0;
  for (const Tensor& tensor : program.tensors) {
    std::vector<int64_t> extents;
    double points = tensor.body == nullptr ? 0 : 1;
    for (const std::vector<Axis>* axes : {&tensor.axes, &tensor.reduce_axes}) {
      for (const Axis& axis : *axes) {
        points *= static_cast<double>(axis.extent);
        if (axis.extent > 1) extents.push_back(axis.extent);
      }
    }
    if (points <= most_points) continue;
    most_points = points;
    most = extents;
  }
  std::sort(most.begin(), most.end());
  return most;
}

}  // namespace

bool resembles(const Program& a, const Program& b) {
  const std::vector<int64_t> of_a = loops_of_most_work(a), of_b = loops_of_most_work(b);
  if (of_a.size() != of_b.size()) return false;
  for (size_t i = 0; i < of_a.size(); ++i) {
    const double low = static_cast<double>(std::min(of_a[i], of_b[i]));
    if (static_cast<double>(std::max(of_a[i], of_b[i])) > (1 + kNear) * low) return false;
  }
  return true;
}

const std::vector<Program>& withheld_programs() {
  static const std::vector<Program>* programs = [] {
    auto* all = new std::vector<Program>;
    std::vector<Words> words = {
        {"dense_i8", "M=512", "N=512", "K=512"},    {"dense_i8", "M=1024", "N=1024", "K=1024"},
        {"dense_i8", "M=128", "N=768", "K=768"},    {"attention", "B=1", "H=12", "S=512", "T=512",
                                                     "D=64"},
        {"causal_attention", "B=1", "H=12", "S=512", "D=64"}};
    for (const auto& [file, text] : withheld_suite_texts()) {
      absl::StatusOr<SuiteCases> suite = parse_suite(text, file, {});
      CHECK(suite.ok() && suite->refused.empty());
      for (SuiteCase& one : suite->cases) words.push_back(std::move(one.words));
    }
    for (const Words& one : words) {
      absl::StatusOr<Program> program = load_workload(one);
      CHECK(program.ok());
      all->push_back(*std::move(program));
    }
    return all;
  }();
  return *programs;
}

bool is_withheld(const Program& program) {
  const std::vector<Program>& withheld = withheld_programs();
  return std::any_of(withheld.begin(), withheld.end(),
                     [&](const Program& other) { return resembles(program, other); });
}

namespace {

// The words of the first draw of the class that is of fitting size and not withheld.
void draw_words(const OperatorClass& chosen, Rng& rng, TaskSpec& spec) {
  const bool plain_weights = rng.below(2) == 0;
  for (int attempt = 0; attempt < kMostDraws; ++attempt) {
    Draw draw(rng.split(1 + static_cast<uint64_t>(attempt)));
    spec.words = chosen.draw(draw);
    const absl::StatusOr<Program> program = load_workload(spec.words);
    if (!program.ok() || !of_fitting_size(*program) || is_withheld(*program)) continue;
    const bool weights = std::any_of(program->tensors.begin(), program->tensors.end(),
                                     [](const Tensor& tensor) { return tensor.is_const; });
    if (weights && plain_weights) spec.const_names.emplace();
    return;
  }
  CHECK(false);
}

}  // namespace

TaskSpec draw_task(uint64_t seed, int index, int threads, const std::vector<std::string>& lesser) {
  Rng rng = Rng(seed).split(static_cast<uint64_t>(index));
  const OperatorClass& chosen = choose_class(kClasses, rng);
  TaskSpec spec;
  spec.kind = chosen.kind;
  const double machine = rng.uniform();
  if (machine < 0.16 && threads > 1) spec.threads = threads;
  if (machine >= 0.84 && !lesser.empty())
    spec.target = lesser[rng.below(static_cast<int64_t>(lesser.size()))];
  draw_words(chosen, rng, spec);
  return spec;
}

absl::StatusOr<TaskSpec> draw_task_on(uint64_t seed, int index, const std::string& name,
                                      const Target& target) {
  const std::string_view family = target.part.family()->name;
  const std::pair<std::string_view, std::span<const OperatorClass>> known[] = {
      {"cpu", kClasses}, {"npu", npu_classes()}, {"simt", kClasses}};
  const auto of = std::find_if(std::begin(known), std::end(known),
                               [&](const auto& one) { return one.first == family; });
  if (of == std::end(known))
    return absl::InvalidArgumentError(concat("no operators to draw for ", name));
  Rng rng = Rng(seed).split(static_cast<uint64_t>(index));
  const OperatorClass& chosen = choose_class(of->second, rng);
  TaskSpec spec;
  spec.kind = chosen.kind;
  spec.target = name;
  draw_words(chosen, rng, spec);
  return spec;
}

}  // namespace lw
