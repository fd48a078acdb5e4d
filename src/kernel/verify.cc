// Checks a kernel's invariants: a failure is a bug of lowering, found before it can become a wild
// store. One walk in program order keeps
//   the range of every integer variable in scope (an interval),
//   facts: affine forms known to be >= 0 here (conditions of enclosing Ifs; what min, max, / and
//          affine definitions say of their variable), and
//   which registers are defined, and for lane masks, which affine form each lane asserts.
//
// An access is in bounds if index <= elements - 1 and index >= 0 follow (known.h). Lanes that a mask
// turns off need no proof. Gathers are clamped by the lowering, and masks that depend on data
// cannot be followed; both are trusted. A view of a block is in bounds if its first and its last
// element over the box are.
#include <algorithm>
#include <optional>

#include "src/base/check.h"
#include "src/expr/scalar.h"
#include "src/kernel/blocks.h"
#include "src/kernel/buffers.h"
#include "src/kernel/groups.h"
#include "src/kernel/known.h"
#include "src/kernel/ops.h"
#include "src/kernel/quotient.h"

namespace lw {
namespace {

using Range = Known::Range;

// One lane mask: lane l is on only if index + l * stride >= 0, for each of the forms.
struct LaneForm {
  Affine index;
  int64_t stride;
};

using Mask = std::optional<std::vector<LaneForm>>;  // empty: unknown

class Verifier {
 public:
  Verifier(const Kernel& kernel, Checked checked) : kernel_(kernel), checked_(checked) {}

  absl::Status run() {
    buffers();
    walk(kernel_.prepack, "prepack", true);
    walk(kernel_.body, "body", false);
    if (error_.empty()) error_ = group_defect(kernel_);
    if (error_.empty()) return absl::OkStatus();
    return absl::InternalError("kernel " + kernel_.name + ": " + error_);
  }

 private:
  void fail(const std::string& what) {
    if (error_.empty()) error_ = path_ + ": " + what;
  }
  bool require(bool condition, const char* what) {
    if (!condition) fail(what);
    return condition;
  }

  void walk(const std::vector<Stmt>& body, const char* name, bool prepack) {
    path_ = name;
    in_prepack_ = prepack;
    known_.ranges.assign(kernel_.variables, std::nullopt);
    known_.extremes.assign(kernel_.variables, std::nullopt);
    defined_.assign(kernel_.registers.size(), false);
    masks_.assign(kernel_.registers.size(), std::nullopt);
    trusted_.assign(kernel_.registers.size(), false);
    known_.facts.clear();
    list(body);
  }

  void buffers() {
    error_ = buffers_defect(kernel_);
    path_ = "registers";
    for (const Register& r : kernel_.registers) require(r.lanes >= 1, "a register needs lanes");
  }

  Range range(const Affine& a) const { return known_.range(a); }

  void in_bounds(const Buffer& b, const Affine& index) {
    if (!known_.at_most(index, b.elements - 1)) {
      fail("access to " + b.name + " may reach element " + std::to_string(range(index).hi) +
           " of " + std::to_string(b.elements));
    }
    if (!known_.at_most(affine(0) - index, 0)) {
      fail("access to " + b.name + " may reach element " + std::to_string(range(index).lo));
    }
  }

  void list(const std::vector<Stmt>& list) {
    const size_t facts = known_.facts.size(), quotients = quotients_.size();
    const std::string outer = path_;
    for (size_t i = 0; i < list.size() && error_.empty(); ++i) {
      path_ = outer + "[" + std::to_string(i) + "]";
      stmt(list[i]);
    }
    if (error_.empty()) path_ = outer;
    for (const Stmt& s : list) {
      if (s.kind == Stmt::Kind::kInt && s.var >= 0 && s.var < kernel_.variables) leave(s.var);
    }
    known_.facts.resize(facts);
    quotients_.resize(quotients);
  }

  void stmt(const Stmt& s) {
    switch (s.kind) {
      case Stmt::Kind::kFor: return loop(s);
      case Stmt::Kind::kIf: return branch(s);
      case Stmt::Kind::kInt: return integer(s);
      case Stmt::Kind::kOp: return op(s);
      case Stmt::Kind::kBlock: return block(s);
    }
  }

  bool enter(int var, Range range) {
    if (!require(var >= 0 && var < kernel_.variables, "no such variable") ||
        !require(!known_.ranges[var].has_value(), "the variable is already in use")) {
      return false;
    }
    known_.ranges[var] = range;
    return true;
  }

