// A 3-D stencil with zeros beyond its ends was at 11 % of its bound: of 34 operations a vector, 7
// were its own; the rest clamped indices and selected zeros that only the hull of the volume needs.
#include "src/lower/interiors.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "src/lower/statements.h"

namespace lw::lowering {
namespace {

constexpr int64_t kMostStatements = 600;   // of a loop's body that becomes two: it is built twice
constexpr double kMostly = 0.8;            // of the iterations, to ask before inner loops
constexpr double kOften = 0.5;             // of the iterations, to ask at all
constexpr int64_t kWorth = 10;             // statements of the body for each that becomes simple
constexpr int64_t kMostPoints = 4096;      // that a share is counted over
constexpr int64_t kFewIterations = 4;      // of a loop that is unrolled instead

bool is_clamp(const Stmt& s) {
  return s.int_op == Stmt::IntOp::kMin || s.int_op == Stmt::IntOp::kMax;
}

int64_t size_of_list(const std::vector<Stmt>& list) {
  int64_t count = static_cast<int64_t>(list.size());
  for (const Stmt& s : list) count += size_of_list(s.body) + size_of_list(s.otherwise);
  return count;
}

void for_each_register(auto& s, const auto& visit) {
  if (s.dst >= 0) visit(s.dst);
  for (auto& r : s.srcs) if (r >= 0) visit(r);
  if (s.mask >= 0) visit(s.mask);
  if (s.indices >= 0) visit(s.indices);
  for (auto& r : s.many) visit(r);
}

using Conditions = std::vector<Affine>;    // each >= 0

// What an integer variable is where `needs` hold, in variables of loops; nothing: not affine.
struct Value {
  std::optional<Affine> affine;
  Conditions needs;
};

class Interiors {
 public:
  explicit Interiors(Kernel& kernel) : kernel_(kernel) {
    for (const std::vector<Stmt>* list : {&kernel.body, &kernel.prepack}) {
      for_each(*list, [&](const Stmt& s) { for_each_register(s, [&](int r) { ++uses_[r]; }); });
    }
  }

  // Makes simple what is; `versions`: and loops that have an interior become two.
  void run(std::vector<Stmt>& list, bool versions = true) {
    std::vector<Stmt> result;
    result.reserve(list.size());
    std::set<int> all_on;                  // masks, since the latest loop or branch
    for (Stmt& s : list) {
      const bool was_mask = is_op(s, Op::kLaneMask);
      simplify(s);
      if (s.kind != Stmt::Kind::kOp) all_on.clear();
      if (s.dst >= 0) all_on.erase(s.dst);
      if (was_mask && is_op(s, Op::kImmediate)) all_on.insert(s.dst);
      if (all_on.contains(s.mask)) s.mask = -1;
      if (versions && s.kind == Stmt::Kind::kFor && unrolls(s)) {
        for (int64_t i = 0; i < s.count; ++i) {
          std::vector<Stmt> copy = i + 1 < s.count ? with_own_registers(s.body) : s.body;
          put_variables(copy, s.var, i);
          run(copy);
          std::move(copy.begin(), copy.end(), std::back_inserter(result));
        }
        continue;
      }
      if (s.kind == Stmt::Kind::kFor) run_loop(s, versions);
      if (s.kind == Stmt::Kind::kIf) {
        run_branch(s, versions);
        if (s.conditions.empty()) {
          std::move(s.body.begin(), s.body.end(), std::back_inserter(result));
          continue;
        }
      }
      result.push_back(std::move(s));
    }
    list = std::move(result);
  }

 private:
  struct Loop {
    int var;
    int64_t count;
  };

  // Iterations that are few may each have borders of their own.
  bool unrolls(const Stmt& loop) {
    if (loop.parallel || loop.count > kFewIterations) return false;
    const int64_t size = size_of_list(loop.body);
    if (loop.count * size > kMostStatements) return false;
    int64_t simpler = 0;
    for (const Conditions& needs : needs_of(loop.body)) {
      simpler += std::any_of(needs.begin(), needs.end(), [&](const Affine& condition) {
        return depends_on(condition, loop.var);
      });
    }
    return simpler * kWorth >= size;
  }

  static bool depends_on(const Affine& a, int var) {
    return std::any_of(a.terms.begin(), a.terms.end(),
                       [var](const Affine::Term& t) { return t.var == var; });
  }

