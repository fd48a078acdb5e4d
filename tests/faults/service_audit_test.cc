// Whose a study is, who sees programs, and what the audit log says of whom.
#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/v1/fleet.pb.h"
#include "src/api/task.h"
#include "src/serve/core/calls.h"
#include "tests/support/fault_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Caller caller(CallerRole role, const std::string& name) {
  return {Identity{role, name, true}, "ipv4:192.0.2.1:4000", {}, {}};
}
const Caller kCi = caller(CallerRole::kClient, "ci");
const Caller kOther = caller(CallerRole::kClient, "nightly");
const Caller kReader = caller(CallerRole::kReader, "ci");  // the name of another's, another role
const Caller kAdmin = caller(CallerRole::kAdmin, "ci");

class ServiceAudit : public ::testing::Test {
 protected:
  std::string create(const Caller& who, const std::string& request_id) {
    v1::CreateStudyRequest request;
    request.set_request_id(request_id);
    *request.mutable_spec() = small_study(8);
    google::longrunning::Operation operation;
    const absl::Status status = service_->studies.create_study(who, request, &operation);
    EXPECT_TRUE(status.ok()) << status;
    return study_name(id_of(operation.name()));
  }
  std::string program_shown(const Caller& who, const std::string& name) {
    v1::GetStudyRequest request;
    request.set_name(name);
    request.set_full(true);
    v1::Study study;
    const absl::Status status = service_->studies.get_study(who, request, &study);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(study.spec().workloads(0).source_words(), "matmul M=16 N=16 K=16");
    return study.spec().workloads(0).program();
  }
  absl::Status cancel(const Caller& who, const std::string& name) {
    v1::CancelStudyRequest request;
    request.set_request_id(concat("cancel ", identity_text(who.identity)));
    request.set_name(name);
    v1::Study study;
    return service_->studies.cancel_study(who, request, &study);
  }
  // The newest first.
  std::vector<v1::AuditEntry> audit() {
    v1::ListAuditResponse response;
    const absl::Status status =
        service_->fleet.list_audit(local_caller(), v1::ListAuditRequest(), &response);
    EXPECT_TRUE(status.ok()) << status;
    return {response.entries().begin(), response.entries().end()};
  }
  int64_t exported_programs(const Caller& who) {
    v1::ExportRecordsResponse response;
    ExportCursor start;
    const absl::Status cursor = service_->schedules.export_some(who, false, &start, &response);
    EXPECT_TRUE(cursor.ok()) << cursor;
    EXPECT_EQ(response.records_size(), 1);
    return std::count_if(
        response.records().begin(), response.records().end(),
        [](const v1::Record& record) { return !record.workload().canonical_text().empty(); });
  }

  Scratch scratch_;
  std::atomic<int64_t> clock_ms_{1000};
  std::unique_ptr<Service> service_ = [this] {
    ServiceOptions options = quick_service();
    options.search = false;
    options.monotonic_ms = [this] { return clock_ms_.load(); };
    return *Service::start(*open_sqlite(scratch_.file, {}), options);
  }();
};

TEST_F(ServiceAudit, AStudyIsDeletedByWhoMadeItAndByAdmins) {
  const auto erase = [&](const Caller& who, const std::string& study) {
    google::longrunning::DeleteOperationRequest request;
    google::protobuf::Empty nothing;
    request.set_name(operation_name(id_of(study)));
    return service_->studies.delete_operation(who, request, &nothing);
  };
  const std::string first = create(kCi, "first"), second = create(kCi, "second");
  for (const std::string& study : {first, second}) {
    v1::CancelStudyRequest request;
    v1::Study ended;
    request.set_request_id(study);
    request.set_name(study);
    ASSERT_TRUE(service_->studies.cancel_study(kCi, request, &ended).ok());
  }
  const size_t lines = audit().size();
  for (const Caller& other : {kOther, kReader}) {
    EXPECT_EQ(reason_of(erase(other, first)), v1::ERROR_REASON_ROLE_DENIED);
  }
  EXPECT_EQ(audit().size(), lines) << "what is refused is written by who answers the call";
  EXPECT_TRUE(erase(kCi, first).ok());
  EXPECT_TRUE(erase(kAdmin, second).ok());
  const std::vector<v1::AuditEntry> after = audit();
  ASSERT_EQ(after.size(), lines + 2);
  EXPECT_EQ(after[0].actor(), "admin/ci");
  EXPECT_EQ(after[0].subject(), second);
  EXPECT_EQ(after[1].actor(), "client/ci");
  EXPECT_EQ(after[1].method(), "DeleteOperation");
}

TEST_F(ServiceAudit, ProgramsAreShownToWhoMadeTheStudyAndToAdmins) {
  const std::string name = create(kCi, "1");
  EXPECT_THAT(program_shown(kCi, name), HasSubstr("op "));
  EXPECT_THAT(program_shown(kAdmin, name), HasSubstr("op "));
  EXPECT_THAT(program_shown(local_caller(), name), HasSubstr("op "));
  EXPECT_EQ(program_shown(kOther, name), "");
  EXPECT_EQ(program_shown(kReader, name), "");
}

