#include "src/export/mlir.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "schedules/targets/family.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/export/ahead.h"
#include "src/export/linalg.h"

namespace lw {

// Generated: the files of this folder that are passed on.
const std::vector<std::pair<const char*, const char*>>& mlir_prelude_texts();
const std::vector<std::pair<const char*, const char*>>& mlir_lower_texts();

namespace {

constexpr const char* kGradeWords[] = {"exact", "approximate", "lost", "refused"};

std::string symbol_of(std::string_view name) {
  std::string symbol;
  for (char c : name) symbol += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (symbol.empty() || std::isdigit(static_cast<unsigned char>(symbol[0]))) symbol = "f_" + symbol;
  return symbol;
}

std::string prepack_symbol(const MlirFunction& function) { return function.symbol + "_prepack"; }

// The worse of two, with its reason.
Fidelity worse(const Fidelity& a, const Fidelity& b) { return b.grade > a.grade ? b : a; }

// Of what is read, by its name; `otherwise` why it is lost.
Fidelity of_tensor(const std::map<std::string, Fidelity>& known, const std::string& tensor,
                   const char* otherwise) {
  const auto found = known.find(tensor);
  return found != known.end() ? found->second : Fidelity{Grade::kLost, otherwise};
}

using Judge = Fidelity (*)(const Step& step, const StageFidelity& stage);

// By kind of step; what is not here is exact.
const std::map<std::string_view, Judge>& judges() {
  static const std::map<std::string_view, Judge> all = {
      {"split", [](const Step&, const StageFidelity& of) { return worse(of.loops, of.tails); }},
      {"reorder", [](const Step&, const StageFidelity& of) { return of.loops; }},
      {"fuse", [](const Step&, const StageFidelity& of) { return of.loops; }},
      {"register_tile",
       [](const Step&, const StageFidelity& of) {
         return worse(worse(of.loops, of.tails), of.tile);
       }},
      {"unroll", [](const Step&, const StageFidelity& of) { return worse(of.loops, of.tile); }},
      {"vectorize", [](const Step&, const StageFidelity& of) { return worse(of.loops, of.tile); }},
      {"parallel", [](const Step&, const StageFidelity& of) { return of.parallel; }},
      {"reverse_inline", [](const Step&, const StageFidelity& of) { return of.place; }},
      {"compute_at", [](const Step&, const StageFidelity& of) { return of.place; }},
      {"compute_with", [](const Step&, const StageFidelity& of) { return of.place; }},
      {"stage",
       [](const Step& step, const StageFidelity& of) {
         return of_tensor(of.copies, step.names[1], "what it is for is read where it lies");
       }},
      {"prefetch",
       [](const Step& step, const StageFidelity& of) {
         return of_tensor(of.prefetches, step.names[1],
                          "nothing is fetched ahead of what is not tiled for itself");
       }},
      {"slide",
       [](const Step&, const StageFidelity&) {
         return Fidelity{Grade::kLost, "each vector is loaded"};
       }},
      {"non_temporal",
       [](const Step&, const StageFidelity&) {
         return Fidelity{Grade::kLost, "stores go through the caches"};
       }},
      {"dot",
       [](const Step&, const StageFidelity&) {
         return Fidelity{Grade::kLost, "products of groups are LLVM's to find"};
       }}};
  return all;
}

// Steps that decided nothing: no copy, no prefetch, no parallel loop.
bool decides_nothing(const Step& step) {
  const std::string_view kind = step.kind->name;
  const Decision& numbers = step.numbers;
  if (kind == "stage") return !numbers.empty() && numbers[0] < 0;
  if (kind == "prefetch" || kind == "slide" || kind == "non_temporal" || kind == "compute_at")
    return !numbers.empty() && numbers[0] == 0;
  return false;
}

// Of the copy itself, as its reader has it.
Fidelity copy_fidelity(const Nest& nest, int copy, const Script& script) {
  for (const Stage& reader : nest.stages) {
    for (const Stage::Copy& served : reader.copies) {
      const auto of = script.stages.find(reader.name);
      if (served.stage != copy || of == script.stages.end()) continue;
      const auto known = of->second.copies.find(nest.program->tensors[served.tensor].name);
      if (known != of->second.copies.end()) return known->second;
    }
  }
  return {Grade::kLost, "of a copy that is not made"};
}

std::vector<StepFidelity> fidelity_of(const Nest& nest, const Trace& trace, const Script& script) {
  std::vector<StepFidelity> all;
  for (const Step& step : trace) {
    Fidelity fidelity;
    const auto judge = judges().find(step.kind->name);
    const std::string& name = step.names.empty() ? std::string() : step.names[0];
    const int stage = find_stage(nest, name);
    const auto known = script.stages.find(name);
    if (decides_nothing(step)) {
      fidelity = {};
    } else if (stage >= 0 && nest.stages[stage].copy_of >= 0) {
      fidelity = worse({Grade::kApproximate, "copies are made row by row, in their order"},
                       copy_fidelity(nest, stage, script));
    } else if (judge != judges().end()) {
      fidelity = judge->second(step, known == script.stages.end() ? StageFidelity() : known->second);
    }
    all.push_back({to_text(step), std::move(fidelity)});
  }
  return all;
}

MlirFunction refuse(MlirFunction function, const Trace& trace, std::string why) {
  function.refused = why;
  for (const Step& step : trace)
    function.steps.push_back({to_text(step), {Grade::kRefused, why}});
  return function;
}

// Of stages that compute something, in order: `operations`, or why one cannot be.
absl::Status add_operations(const Nest& nest, std::vector<Operation>* operations) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    if (stage.copy_of >= 0 || stage.place == Place::kInlined) continue;
    ASSIGN_OR_RETURN(Operation operation, make_operation(nest, s));
    // A product whose operands are gathered would keep nothing of its register tile.
    if (operation.gathers && nest.program->tensors[stage.tensor].reduce != Reduce::kNone) {
      return absl::FailedPreconditionError(
          concat(stage.name, ": it reduces what it reads at computed indices"));
    }
    operations->push_back(std::move(operation));
  }
  return absl::OkStatus();
}

}  // namespace