  // Sets the variable of a loop that is no more; those that the list defines become new ones.
  void put_variables(std::vector<Stmt>& list, int var, int64_t value) {
    absl::flat_hash_map<int, int> renamed;
    for_each(list, [&](Stmt& s) {
      if (s.var >= 0) s.var = renamed[s.var] = kernel_.variables++;
    });
    const auto put = [&](Affine& a) {
      Affine sum = affine(a.constant);
      for (const Affine::Term& t : a.terms) {
        if (t.var == var) {
          sum.constant += t.coefficient * value;
          continue;
        }
        const auto it = renamed.find(t.var);
        sum = sum + variable(it == renamed.end() ? t.var : it->second, t.coefficient);
      }
      a = std::move(sum);
    };
    for_each(list, [&](Stmt& s) {
      for (Affine* a : {&s.index, &s.a, &s.b}) put(*a);
      for (Affine& a : s.conditions) put(a);
    });
  }

  // What is decided already is no branch any more, but the statements that are taken.
  void run_branch(Stmt& branch, bool versions) {
    const bool never = std::any_of(branch.conditions.begin(), branch.conditions.end(),
                                   [this](const Affine& c) { return is_said(negation(c)); });
    if (never) {
      branch.body = std::move(branch.otherwise);
      branch.otherwise.clear();
      branch.conditions.clear();
      return run(branch.body, versions);
    }
    std::erase_if(branch.conditions, [this](const Affine& c) { return is_said(c); });
    inside(branch, [&] { run(branch.body, versions); });
    outside(branch, [&] { run(branch.otherwise, versions); });
  }

  static Affine negation(const Affine& condition) { return condition * -1 - affine(1); }

  // As holds(), but by what the verifier of kernels sees as well.
  bool is_said(const Affine& condition) const {
    if (least(condition) >= 0) return true;
    return std::any_of(held_.begin(), held_.end(), [&](const Affine& known) {
      return known.terms == condition.terms && known.constant <= condition.constant;
    });
  }

  void outside(const Stmt& branch, const auto& act) {
    const size_t known = held_.size();
    if (branch.conditions.size() == 1) held_.push_back(negation(branch.conditions[0]));
    act();
    held_.resize(known);
  }

  // Calls `act` where the conditions of a branch hold.
  void inside(const Stmt& branch, const auto& act) {
    const size_t known = held_.size();
    for (const Affine& c : branch.conditions) {
      Conditions needs;
      const std::optional<Affine> condition = in_loops(c, &needs);
      if (condition && all_hold(needs)) held_.push_back(*condition);
    }
    act();
    held_.resize(known);
  }

  void run_loop(Stmt& loop, bool versions) {
    path_.push_back({loop.var, loop.count});
    const Conditions asked = versions ? to_ask(loop.body) : Conditions();
    if (asked.empty()) {
      run(loop.body, versions);
    } else {
      Stmt choice;
      choice.kind = Stmt::Kind::kIf;
      choice.conditions = asked;
      choice.otherwise = std::move(loop.body);
      choice.body = with_own_registers(choice.otherwise);
      const size_t known = held_.size();
      held_.insert(held_.end(), asked.begin(), asked.end());
      run(choice.body);
      held_.resize(known);
      outside(choice, [&] { run(choice.otherwise, /*versions=*/false); });
      loop.body.clear();
      loop.body.push_back(std::move(choice));
    }
    path_.pop_back();
  }

  // ---- conditions

  int64_t least(const Affine& a) const {
    int64_t sum = a.constant;
    for (const Affine::Term& t : a.terms) {
      const auto count = counts_.find(t.var);
      if (count == counts_.end()) return INT64_MIN;
      if (t.coefficient < 0) sum += t.coefficient * (count->second - 1);
    }
    return sum;
  }

  bool holds(const Affine& condition) const {
    if (least(condition) >= 0) return true;
    return std::any_of(held_.begin(), held_.end(), [&](const Affine& known) {
      return least(condition - known) >= 0;
    });
  }
  bool all_hold(const Conditions& conditions) const {
    return std::all_of(conditions.begin(), conditions.end(),
                       [this](const Affine& c) { return holds(c); });
  }

