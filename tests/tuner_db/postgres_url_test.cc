// What is said about a PostgreSQL address before anybody is called.
#include "tuner_db/postgres/postgres_url.h"

#include <stdlib.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tuner_db/sql/database.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PostgresUrl, AnotherMachineHasToProveItself) {
  for (const char* fine :
       {"postgres:///loopwright", "postgres://u@localhost/x", "postgres://u@127.0.0.1:5433/x",
        "postgres://u@[::1]/x", "postgresql:///x?host=/run/postgresql",
        "postgres://u@localhost,127.0.0.2/x",
        "postgres://u@db.example/x?sslmode=verify-full&sslrootcert=ca.pem"}) {
    EXPECT_TRUE(check_postgres_transport(fine).ok()) << fine;
  }
  for (const char* refused :
       {"postgres://u:secret@db.example/x", "postgres://u@10.0.0.1/x?sslmode=require",
        "postgres://u@db.example/x?sslmode=verify-ca", "postgres://u@localhost,db.example/x",
        "postgres://u@localhost/x?hostaddr=10.0.0.1", "postgres://u@localhost.example/x",
        "postgres:///x?service=production"}) {
    const absl::Status status = check_postgres_transport(refused);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_THAT(std::string(status.message()), HasSubstr("?sslmode=verify-full&sslrootcert="));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--insecure-database"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
  // libpq's variables count as it counts them.
  setenv("PGHOST", "db.example", 1);
  EXPECT_FALSE(check_postgres_transport("postgres:///x").ok());
  setenv("PGSSLMODE", "verify-full", 1);
  EXPECT_TRUE(check_postgres_transport("postgres:///x").ok());
  unsetenv("PGHOST");
  unsetenv("PGSSLMODE");
}

// Nobody is called before that: what would answer there is not asked.
TEST(PostgresUrl, OpeningRefusesWhatProvesNothing) {
  const absl::Status status = open_database("postgres://u@192.0.2.1/x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(PostgresUrl, LibpqsReasonIsSaid) {
  DatabaseOptions options;
  options.patience_s = 2;
  const absl::Status absent = open_database("postgres://u@127.0.0.1:1/x", options).status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kUnavailable) << absent;
  EXPECT_THAT(std::string(absent.message()), HasSubstr("Connection refused"));
}

TEST(PostgresUrl, PasswordsAreFound) {
  EXPECT_TRUE(holds_password("postgres://u:secret@h/x"));
  EXPECT_TRUE(holds_password("postgresql://u@h/x?password=secret"));
  EXPECT_FALSE(holds_password("postgres://u@h/x"));
  EXPECT_FALSE(holds_password("loopwright.db"));
  EXPECT_FALSE(holds_password("http://u:secret@h/x"));
  EXPECT_EQ(*postgres_name("postgres://u:secret@h:5433/x"), "postgresql://u@h:5433/x");
}

TEST(PostgresUrl, VersionsWithTheAnomalyAreRefused) {
  EXPECT_TRUE(check_postgres_version(120004, "x").ok());
  EXPECT_TRUE(check_postgres_version(150003, "x").ok());
  for (const int old : {90624, 110000, 120000, 120003}) {
    EXPECT_EQ(check_postgres_version(old, "x").code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_THAT(std::string(check_postgres_version(120003, "x").message()), HasSubstr("12.3"));
}

}  // namespace
}  // namespace lw
