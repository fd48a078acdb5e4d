// What tests of whole studies ask a daemon, and read off its database.
#pragma once

#include <string>

#include "schedules/targets/target.h"
#include "tests/support/daemon_fixture.h"
#include "tuner_db/messages/messages.h"

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
  static Caller caller(CallerRole role, const std::string& name) {
    Caller made;
    made.identity = {role, name, true};
    made.peer = "test";
    return made;
  }
  // What a compiler is told of a key of make_target()'s,
  static v1::LookupResult look_up(Daemon& daemon, const Key& key) {
    v1::BatchLookupRequest request;
    v1::LookupQuery& query = *request.add_queries();
    query.set_workload_id(key.workload);
    *query.mutable_target() = to_proto(make_target());
    query.set_backend(key.backend);
    query.set_threads(key.threads);
    v1::BatchLookupResponse response;
    const absl::Status status = daemon.service->schedules.batch_lookup(
        caller(CallerRole::kReader, "cc"), request, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response.results(0);
  }
  // and is given, in microseconds; 0: nothing exact.
  static double served(Daemon& daemon, const Key& key) {
    const v1::LookupResult result = look_up(daemon, key);
    return result.outcome() == v1::LOOKUP_OUTCOME_EXACT ? result.measurement().time_us() : 0;
  }
  // The first column of the first row.
  static int64_t number(Database& database, const std::string& sql) {
    int64_t found = -1;
    EXPECT_TRUE(database.read(5, [&](Transaction& tx) {
      Query query = tx.query(sql);
      if (query.next()) found = query.integer(0);
      return query.status();
    }).ok());
    return found;
  }
};

}  // namespace lw
