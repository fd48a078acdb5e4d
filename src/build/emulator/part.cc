#include "src/build/emulator/part.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "src/base/message.h"
#include "src/build/interpreter/execute.h"
#include "src/kernel/blocks.h"
#include "src/kernel/groups.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

// What groups of different loops may share: the workspace, and each output.
bool is_shared(const Buffer& b) {
  return b.scope == Scope::kWorkspace || (b.scope == Scope::kArgument && b.written);
}

// Whether registers alone, or memory that nobody writes, say what it gives.
bool computes_alone(const Kernel& kernel, const Stmt& s) {
  switch (s.op) {
    case Op::kLoad: return is_constant(kernel.buffers[s.buffer]);
    case Op::kImmediate: case Op::kMove: case Op::kBroadcast: case Op::kUnary: case Op::kBinary:
    case Op::kFma: case Op::kSelect: case Op::kCast: case Op::kIota: case Op::kLaneMask:
    case Op::kInterleave: case Op::kSlide: return true;
    default: return false;
  }
}

bool is_parallel(const Stmt& s) { return s.kind == Stmt::Kind::kFor && s.parallel; }

// A kernel of one statement of another's body, with its loads and stores of shared memory, what says
// where they go and whether they are done, and nothing else.
class PlacesOf {
 public:
  PlacesOf(const Kernel& kernel, size_t statement) : kernel_(kernel), places_(kernel) {
    places_.prepack.clear();
    places_.registers.clear();
    places_.body.clear();
    places_.private_bytes = 0;
    std::fill(places_.managed_bytes.begin(), places_.managed_bytes.end(), 0);
    for (Buffer& b : places_.buffers) {
      if (!is_shared(b)) b.offset = 0;     // of memories of no bytes
    }
    // What comes before gives it variables and registers.
    std::vector<Stmt> before;
    for (size_t i = 0; i < statement; ++i) {
      if (!is_parallel(kernel.body[i])) before.push_back(kernel.body[i]);
    }
    const std::vector<Stmt> own = {kernel.body[statement]};
    for (size_t known = 0; ok_;) {         // until nothing new is needed
      need(own, /*accesses=*/true);
      need(before, /*accesses=*/false);
      if (known == needed_.size()) break;
      known = needed_.size();
    }
    if (!ok_) return;
    std::vector<Stmt> body = kept(before, /*accesses=*/false);
    for (Stmt& s : kept(own, /*accesses=*/true)) body.push_back(std::move(s));
    if (!body.empty() && is_parallel(body.back())) {
      std::vector<Stmt>& inner = body.back().body;
      inner.insert(inner.begin(), stored_.begin(), stored_.end());
    } else {
      body.insert(body.begin(), stored_.begin(), stored_.end());
    }
    places_.body = std::move(body);
  }
  bool ok() const { return ok_; }
  const Kernel& kernel() const { return places_; }

 private:
  bool is_access(const Stmt& s) const {
    return (is_op(s, Op::kLoad) || is_op(s, Op::kStore)) && is_shared(kernel_.buffers[s.buffer]);
  }
  bool gives_needed(const Stmt& s) const {
    const auto written = written_of_many(s);
    return (s.dst >= 0 && needed_.contains(s.dst)) ||
           std::any_of(written.begin(), written.end(), [&](int r) { return needed_.contains(r); });
  }

  void need(const std::vector<Stmt>& list, bool accesses) {
    for (const Stmt& s : list) {
      need(s.body, accesses);
      need(s.otherwise, accesses);
      if (s.kind == Stmt::Kind::kBlock) ok_ = false;
      if (s.kind == Stmt::Kind::kInt && s.int_op == Stmt::IntOp::kRegister) needed_.insert(s.srcs[0]);
      if (s.kind != Stmt::Kind::kOp) continue;
      for (const int r : {s.mask, s.indices}) {
        if (r >= 0 && accesses && is_access(s)) needed_.insert(r);
      }
      if (!gives_needed(s)) continue;
      ok_ = ok_ && computes_alone(kernel_, s);
      visit_read(s, [&](int r) { needed_.insert(r); });
    }
  }