MlirFunction mlir_function(const Nest& nest, const Trace& trace, std::string_view name) {
  MlirFunction function;
  function.symbol = symbol_of(name);
  if (!serves(*nest.target, "cpu"))
    return refuse(function, trace, concat("schedules for ", nest.target->name, " are not for "
                                          "processors' loops"));
  std::vector<Operation> operations;
  const absl::Status status = add_operations(nest, &operations);
  if (!status.ok()) return refuse(function, trace, std::string(status.message()));
  const absl::StatusOr<std::string> payload = linalg_function(nest, operations, function.symbol);
  if (!payload.ok()) return refuse(function, trace, std::string(payload.status().message()));
  const Script script = transform_script(nest, operations, function.symbol);
  function.payload = *payload + script.functions;
  function.script = script.text;
  function.fetches_ahead = !script.functions.empty();
  for (const Packing* packing : made_once(operations)) {
    const Tensor& tensor = nest.program->tensors[packing->tensor];
    function.packed.push_back({tensor.name, tensor.type, packing->shape});
  }
  if (!function.packed.empty()) {
    const std::string symbol = prepack_symbol(function);
    function.payload += linalg_prepack(nest, operations, symbol);
    function.script += prepack_script(nest, operations, symbol);
  }
  function.steps = fidelity_of(nest, trace, script);
  return function;
}

bool is_exact(const MlirFunction& function) {
  return function.refused.empty() &&
         std::all_of(function.steps.begin(), function.steps.end(), [](const StepFidelity& step) {
           return step.fidelity.grade == Grade::kExact;
         });
}

nlohmann::ordered_json mlir_report(const MlirFunction& function) {
  using Json = nlohmann::ordered_json;
  Json report = {{"schema", kMlirSchema}, {"mlir", kMlirVersion}, {"function", function.symbol}};
  if (!function.refused.empty()) report["refused"] = function.refused;
  Json coverage = Json::object(), steps = Json::array(), packed = Json::array();
  for (const PackedArgument& argument : function.packed) {
    packed.push_back({{"tensor", argument.tensor},
                      {"type", type_name(argument.type)},
                      {"shape", argument.shape}});
  }
  report["packed"] = std::move(packed);
  for (const char* word : kGradeWords) coverage[word] = 0;
  for (const StepFidelity& step : function.steps) {
    const char* word = kGradeWords[static_cast<int>(step.fidelity.grade)];
    coverage[word] = coverage[word].get<int>() + 1;
    Json json = {{"step", step.step}, {"class", word}};
    if (!step.fidelity.why.empty()) json["why"] = step.fidelity.why;
    steps.push_back(std::move(json));
  }
  report["coverage"] = std::move(coverage);
  report["steps"] = std::move(steps);
  return report;
}

std::string payload_module(const std::vector<MlirFunction>& functions) {
  std::string text = concat("module attributes {loopwright.schema = ", kMlirSchema, "} {\n");
  const auto fetches = [](const MlirFunction& function) { return function.fetches_ahead; };
  if (std::any_of(functions.begin(), functions.end(), fetches)) text += ahead_declaration();
  for (const MlirFunction& function : functions) text += function.payload;
  return text + "}\n";
}

std::string schedule_module(const std::vector<MlirFunction>& functions) {
  std::string text =
      concat("module attributes {transform.with_named_sequence, loopwright.schema = ", kMlirSchema,
             ", loopwright.mlir = \"", kMlirVersion, "\"} {\n");
  for (const char* name : {"peel", "vectorize", "hoist"}) {
    text += concat("transform.named_sequence private @loopwright_", name,
                   "(%f: !transform.any_op {transform.readonly})\n");
  }
  for (const MlirFunction& function : functions) text += function.script;
  text += "transform.named_sequence @__transform_main(%root: !transform.any_op "
          "{transform.readonly}) {\n";
  int next = 0;
  const auto apply = [&](const std::string& symbol) {
    const std::string handle = concat("%f", next++);
    text += concat("  ", handle, " = transform.structured.match ops{[\"func.func\"]} "
                   "attributes{sym_name = \"", symbol,
                   "\"} in %root : (!transform.any_op) -> !transform.any_op\n");
    for (const std::string& sequence :
         {symbol + "_schedule", std::string("loopwright_peel"),
          std::string("loopwright_vectorize"), symbol + "_unroll",
          std::string("loopwright_hoist")}) {
      text += concat("  transform.include @", sequence, " failures(propagate) (", handle,
                     ") : (!transform.any_op) -> ()\n");
    }
  };
  for (const MlirFunction& function : functions) {
    apply(function.symbol);
    if (!function.packed.empty()) apply(prepack_symbol(function));
  }
  return text + "  transform.yield\n}\n}\n";
}

std::string mlir_prelude() { return mlir_prelude_texts()[0].second; }
std::string mlir_lower_script() { return mlir_lower_texts()[0].second; }

}  // namespace lw
