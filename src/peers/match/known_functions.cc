#include "src/peers/match/known_functions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/base/rng.h"

namespace lw {
namespace {

using Values = std::vector<double>;

Values random_values(int64_t count, uint64_t seed, double scale) {
  Rng rng(seed);
  Values values(count);
  for (double& v : values) v = scale * (2 * rng.uniform() - 1);
  return values;
}

bool close(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)  // written so that a NaN is not close
    if (!(std::fabs(a[i] - b[i]) <= 1e-5 * (1 + std::fabs(b[i])))) return false;
  return true;
}

double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x * 0.70710678118654752)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}

double unary(PeerUnary::Kind kind, double x) {
  switch (kind) {
    case PeerUnary::Kind::kRelu: return std::max(x, 0.0);
    case PeerUnary::Kind::kGeluErf: return gelu_erf(x);
    case PeerUnary::Kind::kGeluTanh: return gelu_tanh(x);
    case PeerUnary::Kind::kTanh: return std::tanh(x);
    case PeerUnary::Kind::kExp: return std::exp(x);
    case PeerUnary::Kind::kSigmoid: return 1 / (1 + std::exp(-x));
    case PeerUnary::Kind::kSqrt: return std::sqrt(x);
    case PeerUnary::Kind::kAbs: return std::fabs(x);
  }
  return std::nan("");
}

double epilogue(PeerEpilogue kind, double x, double scale, double bias) {
  switch (kind) {
    case PeerEpilogue::kRelu: return std::max(x, 0.0);
    case PeerEpilogue::kGeluErf: return gelu_erf(x);
    case PeerEpilogue::kGeluTanh: return gelu_tanh(x);
    case PeerEpilogue::kBias: return x + bias;
    case PeerEpilogue::kBiasRelu: return std::max(x + bias, 0.0);
    case PeerEpilogue::kBiasGeluErf: return gelu_erf(x + bias);
    case PeerEpilogue::kBiasGeluTanh: return gelu_tanh(x + bias);
    case PeerEpilogue::kScaleShiftRelu: return std::max(x * scale + bias, 0.0);
    default: return x;
  }
}

Values softmax(const Values& x) {
  const double top = *std::max_element(x.begin(), x.end());
  Values y;
  for (double v : x) y.push_back(std::exp(v - top));
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  for (double& v : y) v /= sum;
  return y;
}

Values normalized(const Values& x, bool centered, double epsilon, const Values& gamma,
                  const Values& beta) {
  const double n = static_cast<double>(x.size());
  const double mean = centered ? std::accumulate(x.begin(), x.end(), 0.0) / n : 0;
  double squares = 0;
  for (double v : x) squares += (v - mean) * (v - mean);
  const double factor = 1 / std::sqrt(squares / n + epsilon);
  Values y;
  for (size_t i = 0; i < x.size(); ++i)
    y.push_back((x[i] - mean) * factor * (gamma.empty() ? 1 : gamma[i]) +
                (beta.empty() ? 0 : beta[i]));
  return y;
}

double reduction(PeerReduction::Kind kind, const Values& x) {
  const double sum = std::accumulate(x.begin(), x.end(), 0.0);
  const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
  switch (kind) {
    case PeerReduction::Kind::kSum: return sum;
    case PeerReduction::Kind::kMean: return sum / static_cast<double>(x.size());
    case PeerReduction::Kind::kMax: return *std::max_element(x.begin(), x.end());
    case PeerReduction::Kind::kMin: return *std::min_element(x.begin(), x.end());
    case PeerReduction::Kind::kSumOfSquares: return squares;
    case PeerReduction::Kind::kNorm2: return std::sqrt(squares);
  }
  return std::nan("");
}

// Inputs for run_flow: one group of the source and of every parameter (scalars: one value).
// Small sources make epsilons matter.
struct Sample {
  std::vector<Values> values;
  Values x;
};
Sample draw(const Program& program, const Flow& flow, uint64_t seed, double scale) {
  Sample sample;
  sample.values.resize(program.tensors.size());
  sample.x = random_values(flow.group, seed, scale);
  sample.values[flow.source] = sample.x;
  for (int p : flow.parameters) {
    const std::optional<bool> varying = varies(program, flow, p);
    sample.values[p] = random_values(varying.value_or(false) ? flow.group : 1, seed * 31 + p, 1.5);
  }
  return sample;
}

// Positive constants that may be an epsilon, and 0.
std::vector<double> epsilons(const Program& program) {
  std::vector<double> found = {0};
  for (const Tensor& tensor : program.tensors) {
    if (!tensor.body) continue;
    visit(tensor.body, [&](const ExprNode& node) {
      if (node.op == ExprOp::kConst && is_float(node.type) && node.number > 0 && node.number < 0.1)
        found.push_back(node.number);
    });
  }
  return found;
}

