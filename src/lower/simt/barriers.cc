// Two accesses by different items are apart if a barrier is on every way from the one to the other.
// Ways are those of the text, and, where a loop ends, back to its begin: what stands before the
// first barrier of a loop meets what stands after the last one, an iteration ago, or, if a way
// through the loop has no barrier, in any iteration before.
//
// From inside out, and in program order: where a section may meet what is open since the last
// barrier, a barrier is placed in front of it; as late as possible, so that it parts as much as
// possible. Those that others make superfluous are taken out again.
#include "src/lower/simt/barriers.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "schedules/nest.h"
#include "src/base/check.h"
#include "src/lower/simt/sections.h"

namespace lw::lowering {
namespace {

using Sections = std::vector<Section>;
using Kind = Section::Kind;

// An access, in an iteration of the loops around that the binding says, of those within which it
// is.
struct Open {
  int access;
  Binding binding = {};
  std::vector<std::pair<int, Interval>> within = {};
};
using Opens = std::vector<Open>;

void append(Opens* to, Opens from) {
  for (Open& open : from) to->push_back(std::move(open));
}

// In iteration `by` of the loop, if it is within that: its first one, or its last.
Opens in_iteration(Opens opens, int symbol, int64_t by) {
  std::erase_if(opens, [&](const Open& open) {
    return std::any_of(open.within.begin(), open.within.end(), [&](const auto& w) {
      return w.first == symbol && (by < w.second.lo || by > w.second.hi);
    });
  });
  for (Open& open : opens) {
    open.binding.emplace_back(symbol, affine(by));
    std::erase_if(open.within, [&](const auto& w) { return w.first == symbol; });
  }
  return opens;
}

// In any iteration but this one.
Opens in_another(Opens opens, const Section& loop) {
  for (Open& open : opens) {
    open.binding.emplace_back(loop.symbol, variable(loop.other));
    std::erase_if(open.within, [&](const auto& w) { return w.first == loop.symbol; });
  }
  return opens;
}

// In the iteration before this one.
Opens in_last(Opens opens, const Section& loop) {
  for (Open& open : opens) {
    open.binding.emplace_back(loop.symbol, variable(loop.symbol) - affine(1));
    for (auto& [symbol, range] : open.within) {
      if (symbol == loop.symbol) range = {range.lo + 1, range.hi + 1};
    }
    open.within.emplace_back(loop.symbol, Interval{1, loop.count - 1});
  }
  return opens;
}

// Those of a branch's body.
Opens taken(Opens opens, const Section& branch) {
  for (Open& open : opens) {
    open.within.insert(open.within.end(), branch.within.begin(), branch.within.end());
  }
  return opens;
}

bool crosses(const Sections& list);

// Whether there is a barrier on every way through it.
bool crosses(const Section& s) {
  switch (s.kind) {
    case Kind::kAccess: return false;
    case Kind::kBarrier: return true;
    case Kind::kLoop: return crosses(s.body);
    case Kind::kBranch: return crosses(s.body) && crosses(s.otherwise);
  }
  return false;
}

bool crosses(const Sections& list) {
  return std::any_of(list.begin(), list.end(), [](const Section& s) { return crosses(s); });
}

Opens all_of(const Sections& list);
Opens all_of(const Section& s) {
  if (s.kind == Kind::kAccess) return {{s.access}};
  Opens all = all_of(s.body);
  append(&all, all_of(s.otherwise));
  return all;
}
Opens all_of(const Sections& list) {
  Opens all;
  for (const Section& s : list) append(&all, all_of(s));
  return all;
}

Opens first_of(const Sections& list);
Opens last_of(const Sections& list);

// What comes before its first barrier.
Opens first_of(const Section& s) {
  if (s.kind == Kind::kAccess) return {{s.access}};
  Opens first = taken(first_of(s.body), s);
  append(&first, first_of(s.otherwise));
  const bool begins = s.kind == Kind::kLoop && crosses(s.body);
  return begins ? in_iteration(std::move(first), s.symbol, 0) : first;
}

Opens first_of(const Sections& list) {
  Opens first;
  for (const Section& s : list) {
    append(&first, first_of(s));
    if (crosses(s)) break;
  }
  return first;
}

// What comes after its last barrier.
Opens last_of(const Section& s) {
  if (s.kind == Kind::kAccess) return {{s.access}};
  Opens last = taken(last_of(s.body), s);
  append(&last, last_of(s.otherwise));
  if (s.kind != Kind::kLoop) return last;
  return crosses(s.body) ? in_iteration(std::move(last), s.symbol, s.count - 1)
                         : in_another(std::move(last), s);
}

Opens last_of(const Sections& list) {
  Opens last;
  for (auto s = list.rbegin(); s != list.rend(); ++s) {
    append(&last, last_of(*s));
    if (crosses(*s)) break;
  }
  return last;
}

// What was open before, and what is after it.
Opens after(Opens before, const Section& s) {
  if (crosses(s)) before.clear();
  append(&before, last_of(s));
  return before;
}

// What meets the loop's body when it comes again.
Opens from_before(const Section& loop) {
  return crosses(loop.body) ? in_last(last_of(loop.body), loop)
                            : in_another(last_of(loop.body), loop);
}

class Placer {
 public:
  explicit Placer(Group& group) : group_(group) {}

