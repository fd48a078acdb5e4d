#include "src/build/emulator/part.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "src/base/message.h"
#include "src/build/emulator/units.h"
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

// A kernel of one statement of another's body, with its loads and stores of shared memory, what says
// where they go and whether they are done, and nothing else.
class PlacesOf {
 public:
  PlacesOf(const Kernel& kernel, size_t statement) : kernel_(kernel) {
    places_.name = kernel.name;
    places_.buffers = kernel.buffers;
    places_.variables = kernel.variables;
    places_.arguments = kernel.arguments;
    places_.workspace_bytes = kernel.workspace_bytes;
    places_.managed_bytes.assign(kernel.managed_bytes.size(), 0);
    for (Buffer& b : places_.buffers) {
      if (!is_shared(b)) b.offset = 0;     // of memories of no bytes
    }
    // What comes before, outside of parallel loops, gives it variables and registers.
    const std::span<const Stmt> all = kernel.body;
    const std::span<const Stmt> before = all.first(statement), own = all.subspan(statement, 1);
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

  // `accesses`: with those, of the statement itself.
  void need(std::span<const Stmt> list, bool accesses) {
    for (const Stmt& s : list) {
      if (!accesses && is_parallel(s)) continue;
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

  std::vector<Stmt> kept(std::span<const Stmt> list, bool accesses) {
    std::vector<Stmt> result;
    for (const Stmt& s : list) {
      if (!accesses && is_parallel(s)) continue;
      const bool access = accesses && is_access(s);
      if (s.kind == Stmt::Kind::kOp && !access && !gives_needed(s)) continue;
      Stmt own = s;
      own.body = kept(s.body, accesses);
      own.otherwise = kept(s.otherwise, accesses);
      const bool has_lists = s.kind == Stmt::Kind::kFor || s.kind == Stmt::Kind::kIf;
      if (has_lists && !does(own.body) && !does(own.otherwise)) continue;
      rename(access && s.op == Op::kStore, &own);
      result.push_back(std::move(own));
    }
    return result;
  }
  static bool does(const std::vector<Stmt>& list) {
    return std::any_of(list.begin(), list.end(),
                       [](const Stmt& s) { return s.kind != Stmt::Kind::kInt; });
  }

  void rename(bool stores, Stmt* s) {
    if (stores) s->srcs[0] = zeros_like(s->srcs[0]);
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

// Units of memory that are wanted.
class Wanted {
 public:
  explicit Wanted(const Kernel& kernel) : units_(kernel), marks_(units_.memories()) {}
  void want(const ExecutionWatch::Access& access) {
    const MemoryUnits::Range at = units_.of(access.buffer, access.element, access.count);
    std::vector<bool>& marks = marks_[at.memory];
    if (std::ssize(marks) < at.end) marks.resize(static_cast<size_t>(at.end));
    std::fill(marks.begin() + at.begin, marks.begin() + at.end, true);
  }
  bool wants(const ExecutionWatch::Access& access) const {
    const MemoryUnits::Range at = units_.of(access.buffer, access.element, access.count);
    const std::vector<bool>& marks = marks_[at.memory];
    const auto end = marks.begin() + std::min(at.end, std::ssize(marks));
    return at.begin < std::ssize(marks) && std::find(marks.begin() + at.begin, end, true) != end;
  }

 private:
  const MemoryUnits units_;
  std::vector<std::vector<bool>> marks_;   // by memory, as far as any is
};

// Does nothing to shared memory, and tells of each access.
class Places : public ExecutionWatch {
 public:
  explicit Places(const Kernel& kernel)
      : kernel_(kernel), workspace_(static_cast<size_t>(kernel.workspace_bytes)) {}

  // visit(access): whether to go on. Runs the group of what is a loop.
  void run(void* const* arguments, int64_t group, std::function<bool(const Access&)> visit) {
    stopped_ = false;
    visit_ = std::move(visit);
    const absl::flat_hash_map<const Stmt*, std::vector<int64_t>> groups = {
        {&kernel_.body.back(), {group}}};
    const lw_context context = {nullptr, nullptr, 1, workspace_.data(), nullptr};
    execute(kernel_, kernel_.body, &context, arguments, {{}, this, &groups});
  }

  bool access(const Access& access) override {
    const Buffer& b = kernel_.buffers[access.buffer];
    const bool inside = access.element >= 0 && access.element + access.count <= b.elements;
    if (!is_shared(b)) return inside;
    if (inside && !stopped_) stopped_ = !visit_(access);
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
  std::function<bool(const Access&)> visit_;
  bool stopped_ = false;
};

std::vector<int64_t> some_of(int64_t count, int64_t most) {
  std::vector<int64_t> some;
  const int64_t n = std::min(count, most);
  for (int64_t i = 0; i < n; ++i) some.push_back(n == 1 ? count - 1 : i * (count - 1) / (n - 1));
  return some;
}

void visit_stores(std::span<const Stmt> list, const auto& visit) {
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
    visit_stores({&kernel.body[i], 1}, [&](const Stmt& s) {
      const Buffer& b = kernel.buffers[s.buffer];
      if (b.scope == Scope::kArgument) last[static_cast<size_t>(b.slot)] = i;
    });
  }
  using Access = ExecutionWatch::Access;
  Wanted wanted(kernel);
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
    const auto stores_what_is_wanted = [&](int64_t group) {
      bool found = false;
      places.run(arguments, group, [&](const Access& access) {
        found = access.write && wanted.wants(access);
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
        if (chosen || (!is_last && stores_what_is_wanted(g))) groups.push_back(g);
      }
      part.groups[i] = groups;
    }
    for (const int64_t g : groups) {
      places.run(arguments, g, [&](const Access& access) {
        const Buffer& b = kernel.buffers[access.buffer];
        if (!access.write) {
          wanted.want(access);
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