  // The variable's name may be given to another: forget what was known in terms of it.
  void leave(int var) {
    known_.ranges[var] = std::nullopt;
    known_.extremes[var] = std::nullopt;
    for (Mask& mask : masks_) {
      if (!mask.has_value()) continue;
      for (const LaneForm& form : *mask) {
        const auto uses = [&](const Affine::Term& t) { return t.var == var; };
        if (std::any_of(form.index.terms.begin(), form.index.terms.end(), uses)) {
          mask = std::nullopt;
          break;
        }
      }
    }
  }

  bool known(const Affine& a) {
    for (const Affine::Term& t : a.terms) {
      if (!require(t.var >= 0 && t.var < kernel_.variables && known_.ranges[t.var].has_value(),
                   "a variable is used outside of its scope")) {
        return false;
      }
    }
    return true;
  }

  // What a loop or a branch writes has no known mask afterwards (nor, in loops, before).
  void forget_masks(const std::vector<Stmt>& list) {
    const auto forget = [&](int i) {
      if (i < 0 || i >= static_cast<int>(masks_.size())) return;
      masks_[i] = std::nullopt;
      trusted_[i] = false;
    };
    for (const Stmt& s : list) {
      forget_masks(s.body);
      forget_masks(s.otherwise);
      if (s.kind != Stmt::Kind::kOp) continue;
      forget(s.dst);
      for (const int written : written_of_many(s)) forget(written);
    }
  }

  void loop(const Stmt& s) {
    if (!require(s.count >= 1, "a loop must run at least once") ||
        !enter(s.var, {0, s.count - 1})) {
      return;
    }
    forget_masks(s.body);
    path_ += s.parallel ? ".parallel" : ".for";
    if (s.parallel) {
      items_ = s.items;
      const std::vector<bool> defined = defined_;
      defined_.assign(defined_.size(), false);
      in_parallel_ = true;
      list(s.body);
      in_parallel_ = false;
      defined_ = defined;
    } else {
      list(s.body);
    }
    forget_masks(s.body);
    leave(s.var);
  }

  void branch(const Stmt& s) {
    const size_t facts = known_.facts.size();
    for (const Affine& condition : s.conditions) {
      if (!known(condition)) return;
      known_.facts.push_back(condition);
      bound_quotients(quotients_, condition, &known_.facts);
    }
    const std::string outer = path_;
    const std::vector<bool> before = defined_;
    path_ = outer + ".then";
    list(s.body);
    known_.facts.resize(facts);
    std::vector<bool> after = defined_;
    defined_ = before;
    if (error_.empty()) path_ = outer + ".else";
    if (s.conditions.size() == 1) known_.facts.push_back(s.conditions[0] * -1 - affine(1));
    list(s.otherwise);
    known_.facts.resize(facts);
    for (size_t i = 0; i < after.size(); ++i) defined_[i] = defined_[i] && after[i];
    forget_masks(s.body);
    forget_masks(s.otherwise);
  }

  void integer(const Stmt& s) {
    if (!known(s.a) || !known(s.b)) return;
    const Range a = range(s.a), b = range(s.b);
    const auto fact = [&](const Affine& f) { known_.facts.push_back(f); };
    switch (s.int_op) {
      case Stmt::IntOp::kAffine:
        if (!enter(s.var, a)) return;
        fact(s.a - variable(s.var));
        return fact(variable(s.var) - s.a);
      case Stmt::IntOp::kDiv: case Stmt::IntOp::kMod: {
        if (!require(s.divisor > 0, "the divisor must be positive")) return;
        const Range quotient = {floor_div(a.lo, s.divisor), floor_div(a.hi, s.divisor)};
        if (s.int_op == Stmt::IntOp::kDiv) {
          if (!enter(s.var, quotient)) return;
          quotients_.push_back({s.a, s.divisor, s.var});
          const Affine rest = s.a - variable(s.var, s.divisor);
          fact(rest);
          return fact(affine(s.divisor - 1) - rest);
        }
        if (quotient.lo != quotient.hi) {
          if (!enter(s.var, {0, s.divisor - 1})) return;
          // Where the quotient has a variable too, the remainder is exact.
          for (const Quotient& q : quotients_) {
            if (!(q.of == s.a) || q.divisor != s.divisor) continue;
            const Affine rest = s.a - variable(q.var, s.divisor);
            fact(rest - variable(s.var));
            fact(variable(s.var) - rest);
          }
          return;
        }
        const int64_t base = quotient.lo * s.divisor;  // the remainder is a - base
        if (!enter(s.var, {a.lo - base, a.hi - base})) return;
        fact(s.a - affine(base) - variable(s.var));
        return fact(variable(s.var) - s.a + affine(base));
      }
      case Stmt::IntOp::kMin:
        if (!enter(s.var, {std::min(a.lo, b.lo), std::min(a.hi, b.hi)})) return;
        known_.extremes[s.var] = Known::Extreme{false, s.a, s.b};
        fact(s.a - variable(s.var));
        return fact(s.b - variable(s.var));
      case Stmt::IntOp::kMax:
        if (!enter(s.var, {std::max(a.lo, b.lo), std::max(a.hi, b.hi)})) return;
        known_.extremes[s.var] = Known::Extreme{true, s.a, s.b};
        fact(variable(s.var) - s.a);
        return fact(variable(s.var) - s.b);
      case Stmt::IntOp::kRegister:
        if (!source(s.srcs[0])) return;
        require(!is_float(reg(s.srcs[0]).type) && reg(s.srcs[0]).lanes == 1,
                "needs a scalar integer register");
        enter(s.var, {INT64_MIN / 4, INT64_MAX / 4});
        return;
      case Stmt::IntOp::kItem:
        if (require(in_parallel_, "no parallel loop has this item")) enter(s.var, {0, items_ - 1});
        return;
    }
  }

