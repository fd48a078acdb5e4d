// What a stage reads: the forms of indices, the strides of addresses, the boxes that loops touch.
#include "schedules/access.h"
#include "schedules/targets/target.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/steps.h"
#include "src/base/message.h"
#include "tests/support/parsed_program.h"

namespace lw {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Nest nest_of(const std::string& text) {
  return make_nest(std::make_shared<const Program>(parsed(text)),
                   std::make_shared<const Target>(*find_target("x86_avx512")), 1);
}

Nest after(const Nest& start, const std::string& steps) {
  const absl::StatusOr<Trace> trace = parse_trace(steps);
  EXPECT_TRUE(trace.ok()) << trace.status();
  absl::StatusOr<Nest> nest = replay(start, *trace);
  EXPECT_TRUE(nest.ok()) << nest.status();
  return *std::move(nest);
}

// "2*a0 + a1/12%4 - 1": of the stage's axes a0, a1, ...
std::string text_of(const IndexForm& form) {
  std::string text = std::to_string(form.constant);
  for (const IndexForm::Term& term : form.terms) {
    text += concat(" + ", term.factor);
    if (term.over != 1) text += concat("/", term.over);
    text += concat("*a", term.axis);
    if (term.divisor != 1) text += concat("/", term.divisor);
    if (term.modulus != 0) text += concat("%", term.modulus);
  }
  if (form.limit != 0) text += concat(", below ", form.limit);
  if (form.gather) text += ", anywhere";
  return concat(form.affine ? "is " : "like ", text);
}

// The first index of the first read of the only stage of a program that says `Y[...] = `.
std::string form_in(const std::string& text, const std::string& steps = "") {
  const Nest nest = after(nest_of(text), steps);
  const Expr body = effective_body(nest, 0);
  return text_of(index_form(nest, 0, reads_in(body)[0]->args[0]));
}

TEST(IndexForm, OfASumOfMultiplesIsTheIndex) {
  EXPECT_EQ(form_in("  in X: f32[30]\n  out Y[i: 9] = sum[r: 3](X[2 * i + (r + 1) * 3 - i])"),
            "is 3 + 1*a0 + 3*a1");
  EXPECT_EQ(form_in("  in X: f32[30]\n  out Y[i: 9] = X[8 - i]"), "is 8 + -1*a0");
  EXPECT_EQ(form_in("  in X: f32[30]\n  out Y[i: 9] = X[7]"), "is 7");
}

TEST(IndexForm, KeepsWhatBoundsQuotientsRemaindersAndClamps) {
  EXPECT_EQ(form_in("  in X: f32[30]\n  out Y[f: 96] = X[2 * (f / 12 % 4) + 1]"),
            "like 1 + 2*a0/12%4");
  EXPECT_EQ(form_in("  in X: f32[40]\n  out Y[i: 9] = sum[r: 3](X[3 * ((2 * i + r) / 2) + i])"),
            "like 0 + 8/2*a0 + 3/2*a1");
  EXPECT_EQ(form_in("  in X: f32[30]\n  out Y[i: 9] = sum[r: 3](X[(2 * i + r) % 5])"),
            "like 0 + 2*a0 + 1*a1, below 5");
  EXPECT_EQ(form_in("  in X: f32[8]\n  out Y[i: 9] = sum[r: 3](X[max(min(2 * i + r - 1, 7), 0)])"),
            "like -1 + 2*a0 + 1*a1");
}

TEST(IndexForm, OfWhatDataSayIsAnywhere) {
  EXPECT_EQ(form_in("  in X: f32[30]\n  in J: i64[9]\n  out Y[i: 9] = X[J[i] + 2 * i]"),
            "like 0 + 2*a0, anywhere");
}

TEST(IndexForm, IsOverTheLoopsOfTheStage) {
  const std::string text = "  in X: f32[6, 4]\n  out Y[i: 6, j: 4] = X[i, j]";
  EXPECT_EQ(form_in(text), "is 0 + 1*a0");
  EXPECT_EQ(form_in(text, "fuse(Y, i, j)\n"), "like 0 + 1*a0/4");
}

TEST(Reads, HaveStepsForEachDimension) {
  const Nest nest = nest_of(
      "  in X: f32[20, 4]\n  in W: f32[3]\n"
      "  out Y[i: 9, c: 4] = sum[r: 3](X[2 * i + r, c] * W[r])");
  const std::vector<ReadSteps> reads = read_steps(nest, 0);
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_THAT(reads[0], ElementsAre(ElementsAre(2, 0, 1), ElementsAre(0, 1, 0)));
  EXPECT_THAT(reads[1], ElementsAre(ElementsAre(0, 0, 1)));
}

TEST(Addresses, OfAnIndexThatIsTakenApartAgainAreWhole) {
  const Nest nest = nest_of(
      "  in X: f32[4, 6]\n  out Y[i: 6, j: 4] = X[(i * 4 + j) / 6, (i * 4 + j) % 6]");
  const std::vector<Address> list = addresses(nest, 0);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_TRUE(list[0].affine);
  EXPECT_FALSE(list[0].guarded);
  EXPECT_THAT(list[0].stride, ElementsAre(4, 1));
}

TEST(Addresses, SayWhatIsGuardedAndWhatIsAGuess) {
  const Nest nest = nest_of(
      "  in X: f32[20]\n  in T: f32[5, 8]\n  in J: i64[9]\n"
      "  out Y[i: 9, c: 8] = pad(X[i + 15], 0) + T[J[i], c]");
  const std::vector<Address> list = addresses(nest, 0);
  ASSERT_EQ(list.size(), 3u);  // J too
  EXPECT_TRUE(list[0].guarded && list[0].affine);
  EXPECT_FALSE(list[1].affine);
  EXPECT_TRUE(uses(list[1], 0));
  EXPECT_TRUE(reused(nest.stages[0], list[0]));
  EXPECT_FALSE(reused(nest.stages[0], list[1]));
}

TEST(Regions, AreWhatLoopsThatStandStillLeave) {
  const Nest nest = after(nest_of("  in X: f32[40]\n  out Y[i: 36] = sum[r: 3](X[i + r])"),
                          "split(Y, i; 6, 0)\n");
  EXPECT_THAT(read_region(nest, 0, 0, 0), ElementsAre(38));
  EXPECT_THAT(read_region(nest, 0, 0, 1), ElementsAre(8));
  EXPECT_THAT(read_region(nest, 0, 0, 2), ElementsAre(3));
  EXPECT_THAT(read_region(nest, 0, 1, 0), IsEmpty());  // Y is not read
}

TEST(IndexAxis, AloneIndexesADimension) {
  const Nest nest = nest_of(
      "  in X: f32[9, 12]\n  out Y[i: 9] = sum[r: 3](X[i, r + 1] * X[i, r + 2])");
  EXPECT_EQ(index_axis(nest, 0, 0, 0), 0);
  EXPECT_EQ(index_axis(nest, 0, 0, 1), -1);
  EXPECT_TRUE(reads_at_prefix(nest, 0, 0, 1));
  EXPECT_FALSE(reads_at_prefix(nest, 0, 0, 2));
}

}  // namespace
}  // namespace lw
