// Problem: a peer must be asked for what a program computes, and programs have no operator names
// that could be trusted. So a program is read as at most one contraction (a sum of products of two
// reads) and what happens to its result, or to an input where there is none:
//   1. the contraction's axes are classed by who reads them: batch (both and the result), m, n, k;
//      neighbours whose strides compose are merged, and what is left must be one m, one n, one k;
//      indices with several axes (windows) are a convolution's (match/convolution.cc);
//   2. the rest is a Flow (flow.h), named by comparing its values with the functions that libraries
//      have (known_functions.h).
// A program that fits nothing gives monostate: no peers.
#include "src/peers/match/match.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/access.h"
#include "src/peers/match/access.h"
#include "src/peers/match/attention.h"
#include "src/peers/match/convolution.h"
#include "src/peers/match/flow.h"
#include "src/peers/match/known_functions.h"

namespace lw {
namespace {

PeerView view(const Program& program, int tensor, std::vector<int64_t> strides) {
  PeerType type = PeerType::kF32;
  switch (program.tensors[tensor].type) {
    case Type::kBF16: type = PeerType::kBF16; break;
    case Type::kU8: type = PeerType::kU8; break;
    case Type::kI8: type = PeerType::kI8; break;
    case Type::kI32: type = PeerType::kI32; break;
    default: break;
  }
  return {argument_of(program, tensor), std::move(strides), program.tensors[tensor].is_const, type};
}

// The products of narrow types that libraries have: nothing else may be in the program.
bool is_narrow_product(const Program& program) {
  const std::vector<int> in = inputs(program);
  const std::vector<int> out = outputs(program);
  if (in.size() != 2 || out.size() != 1 || program.tensors.size() != 3) return false;
  const Type a = program.tensors[in[0]].type, b = program.tensors[in[1]].type;
  const Type c = program.tensors[out[0]].type;
  const bool bytes = c == Type::kI32 && ((a == Type::kU8 && b == Type::kI8) ||
                                         (a == Type::kI8 && b == Type::kU8));
  return bytes || (c == Type::kF32 && a == Type::kBF16 && b == Type::kBF16);
}

// Strides of `tensor` per label of the flow's source; 0 where it does not vary.
std::vector<int64_t> strides_by_label(const Program& program, const Flow& flow, int tensor) {
  std::vector<int64_t> result(program.tensors[flow.source].shape.size(), 0);
  const std::vector<int64_t> strides = dense_strides(program.tensors[tensor].shape);
  for (size_t d = 0; d < strides.size(); ++d)
    if (flow.labels[tensor][d] >= 0) result[flow.labels[tensor][d]] = strides[d];
  return result;
}

// An axis of a contraction: strides in the two operands and in the result.
struct Loop {
  int64_t extent = 1;
  std::array<int64_t, 3> strides = {};     // a, b, c
};

// Merges neighbours (outer first) that step as one loop through all three tensors.
std::vector<Loop> merged(std::vector<Loop> loops) {
  std::vector<Loop> result;
  for (const Loop& loop : loops) {
    bool joins = !result.empty();
    for (int t = 0; t < 3 && joins; ++t)
      joins = result.back().strides[t] == loop.strides[t] * loop.extent;
    if (joins)
      result.back() = {result.back().extent * loop.extent, loop.strides};
    else
      result.push_back(loop);
  }
  return result;
}

bool has_window(const ExprNode& read) {
  return std::any_of(read.args.begin(), read.args.end(), [](const Expr& index) {
    const IndexForm form = index_form(index);
    const auto moves = [](const IndexForm::Term& term) { return term.factor != 0; };
    return !form.affine || std::count_if(form.terms.begin(), form.terms.end(), moves) > 1;
  });
}

// The contraction's loops in the order of the result, reduction last (outer first by stride in a).
std::optional<std::vector<Loop>> contraction_loops(const Program& program, const Flow& flow,
                                                   const Product& product) {
  const Tensor& tensor = program.tensors[flow.source];
  const int axis_count = static_cast<int>(tensor.axes.size() + tensor.reduce_axes.size());
  const std::vector<int64_t> out = strides_by_label(program, flow, flow.output);
  std::vector<Loop> loops(axis_count);
  for (int i = 0; i < axis_count; ++i) {
    const size_t spatial = tensor.axes.size();
    const bool reduced = static_cast<size_t>(i) >= spatial;
    loops[i].extent = reduced ? tensor.reduce_axes[i - spatial].extent : tensor.axes[i].extent;
    if (!reduced) loops[i].strides[2] = out[i];
  }
  for (int operand = 0; operand < 2; ++operand) {
    const Expr& read = operand == 0 ? product.left : product.right;
    if (read->op != ExprOp::kRead || has_window(*read)) return std::nullopt;
    const std::optional<LinearRead> linear = linear_read(program, *read, axis_count);
    if (!linear || linear->offset != 0) return std::nullopt;
    for (int i = 0; i < axis_count; ++i) loops[i].strides[operand] = linear->strides[i];
  }
  loops.erase(std::remove_if(loops.begin(), loops.end(),
                             [](const Loop& loop) { return loop.extent == 1; }),
              loops.end());
  return loops;
}

struct GemmLoops {
  std::vector<Loop> batch;
  Loop m, n, k;
  bool swapped = false;                    // the left read is B
};

std::optional<GemmLoops> gemm_loops(std::vector<Loop> loops) {
  GemmLoops result;
  const auto varies = [](const Loop& l, int t) { return l.strides[t] != 0; };
  // B is the operand whose own axis the result has innermost.
  for (const Loop& l : loops)
    if (l.strides[2] == 1 && varies(l, 0) && !varies(l, 1)) result.swapped = true;
  if (result.swapped)
    for (Loop& l : loops) std::swap(l.strides[0], l.strides[1]);
  std::stable_sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) {
    return std::pair(a.strides[2], a.strides[0]) > std::pair(b.strides[2], b.strides[0]);
  });
  std::vector<Loop> batch, m, n, k;
  for (const Loop& l : loops) {
    const bool a = varies(l, 0), b = varies(l, 1), c = varies(l, 2);
    if (!c && a && b) k.push_back(l);
    else if (c && a && b) batch.push_back(l);
    else if (c && a) m.push_back(l);
    else if (c && b) n.push_back(l);
    else return std::nullopt;
  }
  m = merged(m), n = merged(n), k = merged(k);
  if (k.size() != 1 || n.size() > 1) return std::nullopt;
  result.k = k[0];
  if (!n.empty()) result.n = n[0];
  while (m.size() > 1) {                   // outer rows that do not merge: B is the same for all
    batch.push_back(m.front());
    m.erase(m.begin());
  }
  if (!m.empty()) result.m = m[0];
  result.batch = merged(batch);
  return result;
}

