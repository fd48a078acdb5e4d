// Kernels of groups with one thing wrong in them.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/rng.h"
#include "src/kernel/kernel.h"

namespace lw {

enum class GroupMutation {
  kDropBarrier,
  kPartAtBarrier,                          // the first item leaves one out
  kShrink,                                 // the group's memory lacks its last elements
  kExchange,                               // the strides of an index
  kDropGuard,                              // a condition, or the mask of an access
  kStoreAside,                             // an element further
};
inline constexpr const char* kGroupMutations[] = {"drop a barrier", "part at a barrier",
                                                  "shrink a memory", "exchange strides",
                                                  "drop a guard", "store aside"};
inline constexpr int kGroupMutationKinds = 6;

// Changes one place of those loops whose groups have several items. False: there is none.
class GroupMutator {
 public:
  GroupMutator(Kernel* kernel, Rng* rng) : kernel_(*kernel), rng_(*rng) {}

  bool mutate(GroupMutation kind) {
    for (Stmt& loop : kernel_.body) {
      if (loop.kind == Stmt::Kind::kFor && loop.items > 1) collect(kind, loop.body);
    }
    if (places_.empty()) return false;
    const Place place = places_[static_cast<size_t>(rng_.below(
        static_cast<int64_t>(places_.size())))];
    change(kind, *place.list, place.at);
    return true;
  }

 private:
  struct Place {
    std::vector<Stmt>* list;
    size_t at;
  };

  bool suits(GroupMutation kind, const Stmt& s) const {
    const bool access = s.kind == Stmt::Kind::kOp && (s.op == Op::kLoad || s.op == Op::kStore);
    switch (kind) {
      case GroupMutation::kDropBarrier: case GroupMutation::kPartAtBarrier:
        return s.kind == Stmt::Kind::kOp && s.op == Op::kBarrier;
      case GroupMutation::kShrink:
        return access && kernel_.buffers[s.buffer].scope == Scope::kManaged;
      case GroupMutation::kExchange:
        return access && s.index.terms.size() > 1 &&
               s.index.terms[0].coefficient != s.index.terms[1].coefficient;
      case GroupMutation::kDropGuard:
        return (access && s.mask >= 0) || (s.kind == Stmt::Kind::kIf && s.otherwise.empty());
      case GroupMutation::kStoreAside: return access && s.op == Op::kStore;
    }
    return false;
  }

  void collect(GroupMutation kind, std::vector<Stmt>& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      Stmt& s = list[i];
      if (suits(kind, s)) places_.push_back({&list, i});
      collect(kind, s.body);
      collect(kind, s.otherwise);
    }
  }

  void change(GroupMutation kind, std::vector<Stmt>& list, size_t at) {
    Stmt& s = list[at];
    const auto place = list.begin() + static_cast<std::ptrdiff_t>(at);
    switch (kind) {
      case GroupMutation::kDropBarrier: list.erase(place); return;
      case GroupMutation::kPartAtBarrier: {
        Stmt item, others;
        item.kind = Stmt::Kind::kInt;
        item.int_op = Stmt::IntOp::kItem;
        item.var = kernel_.variables++;
        others.kind = Stmt::Kind::kIf;
        others.conditions = {variable(item.var) - affine(1)};
        others.body = {s};
        s = std::move(others);
        list.insert(place, std::move(item));
        return;
      }
      case GroupMutation::kShrink: {
        int64_t& elements = kernel_.buffers[s.buffer].elements;
        elements = std::max<int64_t>(1, elements - 1 - rng_.below(4));
        return;
      }
      case GroupMutation::kExchange:
        std::swap(s.index.terms[0].coefficient, s.index.terms[1].coefficient);
        return;
      case GroupMutation::kDropGuard: {
        if (s.kind == Stmt::Kind::kOp) {
          s.mask = -1;
          return;
        }
        std::vector<Stmt> body = std::move(s.body);
        list.insert(list.erase(place), body.begin(), body.end());
        return;
      }
      case GroupMutation::kStoreAside: s.index = s.index + affine(1); return;
    }
  }

  Kernel& kernel_;
  Rng& rng_;
  std::vector<Place> places_;
};

}  // namespace lw
