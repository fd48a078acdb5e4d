// Names and types: the first pass over a definition, which reports mistakes. Private to
// elaborate.cc, infer.cc and build.cc.
#pragma once

#include <unordered_map>
#include <vector>

#include "src/expr/language/border.h"
#include "src/expr/elaboration/names.h"

namespace lw {

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

// What a sum or prod of bodies of this type accumulates in (max and min: the type itself).
Type accumulator(Reduce reduce, Type type);

class Inference {
 public:
  Inference(Names& names, const Program& program) : names_(names), program_(program) {}
  void begin();                            // a definition: what was known of nodes is forgotten

  const Info& infer(const Node& node);
  // Of nodes that were inferred without a mistake:
  const std::vector<int>& reduction_axes(const Node& reduction) const {
    return reduction_axes_.at(&reduction);
  }
  const std::vector<Expr>& indices(const Node& read) const { return subscripts_.at(&read); }
  // An axis, a parameter or a let of a border's name goes first: it is a value.
  Border border_of(const Node& pad) const;

  // The tensor's element at the indices, and where the text has it (null: it is not of this
  // definition).
  Expr read(const Node& node, const std::vector<Expr>& indices);
  const Node* site_of(const ExprNode* read) const;

 private:
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
  Expr subscript(const Node& node);
  Expr scaled_subscript(const Node& node);
  void error(int position, std::string_view what, std::string_view hint = "") const {
    names_.diagnostics()->error(position, what, hint);
  }

  Names& names_;
  const Program& program_;
  std::unordered_map<const Node*, Info> infos_;
  std::unordered_map<const Node*, std::vector<int>> reduction_axes_;
  std::unordered_map<const Node*, std::vector<Expr>> subscripts_;
  std::unordered_map<const ExprNode*, const Node*> read_sites_;
  std::vector<Expr> kept_reads_;           // keeps the keys of read_sites_ alive
};

}  // namespace lw
