// What the names of an op mean, and the axes of the definition at hand. Private to elaborate.cc,
// literal.cc, infer.cc and build.cc.
//
// Axes of one definition are numbered over the whole definition while it is built (its spatial axes
// first); a finished tensor renumbers those it uses.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/expr/expr.h"
#include "src/expr/elaboration/literal.h"
#include "src/expr/language/syntax.h"

namespace lw {

struct Symbol {
  enum Kind : uint8_t { kBroken, kInteger, kFloat, kBool, kType, kTensor };
  Kind kind = kBroken;
  Literal literal;
  Type type = Type::kF32;
  int tensor = -1;
};

class Names {
 public:
  Names(const OpSyntax& op, Diagnostics* diagnostics) : op_(op), diagnostics_(diagnostics) {}
  Diagnostics* diagnostics() const { return diagnostics_; }

  bool declare(const std::string& name, int position, Symbol symbol);
  const Symbol* find(const std::string& name) const;  // null: there is none
  void collect();                          // every name in the op: fresh() avoids them
  std::string fresh(const std::string& base);
  std::optional<Type> type_named(const TypeSyntax& named) const;
  void report_unknown(const Node& node, bool tensor) const;

  // A definition begins, without axes.
  void begin(const std::string& definition);
  const std::string& definition() const { return definition_; }
  // Brings axes into scope. Those of one name and extent share a number in the whole definition, so
  // a node that the builder uses under two reductions means the axis of either. False: a mistake.
  bool push_axes(const std::vector<AxisSyntax>& axes, std::vector<int>* ids);
  void push_axis(const std::string& name, int id) { scope_.emplace_back(name, id); }
  void pop_axes(size_t count) { scope_.resize(scope_.size() - count); }
  int find_axis(const std::string& name) const;       // its number, -1: none in scope
  const std::vector<Axis>& axes() const { return axes_; }  // by number

 private:
  void collect(const NodePtr& node);

  const OpSyntax& op_;
  Diagnostics* diagnostics_;
  std::map<std::string, Symbol> symbols_;
  std::set<std::string> taken_;
  std::string definition_;
  std::vector<Axis> axes_;
  std::vector<std::pair<std::string, int>> scope_;
};

}  // namespace lw