  // "" or why there is no place for them.
  std::string place() {
    for (const Footprint& access : group_.accesses) {
      if (const int buffer = access.written_by_several(group_.symbols); buffer >= 0) {
        several_ = buffer;
        return "several write the same element of ";
      }
    }
    if (!settle(group_.sections, false)) return "items would have to meet where they may part";
    drop_superfluous(group_.sections);
    return "";
  }
  int several() const { return several_; }

 private:
  bool meet(const Opens& open, const Opens& next) {
    return std::any_of(open.begin(), open.end(), [&](const Open& a) {
      return std::any_of(next.begin(), next.end(), [&](const Open& b) { return meet(a, b); });
    });
  }

  // Whether no iteration is one in which both are.
  static bool never(const Open& a, const Open& b) {
    std::map<int, Interval> left;
    for (const Open* open : {&a, &b}) {
      for (const auto& [symbol, range] : open->within) {
        Interval& all = left.try_emplace(symbol, range).first->second;
        all = {std::max(all.lo, range.lo), std::min(all.hi, range.hi)};
        if (all.lo > all.hi) return true;
      }
    }
    return false;
  }

  bool meet(const Open& a, const Open& b) {
    if (never(a, b)) return false;
    std::vector<int64_t> key;
    for (const Open* open : {&a, &b}) {
      key.insert(key.end(), {open->access, static_cast<int64_t>(open->binding.size())});
      for (const auto& [symbol, by] : open->binding) {
        key.insert(key.end(), {symbol, by.constant, by.terms.empty() ? -1 : by.terms[0].var});
      }
    }
    const auto [known, fresh] = known_.try_emplace(std::move(key), false);
    if (fresh) {
      known->second = may_meet(group_.symbols, group_.accesses[a.access], a.binding,
                               group_.accesses[b.access], b.binding);
    }
    return known->second;
  }

  // The first section of the loop's body that meets what the iteration before left open; the end of
  // the body if there is none.
  size_t meets_again(const Section& loop) {
    const Opens open = from_before(loop);
    for (size_t i = 0; i < loop.body.size(); ++i) {
      if (meet(open, first_of(loop.body[i]))) return i;
      if (crosses(loop.body[i])) break;
    }
    return loop.body.size();
  }

  // The first section of the list that meets what is open; the end if there is none.
  size_t meets_within(const Sections& list) {
    Opens open;
    for (size_t i = 0; i < list.size(); ++i) {
      if (meet(open, first_of(list[i]))) return i;
      open = after(std::move(open), list[i]);
    }
    return list.size();
  }