TEST_F(ServiceAudit, ExportsHoldTheProgramsOfOnesOwnStudies) {
  create(kCi, "1");
  const Task task = *make_task({"matmul", "M=16", "N=16", "K=16"}, {.target = "x86_avx2"});
  v1::PutRecordsRequest put;
  put.set_request_id("2");
  v1::Record& record = *put.add_records();
  *record.mutable_workload() = to_proto(task.workload());
  *record.mutable_target() = to_proto(*task.target());
  *record.mutable_key() = to_proto(task.key());
  *record.mutable_measurement() = to_proto(make_measurement(1, {10, 10, 10}));
  v1::PutRecordsResponse stored;
  const absl::Status status = service_->schedules.put_records(local_caller(), put, &stored);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(exported_programs(kCi), 1);
  EXPECT_EQ(exported_programs(kAdmin), 1);
  EXPECT_EQ(exported_programs(kOther), 0);
  EXPECT_EQ(exported_programs(kReader), 0);
  EXPECT_THAT(audit()[0].subject(), HasSubstr(concat("1 records from ", task.key().workload)));
}

TEST_F(ServiceAudit, AStudyIsOfARoleAndAName) {
  const std::string admins = create(kAdmin, "1");
  EXPECT_EQ(reason_of(cancel(kCi, admins)), v1::ERROR_REASON_ROLE_DENIED);
  EXPECT_EQ(program_shown(kCi, admins), "");
  const std::string clients = create(kCi, "2");
  EXPECT_TRUE(cancel(kCi, clients).ok());
  EXPECT_TRUE(cancel(kAdmin, admins).ok());
  // An older study has its client's name alone.
  EXPECT_TRUE(owns_study(kCi.identity, "", "ci"));
  EXPECT_FALSE(owns_study(kReader.identity, "", "ci"));
  EXPECT_FALSE(owns_study(kOther.identity, "", "ci"));
}

TEST_F(ServiceAudit, WhatChangesSomethingIsALineOfItsOwnTransaction) {
  const std::string name = create(kCi, "1");
  // There with the answer, not behind it.
  std::vector<v1::AuditEntry> entries = audit();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].actor(), "client/ci");
  EXPECT_EQ(entries[0].peer(), "ipv4:192.0.2.1:4000");
  EXPECT_EQ(entries[0].subject(), name);
  EXPECT_EQ(entries[0].outcome(), "OK");
  EXPECT_EQ(entries[0].count(), 1);
  create(kCi, "1");                        // the same request changes nothing
  EXPECT_EQ(audit().size(), 1u);
  ASSERT_TRUE(cancel(kCi, name).ok());
  EXPECT_EQ(audit()[0].subject(), name);

  v1::BackupDatabaseRequest request;
  request.set_request_id("b");
  v1::BackupDatabaseResponse response;
  const absl::Status status = service_->fleet.backup_database(kAdmin, request, &response);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(audit()[0].subject(), response.file());

  google::longrunning::CancelOperationRequest end;
  end.set_name(operation_name(id_of(create(kCi, "3"))));
  google::protobuf::Empty nothing;
  ASSERT_TRUE(service_->studies.cancel_operation(kCi, end, &nothing).ok());
  EXPECT_EQ(audit()[0].subject(), end.name());
}

TEST_F(ServiceAudit, RefusalsOfAMinuteAreOneLineWithACount) {
  const absl::Status denied = authorize(kReader.identity,
                                        "/loopwright.v1.TuningService/CreateStudy");
  const auto refuse = [&](const Caller& who, int times) {
    for (int i = 0; i < times; ++i) {
      note_refusal(*service_->core, who, "/loopwright.v1.TuningService/CreateStudy", concat(i),
                   denied);
    }
  };
  const auto until = [&](const std::function<bool()>& holds) {
    for (int i = 0; i < kPatienceMs / 10 && !holds(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return holds();
  };
  refuse(kReader, 10'000);
  refuse(kOther, 1);
  ASSERT_TRUE(until([&] { return audit().size() == 2; }));
  EXPECT_EQ(audit()[1].subject(), "0");
  EXPECT_EQ(audit()[1].outcome(), "PERMISSION_DENIED ROLE_DENIED");
  clock_ms_ += 61'000;
  EXPECT_TRUE(until([&] { return audit()[1].count() == 10'000; })) << audit()[1].count();
  EXPECT_EQ(audit()[0].count(), 1);
  refuse(kReader, 2);                      // another minute
  ASSERT_TRUE(until([&] { return audit().size() == 3; }));
  service_.reset();                        // what is counted is written at the end
  service_ = *Service::start(*open_sqlite(scratch_.file, {}), quick_service());
  EXPECT_EQ(audit()[0].count(), 2);
  EXPECT_THAT(audit()[0].actor(), StartsWith("reader/"));
}

}  // namespace
}  // namespace lw
