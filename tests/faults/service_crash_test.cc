// A service that dies at any write and between any commit and its acknowledgement: what it had
// acknowledged is there, once, and a new process brings the same script to the same end.
//
// Problem: crashes hurt between two steps; random kills rarely hit there. Algorithm: a life of a
// service (records put, a study measured by an agent with two devices, one drained, resumed,
// quarantined and resumed, a second study cancelled) runs in a forked child that dies at the N-th
// crash point (tuner_db/sql/crash_point.h), having written what was acknowledged to a file. A
// second child opens the database, checks it against that file and against the invariants, and runs
// the same script with the same request ids to its end. The agent of the second life resumes the
// session and sends its results again, or (every other time) is a new session.
//
// A life passes about 260 points. Here some 40 of them, drawn from a seed;
// LOOPWRIGHT_ALL_CRASHES=1 dies at each.
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/service_life.h"
#include "tests/support/program.h"
#include "tuner_db/sql/crash_point.h"

namespace lw {
namespace {

constexpr int kSample = 40;

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// ---- what must be there -------------------------------------------------------------------------

// Says what is wrong and fails, in a child that has looked at the database.
void expect_acknowledged(const Scratch& scratch) {
  const auto database = *open_sqlite(scratch.file, {});
  const std::unique_ptr<Store> store = make_store(database);
  std::vector<std::string> wrong = defects_of(*database, *store);
  for (const std::string& line : lines_of(scratch.directory + "/acknowledged")) {
    const size_t space = line.find(' ');
    const std::string what = line.substr(0, space);
    const std::string id = space == std::string::npos ? "" : line.substr(space + 1);
    std::string sql;
    if (what == "put") sql = "SELECT 1 FROM requests WHERE id = 'put' AND method = 'PutRecords'";
    if (what == "study") sql = "SELECT 1 FROM studies WHERE id = '" + id + "'";
    if (what == "cancelled") {
      sql = "SELECT 1 FROM studies WHERE state = 'cancelled' AND id = '" + id + "'";
    }
    if (what == "ended") {
      sql = "SELECT 1 FROM studies WHERE state = 'succeeded' AND id = '" + id + "'";
    }
    if (what == "stored") {
      const size_t epoch = id.find(' ');
      sql = concat("SELECT 1 FROM jobs WHERE state = 'done' AND id = ", id.substr(0, epoch),
                   " AND epoch = ", id.substr(epoch + 1));
    }
    if (sql.empty()) sql = concat("SELECT 1 FROM requests WHERE id = '", what, "'");
    if (column(*database, sql).size() != 1) wrong.push_back("acknowledged, but not there: " + line);
  }
  for (const std::string& line : wrong) std::fprintf(stderr, "  %s\n", line.c_str());
  _exit(wrong.empty() ? 0 : 1);
}

// The same end, whatever happened on the way.
void expect_ended(const Scratch& scratch) {
  const auto database = *open_sqlite(scratch.file, {});
  EXPECT_THAT(column(*database, "SELECT state FROM studies ORDER BY state"),
              testing::ElementsAre("cancelled", "succeeded"));
  EXPECT_THAT(column(*database, "SELECT trials FROM studies WHERE state = 'succeeded'"),
              testing::ElementsAre(std::to_string(kLifeTrials)));
  EXPECT_THAT(column(*database, "SELECT admission FROM devices ORDER BY id"),
              testing::ElementsAre("open", "open"));
  EXPECT_THAT(column(*database, "SELECT count(*) FROM candidates c JOIN keys k ON k.id = c.key "
                                "JOIN workloads w ON w.id = k.workload WHERE w.source_words = "
                                "'matmul M=128'"), testing::ElementsAre("3"));
  if (testing::Test::HasFailure()) _exit(1);
}

Life life(const Scratch& scratch, bool resumes) {
  return Life(scratch.file, scratch.directory, resumes);
}

int in_child(const std::function<void()>& body) {
  const int status = wait_for(child(body));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int64_t count_points() {
  Scratch scratch;
  const int code = in_child([&] {
    set_crash_point(int64_t{1} << 60);
    life(scratch, true).run();
    std::ofstream(scratch.directory + "/points") << crash_points_passed();
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(in_child([&] { expect_acknowledged(scratch); }), 0);
  EXPECT_EQ(in_child([&] { expect_ended(scratch); }), 0);
  int64_t points = 0;
  std::ifstream(scratch.directory + "/points") >> points;
  return points;
}

// Whether the life came to point `n`.
bool dies_at(int64_t n) {
  SCOPED_TRACE(absl::StrCat("crash point ", n));
  Scratch scratch;
  const int code = in_child([&] {
    set_crash_point(n);
    life(scratch, true).run();
  });
  EXPECT_TRUE(code == kCrashed || code == 0) << code;
  EXPECT_EQ(in_child([&] { expect_acknowledged(scratch); }), 0);
  EXPECT_EQ(in_child([&] { life(scratch, n % 2 == 0).run(); }), 0);
  EXPECT_EQ(in_child([&] { expect_acknowledged(scratch); }), 0);
  EXPECT_EQ(in_child([&] { expect_ended(scratch); }), 0);
  return code == kCrashed;
}

TEST(ServiceCrash, LosesNothingAtAnyPoint) {
  const int64_t points = count_points();
  ASSERT_GT(points, 100);
  std::fprintf(stderr, "%d crash points in a life\n", static_cast<int>(points));
  if (getenv("LOOPWRIGHT_ALL_CRASHES") != nullptr) {
    int64_t n = 1;
    while (dies_at(n) && !HasFailure()) ++n;
    EXPECT_GT(n, points / 2);
    return;
  }
  Rng rng(20261121);
  const int parts = rounds_of(kSample);
  for (int i = 0; i < parts && !HasFailure(); ++i) {
    // One from each of equal parts, so that no stretch of the script is left out.
    dies_at(1 + points * i / parts + rng.below(std::max<int64_t>(1, points / parts)));
  }
}

TEST(ServiceCrash, TwiceInARow) {
  Rng rng(7);
  const int64_t points = count_points();
  // A third death in the beginning of a study would rightly be blamed on it.
  for (int i = 0; i < rounds_of(9) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    Scratch scratch;
    for (int death = 0; death < 2; ++death) {
      const int64_t at = 1 + rng.below(points);
      const int code = in_child([&] {
        set_crash_point(at);
        life(scratch, death % 2 == 0).run();
      });
      EXPECT_TRUE(code == kCrashed || code == 0) << code;
      EXPECT_EQ(in_child([&] { expect_acknowledged(scratch); }), 0);
    }
    EXPECT_EQ(in_child([&] { life(scratch, true).run(); }), 0);
    EXPECT_EQ(in_child([&] { expect_ended(scratch); }), 0);
  }
}

}  // namespace
}  // namespace lw