  std::vector<Stmt> kept(const std::vector<Stmt>& list, bool accesses) {
    std::vector<Stmt> result;
    for (const Stmt& s : list) {
      Stmt own = s;
      if (s.kind == Stmt::Kind::kOp) {
        const bool access = accesses && is_access(s);
        if (!access && !gives_needed(s)) continue;
        if (access && s.op == Op::kStore) own.srcs[0] = zeros_like(s.srcs[0]);
        rename(&own);
      } else if (s.kind == Stmt::Kind::kInt) {
        if (s.int_op == Stmt::IntOp::kRegister) own.srcs[0] = renamed(s.srcs[0]);
      } else {
        own.body = kept(s.body, accesses);
        own.otherwise = kept(s.otherwise, accesses);
        if (!does(own.body) && !does(own.otherwise)) continue;
      }
      result.push_back(std::move(own));
    }
    return result;
  }
  static bool does(const std::vector<Stmt>& list) {
    return std::any_of(list.begin(), list.end(),
                       [](const Stmt& s) { return s.kind != Stmt::Kind::kInt; });
  }

  void rename(Stmt* s) {
    const bool stores = s->op == Op::kStore;
    for (int& r : s->srcs) {
      if (r >= 0 && !stores) r = renamed(r);
    }
    for (int* r : {&s->dst, &s->mask, &s->indices}) {
      if (*r >= 0) *r = renamed(*r);
    }
    for (int& r : s->many) r = renamed(r);
  }
  int renamed(int reg) {
    const auto [known, is_new] =
        names_.try_emplace(reg, static_cast<int>(places_.registers.size()));
    if (is_new) places_.registers.push_back(kernel_.registers[reg]);
    return known->second;
  }
  // A new register as wide as what is stored, which an operation in front of all gives its lanes.
  int zeros_like(int reg) {
    Stmt& zeros = stored_.emplace_back();
    zeros.op = Op::kImmediate;
    zeros.dst = static_cast<int>(places_.registers.size());
    places_.registers.push_back(kernel_.registers[reg]);
    return zeros.dst;
  }

  const Kernel& kernel_;
  Kernel places_;
  bool ok_ = true;
  absl::flat_hash_set<int> needed_;        // registers that say where or whether
  absl::flat_hash_map<int, int> names_;    // of registers, in places_
  std::vector<Stmt> stored_;
};

// Units of shared memory, as small as the smallest element that any buffer has there.
class SharedUnits {
 public:
  explicit SharedUnits(const Kernel& kernel)
      : shifts_(static_cast<size_t>(kernel.arguments) + 1, 3),
        marks_(shifts_.size()) {
    for (const Buffer& b : kernel.buffers) {
      if (!is_shared(b)) continue;
      int& shift = shifts_[memory_of(b)];
      shift = std::min(shift, std::countr_zero(static_cast<uint64_t>(size_of(b.type))));
    }
  }
  // visit(mark) of each unit of elements that follow each other, while it is true.
  void each(const Buffer& b, int64_t element, int64_t count, const auto& visit) {
    std::vector<bool>& marks = marks_[memory_of(b)];
    const int shift = shifts_[memory_of(b)];
    const int64_t offset = b.scope == Scope::kArgument ? 0 : b.offset, size = size_of(b.type);
    const int64_t begin = (offset + element * size) >> shift;
    const int64_t end = (offset + (element + count) * size) >> shift;
    if (static_cast<int64_t>(marks.size()) < end) marks.resize(static_cast<size_t>(end));
    for (int64_t i = begin; i < end; ++i) {
      if (!visit(marks[static_cast<size_t>(i)])) return;
    }
  }

 private:
  static size_t memory_of(const Buffer& b) {
    return b.scope == Scope::kArgument ? static_cast<size_t>(b.slot) + 1 : 0;
  }
  std::vector<int> shifts_;                // by memory: the workspace, then arguments
  std::vector<std::vector<bool>> marks_;
};

// Does nothing to shared memory, and tells of each access.
class Places : public ExecutionWatch {
 public:
  explicit Places(const Kernel& kernel)
      : kernel_(kernel), workspace_(static_cast<size_t>(kernel.workspace_bytes)) {}

  // visit(buffer, access): whether to go on. Runs the group of what is a loop.
  void run(void* const* arguments, int64_t group, const auto& visit) {
    stopped_ = false;
    visit_ = [&](const Buffer& b, const Access& access) { return visit(b, access); };
    const absl::flat_hash_map<const Stmt*, std::vector<int64_t>> groups = {
        {&kernel_.body.back(), {group}}};
    const lw_context context = {nullptr, nullptr, 1, workspace_.data(), nullptr};
    execute(kernel_, kernel_.body, &context, arguments, {{}, this, &groups});
  }

