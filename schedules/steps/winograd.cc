// winograd(Y, y; 2)
//   before  Y[y, c] = sum[r: 3, k](X[y + r - 1, k] * F[r, k, c])
//   after   Y.w[y.e: 4, k, c]   = sum over r of G[y.e, r] * F[r, k, c]
//           Y.d[y.e: 4, y.t, k] = sum over i of B[y.e, i] * X[2 * y.t + i - 1, k]
//           Y.p[y.e: 4, y.t, c] = sum[k](Y.d[y.e, y.t, k] * Y.w[y.e, k, c])
//           Y[y, c]             = sum over e of A[y % 2, e] * Y.p[e, y / 2, c]
// Winograd's minimal filtering F(m, 3) along one axis: m neighbouring results of a window of 3 taps
// are a product of polynomials, which m + 2 multiplications at as many points (0, 1, -1, 2, -2 and
// infinity) determine, not 3 m. The number is m: 2 (4 multiplications for 6) or 4 (6 for 12). The
// sums that move to the points and back have constant weights and are written out, those that two
// rows share once. Y.p is a convolution along the other axes, so the same step on Y.p and x gives
// F(m x m, 3 x 3): 16 multiplications for 36, 36 for 144.
//
// It applies to whatever is a sum of products of which one factor, the data, moves along the axis
// as along a reduction of 3 points: X[y + r - 1], in any layout, padded or not, any extent. Windows
// along other axes of the data (x + s) become one axis of Y.d, so nothing is stored twice; other
// sums of axes (strides, dilations, groups) are refused. Weights that are const are transformed
// once, before the timed calls.
//
// Rounding errors are larger than those of the direct sum: the points' powers cancel. How much is
// Nest::error_growth, see growth(); an infinite input makes all m results of its tile NaN.
// Integers are refused: halves and sixths are none.
#include <algorithm>
#include <cmath>

#include "schedules/access.h"
#include "schedules/legality.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

constexpr int64_t kTaps = 3;

using Matrix = std::vector<std::vector<double>>;
struct Transform {
  Matrix to_weights, to_data, to_result;   // G, B^T, A^T of Lavin and Gray, 2016
};

const Transform* find_transform(int64_t m) {
  static const Transform two = {
      {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
      {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
      {{1, 1, 1, 0}, {0, 1, -1, -1}}};
  static const Transform four = {
      {{1. / 4, 0, 0}, {-1. / 6, -1. / 6, -1. / 6}, {-1. / 6, 1. / 6, -1. / 6},
       {1. / 24, 1. / 12, 1. / 6}, {1. / 24, -1. / 12, 1. / 6}, {0, 0, 1}},
      {{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0}, {0, -2, -1, 2, 1, 0},
       {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}},
      {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}}};
  return m == 2 ? &two : m == 4 ? &four : nullptr;
}

double length(const std::vector<double>& row) {
  double squares = 0;
  for (double value : row) squares += value * value;
  return std::sqrt(squares);
}

// How much larger the error is than that of 3 products: the root mean square, for independent
// inputs of one size, of what the products at the points add up to in the worst row of the result.
double growth(const Transform& t) {
  double worst = 0;
  for (const std::vector<double>& row : t.to_result) {
    std::vector<double> terms;
    for (size_t e = 0; e < row.size(); ++e)
      terms.push_back(row[e] * length(t.to_weights[e]) * length(t.to_data[e]));
    worst = std::max(worst, length(terms));
  }
  return worst / std::sqrt(static_cast<double>(kTaps));
}

// The sum of weights * values; null where all weights are 0.
Expr weighted(const std::vector<double>& weights, const std::vector<Expr>& values) {
  Expr sum;
  for (const bool negative : {false, true}) {
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0 || (weights[i] < 0) != negative) continue;
      const double size = std::abs(weights[i]);
      const Expr term =
          make_binary(ExprOp::kMul, values[i], make_const(values[i]->type, size));
      if (sum != nullptr) {
        sum = make_binary(negative ? ExprOp::kSub : ExprOp::kAdd, sum, term);
      } else {
        sum = negative ? make_unary(ExprOp::kNeg, term) : term;
      }
    }
  }
  return sum;
}

// Two rows a + b and a - b share a and b.
bool add_pair(const std::vector<double>& first, const std::vector<double>& second,
              const std::vector<Expr>& values, std::vector<Expr>& rows) {
  std::vector<double> same(first.size(), 0), opposite(first.size(), 0);
  for (size_t i = 0; i < first.size(); ++i) {
    if (std::abs(first[i]) != std::abs(second[i])) return false;
    (first[i] == second[i] ? same : opposite)[i] = first[i];
  }
  const Expr a = weighted(same, values), b = weighted(opposite, values);
  if (a == nullptr || b == nullptr) return false;
  rows.push_back(make_binary(ExprOp::kAdd, a, b));
  rows.push_back(make_binary(ExprOp::kSub, a, b));
  return true;
}

