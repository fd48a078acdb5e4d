// Text of programs beyond what loopwright/program.h offers: modules of `.te` files, instantiation,
// the canonical form, suites.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/program.h"

namespace lw {

// A parsed file: ops with their parameters still open. Opaque; cheap to copy (shared, immutable).
struct OpSyntax;
struct Parameter {
  std::string name;
  std::string default_text;                // as printed in the file: "512", "1e-5", "f32"
};
struct OpDefinition {
  std::string name;
  std::string doc;                         // the comment lines directly above the op
  std::vector<Parameter> parameters;
  std::shared_ptr<const OpSyntax> syntax;
};
struct Module {
  std::string file;
  std::vector<OpDefinition> ops;
};

// Parses a file and instantiates every op with its defaults, so that all errors of the file are
// found in one run. The error message is the concatenation of all diagnostics, each
// "FILE:LINE:COLUMN: error: what\n<source line>\n<caret>\n[hint: ...\n]". Never crashes on any
// bytes.
absl::StatusOr<Module> parse_module(std::string_view text, std::string_view file_name);

// Binds parameters ("M" -> "128", "T" -> "bf16"; defaults for the rest), evaluates lets and
// extents, infers types and shapes, splits reductions, checks bounds. Errors name the parameter or
// the position; an unknown parameter names the nearest one. `const_names`: null keeps what the op
// declares, otherwise exactly these inputs are const (an unknown name is an error).
absl::StatusOr<Program> instantiate(const OpDefinition& op,
                                    const std::map<std::string, std::string>& overrides,
                                    const std::vector<std::string>* const_names = nullptr);

std::string print(const Program& program, const Tensor& tensor, const Expr& expr);

// The text that a workload's id is the sha256 of: names removed, operands sorted, language version
// first.
std::string canonical_text(const Program& program);

// The program that a canonical text is of; tensors are named t0, ..., axes a0, ... and r0, ....
// kInvalidArgument: it is none, to the last character. Takes some milliseconds at most for what a
// program of ours prints, a second for the worst of a megabyte (more is refused).
absl::StatusOr<Program> parse_canonical(std::string_view text);

// An order of the tensors that follows from the canonical text alone, in which each stands after what
// it reads: inputs, then temporaries, an output once it is read or nothing else is left.
// kInvalidArgument: there is none.
absl::StatusOr<std::vector<int>> definition_order(const Program& program);

// The operator library, compiled in from src/expr/ops/*.te.
const std::vector<OpDefinition>& builtin_ops();

// How to ask the library for the program with operands of one of these types: "T=bf16" for each that
// its op takes. Empty where the program is no op of the library's, by its name and its inputs'.
std::vector<std::string> typed_forms(const Program& program, const std::vector<Type>& types);

// What a task may be allowed that is less exact, by the words of --allow and of requests.
inline constexpr char kWinograd[] = "winograd", kBf16[] = "bf16";
// The first of `allow` that is none of these; "": all are.
std::string unknown_allowance(const std::vector<std::string>& allow);
// The inputs of --const: "B,bias", or "none".
std::vector<std::string> const_names_of(const std::string& text);

// A suite: the format of workloads/ansor.json (name, op, params, flop, dtype), mapped to library
// ops; or a tuning request: words, or a program's text, and what else is asked of each.
struct SuiteCase {
  std::string name;
  std::vector<std::string> words;          // what load_workload takes, a program's text too
  double flop_counted = 0;                 // as the file counts, zeros of padding included
  // Of tuning requests; empty, 0: as the command says.
  std::string label;                       // what people call a program that stands for words
  std::optional<std::vector<std::string>> const_names;  // as load_workload takes them
  std::vector<std::string> allow;          // "winograd", "bf16"
  std::string entry;                       // the kernel's symbol, for lock files
  std::string target;
  int threads = 0;
};
// A case that is none: an operator that we lack, parameters that are no integers, a name that an
// earlier case has. `name` is what the file calls it, else its words or its place in the list.
struct RefusedCase {
  std::string name;
  std::string why;
};
struct SuiteCases {
  std::vector<SuiteCase> cases;            // in the file's order, or as named
  std::vector<RefusedCase> refused;
};
// The cases that `names` names, or all. kInvalidArgument: no suite, or a name that it lacks.
absl::StatusOr<SuiteCases> read_suite(const std::string& path,
                                      const std::vector<std::string>& names);
// For those who need all of them: kInvalidArgument names every refused case.
absl::StatusOr<std::vector<SuiteCase>> load_suite(const std::string& path,
                                                  const std::vector<std::string>& names);

}  // namespace lw
