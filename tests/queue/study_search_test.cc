// A study's search in a daemon, driven by hand: what it proposes depends on results alone.
#include "src/base/hash.h"
#include "tests/queue/search_fixture.h"

namespace lw {
namespace {

class StudySearchTest : public SearchTest {
 protected:
  // A time that depends on the candidate alone.
  void finish(Asker& asker, const v1::Job& job) {
    v1::JobResult result = result_of(job);
    for (int i = 0; i < job.candidates_size(); ++i) {
      const double us = 10 + static_cast<double>(hash64(job.candidates(i).trace()) % 1000);
      *result.mutable_outcomes(i)->mutable_measurement() = to_proto(make_measurement(1, {us, us}));
      result.mutable_outcomes(i)->mutable_measurement()->clear_trace();
    }
    result.set_digest(result_digest(result));
    EXPECT_EQ(send(asker, result).kind(), v1::RECEIPT_KIND_STORED);
  }

  // All that is proposed, in order, while the study has its turn after every `every` jobs.
  std::vector<std::string> proposals(int every) {
    Asker agent;
    take(agent, 0);                        // describes its device
    const SearchSeat seat = this->seat();
    StudySearch search(seat, make_search(40), 1, Stop());
    std::vector<std::string> all;
    for (int turn = 0; turn < 100; ++turn) {
      const absl::StatusOr<StudySearch::Next> next = search.advance();
      EXPECT_TRUE(next.ok()) << next.status();
      if (!next.ok() || *next == StudySearch::Next::kEnded) return all;
      for (int i = 0; i < every; ++i) {
        const std::vector<v1::Job> jobs = take(agent);
        if (jobs.empty()) break;
        for (const v1::CandidateSpec& one : jobs[0].candidates()) all.push_back(one.trace());
        finish(agent, jobs[0]);
      }
    }
    ADD_FAILURE() << "the study does not end";
    return all;
  }

};

INSTANTIATE_TEST_SUITE_P(Databases, StudySearchTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(StudySearchTest, WhatIsProposedDoesNotDependOnHowOftenTheStudyHasItsTurn) {
  const std::vector<std::string> promptly = proposals(1);
  EXPECT_GT(promptly.size(), 40u);
  database_ = open_kind(GetParam(), scratch_.directory + "/another.db");
  store_ = make_store(database_);
  EXPECT_EQ(proposals(2), promptly);
}

}  // namespace
}  // namespace lw
