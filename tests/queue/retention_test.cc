// What is over is forgotten in time, and nothing else; what is left is sound. Over SQLite and
// PostgreSQL, on a clock that is moved.
#include "src/serve/rows/retention.h"

#include "src/base/message.h"
#include "src/serve/rows/audit.h"
#include "src/serve/rows/deletion.h"
#include "tests/queue/queue_fixture.h"
#include "tuner_db/tables/usage.h"

namespace lw {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr int64_t kDay = 86'400'000;
constexpr Retention kForEver = {0, 0, 0, 0, 0, 0};

class RetentionTest : public QueueTest {
 protected:
  Forgotten count(const Retention& retention) {
    Forgotten found;
    EXPECT_TRUE(database_->read(5, [&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(found, count_forgettable(tx, retention, now_));
      return absl::OkStatus();
    }).ok());
    return found;
  }
  // All of it, in pieces of so many rows, each of which leaves a sound database: as many as were
  // announced.
  Forgotten forget(const Retention& retention, int most = 300) {
    const Forgotten announced = count(retention);
    Forgotten all;
    for (int piece = 0; piece < 10'000; ++piece) {
      int kind = -1;
      EXPECT_TRUE(database_->read(5, [&](Transaction& tx) -> absl::Status {
        ASSIGN_OR_RETURN(kind, what_to_forget(tx, retention, now_));
        return absl::OkStatus();
      }).ok());
      if (kind < 0) break;
      Forgotten gone;
      write([&](WriteTransaction& tx) {
        gone.clear();
        return forget_piece(tx, retention, kind, now_, most, &gone);
      });
      for (const auto& [what, rows] : gone) {
        EXPECT_LE(rows, most) << what;
        all[what] += rows;
      }
      EXPECT_THAT(*store_->check(), IsEmpty());
    }
    EXPECT_EQ(all, announced);
    return all;
  }

  // A study that measured so many jobs, of `candidates` each, and ended.
  std::string ended_study(int jobs = 1, int candidates = 1) {
    const std::string study = make_study("ci");
    for (int i = 0; i < jobs; ++i) queue(study, candidates);
    for (int i = 0; i < jobs; ++i) send(agent_, result_of(take_one(agent_)));
    end(study);
    return study;
  }
  void end(const std::string& study) {
    write([&](WriteTransaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(std::optional<StudyRow> row, find_study(tx, study));
      return end_study(tx, *row, v1::STUDY_STATE_SUCCEEDED, "", now_, &changes_);
    });
  }
  int64_t rows(const std::string& table, const std::string& study) {
    return number(concat("SELECT count(*) FROM ", table, " WHERE study = '", study, "'"));
  }

