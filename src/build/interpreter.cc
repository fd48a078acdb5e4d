// Executes kernels without generating code, lane by lane, with the semantics that kernel.h states:
// the second implementation that the LLVM backend is compared with, and a portable one. Values of
// one operation come from src/expr/scalar.h, so that kernels and the reference cannot disagree;
// what remains here is order, lanes and memory. Floats of every type travel as doubles rounded to
// their type after each operation (for f32 that equals f32 arithmetic), integers as wrapped int64.
#include "src/build/interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/check.h"
#include "src/build/interpret_block.h"
#include "src/expr/element.h"
#include "src/expr/scalar.h"
#include "src/kernel/blocks.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

union Lane {
  double number;
  int64_t integer;
};

// What managed memories begin with: a number that every type has far from what kernels compute, so
// that reading what was never written shows.
constexpr std::byte kUnwritten{0x7f};

using Managed = std::vector<std::vector<std::byte>>;  // by number

Managed managed_memories(const Kernel& kernel) {
  Managed memories;
  for (int64_t bytes : kernel.managed_bytes) memories.emplace_back(bytes, kUnwritten);
  return memories;
}

// One worker's view of a running kernel; a parallel For gives each iteration its own.
class Activation {
 public:
  Activation(const Kernel& kernel, const lw_context* context, void* const* arguments,
        Managed& managed, int64_t worker)
      : kernel_(kernel), context_(context), arguments_(arguments), managed_(managed),
        variables_(kernel.variables), registers_(kernel.registers.size()) {
    std::byte* workspace = static_cast<std::byte*>(context->workspace);
    for (const Buffer& b : kernel.buffers) {
      std::byte* base = nullptr;
      switch (b.scope) {
        case Scope::kArgument: base = static_cast<std::byte*>(arguments[b.slot]); break;
        case Scope::kWorkspace: base = workspace + b.offset; break;
        case Scope::kPrivate:
          base = workspace + aligned_bytes(kernel.workspace_bytes) +
                 worker * aligned_bytes(kernel.private_bytes) + b.offset;
          break;
        case Scope::kPacked: base = static_cast<std::byte*>(context->packed) + b.offset; break;
        case Scope::kManaged: base = managed[b.memory].data() + b.offset; break;
      }
      bases_.push_back(base);
    }
  }

  void run(const std::vector<Stmt>& list) {
    for (const Stmt& s : list) {
      switch (s.kind) {
        case Stmt::Kind::kFor:
          if (s.parallel) run_parallel(s);
          else for (int64_t i = 0; i < s.count; ++i) {
            variables_[s.var] = i;
            run(s.body);
          }
          break;
        case Stmt::Kind::kIf: {
          const bool holds = std::all_of(s.conditions.begin(), s.conditions.end(),
                                         [&](const Affine& a) { return value(a) >= 0; });
          run(holds ? s.body : s.otherwise);
          break;
        }
        case Stmt::Kind::kInt: run_int(s); break;
        case Stmt::Kind::kOp: run_op(s); break;
        case Stmt::Kind::kBlock: run_block(*s.block); break;
      }
    }
  }

 private:
  using Lanes = std::vector<Lane>;

  struct Closure {
    Activation* outer;
    const Stmt* loop;
  };

  static void run_iteration(void* closure, int64_t index, int64_t worker) {
    const Closure& c = *static_cast<Closure*>(closure);
    Activation frame(c.outer->kernel_, c.outer->context_, c.outer->arguments_, c.outer->managed_,
                worker);
    frame.variables_ = c.outer->variables_;
    frame.variables_[c.loop->var] = index;
    frame.run(c.loop->body);
  }

