// Every operation of blocks in the interpreter: random boxes and views against plain loops.
#include <algorithm>
#include <cmath>
#include <functional>

#include "src/expr/scalar.h"
#include "src/kernel/blocks.h"
#include "tests/support/build_helpers.h"
#include "tests/support/kernel_text.h"

namespace lw {
namespace {

const std::byte* data_of(const std::string& bytes) {
  return reinterpret_cast<const std::byte*>(bytes.data());
}

// Blocks of random boxes and views, each against a loop over its positions.
class RandomBlock {
 public:
  RandomBlock(BlockOp op, Type dst, Type a, Type b, uint64_t seed, ExprOp expr_op = ExprOp::kAdd,
              Reduce reduce = Reduce::kNone)
      : rng_(seed) {
    kernel_.name = "random";
    block_.op = op;
    block_.expr_op = expr_op;
    block_.reduce = reduce;
    block_.number = static_cast<double>(rng_.below(9)) - 4;
    block_.zero = static_cast<int8_t>(rng_.next());
    block_.lo = static_cast<int8_t>(-static_cast<int>(rng_.below(129)));
    block_.hi = static_cast<int8_t>(rng_.below(128));
    for (int64_t d = 0, rank = 1 + rng_.below(4); d < rank; ++d) {
      block_.extents.push_back(1 + rng_.below(6));
    }
    block_.accumulate = row_of(op).reduces && rng_.below(2) == 0;
    block_.integer = rng_.below(2) == 0 ? rng_.below(100) - 50 : static_cast<int64_t>(rng_.next());
    const Type types[] = {a, b, Type::kI32};
    for (int i = 0; i < row_of(op).sources; ++i) block_.srcs[i] = add_view(types[i], strides());
    if (op == BlockOp::kCopy && rng_.below(2) == 0) add_clips();
    block_.dst = add_view(dst, distinct_strides());
    kernel_.buffers.back().written = true;
    Stmt s;
    s.kind = Stmt::Kind::kBlock;
    s.block = std::make_shared<const Block>(block_);
    kernel_.body.push_back(s);
  }

  const Kernel& kernel() const { return kernel_; }

  // The last argument after the block.
  std::string expected(const std::vector<std::string>& arguments) const {
    std::string out = arguments.back();
    if (!block_.accumulate && row_of(block_.op).reduces) {
      const bool sum = block_.op == BlockOp::kProduct;
      const Type type = type_of(block_.dst);
      for_each_position([&](const std::vector<int64_t>& at) {
        put(&out, at, sum ? 0 : identity_float(block_.reduce),
            sum || is_float(type) ? 0 : identity_int(block_.reduce, type));
      });
    }
    for_each_position([&](const std::vector<int64_t>& at) { one(arguments, at, &out); });
    return out;
  }

 private:
  using Strides = absl::InlinedVector<int64_t, 4>;

  Strides strides() {
    Strides strides;
    for (size_t d = 0; d < block_.extents.size(); ++d) strides.push_back(rng_.below(9) - 3);
    return strides;
  }

  // Of elements that differ, in any order and direction; those of a sum have none.
  Strides distinct_strides() {
    Strides strides(block_.extents.size(), 0);
    std::vector<size_t> order;
    for (size_t d = 0; d < strides.size(); ++d) {
      order.insert(order.begin() + rng_.below(order.size() + 1), d);
    }
    int64_t next = 1;
    for (size_t d : order) {
      if (row_of(block_.op).reduces && rng_.below(3) == 0) continue;
      next += rng_.below(2);
      strides[d] = rng_.below(4) == 0 ? -next : next;
      next *= block_.extents[d];
    }
    return strides;
  }

  View add_view(Type type, const Strides& strides) {
    View view;
    view.buffer = kernel_.arguments;
    view.strides = strides;
    const Reach reach = reach_of(block_, view);
    view.index = affine(rng_.below(3) - reach.lo);
    Buffer buffer;
    buffer.name = "X" + text(view.buffer);
    buffer.type = type;
    buffer.elements = view.index.constant + reach.hi + 1 + rng_.below(3);
    buffer.slot = kernel_.arguments++;
    kernel_.buffers.push_back(buffer);
    return view;
  }