  bool sides_meet(const Section& branch) {
    return branch.apart && meet(all_of(branch.body), all_of(branch.otherwise));
  }

  static void insert(Sections& list, size_t before) {
    const size_t at = list[before].at;
    list.insert(list.begin() + static_cast<int64_t>(before), {.kind = Kind::kBarrier, .at = at});
  }

  // Places barriers inside of the sections and between them; false: where items are apart.
  bool settle(Sections& list, bool apart) {
    for (Section& s : list) {
      if (sides_meet(s)) return false;
      if (!settle(s.body, apart || s.apart) || !settle(s.otherwise, apart || s.apart)) return false;
      if (s.kind != Kind::kLoop) continue;
      for (size_t i; (i = meets_again(s)) < s.body.size();) {
        if (apart) return false;
        insert(s.body, i);
      }
    }
    for (size_t i; (i = meets_within(list)) < list.size();) {
      if (apart) return false;
      insert(list, i);
    }
    return true;
  }

  // Whether all that may meet is parted.
  bool is_parted(const Sections& list) {
    if (meets_within(list) < list.size()) return false;
    return std::all_of(list.begin(), list.end(), [&](const Section& s) {
      const bool again = s.kind == Kind::kLoop && meets_again(s) < s.body.size();
      return !again && is_parted(s.body) && is_parted(s.otherwise);
    });
  }

  void drop_superfluous(Sections& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      drop_superfluous(list[i].body);
      drop_superfluous(list[i].otherwise);
      if (list[i].kind != Kind::kBarrier || list[i].stays) continue;
      const Section barrier = list[i];
      list.erase(list.begin() + static_cast<int64_t>(i));
      if (is_parted(group_.sections)) --i;
      else list.insert(list.begin() + static_cast<int64_t>(i), barrier);
    }
  }

  Group& group_;
  int several_ = -1;                       // buffer
  std::map<std::vector<int64_t>, bool> known_;
};

void take_out(std::vector<Stmt>& list) {
  std::erase_if(list, [](const Stmt& s) {
    return s.kind == Stmt::Kind::kOp && s.op == Op::kBarrier;
  });
  for (Stmt& s : list) {
    take_out(s.body);
    take_out(s.otherwise);
  }
}

void put_in(const Sections& sections, std::vector<Stmt>& list) {
  for (auto s = sections.rbegin(); s != sections.rend(); ++s) {
    if (s->kind == Kind::kBarrier) {
      if (s->stays) continue;
      Stmt barrier;
      barrier.op = Op::kBarrier;
      list.insert(list.begin() + static_cast<int64_t>(s->at), std::move(barrier));
    } else if (s->kind != Kind::kAccess) {
      put_in(s->body, list[s->at].body);
      put_in(s->otherwise, list[s->at].otherwise);
    }
  }
}

absl::Status place_in(const Kernel& kernel, std::vector<Stmt>& list) {
  for (Stmt& s : list) {
    if (!s.parallel) {
      RETURN_IF_ERROR(place_in(kernel, s.body));
      RETURN_IF_ERROR(place_in(kernel, s.otherwise));
    }
    if (s.items <= 1) continue;
    take_out(s.body);
    Group group = sections_of(kernel, s);
    Placer placer(group);
    if (std::string why = placer.place(); !why.empty()) {
      if (placer.several() >= 0) why += kernel.buffers[placer.several()].name;
      return infeasible(why);
    }
    put_in(group.sections, s.body);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status place_barriers(Kernel& kernel) {
  // Statements are changed in place, of a list that the kernel holds.
  std::vector<Stmt> prepack = std::move(kernel.prepack), body = std::move(kernel.body);
  absl::Status status = place_in(kernel, prepack);
  if (status.ok()) status = place_in(kernel, body);
  kernel.prepack = std::move(prepack);
  kernel.body = std::move(body);
  return status;
}

}  // namespace lw::lowering
