// Single points of large kernels. A temporary is computed where it is asked for; a reduction, or a
// temporary that is dear to compute, is remembered, so the rows of a softmax cost once.
#include <cmath>
#include <deque>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "src/base/check.h"
#include "src/expr/reference/engine.h"
#include "src/expr/reference/interpret.h"

namespace lw {

namespace {

constexpr int64_t kTable = 1 << 22;        // addresses with a place in a table, of a program
constexpr size_t kMaxKnown = size_t{1} << 21;

// The elements of a tensor that were computed. A chain of matrix products asks for each of them as
// often as its reduction is long: where it is small, by a table of all addresses.
class Known {
 public:
  // Takes its table's share of `left`, if that suffices.
  Known(int64_t addresses, int64_t* left) : in_table_(addresses <= *left ? addresses : 0) {
    *left -= in_table_;
  }
  // out[i] = the element at addresses[i], where the table has them all.
  bool all(const int64_t* addresses, int count, Element* out) const {
    if (table_.empty()) return false;
    for (int i = 0; i < count; ++i) {
      const int place = table_[static_cast<size_t>(addresses[i])];
      if (place < 0) return false;
      out[i] = elements[static_cast<size_t>(place)];
    }
    return true;
  }
  // Index of the element into `elements`; a new one, its value to come, where it was not known.
  int place(int64_t address) {
    const int next = static_cast<int>(elements.size());
    if (table_.empty()) table_.assign(static_cast<size_t>(in_table_), -1);
    int& place = table_.empty() ? places_.try_emplace(address, -1).first->second
                                : table_[static_cast<size_t>(address)];
    if (place >= 0) return place;
    elements.emplace_back();
    return place = next;
  }
  void clear() {
    table_.clear();
    places_.clear();
    elements.clear();
  }

  std::vector<Element> elements;

 private:
  const int64_t in_table_;                 // 0: `places_` has them
  std::vector<int> table_;
  absl::flat_hash_map<int64_t, int> places_;
};

}  // namespace

struct PointOracle::Impl {
  struct Node {
    std::unique_ptr<Engine> engine;        // null for inputs
    double cost = 0;                       // evaluations of expressions for one point
    std::unique_ptr<Known> known;          // null: not remembered
    std::vector<int> places;
    std::vector<int64_t> missing;
  };
  const Program& program;
  std::deque<Node> nodes;
  int64_t table_left = kTable;

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
    if (tensor.reduce != Reduce::kNone || node.cost > kDear)
      node.known = std::make_unique<Known>(elements(tensor), &table_left);
  }

  void fetch(Node* node, const int64_t* addresses, int count, Element* out) {
    if (node->known == nullptr) return node->engine->evaluate(addresses, count, out);
    Known& known = *node->known;
    if (known.all(addresses, count, out)) return;
    const size_t before = known.elements.size();
    node->missing.clear();
    node->places.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < node->places.size(); ++i) {
      node->places[i] = known.place(addresses[i]);
      if (known.elements.size() > before + node->missing.size())
        node->missing.push_back(addresses[i]);
    }
    if (!node->missing.empty()) {
      node->engine->evaluate(node->missing.data(), static_cast<int64_t>(node->missing.size()),
                             &known.elements[before]);
    }
    for (size_t i = 0; i < node->places.size(); ++i)
      out[i] = known.elements[static_cast<size_t>(node->places[i])];
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
  for (Impl::Node& other : impl_->nodes) {
    if (other.known != nullptr && other.known->elements.size() > kMaxKnown) other.known->clear();
  }
  std::vector<Element> elements(addresses.size());
  impl_->fetch(&node, addresses.data(), static_cast<int>(addresses.size()), elements.data());
  std::vector<Value> result;
  for (const Element& e : elements) result.push_back({e.number, e.error});
  return result;
}

}  // namespace lw