PeerCase match_gemm(const Program& program, const Flow& flow, const Product& product) {
  if (product.condition) return {};
  const std::optional<std::vector<Loop>> loops = contraction_loops(program, flow, product);
  if (!loops) return {};
  const std::optional<GemmLoops> split = gemm_loops(*loops);
  if (!split) return {};
  const int last = static_cast<int>(program.tensors[flow.source].shape.size()) - 1;
  std::optional<KnownEpilogue> epilogue = KnownEpilogue{};
  if (flow.output != flow.source) epilogue = known_epilogue(program, flow, last);
  if (!epilogue) return {};
  // Bias and softmax run along the result's last dimension, which must be n and nothing else.
  if (epilogue->kind >= PeerEpilogue::kBias &&
      (last < 0 || program.tensors[flow.source].shape[last] != split->n.extent))
    return {};

  PeerGemm gemm;
  gemm.m = split->m.extent, gemm.n = split->n.extent, gemm.k = split->k.extent;
  const int left = product.left->index, right = product.right->index;
  gemm.a = view(program, split->swapped ? right : left, {});
  gemm.b = view(program, split->swapped ? left : right, {});
  gemm.c = view(program, flow.output, {});
  for (const Loop& l : split->batch) {
    gemm.batch.push_back(l.extent);
    gemm.a.strides.push_back(l.strides[0]);
    gemm.b.strides.push_back(l.strides[1]);
    gemm.c.strides.push_back(l.strides[2]);
  }
  for (int64_t s : {split->m.strides[0], split->k.strides[0]}) gemm.a.strides.push_back(s);
  for (int64_t s : {split->k.strides[1], split->n.strides[1]}) gemm.b.strides.push_back(s);
  for (int64_t s : {split->m.strides[2], split->n.strides[2]}) gemm.c.strides.push_back(s);
  gemm.epilogue = epilogue->kind;
  if (epilogue->scale >= 0) gemm.scale = view(program, epilogue->scale, {1});
  if (epilogue->bias >= 0) gemm.bias = view(program, epilogue->bias, {1});
  return gemm;
}