  // Clips that leave out some positions at either end, or all of them.
  void add_clips() {
    for (size_t d = 0; d < block_.extents.size(); ++d) {
      if (rng_.below(3) == 0) continue;
      block_.clips.push_back(
          {static_cast<int>(d), affine(rng_.below(9) - 4), 1 + rng_.below(6)});
    }
    block_.pads = !block_.clips.empty() && rng_.below(2) == 0;
    Buffer& source = kernel_.buffers[block_.srcs[0].buffer];
    const Unclipped whole = unclipped_source(block_);
    const int64_t lowest = whole.index.constant + whole.reach.lo;
    block_.srcs[0].index = block_.srcs[0].index + affine(rng_.below(3) - lowest);
    source.elements = unclipped_source(block_).index.constant + whole.reach.hi + 1 + rng_.below(3);
  }

  bool has_source(const std::vector<int64_t>& at) const {
    return std::all_of(block_.clips.begin(), block_.clips.end(), [&](const Clip& clip) {
      const int64_t position = clip.first.constant + at[clip.dim];
      return position >= 0 && position < clip.size;
    });
  }

  template <class Use>
  void for_each_position(const Use& use) const {
    std::vector<int64_t> at(block_.extents.size(), 0);
    const std::function<void(size_t)> from = [&](size_t d) {
      if (d == at.size()) return use(at);
      for (at[d] = 0; at[d] < block_.extents[d]; ++at[d]) from(d + 1);
    };
    from(0);
  }

  static int64_t element(const View& view, const std::vector<int64_t>& at) {
    int64_t index = view.index.constant;
    for (size_t d = 0; d < at.size(); ++d) index += at[d] * view.strides[d];
    return index;
  }
  Type type_of(const View& view) const { return kernel_.buffers[view.buffer].type; }

  double number(const std::string& bytes, const View& view, const std::vector<int64_t>& at) const {
    return load_element(type_of(view), data_of(bytes), element(view, at));
  }
  int64_t integer(const std::string& bytes, const View& view,
                  const std::vector<int64_t>& at) const {
    return load_integer(type_of(view), data_of(bytes), element(view, at));
  }

  void put(std::string* out, const std::vector<int64_t>& at, double number,
           int64_t integer) const {
    std::byte* data = reinterpret_cast<std::byte*>(out->data());
    const Type type = type_of(block_.dst);
    if (is_float(type)) store_element(type, data, element(block_.dst, at), number);
    else store_integer(type, data, element(block_.dst, at), wrap(type, integer));
  }

