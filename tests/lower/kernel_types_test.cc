// Whatever the kernel's verifier accepts means something: LLVM's IR of it is well typed and builds.
// Every operation is tried with registers of random types and lanes, mostly alike.
#include <map>
#include <set>

#include "loopwright/type.h"
#include "tests/support/build_helpers.h"

namespace lw {
namespace {

constexpr int kTries = 3000;               // of an operation
constexpr int kKept = 40;                  // accepted ones that are built
constexpr int kWidths[] = {1, 4, 8, 16};

// A register of every type and width, each loaded from a buffer of its type.
Kernel pool() {
  Kernel kernel;
  kernel.name = "pool";
  for (Type type : kAllTypes) {
    Buffer buffer;
    buffer.name = std::string(type_name(type));
    buffer.type = type;
    buffer.elements = 16;
    buffer.slot = kernel.arguments++;
    buffer.written = true;
    kernel.buffers.push_back(buffer);
    for (int lanes : kWidths) {
      Stmt load;
      load.op = Op::kLoad;
      load.buffer = static_cast<int>(kernel.buffers.size()) - 1;
      load.stride = 1;
      load.dst = static_cast<int>(kernel.registers.size());
      kernel.registers.push_back({type, lanes});
      kernel.body.push_back(load);
    }
  }
  return kernel;
}

// An operation of the kind over random registers, half of the time alike.
Stmt draw(Op op, ExprOp expr_op, const Kernel& kernel, Rng& rng) {
  const int64_t count = static_cast<int64_t>(kernel.registers.size());
  const int first = static_cast<int>(rng.below(count));
  const auto any = [&] {
    const int64_t kind = rng.below(10);
    if (kind < 6) return first;
    const int64_t widths = std::size(kWidths);
    if (kind < 8) return static_cast<int>(first / widths * widths + rng.below(widths));  // a type
    if (kind < 9) return static_cast<int>((first % widths + rng.below(count) / widths * widths));
    return static_cast<int>(rng.below(count));
  };
  Stmt s;
  s.op = op;
  s.expr_op = expr_op;
  s.dst = any();
  for (int& source : s.srcs) source = any();
  s.reduce = static_cast<Reduce>(rng.below(5));
  s.integer = rng.below(5);
  s.stride = rng.below(3);
  if (op == Op::kPrefetch) s.buffer = static_cast<int>(rng.below(kernel.arguments));
  if (op == Op::kLoad || op == Op::kStore) {
    s.buffer = static_cast<int>(rng.below(static_cast<int64_t>(kernel.buffers.size())));
    if (rng.below(2) == 0) s.buffer = s.dst / static_cast<int>(std::size(kWidths));
    if (op == Op::kStore && rng.below(2) == 0) s.srcs[0] = s.dst;
    if (rng.below(3) == 0) s.mask = any();
    if (rng.below(4) == 0) s.indices = any();
    s.non_temporal = op == Op::kStore && rng.below(4) == 0;
  }
  if (op == Op::kInterleave) s.many.assign(2 + rng.below(3), any());
  if (op == Op::kTranspose) {
    const int64_t rows = int64_t{1} << rng.below(4);
    for (int64_t i = 0; i < 2 * rows; ++i) s.many.push_back(any());
  }
  return s;
}

TEST(KernelTypes, WhatIsAcceptedBuilds) {
  const Kernel start = pool();
  ASSERT_TRUE(verify(start).ok()) << verify(start);
  std::vector<std::pair<Op, ExprOp>> kinds;
  for (int i = 0; i < kOps; ++i) {
    const Op op = static_cast<Op>(i);
    if (op == Op::kUnary || op == Op::kBinary) continue;  // below
    // groups_test.cc, async_copies_test.cc, matrix_parts_test.cc, box_copies_test.cc
    if (is_barrier(op) || op == Op::kCommit || op == Op::kBoxCopy || exchanges_registers(op)) {
      continue;
    }
    kinds.push_back({op, ExprOp::kAdd});
  }
  for (int i = 0; i < kExprOps; ++i) {
    const ExprOp op = static_cast<ExprOp>(i);
    if (is_unary(op)) kinds.push_back({Op::kUnary, op});
    if (is_binary(op)) kinds.push_back({Op::kBinary, op});
  }
  for (const auto& [op, expr_op] : kinds) {
    Rng rng = Rng(11).split(static_cast<int>(op) * 64 + static_cast<int>(expr_op));
    Kernel kernel = start;
    std::set<std::vector<int>> seen;
    int refused = 0;
    for (int i = 0; i < kTries; ++i) {
      const Stmt s = draw(op, expr_op, start, rng);
      Kernel one = start;
      one.body.push_back(s);
      if (!verify(one).ok()) {
        ++refused;
        continue;
      }
      const bool fresh = seen.insert({s.dst, s.srcs[0], s.srcs[1], s.srcs[2], s.mask, s.indices,
                                      s.buffer, static_cast<int>(s.reduce)}).second;
      if (fresh && static_cast<int>(seen.size()) <= kKept) kernel.body.push_back(s);
    }
    // A fence has no registers, and every type has constants.
    const bool always = op == Op::kFence || op == Op::kImmediate;
    const std::string name = std::string(op_name(expr_op)) + " of kind " + text(static_cast<int>(op));
    EXPECT_EQ(refused > 0, !always) << name;
    EXPECT_FALSE(seen.empty()) << name;
    for (const Machine& machine : machines()) {
      const absl::StatusOr<Artifact> built = machine.backend->build(kernel, machine.target);
      EXPECT_TRUE(built.ok()) << machine.name << ", " << name << ": " << built.status() << "\n"
                              << print(kernel);
    }
  }
}

// The type of the sum, and of what it is a sum of.
TEST(KernelTypes, HorizontalReductionsOfHalvesAreRefused) {
  for (Type type : {Type::kF16, Type::kBF16}) {
    for (Type wide : {Type::kF32, type}) {
      Kernel kernel = pool();
      const auto find = [&](Type wanted, int lanes) {
        for (size_t r = 0; r < kernel.registers.size(); ++r) {
          if (kernel.registers[r].type == wanted && kernel.registers[r].lanes == lanes)
            return static_cast<int>(r);
        }
        return -1;
      };
      Stmt s;
      s.op = Op::kHorizontal;
      s.reduce = Reduce::kMax;
      s.dst = find(type, 1);
      s.srcs[0] = find(wide, 16);
      kernel.body.push_back(s);
      EXPECT_EQ(verify(kernel).code(), absl::StatusCode::kInternal);
      const Machine& machine = machines().back();
      EXPECT_EQ(machine.backend->build(kernel, machine.target).status().code(),
                absl::StatusCode::kInternal);
    }
  }
}

}  // namespace
}  // namespace lw
