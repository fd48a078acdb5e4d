// A norm's row loop divides by the same root for every row: a scalar root and a division took more
// of the loop than its loads and stores (rms_norm_2d: 9.6 us, and 8.1 us without).
#include "src/lower/hoist.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "src/expr/operations.h"
#include "src/kernel/ops.h"
#include "src/lower/statements.h"

namespace lw::lowering {
namespace {

// Whether it computes a value from its sources, its buffer and its index alone.
bool is_value(const Stmt& s) {
  if (s.kind != Stmt::Kind::kOp) return false;
  switch (s.op) {
    case Op::kImmediate: case Op::kMove: case Op::kBroadcast: case Op::kUnary: case Op::kBinary:
    case Op::kFma: case Op::kSelect: case Op::kCast: case Op::kHorizontal:
      return true;
    case Op::kLoad: return s.mask < 0 && s.indices < 0;
    default: return false;
  }
}

bool is_dear(const Stmt& s) {
  if (is_op(s, Op::kUnary)) return row_of(s.expr_op).rounding != Rounding::kNone;
  return is_op(s, Op::kBinary) && (s.expr_op == ExprOp::kDiv || s.expr_op == ExprOp::kMod ||
                                   s.expr_op == ExprOp::kPow);
}

class Hoist {
 public:
  explicit Hoist(const Kernel& kernel) : writers_(kernel.registers.size()) {
    for (const std::vector<Stmt>* list : {&kernel.body, &kernel.prepack}) {
      for_each(*list, [&](const Stmt& s) {
        if (s.dst >= 0) ++writers_[s.dst];
        for (const int r : written_of_many(s)) ++writers_[r];
      });
    }
  }

  void run(std::vector<Stmt>& list) {
    std::vector<Stmt> result;
    result.reserve(list.size());
    for (Stmt& s : list) {
      run(s.body);
      run(s.otherwise);
      if (s.kind == Stmt::Kind::kFor && !s.parallel && s.count > 1) {
        for (Stmt& value : taken_out(s)) result.push_back(std::move(value));
      }
      result.push_back(std::move(s));
    }
    list = std::move(result);
  }

 private:
  // Removes from the loop what is worth it.
  std::vector<Stmt> taken_out(Stmt& loop) {
    std::vector<Stmt>& body = loop.body;
    if (std::none_of(body.begin(), body.end(), is_dear)) return {};
    changed_registers_.clear();
    changed_variables_ = {loop.var};
    changed_buffers_.clear();
    for_each(body, [&](const Stmt& s) {
      if (s.dst >= 0) changed_registers_.insert(s.dst);
      for (const int r : written_of_many(s)) changed_registers_.insert(r);
      if (s.kind != Stmt::Kind::kOp && s.var >= 0) changed_variables_.insert(s.var);
      visit_buffers(s, [this](int buffer, bool write) {
        if (write) changed_buffers_.insert(buffer);
      });
      if (s.kind == Stmt::Kind::kBlock) changed_buffers_.insert(s.block->dst.buffer);
    });
    // What could be made before the loop, in order; then, from the last on, what is worth it.
    std::vector<size_t> same;
    for (size_t i = 0; i < body.size(); ++i) {
      if (!is_same(body[i])) continue;
      same.push_back(i);
      changed_registers_.erase(body[i].dst);
    }
    absl::flat_hash_set<int> dear, needed;
    for (const size_t i : same) {
      const bool of_dear = is_op(body[i], Op::kBroadcast) && dear.contains(body[i].srcs[0]);
      if (is_dear(body[i]) || of_dear) dear.insert(body[i].dst);
    }
    std::vector<bool> goes(body.size());
    for (size_t n = same.size(); n-- > 0;) {
      const Stmt& s = body[same[n]];
      goes[same[n]] = dear.contains(s.dst) || needed.contains(s.dst);
      if (goes[same[n]]) needed.insert(std::begin(s.srcs), std::end(s.srcs));
    }
    std::vector<Stmt> out, stays;
    for (size_t i = 0; i < body.size(); ++i) (goes[i] ? out : stays).push_back(std::move(body[i]));
    body = std::move(stays);
    return out;
  }

  bool is_same(const Stmt& s) const {
    if (!is_value(s) || writers_[s.dst] != 1) return false;
    if (s.op == Op::kLoad && changed_buffers_.contains(s.buffer)) return false;
    for (const int source : s.srcs) {
      if (source >= 0 && changed_registers_.contains(source)) return false;
    }
    return std::none_of(s.index.terms.begin(), s.index.terms.end(), [&](const Affine::Term& term) {
      return changed_variables_.contains(term.var);
    });
  }

  std::vector<int> writers_;               // statements that set each register
  absl::flat_hash_set<int> changed_registers_, changed_variables_, changed_buffers_;  // in a loop
};

}  // namespace

void hoist(Kernel& kernel) {
  Hoist hoist(kernel);
  hoist.run(kernel.body);
  hoist.run(kernel.prepack);
}

}  // namespace lw::lowering