  void run_parallel(const Stmt& s) {
    Closure closure = {this, &s};
    if (context_->parallel_for != nullptr) {
      context_->parallel_for(context_->pool, s.count, run_iteration, &closure);
      return;
    }
    for (int64_t i = 0; i < s.count; ++i) run_iteration(&closure, i, 0);
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
      case Stmt::IntOp::kItem: variables_[s.var] = 0; break;
    }
  }

  // ---------------------------------------------------------------------------- memory

  Lane read(int buffer, int64_t index) const {
    const Buffer& b = kernel_.buffers[buffer];
    CHECK(index >= 0 && index < b.elements);
    Lane lane;
    if (is_float(b.type)) lane.number = load_element(b.type, bases_[buffer], index);
    else lane.integer = load_integer(b.type, bases_[buffer], index);
    return lane;
  }

  void write(int buffer, int64_t index, Lane lane) {
    const Buffer& b = kernel_.buffers[buffer];
    CHECK(index >= 0 && index < b.elements);
    if (is_float(b.type)) store_element(b.type, bases_[buffer], index, lane.number);
    else store_integer(b.type, bases_[buffer], index, lane.integer);
  }

  Lane load(const Stmt& s, int64_t index, size_t l) const {
    if (s.mask >= 0 && registers_[s.mask][l].integer == 0) return {.integer = 0};  // and 0.0's bits
    return read(s.buffer, index + (s.indices >= 0 ? registers_[s.indices][l].integer : 0));
  }

  void store(const Stmt& s) {
    const int64_t index = value(s.index);
    const Lanes& src = registers_[s.srcs[0]];
    for (size_t l = 0; l < src.size(); ++l) {
      if (s.mask >= 0 && registers_[s.mask][l].integer == 0) continue;
      write(s.buffer, index + static_cast<int64_t>(l) * s.stride, src[l]);
    }
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

  static Lane unary(const Stmt& s, Type type, Lane a) {
    if (is_float(type)) return {.number = round_to(type, apply_float(s.expr_op, a.number))};
    return {.integer = apply_int(s.expr_op, type, a.integer)};
  }

  static Lane binary(ExprOp op, Type type, Lane a, Lane b) {
    if (!is_float(type)) return {.integer = apply_int(op, type, a.integer, b.integer)};
    if (is_comparison(op)) return {.integer = compare(op, a.number, b.number)};
    return {.number = round_to(type, apply_float(op, a.number, b.number))};
  }

  static Lane fma(Type type, Lane a, Lane b, Lane c) {
    switch (type) {
      case Type::kF64: return {.number = std::fma(a.number, b.number, c.number)};
      case Type::kF32:
        return {.number = std::fma(static_cast<float>(a.number), static_cast<float>(b.number),
                                   static_cast<float>(c.number))};
      default:
        return {.integer = wrap(type, add_wrapping(mul_wrapping(a.integer, b.integer), c.integer))};
    }
  }

  static Lane cast(Type to, Type from, Lane a) {
    if (is_float(to)) {
      // Straight from the integer: i64 to f32 through f64 would round twice.
      if (to == Type::kF32 && !is_float(from)) return {.number = static_cast<float>(a.integer)};
      const double exact = is_float(from) ? a.number : static_cast<double>(a.integer);
      return {.number = round_to(to, exact)};
    }
    return {.integer = is_float(from) ? float_to_int(to, a.number) : wrap(to, a.integer)};
  }

  Lane dot(const Stmt& s, Type type, size_t lane, Lane sum) const {
    const Lanes &a = registers_[s.srcs[0]], &b = registers_[s.srcs[1]];
    const size_t group = a.size() / kernel_.registers[s.dst].lanes;
    for (size_t i = lane * group; i < (lane + 1) * group; ++i) {
      sum = fma(type, cast(type, type_of(s.srcs[0]), a[i]), cast(type, type_of(s.srcs[1]), b[i]),
                sum);
    }
    return sum;
  }

  // In the order of the LLVM backend: halves, or one after the other.
  static Lane horizontal(Reduce reduce, Type type, Lanes lanes) {
    const auto combine = [&](Lane a, Lane b) {
      switch (reduce) {
        case Reduce::kSum:
          return binary(type == Type::kBool ? ExprOp::kOr : ExprOp::kAdd, type, a, b);
        case Reduce::kProd:
          return binary(type == Type::kBool ? ExprOp::kAnd : ExprOp::kMul, type, a, b);
        case Reduce::kMax: return binary(ExprOp::kMax, type, a, b);
        default: return binary(ExprOp::kMin, type, a, b);
      }
    };
    size_t count = lanes.size();
    if ((count & (count - 1)) != 0) {
      for (size_t i = 1; i < count; ++i) lanes[0] = combine(lanes[0], lanes[i]);
      return lanes[0];
    }
    for (count /= 2; count >= 1; count /= 2) {
      for (size_t i = 0; i < count; ++i) lanes[i] = combine(lanes[i], lanes[count + i]);
    }
    return lanes[0];
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
        {Op::kUnary, [](const At& at) { return unary(at.s, at.type, at(0)); }},
        {Op::kBinary, [](const At& at) { return binary(at.s.expr_op, at.from, at(0), at(1)); }},
        {Op::kFma, [](const At& at) { return fma(at.type, at(0), at(1), at(2)); }},
        {Op::kSelect, [](const At& at) { return at(at(0).integer ? 1 : 2); }},
        {Op::kCast, [](const At& at) { return cast(at.type, at.from, at(0)); }},
        {Op::kIota, [](const At& at) { return Lane{.integer = wrap(at.type, at.ramp())}; }},
        {Op::kLaneMask, [](const At& at) { return Lane{.integer = at.ramp() >= 0}; }},
        {Op::kHorizontal, [](const At& at) {
          return horizontal(at.s.reduce, at.type, *at.srcs[0]);
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
    };
    static_assert(in_order(kRuns));
    const OpRun& row = kRuns[static_cast<int>(s.op)];
    if (row.run != nullptr) (this->*row.run)(s);
    if (row.lane == nullptr) return;
    const Type type = type_of(s.dst);
    At at = {*this, s, type, s.srcs[0] >= 0 ? type_of(s.srcs[0]) : type, {}, value(s.index), 0};
    for (int i = 0; i < 3; ++i) at.srcs[i] = s.srcs[i] >= 0 ? &registers_[s.srcs[i]] : nullptr;
    Lanes result(kernel_.registers[s.dst].lanes);
    for (; at.l < result.size(); ++at.l) result[at.l] = row.lane(at);
    registers_[s.dst] = std::move(result);
  }

  const Kernel& kernel_;
  const lw_context* context_;
  void* const* arguments_;
  Managed& managed_;
  std::vector<std::byte*> bases_;
  std::vector<int64_t> variables_;
  std::vector<Lanes> registers_;
};

class InterpretedKernel : public Loaded {
 public:
  explicit InterpretedKernel(Kernel kernel) : kernel_(std::move(kernel)) {}
  int run(const lw_context* context, void* const* buffers) const override {
    return run_list(kernel_.body, context, buffers);
  }
  int prepack(const lw_context* context, void* const* buffers) const override {
    return run_list(kernel_.prepack, context, buffers);
  }

 private:
  int run_list(const std::vector<Stmt>& list, const lw_context* context,
               void* const* buffers) const {
    Managed managed = managed_memories(kernel_);
    Activation(kernel_, context, buffers, managed, 0).run(list);
    return 0;
  }

  Kernel kernel_;
};

class InterpreterBackend : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target& target) const override {
    Artifact artifact;
    artifact.architecture = "interpreter";
    artifact.bytes = print(kernel);
    artifact.entry = kernel.name;
    artifact.workspace_bytes = kernel.workspace_bytes;
    artifact.private_bytes = kernel.private_bytes;
    artifact.packed_bytes = kernel.packed_bytes;
    return artifact;
  }
  absl::StatusOr<std::string> text(const Kernel& kernel, const Target& target,
                                   std::string_view stage) const override {
    return absl::UnimplementedError("the interpreter has no stage after the kernel");
  }
  std::string version() const override { return "interpreter r1"; }
};

}  // namespace

const Backend& interpreter_backend() {
  static const InterpreterBackend backend;
  return backend;
}

absl::StatusOr<std::unique_ptr<Loaded>> load_interpreted(const Artifact& artifact) {
  ASSIGN_OR_RETURN(Kernel kernel, parse_kernel(artifact.bytes));
  RETURN_IF_ERROR(verify(kernel));
  return std::unique_ptr<Loaded>(std::make_unique<InterpretedKernel>(std::move(kernel)));
}

}  // namespace lw
