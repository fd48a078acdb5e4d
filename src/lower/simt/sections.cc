// First the program is cut, then each item runs it, on sums of symbols. Loops that write what they
// read may hold barriers: they stay loops, run once with a symbol for the iteration. The others run
// as often as they say, so that what each item touches is known exactly; long ones are loops too,
// of whose iterations less is known.
#include "src/lower/simt/sections.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "src/expr/scalar.h"
#include "src/kernel/blocks.h"
#include "src/kernel/groups.h"
#include "src/kernel/ops.h"
#include "src/lower/statements.h"

namespace lw::lowering {
namespace {

// Of all items, that a loop is run for. Of what is written more is worth knowing: several items
// that may write the same have no way out.
constexpr int64_t kMostReads = int64_t{1} << 16, kMostWrites = int64_t{1} << 17;

struct Uses {
  std::vector<bool> reads, writes;         // by buffer
  explicit Uses(size_t buffers) : reads(buffers), writes(buffers) {}
};

bool is_access(const Stmt& s) {
  return s.kind == Stmt::Kind::kOp &&
         (s.op == Op::kLoad || s.op == Op::kStore || s.op == Op::kWideProduct ||
          s.op == Op::kBoxCopy);
}

void find_uses(const std::vector<Stmt>& list, Uses* uses) {
  for (const Stmt& s : list) {
    visit_buffers(s, [&](int buffer, bool write) {
      (write ? uses->writes : uses->reads)[buffer] = true;
    });
    find_uses(s.body, uses);
    find_uses(s.otherwise, uses);
  }
}

// What the cut knows of statements.
struct Cut {
  std::vector<bool> shared;                // by buffer: items write and read it, all the same one
  absl::flat_hash_map<const Stmt*, int> access;       // of accesses, and of loops that are run
  absl::flat_hash_map<const Stmt*, int> loop_symbol;  // of loops that stay
};

bool touches_shared(const Stmt& s, const Cut& cut) {
  bool any = false;
  visit_buffers(s, [&](int buffer, bool) { any = any || cut.shared[buffer]; });
  return any;
}

class Cutter {
 public:
  Cutter(const Kernel& kernel, int64_t items, Group* group, Cut* cut)
      : kernel_(kernel), items_(items), group_(group), cut_(cut), values_(kernel) {}

  std::vector<Section> list(const std::vector<Stmt>& list) {
    std::vector<Section> sections;
    bool open = false;                     // the last section goes on
    Uses run(kernel_.buffers.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const Stmt& s = list[i];
      if (s.kind == Stmt::Kind::kInt || s.kind == Stmt::Kind::kFor) values_.define(s);
      if (is_op(s, Op::kLanded)) {
        sections.push_back({.kind = Section::Kind::kBarrier, .at = i, .stays = true});
        open = false;
      }
      if (accesses(s) == 0) continue;
      if (is_access(s)) {
        bool other = !open;
        visit_buffers(s, [&](int buffer, bool write) {
          other = other || (write ? run.reads : run.writes)[buffer];
        });
        if (other) {
          sections.push_back(access(i));
          run = Uses(kernel_.buffers.size());
        }
        open = true;
        visit_buffers(s, [&](int buffer, bool write) {
          (write ? run.writes : run.reads)[buffer] = true;
        });
        cut_->access[&s] = sections.back().access;
      } else {
        open = false;
        sections.push_back(s.kind == Stmt::Kind::kIf ? branch(s, i) : loop(s, i));
      }
    }
    return sections;
  }

 private:
  // How often an item comes to one.
  int64_t accesses(const Stmt& s) const {
    if (is_access(s)) return touches_shared(s, *cut_);
    int64_t sum = 0;
    for (const std::vector<Stmt>* list : {&s.body, &s.otherwise}) {
      for (const Stmt& inside : *list) sum += accesses(inside);
    }
    return s.kind == Stmt::Kind::kFor ? std::min(sum, kMostWrites) * s.count : sum;
  }

  Section access(size_t at) {
    group_->accesses.emplace_back();
    const int number = static_cast<int>(group_->accesses.size()) - 1;
    return {.kind = Section::Kind::kAccess, .at = at, .access = number};
  }

