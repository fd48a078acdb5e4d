#include "src/npu/function/tables.h"

#include <array>
#include <cmath>
#include <limits>

#include "src/base/check.h"
#include "src/npu/function/numbers.h"

namespace lw::npu {
namespace {

constexpr int kEntries = 1024;
constexpr float kLog2E = 1.44269504088896340736f;

// e^x: its whole part by products, the rest by its series.
double exponential(double x) {
  if (x < 0) return 1 / exponential(-x);
  double result = 1;
  const double whole = std::floor(x);
  for (int i = 0; i < static_cast<int>(whole); ++i) result *= 2.71828182845904523536;
  double term = 1, sum = 1;
  for (int i = 1; i < 24; ++i) sum += term *= (x - whole) / i;
  return result * sum;
}

double logistic(double x) { return 1 / (1 + exponential(-x)); }

double tangent(double x) {
  const double e = exponential(2 * (x < 0 ? -x : x));
  const double value = (e - 1) / (e + 1);
  return x < 0 ? -value : value;
}

// erf(x) = 2 / sqrt(pi) . e^(-x^2) . sum of 2^n x^(2n+1) / (1 . 3 ... (2n+1)), for x >= 0.
double error_function(double x) {
  double term = x, sum = x;
  for (int n = 1; n < 400; ++n) sum += term *= 2 * x * x / (2 * n + 1);
  return 1.12837916709551257390 * exponential(-x * x) * sum;
}

double gelu(double x) {
  const double erf = error_function((x < 0 ? -x : x) * 0.70710678118654752440);
  return 0.5 * x * (x < 0 ? 1 - erf : 1 + erf);
}

struct Table {
  float low = 0, per_unit = 0;             // entries a unit of x
  std::array<float, kEntries> value = {}, step = {};
};

Table make_table(double low, double width, double (*function)(double)) {
  Table table = {static_cast<float>(low), static_cast<float>(kEntries / width), {}, {}};
  float here = static_cast<float>(function(low));
  for (int i = 0; i < kEntries; ++i) {
    const float next = static_cast<float>(function(low + (i + 1) * width / kEntries));
    table.value[i] = here;
    table.step[i] = next - here;
    here = next;
  }
  return table;
}

float at(const Table& table, float position) {
  const float whole = std::floor(position);
  int i = static_cast<int>(whole);
  if (i > kEntries - 1) i = kEntries - 1;  // position was rounded up to the end
  return table.value[i] + (position - static_cast<float>(i)) * table.step[i];
}

float between(const Table& table, float x, float below, float above) {
  if (x < table.low) return below;
  if (x >= -table.low) return above;
  return at(table, (x - table.low) * table.per_unit);
}

float exp_by_table(const Table& table, float x) {
  if (x < -104) return 0;
  if (x > 89) return std::numeric_limits<float>::infinity();
  const float t = x * kLog2E, whole = std::floor(t);
  return std::ldexp(at(table, (t - whole) * kEntries), static_cast<int>(whole));
}

}  // namespace

float look_up(UnaryFn fn, float x) {
  if (x != x) return std::bit_cast<float>(kNan);
  // Constants, made when they are first looked at; in the default mode, whichever the caller is in.
  static const auto powers = [](double i) { return exponential(i * 0.69314718055994530942); };
  static const Table exp = make_table(0, 1, powers), tanh = make_table(-8, 16, tangent),
                     sigm = make_table(-16, 32, logistic), gelus = make_table(-8, 16, gelu);
  switch (fn) {
    case UnaryFn::kExp: return exp_by_table(exp, x);
    case UnaryFn::kTanh: return between(tanh, x, -1, 1);
    case UnaryFn::kSigm: return between(sigm, x, 0, 1);
    case UnaryFn::kGelu: return between(gelus, x, -0.0f, x);
    default: break;
  }
  CHECK(false);
  return 0;
}

}  // namespace lw::npu