  bool on_path(int var) const {
    return std::any_of(path_.begin(), path_.end(), [var](const Loop& l) { return l.var == var; });
  }

  // The condition at the worst of what inner loops do. Sets `inner` where they come into it.
  Affine at_worst(const Affine& condition, bool* inner) const {
    Affine worst = affine(condition.constant);
    for (const Affine::Term& t : condition.terms) {
      if (on_path(t.var)) {
        worst = worst + variable(t.var, t.coefficient);
        continue;
      }
      *inner = true;
      if (t.coefficient < 0) worst.constant += t.coefficient * (counts_.at(t.var) - 1);
    }
    return worst;
  }

  // Of the iterations of the path's loops, those in which all hold.
  double share(const Conditions& conditions) const {
    int64_t points = 1;
    std::vector<Loop> loops;
    for (const Loop& loop : path_) {
      if (std::none_of(conditions.begin(), conditions.end(),
                       [&](const Affine& c) { return depends_on(c, loop.var); })) {
        continue;
      }
      loops.push_back(loop);
      points *= loop.count;
    }
    const int64_t step = std::max<int64_t>(1, points / kMostPoints) | 1;
    int64_t seen = 0, held = 0;
    absl::flat_hash_map<int, int64_t> at;
    for (int64_t p = 0; p < points; p += step, ++seen) {
      int64_t rest = p;
      for (const Loop& loop : loops) {
        at[loop.var] = rest % loop.count;
        rest /= loop.count;
      }
      held += std::all_of(conditions.begin(), conditions.end(), [&](const Affine& c) {
        int64_t value = c.constant;
        for (const Affine::Term& t : c.terms) value += t.coefficient * at.at(t.var);
        return value >= 0;
      });
    }
    return static_cast<double>(held) / static_cast<double>(seen);
  }

  // What the innermost loop of the path shall ask before this body.
  Conditions to_ask(const std::vector<Stmt>& body) {
    const int64_t size = size_of_list(body);
    if (size > kMostStatements) return {};
    Conditions asked;
    const std::vector<Conditions> all = needs_of(body);
    for (const Conditions& needs : all) {
      for (const Affine& condition : needs) {
        bool inner = false;
        const Affine worst = at_worst(condition, &inner);
        if (!depends_on(worst, path_.back().var)) continue;
        Conditions more = asked;
        add(worst, &more);
        if (more != asked && share(more) >= (inner ? kMostly : kOften)) asked = std::move(more);
      }
    }
    // What would be simple with all of them.
    const size_t known = held_.size();
    held_.insert(held_.end(), asked.begin(), asked.end());
    const int64_t simpler = std::count_if(all.begin(), all.end(), [&](const Conditions& needs) {
      return all_hold(needs);
    });
    held_.resize(known);
    if (simpler * kWorth < size) asked.clear();
    return asked;
  }

  // Of conditions that differ by a constant the strictest is enough.
  static void add(const Affine& condition, Conditions* all) {
    for (Affine& other : *all) {
      if (other.terms != condition.terms) continue;
      other.constant = std::min(other.constant, condition.constant);
      return;
    }
    all->push_back(condition);
  }

  // ---- statements

  std::optional<Affine> in_loops(const Affine& a, Conditions* needs) const {
    Affine sum = affine(a.constant);
    for (const Affine::Term& t : a.terms) {
      if (counts_.contains(t.var)) {
        sum = sum + variable(t.var, t.coefficient);
        continue;
      }
      const auto value = values_.find(t.var);
      if (value == values_.end() || !value->second.affine) return std::nullopt;
      sum = sum + *value->second.affine * t.coefficient;
      needs->insert(needs->end(), value->second.needs.begin(), value->second.needs.end());
    }
    return sum;
  }

  void put_in_loops(Affine* a) const {
    if (std::all_of(a->terms.begin(), a->terms.end(),
                    [this](const Affine::Term& t) { return counts_.contains(t.var); })) {
      return;
    }
    Conditions needs;
    std::optional<Affine> direct = in_loops(*a, &needs);
    if (direct && all_hold(needs)) *a = *std::move(direct);
  }