// Every row's sum. Columns that differ in their signs only are added and subtracted once for all.
std::vector<Expr> apply_matrix(Matrix matrix, std::vector<Expr> values) {
  for (size_t c = 0; c + 1 < values.size(); ++c) {
    const auto paired = [&](const std::vector<double>& row) {
      return std::abs(row[c]) == std::abs(row[c + 1]);
    };
    const auto used = [&](const std::vector<double>& row) { return row[c] != 0; };
    if (!std::all_of(matrix.begin(), matrix.end(), paired) ||
        std::count_if(matrix.begin(), matrix.end(), used) < 2) {
      continue;
    }
    const Expr a = values[c], b = values[c + 1];
    values[c] = make_binary(ExprOp::kAdd, a, b);
    values[c + 1] = make_binary(ExprOp::kSub, a, b);
    for (std::vector<double>& row : matrix) {
      const bool same = row[c] == row[c + 1];
      row[c + 1] = same ? 0 : row[c];
      row[c] = same ? row[c] : 0;
    }
    ++c;
  }
  std::vector<Expr> rows;
  while (rows.size() < matrix.size()) {
    const size_t r = rows.size();
    if (r + 1 < matrix.size() && add_pair(matrix[r], matrix[r + 1], values, rows)) continue;
    rows.push_back(weighted(matrix[r], values));
  }
  return rows;
}

// rows[number].
Expr choose(const Expr& number, const std::vector<Expr>& rows) {
  Expr chosen = rows.back();
  for (size_t r = rows.size() - 1; r-- > 0;) {
    const Expr here =
        make_binary(ExprOp::kEq, number, make_int(Type::kI64, static_cast<int64_t>(r)));
    chosen = make_select(here, rows[r], chosen);
  }
  return chosen;
}

bool uses_axis(const Expr& expr, int axis) {
  bool found = false;
  visit(expr, [&](const ExprNode& e) {
    found = found || (e.op == ExprOp::kAxis && e.index == axis);
  });
  return found;
}

// Axes in order of their first occurrence: that of the dimensions of what is read first.
std::vector<int> axes_of(const Expr& expr) {
  std::vector<int> axes;
  visit(expr, [&](const ExprNode& e) {
    if (e.op != ExprOp::kAxis || std::find(axes.begin(), axes.end(), e.index) != axes.end()) return;
    axes.push_back(e.index);
  });
  return axes;
}

// Whether the value depends on the axes a and b by multiples of a + b only.
bool moves_alike(const Expr& expr, int a, int b) {
  if (expr->type == Type::kI64) {
    const IndexForm form = index_form(expr);
    if (form.affine) return step_of(form, a) == step_of(form, b);
  }
  return std::all_of(expr->args.begin(), expr->args.end(),
                     [&](const Expr& arg) { return moves_alike(arg, a, b); });
}

// Whether some index is made of several axes.
bool adds_axes(const Expr& expr) {
  if (expr->type == Type::kI64 && expr->op != ExprOp::kRead) return axes_of(expr).size() > 1;
  return std::any_of(expr->args.begin(), expr->args.end(), adds_axes);
}

bool reads_unprotected(const Expr& expr) {
  if (expr->op == ExprOp::kRead || expr->op == ExprOp::kPad) return expr->op == ExprOp::kRead;
  return std::any_of(expr->args.begin(), expr->args.end(), reads_unprotected);
}

// The body as data * weights: the factors that the axis moves, and the others.
void split_product(const Expr& body, int axis, Expr& data, Expr& weights) {
  if (body->op == ExprOp::kMul) {
    for (const Expr& factor : body->args) split_product(factor, axis, data, weights);
    return;
  }
  Expr& side = uses_axis(body, axis) ? data : weights;
  side = side == nullptr ? body : make_binary(ExprOp::kMul, side, body);
}

// A convolution along one axis, over the axes of its tensor.
struct Convolution {
  int axis = -1, taps = -1;                // Y's y and r
  Expr data, weights;                      // data as it is where r and `merged` are 0
  std::vector<std::pair<int, int>> merged; // other windows: x and s
};

