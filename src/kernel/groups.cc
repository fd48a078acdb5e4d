#include "src/kernel/groups.h"

#include <algorithm>

#include "src/base/message.h"
#include "src/kernel/blocks.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

bool any_block(const std::vector<Stmt>& list) {
  return std::any_of(list.begin(), list.end(), [](const Stmt& s) {
    return s.kind == Stmt::Kind::kBlock || any_block(s.body) || any_block(s.otherwise);
  });
}

bool any_on_its_way(const std::vector<Stmt>& list) {
  return std::any_of(list.begin(), list.end(), [](const Stmt& s) {
    return s.on_its_way || any_on_its_way(s.body) || any_on_its_way(s.otherwise);
  });
}

class GroupWalk {
 public:
  explicit GroupWalk(const Kernel& kernel)
      : kernel_(kernel), values_(kernel), clusters_(kernel),
        has_blocks_(any_block(kernel.body) || any_block(kernel.prepack)) {}

  // The first defect in the list; "" when there is none.
  std::string list(const std::vector<Stmt>& list, const std::string& path) {
    for (size_t i = 0; i < list.size(); ++i) {
      std::string found = stmt(list[i], concat(path, "[", i, "]"));
      if (!found.empty()) return found;
    }
    return "";
  }

 private:
  std::string stmt(const Stmt& s, const std::string& path) {
    switch (s.kind) {
      case Stmt::Kind::kFor: return loop(s, path + (s.parallel ? ".parallel" : ".for"));
      case Stmt::Kind::kInt:
        values_.define(s);
        clusters_.define(s);
        return "";
      case Stmt::Kind::kOp: return op(s, path);
      case Stmt::Kind::kBlock: return "";
      case Stmt::Kind::kIf: break;
    }
    const bool apart = std::exchange(apart_, apart_ || values_.differ(s.conditions));
    const bool parted = std::exchange(parted_, parted_ || clusters_.differ(s.conditions));
    std::string found = list(s.body, path + ".then");
    if (found.empty()) found = list(s.otherwise, path + ".else");
    apart_ = apart;
    parted_ = parted;
    return found;
  }

  std::string loop(const Stmt& s, const std::string& path) {
    if (s.items < 1 || (!s.parallel && s.items != 1)) {
      return path + ": only parallel loops have items";
    }
    if (s.cluster < 1 || (!s.parallel && s.cluster != 1) || s.count % s.cluster != 0) {
      return concat(path, ": ", s.count, " iterations make no clusters of ", s.cluster);
    }
    if (s.producer && !s.parallel) return path + ": only groups have a producer";
    if (s.producer && (!has_op(s.body, Op::kBoxCopy) || any_on_its_way(s.body))) {
      return path + ": a producer copies boxes, and no item copies anything beside it";
    }
    values_.define(s);
    clusters_.define(s);
    if (!s.parallel) return list(s.body, path);
    if (in_group_) return path + ": parallel loops must not nest";
    in_group_ = true;
    items_ = s.items;
    std::string found = list(s.body, path);
    in_group_ = false;
    return found;
  }

  std::string op(const Stmt& s, const std::string& path) {
    if (is_barrier(s.op) || s.op == Op::kCommit || s.op == Op::kBoxCopy) {
      const std::string_view word = word_of(s);
      if (!in_group_) {
        return concat(path, " ", word, ": a ", word, " must stand in a parallel loop");
      }
      if (apart_) {
        return concat(path, " ", word, ": items may part at a condition around the ", word);
      }
      if (parted_) {
        return concat(path, " ", word, ": groups of a cluster may part at a condition around the ",
                      word);
      }
    }
    if (exchanges_registers(s.op)) {
      const std::string_view word = word_of(s);
      const bool wide = s.op == Op::kWideProduct || s.op == Op::kMultiplied;
      const int64_t sub_group = s.op == Op::kAcross ? s.integer
                                                    : wide ? kWideItems : kMatrixItems;
      if (!in_group_) return concat(path, " ", word, ": sub-groups are of a parallel loop's items");
      if (apart_) {
        return concat(path, " ", word, ": items may part at a condition around the exchange");
      }
      if (items_ % sub_group != 0) {
        return concat(path, " ", word, ": ", items_, " items make no sub-groups of ", sub_group);
      }
    }
    const Block* const box = box_of(s);
    const int buffer = box != nullptr ? box->dst.buffer : s.buffer;
    if (buffer < 0 || has_blocks_) return "";
    const Buffer& b = kernel_.buffers[buffer];
    if (b.scope != Scope::kManaged) return "";
    if (!in_group_) return path + ": " + b.name + " is a group's, and no group is here";
    if (b.memory != 0) return path + ": " + b.name + ": a group has memory 0 alone";
    return "";
  }

  const Kernel& kernel_;
  ItemValues values_;
  ClusterValues clusters_;
  const bool has_blocks_;                  // then managed memories are an NPU's
  bool in_group_ = false, apart_ = false, parted_ = false;
  int64_t items_ = 1;                      // of the group
};

}  // namespace

void ItemValues::define(const Stmt& s) {
  bool differs = false;
  if (s.kind == Stmt::Kind::kInt) {
    differs = s.int_op == Stmt::IntOp::kItem || s.int_op == Stmt::IntOp::kRegister ||
              differ(s.a) || differ(s.b);
  }
  differ_[s.var] = differs;
}

void ClusterValues::define(const Stmt& s) {
  bool differs = false;
  if (is_parallel(s)) {
    cluster_ = s.cluster;
    group_ = s.var;
    differs = cluster_ > 1;
  } else if (s.kind == Stmt::Kind::kInt) {
    // Groups of a cluster follow each other from a multiple of their number on.
    const bool same = s.int_op == Stmt::IntOp::kDiv && s.a == variable(group_) &&
                      s.divisor % cluster_ == 0;
    const bool data = s.int_op == Stmt::IntOp::kRegister;
    differs = cluster_ > 1 && !same && (data || differ(s.a) || differ(s.b));
  }
  differ_[s.var] = differs;
}

bool DifferingValues::differ(const Affine& a) const {
  return std::any_of(a.terms.begin(), a.terms.end(),
                     [&](const Affine::Term& t) { return differ_[t.var]; });
}

bool DifferingValues::differ(const std::vector<Affine>& conditions) const {
  return std::any_of(conditions.begin(), conditions.end(),
                     [&](const Affine& a) { return differ(a); });
}

bool has_op(const Stmt& s, Op op) {
  return is_op(s, op) || has_op(s.body, op) || has_op(s.otherwise, op);
}

bool has_op(const std::vector<Stmt>& list, Op op) {
  return std::any_of(list.begin(), list.end(), [op](const Stmt& s) { return has_op(s, op); });
}

std::string group_defect(const Kernel& kernel) {
  std::string found = GroupWalk(kernel).list(kernel.prepack, "prepack");
  return found.empty() ? GroupWalk(kernel).list(kernel.body, "body") : found;
}

}  // namespace lw