constexpr int kPoints = 24;                // single values compared for functions of one element

}  // namespace

std::optional<KnownEpilogue> known_epilogue(const Program& program, const Flow& flow,
                                            int channel_label) {
  if (!flow.reduced.empty()) {
    const Sample sample = draw(program, flow, 1, 3);
    if (flow.reduced != std::vector<int>{channel_label} || !flow.parameters.empty() ||
        !close(run_flow(program, flow, sample.values), softmax(sample.x)))
      return std::nullopt;
    return KnownEpilogue{PeerEpilogue::kSoftmax};
  }
  for (int p : flow.parameters) {          // only vectors along the channels
    int along = 0;
    for (int label : flow.labels[p]) along += label == channel_label ? 1 : label >= 0 ? 100 : 0;
    if (along != 1) return std::nullopt;
  }
  using E = PeerEpilogue;
  static const std::vector<std::vector<E>> kByParameters = {
      {E::kNone, E::kRelu, E::kGeluErf, E::kGeluTanh},
      {E::kBias, E::kBiasRelu, E::kBiasGeluErf, E::kBiasGeluTanh},
      {E::kScaleShiftRelu}};
  if (flow.parameters.size() >= kByParameters.size()) return std::nullopt;
  std::vector<int> order = flow.parameters;  // {bias}, {scale, bias} or {bias, scale}
  std::sort(order.begin(), order.end());
  do {
    for (E kind : kByParameters[order.size()]) {
      bool same = true;
      for (int point = 0; point < kPoints && same; ++point) {
        const Sample sample = draw(program, flow, point + 1, 4);
        const double bias = order.empty() ? 0 : sample.values[order.back()][0];
        const double scale = order.size() < 2 ? 1 : sample.values[order[0]][0];
        same = close(run_flow(program, flow, sample.values),
                     {epilogue(kind, sample.x[0], scale, bias)});
      }
      if (!same) continue;
      return KnownEpilogue{kind, order.size() < 2 ? -1 : order[0],
                           order.empty() ? -1 : order.back()};
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}

std::optional<KnownUnary> known_unary(const Program& program, const Flow& flow) {
  if (!flow.parameters.empty() || !flow.reduced.empty()) return std::nullopt;
  using K = PeerUnary::Kind;
  const auto computes = [&](auto function) {
    for (int point = 0; point < kPoints; ++point) {
      Sample sample = draw(program, flow, point + 1, 4);
      const double expected = function(sample.x[0]);
      if (std::isnan(expected)) continue;  // outside the function's domain
      if (!close(run_flow(program, flow, sample.values), {expected})) return false;
    }
    return true;
  };
  if (computes([](double x) { return x; })) return KnownUnary{true};
  for (K kind : {K::kRelu, K::kGeluErf, K::kGeluTanh, K::kTanh, K::kExp, K::kSigmoid, K::kSqrt,
                 K::kAbs})
    if (computes([kind](double x) { return unary(kind, x); })) return KnownUnary{false, kind};
  return std::nullopt;
}

std::optional<PeerReduction::Kind> known_reduction(const Program& program, const Flow& flow) {
  if (!flow.parameters.empty() || flow.reduced.empty()) return std::nullopt;
  using K = PeerReduction::Kind;
  const Sample sample = draw(program, flow, 1, 3);
  const Values result = run_flow(program, flow, sample.values);
  for (K kind : {K::kSum, K::kMean, K::kMax, K::kMin, K::kSumOfSquares, K::kNorm2})
    if (close(result, {reduction(kind, sample.x)})) return kind;
  return std::nullopt;
}

std::optional<KnownRows> known_rows(const Program& program, const Flow& flow) {
  const Sample sample = draw(program, flow, 1, 0.02);
  const Values result = run_flow(program, flow, sample.values);
  if (flow.parameters.empty() && close(result, softmax(sample.x))) return KnownRows{};
  if (flow.parameters.size() > 2) return std::nullopt;
  for (int p : flow.parameters)
    if (sample.values[p].size() != sample.x.size()) return std::nullopt;
  std::vector<int> order = flow.parameters;  // {gamma}, {gamma, beta} or {beta, gamma}
  std::sort(order.begin(), order.end());
  do {
    const Values gamma = order.empty() ? Values() : sample.values[order[0]];
    const Values beta = order.size() < 2 ? Values() : sample.values[order[1]];
    for (double epsilon : epsilons(program))
      for (PeerRows::Kind kind : {PeerRows::Kind::kLayerNorm, PeerRows::Kind::kRmsNorm})
        if (close(result, normalized(sample.x, kind == PeerRows::Kind::kLayerNorm, epsilon, gamma,
                                     beta)))
          return KnownRows{kind, epsilon, order.empty() ? -1 : order[0],
                           order.size() < 2 ? -1 : order[1]};
  } while (std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}

}  // namespace lw