absl::StatusOr<Convolution> find_convolution(const Tensor& y, int axis) {
  const int spatial = static_cast<int>(y.axes.size());
  const int count = spatial + static_cast<int>(y.reduce_axes.size());
  if (y.reduce != Reduce::kSum || y.body->op != ExprOp::kMul)
    return infeasible(concat(y.name, " is no sum of products"));
  if (y.type != Type::kF32 && y.type != Type::kF64)
    return infeasible(concat(y.name, " is of type ", type_name(y.type), ", not f32 or f64"));
  Convolution c;
  c.axis = axis;
  split_product(y.body, axis, c.data, c.weights);
  const std::string& name = y.axes[axis].name;
  if (c.data == nullptr || c.weights == nullptr)
    return infeasible(concat("of the factors of ", y.name, " not one moves along ", name));
  const auto window = [&](int a) {
    for (int r = spatial; r < count; ++r) {
      if (uses_axis(c.data, r) && moves_alike(c.data, a, r)) return r;
    }
    return -1;
  };
  c.taps = window(axis);
  if (c.taps < 0)
    return infeasible(concat("no reduction moves the data of ", y.name, " as ", name, " does"));
  const Axis& taps = y.reduce_axes[c.taps - spatial];
  if (taps.extent != kTaps)
    return infeasible(concat("the window ", taps.name, " has ", taps.extent, " taps, not 3"));
  std::vector<Expr> zero(count);
  zero[c.taps] = make_int(Type::kI64, 0);
  for (int a = 0; a < spatial; ++a) {
    const int other = a == axis || !uses_axis(c.data, a) ? -1 : window(a);
    if (other < 0 || other == c.taps) continue;
    zero[other] = zero[c.taps];
    c.merged.push_back({a, other});
  }
  c.data = substitute(c.data, zero);
  if (adds_axes(c.data))
    return infeasible(concat("the data of ", y.name, " are read at sums of axes"));
  return c;
}

// Writes the tensors of the rewritten program; tensor numbers are those before it.
class Rewriter {
 public:
  Rewriter(const Program& program, int tensor, Convolution c, int64_t m, const Transform& transform)
      : program_(program),
        y_(program.tensors[tensor]),
        c_(std::move(c)),
        m_(m),
        transform_(transform),
        spatial_(static_cast<int>(y_.axes.size())) {
    points_ = {concat(y_.axes[c_.axis].name, ".e"), m + kTaps - 1};
    const int64_t extent = y_.axes[c_.axis].extent;
    tiles_ = {concat(y_.axes[c_.axis].name, ".t"), (extent + m - 1) / m};
  }

  Tensor weights() const {
    std::vector<int> order = axes_of(c_.weights);
    std::erase(order, c_.taps);
    Tensor w = make_tensor(".w", order);
    std::vector<Expr> taps;
    for (int64_t r = 0; r < kTaps; ++r) {
      std::vector<Expr> at = places(order, 1);
      at[c_.taps] = make_int(Type::kI64, r);
      taps.push_back(substitute(c_.weights, at));
    }
    w.body = choose(make_axis(0), apply_matrix(transform_.to_weights, taps));
    const std::vector<int> reads = reads_of(w);
    w.is_const = !reads.empty() && std::all_of(reads.begin(), reads.end(), [&](int t) {
      return program_.tensors[t].is_const;
    });
    return w;
  }

  Tensor data() const {
    const std::vector<int> order = axes_of(c_.data);
    Tensor d = make_tensor(".d", order);
    const int64_t inputs = y_.axes[c_.axis].extent + kTaps - 1;
    std::vector<Expr> values;
    for (int64_t i = 0; i < points_.extent; ++i) {
      std::vector<Expr> at = places(order, 1);
      const Expr first = make_binary(ExprOp::kMul, at[c_.axis], make_int(Type::kI64, m_));
      at[c_.axis] = make_binary(ExprOp::kAdd, first, make_int(Type::kI64, i));
      Expr value = substitute(c_.data, at);
      // The last tile may reach past the data: what is there decides no result.
      if ((tiles_.extent - 1) * m_ + i >= inputs && reads_unprotected(value)) {
        const Expr inside =
            make_binary(ExprOp::kLt, at[c_.axis], make_int(Type::kI64, inputs));
        value = make_select(inside, value, make_const(value->type, 0));
      }
      values.push_back(value);
    }
    d.body = choose(make_axis(0), apply_matrix(transform_.to_data, values));
    return d;
  }

  // `weights`, `data`: numbers of those tensors.
  Tensor products(int weights, int data) const {
    std::vector<int> axes;
    for (int a = 0; a < spatial_; ++a) axes.push_back(a);
    Tensor p = make_tensor(".p", axes);
    for (int r = 0; r < static_cast<int>(y_.reduce_axes.size()); ++r) {
      if (spatial_ + r == c_.taps) continue;
      p.reduce_axes.push_back(y_.reduce_axes[r]);
      axes.push_back(spatial_ + r);
    }
    if (!p.reduce_axes.empty()) p.reduce = Reduce::kSum;
    std::vector<Expr> at = places(axes, 1);
    const auto read = [&](int tensor, const Expr& factor) {
      std::vector<Expr> indices = {make_axis(0)};
      for (int a : axes_of(factor)) {
        if (a != c_.taps) indices.push_back(at[a]);
      }
      return make_read(tensor, factor->type, std::move(indices));
    };
    const Expr by = read(weights, c_.weights);
    for (const auto& [a, r] : c_.merged) at[a] = make_binary(ExprOp::kAdd, at[a], at[r]);
    p.body = make_binary(ExprOp::kMul, read(data, c_.data), by);
    return p;
  }