  Section branch(const Stmt& s, size_t at) {
    Section section{.kind = Section::Kind::kBranch, .at = at,
                    .apart = values_.differ(s.conditions)};
    for (const Affine& condition : s.conditions) {
      if (condition.terms.size() != 1) continue;
      const auto& [var, factor] = condition.terms[0];
      const auto symbol = symbols_.find(var);
      if (symbol == symbols_.end() || (factor != 1 && factor != -1)) continue;
      section.within.emplace_back(
          symbol->second, factor > 0 ? Interval{-condition.constant, INT64_MAX / 2}
                                     : Interval{INT64_MIN / 2, condition.constant});
    }
    section.body = list(s.body);
    section.otherwise = list(s.otherwise);
    return section;
  }

  Section loop(const Stmt& s, size_t at) {
    Uses uses(kernel_.buffers.size());
    find_uses(s.body, &uses);
    bool both = false, writes = false;
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      writes = writes || (cut_->shared[b] && uses.writes[b]);
      both = both || (cut_->shared[b] && uses.reads[b] && uses.writes[b]);
    }
    if (!both && accesses(s) <= (writes ? kMostWrites : kMostReads) / items_) {
      Section run = access(at);
      cut_->access[&s] = run.access;
      return run;
    }
    Section section{.kind = Section::Kind::kLoop, .at = at, .count = s.count};
    section.symbol = group_->symbols.add({0, s.count - 1});
    section.other = group_->symbols.add({0, s.count - 1});
    cut_->loop_symbol[&s] = section.symbol;
    symbols_[s.var] = section.symbol;
    section.body = list(s.body);
    symbols_.erase(s.var);
    return section;
  }

  const Kernel& kernel_;
  const int64_t items_;
  Group* group_;
  Cut* cut_;
  ItemValues values_;
  absl::flat_hash_map<int, int> symbols_;  // of the variables of loops around
};

// An item's run.
class ItemRun {
 public:
  ItemRun(const Kernel& kernel, const Cut& cut, int unknown, int item, Group* group)
      : kernel_(kernel), cut_(cut), unknown_(unknown), item_(item), group_(*group),
        symbols_(group->symbols), values_(kernel.variables), masks_(kernel.registers.size()),
        numbers_(kernel.registers.size()) {}

  void set(int var, const Affine& value) { values_[var] = value; }

  void list(const std::vector<Stmt>& list, int access = -1) {
    for (const Stmt& s : list) {
      switch (s.kind) {
        case Stmt::Kind::kInt: values_[s.var] = integer(s); break;
        case Stmt::Kind::kFor: loop(s, access); break;
        case Stmt::Kind::kIf: branch(s, access); break;
        case Stmt::Kind::kOp: op(s, access); break;
        case Stmt::Kind::kBlock: break;
      }
    }
  }

 private:
  // Lane l is on only where at + l * stride >= 0.
  struct LaneForm {
    Affine at;
    int64_t stride;
  };
  using Mask = std::vector<LaneForm>;      // all of them; none: nothing is known

  Affine value(const Affine& a) const {
    Affine sum = affine(a.constant);
    for (const Affine::Term& t : a.terms) {
      const Affine& v = values_[t.var];
      if (v.terms.empty()) sum.constant += t.coefficient * v.constant;
      else sum = sum + v * t.coefficient;
    }
    return sum;
  }

  bool is_unknown(const Affine& a) const {
    return std::any_of(a.terms.begin(), a.terms.end(),
                       [&](const Affine::Term& t) { return t.var == unknown_; });
  }

  Affine integer(const Stmt& s) {
    if (s.int_op == Stmt::IntOp::kItem) return affine(item_);
    if (s.int_op == Stmt::IntOp::kRegister) return variable(unknown_);
    const Affine a = value(s.a), b = value(s.b);
    if (is_unknown(a) || is_unknown(b)) return variable(unknown_);
    return symbols_.value(s.int_op, a, b, s.divisor);
  }

  void loop(const Stmt& s, int access) {
    const auto symbol = cut_.loop_symbol.find(&s);
    forget(s.body);
    if (symbol != cut_.loop_symbol.end()) {
      values_[s.var] = variable(symbol->second);
      list(s.body);
    } else if (access >= 0 || cut_.access.contains(&s)) {
      if (access < 0) access = cut_.access.at(&s);
      for (int64_t n = 0; n < s.count; ++n) {
        values_[s.var] = affine(n);
        list(s.body, access);
      }
      return;
    }
    forget(s.body);
  }

