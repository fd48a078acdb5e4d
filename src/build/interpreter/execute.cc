// Values of one operation come from lanes.h; what remains here is order and memory.
#include "src/build/interpreter/execute.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "src/base/check.h"
#include "src/build/interpreter/interpret_block.h"
#include "src/build/interpreter/lanes.h"
#include "src/build/interpreter/lockstep.h"
#include "src/build/interpreter/matrix_tile.h"
#include "src/build/interpreter/sets.h"
#include "src/build/interpreter/wide_products.h"
#include "src/expr/element.h"
#include "src/expr/scalar.h"
#include "src/kernel/blocks.h"
#include "src/kernel/groups.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

using Managed = std::vector<std::vector<std::byte>>;  // by number

Managed managed_memories(const Kernel& kernel) {
  Managed memories;
  for (int64_t bytes : kernel.managed_bytes) memories.emplace_back(bytes, kUnwritten);
  return memories;
}

// What is the same for all of a run.
struct Run {
  const Kernel& kernel;
  const lw_context* context;
  void* const* arguments;
  const Execution& execution;
};

// One worker's or one item's view of a running kernel.
class Activation {
 public:
  // `own`: where its private memory begins.
  Activation(const Run& run, Managed& managed, std::byte* own)
      : run_(run), kernel_(run.kernel), watch_(run.execution.watch),
        variables_(kernel_.variables), registers_(kernel_.registers.size()) {
    std::byte* workspace = static_cast<std::byte*>(run.context->workspace);
    for (const Buffer& b : kernel_.buffers) {
      std::byte* base = nullptr;
      switch (b.scope) {
        case Scope::kArgument: base = static_cast<std::byte*>(run.arguments[b.slot]); break;
        case Scope::kWorkspace: base = workspace + b.offset; break;
        case Scope::kPrivate: base = own + b.offset; break;
        case Scope::kPacked: base = static_cast<std::byte*>(run.context->packed) + b.offset; break;
        case Scope::kManaged: base = managed[b.memory].data() + b.offset; break;
      }
      bases_.push_back(base);
    }
  }

  static std::byte* private_of(const Run& run, int64_t worker) {
    return static_cast<std::byte*>(run.context->workspace) +
           aligned_bytes(run.kernel.workspace_bytes) +
           worker * aligned_bytes(run.kernel.private_bytes);
  }

  void run(const std::vector<Stmt>& list) {
    for (const Stmt& s : list) run(s);
  }

 private:
  void run(const Stmt& s) {
    if (watch_ != nullptr && watch_->stopped()) return;
    switch (s.kind) {
      case Stmt::Kind::kFor:
        if (s.parallel) return run_parallel(s);
        for (int64_t i = 0; i < s.count; ++i) {
          variables_[s.var] = i;
          run(s.body);
        }
        return;
      case Stmt::Kind::kIf: return run(holds(s) ? s.body : s.otherwise);
      case Stmt::Kind::kInt: return run_int(s);
      case Stmt::Kind::kOp: return run_op(s);
      case Stmt::Kind::kBlock: return run_block(*s.block);
    }
  }

  bool holds(const Stmt& s) const {
    return std::all_of(s.conditions.begin(), s.conditions.end(),
                       [&](const Affine& a) { return value(a) >= 0; });
  }

  // ---------------------------------------------------------------------------- groups

  struct Closure {
    Activation* outer;
    const Stmt* loop;
    absl::flat_hash_set<const Stmt*> with_meetings;
  };

  using Way = ExecutionWatch::Way;
  friend class WideProducts<Activation>;

  // A group in the making: its items, alike but for their numbers.
  struct Group {
    const Closure& loop;
    std::deque<Activation> items;
    Sequence order;
    WideProducts<Activation> products = {};
  };

  static void run_iteration(void* closure, int64_t index, int64_t worker) {
    const Closure& c = *static_cast<Closure*>(closure);
    const Run& run = c.outer->run_;
    Managed managed = managed_memories(run.kernel);
    if (run.execution.watch == nullptr && c.loop->items == 1) {
      Activation frame(run, managed, private_of(run, worker));
      frame.begin(c, index, 0);
      return frame.run(c.loop->body);
    }
    // One item's private memory as far from the next as a worker's.
    const int64_t own = aligned_bytes(run.kernel.private_bytes);
    std::vector<std::byte> privates(own * c.loop->items, kUnwritten);
    Group group = {c, {}, Sequence(run.execution.order, c.loop->items, index + 1)};
    for (int64_t item = 0; item < c.loop->items; ++item) {
      group.items.emplace_back(run, managed, privates.data() + item * own).begin(c, index, item);
    }
    if (run.execution.watch != nullptr) run.execution.watch->begin_group(index);
    run_together(group, c.loop->body);
    for (const Activation& frame : group.items) frame.expect_landed();
    group.products.expect_finished();
  }

