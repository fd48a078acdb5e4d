// Files of ops, and ops with their parameters bound.
#include <algorithm>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/language/syntax.h"
#include "src/expr/limits.h"

namespace lw {
namespace {

std::vector<ParameterValue> defaults(const OpSyntax& op) {
  std::vector<ParameterValue> values;
  for (const ParameterSyntax& parameter : op.parameters) values.push_back(parameter.value);
  return values;
}

absl::Status bind(const ParameterSyntax& parameter, const std::string& text,
                  ParameterValue* value) {
  constexpr const char* kWants[] = {"an integer", "a number", "true or false", "a type"};
  const ParameterKind kind = parameter.value.kind;
  bool ok = parse_parameter_value(text, value);
  if (kind == ParameterKind::kFloat && value->kind == ParameterKind::kInteger) {
    value->kind = ParameterKind::kFloat;
  }
  if (ok && value->kind == kind) return absl::OkStatus();
  return absl::InvalidArgumentError(concat("parameter ", parameter.name, " is ",
                                           kWants[static_cast<int>(kind)], ", not '", text, "'"));
}

absl::Status unknown_parameter(const OpDefinition& op, const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const Parameter& parameter : op.parameters) {
    names.push_back(parameter.name);
    all += concat(" ", parameter.name, "=", parameter.default_text);
  }
  const std::string near = nearest_name(name, names);
  return absl::InvalidArgumentError(
      concat("op ", op.name, " has no parameter '", name, "'",
             near.empty() ? "" : concat("; did you mean '", near, "'?"), " (it has:",
             all.empty() ? " none" : all, ")"));
}

absl::Status choose_const(const std::vector<std::string>& names, Program* program) {
  std::vector<std::string> inputs;
  for (Tensor& tensor : program->tensors) {
    tensor.is_const = false;
    if (tensor.role == Role::kInput) inputs.push_back(tensor.name);
  }
  for (const std::string& name : names) {
    auto found =
        std::find_if(program->tensors.begin(), program->tensors.end(),
                     [&](const Tensor& t) { return t.role == Role::kInput && t.name == name; });
    if (found == program->tensors.end()) {
      const std::string near = nearest_name(name, inputs);
      return absl::InvalidArgumentError(
          concat("op ", program->name, " has no input '", name, "' to be const",
                 near.empty() ? "" : concat("; did you mean '", near, "'?")));
    }
    found->is_const = true;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Module> parse_module(std::string_view text, std::string_view file_name) {
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(concat(file_name, ": ", text.size(),
                                             " bytes are too many for a file of ops"));
  }
  auto source = std::make_shared<const Source>(Source{std::string(file_name), std::string(text)});
  Diagnostics diagnostics(source);
  Module module{source->file, parse_ops(source, &diagnostics)};
  if (module.ops.empty() && diagnostics.ok()) {
    return absl::InvalidArgumentError(concat(file_name, ": no op in this file\n"));
  }
  for (size_t i = 0; i < module.ops.size(); ++i) {
    const OpSyntax& op = *module.ops[i].syntax;
    for (size_t j = 0; j < i; ++j) {
      if (module.ops[j].name != op.name || op.name.empty()) continue;
      diagnostics.error(op.position, concat("op '", op.name, "' is defined twice"));
      break;
    }
    elaborate(op, defaults(op), &diagnostics);
  }
  RETURN_IF_ERROR(diagnostics.status());
  return module;
}

absl::StatusOr<Program> instantiate(const OpDefinition& op,
                                    const std::map<std::string, std::string>& overrides,
                                    const std::vector<std::string>* const_names) {
  CHECK(op.syntax != nullptr);
  std::vector<ParameterValue> values = defaults(*op.syntax);
  size_t bound = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    auto found = overrides.find(op.syntax->parameters[i].name);
    if (found == overrides.end()) continue;
    RETURN_IF_ERROR(bind(op.syntax->parameters[i], found->second, &values[i]));
    ++bound;
  }
  if (bound < overrides.size()) {
    for (const auto& [name, text] : overrides) {
      auto known = std::find_if(op.parameters.begin(), op.parameters.end(),
                                [&, &name = name](const Parameter& p) { return p.name == name; });
      if (known == op.parameters.end()) return unknown_parameter(op, name);
    }
  }
  Diagnostics diagnostics(op.syntax->source);
  std::unique_ptr<Program> program = elaborate(*op.syntax, values, &diagnostics);
  RETURN_IF_ERROR(diagnostics.status());
  CHECK(program != nullptr);
  if (const_names) RETURN_IF_ERROR(choose_const(*const_names, program.get()));
  RETURN_IF_ERROR(verify(*program));
  return std::move(*program);
}

}  // namespace lw