// Dimensions of extent 1 dropped, neighbours that step as one merged; kept apart by `reduced`.
void simplify(std::vector<int64_t>* dims, std::vector<bool>* reduced, PeerView* x, PeerView* y) {
  std::vector<int64_t> d, xs, ys;
  std::vector<bool> r;
  for (size_t i = 0; i < dims->size(); ++i) {
    const int64_t extent = (*dims)[i], sx = x->strides[i], sy = y->strides[i];
    if (extent == 1) continue;
    if (!d.empty() && r.back() == (*reduced)[i] && xs.back() == sx * extent &&
        ys.back() == sy * extent) {
      d.back() *= extent, xs.back() = sx, ys.back() = sy;
    } else {
      d.push_back(extent), xs.push_back(sx), ys.push_back(sy), r.push_back((*reduced)[i]);
    }
  }
  *dims = d, *reduced = r, x->strides = xs, y->strides = ys;
}

PeerCase match_rows(const Program& program, const Flow& flow) {
  const std::vector<int64_t>& shape = program.tensors[flow.source].shape;
  const int rank = static_cast<int>(shape.size());
  for (size_t i = 0; i < flow.reduced.size(); ++i)  // trailing dimensions, the result laid out as x
    if (flow.reduced[i] != rank - static_cast<int>(flow.reduced.size() - i)) return {};
  const std::vector<int64_t> plain = dense_strides(shape);
  const std::vector<int64_t> out = strides_by_label(program, flow, flow.output);
  for (int d = 0; d < rank; ++d)
    if (shape[d] > 1 && out[d] != plain[d]) return {};
  const std::optional<KnownRows> known = known_rows(program, flow);
  if (!known) return {};
  PeerRows rows;
  rows.kind = known->kind;
  rows.epsilon = known->epsilon;
  rows.columns = flow.group;
  rows.rows = elements(program.tensors[flow.source]) / flow.group;
  rows.x = view(program, flow.source, {rows.columns, 1});
  rows.y = view(program, flow.output, {rows.columns, 1});
  if (known->gamma >= 0) rows.gamma = view(program, known->gamma, {1});
  if (known->beta >= 0) rows.beta = view(program, known->beta, {1});
  return rows;
}

PeerCase match_reduction(const Program& program, const Flow& flow) {
  const std::optional<PeerReduction::Kind> kind = known_reduction(program, flow);
  if (!kind) return {};
  PeerReduction reduction;
  reduction.kind = *kind;
  reduction.dims = program.tensors[flow.source].shape;
  reduction.reduced.assign(reduction.dims.size(), false);
  for (int label : flow.reduced) reduction.reduced[label] = true;
  reduction.x = view(program, flow.source, dense_strides(reduction.dims));
  reduction.y = view(program, flow.output, strides_by_label(program, flow, flow.output));
  simplify(&reduction.dims, &reduction.reduced, &reduction.x, &reduction.y);
  return reduction;
}

PeerCase match_unary(const Program& program, const Flow& flow) {
  const std::optional<KnownUnary> known = known_unary(program, flow);
  if (!known) return {};
  PeerTranspose copy;
  copy.dims = program.tensors[flow.source].shape;
  copy.x = view(program, flow.source, dense_strides(copy.dims));
  copy.y = view(program, flow.output, strides_by_label(program, flow, flow.output));
  std::vector<bool> reduced(copy.dims.size(), false);
  simplify(&copy.dims, &reduced, &copy.x, &copy.y);
  if (known->identity) return copy;
  if (copy.dims.size() > 1) return {};     // a function and a transposition at once
  PeerUnary unary;
  unary.kind = known->kind;
  unary.elements = elements(program.tensors[flow.source]);
  unary.x = copy.x, unary.y = copy.y;
  return unary;
}

// Without a contraction: the source is an input that the single output depends on.
PeerCase match_simple(const Program& program) {
  for (int source : inputs(program)) {
    const std::optional<Flow> flow = trace_flow(program, source);
    if (!flow) continue;
    const std::optional<bool> full = varies(program, *flow, flow->output);
    if (!full) continue;
    PeerCase found = flow->reduced.empty() ? match_unary(program, *flow)
                     : *full               ? match_rows(program, *flow)
                                           : match_reduction(program, *flow);
    if (found.index() != 0) return found;
  }
  return {};
}

