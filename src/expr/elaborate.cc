// The statements of an op: parameters, lets, inputs and definitions, in order.
#include "src/expr/elaborate.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/expr/limits.h"
#include "src/expr/message.h"
#include "src/expr/print.h"

namespace lw {

std::unique_ptr<Program> Elaborator::run(const std::vector<ParameterValue>& values) {
  const size_t before = diagnostics_->count();
  program_->name = op_.name;
  if (!check_definitions()) return nullptr;
  collect_names();
  declare_parameters(values);
  bool has_output = false;
  for (const Statement& statement : op_.statements) {
    diagnostics_->set_context(statement.name);
    has_output |= statement.is_out;
    if (statement.kind == StatementKind::kLet) define_let(statement);
    if (statement.kind == StatementKind::kInput) define_input(statement);
    if (statement.kind == StatementKind::kCompute) define_tensor(statement);
  }
  diagnostics_->set_context("");
  if (!has_output && !op_.lost_names) {
    diagnostics_->error(op_.position, concat("op ", op_.name, " has no result"),
                        "mark at least one tensor with 'out'");
  }
  if (diagnostics_->count() != before) return nullptr;
  keep_needed();
  return std::move(program_);
}

bool Elaborator::check_definitions() {
  const auto computes = [](const Statement& s) { return s.kind == StatementKind::kCompute; };
  const size_t count = std::count_if(op_.statements.begin(), op_.statements.end(), computes);
  if (count <= kMaxDefinitions) return true;
  diagnostics_->error(op_.position, concat("op ", op_.name, " has ", count, " definitions; at most ",
                                           kMaxDefinitions, " are supported"));
  return false;
}

void Elaborator::declare_parameters(const std::vector<ParameterValue>& values) {
  CHECK(values.size() == op_.parameters.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Symbol symbol;
    const ParameterValue& value = values[i];
    symbol.literal = {value.number, value.integer, value.kind == ParameterKind::kInteger};
    symbol.type = value.type;
    switch (value.kind) {
      case ParameterKind::kInteger: symbol.kind = Symbol::kInteger; break;
      case ParameterKind::kFloat: symbol.kind = Symbol::kFloat; break;
      case ParameterKind::kBool: symbol.kind = Symbol::kBool; break;
      case ParameterKind::kType: symbol.kind = Symbol::kType; break;
    }
    declare(op_.parameters[i].name, op_.parameters[i].position, symbol);
  }
}

bool Elaborator::declare(const std::string& name, int position, Symbol symbol) {
  if (symbols_.emplace(name, symbol).second) return true;
  diagnostics_->error(position, concat("'", name, "' is declared twice"));
  return false;
}

void Elaborator::collect_names() {
  for (const ParameterSyntax& parameter : op_.parameters) names_.insert(parameter.name);
  for (const Statement& statement : op_.statements) {
    names_.insert(statement.name);
    for (const AxisSyntax& axis : statement.axes) names_.insert(axis.name);
    // The builder's trees are of any size; define_tensor refuses the large ones.
    if (statement.value && statement.value->size <= kMaxNodes &&
        statement.value->depth <= kMaxDepth) {
      collect_names(statement.value);
    }
  }
}

void Elaborator::collect_names(const NodePtr& node) {
  for (const AxisSyntax& axis : node->axes) names_.insert(axis.name);
  for (const NodePtr& arg : node->args) collect_names(arg);
}

std::string Elaborator::fresh_name(const std::string& base) {
  for (int i = 1;; ++i) {
    std::string name = i == 1 ? base : concat(base, i);
    if (names_.insert(name).second) return name;
  }
}

void Elaborator::define_let(const Statement& statement) {
  Symbol symbol;
  if (!statement.broken) {
    if (std::optional<int64_t> value = integer(*statement.value, "a let")) {
      symbol.kind = Symbol::kInteger;
      symbol.literal = {static_cast<double>(*value), *value, true};
    }
  }
  declare(statement.name, statement.position, symbol);
}

bool Elaborator::check_size(const std::string& name, int position,
                            const std::vector<int64_t>& shape) {
  if (shape.size() > kMaxRank) {
    diagnostics_->error(position, concat("'", name, "' has ", shape.size(), " dimensions; at most ",
                                         kMaxRank, " are supported"));
    return false;
  }
  double total = 1;
  for (int64_t extent : shape) total *= static_cast<double>(extent);
  if (total <= static_cast<double>(kMaxElements)) return true;
  diagnostics_->error(position, concat("'", name, "' would have ", print_number(Type::kF64, total),
                                       " elements; at most 2^40 are supported"));
  return false;
}

void Elaborator::define_input(const Statement& statement) {
  Symbol symbol;
  if (!statement.broken) {
    Tensor tensor;
    tensor.name = statement.name;
    tensor.role = Role::kInput;
    tensor.is_const = statement.is_const;
    std::optional<Type> type = type_named(statement.type, statement.type_position);
    bool ok = type.has_value();
    for (const NodePtr& extent : statement.shape) {
      std::optional<int64_t> value = integer(*extent, "an extent");
      if (value && *value < 1) {
        diagnostics_->error(extent->position,
                            concat("the extent of dimension ", tensor.shape.size() + 1, " of '",
                                   statement.name, "' is ", *value, "; it must be at least 1"));
      }
      ok &= value && *value >= 1;
      tensor.shape.push_back(value.value_or(1));
    }
    if (ok && check_size(statement.name, statement.position, tensor.shape)) {
      tensor.type = *type;
      symbol.kind = Symbol::kTensor;
      symbol.tensor = static_cast<int>(program_->tensors.size());
      program_->tensors.push_back(std::move(tensor));
    }
  }
  declare(statement.name, statement.position, symbol);
}

int Elaborator::find_axis(const std::string& name) const {
  for (auto axis = scope_.rbegin(); axis != scope_.rend(); ++axis) {
    if (axis->first == name) return axis->second;
  }
  return -1;
}

// Brings axes into scope. Those of one name and extent share a number in the whole definition, so a
// node that the builder uses under two reductions means the axis of either.
bool Elaborator::push_axes(const std::vector<AxisSyntax>& axes, std::vector<int>* ids) {
  bool ok = true;
  for (const AxisSyntax& axis : axes) {
    std::optional<int64_t> extent = integer(*axis.extent, "an extent");
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

void Elaborator::define_tensor(const Statement& statement) {
  definition_ = statement.name;
  axes_.clear();
  scope_.clear();
  infos_.clear();
  reduction_axes_.clear();
  subscripts_.clear();
  read_sites_.clear();
  kept_reads_.clear();
  guards_.clear();
  const size_t before = diagnostics_->count();
  Symbol symbol;
  std::vector<int> spatial;
  bool ok = !statement.broken;
  if (ok && (statement.value->size > kMaxNodes || statement.value->depth > kMaxDepth)) {
    diagnostics_->error(statement.position,
                        concat("the expression of '", statement.name, "' is too large: ",
                               statement.value->size, " operations in ", statement.value->depth,
                               " levels, of at most ", kMaxNodes, " in ", kMaxDepth));
    ok = false;
  }
  if (ok) {
    ok = push_axes(statement.axes, &spatial);
    std::vector<int64_t> shape;
    for (int id : spatial) shape.push_back(axes_[static_cast<size_t>(id)].extent);
    ok &= check_size(statement.name, statement.position, shape);
    Info info = infer(*statement.value);
    if (info.kind == Info::kLiteral || info.kind == Info::kFlexible) {
      diagnostics_->error(statement.value->position,
                          concat("nothing gives '", statement.name, "' a type"),
                          "cast(f32, ...) gives a literal one");
      ok = false;
    }
    ok &= info.kind != Info::kError && diagnostics_->count() == before;
    if (ok) {
      const Type type = info.kind == Info::kIndex ? Type::kI32 : info.type;
      Reduction whole{type, {}, nullptr};
      Reduce reduce = Reduce::kNone;
      if (statement.value->kind == NodeKind::kReduce) {
        whole = build_reduction(*statement.value, type);
        reduce = statement.value->reduce;
      } else {
        whole.body = build(*statement.value, type);
      }
      report_faults(whole.body);
      Tensor tensor = finish_tensor(statement.name, spatial, whole.axes, reduce, whole.body);
      tensor.role = statement.is_out ? Role::kOutput : Role::kTemp;
      symbol.kind = Symbol::kTensor;
      symbol.tensor = static_cast<int>(program_->tensors.size());
      program_->tensors.push_back(std::move(tensor));
    }
  }
  scope_.clear();
  declare(statement.name, statement.position, symbol);
}

Tensor Elaborator::finish_tensor(std::string name, const std::vector<int>& spatial,
                                 const std::vector<int>& reduced, Reduce reduce, const Expr& body) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = body->type;
  tensor.reduce = reduce;
  std::vector<Expr> renumbered(axes_.size());
  int next = 0;
  for (int id : spatial) {
    tensor.axes.push_back(axes_[static_cast<size_t>(id)]);
    tensor.shape.push_back(tensor.axes.back().extent);
    renumbered[static_cast<size_t>(id)] = make_axis(next++);
  }
  for (int id : reduced) {
    tensor.reduce_axes.push_back(axes_[static_cast<size_t>(id)]);
    renumbered[static_cast<size_t>(id)] = make_axis(next++);
  }
  bool strayed = false;
  visit(body, [&](const ExprNode& e) {
    if (e.op == ExprOp::kAxis && !renumbered[static_cast<size_t>(e.index)]) strayed = true;
  });
  if (strayed) {
    diagnostics_->error(op_.position, concat("'", tensor.name,
                                             "' uses the axis of a reduction outside of it"));
  }
  tensor.body = substitute(body, renumbered);
  return tensor;
}

// Puts the inputs first, whatever their order among the definitions was, and drops the temporaries
// that no result depends on.
void Elaborator::keep_needed() {
  std::vector<Tensor>& tensors = program_->tensors;
  std::vector<bool> needed(tensors.size());
  for (size_t i = tensors.size(); i-- > 0;) {
    if (tensors[i].role != Role::kTemp) needed[i] = true;
    if (!needed[i]) continue;
    for (int read : reads_of(tensors[i])) needed[static_cast<size_t>(read)] = true;
  }
  std::vector<int> position(tensors.size(), -1);
  std::vector<Tensor> kept;
  for (bool input : {true, false}) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!needed[i] || (tensors[i].role == Role::kInput) != input) continue;
      position[i] = static_cast<int>(kept.size());
      if (tensors[i].body) tensors[i].body = renumber_reads(tensors[i].body, position);
      kept.push_back(std::move(tensors[i]));
    }
  }
  tensors = std::move(kept);
}

std::unique_ptr<Program> elaborate(const OpSyntax& op, const std::vector<ParameterValue>& values,
                                   Diagnostics* diagnostics) {
  return Elaborator(op, diagnostics).run(values);
}

}  // namespace lw