  // The body of Y itself.
  Expr result(int products) const {
    const Expr m = make_int(Type::kI64, m_), y = make_axis(c_.axis);
    std::vector<Expr> values;
    for (int64_t e = 0; e < points_.extent; ++e) {
      std::vector<Expr> indices = {make_int(Type::kI64, e)};
      for (int a = 0; a < spatial_; ++a) {
        indices.push_back(a == c_.axis ? make_binary(ExprOp::kDiv, y, m) : make_axis(a));
      }
      values.push_back(make_read(products, y_.type, std::move(indices)));
    }
    return choose(make_binary(ExprOp::kMod, y, m), apply_matrix(transform_.to_result, values));
  }

 private:
  // Where the axes in `order` are among those of a tensor, from position `first`.
  std::vector<Expr> places(const std::vector<int>& order, int first) const {
    std::vector<Expr> at(y_.axes.size() + y_.reduce_axes.size());
    for (size_t n = 0; n < order.size(); ++n) at[order[n]] = make_axis(first + static_cast<int>(n));
    return at;
  }

  // Over the points, then the axes in `order`.
  Tensor make_tensor(const char* suffix, const std::vector<int>& order) const {
    Tensor t;
    t.name = concat(y_.name, suffix);
    t.type = y_.type;
    t.axes = {points_};
    for (int a : order) {
      t.axes.push_back(a == c_.axis     ? tiles_
                       : a < spatial_ ? y_.axes[a]
                                      : y_.reduce_axes[a - spatial_]);
      if (std::string_view(suffix) != ".d") continue;
      for (const auto& [spatial, taps] : c_.merged) {
        if (a == spatial) t.axes.back().extent += y_.reduce_axes[taps - spatial_].extent - 1;
      }
    }
    for (const Axis& axis : t.axes) t.shape.push_back(axis.extent);
    return t;
  }

  const Program& program_;
  const Tensor& y_;
  const Convolution c_;
  const int64_t m_;
  const Transform& transform_;
  const int spatial_;
  Axis points_, tiles_;
};

absl::Status apply_winograd(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 1, 1}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  const int64_t m = step.numbers[0];
  const Transform* transform = find_transform(m);
  if (transform == nullptr) return infeasible(concat("no transform for ", m, " results at a time"));
  if (!is_unscheduled(nest, stage))
    return infeasible(concat(nest.stages[stage].name, " has been scheduled"));
  ASSIGN_OR_RETURN(const int loop, loop_position(nest.stages[stage], step.names[1]));
  const int axis = nest.stages[stage].loops[loop].parts[0].axis;
  if (nest.stages[stage].axes[axis].reduction)
    return infeasible(concat(step.names[1], " is a reduction"));
  const std::shared_ptr<const Program> before = nest.program;
  const int t = nest.stages[stage].tensor;
  if (body_reads(nest, stage) != reads_of(before->tensors[t]))
    return infeasible(concat("producers of ", nest.stages[stage].name, " are inlined"));
  ASSIGN_OR_RETURN(Convolution c, find_convolution(before->tensors[t], axis));
  const Rewriter rewriter(*before, t, std::move(c), m, *transform);
  insert_tensor(nest, t, rewriter.weights());
  insert_tensor(nest, t + 1, rewriter.data());
  insert_tensor(nest, t + 2, rewriter.products(t, t + 1));
  auto program = std::make_shared<Program>(*nest.program);
  program->tensors[t + 3].reduce = Reduce::kNone;
  program->tensors[t + 3].reduce_axes.clear();
  program->tensors[t + 3].body = rewriter.result(t + 2);
  nest.program = program;
  // What protected a read may have been a condition on y and r that no longer shows it.
  if (const absl::Status status = verify(*program); !status.ok())
    return infeasible(std::string(status.message()));
  nest.stages[stage] = make_stage(*program, t + 3);
  for (int n = 0; n < 3; ++n) insert_stage(nest, stage + n, make_stage(*program, t + n));
  if (program->tensors[t].is_const) nest.stages[stage].place = Place::kPrepack;
  nest.error_growth *= growth(*transform);
  return absl::OkStatus();
}

std::vector<Decision> winograd_domain(const Nest&, const Step&) { return {{2}, {4}}; }

}  // namespace

const StepKind& winograd() {
  static constexpr StepKind kind = {"winograd", 1, apply_winograd, winograd_domain};
  return kind;
}

}  // namespace lw
