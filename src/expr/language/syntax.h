// The syntax tree of `.te` text, and the diagnostics that point into it. The C++ builder makes the
// same tree, so types, splitting, bounds and folding exist once, in instantiate.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"

namespace lw {

struct Source {
  std::string file;
  std::string text;                        // empty for a built op: diagnostics then have no line
};

// Collects errors, each formatted as text.h says; after kMaxDiagnostics it only counts. Positions
// are byte offsets into the source's text.
class Diagnostics {
 public:
  explicit Diagnostics(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  void error(int position, std::string_view what, std::string_view hint = "");
  void set_context(std::string definition) { context_ = std::move(definition); }
  bool ok() const { return count_ == 0; }
  size_t count() const { return count_; }
  bool full() const;                       // more errors are only counted: make no hints for them
  absl::Status status() const;             // OK, or kInvalidArgument with all messages

 private:
  std::shared_ptr<const Source> source_;
  std::string context_;                    // shown instead of a position for a built op
  std::vector<std::pair<int, std::string>> messages_;
  size_t count_ = 0;
};

enum class NodeKind : uint8_t {
  kNumber,                                 // number, and integer if is_integer
  kBool,                                   // integer: 0 or 1
  kName,                                   // parameter, let or axis
  kRead,                                   // name[args]
  kUnary, kBinary, kCall,                  // op; kCall is a function of one or two arguments
  kWhere, kPad, kClamp,                    // args as written
  kCast,                                   // type, args[0]
  kReduce,                                 // reduce, axes, args[0]
};

struct Node;
using NodePtr = std::shared_ptr<const Node>;

// A type as an op names it.
struct TypeSyntax {
  std::string name;
  int position = 0;
  bool wide = false;                       // the type that its sums are evaluated in
};

struct AxisSyntax {
  std::string name;
  int position = 0;
  NodePtr extent;
};

struct Node {
  NodeKind kind = NodeKind::kNumber;
  int position = 0;
  std::string name;
  double number = 0;
  int64_t integer = 0;
  bool is_integer = false;
  ExprOp op = ExprOp::kConst;
  Reduce reduce = Reduce::kNone;
  TypeSyntax type;
  std::vector<NodePtr> args;
  std::vector<AxisSyntax> axes;
  int depth = 1;                           // of the tree below, kept under kMaxDepth
  int64_t size = 1;                        // nodes of that tree, saturating
};

enum class StatementKind : uint8_t { kLet, kInput, kCompute };

struct Statement {
  StatementKind kind = StatementKind::kCompute;
  std::string name;
  int position = 0;
  bool is_out = false, is_const = false;
  bool broken = false;                     // a syntax error: only the name counts
  TypeSyntax type;                         // kInput
  std::vector<NodePtr> shape;              // kInput
  std::vector<AxisSyntax> axes;            // kCompute
  NodePtr value;                           // kLet, kCompute
};

enum class ParameterKind : uint8_t { kInteger, kFloat, kBool, kType };

// A parameter's value: also what an override's text means.
struct ParameterValue {
  ParameterKind kind = ParameterKind::kInteger;
  int64_t integer = 0;
  double number = 0;
  Type type = Type::kF32;
};
// "128", "1e-5", "true", "bf16"; false when the text is none of them.
bool parse_parameter_value(std::string_view text, ParameterValue* value);

struct ParameterSyntax {
  std::string name;
  int position = 0;
  ParameterValue value;
};

struct OpSyntax {
  std::shared_ptr<const Source> source;
  std::string name;
  int position = 0;
  std::vector<ParameterSyntax> parameters;
  std::vector<Statement> statements;
  bool lost_names = false;                 // a broken statement's name is unknown
};

// Fills depth and size in.
NodePtr make_node(Node node);

// The functions of the language of one or two arguments; kConst when `name` is none.
ExprOp function_named(std::string_view name, size_t* arity);
const std::vector<std::string>& function_names();
bool reduction_named(std::string_view name, Reduce* reduce);
std::string_view reduction_name(Reduce reduce);
bool is_reserved(std::string_view name);   // op in out let const, types, true false inf
bool is_identifier(std::string_view name);

// Parses text to ops, broken ones included, with their syntax errors in `diagnostics`.
std::vector<OpDefinition> parse_ops(std::shared_ptr<const Source> source, Diagnostics* diagnostics);

// Elaborates an op with parameter values in order of declaration. Null when errors were reported.
std::unique_ptr<Program> elaborate(const OpSyntax& op, const std::vector<ParameterValue>& values,
                                   Diagnostics* diagnostics);

}  // namespace lw
