// A study's search in a daemon, driven by hand: what it proposes depends on results alone.
#include "src/serve/study_search.h"

#include "src/base/hash.h"
#include "src/serve/study_queue.h"
#include "tests/queue_fixture.h"

namespace lw {
namespace {

constexpr char kMatmul[] =
    "op matmul(M = 32, N = 24, K = 40) {\n  in A: f32[M, K]\n  in B: f32[K, N]\n"
    "  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n}\n";

class StudySearchTest : public QueueTest {
 protected:
  SearchSeat seat() {
    SearchSeat seat;
    seat.database = database_.get();
    seat.store = store_.get();
    seat.commit = [this](const std::function<absl::Status(Database&)>& body) {
      return database_->write(5, [&] { return body(*database_); });
    };
    seat.now_ms = [this] { return now_; };
    seat.changed = [](const Changes&) {};
    seat.owner = "daemon";
    seat.liveness = &liveness_;
    return seat;
  }

  // A study of that owner.
  std::string make_search(int trials) {
    v1::StudySpec spec;
    spec.add_workloads()->set_program(kMatmul);
    spec.set_trials(trials);
    spec.set_batch(4);
    spec.set_threads(1);
    spec.set_seed(7);
    std::string id;
    write([&](Database& database) -> absl::Status {
      ASSIGN_OR_RETURN(const CheckedSpec checked, check_spec(spec, Quotas()));
      Changes changes;
      const Identity ci{CallerRole::kClient, "ci", true};
      ASSIGN_OR_RETURN(const StudyRow study, create_study(database, *store_, checked, ci, Quotas(),
                                                          now_, &changes));
      id = study.id;
      ASSIGN_OR_RETURN(const Taken taken, take_study(database, seat(), id, now_, &changes));
      EXPECT_EQ(taken, Taken::kTaken);
      return absl::OkStatus();
    });
    return id;
  }

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

  Liveness liveness_;
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
