// From a syntax tree and parameter values to a Program. Private to elaborate.cc, literal.cc,
// infer.cc and build.cc.
//
// Each definition goes through two passes. infer() resolves names and finds the type of every node,
// reporting all mistakes; build() then makes the nodes of expr.h, splitting every reduction below
// the root off into a tensor of its own. A literal has no type until build() asks it for one.
//
// Axes of one definition are numbered over the whole definition while it is built (its spatial axes
// first); a finished tensor renumbers those it uses.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/expr/border.h"
#include "src/expr/bounds.h"
#include "src/expr/syntax.h"

namespace lw {

// The value of an expression of literals, in f64; also exactly when it is an integer.
struct Literal {
  double number = 0;
  int64_t integer = 0;
  bool exact = false;
};

struct Info {
  enum Kind : uint8_t {
    kError,                                // reported already
    kLiteral,                              // takes the type it is asked for; `literal` is its value
    kFlexible,                             // the same, but no constant: where(c, 1, 0)
    kIndex,                                // of axes and literals alone: exact, an i32 as a value
    kTyped,
  };
  Kind kind = kError;
  Type type = Type::kI32;                  // of kTyped; kIndex is i32
  Literal literal;
};

struct Symbol {
  enum Kind : uint8_t { kBroken, kInteger, kFloat, kBool, kType, kTensor };
  Kind kind = kBroken;
  Literal literal;
  Type type = Type::kF32;
  int tensor = -1;
};

// What a sum or prod of bodies of this type accumulates in (max and min: the type itself).
Type accumulator(Reduce reduce, Type type);

class Elaborator {
 public:
  Elaborator(const OpSyntax& op, Diagnostics* diagnostics) : op_(op), diagnostics_(diagnostics) {}
  std::unique_ptr<Program> run(const std::vector<ParameterValue>& values);

 private:
  // elaborate.cc: statements.
  void declare_parameters(const std::vector<ParameterValue>& values);
  bool declare(const std::string& name, int position, Symbol symbol);
  bool check_definitions();
  void collect_names();
  void collect_names(const NodePtr& node);
  void define_let(const Statement& statement);
  void define_input(const Statement& statement);
  void define_tensor(const Statement& statement);
  bool check_size(const std::string& name, int position, const std::vector<int64_t>& shape);
  bool push_axes(const std::vector<AxisSyntax>& axes, std::vector<int>* ids);
  void pop_axes(size_t count) { scope_.resize(scope_.size() - count); }
  int find_axis(const std::string& name) const;
  Tensor finish_tensor(std::string name, const std::vector<int>& spatial,
                       const std::vector<int>& reduced, Reduce reduce, const Expr& body);
  void keep_needed();
  std::string fresh_name(const std::string& base);

  // literal.cc: constants.
  bool is_literal(const Node& node) const;
  std::optional<int64_t> integer(const Node& node, std::string_view what);
  std::optional<int64_t> integer_operation(const Node& node, int64_t a, int64_t b);
  static std::optional<Literal> fold(ExprOp op, const Literal& a, const Literal* b);
  Expr literal_as(const Node& node, const Literal& literal, Type type);

  // infer.cc: names and types.
  const Info& infer(const Node& node);
  Info infer_node(const Node& node);
  Info infer_name(const Node& node);
  Info infer_read(const Node& node);
  Info infer_operation(const Node& node);
  Info infer_where(const Node& node);
  Info infer_clamp(const Node& node);
  Info infer_cast(const Node& node);
  Info infer_reduce(const Node& node);
  Info combine(const Node& node, const Info& a, const Info& b);
  Info require(const Node& node, ExprOp op, const Info& operands);
  std::optional<Type> type_named(const std::string& name, int position);
  void unknown_name(const Node& node, bool tensor);
  Expr subscript(const Node& node);
  Expr scaled_subscript(const Node& node);

  // border.cc: pad(READ, edge | reflect | wrap).
  Border border_of(const Node& pad) const;
  Info infer_border(const Node& pad);
  Expr build_border(const Node& pad);
  Expr inside(const Expr& index, int64_t extent, Border border) const;

  // build.cc: nodes.
  struct Reduction {
    Type type;
    std::vector<int> axes;
    Expr body;
  };
  Expr build(const Node& node, Type want);
  Expr build_operation(const Node& node, Type want);
  Expr build_comparison(const Node& node);
  Expr build_where(const Node& node, Type want);
  Expr build_read(const Node& node);
  Expr build_read(const Node& node, const std::vector<Expr>& indices);
  Expr build_cast(const Node& node);
  Expr axis_value(const Node& node);
  Reduction build_reduction(const Node& node, Type want);
  Expr split_reduction(const Node& node, Type want);
  std::vector<int> free_axes(const Expr& body, const std::vector<int>& bound) const;
  std::vector<ReadFault> faults(const Expr& body) const;
  void report_faults(const Expr& body);

  const OpSyntax& op_;
  Diagnostics* diagnostics_;
  std::unique_ptr<Program> program_ = std::make_unique<Program>();
  std::map<std::string, Symbol> symbols_;
  std::set<std::string> names_;            // every name in the op: fresh_name avoids them

  // Of the definition at hand.
  std::string definition_;                 // its name
  std::vector<Axis> axes_;                 // by number
  std::vector<std::pair<std::string, int>> scope_;
  std::unordered_map<const Node*, Info> infos_;
  std::unordered_map<const Node*, std::vector<int>> reduction_axes_;
  std::unordered_map<const Node*, std::vector<Expr>> subscripts_;
  std::unordered_map<const ExprNode*, const Node*> read_sites_;
  std::vector<Expr> kept_reads_;           // keeps the keys of read_sites_ alive
  std::vector<Expr> guards_;               // conditions that hold where build() is
  std::unordered_map<std::string, int> split_;  // text of a split-off tensor -> its position
};

}  // namespace lw
