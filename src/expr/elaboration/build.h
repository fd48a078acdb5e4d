// Nodes from checked syntax: the second pass over a definition. `want` is the type a node is
// evaluated in: its own, or the accumulator's type of the reduction around it, and then the reads
// below are cast to it (a sum of products of f16 multiplies in f32). Private to elaborate.cc and
// build.cc.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "src/expr/elaboration/infer.h"

namespace lw {

// Whether a tensor of that shape is within the limits; reported where it is not.
bool check_size(Diagnostics* diagnostics, const std::string& name, int position,
                const std::vector<int64_t>& shape);

class NodeBuilder {
 public:
  struct Reduction {
    Type type;
    std::vector<int> axes;
    Expr body;
  };
  // Reductions below a root become tensors of `program`.
  NodeBuilder(const OpSyntax& op, Names& names, Inference& inference, Program& program)
      : op_(op), names_(names), inference_(inference), program_(program) {}

  Expr build(const Node& node, Type want);
  Reduction build_reduction(const Node& node, Type want);
  void report_faults(const Expr& body);    // reads that may leave their tensors
  // Axes by their numbers in the definition.
  Tensor finish_tensor(std::string name, const std::vector<int>& spatial,
                       const std::vector<int>& reduced, Reduce reduce, const Expr& body);

 private:
  Expr build_operation(const Node& node, Type want);
  Expr build_comparison(const Node& node);
  Expr build_where(const Node& node, Type want);
  Expr build_read(const Node& node);
  Expr build_border(const Node& pad);
  Expr build_cast(const Node& node);
  Expr axis_value(const Node& node);
  Expr split_reduction(const Node& node, Type want);
  std::vector<int> free_axes(const Expr& body, const std::vector<int>& bound) const;
  std::vector<ReadFault> faults(const Expr& body) const;
  void error(int position, std::string_view what, std::string_view hint = "") const {
    names_.diagnostics()->error(position, what, hint);
  }

  const OpSyntax& op_;
  Names& names_;
  Inference& inference_;
  Program& program_;
  std::vector<Expr> guards_;               // conditions that hold where build() is
  std::unordered_map<std::string, int> split_;  // text of a split-off tensor -> its position
};

}  // namespace lw