  Asker agent_;
};

INSTANTIATE_TEST_SUITE_P(Databases, RetentionTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RetentionTest, NothingIsForgottenThatIsToBeKeptForEver) {
  ended_study();
  write([&](WriteTransaction& tx) { return write_audit(tx, {now_, "admin/x"}); });
  now_ += 40'000 * kDay;
  EXPECT_THAT(forget(kForEver), IsEmpty());
  EXPECT_THAT(*store_->check(), IsEmpty());
}

TEST_P(RetentionTest, AuditLinesGoByTheirAge) {
  write([&](WriteTransaction& tx) -> absl::Status {
    for (int day = 0; day < 20; ++day) {
      RETURN_IF_ERROR(write_audit(tx, {now_ + day * kDay, "admin/x"}));
    }
    return absl::OkStatus();
  });
  now_ += 20 * kDay;
  Retention retention = kForEver;
  retention.audit_days = 7.5;
  EXPECT_THAT(forget(retention, 5), ElementsAre(Pair("audit", 13)));
  EXPECT_EQ(number("SELECT min(time_ms) FROM audit"), now_ - 7 * kDay);
}

TEST_P(RetentionTest, OrphansGoByTheirAge) {
  const std::string study = make_study("ci");
  for (int i = 0; i < 2; ++i) {
    queue(study);
    const v1::JobResult result = result_of(take_one(agent_));
    now_ += rules_.ttl_ms + 1;
    send(agent_, result);
    send(agent_, result_of(take_one(agent_)));
    now_ += kDay;
  }
  Retention retention = kForEver;
  retention.orphan_days = 1.5;
  EXPECT_THAT(forget(retention), ElementsAre(Pair("orphans", 1)));
  EXPECT_EQ(number("SELECT count(*) FROM orphans"), 1);
}

TEST_P(RetentionTest, PayloadsGoOfStudiesThatEndedLongAgo) {
  const std::string old = ended_study(7), running = make_study("ci");
  queue(running);
  send(agent_, result_of(take_one(agent_)));
  now_ += 2 * kDay;
  const std::string young = ended_study(2);
  queue(running);
  Retention retention = kForEver;
  retention.payload_days = 1;
  EXPECT_THAT(forget(retention, 3), ElementsAre(Pair("payloads", 7)));
  const auto kept = [&](const std::string& study) {
    return number(concat("SELECT count(*) FROM jobs WHERE length(payload) > 0 AND study = '", study,
                         "'"));
  };
  EXPECT_EQ(kept(old), 0);
  EXPECT_EQ(kept(running), 2) << "its search may be rebuilt of them";
  EXPECT_EQ(kept(young), 2);
  EXPECT_EQ(rows("jobs", old), 7) << "who measured what, and how often, stays";
  take_one(agent_);
}

TEST_P(RetentionTest, EventsGoOfStudiesThatEndedLongAgoButTheLast) {
  const std::string old = ended_study(7), running = make_study("ci");
  queue(running);
  send(agent_, result_of(take_one(agent_)));
  const int64_t all = rows("events", old);
  ASSERT_GT(all, 7);
  now_ += 2 * kDay;
  const std::string young = ended_study();
  const int64_t of_young = rows("events", young), of_running = rows("events", running);
  Retention retention = kForEver;
  retention.event_days = 1;
  EXPECT_THAT(forget(retention, 3), ElementsAre(Pair("events", all - 1)));
  EXPECT_EQ(rows("events", young), of_young);
  EXPECT_EQ(rows("events", running), of_running);
  write([&](WriteTransaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<v1::StudyEvent> left, events_after(tx, old, 0, 100));
    EXPECT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].kind(), v1::StudyEvent::KIND_ENDED);
    EXPECT_EQ(left[0].sequence(), all);
    return absl::OkStatus();
  });
}

// What was measured is of the key, and so is the text of its workload.
TEST_P(RetentionTest, StudiesGoAsAWholeWithoutWhatTheyMeasured) {
  const std::string old = ended_study(7), running = make_study("ci");
  queue(running);
  const v1::JobResult late = result_of(take_one(agent_));
  now_ += rules_.ttl_ms + 1;
  send(agent_, late);                      // an orphan of the one that runs
  const std::string idle = make_study("ci", 0, 3);  // two of its workloads nobody measured
  end(idle);
  const int64_t measured = number("SELECT count(*) FROM measurements");
  ASSERT_EQ(number("SELECT count(*) FROM workloads"), 3);
  EXPECT_EQ(number("SELECT studies FROM client_usage WHERE client = 'client/ci'"), 3);
  now_ += 2 * kDay;
  const std::string young = ended_study();
  Retention retention = kForEver;
  retention.study_days = 1;
  EXPECT_THAT(forget(retention, 3), ElementsAre(Pair("studies", 2)));
  for (const char* table : {"jobs", "events", "study_workloads"}) {
    EXPECT_EQ(rows(table, old), 0) << table;
    EXPECT_EQ(rows(table, idle), 0) << table;
    EXPECT_GT(rows(table, young), 0) << table;
    EXPECT_GT(rows(table, running), 0) << table;
  }
  EXPECT_EQ(number("SELECT count(*) FROM studies"), 2);
  EXPECT_EQ(number("SELECT count(*) FROM orphans"), 1);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), measured + 1);
  EXPECT_EQ(number("SELECT count(*) FROM workloads"), 1) << "of the measured one";
  EXPECT_EQ(number("SELECT studies FROM client_usage WHERE client = 'client/ci'"), 2);
}

