#include "src/expr/elaboration/names.h"

#include "absl/strings/str_join.h"
#include "src/base/message.h"
#include "src/expr/elaboration/infer.h"
#include "src/expr/limits.h"

namespace lw {

bool Names::declare(const std::string& name, int position, Symbol symbol) {
  if (symbols_.emplace(name, symbol).second) return true;
  diagnostics_->error(position, concat("'", name, "' is declared twice"));
  return false;
}

const Symbol* Names::find(const std::string& name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : &found->second;
}

void Names::collect() {
  for (const ParameterSyntax& parameter : op_.parameters) taken_.insert(parameter.name);
  for (const Statement& statement : op_.statements) {
    taken_.insert(statement.name);
    for (const AxisSyntax& axis : statement.axes) taken_.insert(axis.name);
    // The builder's trees are of any size; define_tensor refuses the large ones.
    if (statement.value && statement.value->size <= kMaxNodes &&
        statement.value->depth <= kMaxDepth) {
      collect(statement.value);
    }
  }
}

void Names::collect(const NodePtr& node) {
  for (const AxisSyntax& axis : node->axes) taken_.insert(axis.name);
  for (const NodePtr& arg : node->args) collect(arg);
}

std::string Names::fresh(const std::string& base) {
  for (int i = 1;; ++i) {
    std::string name = i == 1 ? base : concat(base, i);
    if (taken_.insert(name).second) return name;
  }
}

void Names::begin(const std::string& definition) {
  definition_ = definition;
  axes_.clear();
  scope_.clear();
}

int Names::find_axis(const std::string& name) const {
  for (auto axis = scope_.rbegin(); axis != scope_.rend(); ++axis) {
    if (axis->first == name) return axis->second;
  }
  return -1;
}

bool Names::push_axes(const std::vector<AxisSyntax>& axes, std::vector<int>* ids) {
  bool ok = true;
  for (const AxisSyntax& axis : axes) {
    std::optional<int64_t> extent = constant_integer(*this, *axis.extent, "an extent");
    if (extent && (*extent < 1 || *extent > kMaxElements)) {
      diagnostics_->error(axis.extent->position, concat("the extent of axis '", axis.name, "' is ",
                                                        *extent, "; it must be in [1, 2^40]"));
      extent.reset();
    }
    if (find_axis(axis.name) >= 0) {
      diagnostics_->error(axis.position,
                          concat("the axis '", axis.name, "' is in use here already"));
      ok = false;
    } else if (symbols_.count(axis.name)) {
      diagnostics_->error(axis.position,
                          concat("'", axis.name, "' is declared already and cannot name an axis"));
      ok = false;
    }
    ok &= extent.has_value();
    const int64_t size = extent ? *extent : 1;
    int id = -1;
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].name == axis.name && axes_[i].extent == size) id = static_cast<int>(i);
    }
    if (id < 0) {
      id = static_cast<int>(axes_.size());
      axes_.push_back({axis.name, size});
    }
    scope_.emplace_back(axis.name, id);
    ids->push_back(id);
  }
  return ok;
}

void Names::report_unknown(const Node& node, bool tensor) const {
  if (op_.lost_names) {  // it may be the name that a syntax error hid
    diagnostics_->error(node.position, concat("'", node.name, "' is not declared"));
    return;
  }
  std::string hint;
  if (!diagnostics_->full()) {
    std::vector<std::string> candidates;
    for (const auto& [name, symbol] : symbols_) {
      if (tensor == (symbol.kind == Symbol::kTensor)) candidates.push_back(name);
    }
    for (const auto& axis : scope_) {
      if (!tensor) candidates.push_back(axis.first);
    }
    const std::string near = nearest_name(node.name, candidates);
    if (!near.empty()) hint = concat("did you mean '", near, "'?");
    for (const Statement& statement : op_.statements) {
      if (statement.name == node.name) hint = "it is declared further down";
    }
    if (node.name == definition_) hint = "a tensor cannot read itself";
  }
  diagnostics_->error(
      node.position,
      concat(tensor ? "there is no tensor '" : "there is no axis, parameter or let '", node.name,
             "'"),
      hint);
}

std::optional<Type> Names::type_named(const TypeSyntax& named) const {
  const auto meant = [&](Type type) {
    return named.wide ? accumulator(Reduce::kSum, type) : type;
  };
  Type type;
  if (parse_type(named.name, &type)) return meant(type);
  auto found = symbols_.find(named.name);
  if (found != symbols_.end() && found->second.kind == Symbol::kType) {
    return meant(found->second.type);
  }
  std::vector<std::string> names;
  for (const TypeRow& row : kTypeRows) names.emplace_back(row.name);
  const std::string all = absl::StrJoin(names, " ");
  for (const auto& [other, symbol] : symbols_) {
    if (symbol.kind == Symbol::kType) names.push_back(other);
  }
  const std::string near = diagnostics_->full() ? "" : nearest_name(named.name, names);
  diagnostics_->error(named.position, concat("there is no type '", named.name, "'"),
                      near.empty() ? all : concat("did you mean '", near, "'?"));
  return std::nullopt;
}

}  // namespace lw