  void begin(const Closure& closure, int64_t index, int64_t item) {
    variables_ = closure.outer->variables_;
    variables_[closure.loop->var] = index;
    item_ = item;
  }

  // All items run the list: one after another where they meet nobody, and the rest in
  // lockstep.
  static void run_together(Group& group, const std::vector<Stmt>& list) {
    for (auto s = list.begin(); s != list.end();) {
      if (group.loop.with_meetings.contains(&*s)) {
        const bool goes_on = s != list.begin() && is_op(*(s - 1), Op::kWideProduct);
        if (is_op(*s, Op::kWideProduct)) group.products.begin(group.items, *s, goes_on);
        else run_together(group, *s);
        ++s;
        continue;
      }
      const auto begin = s;
      while (s != list.end() && !group.loop.with_meetings.contains(&*s)) ++s;
      for (int64_t item : group.order.next()) {
        Activation& frame = group.items[item];
        if (frame.watch_ != nullptr) frame.watch_->begin_item(item);
        for (auto next = begin; next != s; ++next) frame.run(*next);
      }
    }
  }

  static void run_together(Group& group, const Stmt& s) {
    ExecutionWatch* watch = group.items[0].watch_;
    if (watch != nullptr && watch->stopped()) return;
    if (s.kind == Stmt::Kind::kOp) {
      if (s.op == Op::kAcross) return exchange(group, s);
      if (s.op == Op::kMatrixProduct) return multiply(group, s);
      if (s.op == Op::kMatrixParts) return hand_out(group, s);
      if (s.op == Op::kMultiplied) return group.products.finish(group.items, s.integer);
      if (s.op == Op::kLanded) return land(group, s);
      if (watch != nullptr) watch->barrier();
      return;
    }
    if (s.kind == Stmt::Kind::kFor) {
      for (int64_t i = 0; i < s.count; ++i) {
        for (Activation& frame : group.items) frame.variables_[s.var] = i;
        run_together(group, s.body);
      }
      return;
    }
    const bool holds = group.items[0].holds(s);
    for (size_t item = 1; item < group.items.size(); ++item) {
      if (group.items[item].holds(s) == holds) continue;
      CHECK(watch != nullptr);             // the verifier accepts no such branch
      return watch->diverged(s, 0, static_cast<int64_t>(item));
    }
    run_together(group, holds ? s.body : s.otherwise);
  }

  // Of each sub-group in the order of its items' numbers.
  static void exchange(Group& group, const Stmt& s) {
    const Type type = group.items[0].type_of(s.dst);
    for (size_t first = 0; first < group.items.size(); first += s.integer) {
      Lanes sum = group.items[first].registers_[s.srcs[0]];
      for (size_t item = first + 1; item < first + s.integer; ++item) {
        const Lanes& other = group.items[item].registers_[s.srcs[0]];
        for (size_t l = 0; l < sum.size(); ++l) {
          sum[l] = lane::combine(s.reduce, type, sum[l], other[l]);
        }
      }
      for (size_t item = first; item < first + s.integer; ++item) {
        group.items[item].registers_[s.dst] = sum;
      }
    }
  }

  static auto lanes_of(Group& group) {
    return [&group](size_t item, int reg) -> Lanes& { return group.items[item].registers_[reg]; };
  }
  static void multiply(Group& group, const Stmt& s) {
    const MatrixShape& shape = *matrix_shape(group.items[0].kernel_, s);
    multiply_matrices(shape, s, group.items.size(), lanes_of(group));
  }
  static void hand_out(Group& group, const Stmt& s) {
    const int lanes = group.items[0].kernel_.registers[s.many[0]].lanes;
    hand_out_rows(s, lanes, group.items.size(), lanes_of(group));
  }

  // What items copied while they went on, but for their newest sets; then they meet.
  static void land(Group& group, const Stmt& s) {
    for (size_t item = 0; item < group.items.size(); ++item) {
      Activation& frame = group.items[item];
      if (frame.watch_ != nullptr) frame.watch_->begin_item(static_cast<int64_t>(item));
      frame.land(s);
    }
    if (ExecutionWatch* watch = group.items[0].watch_; watch != nullptr) watch->barrier();
  }

