// Problem: attention divides by the sum of the exponentials before or after the second product, and
// writes its softmax in any form. So only the two products are read by structure. What lies between
// them is made a program of its own, whose values are compared with softmax (known_functions.h):
// that of the weights that the second product reads, divided where the result is.
#include "src/peers/match/attention.h"

#include <array>
#include <cmath>
#include <optional>

#include "src/peers/match/access.h"
#include "src/peers/match/flow.h"
#include "src/peers/match/known_functions.h"

namespace lw {
namespace {

// Reads of an input whose address is linear in the axes, without an offset; strides per axis.
std::optional<std::vector<int64_t>> input_strides(const Program& program, const Expr& read,
                                                  int axes) {
  if (read->op != ExprOp::kRead || program.tensors[read->index].role != Role::kInput) return {};
  const std::optional<LinearRead> linear = linear_read(program, *read, axes);
  if (!linear || linear->offset != 0) return {};
  return linear->strides;
}

PeerView view(const Program& program, int tensor, const std::vector<int64_t>& strides, int batch,
              std::array<int, 2> last) {
  PeerView v{argument_of(program, tensor), {}, program.tensors[tensor].is_const};
  v.strides.assign(strides.begin(), strides.begin() + batch);
  for (int axis : last) v.strides.push_back(strides[axis]);
  return v;
}

bool at_own_axes(const ExprNode& read, int rank) {
  const std::vector<int> axes = bare_axes(read);
  for (int d = 0; d < static_cast<int>(axes.size()); ++d)
    if (axes[d] != d) return false;
  return static_cast<int>(axes.size()) == rank;
}

// The tensor that is a constant times `scores`, and the constant; `scores` and 1 where none is.
std::pair<int, double> scaled(const Program& program, int scores) {
  for (int t = scores + 1; t < static_cast<int>(program.tensors.size()); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.reduce != Reduce::kNone || reads_of(tensor) != std::vector<int>{scores}) continue;
    bool own = true;
    visit(tensor.body, [&](const ExprNode& e) {
      own = own && (e.op != ExprOp::kRead || at_own_axes(e, static_cast<int>(e.args.size())));
    });
    const auto at = [&](double x) { return evaluate(tensor.body, [x](int) { return x; }); };
    const double scale = at(1);
    const bool linear = own && scale > 0 && std::abs(at(-3) + 3 * scale) < 1e-9 * scale &&
                        std::abs(at(0)) < 1e-12;
    if (linear) return {t, scale};
  }
  return {scores, 1};
}

// Whether the weights that the second product reads, with the result's division, are the softmax of
// `scores` over their last axis.
bool softmax_between(const Program& program, int scores, int weights, int second, int output) {
  Program between = program;
  between.tensors.resize(second);
  for (Tensor& tensor : between.tensors)
    if (tensor.role == Role::kOutput) return false;
  if (output == second) {
    between.tensors[weights].role = Role::kOutput;
  } else {
    const Expr& body = program.tensors[output].body;
    if (body->op != ExprOp::kDiv || body->args[0]->op != ExprOp::kRead ||
        body->args[1]->op != ExprOp::kRead)
      return false;
    const ExprNode &top = *body->args[0], &bottom = *body->args[1];
    const int rank = static_cast<int>(program.tensors[output].shape.size());
    if (top.index != second || !at_own_axes(top, rank) || bottom.index >= second ||
        !at_own_axes(bottom, rank - 1))
      return false;
    Tensor divided = program.tensors[weights];
    divided.reduce = Reduce::kNone;
    divided.reduce_axes.clear();
    divided.role = Role::kOutput;
    std::vector<Expr> point;
    for (int d = 0; d < rank; ++d) point.push_back(make_axis(d));
    divided.body = make_binary(ExprOp::kDiv, make_read(weights, divided.type, point),
                               body->args[1]);
    between.tensors.push_back(std::move(divided));
  }
  const std::optional<Flow> flow = trace_flow(between, scores);
  if (!flow) return false;
  const int last = static_cast<int>(program.tensors[scores].shape.size()) - 1;
  const std::optional<KnownEpilogue> known = known_epilogue(between, *flow, last);
  return known && known->kind == PeerEpilogue::kSoftmax;
}

}  // namespace

PeerCase match_attention(const Program& program, int first, int second) {
  const Tensor &scores = program.tensors[first], &sums = program.tensors[second];
  const int rank = static_cast<int>(scores.axes.size()), batch = rank - 2;
  if (rank < 2 || static_cast<int>(sums.axes.size()) != rank || scores.reduce_axes.size() != 1 ||
      sums.reduce_axes.size() != 1)
    return {};
  const int i = rank - 2, j = rank - 1, inner = rank;  // of the scores; of the sums: i, e, j
  Product product = product_of_reads(scores.body), weighted = product_of_reads(sums.body);
  std::optional<std::vector<int64_t>> q = input_strides(program, product.left, rank + 1);
  std::optional<std::vector<int64_t>> k = input_strides(program, product.right, rank + 1);
  if (!q || !k) return {};
  if ((*q)[j] != 0) std::swap(q, k), std::swap(product.left, product.right);
  if (input_strides(program, weighted.left, rank + 1)) std::swap(weighted.left, weighted.right);
  const std::optional<std::vector<int64_t>> v = input_strides(program, weighted.right, rank + 1);
  if (!v || weighted.left->op != ExprOp::kRead) return {};
  if ((*q)[j] != 0 || (*k)[i] != 0 || (*v)[i] != 0) return {};
  std::vector<int> own = bare_axes(*weighted.left), wanted;
  for (int d = 0; d < rank; ++d) wanted.push_back(d == j ? inner : d);
  const int output = outputs(program)[0];
  if (own != wanted || program.tensors[output].shape != sums.shape) return {};
  const auto [source, scale] = scaled(program, first);
  if (!softmax_between(program, source, weighted.left->index, second, output)) return {};

  PeerAttention result;
  for (int d = 0; d < batch; ++d) result.batch.push_back(scores.axes[d].extent);
  result.queries = scores.axes[i].extent, result.keys = scores.axes[j].extent;
  result.depth = scores.reduce_axes[0].extent, result.columns = sums.axes[j].extent;
  result.scale = scale;
  result.q = view(program, product.left->index, *q, batch, {i, inner});
  result.k = view(program, product.right->index, *k, batch, {j, inner});
  result.v = view(program, weighted.right->index, *v, batch, {inner, j});
  std::vector<int64_t> strides(rank, 1);
  for (int d = rank - 2; d >= 0; --d) strides[d] = strides[d + 1] * sums.shape[d + 1];
  result.y = view(program, output, strides, batch, {i, j});
  return result;
}

}  // namespace lw
