// What tests of whole studies ask a daemon, and read off its database.
#pragma once

#include <string>

#include "tests/daemon_fixture.h"

namespace lw {

class StudyTest : public ::testing::Test {
 protected:
  // Its name.
  static std::string create(Daemon& daemon, const v1::CreateStudyRequest& request) {
    google::longrunning::Operation operation;
    const absl::Status status = Daemon::call(
        *daemon.tuning, &v1::TuningService::Stub::CreateStudy, request, &operation);
    EXPECT_TRUE(status.ok()) << status;
    return "studies" + operation.name().substr(operation.name().find('/'));
  }
  static v1::Study get(Daemon& daemon, const std::string& name) {
    v1::GetStudyRequest request;
    request.set_name(name);
    v1::Study study;
    const absl::Status status =
        Daemon::call(*daemon.tuning, &v1::TuningService::Stub::GetStudy, request, &study);
    EXPECT_TRUE(status.ok()) << status;
    return study;
  }
  // Once it has ended.
  static v1::Study finish(Daemon& daemon, const std::string& name) {
    EXPECT_TRUE(eventually([&] { return get(daemon, name).has_end_time(); })) << name;
    return get(daemon, name);
  }
  static v1::Study cancel(Daemon& daemon, const std::string& name) {
    v1::CancelStudyRequest request;
    request.set_request_id(fresh_id());
    request.set_name(name);
    v1::Study study;
    const absl::Status status =
        Daemon::call(*daemon.tuning, &v1::TuningService::Stub::CancelStudy, request, &study);
    EXPECT_TRUE(status.ok()) << status;
    return study;
  }
  // The first column of the first row.
  static int64_t number(Database& database, const std::string& sql) {
    int64_t found = -1;
    EXPECT_TRUE(database.read(5, [&] {
      Query query = database.query(sql);
      if (query.next()) found = query.integer(0);
      return query.status();
    }).ok());
    return found;
  }
};

}  // namespace lw
