// Registers, addresses and loads of one straight-line block, each without the expressions above it.
#include "src/lower/values/addressing.h"

#include "src/lower/values/memory.h"
#include "src/lower/values/slide.h"
#include "src/lower/values/transpose.h"
#include "tests/support/scheduled_kernels.h"

namespace lw::lowering {
namespace {

// A block of a kernel over matrices of 64 x 64, inside of a loop of `trips`.
class BlockTest : public ::testing::Test {
 protected:
  BlockTest() {
    emitter.out = &block;
    Buffer buffer;
    buffer.elements = 64 * 64;
    emitter.kernel.buffers.push_back(buffer);
    matrix.buffer = 0;
    matrix.origin = {affine(0), affine(0)};
    matrix.shape = {64, 64};
  }
  Affine loop(int64_t trips) { return variable(emitter.new_var({0, trips - 1})); }
  Index scalar(const Affine& a) { return make_index(emitter, a, 0, 1); }
  Index vector(const Affine& a, int lanes) { return make_index(emitter, a, 1, lanes); }
  static Point point_of(int lanes) {
    Point point;
    point.chunk = {0, lanes, lanes};
    return point;
  }
  int64_t count(Op op) const {
    return std::count_if(block.begin(), block.end(), [&](const Stmt& s) {
      return s.kind == Stmt::Kind::kOp && s.op == op;
    });
  }

