// What holds when agents do not agree about a schedule.
#include "src/serve/studies/second_word.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/store_fixture.h"

namespace lw {
namespace {

using ::testing::ElementsAre;

Word ok(const std::string& actor, double us) { return {"agent/" + actor, actor + "-0", false, us, 1}; }
Word failed(const std::string& actor) { return {"agent/" + actor, actor + "-0", true, 0, 1}; }

std::vector<std::string> losers(const std::vector<Word>& words, bool majority) {
  bool by_majority = !majority;
  std::vector<std::string> actors;
  for (const Word& word : overruled(words, &by_majority)) actors.push_back(word.actor);
  EXPECT_EQ(by_majority, majority);
  return actors;
}

TEST(SecondWord, BoardsOfAClassDifferALittle) {
  EXPECT_EQ(accord_of(std::vector<Word>{ok("a", 10)}), Accord::kOne);
  EXPECT_EQ(accord_of(std::vector<Word>{ok("a", 10), ok("b", 14.9)}), Accord::kAgreed);
  EXPECT_EQ(accord_of(std::vector<Word>{ok("a", 10), ok("b", 15.1)}), Accord::kApart);
  EXPECT_EQ(accord_of(std::vector<Word>{ok("a", 10), failed("b")}), Accord::kApart);
  EXPECT_EQ(accord_of(std::vector<Word>{failed("a"), failed("b")}), Accord::kAgreed);
  EXPECT_EQ(accord_of(std::vector<Word>{ok("a", 10), ok("b", 20), ok("c", 14)}), Accord::kAgreed);
}

TEST(SecondWord, MostOverruleTheOthers) {
  EXPECT_THAT(losers({ok("a", 5), ok("b", 10), ok("c", 11)}, true), ElementsAre("agent/a"));
  EXPECT_THAT(losers({ok("b", 10), ok("a", 40), ok("c", 11)}, true), ElementsAre("agent/a"));
  EXPECT_THAT(losers({failed("a"), ok("b", 10), ok("c", 11)}, true), ElementsAre("agent/a"));
  EXPECT_THAT(losers({failed("b"), ok("a", 10), failed("c")}, true), ElementsAre("agent/a"));
}

TEST(SecondWord, WithoutAMajorityTheMostCautiousWordHolds) {
  EXPECT_THAT(losers({ok("a", 5), ok("b", 10)}, false), ElementsAre("agent/a"));
  EXPECT_THAT(losers({ok("b", 10), ok("a", 5)}, false), ElementsAre("agent/a"));
  EXPECT_THAT(losers({ok("a", 5), failed("b")}, false), ElementsAre("agent/a"));
  EXPECT_THAT(losers({ok("a", 5), ok("b", 10), ok("c", 20)}, false),
              ElementsAre("agent/a", "agent/b"));
}

TEST(SecondWord, AWordIsAllThatOneSaysAndCounts) {
  std::vector<Measurement> rows = {make_measurement(1, {10, 11}), make_measurement(1, {12, 13, 14}),
                                   make_measurement(1, {1, 1}),   make_measurement(1, {2, 2}),
                                   make_failure(1, Verdict::kTimeout),
                                   make_failure(1, Verdict::kCrash), make_measurement(1, {3, 3})};
  const char* actors[] = {"agent/a", "agent/a", "client/c", "agent/d", "agent/b", "agent/e",
                          "agent/f"};
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].id = static_cast<int64_t>(i) + 1, rows[i].actor = actors[i];
    rows[i].device = "x" + std::to_string(i);
  }
  rows[2].counts = false;
  rows[3].annulled = "{}";
  rows[6].time_kind = TimeKind::kEstimated;
  std::vector<const Measurement*> all;
  for (const Measurement& row : rows) all.push_back(&row);
  const std::vector<Word> words = words_of(all, TimeKind::kMeasured);
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].actor, "agent/a");
  EXPECT_EQ(words[0].device, "x1");
  EXPECT_EQ(words[0].us, 12);
  EXPECT_EQ(words[0].first, 1);
  EXPECT_EQ(words[1].actor, "agent/e");
  EXPECT_TRUE(words[1].failed);
  EXPECT_EQ(describe(words), "agent/a on devices/x1: 12 us; agent/e on devices/x5: it failed");
}

}  // namespace
}  // namespace lw