  bool access(const Access& access) override {
    const Buffer& b = kernel_.buffers[access.buffer];
    const bool inside = access.element >= 0 && access.element + access.count <= b.elements;
    if (!is_shared(b)) return inside;
    if (inside && !stopped_) stopped_ = !visit_(b, access);
    return false;
  }
  void begin_loop(const Stmt&) override {}
  void end_loop() override {}
  void begin_group(int64_t) override {}
  void begin_item(int64_t) override {}
  void barrier() override {}
  void diverged(const Stmt&, int64_t, int64_t) override {}
  void never_landed(const Stmt&) override {}
  bool stopped() const override { return stopped_; }

 private:
  const Kernel& kernel_;
  std::vector<std::byte> workspace_;       // which what would be written is compared with
  std::function<bool(const Buffer&, const Access&)> visit_;
  bool stopped_ = false;
};

std::vector<int64_t> some_of(int64_t count, int64_t most) {
  std::vector<int64_t> some;
  const int64_t n = std::min(count, most);
  for (int64_t i = 0; i < n; ++i) some.push_back(n == 1 ? count - 1 : i * (count - 1) / (n - 1));
  return some;
}

void visit_stores(const std::vector<Stmt>& list, const auto& visit) {
  for (const Stmt& s : list) {
    if (is_op(s, Op::kStore)) visit(s);
    visit_stores(s.body, visit);
    visit_stores(s.otherwise, visit);
  }
}

}  // namespace

absl::StatusOr<PartOfKernel> part_of(const Kernel& kernel, void* const* arguments, int64_t most) {
  PartOfKernel part;
  part.groups.resize(kernel.body.size());
  part.made.resize(static_cast<size_t>(kernel.arguments));
  std::vector<size_t> last(part.made.size(), kernel.body.size());  // who stores to an output last
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    visit_stores({kernel.body[i]}, [&](const Stmt& s) {
      const Buffer& b = kernel.buffers[s.buffer];
      if (b.scope == Scope::kArgument) last[static_cast<size_t>(b.slot)] = i;
    });
  }
  using Access = ExecutionWatch::Access;
  SharedUnits needed(kernel);
  for (size_t i = kernel.body.size(); i-- > 0;) {
    const Stmt& s = kernel.body[i];
    if (s.kind == Stmt::Kind::kInt) continue;
    const PlacesOf slice(kernel, i);
    if (!slice.ok()) {
      return absl::UnimplementedError(
          concat("kernel ", kernel.name, ": where it stores depends on what it computes"));
    }
    if (slice.kernel().body.empty()) continue;
    Places places(slice.kernel());
    const auto stores_what_is_needed = [&](int64_t group) {
      bool found = false;
      places.run(arguments, group, [&](const Buffer& b, const Access& access) {
        if (access.write) {
          needed.each(b, access.element, access.count, [&](bool mark) { return !(found |= mark); });
        }
        return !found;
      });
      return found;
    };
    std::vector<int64_t> groups = {0};     // what is no loop is run anyhow
    if (is_parallel(s)) {
      const bool makes = std::find(last.begin(), last.end(), i) != last.end();
      const std::vector<int64_t> some = makes ? some_of(s.count, most) : std::vector<int64_t>();
      groups.clear();
      for (int64_t g = 0; g < s.count; ++g) {
        const bool chosen = std::binary_search(some.begin(), some.end(), g);
        const bool is_last = i + 1 == kernel.body.size();
        if (chosen || (!is_last && stores_what_is_needed(g))) groups.push_back(g);
      }
      part.groups[i] = groups;
    }
    for (const int64_t g : groups) {
      places.run(arguments, g, [&](const Buffer& b, const Access& access) {
        if (!access.write) {
          needed.each(b, access.element, access.count, [](auto&& mark) { return mark = true; });
        } else if (b.scope == Scope::kArgument && last[static_cast<size_t>(b.slot)] == i) {
          for (int64_t e = 0; e < access.count; ++e) {
            part.made[static_cast<size_t>(b.slot)].push_back(access.element + e);
          }
        }
        return true;
      });
    }
  }
  for (std::vector<int64_t>& elements : part.made) {
    std::sort(elements.begin(), elements.end());
    elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  }
  return part;
}

}  // namespace lw