// Its events and payloads go with it, and are announced as nothing else.
TEST_P(RetentionTest, WhatADeletedStudyHadIsCountedOnce) {
  const std::string deleted = ended_study(7), old = ended_study(2);
  write([&](WriteTransaction& tx) { return mark_deleted(tx, deleted); });
  const int64_t events = rows("events", old);
  now_ += 2 * kDay;
  Retention retention = kForEver;
  retention.event_days = retention.payload_days = 1;
  EXPECT_THAT(forget(retention),
              UnorderedElementsAre(Pair("studies", 1), Pair("events", events - 1),
                                   Pair("payloads", 2)));
}

TEST_P(RetentionTest, AStudyThatIsDeletedIsSeenByNobodyWhileItsRowsGo) {
  const std::string study = ended_study(7);
  write([&](WriteTransaction& tx) { return mark_deleted(tx, study); });
  const auto is_there = [&] {
    bool found = true;
    write([&](WriteTransaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const std::optional<StudyRow> row, find_study(tx, study));
      ASSIGN_OR_RETURN(const auto all, select_studies(tx, "", {}));
      ASSIGN_OR_RETURN(const auto listed, list_studies(tx, {}, now_));
      found = row.has_value() || !all.empty() || listed.studies_size() > 0;
      return absl::OkStatus();
    });
    return found;
  };
  EXPECT_FALSE(is_there());
  EXPECT_EQ(rows("jobs", study), 7);
  EXPECT_THAT(*store_->check(), IsEmpty());
  bool over = false;
  for (int piece = 0; piece < 100 && !over; ++piece) {
    write([&](WriteTransaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(over, delete_piece(tx, study, 3));
      return absl::OkStatus();
    });
    EXPECT_FALSE(is_there());
    EXPECT_THAT(*store_->check(), IsEmpty());
  }
  EXPECT_TRUE(over);
  EXPECT_EQ(rows("jobs", study) + rows("events", study) + rows("study_workloads", study), 0);
}

TEST_P(RetentionTest, DevicesAndAgentsGoThatNobodyHasSeen) {
  const std::string study = make_study("ci");
  queue(study);
  Asker holder{.agent = "holder", .devices = {"h"}}, gone{.agent = "gone", .devices = {"g", "g2"}},
      closed{.agent = "closed", .devices = {"c", "c2"}}, here{.agent = "here", .devices = {"i"}};
  take_one(holder);
  for (Asker* asker : {&gone, &closed, &here}) take(*asker, 0);
  write([&](WriteTransaction& tx) -> absl::Status {
    RETURN_IF_ERROR(tx.query("UPDATE devices SET admission = 'quarantined', reason = 'hot' "
                             "WHERE id = 'c'").run());
    // A lease that nobody has looked at for long.
    return tx.query("UPDATE jobs SET lease_until = ?", now_ + 100 * kDay).run();
  });
  now_ += 10 * kDay;
  take(here, 0);
  Retention retention = kForEver;
  retention.device_days = 9;
  EXPECT_THAT(forget(retention, 1), ElementsAre(Pair("agents", 1), Pair("devices", 3)));
  EXPECT_EQ(text("SELECT id FROM devices WHERE agent = 'closed'"), "c");
  EXPECT_EQ(number("SELECT count(*) FROM devices"), 3);
  EXPECT_EQ(number("SELECT count(*) FROM agents WHERE id = 'gone'"), 0);
  take(gone, 0);
  EXPECT_EQ(device("g").agent, "gone") << "it may come back";
}

}  // namespace
}  // namespace lw