  void branch(const Stmt& s, int access) {
    bool taken = true, passed = false;     // for sure
    const size_t around = holds_.size();
    for (const Affine& condition : s.conditions) {
      const Affine at_least_0 = value(condition);
      const Interval range = symbols_.range(at_least_0);
      taken = taken && range.lo >= 0;
      passed = passed || range.hi < 0 || contradicts(at_least_0);
      holds_.push_back(at_least_0);
    }
    if (!passed) list(s.body, access);
    holds_.resize(around);
    if (!taken) list(s.otherwise, access);
    if (taken || passed) return;
    forget(s.body);
    forget(s.otherwise);
  }

  // Whether one of the conditions around leaves no whole number between it and the new one.
  bool contradicts(const Affine& a) const {
    if (a.is_constant()) return false;
    int64_t unit = 0;
    for (const Affine::Term& t : a.terms) unit = std::gcd(unit, t.coefficient);
    return std::any_of(holds_.begin(), holds_.end(), [&](const Affine& other) {
      const Affine sum = a + other;        // a's terms are at least -a's constant, at most other's
      return sum.is_constant() && floor_div(other.constant, unit) * unit < -a.constant;
    });
  }

  void forget(const std::vector<Stmt>& list) {
    for (const Stmt& s : list) {
      if (s.dst >= 0) masks_[s.dst].clear(), numbers_[s.dst].reset();
      forget(s.body);
      forget(s.otherwise);
    }
  }

  void op(const Stmt& s, int access) {
    if (is_access(s)) {
      if (!touches_shared(s, cut_)) return;
      return touch(s, access >= 0 ? access : cut_.access.at(&s));
    }
    if (s.dst < 0) return;
    if (kernel_.registers[s.dst].type == Type::kI64) numbers_[s.dst] = number(s);
    if (kernel_.registers[s.dst].type != Type::kBool) return;
    Mask mask;
    if (s.op == Op::kLaneMask) {
      mask.push_back({value(s.index), s.stride});
    } else if (s.op == Op::kMove || s.op == Op::kBroadcast) {
      if (s.op == Op::kMove || kernel_.registers[s.srcs[0]].lanes == 1) mask = masks_[s.srcs[0]];
    } else if (s.op == Op::kBinary && s.expr_op == ExprOp::kAnd) {
      mask = masks_[s.srcs[0]];
      mask.insert(mask.end(), masks_[s.srcs[1]].begin(), masks_[s.srcs[1]].end());
    }
    masks_[s.dst] = std::move(mask);
  }