bool is_contraction(const Tensor& tensor) {
  if (!tensor.body || tensor.reduce != Reduce::kSum) return false;
  const Product product = product_of_reads(tensor.body);
  if (!product.left) return false;
  const bool same_read = product.left->op == ExprOp::kRead && product.right->op == ExprOp::kRead &&
                         product.left->index == product.right->index;
  return !same_read || bare_axes(*product.left) != bare_axes(*product.right);
}

const char* epilogue_name(PeerEpilogue epilogue) {
  static const char* const kNames[] = {"", ", relu", ", gelu", ", gelu (tanh)", ", bias",
                                       ", bias + relu", ", bias + gelu", ", bias + gelu (tanh)",
                                       ", scale + shift + relu", ", softmax"};
  return kNames[static_cast<int>(epilogue)];
}

std::string by(const std::vector<int64_t>& dims) { return absl::StrJoin(dims, " x "); }

struct Describer {
  std::string operator()(const std::monostate&) const { return "nothing a library knows"; }
  std::string operator()(const PeerGemm& g) const {
    return absl::StrCat("gemm ", g.batch.empty() ? "" : absl::StrCat(by(g.batch), " of "), g.m,
                        " x ", g.n, " x ", g.k,
                        is_f32(g) ? "" : g.c.type == PeerType::kI32 ? ", u8 by i8" : ", bf16",
                        epilogue_name(g.epilogue));
  }
  std::string operator()(const PeerReduction& r) const {
    static const char* const kNames[] = {"sum", "mean", "max", "min", "sum of squares", "2-norm"};
    std::string text = absl::StrCat(kNames[static_cast<int>(r.kind)], " of ");
    for (size_t i = 0; i < r.dims.size(); ++i)
      absl::StrAppend(&text, i ? " x " : "", r.dims[i], r.reduced[i] ? " (reduced)" : "");
    return text;
  }
  std::string operator()(const PeerRows& r) const {
    static const char* const kNames[] = {"softmax", "layer norm", "rms norm"};
    return absl::StrCat(kNames[static_cast<int>(r.kind)], " ", r.rows, " x ", r.columns);
  }
  std::string operator()(const PeerTranspose& t) const {
    return absl::StrCat("transpose ", by(t.dims));
  }
  std::string operator()(const PeerUnary& u) const {
    static const char* const kNames[] = {"relu", "gelu",    "gelu (tanh)", "tanh",
                                         "exp",  "sigmoid", "sqrt",        "abs"};
    return absl::StrCat(kNames[static_cast<int>(u.kind)], " of ", u.elements);
  }
  std::string operator()(const PeerConvolution& c) const {
    return absl::StrCat(c.transposed ? "transposed " : "", "convolution of ", c.batch, " x ",
                        by(c.in), " x ", c.groups, " x (", c.in_channels, " -> ", c.out_channels,
                        "), kernel ", by(c.kernel), epilogue_name(c.epilogue));
  }
  std::string operator()(const PeerAttention& a) const {
    return absl::StrCat("attention ", a.batch.empty() ? "" : absl::StrCat(by(a.batch), " of "),
                        a.queries, " x ", a.keys, " x ", a.depth, " -> ", a.columns);
  }
};

}  // namespace

PeerCase match_peer_case(const Program& program) {
  int contraction = -1, before = -1, contractions = 0;
  const bool narrow = is_narrow_product(program);
  for (int t : arguments(program))
    if (program.tensors[t].type != Type::kF32 && !narrow) return {};
  if (outputs(program).size() != 1) return {};
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].body && program.tensors[t].type != Type::kF32 && !narrow) return {};
    if (!is_contraction(program.tensors[t])) continue;
    before = std::exchange(contraction, static_cast<int>(t));
    ++contractions;
  }
  if (contractions == 0) return narrow ? PeerCase() : match_simple(program);
  if (contractions == 2) return match_attention(program, before, contraction);
  if (contractions > 1) return {};
  const Product product = product_of_reads(program.tensors[contraction].body);
  const std::optional<Flow> flow = trace_flow(program, contraction);
  if (!flow) return {};
  for (const Expr& operand : {product.left, product.right})
    if (operand->op == ExprOp::kRead && program.tensors[operand->index].role != Role::kInput)
      return {};                           // something is done to an operand first
  PeerCase gemm = match_gemm(program, *flow, product);
  return gemm.index() != 0 || narrow ? gemm : match_convolution(program, *flow, product);
}

std::string describe(const PeerCase& description) { return std::visit(Describer(), description); }

}  // namespace lw