  void one(const std::vector<std::string>& arguments, const std::vector<int64_t>& at,
           std::string* out) const {
    const View *srcs = block_.srcs, &dst = block_.dst;
    const Type type = type_of(dst);
    const auto as_float = [&](int64_t value) -> double {
      return type == Type::kF32 ? static_cast<float>(value) : static_cast<double>(value);
    };
    switch (block_.op) {
      case BlockOp::kFill: return put(out, at, as_float(block_.integer), block_.integer);
      case BlockOp::kCopy: {
        if (!has_source(at)) {
          if (block_.pads) put(out, at, as_float(block_.integer), block_.integer);
          return;
        }
        if (is_float(type_of(srcs[0]))) {
          const double value = number(arguments[0], srcs[0], at);
          return put(out, at, value, float_to_int(type, value));
        }
        const int64_t value = integer(arguments[0], srcs[0], at);
        return put(out, at, as_float(value), value);
      }
      case BlockOp::kProduct: {
        if (!is_float(type)) {
          const int64_t product = mul_wrapping(integer(arguments[0], srcs[0], at),
                                               integer(arguments[1], srcs[1], at));
          return put(out, at, 0, add_wrapping(integer(*out, dst, at), product));
        }
        const double a = round_to(type, number(arguments[0], srcs[0], at));
        const double b = round_to(type, number(arguments[1], srcs[1], at));
        return put(out, at, number(*out, dst, at) + round_to(type, a * b), 0);
      }
      case BlockOp::kUnary:
        if (is_float(type)) {
          return put(out, at, apply_float(block_.expr_op, number(arguments[0], srcs[0], at)), 0);
        }
        return put(out, at, 0,
                   apply_int(block_.expr_op, type, integer(arguments[0], srcs[0], at)));
      case BlockOp::kBinary:
        if (is_float(type)) {
          return put_binary(out, at, number(arguments[0], srcs[0], at),
                            number(arguments[1], srcs[1], at));
        }
        return put_binary(out, at, integer(arguments[0], srcs[0], at),
                          integer(arguments[1], srcs[1], at));
      case BlockOp::kScalar:
        if (is_float(type)) {
          return put_binary(out, at, block_.number, number(arguments[0], srcs[0], at));
        }
        return put_binary(out, at, float_to_int(type, block_.number),
                          integer(arguments[0], srcs[0], at));
      case BlockOp::kReduce: {
        if (is_float(type)) {
          const double a = number(*out, dst, at), b = number(arguments[0], srcs[0], at);
          return put(out, at, block_.reduce == Reduce::kSum ? a + b : a < b ? b : a, 0);
        }
        const int64_t a = integer(*out, dst, at), b = integer(arguments[0], srcs[0], at);
        return put(out, at, 0, block_.reduce == Reduce::kSum ? add_wrapping(a, b) : std::max(a, b));
      }
      case BlockOp::kRequantise: {
        const int64_t sum = integer(arguments[0], srcs[0], at) + integer(arguments[2], srcs[2], at);
        const float scaled = static_cast<float>(static_cast<int32_t>(sum)) *
                             static_cast<float>(number(arguments[1], srcs[1], at));
        const double whole = std::isnan(scaled)
                                 ? 0
                                 : std::clamp<double>(std::nearbyint(scaled), -0x1p31, 0x1p31 - 1);
        const double moved = std::clamp<double>(whole + block_.zero, -128, 127);
        return put(out, at, 0,
                   std::clamp<int64_t>(static_cast<int64_t>(moved), block_.lo, block_.hi));
      }
    }
  }

  void put_binary(std::string* out, const std::vector<int64_t>& at, double a, double b) const {
    const bool compares = is_comparison(block_.expr_op);
    put(out, at, compares ? compare(block_.expr_op, a, b) : apply_float(block_.expr_op, a, b), 0);
  }
  void put_binary(std::string* out, const std::vector<int64_t>& at, int64_t a, int64_t b) const {
    put(out, at, 0, apply_int(block_.expr_op, type_of(block_.dst), a, b));
  }

