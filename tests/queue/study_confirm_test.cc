// A second agent's word: who measures the finalists, and what becomes of words that do not hold. A
// study's search in a daemon, driven by hand, with boards that are scripts.
#include <functional>

#include "src/base/hash.h"
#include "src/serve/studies/second_word.h"
#include "tests/queue/search_fixture.h"
#include "tuner_db/best.h"
#include "tuner_db/tables/rows.h"

namespace lw {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a trace takes, on whatever honest board.
double true_us(const std::string& trace) {
  return 10 + static_cast<double>(hash64(trace) % 1000);
}

struct Board {
  Asker asker;
  // What it says of a trace, in a comparison or not.
  std::function<Measurement(const std::string& trace, bool compared)> says;
  size_t most = 1'000'000;                 // jobs; then it is there, and takes nothing
  std::vector<std::pair<bool, v1::Job>> done;  // whether it compared, and what
};

Measurement takes(double us) { return make_measurement(1, {us, us, us}); }
Measurement fails(Verdict verdict) { return make_failure(1, verdict); }

Board board(const std::string& name,
            std::function<Measurement(const std::string&, bool)> says =
                [](const std::string& trace, bool) { return takes(true_us(trace)); }) {
  Board made;
  made.asker.agent = name;
  made.asker.session = "s-" + name;
  made.asker.devices = {name + "-0"};
  made.says = std::move(says);
  return made;
}

class ConfirmTest : public SearchTest {
 protected:
  // As the searcher takes up a study that nobody owns; false: it has ended.
  bool adopt() {
    if (text("SELECT state FROM studies") != "running") return false;
    if (text("SELECT owner FROM studies") == "daemon") return true;
    write([&](WriteTransaction& tx) {
      return tx.query("UPDATE studies SET owner = 'daemon', owner_epoch = owner_epoch + 1, "
                      "owner_until = ?", now_ + 1'000'000'000).run();
    });
    epoch_ = number("SELECT owner_epoch FROM studies");
    ++adoptions_;
    return true;
  }

  // One job, if there is one for it.
  bool work(Board& board) {
    const std::vector<v1::Job> jobs = take(board.asker, board.done.size() < board.most ? 1 : 0);
    if (jobs.empty()) return false;
    const v1::Job& job = jobs[0];
    const bool compared = job.kind() == v1::JOB_KIND_COMPARE;
    v1::JobResult result = result_of(job);
    for (int i = 0; i < job.candidates_size(); ++i) {
      v1::Measurement& m = *result.mutable_outcomes(i)->mutable_measurement();
      m = to_proto(board.says(job.candidates(i).trace(), compared));
      m.clear_trace();
    }
    result.set_digest(result_digest(result));
    EXPECT_EQ(send(board.asker, result).kind(), v1::RECEIPT_KIND_STORED);
    board.done.emplace_back(compared, job);
    return true;
  }

  // To the end of the study. Whoever is first in the list is asked first.
  void tune(std::vector<Board>& boards, int trials = 40) {
    for (Board& one : boards) take(one.asker, 0);            // describe their devices
    if (study_.empty()) study_ = make_search(trials), epoch_ = 1;
    const SearchSeat seat = this->seat();
    auto search = std::make_unique<StudySearch>(seat, study_, epoch_, Stop());
    for (int turn = 0; turn < 2000; ++turn) {
      const absl::StatusOr<StudySearch::Next> next = search->advance();
      ASSERT_TRUE(next.ok()) << next.status();
      if (*next == StudySearch::Next::kEnded) {
        if (!adopt()) return;
        search = std::make_unique<StudySearch>(seat, study_, epoch_, Stop());
        continue;
      }
      bool any = false;
      for (Board& one : boards) any |= work(one);
      now_ += any ? 10 : 1000;             // nobody may take what there is: time goes by
      waited_ms_ += any ? 0 : 1000;
    }
    ADD_FAILURE() << "the study does not end";
  }

  Key key() { return store_->keys()->front(); }
  BestRow best() { return *store_->best(key()); }
  // Who measured the trace, of those who count.
  std::vector<std::string> witnesses(const std::string& trace) {
    std::vector<std::string> actors;
    const std::vector<Measurement> rows = *store_->measurements(key());
    std::vector<const Measurement*> of_trace;
    for (const Measurement& m : rows) {
      if (m.trace == trace) of_trace.push_back(&m);
    }
    for (const Word& word : words_of(of_trace, TimeKind::kMeasured)) actors.push_back(word.actor);
    return actors;
  }
  std::vector<v1::StudyEvent> contradictions() {
    std::vector<v1::StudyEvent> found;
    EXPECT_TRUE(database_->read(5, [&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const std::vector<v1::StudyEvent> all, events_after(tx, study_, 0, 10'000));
      for (const v1::StudyEvent& event : all) {
        if (event.kind() == v1::StudyEvent::KIND_CONTRADICTED) found.push_back(event);
      }
      return absl::OkStatus();
    }).ok());
    return found;
  }
  static int comparisons(const Board& board) {
    return static_cast<int>(std::count_if(board.done.begin(), board.done.end(),
                                          [](const auto& one) { return one.first; }));
  }
  // What is given out is what any honest board measures.
  void expect_true_best() {
    const BestRow row = best();
    EXPECT_EQ(row.measurement.time_us, true_us(row.measurement.trace));
    EXPECT_EQ(text("SELECT state FROM studies"), "succeeded");
    const std::vector<std::string> defects = *store_->check();
    EXPECT_THAT(defects, IsEmpty());
  }

  std::string study_;
  int64_t epoch_ = 1, waited_ms_ = 0;
  int adoptions_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Databases, ConfirmTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ConfirmTest, OneBoardAloneIsAskedNothingMore) {
  std::vector<Board> boards = {board("a")};
  tune(boards);
  EXPECT_EQ(comparisons(boards[0]), 1);
  EXPECT_EQ(waited_ms_, 0);
  EXPECT_EQ(number("SELECT count(*) FROM jobs WHERE avoid <> ''"), 0);
  EXPECT_EQ(number("SELECT looks FROM study_workloads"), 0);
  expect_true_best();
}

TEST_P(ConfirmTest, TheFinalistsGoToAnotherAgentThanTheLeadersOwn) {
  std::vector<Board> boards = {board("a"), board("b")};
  tune(boards);
  EXPECT_EQ(witnesses(best().measurement.trace).size(), 2u);
  EXPECT_EQ(device("a-0").confirmed + device("b-0").confirmed, 1);
  EXPECT_EQ(device("a-0").contradicted + device("b-0").contradicted, 0);
  EXPECT_THAT(contradictions(), IsEmpty());
  EXPECT_EQ(adoptions_, 0);
  EXPECT_EQ(number("SELECT trials FROM studies"), 40);
  // Each comparison went to somebody who had not measured its leader.
  for (const Board& one : boards) {
    for (const auto& [compared, job] : one.done) {
      if (!compared) continue;
      EXPECT_EQ(number(absl::StrCat("SELECT count(*) FROM jobs WHERE id = ",
                                    job.name().substr(5), " AND avoid LIKE '%,",
                                    one.asker.agent, ",%'")), 0);
    }
  }
  expect_true_best();
}

TEST_P(ConfirmTest, WhoNeverFinishedAnythingIsNotWaitedFor) {
  std::vector<Board> boards = {board("a"), board("b")};
  boards[1].most = 0;
  tune(boards);
  EXPECT_EQ(waited_ms_, 0);
  expect_true_best();
}

TEST_P(ConfirmTest, WhoIsThereAndTakesNothingHoldsNothingUp) {
  std::vector<Board> boards = {board("a"), board("b")};
  boards[1].most = 1;                     // of 40 trials: the leader is the other's
  tune(boards);
  EXPECT_GE(waited_ms_, rules_.confirm_ms);
  EXPECT_LE(waited_ms_, rules_.confirm_ms + 5000) << "once";
  EXPECT_GE(comparisons(boards[0]), 1);
  expect_true_best();
}

TEST_P(ConfirmTest, HalfOfTheTrueTimeIsContradictedByTwo) {
  std::vector<Board> boards = {
      board("rogue", [](const std::string& trace, bool) { return takes(true_us(trace) / 2); }),
      board("b"), board("c")};
  tune(boards);
  expect_true_best();
  EXPECT_EQ(number("SELECT count(*) FROM measurements WHERE actor = 'agent/rogue' AND "
                   "annulled = ''"), 0) << "nothing of it counts";
  EXPECT_GT(number("SELECT count(*) FROM measurements WHERE actor = 'agent/rogue' AND "
                   "annulled LIKE '%contradicted%'"), 0);
  const std::vector<v1::StudyEvent> events = contradictions();
  ASSERT_FALSE(events.empty());
  for (const v1::StudyEvent& event : events) {
    EXPECT_EQ(event.device(), "devices/rogue-0");
    EXPECT_THAT(event.detail(), HasSubstr("agent/rogue on devices/rogue-0"));
  }
  EXPECT_EQ(device("rogue-0").contradicted, static_cast<int64_t>(events.size()));
  EXPECT_THAT(device("rogue-0").evidence, HasSubstr("contradicted"));
  EXPECT_EQ(device("b-0").contradicted + device("c-0").contradicted, 0);
  EXPECT_EQ(number("SELECT count(*) FROM audit WHERE actor = 'agent/rogue' AND outcome LIKE "
                   "'contradicted%'"), static_cast<int64_t>(events.size()));
  EXPECT_EQ(text("SELECT doubted FROM study_workloads"), "rogue");
  ASSERT_FALSE(doubts_.empty());
  EXPECT_EQ(doubts_[0].kind, "contradicted");
}

TEST_P(ConfirmTest, AContradictionIsSettledThoughNobodyIsAskedAnyMore) {
  std::vector<Board> boards = {
      board("rogue", [](const std::string& trace, bool) { return takes(true_us(trace) / 2); }),
      board("b"), board("c")};
  for (Board& one : boards) take(one.asker, 0);
  study_ = make_search(40);
  write([](WriteTransaction& tx) { return tx.query("UPDATE study_workloads SET looks = 8").run(); });
  tune(boards);
  EXPECT_FALSE(contradictions().empty());
  EXPECT_EQ(device("b-0").contradicted + device("c-0").contradicted, 0);
  expect_true_best();
}

TEST_P(ConfirmTest, KernelsThatComputeWrongAreNotGivenOutOnOneWord) {
  const auto is_wrong = [](const std::string& trace) { return hash64(trace, 5) % 3 == 0; };
  const auto honest = [&](const std::string& trace, bool) {
    return is_wrong(trace) ? fails(Verdict::kWrongResult) : takes(true_us(trace));
  };
  std::vector<Board> boards = {
      board("rogue", [&](const std::string& trace, bool) {
        return takes(is_wrong(trace) ? 1 : true_us(trace));  // the wrong ones are fast
      }),
      board("b", honest), board("c", honest)};
  tune(boards);
  EXPECT_FALSE(is_wrong(best().measurement.trace));
  EXPECT_GT(device("rogue-0").contradicted, 0);
  expect_true_best();
}

// Sabotage: what leads by an honest word crashes, or crawls, when the rogue compares it.
TEST_P(ConfirmTest, ALeaderThatOneAgentAloneFindsBadKeepsItsPlace) {
  for (const Measurement& lie : {fails(Verdict::kCrash), takes(5000)}) {
    SCOPED_TRACE(verdict_name(lie.verdict));
    database_ = open_kind(GetParam(), absl::StrCat(scratch_.directory, "/", lie.time_us, ".db"));
    store_ = make_store(database_);
    study_.clear();
    std::string spoilt;                    // the leader of the comparison that it gets
    std::vector<Board> boards = {
        board("b"), board("c"),
        board("rogue", [&](const std::string& trace, bool compared) {
          if (compared && spoilt.empty()) spoilt = trace;
          return compared && trace == spoilt ? lie : takes(true_us(trace));
        })};
    // It gets the first comparison: the others are slow to ask for it.
    std::swap(boards[0], boards[2]);
    tune(boards);
    expect_true_best();
    if (spoilt.empty()) continue;          // all comparisons were of its own leaders
    EXPECT_LE(best().measurement.time_us, true_us(spoilt)) << "it may have found a better one";
    EXPECT_GE(witnesses(spoilt).size(), 2u) << "who both find it good";
    EXPECT_GT(device("rogue-0").contradicted, 0);
  }
}

TEST_P(ConfirmTest, OfTwoTheMoreCautiousWordHolds) {
  std::vector<Board> boards = {
      board("rogue", [](const std::string& trace, bool) { return takes(true_us(trace) / 2); }),
      board("b")};
  tune(boards);
  expect_true_best();
  EXPECT_GT(device("rogue-0").contradicted, 0);
  EXPECT_EQ(device("rogue-0").admission, v1::DEVICE_ADMISSION_OPEN) << "it may be the other";
}

// Boards of one class are not equal to the digit.
TEST_P(ConfirmTest, ASlowerBoardOfTheClassContradictsNobody) {
  std::vector<Board> boards = {
      board("a"), board("b", [](const std::string& trace, bool) {
        return takes(1.3 * true_us(trace));
      })};
  tune(boards);
  EXPECT_THAT(contradictions(), IsEmpty());
  EXPECT_EQ(text("SELECT state FROM studies"), "succeeded");
}

TEST_P(ConfirmTest, ADeviceThatOthersContradictAgainAndAgainIsClosed) {
  std::vector<Board> boards = {
      board("rogue", [](const std::string& trace, bool) { return takes(true_us(trace) / 2); }),
      board("b"), board("c")};
  for (int i = 0; i < 6 && device("rogue-0").admission != v1::DEVICE_ADMISSION_QUARANTINED; ++i) {
    write([&](WriteTransaction& tx) -> absl::Status {        // the same again, from the beginning
      for (const char* table : {"measurements", "candidates", "keys", "events", "jobs",
                                "study_workloads", "studies"}) {
        RETURN_IF_ERROR(tx.query(absl::StrCat("DELETE FROM ", table)).run());
      }
      return absl::OkStatus();
    });
    study_.clear();
    tune(boards);
  }
  EXPECT_EQ(device("rogue-0").admission, v1::DEVICE_ADMISSION_QUARANTINED);
  EXPECT_THAT(device("rogue-0").reason, HasSubstr("times others did not find"));
  EXPECT_EQ(device("b-0").admission, v1::DEVICE_ADMISSION_OPEN);
}

}  // namespace
}  // namespace lw
