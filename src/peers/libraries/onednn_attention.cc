// Attention as oneDNN has it: two matmuls and a softmax with buffers of their own between them, and
// the graph API's fused scaled dot product.
#include <oneapi/dnnl/dnnl_graph.hpp>

#include "src/peers/libraries/onednn.h"

namespace lw::onednn {
namespace {

Dims shape(const PeerAttention& a, int64_t rows, int64_t columns) {
  Dims dims(a.batch.begin(), a.batch.end());
  dims.insert(dims.end(), {rows, columns});
  return dims;
}

PeerView transposed(PeerView view) {
  std::swap(view.strides[view.strides.size() - 1], view.strides[view.strides.size() - 2]);
  return view;
}

using Run = std::function<void()>;

// One matmul; `reorder`: its weights brought in every call into the layout that the library wants.
Run multiply(const Desc& a, dnnl::memory left, const Desc& b, dnnl::memory right, const Desc& c,
             dnnl::memory result, const dnnl::primitive_attr& attributes, bool reorder,
             std::string* implementation) {
  const Desc any(b.get_dims(), kF32, dnnl::memory::format_tag::any);
  const dnnl::matmul::primitive_desc desc(context().engine, a, reorder ? any : b, c, attributes);
  *implementation += std::string(implementation->empty() ? "" : ", ") + desc.impl_info_str();
  const dnnl::matmul primitive(desc);
  Arguments all = {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, result}};
  if (desc.weights_desc() == b)
    return [primitive, all] { primitive.execute(context().stream, all); };
  const dnnl::memory packed(desc.weights_desc(), context().engine);
  const dnnl::reorder move(right, packed);
  all[DNNL_ARG_WEIGHTS] = packed;
  return [primitive, all, move, right, packed] {
    move.execute(context().stream, {{DNNL_ARG_FROM, right}, {DNNL_ARG_TO, packed}});
    primitive.execute(context().stream, all);
  };
}

PeerKernel chain(const PeerAttention& a, void* const* arguments, bool reorder) {
  const PeerView kt = transposed(a.k);
  const Desc q = describe(a.q, shape(a, a.queries, a.depth)),
             k = describe(kt, shape(a, a.depth, a.keys)),
             v = describe(a.v, shape(a, a.keys, a.columns)),
             y = describe(a.y, shape(a, a.queries, a.columns));
  const Dims square = shape(a, a.queries, a.keys);
  Dims strides(square.size(), 1);
  for (size_t d = square.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * square[d + 1];
  const Desc scores(square, kF32, strides);
  const dnnl::memory between(scores, context().engine);

  dnnl::primitive_attr scaling;
  dnnl::post_ops ops;
  ops.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(a.scale), 0);
  scaling.set_post_ops(ops);
  std::string implementation;
  const Run first =
      multiply(q, wrap(q, data_of(a.q, arguments)), k, wrap(k, data_of(a.k, arguments)), scores,
               between, scaling, reorder, &implementation);
  const dnnl::softmax_forward softmax(dnnl::softmax_forward::primitive_desc(
      context().engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate,
      scores, scores, static_cast<int>(square.size()) - 1));
  const Arguments rows = {{DNNL_ARG_SRC, between}, {DNNL_ARG_DST, between}};
  const Run second = multiply(scores, between, v, wrap(v, data_of(a.v, arguments)), y,
                              wrap(y, data_of(a.y, arguments)), {}, reorder, &implementation);
  return {reorder ? "plain_reorder" : "plain", implementation, [first, softmax, rows, second] {
            first();
            softmax.execute(context().stream, rows);
            second();
            context().stream.wait();
          }};
}

// The same as one partition of a graph, where the library fuses it.
std::vector<PeerKernel> fused(const PeerAttention& a, void* const* arguments) {
  namespace graph = dnnl::graph;
  using Tensor = graph::logical_tensor;
  using Operation = graph::op;
  if (a.batch.size() != 2) return {};      // the pattern has batch and heads
  const auto tensor = [](size_t id, const Dims& dims, const Dims& strides) {
    return Tensor(id, Tensor::data_type::f32, dims, strides);
  };
  const auto dense = [&](size_t id, int64_t columns) {
    return tensor(id, shape(a, a.queries, columns),
                  {a.batch[1] * a.queries * columns, a.queries * columns, columns, 1});
  };
  const Tensor q = tensor(0, shape(a, a.queries, a.depth), a.q.strides),
               k = tensor(1, shape(a, a.keys, a.depth), a.k.strides),
               v = tensor(2, shape(a, a.keys, a.columns), a.v.strides),
               y = tensor(3, shape(a, a.queries, a.columns), a.y.strides),
               factor = tensor(4, {1}, {1});
  const Tensor products = dense(5, a.keys), scores = dense(6, a.keys), weights = dense(7, a.keys);
  Operation first(0, Operation::kind::MatMul, {q, k}, {products}, "scores");
  first.set_attr<bool>(Operation::attr::transpose_b, true);
  const Operation scale(1, Operation::kind::Multiply, {products, factor}, {scores}, "scale");
  Operation softmax(2, Operation::kind::SoftMax, {scores}, {weights}, "softmax");
  softmax.set_attr<int64_t>(Operation::attr::axis, -1);
  const Operation second(3, Operation::kind::MatMul, {weights, v}, {y}, "sums");

  graph::graph whole(dnnl::engine::kind::cpu);
  for (const Operation* op : {static_cast<const Operation*>(&first), &scale,
                              static_cast<const Operation*>(&softmax), &second})
    whole.add_op(*op);
  whole.finalize();
  const std::vector<graph::partition> parts = whole.get_partitions();
  if (parts.size() != 1 || !parts[0].is_supported()) return {};
  const std::vector<Tensor> in = parts[0].get_input_ports();
  const graph::compiled_partition compiled = parts[0].compile(in, {y}, context().engine);
  const auto value = std::make_shared<float>(static_cast<float>(a.scale));
  const std::unordered_map<size_t, void*> data = {{0, data_of(a.q, arguments)},
                                                  {1, data_of(a.k, arguments)},
                                                  {2, data_of(a.v, arguments)},
                                                  {4, value.get()}};
  std::vector<graph::tensor> from;
  for (const Tensor& port : in) from.emplace_back(port, context().engine, data.at(port.get_id()));
  const graph::tensor to(y, context().engine, data_of(a.y, arguments));
  return {{"plain", "graph: fused scaled dot product", [compiled, from, to, value] {
             compiled.execute(context().stream, from, {to});
             context().stream.wait();
           }}};
}

}  // namespace

std::vector<PeerKernel> attention(const PeerAttention& a, void* const* arguments) {
  std::vector<PeerKernel> kernels;
  // oneDNN 3.6.2 leaves part of an output unwritten whose heads lie as close as its elements.
  if (a.depth == 1 || a.columns == 1) return kernels;
  for (const bool reorder : {false, true}) {
    try {
      kernels.push_back(chain(a, arguments, reorder));
    } catch (const dnnl::error&) {         // not in this layout
    }
  }
  try {
    for (PeerKernel& kernel : fused(a, arguments)) kernels.push_back(std::move(kernel));
  } catch (const dnnl::error&) {           // not fused for this shape
  }
  return kernels;
}

}  // namespace lw::onednn