  const Register& reg(int i) const { return kernel_.registers[i]; }
  bool exists(int i) {
    return require(i >= 0 && i < static_cast<int>(kernel_.registers.size()), "no such register");
  }
  bool source(int i) {
    if (!exists(i)) return false;
    if (!defined_[i]) fail("r" + std::to_string(i) + " is used before it is defined");
    return defined_[i];
  }
  bool there(const std::shared_ptr<const Block>& block) {
    if (!require(block != nullptr, "no block")) return false;
    if (const char* defect = block_defect(kernel_, *block)) {
      fail(defect);
      return false;
    }
    const auto views = views_of(*block);
    return std::all_of(block->clips.begin(), block->clips.end(),
                       [&](const Clip& clip) { return known(clip.first); }) &&
           std::all_of(views.begin(), views.end(),
                       [&](const View* view) { return known(view->index); });
  }
  // Whether what a statement's field names exists, and is defined where it is read.
  bool there(const Stmt& s, Field field) {
    const auto readable = [&](int i) { return source(i); };
    const auto there_is = [&](int i) { return exists(i); };
    const int buffers = static_cast<int>(kernel_.buffers.size());
    const auto half = s.many.begin() + s.many.size() / 2;
    switch (field) {
      case Field::kSources: case Field::kSlid:
        return std::all_of(s.srcs, s.srcs + row_of(s.op).sources, readable);
      case Field::kIndex: return known(s.index);
      case Field::kPlace:
        return require(s.buffer >= 0 && s.buffer < buffers, "no such buffer") && known(s.index);
      case Field::kStored: return source(s.srcs[0]);
      case Field::kMask: return s.mask < 0 || source(s.mask);
      case Field::kIndices: return s.indices < 0 || source(s.indices);
      case Field::kMany: return std::all_of(s.many.begin(), s.many.end(), readable);
      case Field::kBlock:
        return std::all_of(s.many.begin(), half, readable) &&
               std::all_of(half, s.many.end(), there_is);
      case Field::kGiven: return std::all_of(s.many.begin(), s.many.end(), there_is);
      case Field::kFactors: {
        const std::span<const View> views = factors_of(s);
        if (!require(!views.empty(), "has no factors")) return false;
        return std::all_of(views.begin(), views.end(), [&](const View& view) {
          return require(view.buffer >= 0 && view.buffer < buffers, "no such buffer") &&
                 known(view.index);
        });
      }
      case Field::kBox: return there(s.block);
      case Field::kNone: case Field::kConstant: case Field::kStride: case Field::kNonTemporal:
      case Field::kLocality: case Field::kReduce: case Field::kOnItsWay:
        return true;
    }
    return true;
  }

  void op(const Stmt& s) {
    const OpRow& row = row_of(s.op);
    path_ += " " + std::string(word_of(s));
    if (row.gives && !exists(s.dst)) return;
    for (Field field : row.fields) {
      if (!there(s, field)) return;
    }
    const char* defect = row.defect == nullptr ? nullptr : row.defect({kernel_, s});
    if (defect != nullptr) return fail(defect);
    if (s.op == Op::kLoad || s.op == Op::kStore) access(s);
    for (const View& view : factors_of(s)) {
      if (checked_ != Checked::kAll) continue;
      bounds(view.index, reach_of(*s.block, view), kernel_.buffers[view.buffer]);
    }
    if (const Block* box = box_of(s); box != nullptr) {
      const bool packed = kernel_.buffers[box->srcs[0].buffer].scope == Scope::kPacked;
      require(!in_prepack_ || !packed, "others write the box's tensor");
      touched(*box);
    }
    if (row.gives) define(s.dst, asserted(s), from_data(s));
    for (const int written : written_of_many(s)) define(written, std::nullopt, false);
  }

