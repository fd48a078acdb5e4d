// A program that links no PostgreSQL opens files, and says of a server's address what it lacks.
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tuner_db/store.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

TEST(Files, HasNoPostgres) {
  for (const char* url : {"postgres://user@host/name", "postgresql:///name"}) {
    const absl::Status status = open_store(url).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << url;
    EXPECT_THAT(status.message(), HasSubstr("this build has no PostgreSQL"));
  }
  EXPECT_EQ(open_store("mysql://host/name").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Files, OpensFiles) {
  const std::string file = testing::TempDir() + "/files.db";
  std::filesystem::remove(file);
  EXPECT_TRUE(open_store(file).ok());
  EXPECT_TRUE(std::filesystem::remove(file));
}

}  // namespace
}  // namespace lw