  // Between what the register's lanes are.
  std::optional<Interval> number(const Stmt& s) const {
    const auto source = [&](int i) { return numbers_[s.srcs[i]]; };
    switch (s.op) {
      case Op::kImmediate: return Interval{s.integer, s.integer};
      case Op::kMove: case Op::kBroadcast: return source(0);
      case Op::kIota: {
        const Affine first = value(s.index);
        if (is_unknown(first)) return std::nullopt;
        const Interval range = symbols_.range(first);
        const int64_t last = s.stride * (kernel_.registers[s.dst].lanes - 1);
        return Interval{std::min(range.lo, range.lo + last), std::max(range.hi, range.hi + last)};
      }
      case Op::kBinary: break;
      default: return std::nullopt;
    }
    if (!source(0).has_value() || !source(1).has_value()) return std::nullopt;
    const Interval a = *source(0), b = *source(1);
    const bool constant = b.lo == b.hi;
    switch (s.expr_op) {
      case ExprOp::kAdd: return Interval{a.lo + b.lo, a.hi + b.hi};
      case ExprOp::kSub: return Interval{a.lo - b.hi, a.hi - b.lo};
      case ExprOp::kMin: return Interval{std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      case ExprOp::kMax: return Interval{std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
      case ExprOp::kMul:
        if (!constant) return std::nullopt;
        return Interval{std::min(a.lo * b.lo, a.hi * b.lo), std::max(a.lo * b.lo, a.hi * b.lo)};
      case ExprOp::kDiv:
        if (!constant || b.lo <= 0) return std::nullopt;
        return Interval{floor_div(a.lo, b.lo), floor_div(a.hi, b.lo)};
      case ExprOp::kMod:
        if (!constant || b.lo <= 0) return std::nullopt;
        if (floor_div(a.lo, b.lo) != floor_div(a.hi, b.lo)) return Interval{0, b.lo - 1};
        return Interval{floor_mod(a.lo, b.lo), floor_mod(a.hi, b.lo)};
      default: return std::nullopt;
    }
  }

  bool is_on(const Mask& mask, int64_t lane) const {
    return std::all_of(mask.begin(), mask.end(), [&](const LaneForm& form) {
      return symbols_.range(form.at + affine(lane * form.stride)).hi >= 0;
    });
  }

  void touch(const Stmt& s, int access) {
    const bool write = s.op == Op::kStore;
    Footprint& footprint = group_.accesses[access];
    if (s.op == Op::kWideProduct) {
      for (const View& view : factors_of(s)) {
        const Reach reach = reach_of(*s.block, view);
        footprint.add(view.buffer, false, value(view.index) + affine(reach.lo),
                      reach.hi - reach.lo + 1, item_);
      }
      return;
    }
    if (const Block* box = box_of(s); box != nullptr) {
      const Reach reach = reach_of(*box, box->dst);
      if (item_ != 0) return;              // the first item's stores
      return footprint.add(box->dst.buffer, true, value(box->dst.index) + affine(reach.lo),
                           reach.hi - reach.lo + 1, item_);
    }
    const Affine at = value(s.index);
    const std::optional<Interval> added = s.indices < 0 ? Interval{0, 0} : numbers_[s.indices];
    if (is_unknown(at) || !added.has_value()) {
      return footprint.add(s.buffer, write, {}, kernel_.buffers[s.buffer].elements, item_);
    }
    if (s.indices >= 0) {
      return footprint.add(s.buffer, write, at + affine(added->lo), added->hi - added->lo + 1,
                           item_);
    }
    const int64_t lanes = kernel_.registers[write ? s.srcs[0] : s.dst].lanes;
    if (s.mask < 0 && (s.stride == 1 || lanes == 1)) {
      return footprint.add(s.buffer, write, at, lanes, item_);
    }
    if (s.mask >= 0 && touch_bounds(s, footprint, at, masks_[s.mask])) return;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      if (s.mask >= 0 && !is_on(masks_[s.mask], lane)) continue;
      footprint.add(s.buffer, write, at + affine(lane * s.stride), 1, item_);
    }
  }

  // Where the mask has a limit that says more plainly where all lanes are than the index does:
  // whether it has.
  bool touch_bounds(const Stmt& s, Footprint& footprint, const Affine& at, const Mask& mask) {
    std::optional<Affine> most;            // of the fewest symbols
    for (const LaneForm& upper : mask) {
      const Affine limit = at + upper.at;
      if (upper.stride != -s.stride || limit.terms.size() >= at.terms.size()) continue;
      const auto order = [](const Affine& a) { return std::pair(a.terms.size(), a.constant); };
      if (!most.has_value() || order(limit) < order(*most)) most = limit;
    }
    if (!most.has_value()) return false;
    int64_t before = -symbols_.range(at - *most).lo;  // elements, of the first lane
    for (const LaneForm& lower : mask) {
      const Affine least = at - lower.at;
      if (lower.stride != s.stride || least.terms != most->terms) continue;
      before = std::min(before, most->constant - least.constant);
    }
    if (before >= kernel_.buffers[s.buffer].elements) return false;
    if (before < 0) return true;
    footprint.add(s.buffer, s.op == Op::kStore, *most - affine(before), before + 1, item_);
    return true;
  }

  const Kernel& kernel_;
  const Cut& cut_;
  const int unknown_;                      // symbol of what data decide
  const int item_;
  Group& group_;
  Symbols& symbols_;
  std::vector<Affine> values_;             // by variable
  std::vector<Mask> masks_;                // by register
  std::vector<std::optional<Interval>> numbers_;  // by register; none: nothing is known
  std::vector<Affine> holds_;              // >= 0 here
};

}  // namespace

Group sections_of(const Kernel& kernel, const Stmt& loop) {
  Group group;
  Cut cut;
  Uses uses(kernel.buffers.size());
  find_uses(loop.body, &uses);
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const bool own = kernel.buffers[b].scope == Scope::kPrivate;
    cut.shared.push_back(!own && uses.reads[b] && uses.writes[b]);
  }
  group.sections = Cutter(kernel, loop.items, &group, &cut).list(loop.body);
  if (group.sections.empty()) return group;
  const int number = group.symbols.add({0, loop.count - 1});
  const int unknown = group.symbols.add({-(int64_t{1} << 60), int64_t{1} << 60});
  for (int item = 0; item < loop.items; ++item) {
    ItemRun run(kernel, cut, unknown, item, &group);
    run.set(loop.var, variable(number));
    run.list(loop.body);
  }
  for (Footprint& footprint : group.accesses) footprint.settle();
  return group;
}

}  // namespace lw::lowering