  void define(int i, Mask mask, bool trusted) {
    defined_[i] = true;
    masks_[i] = std::move(mask);
    trusted_[i] = trusted;
  }

  // A comparison of vectors of indices is not followed, nor is what it is a part of.
  bool from_data(const Stmt& s) const {
    if (s.op != Op::kBinary) return false;
    return (is_comparison(s.expr_op) && reg(s.srcs[0]).type == Type::kI64) ||
           trusted_[s.srcs[0]] || trusted_[s.srcs[1]];
  }

  // What each lane of the result asserts, as far as that can be followed.
  Mask asserted(const Stmt& s) {
    switch (s.op) {
      case Op::kMove: return masks_[s.srcs[0]];
      case Op::kBroadcast: {
        if (reg(s.srcs[0]).lanes > 1) return std::nullopt;
        Mask mask = masks_[s.srcs[0]];     // what the scalar asserts, every lane does
        if (mask.has_value()) {
          for (LaneForm& form : *mask) form.stride = 0;
        }
        return mask;
      }
      case Op::kLaneMask: return std::vector<LaneForm>{{s.index, s.stride}};
      case Op::kBinary: {
        if (s.expr_op != ExprOp::kAnd || from_data(s)) return std::nullopt;
        std::vector<LaneForm> both;        // what either side asserts
        for (int i : {s.srcs[0], s.srcs[1]}) {
          if (masks_[i].has_value()) both.insert(both.end(), masks_[i]->begin(), masks_[i]->end());
        }
        return both.empty() ? Mask() : Mask(std::move(both));
      }
      default: return std::nullopt;
    }
  }

  void block(const Stmt& s) {
    if (s.block != nullptr) path_ += " " + std::string(row_of(s.block->op).word);
    require(!in_parallel_, "a block must not stand in a parallel loop");
    if (there(s.block)) touched(*s.block);
  }

  // What a block reads and writes.
  void touched(const Block& block) {
    if (checked_ != Checked::kAll) return;
    writable(kernel_.buffers[block.dst.buffer]);
    for (const View* view : views_of(block)) {
      const Buffer& b = kernel_.buffers[view->buffer];
      if (view != &block.dst && !block.clips.empty()) {
        const Unclipped whole = unclipped_source(block);
        bounds(whole.index, whole.reach, b);
      } else {
        bounds(view->index, reach_of(block, *view), b);
      }
    }
  }

  void bounds(const Affine& index, Reach reach, const Buffer& b) {
    if (reach.hi - reach.lo >= b.elements) {
      return fail("the view of " + b.name + " reaches over more than its " +
                  std::to_string(b.elements) + " elements");
    }
    in_bounds(b, index + affine(reach.lo));
    in_bounds(b, index + affine(reach.hi));
  }

  void writable(const Buffer& b) {
    const bool read_only = b.scope == Scope::kPacked ? !in_prepack_
                           : b.scope == Scope::kArgument && (!b.written || in_prepack_);
    require(!read_only, "the buffer must not be written here");
  }

  void access(const Stmt& s) {
    if (checked_ != Checked::kAll) return;
    const bool store = s.op == Op::kStore;
    if (store) writable(kernel_.buffers[s.buffer]);
    if (s.indices < 0) bounds(s, reg(store ? s.srcs[0] : s.dst).lanes);
  }

  void bounds(const Stmt& s, int lanes) {
    const Buffer& b = kernel_.buffers[s.buffer];
    if (s.mask < 0) {
      in_bounds(b, s.index);
      if (s.stride != 0 && lanes > 1) in_bounds(b, s.index + affine((lanes - 1) * s.stride));
      return;
    }
    if (!masks_[s.mask].has_value()) return;
    const size_t facts = known_.facts.size();
    for (int l = 0; l < lanes && error_.empty(); ++l) {
      bool on = true;
      for (const LaneForm& form : *masks_[s.mask]) {
        const Affine fact = whole_numbers(form.index + affine(l * form.stride));
        on = on && range(fact).hi >= 0;
        known_.facts.push_back(fact);
        bound_quotients(quotients_, fact, &known_.facts);
      }
      if (on) in_bounds(b, s.index + affine(l * s.stride));
      known_.facts.resize(facts);
    }
  }

  const Kernel& kernel_;
  const Checked checked_;
  std::string error_, path_;
  bool in_prepack_ = false, in_parallel_ = false;
  int64_t items_ = 1;                      // of the loop around
  Known known_;                               // of the variables in scope
  std::vector<Quotient> quotients_;           // whose variables are in scope
  std::vector<bool> defined_, trusted_;       // by register
  std::vector<Mask> masks_;                   // by register
};

}  // namespace

absl::Status verify(const Kernel& k, Checked checked) { return Verifier(k, checked).run(); }

}  // namespace lw
