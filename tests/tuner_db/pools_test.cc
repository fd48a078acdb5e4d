// What the database derives of measurements, on both kinds of database.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/postgres_fixture.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/sql/database.h"

namespace lw {
namespace {

class Pools : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (url_.empty()) GTEST_SKIP() << "PostgreSQL is not installed";
    database_ = *open_database(url_);
    store_ = make_store(database_);
    key_ = put_key(*store_);
  }
  std::string place() {
    if (GetParam() == std::string("sqlite")) return scratch_.file;
    PostgresCluster* cluster = PostgresCluster::get();
    return cluster == nullptr ? "" : cluster->fresh();
  }
  void append(Measurement m) {
    std::vector<Measurement> batch = {std::move(m)};
    ASSERT_TRUE(store_->append(key_, batch).ok());
  }
  int64_t number(const std::string& sql) {
    int64_t value = -1;
    CHECK(database_->read(5, [&](Transaction& tx) {
      Query query = tx.query(sql);
      if (query.next()) value = query.integer(0);
      return query.status();
    }).ok());
    return value;
  }
  int64_t revision() { return number("SELECT revision FROM keys"); }

  Scratch scratch_;
  std::string url_ = place();
  std::shared_ptr<Database> database_;
  std::unique_ptr<Store> store_;
  Key key_;
};
INSTANTIATE_TEST_SUITE_P(All, Pools, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Pools, TheRevisionMovesWithWhatIsGivenOut) {
  Measurement unverified = make_measurement(1, {10, 11});
  unverified.verified = false;
  append(unverified);
  append(make_failure(2, Verdict::kCrash));
  EXPECT_EQ(revision(), 0);
  EXPECT_EQ(number("SELECT changed_ms FROM keys"), 0);

  const int64_t before_ms = *database_->server_ms();
  append(make_measurement(1, {10, 12}));
  EXPECT_EQ(revision(), 1);
  const int64_t changed_ms = number("SELECT changed_ms FROM keys");
  EXPECT_GE(changed_ms, before_ms - 1);
  EXPECT_LE(changed_ms, *database_->server_ms() + 1);
  append(make_measurement(3, {20, 21}));                    // may be the second best
  EXPECT_EQ(revision(), 2);
  append(make_failure(1, Verdict::kWrongResult));
  EXPECT_EQ(revision(), 3);
  append(make_failure(1, Verdict::kWrongResult));           // it is out already
  EXPECT_EQ(revision(), 3);

  Withdrawal withdrawal;
  withdrawal.key = key_, withdrawal.trace = make_trace(3), withdrawal.actor = "admin/a";
  ASSERT_TRUE(store_->withdraw(withdrawal).ok());
  EXPECT_EQ(revision(), 4);
  ASSERT_TRUE(store_->restore(key_, make_trace(3)).ok());
  EXPECT_EQ(revision(), 5);
  ASSERT_TRUE(store_->prune(1, 0).ok());                    // nothing to delete but trace 1's
  EXPECT_EQ(revision(), 6);
}

// Old rows that cannot be read show who reads them.
TEST_P(Pools, APutReadsNothingOfItsKeysHistory) {
  Measurement first = make_measurement(1, {10, 11});
  append(first);
  append(make_measurement(2, {12, 13}));
  ASSERT_TRUE(database_->write(60, [&](WriteTransaction& tx) {
    return tx.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
        "INSERT INTO measurements (candidate, kernel_hash, verdict, detail, samples_us, \"inner\", "
        "time_us, ci_low_us, ci_high_us, verified, max_rel_error, wall_s, build_s, seed, source, "
        "environment, unix_ms, digest) SELECT c.id, 0, 'garbled', '', m.samples_us, 1, 10 + i, 10, "
        "90, 1, 0, 0, 0, 7, 'evolve', '', i, CASE WHEN i > 50000 THEN 'd' || i ELSE '' END "
        "FROM n, candidates c JOIN measurements m ON m.candidate = c.id WHERE c.trace = 'split(C, "
        "i; 2, 6, 0)\n'");
  }).ok());
  ASSERT_EQ(number("SELECT count(*) FROM measurements"), 100'002);
  EXPECT_FALSE(store_->measurements(key_).ok());

  Measurement hint = make_measurement(2, {12, 14});         // of the trace with the history
  hint.counts = false;
  std::vector<Measurement> batch = {first, hint, make_measurement(1, {10, 12}),
                                    make_measurement(3, {1, 2})};
  int64_t stored = 0;
  const absl::Status put = store_->put(key_, batch, &stored);
  EXPECT_TRUE(put.ok()) << put;
  EXPECT_EQ(stored, 3);
  EXPECT_EQ(store_->best(key_)->measurement.time_us, 1.5);
}

TEST_P(Pools, AMeasurementOfAnOlderVersionIsFoundByWhatItHolds) {
  append(make_measurement(1, {10, 11}));
  ASSERT_TRUE(database_->write(5, [&](WriteTransaction& tx) {
    return tx.run("UPDATE measurements SET digest = ''");
  }).ok());
  std::vector<Measurement> batch = {make_measurement(1, {10, 11}), make_measurement(1, {10, 11.5})};
  int64_t stored = 0;
  ASSERT_TRUE(store_->put(key_, batch, &stored).ok());
  EXPECT_EQ(stored, 1);
  EXPECT_EQ(number("SELECT count(*) FROM measurements WHERE digest = ''"), 0);
}

}  // namespace
}  // namespace lw
