// Single points of large kernels. A temporary is computed where it is asked for; a reduction, or a
// temporary that is dear to compute, is remembered, so the rows of a softmax cost once.
#include <cmath>
#include <deque>
#include <memory>
#include <unordered_map>

#include "src/base/check.h"
#include "src/expr/engine.h"
#include "src/expr/interpret.h"

namespace lw {

struct PointOracle::Impl {
  struct Node {
    std::unique_ptr<Engine> engine;        // null for inputs
    double cost = 0;                       // evaluations of expressions for one point
    bool remembered = false;
    std::unordered_map<int64_t, Element> known;
    std::vector<int64_t> missing;
    std::vector<Element> found;
  };
  const Program& program;
  std::deque<Node> nodes;

  Impl(const Program& p, const std::vector<const std::byte*>& in) : program(p) {
    std::vector<const std::byte*> data(program.tensors.size());
    const std::vector<int> sources = inputs(program);
    CHECK(in.size() == sources.size());
    for (size_t i = 0; i < in.size(); ++i) data[static_cast<size_t>(sources[i])] = in[i];
    for (size_t i = 0; i < program.tensors.size(); ++i) add(i, data);
  }

  void add(size_t position, const std::vector<const std::byte*>& data) {
    const Tensor& tensor = program.tensors[position];
    Node& node = nodes.emplace_back();
    if (!tensor.body) return;
    double terms = 1, evaluations = 1;
    for (const Axis& axis : tensor.reduce_axes) terms *= static_cast<double>(axis.extent);
    node.engine = std::make_unique<Engine>(program, static_cast<int>(position), true);
    visit(tensor.body, [&](const ExprNode& e) {
      ++evaluations;
      if (e.op == ExprOp::kRead) evaluations += nodes[static_cast<size_t>(e.index)].cost;
    });
    for (int read : reads_of(tensor)) {
      Node& source = nodes[static_cast<size_t>(read)];
      Engine::Source from{data[static_cast<size_t>(read)], nullptr};
      if (!from.data) {
        from.fetch = [this, &source](const int64_t* addresses, int count, Element* out) {
          fetch(&source, addresses, count, out);
        };
      }
      node.engine->set_source(read, std::move(from));
    }
    node.cost = evaluations * terms;
    constexpr double kDear = 64;
    node.remembered = tensor.reduce != Reduce::kNone || node.cost > kDear;
  }

  void fetch(Node* node, const int64_t* addresses, int count, Element* out) {
    if (!node->remembered) return node->engine->evaluate(addresses, count, out);
    node->missing.clear();
    for (int i = 0; i < count; ++i) {
      if (i > 0 && addresses[i] == addresses[i - 1]) continue;
      if (node->known.emplace(addresses[i], Element()).second)
        node->missing.push_back(addresses[i]);
    }
    if (!node->missing.empty()) {
      node->found.resize(node->missing.size());
      node->engine->evaluate(node->missing.data(), static_cast<int64_t>(node->missing.size()),
                             node->found.data());
      for (size_t i = 0; i < node->missing.size(); ++i) {
        node->known[node->missing[i]] = node->found[i];
      }
    }
    for (int i = 0; i < count; ++i) {
      out[i] = i > 0 && addresses[i] == addresses[i - 1] ? out[i - 1] : node->known[addresses[i]];
    }
  }
};

PointOracle::PointOracle(const Program& program, std::vector<const std::byte*> in)
    : impl_(new Impl(program, in)) {}

PointOracle::~PointOracle() { delete impl_; }

PointOracle::Value PointOracle::at(int tensor, const std::vector<int64_t>& index) {
  const std::vector<int64_t>& shape = impl_->program.tensors[static_cast<size_t>(tensor)].shape;
  CHECK(index.size() == shape.size());
  int64_t address = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    CHECK(index[d] >= 0 && index[d] < shape[d]);
    address = address * shape[d] + index[d];
  }
  return values(tensor, {address})[0];
}

std::vector<PointOracle::Value> PointOracle::values(int tensor,
                                                    const std::vector<int64_t>& addresses) {
  Impl::Node& node = impl_->nodes[static_cast<size_t>(tensor)];
  CHECK(node.engine != nullptr);
  // Between calls nothing remembered is in use, so a memory that has grown large may go.
  constexpr size_t kMaxKnown = size_t{1} << 21;
  for (Impl::Node& other : impl_->nodes) {
    if (other.known.size() > kMaxKnown) other.known.clear();
  }
  std::vector<Element> elements(addresses.size());
  impl_->fetch(&node, addresses.data(), static_cast<int>(addresses.size()), elements.data());
  std::vector<Value> result;
  for (const Element& e : elements) result.push_back({e.number, e.error});
  return result;
}

double PointOracle::cost_per_point(int tensor) const {
  return impl_->nodes[static_cast<size_t>(tensor)].cost;
}

}  // namespace lw