  void run_parallel(const Stmt& s) {
    Closure closure = {this, &s, {}};
    if (s.items > 1 || watch_ != nullptr) find_meetings(s.body, &closure.with_meetings);
    if (watch_ == nullptr && run_.context->parallel_for != nullptr) {
      run_.context->parallel_for(run_.context->pool, s.count, run_iteration, &closure);
      return;
    }
    if (watch_ != nullptr) watch_->begin_loop(s);
    const std::vector<int64_t>* some = nullptr;
    if (const auto* groups = run_.execution.groups; groups != nullptr) {
      if (const auto own = groups->find(&s); own != groups->end()) some = &own->second;
    }
    Sequence order(run_.execution.order, some == nullptr ? s.count : std::ssize(*some), 0);
    for (const int64_t i : order.next()) {
      if (watch_ != nullptr && watch_->stopped()) return;
      run_iteration(&closure, some == nullptr ? i : (*some)[static_cast<size_t>(i)], 0);
    }
    if (watch_ != nullptr) watch_->end_loop();
  }

  int64_t value(const Affine& a) const {
    int64_t sum = a.constant;
    for (const Affine::Term& term : a.terms) sum += term.coefficient * variables_[term.var];
    return sum;
  }

  void run_int(const Stmt& s) {
    switch (s.int_op) {
      case Stmt::IntOp::kAffine: variables_[s.var] = value(s.a); break;
      case Stmt::IntOp::kDiv: variables_[s.var] = floor_div(value(s.a), s.divisor); break;
      case Stmt::IntOp::kMod: variables_[s.var] = floor_mod(value(s.a), s.divisor); break;
      case Stmt::IntOp::kMin: variables_[s.var] = std::min(value(s.a), value(s.b)); break;
      case Stmt::IntOp::kMax: variables_[s.var] = std::max(value(s.a), value(s.b)); break;
      case Stmt::IntOp::kRegister: variables_[s.var] = registers_[s.srcs[0]][0].integer; break;
      case Stmt::IntOp::kItem: variables_[s.var] = item_; break;
    }
  }

  // ---------------------------------------------------------------------------- memory

  // Whether the access may be done.
  bool allowed(const ExecutionWatch::Access& access) const {
    if (watch_ != nullptr) return watch_->access(access);
    CHECK(inside(access.buffer, access.element) &&
          inside(access.buffer, access.element + access.count - 1));
    return true;
  }

  bool inside(int buffer, int64_t index) const {
    return index >= 0 && index < kernel_.buffers[buffer].elements;
  }

  Lane element(int buffer, int64_t index) const {
    const Type type = kernel_.buffers[buffer].type;
    if (is_float(type)) return {.number = load_element(type, bases_[buffer], index)};
    return {.integer = load_integer(type, bases_[buffer], index)};
  }
  // Of elements that follow each other, to numbers `step` apart.
  void elements(int buffer, int64_t index, int64_t count, double* numbers, int64_t step) const {
    const Type type = kernel_.buffers[buffer].type;
    load_elements(type, bases_[buffer] + index * size_of(type), 1, count, numbers, step);
  }
  Lane read(const Stmt& s, int buffer, int64_t index) const {
    return allowed({s, buffer, index, false, false}) ? element(buffer, index)
                                                     : Lane{.integer = 0};
  }

  // Gives how many bytes it took of the values.
  int64_t write(const Sets::Run& to, const std::byte* values, Way way = Way::kNone) {
    const Type type = kernel_.buffers[to.buffer].type;
    const int64_t bytes = to.count * size_of(type);
    const auto there = [&] { return bases_[to.buffer] + to.index * size_of(type); };
    const auto holds = [&] {
      return inside(to.buffer, to.index) && inside(to.buffer, to.index + to.count - 1) &&
             std::memcmp(there(), values, static_cast<size_t>(bytes)) == 0;
    };
    const bool changes = watch_ != nullptr && !holds();
    if (allowed({*to.stmt, to.buffer, to.index, true, changes, way, to.count})) {
      std::memcpy(there(), values, static_cast<size_t>(bytes));
    }
    return bytes;
  }

  Lane load(const Stmt& s, int64_t index, size_t l) const {
    if (s.mask >= 0 && registers_[s.mask][l].integer == 0) return {.integer = 0};  // and 0.0's bits
    return read(s, s.buffer, index + (s.indices >= 0 ? registers_[s.indices][l].integer : 0));
  }