  Rng rng_;
  Block block_;
  Kernel kernel_;
};

// How many of `tries` the verifier takes: all or none, by their types.
int try_blocks(BlockOp op, Type dst, Type a, Type b, int tries, ExprOp expr_op = ExprOp::kAdd,
               Reduce reduce = Reduce::kNone) {
  int taken = 0;
  for (int i = 0; i < tries; ++i) {
    const RandomBlock random(op, dst, a, b, 1000 * i + 97 * static_cast<int>(a) +
                                                31 * static_cast<int>(b) + static_cast<int>(dst),
                             expr_op, reduce);
    const Kernel& kernel = random.kernel();
    expect_text_says_all(kernel, print(kernel));
    if (!verify(kernel).ok()) continue;
    ++taken;
    const std::vector<std::string> arguments = random_arguments(kernel, i);
    const std::vector<std::string> out = run_on(machines()[0], kernel, arguments);
    EXPECT_TRUE(same_elements(dst, out.back(), random.expected(arguments), 0)) << print(kernel);
  }
  EXPECT_TRUE(taken == 0 || taken == tries) << taken << " of " << tries;
  return taken;
}

TEST(BlockInterpreter, FillsEveryType) {
  for (Type type : kAllTypes) EXPECT_EQ(try_blocks(BlockOp::kFill, type, type, type, 10), 10);
}

TEST(BlockInterpreter, CopiesEveryTypeToEveryOther) {
  for (Type to : kAllTypes) {
    for (Type from : kAllTypes) EXPECT_EQ(try_blocks(BlockOp::kCopy, to, from, from, 5), 5);
  }
}

TEST(BlockInterpreter, MultipliesIntegersToIntegersAndFloatsToWideFloats) {
  for (Type dst : kAllTypes) {
    for (Type a : kAllTypes) {
      for (Type b : {a, Type::kI8, Type::kBF16}) {
        const bool floats = is_float(dst) && is_float(a) && is_float(b) && !is_narrow(dst);
        const auto whole = [](Type type) { return !is_float(type) && type != Type::kBool; };
        const bool fits = floats || (whole(dst) && whole(a) && whole(b));
        EXPECT_EQ(try_blocks(BlockOp::kProduct, dst, a, b, 4), fits ? 4 : 0);
      }
    }
  }
  EXPECT_EQ(try_blocks(BlockOp::kProduct, Type::kI32, Type::kI8, Type::kI8, 100), 100);
  EXPECT_EQ(try_blocks(BlockOp::kProduct, Type::kF32, Type::kBF16, Type::kBF16, 100), 100);
  EXPECT_EQ(try_blocks(BlockOp::kProduct, Type::kF32, Type::kF32, Type::kF32, 100), 100);
}

TEST(BlockInterpreter, ComputesFunctionsOfOneType) {
  for (Type type : kAllTypes) {
    for (Type other : {type, Type::kI32, Type::kF32}) {
      const bool alike = type == other && type != Type::kBool && !is_narrow(type);
      const int taken = alike ? 4 : 0;
      for (ExprOp op : {ExprOp::kAdd, ExprOp::kSub, ExprOp::kMul, ExprOp::kMax, ExprOp::kMin}) {
        EXPECT_EQ(try_blocks(BlockOp::kBinary, type, other, other, 4, op), taken);
        EXPECT_EQ(try_blocks(BlockOp::kScalar, type, other, other, 4, op), taken);
      }
      EXPECT_EQ(try_blocks(BlockOp::kUnary, type, other, other, 4, ExprOp::kNeg), taken);
      EXPECT_EQ(try_blocks(BlockOp::kUnary, type, other, other, 4, ExprOp::kAbs), taken);
      EXPECT_EQ(try_blocks(BlockOp::kUnary, type, other, other, 4, ExprOp::kExp),
                is_float(type) ? taken : 0);
      EXPECT_EQ(try_blocks(BlockOp::kUnary, type, other, other, 4, ExprOp::kAdd), 0);
      for (ExprOp op : {ExprOp::kLt, ExprOp::kGt, ExprOp::kEq}) {
        EXPECT_EQ(try_blocks(BlockOp::kBinary, type, other, other, 4, op), taken);
        EXPECT_EQ(try_blocks(BlockOp::kScalar, type, other, other, 4, op), 0);
      }
      for (Reduce reduce : {Reduce::kSum, Reduce::kMax}) {
        EXPECT_EQ(try_blocks(BlockOp::kReduce, type, other, other, 4, ExprOp::kAdd, reduce), taken);
      }
    }
  }
}

TEST(BlockInterpreter, RequantisesToBytes) {
  EXPECT_EQ(try_blocks(BlockOp::kRequantise, Type::kI8, Type::kI32, Type::kF32, 200), 200);
  EXPECT_EQ(try_blocks(BlockOp::kRequantise, Type::kU8, Type::kI32, Type::kF32, 4), 0);
  EXPECT_EQ(try_blocks(BlockOp::kRequantise, Type::kI8, Type::kI32, Type::kF64, 4), 0);
}

}  // namespace
}  // namespace lw