  std::shared_ptr<const Program> program =
      std::make_shared<const Program>(*load_workload({"transpose", "M=64", "N=64"}));
  Nest nest = make_nest(program, std::make_shared<const Target>(*find_target("x86_avx512")), 1);
  LowerOptions options;
  Emitter emitter{nest, options, Stop()};
  std::vector<Stmt> block;
  Storage matrix;
};

TEST_F(BlockTest, ValuesAtHandAreNotMadeAgain) {
  Registers registers(emitter);
  const Value x = registers.immediate(Type::kF32, 2, 2, 1);
  EXPECT_EQ(registers.broadcast(x, 16).reg, registers.broadcast(x, 16).reg);
  EXPECT_EQ(registers.reciprocal(x).reg, registers.reciprocal(x).reg);
  EXPECT_EQ(block.size(), 4u);             // 2, its broadcast, 1, the division
  // A copy knows them, but what it makes is its own: a branch's.
  Registers branch = registers;
  EXPECT_EQ(branch.broadcast(x, 16).reg, registers.broadcast(x, 16).reg);
  EXPECT_NE(branch.broadcast(x, 8).reg, registers.broadcast(x, 8).reg);
}

TEST_F(BlockTest, AHalfThatWasWidenedGoesBackAsItWas) {
  Registers registers(emitter);
  const Value half{emitter.new_register(Type::kF16, 16), 16};
  const Value wide = registers.cast(Type::kF16, half);
  EXPECT_EQ(registers.type_of(wide), Type::kF32);
  EXPECT_EQ(registers.convert(Type::kF16, wide).reg, half.reg);
  EXPECT_EQ(count(Op::kCast), 1);
  EXPECT_NE(registers.convert(Type::kBF16, wide).reg, half.reg);
}

TEST_F(BlockTest, DivisionsThatAreAffineTakeNoStatement) {
  Addressing addressing(emitter);
  const Point point = point_of(16);
  const Affine v = loop(4);
  const Index lanes = vector(v * 16, 16);
  EXPECT_EQ(addressing.divide(lanes, 16, false, point).base, v);
  EXPECT_EQ(addressing.divide(lanes, 16, true, point).lane, 1);
  EXPECT_EQ(addressing.divide(lanes, 64, false, point).base, affine(0));  // all 64 in one block
  EXPECT_TRUE(block.empty());
  // Whatever v is, 8 * v + 3 is the third of its block.
  const std::optional<Index> rest =
      addressing.divide_blocks(scalar(v * 8 + affine(3)), 8, true, point);
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->base, affine(3));
  EXPECT_FALSE(addressing.divide_blocks(scalar(v * 4 + affine(3)), 8, true, point).has_value());
}

TEST_F(BlockTest, OtherDivisionsAreMadeOnce) {
  Addressing addressing(emitter);
  const Point point = point_of(16);
  const Index uneven = scalar(loop(50));
  const Index quotient = addressing.divide(uneven, 7, false, point);
  EXPECT_EQ(block.size(), 2u);             // and the remainder
  EXPECT_EQ(addressing.divide(uneven, 7, false, point).base, quotient.base);
  EXPECT_EQ(addressing.divide(uneven, 7, true, point).range.hi, 6);
  EXPECT_EQ(block.size(), 2u);
  // A quotient of the quotient: floor(x / 21), by 3 of what is there.
  addressing.divide(quotient, 3, false, point);
  const size_t before = block.size();
  addressing.divide(uneven, 21, false, point);
  EXPECT_EQ(block.size(), before + 1);     // the remainder alone
}

// (f / 7) * 7 + f % 7 is f again, as a variable and as a vector.
TEST_F(BlockTest, AQuotientAndItsRemainderCancel) {
  Addressing addressing(emitter);
  matrix.shape = {10, 7};
  for (const Index& fused : {scalar(loop(70)), vector(loop(4), 16)}) {
    const Point point = point_of(16);
    const Index row = addressing.divide(fused, 7, false, point);
    const Index column = addressing.divide(fused, 7, true, point);
    const Index address = addressing.flatten(matrix, {row, column}, point);
    EXPECT_EQ(address.base, fused.base);
    EXPECT_EQ(address.lane, fused.lane);
    EXPECT_TRUE(address.terms.empty());
  }
}

TEST_F(BlockTest, BlocksOfACopyAreDividedOut) {
  Addressing addressing(emitter);
  matrix.block_dim = 1;
  matrix.block = 16;
  const Affine i = loop(64), j = loop(4);
  const Point point = point_of(16);
  const Index address = addressing.flatten(matrix, {scalar(i), vector(j * 16, 16)}, point);
  EXPECT_EQ(address.base, i * 16 + j * (64 * 16));  // 16 columns of all rows, then the next 16
  EXPECT_EQ(address.lane, 1);
  EXPECT_TRUE(block.empty());
}

TEST_F(BlockTest, AnElementIsLoadedOnce) {
  Memory memory(emitter, 0, {});
  const Affine i = loop(64);
  const Value first = memory.load_scalar(0, scalar(i));
  EXPECT_EQ(memory.load_scalar(0, scalar(i)).reg, first.reg);
  EXPECT_NE(memory.load_scalar(0, scalar(i * 2)).reg, first.reg);
  EXPECT_EQ(count(Op::kLoad), 2);
}

// Columns of a row-major matrix: 4 loads along the rows and a transpose in place of 16 elements.
TEST_F(BlockTest, ColumnsAreTransposedRows) {
  Memory memory(emitter, 0, {});
  Index column;
  column.lane = 64;
  std::vector<Point> points(5, point_of(4));
  std::vector<Neighbour> around;
  for (int64_t j = 4; j >= 0; --j) around.push_back({j - 2, &points[j]});
  const auto found = load_transposed(memory, 0, column, 4, around);
  ASSERT_EQ(found.size(), 4u);             // the fifth is in the next block
  for (int i = 0; i < 4; ++i) EXPECT_EQ(found[i].first.apart, i - 2);
  EXPECT_EQ(count(Op::kLoad), 4);
  EXPECT_EQ(count(Op::kTranspose), 1);
  around.erase(around.begin() + 1);        // with a gap it is none
  EXPECT_TRUE(load_transposed(memory, 0, column, 4, around).empty());
}

// Five taps of 4 lanes: 2 loads, and 3 vectors in between.
TEST_F(BlockTest, VectorsInBetweenAreSlid) {
  Memory memory(emitter, 0, {});
  Slides slides;
  std::vector<Point> points(5, point_of(4));
  std::vector<Neighbour> around;
  for (int64_t tap = 0; tap < 5; ++tap) around.push_back({tap, &points[tap]});
  const auto key_of = [&](const Point& point) { return Slides::Key{&point - points.data()}; };
  EXPECT_TRUE(slides.first_asked({0}));
  slides.add(0, affine(0), 4, around, key_of);
  for (int64_t tap = 0; tap < 5; ++tap) {
    EXPECT_FALSE(slides.first_asked({tap}));
    EXPECT_GE(slides.load(memory, {tap}, 4).reg, 0);
  }
  EXPECT_EQ(count(Op::kLoad), 2);
  EXPECT_EQ(count(Op::kSlide), 3);
  // Two taps overlap, but take two loads either way.
  EXPECT_TRUE(slides.first_asked({7}));
  slides.add(0, affine(64), 4, {{0, &points[0]}, {1, &points[1]}},
             [&](const Point& point) { return Slides::Key{7 + (&point - points.data())}; });
  EXPECT_LT(slides.load(memory, {7}, 4).reg, 0);
}

}  // namespace
}  // namespace lw::lowering