  void store(const Stmt& s) {
    const int64_t index = value(s.index);
    const Lanes& src = registers_[s.srcs[0]];
    for (size_t l = 0; l < src.size(); ++l) {
      if (s.mask >= 0 && registers_[s.mask][l].integer == 0) continue;
      const int64_t at = index + static_cast<int64_t>(l) * s.stride;
      const auto value = lane::bytes(kernel_.buffers[s.buffer].type, src[l]);
      if (s.on_its_way) send({&s, s.buffer, at, 1}, value.data());
      else write({&s, s.buffer, at, 1}, value.data());
    }
  }

  void send(const Sets::Run& to, const std::byte* values) {
    if (!allowed({*to.stmt, to.buffer, to.index, true, true, Way::kBegins, to.count})) return;
    sets_.add(to, values, to.count * size_of(kernel_.buffers[to.buffer].type));
  }
  void copy_box(const Stmt& s) {
    if (item_ != 0) return;
    const int source = s.block->srcs[0].buffer;
    const int64_t size = size_of(kernel_.buffers[source].type);
    std::vector<std::byte> zeros;
    const auto send_from = [&](int64_t to, std::optional<int64_t> from, int64_t count) {
      const Sets::Run run = {&s, s.block->dst.buffer, to, count};
      if (from && allowed({s, source, *from, false, false, Way::kNone, count})) {
        return send(run, bases_[source] + *from * size);
      }
      zeros.resize(std::max(zeros.size(), static_cast<size_t>(count * size)));
      send(run, zeros.data());
    };
    visit_box(*s.block, [this](const Affine& a) { return value(a); }, send_from);
  }
  void commit(const Stmt&) { sets_.commit(); }
  void land(const Stmt& s) {
    sets_.land(s.integer, [this](const Sets::Run& to, const std::byte* values) {
      return write(to, values, Way::kEnds);
    });
  }
  void expect_landed() const {
    const Stmt* const sent = watch_ == nullptr ? nullptr : sets_.outstanding();
    if (sent != nullptr) watch_->never_landed(*sent);
  }

  Placed placed(const Block& block, const View& view) const {
    const Buffer& b = kernel_.buffers[view.buffer];
    const int64_t index = value(view.index);
    const Reach reach = reach_of(block, view);
    CHECK(index + reach.lo >= 0 && index + reach.hi < b.elements);
    return {&view, b.type, bases_[view.buffer], index};
  }

  void run_block(const Block& block) {
    if (!block.clips.empty()) {
      if (block.pads) run_block(padding(block));
      const auto rest = clipped(block, [this](const Affine& affine) { return value(affine); });
      if (rest.has_value()) run_block(*rest);
      return;
    }
    absl::InlinedVector<Placed, 3> views;
    for (const View* view : views_of(block)) views.push_back(placed(block, *view));
    interpret_block(block, views[0], views.data() + 1);
  }

  // ---------------------------------------------------------------------------- lanes

  Type type_of(int reg) const { return kernel_.registers[reg].type; }

  Lane dot(const Stmt& s, Type type, size_t lane, Lane sum) const {
    const Lanes &a = registers_[s.srcs[0]], &b = registers_[s.srcs[1]];
    const size_t group = a.size() / kernel_.registers[s.dst].lanes;
    for (size_t i = lane * group; i < (lane + 1) * group; ++i) {
      sum = lane::fma(type, lane::cast(type, type_of(s.srcs[0]), a[i]),
                      lane::cast(type, type_of(s.srcs[1]), b[i]), sum);
    }
    return sum;
  }

  void transpose(const Stmt& s) {
    const size_t half = s.many.size() / 2;
    std::vector<Lanes> rows;
    for (size_t i = 0; i < half; ++i) rows.push_back(registers_[s.many[i]]);
    for (size_t i = 0; i < half; ++i) {
      Lanes& column = registers_[s.many[half + i]];
      column.resize(half);
      for (size_t j = 0; j < half; ++j) column[j] = rows[j][i];
    }
  }

  // A lane of dst in the making.
  struct At {
    const Activation& frame;
    const Stmt& s;
    Type type, from;                       // dst's, the first source's
    const Lanes* srcs[3];
    int64_t index;
    size_t l;
    Lane operator()(int i) const { return (*srcs[i])[l]; }
    int64_t ramp() const { return index + static_cast<int64_t>(l) * s.stride; }
  };

