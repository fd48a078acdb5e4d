// pad(READ, edge | reflect | wrap): the element that a finger finds which walks from the middle of
// the tensor and, at its ends, stays, turns round or starts again at the other end.
#include <gtest/gtest.h>

#include "loopwright/builder.h"
#include "src/base/message.h"
#include "src/expr/language/border.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"

namespace lw {
namespace {

struct Walk {
  const char* word;
  Border border;
};
constexpr Walk kWalks[] = {{"edge", Border::kEdge}, {"reflect", Border::kReflect},
                           {"wrap", Border::kWrap}};

// Where the finger is after `steps` steps from 0 (negative: to the left).
int64_t walk(Border border, int64_t n, int64_t steps) {
  int64_t at = 0, direction = steps < 0 ? -1 : 1;
  for (int64_t s = 0; s < std::abs(steps); ++s) {
    const int64_t next = at + direction;
    if (next >= 0 && next < n) {
      at = next;
    } else if (border == Border::kWrap) {
      at = next < 0 ? n - 1 : 0;
    } else if (border == Border::kReflect && n > 1) {
      direction = -direction;
      at += direction;
    }
  }
  return at;
}

absl::StatusOr<Program> parsed_op(const std::string& statements,
                                  const std::string& parameters = "") {
  const absl::StatusOr<Module> module =
      parse_module(concat("op f(", parameters, ") {\n", statements, "\n}\n"), "t.te");
  if (!module.ok()) return module.status();
  return instantiate(module->ops[0], {});
}

// Of the only output, where the only input holds 0, 1, 2, ...
std::vector<double> evaluate(const Program& program) {
  const Tensor& x = program.tensors[0];
  Data data;
  data.bytes.resize(static_cast<size_t>(bytes(x)));
  for (int64_t i = 0; i < elements(x); ++i)
    store_element(x.type, data.bytes.data(), i, static_cast<double>(i));
  const absl::StatusOr<std::vector<Data>> out = interpret(program, {data});
  EXPECT_TRUE(out.ok()) << out.status().message();
  const Tensor& y = program.tensors[outputs(program)[0]];
  std::vector<double> values;
  for (int64_t i = 0; i < elements(y); ++i)
    values.push_back(load_element(y.type, (*out)[0].bytes.data(), i));
  return values;
}

// What stays inside is left alone; what can leave is changed at the end at which it can.
TEST(Border, AnIndexIsChangedWhereItCanLeave) {
  const Facts facts = facts_of({{"i", 10}});
  const Expr i = make_axis(0), past = make_binary(ExprOp::kAdd, i, make_int(Type::kI64, 1));
  for (const Walk& w : kWalks) EXPECT_EQ(index_inside(i, 10, w.border, facts), i);
  const Expr edge = index_inside(past, 10, Border::kEdge, facts);
  EXPECT_EQ(edge->op, ExprOp::kMin);       // no maximum: it is nowhere below 0
  EXPECT_EQ(edge->args[0], past);
  EXPECT_EQ(index_inside(past, 10, Border::kWrap, facts)->op, ExprOp::kMod);
  EXPECT_EQ(index_inside(past, 1, Border::kReflect, facts)->op, ExprOp::kConst);
}

// Steps to the left and to the right of 0, up to several periods.
TEST(Border, ReadsWhatAWalkerFinds) {
  for (const Walk& w : kWalks) {
    for (int64_t n : {1, 2, 3, 5}) {
      for (int64_t left : {0, 1, 2, 4, 11}) {
        for (int64_t right : {0, 1, 2, 4, 13}) {
          const int64_t m = left + n + right;
          const absl::StatusOr<Program> program =
              parsed_op(concat("in X: f32[", n, "]\nout Y[i: ", m, "] = pad(X[i - ", left, "], ",
                           w.word, ")"));
          ASSERT_TRUE(program.ok()) << program.status().message();
          std::vector<double> want;
          for (int64_t i = 0; i < m; ++i)
            want.push_back(static_cast<double>(walk(w.border, n, i - left)));
          EXPECT_EQ(evaluate(*program), want) << w.word << " n=" << n << " left=" << left;
        }
      }
    }
  }
}

TEST(Border, LeavesAloneWhatStaysInside) {
  for (const Walk& w : kWalks) {
    const absl::StatusOr<Program> padded = parsed_op(
        concat("in X: f32[8, 9]\nout Y[i: 8, j: 9] = pad(X[i, where_j], ", w.word, ")"),
        "where_j = 3");
    const absl::StatusOr<Program> plain =
        parsed_op("in X: f32[8, 9]\nout Y[i: 8, j: 9] = X[i, 3]");
    ASSERT_TRUE(padded.ok()) << padded.status().message();
    EXPECT_EQ(workload_id(*padded), workload_id(*plain)) << w.word;
  }
  // A condition around the read counts.
  const absl::StatusOr<Program> guarded =
      parsed_op("in X: f32[8]\nout Y[i: 8] = where(i > 0, pad(X[i - 1], edge), 0)");
  const absl::StatusOr<Program> plain =
      parsed_op("in X: f32[8]\nout Y[i: 8] = where(i > 0, X[i - 1], 0)");
  EXPECT_EQ(workload_id(*guarded), workload_id(*plain));
}

TEST(Border, ADeclaredNameGoesFirst) {
  const absl::StatusOr<Program> value =
      parsed_op("in X: f32[4]\nout Y[i: 6] = pad(X[i - 1], edge)", "edge = 7");
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(evaluate(*value), (std::vector<double>{7, 0, 1, 2, 3, 7}));
}

TEST(Border, AnIndexTakesMinMaxClampAndAbs) {
  const auto value = [](const std::string& index) {
    const absl::StatusOr<Program> program =
        parsed_op(concat("in X: f32[4]\nout Y[i: 6] = X[", index, "]"));
    EXPECT_TRUE(program.ok()) << program.status().message();
    return program.ok() ? evaluate(*program) : std::vector<double>();
  };
  EXPECT_EQ(value("min(i, 3)"), (std::vector<double>{0, 1, 2, 3, 3, 3}));
  EXPECT_EQ(value("max(i - 2, 0)"), (std::vector<double>{0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(value("clamp(i - 1, 1, 2)"), (std::vector<double>{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(value("abs(i - 3)"), (std::vector<double>{3, 2, 1, 0, 1, 2}));
}

// What the bounds cannot show is refused, as without them.
TEST(Border, AnIndexThatMayStillLeaveIsRefused) {
  EXPECT_FALSE(parsed_op("in X: f32[4]\nout Y[i: 6] = X[min(i, 4)]").ok());
  EXPECT_FALSE(parsed_op("in X: f32[4]\nout Y[i: 6] = X[max(i - 1, 0)]").ok());
  EXPECT_FALSE(parsed_op("in X: f32[4]\nout Y[i: 8] = X[abs(i - 3)]").ok());
}

TEST(Border, TheBuilderMakesTheSame) {
  for (const Walk& w : kWalks) {
    OpBuilder b("f");
    const TensorRef x = b.input("X", Type::kF32, {5});
    b.output("Y", {{"i", 9}}, [&](const Values& at) { return pad(x(at[0] - 2), w.border); });
    const absl::StatusOr<Program> built = b.build();
    ASSERT_TRUE(built.ok()) << built.status().message();
    const absl::StatusOr<Program> parsed =
        parsed_op(concat("in X: f32[5]\nout Y[i: 9] = pad(X[i - 2], ", w.word, ")"));
    EXPECT_EQ(workload_id(*built), workload_id(*parsed)) << w.word;
  }
}

}  // namespace
}  // namespace lw
