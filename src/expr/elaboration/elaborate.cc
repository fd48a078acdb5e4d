// From a syntax tree and parameter values to a Program: the statements of an op, in order.
//
// Each definition goes through two passes. Inference resolves names and finds the type of every
// node, reporting all mistakes; NodeBuilder then makes the nodes of expr.h, splitting every
// reduction below the root off into a tensor of its own. A literal has no type until it is asked
// for one there.
#include <algorithm>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/elaboration/build.h"
#include "src/expr/language/print.h"
#include "src/expr/limits.h"

namespace lw {
namespace {

class Elaborator {
 public:
  Elaborator(const OpSyntax& op, Diagnostics* diagnostics)
      : op_(op), diagnostics_(diagnostics), names_(op, diagnostics) {}
  std::unique_ptr<Program> run(const std::vector<ParameterValue>& values);

 private:
  void declare_parameters(const std::vector<ParameterValue>& values);
  bool check_definitions();
  void define_let(const Statement& statement);
  void define_input(const Statement& statement);
  void define_tensor(const Statement& statement);
  void keep_needed();

  const OpSyntax& op_;
  Diagnostics* diagnostics_;
  std::unique_ptr<Program> program_ = std::make_unique<Program>();
  Names names_;
  Inference inference_{names_, *program_};
  NodeBuilder builder_{op_, names_, inference_, *program_};
};

std::unique_ptr<Program> Elaborator::run(const std::vector<ParameterValue>& values) {
  const size_t before = diagnostics_->count();
  program_->name = op_.name;
  if (!check_definitions()) return nullptr;
  names_.collect();
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
    names_.declare(op_.parameters[i].name, op_.parameters[i].position, symbol);
  }
}

void Elaborator::define_let(const Statement& statement) {
  Symbol symbol;
  if (!statement.broken) {
    if (std::optional<int64_t> value = constant_integer(names_, *statement.value, "a let")) {
      symbol.kind = Symbol::kInteger;
      symbol.literal = {static_cast<double>(*value), *value, true};
    }
  }
  names_.declare(statement.name, statement.position, symbol);
}

void Elaborator::define_input(const Statement& statement) {
  Symbol symbol;
  if (!statement.broken) {
    Tensor tensor;
    tensor.name = statement.name;
    tensor.role = Role::kInput;
    tensor.is_const = statement.is_const;
    std::optional<Type> type = names_.type_named(statement.type);
    bool ok = type.has_value();
    for (const NodePtr& extent : statement.shape) {
      std::optional<int64_t> value = constant_integer(names_, *extent, "an extent");
      if (value && *value < 1) {
        diagnostics_->error(extent->position,
                            concat("the extent of dimension ", tensor.shape.size() + 1, " of '",
                                   statement.name, "' is ", *value, "; it must be at least 1"));
      }
      ok &= value && *value >= 1;
      tensor.shape.push_back(value.value_or(1));
    }
    if (ok && check_size(diagnostics_, statement.name, statement.position, tensor.shape)) {
      tensor.type = *type;
      symbol.kind = Symbol::kTensor;
      symbol.tensor = static_cast<int>(program_->tensors.size());
      program_->tensors.push_back(std::move(tensor));
    }
  }
  names_.declare(statement.name, statement.position, symbol);
}

void Elaborator::define_tensor(const Statement& statement) {
  names_.begin(statement.name);
  inference_.begin();
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
    ok = names_.push_axes(statement.axes, &spatial);
    std::vector<int64_t> shape;
    for (int id : spatial) shape.push_back(names_.axes()[static_cast<size_t>(id)].extent);
    ok &= check_size(diagnostics_, statement.name, statement.position, shape);
    Info info = inference_.infer(*statement.value);
    if (info.kind == Info::kLiteral || info.kind == Info::kFlexible) {
      diagnostics_->error(statement.value->position,
                          concat("nothing gives '", statement.name, "' a type"),
                          "cast(f32, ...) gives a literal one");
      ok = false;
    }
    ok &= info.kind != Info::kError && diagnostics_->count() == before;
    if (ok) {
      const Type type = info.kind == Info::kIndex ? Type::kI32 : info.type;
      NodeBuilder::Reduction whole{type, {}, nullptr};
      Reduce reduce = Reduce::kNone;
      if (statement.value->kind == NodeKind::kReduce) {
        whole = builder_.build_reduction(*statement.value, type);
        reduce = statement.value->reduce;
      } else {
        whole.body = builder_.build(*statement.value, type);
      }
      builder_.report_faults(whole.body);
      Tensor tensor =
          builder_.finish_tensor(statement.name, spatial, whole.axes, reduce, whole.body);
      tensor.role = statement.is_out ? Role::kOutput : Role::kTemp;
      symbol.kind = Symbol::kTensor;
      symbol.tensor = static_cast<int>(program_->tensors.size());
      program_->tensors.push_back(std::move(tensor));
    }
  }
  names_.pop_axes(spatial.size());
  names_.declare(statement.name, statement.position, symbol);
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

}  // namespace

std::unique_ptr<Program> elaborate(const OpSyntax& op, const std::vector<ParameterValue>& values,
                                   Diagnostics* diagnostics) {
  return Elaborator(op, diagnostics).run(values);
}

}  // namespace lw