  // Of what would be a constant mask, or an affine integer: under which conditions.
  std::optional<Conditions> needs_of(const Stmt& s) {
    Conditions needs;
    if (is_op(s, Op::kLaneMask)) {
      const std::optional<Affine> first = in_loops(s.index, &needs);
      if (!first) return std::nullopt;
      const int lanes = kernel_.registers[s.dst].lanes;
      needs.push_back(*first + affine(std::min<int64_t>(0, s.stride * (lanes - 1))));
      return needs;
    }
    if (s.kind != Stmt::Kind::kInt) return std::nullopt;
    Value& value = values_[s.var];
    value = Value();
    if (s.int_op == Stmt::IntOp::kAffine) {
      value.affine = in_loops(s.a, &value.needs);
      return std::nullopt;
    }
    if (!is_clamp(s)) return std::nullopt;
    const std::optional<Affine> a = in_loops(s.a, &needs), b = in_loops(s.b, &needs);
    if (!a || !b || !b->is_constant()) return std::nullopt;
    needs.push_back(s.int_op == Stmt::IntOp::kMax ? *a - *b : *b - *a);
    value = {a, needs};
    return needs;
  }

  // Of all statements of a body, what does not hold where they stand.
  std::vector<Conditions> needs_of(const std::vector<Stmt>& body) {
    std::vector<Conditions> all;
    add_needs(body, &all);
    return all;
  }
  void add_needs(const std::vector<Stmt>& body, std::vector<Conditions>* all) {
    for (const Stmt& s : body) {
      if (s.kind == Stmt::Kind::kFor) counts_[s.var] = s.count;
      if (std::optional<Conditions> needs = needs_of(s)) {
        std::erase_if(*needs, [this](const Affine& c) { return holds(c); });
        if (!needs->empty()) all->push_back(*std::move(needs));
      }
      if (s.kind == Stmt::Kind::kIf) inside(s, [&] { add_needs(s.body, all); });
      else add_needs(s.body, all);
      add_needs(s.otherwise, all);
    }
  }

  void simplify(Stmt& s) {
    if (s.kind == Stmt::Kind::kFor) counts_[s.var] = s.count;
    const std::optional<Conditions> needs = needs_of(s);
    if (s.kind == Stmt::Kind::kOp) put_in_loops(&s.index);
    if (!needs || !all_hold(*needs)) return;
    if (s.kind == Stmt::Kind::kInt) {
      s.int_op = Stmt::IntOp::kAffine;
      s.a = *values_.at(s.var).affine;
      s.b = Affine();
      return;
    }
    Stmt mask;
    mask.op = Op::kImmediate;
    mask.dst = s.dst;
    mask.integer = 1;
    s = std::move(mask);
  }

  // A copy in which what lives in the body alone has registers of its own: each is set in one place,
  // as other passes like it.
  std::vector<Stmt> with_own_registers(const std::vector<Stmt>& body) {
    absl::flat_hash_map<int, int64_t> here;
    for_each(body, [&](const Stmt& s) { for_each_register(s, [&](int r) { ++here[r]; }); });
    std::vector<Stmt> copy = body;
    absl::flat_hash_map<int, int> own;
    for_each(copy, [&](Stmt& s) {
      for_each_register(s, [&](int& r) {
        if (here.at(r) != uses_.at(r)) return;
        const auto [it, fresh] = own.try_emplace(r, static_cast<int>(kernel_.registers.size()));
        if (fresh) {
          kernel_.registers.push_back(Register(kernel_.registers[r]));
          uses_[it->second] = here.at(r);
        }
        r = it->second;
      });
    });
    return copy;
  }

  Kernel& kernel_;
  std::vector<Loop> path_;
  Conditions held_;                        // by the branches that lead here
  absl::flat_hash_map<int, int64_t> counts_;  // of loops' variables
  absl::flat_hash_map<int, Value> values_;  // of the others
  absl::flat_hash_map<int, int64_t> uses_;  // of registers
};

}  // namespace

void version_interiors(Kernel& kernel) {
  bool any = false;
  for_each(kernel.body, [&any](const Stmt& s) {
    any |= is_op(s, Op::kLaneMask) || (s.kind == Stmt::Kind::kInt && is_clamp(s));
  });
  if (!any) return;
  Kernel checked = kernel;
  Interiors(kernel).run(kernel.body);
  // Proofs of where accesses go are of a few steps: what the verifier cannot follow stays as it was.
  if (!verify(kernel).ok()) kernel = std::move(checked);
}

}  // namespace lw::lowering
