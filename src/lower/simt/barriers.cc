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

// An access, in an iteration of the loops around that the binding says.
struct Open {
  int access;
  Binding binding;
};
using Opens = std::vector<Open>;

void append(Opens* to, Opens from) {
  for (Open& open : from) to->push_back(std::move(open));
}

// In another iteration of a loop, or, if it has been left, in one that is named.
Opens bound(Opens opens, int symbol, const Affine& by) {
  for (Open& open : opens) {
    const bool known = std::any_of(open.binding.begin(), open.binding.end(),
                                   [&](const auto& b) { return b.first == symbol; });
    if (!known) open.binding.emplace_back(symbol, by);
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
  if (s.kind == Kind::kAccess) return {{s.access, {}}};
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
  if (s.kind == Kind::kAccess) return {{s.access, {}}};
  Opens first = first_of(s.body);
  append(&first, first_of(s.otherwise));
  const bool begins = s.kind == Kind::kLoop && crosses(s.body);
  return begins ? bound(std::move(first), s.symbol, affine(0)) : first;
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
  if (s.kind == Kind::kAccess) return {{s.access, {}}};
  Opens last = last_of(s.body);
  append(&last, last_of(s.otherwise));
  if (s.kind != Kind::kLoop) return last;
  return bound(std::move(last), s.symbol,
               crosses(s.body) ? affine(s.count - 1) : variable(s.other));
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
  return bound(last_of(loop.body), loop.symbol,
               crosses(loop.body) ? variable(loop.symbol) - affine(1) : variable(loop.other));
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

  bool meet(const Open& a, const Open& b) {
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
      if (list[i].kind != Kind::kBarrier) continue;
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
