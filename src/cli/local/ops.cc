#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/cli/commands.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

std::string signature(const OpDefinition& op) {
  return absl::StrJoin(op.parameters, " ", [](std::string* out, const Parameter& p) {
    *out += p.name + "=" + p.default_text;
  });
}

std::string first_line(const std::string& doc) {
  const std::vector<std::string> lines = absl::StrSplit(doc, '\n');
  return lines.front();
}

absl::StatusOr<int> run_ops(const std::string& name, const Output& output) {
  Json document = Json::array();
  Table table{{"op", "parameters", "what"}, {}, {}};
  std::string text;
  std::vector<std::string> names;
  for (const OpDefinition& op : builtin_ops()) {
    names.push_back(op.name);
    if (!name.empty() && op.name != name) continue;
    Json parameters = Json::object();
    for (const Parameter& p : op.parameters) parameters[p.name] = p.default_text;
    Json entry = {{"name", op.name}, {"parameters", parameters}, {"doc", op.doc}};
    if (!name.empty()) {
      ASSIGN_OR_RETURN(const Program program, instantiate(op, {}));
      entry["expression"] = print(program);
      text = "# " + op.name + " " + signature(op) + "\n# " +
             absl::StrJoin(absl::StrSplit(op.doc, '\n'), "\n# ") + "\n" + print(program);
    }
    document.push_back(entry);
    table.rows.push_back({op.name, signature(op), first_line(op.doc)});
  }
  if (!name.empty() && table.rows.empty()) {
    const std::string near = nearest_name(name, names);
    return absl::InvalidArgumentError(concat("there is no op '", name, "'",
                                             near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  emit(output, document, table, text);
  return kDone;
}

Action declare_ops(CliArguments app) {
  auto name = std::make_shared<std::string>();
  auto output = std::make_shared<Output>();
  app.add_option("op", *name, "only this one, with its expression");
  add_output(app, output.get());
  return [name, output] { return run_ops(*name, *output); };
}

}  // namespace

const CommandGroup& ops_commands() {
  static const CommandGroup group = {120, {{"ops", "the built-in operators", declare_ops}}};
  return group;
}

}  // namespace lw