  struct OpRun {
    Op op;
    Lane (*lane)(const At& at);            // null: there is no dst
    void (Activation::*run)(const Stmt& s) = nullptr;
  };

  void run_op(const Stmt& s) {
    static constexpr OpRun kRuns[kOps] = {
        {Op::kImmediate, [](const At& at) -> Lane {
          if (is_float(at.type)) return {.number = round_to(at.type, at.s.number)};
          return {.integer = wrap(at.type, at.s.integer)};
        }},
        {Op::kMove, [](const At& at) { return at(0); }},
        {Op::kBroadcast, [](const At& at) { return (*at.srcs[0])[at.l % at.srcs[0]->size()]; }},
        {Op::kUnary, [](const At& at) { return lane::unary(at.s, at.type, at(0)); }},
        {Op::kBinary, [](const At& at) { return lane::binary(at.s.expr_op, at.from, at(0), at(1)); }},
        {Op::kFma, [](const At& at) { return lane::fma(at.type, at(0), at(1), at(2)); }},
        {Op::kSelect, [](const At& at) { return at(at(0).integer ? 1 : 2); }},
        {Op::kCast, [](const At& at) { return lane::cast(at.type, at.from, at(0)); }},
        {Op::kIota, [](const At& at) { return Lane{.integer = wrap(at.type, at.ramp())}; }},
        {Op::kLaneMask, [](const At& at) { return Lane{.integer = at.ramp() >= 0}; }},
        {Op::kHorizontal, [](const At& at) {
          return lane::horizontal(at.s.reduce, at.type, *at.srcs[0]);
        }},
        {Op::kTranspose, nullptr, &Activation::transpose},
        {Op::kInterleave, [](const At& at) {
          const size_t parts = at.s.many.size();
          return at.frame.registers_[at.s.many[at.l % parts]][at.l / parts];
        }},
        {Op::kDot, [](const At& at) { return at.frame.dot(at.s, at.type, at.l, at(2)); }},
        {Op::kLoad, [](const At& at) { return at.frame.load(at.s, at.ramp(), at.l); }},
        {Op::kStore, nullptr, &Activation::store},
        {Op::kPrefetch, nullptr},
        {Op::kFence, nullptr},
        {Op::kSlide, [](const At& at) {
          const size_t from = at.l + static_cast<size_t>(at.s.integer), lanes = at.srcs[0]->size();
          return from < lanes ? (*at.srcs[0])[from] : (*at.srcs[1])[from - lanes];
        }},
        {Op::kBarrier, nullptr},
        {Op::kAcross, [](const At& at) { return at(0); }},  // of a sub-group of one
        {Op::kMatrixProduct, nullptr},     // of a group
        {Op::kMatrixParts, nullptr},
        {Op::kWideProduct, nullptr},
        {Op::kMultiplied, nullptr},
        {Op::kCommit, nullptr, &Activation::commit},
        {Op::kLanded, nullptr, &Activation::land},
        {Op::kBoxCopy, nullptr, &Activation::copy_box},
    };
    static_assert(in_order(kRuns));
    const OpRun& row = kRuns[static_cast<int>(s.op)];
    if (row.run != nullptr) (this->*row.run)(s);
    if (row.lane == nullptr) return;
    const Type type = type_of(s.dst);
    At at = {*this, s, type, s.srcs[0] >= 0 ? type_of(s.srcs[0]) : type, {}, value(s.index), 0};
    for (int i = 0; i < 3; ++i) at.srcs[i] = s.srcs[i] >= 0 ? &registers_[s.srcs[i]] : nullptr;
    made_.resize(static_cast<size_t>(kernel_.registers[s.dst].lanes));
    for (; at.l < made_.size(); ++at.l) made_[at.l] = row.lane(at);
    registers_[s.dst].swap(made_);
  }

  const Run& run_;
  const Kernel& kernel_;
  ExecutionWatch* const watch_;
  int64_t item_ = 0;
  std::vector<std::byte*> bases_;
  std::vector<int64_t> variables_;
  std::vector<Lanes> registers_;
  Lanes made_;                             // a register's lanes until all are made
  Sets sets_;
};

}  // namespace

void execute(const Kernel& kernel, const std::vector<Stmt>& list, const lw_context* context,
             void* const* arguments, const Execution& execution) {
  const Run run = {kernel, context, arguments, execution};
  Managed managed = managed_memories(kernel);
  Activation(run, managed, Activation::private_of(run, 0)).run(list);
}

}  // namespace lw
